"""The steps from a client's request to a `Request`."""

from __future__ import annotations

from functools import partial

from keyrack.api import conditional_requests
from keyrack.api.endpoint import FormBody, JsonBody, OptionalBody
from keyrack.api.event_stream import EVENTS
from keyrack.api.exchange import Request, Response
from keyrack.api.query_parameters import parse_parameters
from keyrack.api.request_mode import RequestMode
from keyrack.api.schema import request_body
from keyrack.api.subscriptions import FollowContext, Subscription
from keyrack.assignments.endpoints.operations import WAIT
from keyrack.core.errors import PreconditionFailed
from keyrack.core.text import without_byte_order_mark
from keyrack.http import request_parsing
from keyrack.http.authentication_steps import DEVICE_KEY
from keyrack.http.calls import Call, HttpCall
from keyrack.http.ignored_members import record_ignored_members
from keyrack.http.prefer_header import preferences
from keyrack.http.problem_details import prefers_media_type
from keyrack.http.steps import Next


async def reserve_ingest_memory(call: HttpCall, call_next: Next[HttpCall]) -> Response:
    """Count the bytes of a delivery until its response. Raises `Unavailable` if others leave no memory."""
    with call.services.ingest_memory.reserve(call.http.get_header(DEVICE_KEY) or "") as call.reservation:
        return await call_next(call)


def prove_primary(call: Call) -> None:
    """Raises `Unavailable` unless it is confirmed that this server reaches the primary."""
    call.proven = call.services.authenticator.check()


def confirm_primary(call: Call) -> None:
    """Raises `Unavailable` unless the primary is still confirmed, and the same: the body may have taken long."""
    call.services.authenticator.assert_current(call.proven)


def read_conditions(call: HttpCall) -> None:
    """Read the conditions of a read. Raises `BadRequest` for a malformed If-Match."""
    call.if_none_match = call.http.get_header("If-None-Match")
    header = call.http.get_header("If-Match")
    if header is not None:
        call.if_match = conditional_requests.expected(header)


def read_if_match(call: HttpCall) -> None:
    """Read the condition of a write to a resource with an ETag. Raises `PreconditionFailed`, `BadRequest`."""
    if call.http.get_header("If-None-Match") is not None:
        raise PreconditionFailed(conditional_requests.ONLY_FOR_READS)
    header = call.http.get_header("If-Match")
    if header is not None:
        call.if_match = conditional_requests.expected(header)


def reject_conditions(call: HttpCall) -> None:
    """Raises `PreconditionFailed` for any condition: the row has nothing to compare it with."""
    if call.http.get_header("If-None-Match") is not None:
        raise PreconditionFailed(conditional_requests.ONLY_FOR_READS)
    if call.http.get_header("If-Match") is not None:
        raise PreconditionFailed(conditional_requests.NOTHING_TO_COMPARE)


def read_preferences(call: HttpCall) -> None:
    """Read the header Prefer."""
    preferred = preferences(call.http.get_header("Prefer"))
    call.is_strict, call.preferred_return = preferred.strict, preferred.returns


def choose_return(call: HttpCall) -> None:
    """Apply the preferred return, for rows that can return the result of the write."""
    call.returns = call.preferred_return


def read_wait(call: HttpCall) -> None:
    """Read the seconds that the response may wait for outcomes.

    They are in the header Prefer or in the query. `return=minimal` takes precedence, because a response without a body
    has no outcome. Raises `BadRequest` for an invalid value in the query.
    """
    if call.http.method == "HEAD" or call.preferred_return == "minimal":
        return
    row = call.route.endpoint
    call.wait = preferences(call.http.get_header("Prefer")).wait
    if WAIT in row.query_parameters:
        query = parse_parameters(call.http.scope["query_string"], row.query_parameters, allows_others=True)
        call.wait = query.get(WAIT.name, call.wait)


async def read_body(call: HttpCall) -> None:
    """Read the body. Raises `UnsupportedMediaType`, `ContentTooLarge`, `RequestTimeout`."""
    settings, route = call.services.settings, call.route
    body = route.endpoint.body
    assert isinstance(body, JsonBody | FormBody)  # noqa: S101 - the step is for rows with one of them
    limit, seconds = body.max_bytes(settings), settings.request_read_timeout_seconds
    call.body = await request_parsing.body(call.http, route.body_format, limit, seconds)


