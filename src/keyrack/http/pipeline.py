"""The request pipeline: all steps of a request, in their order.

The order is part of the API and of its security. A caller learns nothing about a body before the key is checked, and
nothing about an id before the permission is. docs/spec-notes.md has the order, and tests/http enforce it. Each step has
the condition under which a row needs it. `compose` chooses a row's steps once, at startup.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import falcon.asgi

from keyrack.api.auth_schemes import AppAuth, DeviceAuth
from keyrack.api.endpoint import Endpoint, FormBody, JsonBody, OptionalBody, RawBody
from keyrack.api.event_stream import EVENTS
from keyrack.api.exchange import Request, Response
from keyrack.http.authentication_steps import AUTHENTICATION, authenticate, needs_caller
from keyrack.http.await_outcomes import await_outcomes
from keyrack.http.calls import BoundEndpoint, Call, HttpCall
from keyrack.http.perform_steps import (
    answer_dry_run,
    check_query,
    check_representation,
    confirm_read,
    notify_changes,
    prepare,
    raise_minimum_position,
    replay_or_store,
    restrict_to_group_scope,
    retry_deadlocks,
    run_handler,
    serialise,
    serialise_if_compared,
    show_result,
)
from keyrack.http.read_position import choose_server, parse_position, report_position
from keyrack.http.receive_steps import (
    allow_following,
    build_request,
    choose_return,
    confirm_primary,
    negotiate_media_type,
    parse_form,
    prove_primary,
    read_body,
    read_conditions,
    read_idempotency_key,
    read_if_match,
    read_lines,
    read_optional_body,
    read_preferences,
    read_wait,
    register_stream,
    reject_conditions,
    reserve_ingest_memory,
    validate_batch,
    validate_body,
)
from keyrack.http.request_mode import choose_mode, has_mode
from keyrack.http.request_state import RequestState
from keyrack.http.server_process import ServerProcess
from keyrack.http.steps import CheckStep, WrapperStep, compose, select_steps


def reads(row: Endpoint[Any]) -> bool:
    return row.method == "GET"


def writes(row: Endpoint[Any]) -> bool:
    return row.method != "GET"


def has_body(row: Endpoint[Any]) -> bool:
    return row.body is not None


def can_represent(row: Endpoint[Any]) -> bool:
    """Whether it can respond with what it has written."""
    return row.responses.representation is not None


def is_followed(row: Endpoint[Any]) -> bool:
    """Whether the response may wait for changes, or never end."""
    return row.responses.media_type == EVENTS or row.has_long_poll


def may_wait(row: Endpoint[Any]) -> bool:
    """Whether the response may wait for the outcomes of operations."""
    return row.awaited is not None


def writes_to_customer(row: Endpoint[Any]) -> bool:
    return writes(row) and (row.auth.has_customer or isinstance(row.auth, AppAuth | DeviceAuth))


# From a client's request to a `Request`
RECEIVE: tuple[CheckStep[HttpCall] | WrapperStep[HttpCall], ...] = (
    WrapperStep(reserve_ingest_memory, lambda row: isinstance(row.body, RawBody)),
    CheckStep(prove_primary, needs_caller),
    CheckStep(authenticate),
    CheckStep(choose_mode, has_mode),
    CheckStep(read_conditions, reads),
    CheckStep(read_if_match, lambda row: writes(row) and row.concurrency.if_match is not None),
    CheckStep(reject_conditions, lambda row: writes(row) and row.concurrency.if_match is None),
    CheckStep(read_preferences, lambda row: has_mode(row) or row.body is not None),
    CheckStep(choose_return, can_represent),
    CheckStep(read_wait, may_wait),
    CheckStep(read_body, lambda row: isinstance(row.body, JsonBody | FormBody)),
    CheckStep(read_lines, lambda row: isinstance(row.body, RawBody)),
    CheckStep(read_optional_body, lambda row: isinstance(row.body, OptionalBody)),
    CheckStep(authenticate, has_body),  # the caller may have lost its access while the body arrived
    CheckStep(parse_form, lambda row: isinstance(row.body, FormBody)),
    CheckStep(validate_body, lambda row: isinstance(row.body, JsonBody) and not row.body.has_item_checks),
    CheckStep(validate_batch, lambda row: isinstance(row.body, JsonBody) and row.body.has_item_checks),
    CheckStep(read_idempotency_key, lambda row: row.has_idempotency_key),
    CheckStep(negotiate_media_type, lambda row: bool(row.responses.alternative)),
    CheckStep(allow_following, lambda row: is_followed(row) or may_wait(row)),
    CheckStep(build_request),
    CheckStep(confirm_primary, needs_caller),
    CheckStep(parse_position, lambda row: row.auth.has_customer),
    WrapperStep(register_stream, is_followed),
    WrapperStep(choose_server, lambda row: reads(row) and needs_caller(row)),
    WrapperStep(report_position, lambda row: writes(row) and needs_caller(row)),
    WrapperStep(await_outcomes, may_wait),
)
# From a `Request` to its response; in-process calls begin here
PERFORM: tuple[CheckStep[Call] | WrapperStep[Call], ...] = (
    CheckStep(prove_primary, needs_caller),
    CheckStep(check_query, lambda row: row.read is None and not (row.query_parameters or row.has_own_query_check)),
    CheckStep(check_representation, can_represent),
    CheckStep(restrict_to_group_scope, lambda row: row.has_scoped_request),
    CheckStep(prepare, lambda row: row.prepare is not None),
    WrapperStep(confirm_read, lambda row: reads(row) and needs_caller(row)),
    WrapperStep(retry_deadlocks),
    WrapperStep(raise_minimum_position, writes_to_customer),
    WrapperStep(answer_dry_run, writes),
    WrapperStep(notify_changes, writes_to_customer),
    WrapperStep(serialise, lambda row: row.concurrency.serialized == "always"),
    WrapperStep(serialise_if_compared, lambda row: row.concurrency.serialized == "with-if-match"),
    WrapperStep(replay_or_store, lambda row: row.has_idempotency_key),
    WrapperStep(show_result, can_represent),
)


def step_names(row: Endpoint[Any] | None = None) -> list[str]:
    """The names of all steps in their order, or of those that a row needs."""
    if row is None:
        return [step.name for step in (*RECEIVE, *PERFORM)]
    return [step.name for step in (*select_steps(RECEIVE, row), *select_steps(PERFORM, row))]


class RequestPipeline:
    """The endpoints of one process with their steps."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server

    def add(self, row: Endpoint[Any]) -> BoundEndpoint:
        """Choose the steps of a row. The server looks up its parts as soon as it has opened them."""
        perform = compose(PERFORM, row, run_handler)
        receive = compose(RECEIVE, row, perform)
        authentication = tuple(step.run for step in AUTHENTICATION if step.when(row))
        route = BoundEndpoint(row, receive, perform, authentication)
        self._server.routes.append(route)
        return route

    async def serve(
        self, http: falcon.asgi.Request, state: RequestState, route: BoundEndpoint, params: Mapping[str, str]
    ) -> Response:
        """Answer one request of a client. Raises `Refusal`."""
        services = self._server.services
        return await route.receive(HttpCall(route=route, services=services, http=http, state=state, params=params))

    async def perform(self, route: BoundEndpoint, request: Request, value: Any, key: str | None) -> Response:
        """Answer a call from within the process: `value` is its validated body, `key` its Idempotency-Key.

        Raises `Refusal`.
        """
        call = Call(route=route, services=self._server.services, request=request, value=value)
        call.idempotency_key = key if route.endpoint.has_idempotency_key else None
        return await route.perform(call)
