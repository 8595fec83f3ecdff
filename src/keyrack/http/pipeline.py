"""The request pipeline: all steps of a request, in their order.

The order is part of the API and of its security: a caller learns nothing about a body before the key is checked, and
nothing about an id before the permission is. docs/decisions.md gives the reasons, and tests/http hold it. Each step has
the condition under which a row needs it. `compose` chooses a row's steps once, at startup.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import falcon.asgi

from keyrack.api.endpoint import Endpoint
from keyrack.api.event_stream import EVENTS
from keyrack.api.exchange import Request, Response
from keyrack.http.authentication_steps import AUTHENTICATION, authenticate, needs_caller
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
    read_preferences,
    register_stream,
    reject_conditions,
    reserve_ingest_memory,
    validate_batch,
    validate_body,
)
from keyrack.http.request_state import request_state
from keyrack.http.server_process import ServerProcess
from keyrack.http.steps import CheckStep, WrapperStep, chosen, compose


def reads(row: Endpoint) -> bool:
    return row.method == "GET"


def writes(row: Endpoint) -> bool:
    return row.method != "GET"


def has_body(row: Endpoint) -> bool:
    return row.body is not None or row.raw


def has_json(row: Endpoint) -> bool:
    return row.body is not None and row.form is None


def is_followed(row: Endpoint) -> bool:
    """Whether the answer may wait for what comes, or have no end."""
    return row.media_type == EVENTS or row.follows


def writes_to_customer(row: Endpoint) -> bool:
    return writes(row) and (row.customer or row.app or row.device is not None)


# From what a client has sent to a `Request`
RECEIVE: tuple[CheckStep[HttpCall] | WrapperStep[HttpCall], ...] = (
    WrapperStep(reserve_ingest_memory, lambda row: row.raw),
    CheckStep(prove_primary, needs_caller),
    CheckStep(authenticate),
    CheckStep(read_conditions, reads),
    CheckStep(read_if_match, lambda row: writes(row) and row.compares is not None),
    CheckStep(reject_conditions, lambda row: writes(row) and row.compares is None),
    CheckStep(read_preferences, lambda row: row.body is not None or row.shows is not None),
    CheckStep(choose_return, lambda row: row.shows is not None),
    CheckStep(read_body, lambda row: has_body(row) and not row.raw),
    CheckStep(read_lines, lambda row: row.raw),
    CheckStep(authenticate, has_body),  # the caller may have lost its access while the body arrived
    CheckStep(parse_form, lambda row: row.form is not None),
    CheckStep(validate_body, lambda row: has_json(row) and not row.checks_items),
    CheckStep(validate_batch, lambda row: has_json(row) and row.checks_items),
    CheckStep(read_idempotency_key, lambda row: row.repeatable),
    CheckStep(negotiate_media_type, lambda row: bool(row.also)),
    CheckStep(allow_following, is_followed),
    CheckStep(build_request),
    CheckStep(confirm_primary, needs_caller),
    CheckStep(parse_position, lambda row: row.customer),
    WrapperStep(register_stream, is_followed),
    WrapperStep(choose_server, lambda row: reads(row) and needs_caller(row)),
    WrapperStep(report_position, lambda row: writes(row) and needs_caller(row)),
)
# From a `Request` to its answer; a call from within the process begins here
PERFORM: tuple[CheckStep[Call] | WrapperStep[Call], ...] = (
    CheckStep(prove_primary, needs_caller),
    CheckStep(check_query, lambda row: row.read is None and not row.options and not row.refuses_queries),
    CheckStep(check_representation, lambda row: row.shows is not None),
    CheckStep(restrict_to_group_scope, lambda row: row.limited is not None),
    CheckStep(prepare, lambda row: row.before is not None),
    WrapperStep(confirm_read, lambda row: reads(row) and needs_caller(row)),
    WrapperStep(retry_deadlocks),
    WrapperStep(raise_minimum_position, writes_to_customer),
    WrapperStep(answer_dry_run, writes),
    WrapperStep(notify_changes, writes_to_customer),
    WrapperStep(serialise, lambda row: row.ground is not None),
    WrapperStep(serialise_if_compared, lambda row: row.ground is None and row.settled is not None),
    WrapperStep(replay_or_store, lambda row: row.repeatable),
    WrapperStep(show_result, lambda row: row.shows is not None),
)


def step_names(row: Endpoint | None = None) -> list[str]:
    """The names of all steps in their order, or of those that a row needs."""
    if row is None:
        return [step.name for step in (*RECEIVE, *PERFORM)]
    return [step.name for step in (*chosen(RECEIVE, row), *chosen(PERFORM, row))]


class RequestPipeline:
    """The endpoints of one process with their steps."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server

    def add(self, row: Endpoint) -> BoundEndpoint:
        """Choose the steps of a row. The server looks up its parts as soon as it has opened them."""
        perform = compose(PERFORM, row, run_handler)
        receive = compose(RECEIVE, row, perform)
        authentication = tuple(step.run for step in AUTHENTICATION if step.when(row))
        route = BoundEndpoint(row, receive, perform, authentication)
        self._server.routes.append(route)
        return route

    async def serve(self, http: falcon.asgi.Request, route: BoundEndpoint, params: Mapping[str, str]) -> Response:
        """Answer one request of a client. Raises `Refusal`."""
        services, state = self._server.services, request_state(http.scope)
        return await route.receive(HttpCall(route=route, services=services, http=http, state=state, params=params))

    async def perform(self, route: BoundEndpoint, request: Request, value: Any, key: str | None) -> Response:
        """Answer a call from within the process: `value` is its validated body, `key` its Idempotency-Key.

        Raises `Refusal`.
        """
        call = Call(route=route, services=self._server.services, request=request, value=value)
        call.idempotency_key = key if route.endpoint.repeatable else None
        return await route.perform(call)