async def read_optional_body(call: HttpCall) -> None:
    """Read and parse a body of any form. Ignores what the row does not know.

    Raises the errors of the row's own parser.
    """
    body = call.route.endpoint.body
    assert isinstance(body, OptionalBody)  # noqa: S101 - the step is for rows with such a body
    sent = await request_parsing.optional_body(call.http, body.max_bytes, body.max_seconds)
    call.value = body.parse(sent) if sent else None
    if call.value is not None:  # otherwise an `Idempotency-Key` belongs to the request without a body
        call.body = sent


async def read_lines(call: HttpCall) -> None:
    """Read the lines of a delivery.

    Raises as `read_body` does, `Unavailable` beyond the memory limit, and `BadRequest` for malformed gzip.
    """
    assert call.reservation is not None  # noqa: S101 - `reserve_ingest_memory` comes first
    call.body = await request_parsing.lines(call.http, call.services.settings, call.reservation)


def parse_form(call: HttpCall) -> None:
    """Parse the form. Raises `BadRequest`."""
    form = call.route.endpoint.body
    assert isinstance(form, FormBody)  # noqa: S101 - the step is for rows with a form
    call.value = form.parse(without_byte_order_mark(call.body))


def validate_body(call: HttpCall) -> None:
    """Validate the JSON. Raises `BadRequest`."""
    _validate(call, strict=call.rejects_unknown)


def validate_batch(call: HttpCall) -> None:
    """Validate the JSON of a batch. Its items are validated later.

    The items are validated as strictly as the client prefers.
    """
    _validate(call, strict=False)


def _validate(call: HttpCall, *, strict: bool) -> None:
    body = call.route.endpoint.body
    assert isinstance(body, JsonBody)  # noqa: S101 - the step is for rows with a JSON body
    let_through = frozenset[str]() if call.is_strict else call.route.endpoint.readable_members
    call.value, document = request_body.read_body(
        body.adapter, call.body, body.action, strict=strict, let_through=let_through
    )
    if not call.is_strict and not (body.has_item_checks and call.mode is RequestMode.STRICT):
        record_ignored_members(call.state, body.adapter, document)


def read_idempotency_key(call: HttpCall) -> None:
    """Read the header. `idempotency` validates it later."""
    call.idempotency_key = call.http.get_header("Idempotency-Key")


def negotiate_media_type(call: HttpCall) -> None:
    """Determine whether the client prefers the row's other media type."""
    responses = call.route.endpoint.responses
    accept = call.http.get_header("Accept") or ""
    call.prefers_other_type = prefers_media_type(accept, responses.alternative.split(";")[0], responses.media_type)


def allow_following(call: HttpCall) -> None:
    """Prepare the context of a stream or long poll."""
    http, row, customer, caller = call.http, call.route.endpoint, call.customer, call.caller
    assert caller is not None  # noqa: S101 - a row that is followed needs a token
    recheck = call.services.authentication.recheck

    def register(subscription: Subscription) -> None:
        call.state.subscription = subscription

    call.follow = FollowContext(
        last_event_id=http.get_header("Last-Event-ID"),
        prefers_events=prefers_media_type(http.get_header("Accept") or "", EVENTS, row.responses.media_type),
        recheck=partial(recheck, http, row, customer, caller.grants[customer]),
        register=register,
    )


def build_request(call: HttpCall) -> None:
    """Create the `Request`. Raises `BadRequest` for invalid ids in the path."""
    http, services, row, caller = call.http, call.services, call.route.endpoint, call.caller
    call.request = Request(
        db=services.database(caller, call.customer, call.driver, reads=row.method == "GET"),
        batches=services.batches,
        announce=services.announce,
        id=call.state.id,
        method=http.method,
        path=http.path,
        address=http.remote_addr,
        caller=caller,
        customer=call.customer,
        ids=request_parsing.ids(row, call.params),
        query=http.scope["query_string"],
        body=call.body,
        chunks=http.scope["http_version"] != "1.0",
        device=call.device,
        app=call.app,
        driver=call.driver,
        browser=call.browser,
        returns=call.returns,
        if_match=call.if_match,
        if_none_match=call.if_none_match,
        authorization=call.authorization,
        without_key=call.is_without_key,
        follow=call.follow,
        also=call.prefers_other_type,
        parameters=row.known_parameters(caller, is_strict=call.rejects_unknown),
        # A representation has the properties of its own read
        hides_extensions=(row.responses.representation or row).is_call_by_spec(caller, call.mode)
        and not call.state.is_console_call,
        strict=call.is_strict,
        mode=call.mode,
        wait=call.wait,
    )


async def register_stream(call: HttpCall, call_next: Next[HttpCall]) -> Response:
    """Register an endless response with the connection and the access log."""
    answer = await call_next(call)
    if isinstance(answer.parts, Subscription):
        call.state.subscription = answer.parts
    return answer
