"""The steps from a `Request` to its response, for clients and in-process calls."""

from __future__ import annotations

from collections.abc import Awaitable

import asyncpg

from keyrack.api import idempotency, prefer_return
from keyrack.api.batch_items import BatchItems
from keyrack.api.exchange import DryRunRollback, Response
from keyrack.assignments.customer_lock import flush_pending
from keyrack.core.error_codes import NOT_NOW
from keyrack.core.errors import Refusal, Unavailable
from keyrack.db import worker_wakeup
from keyrack.db.change_notifier import APPLIED
from keyrack.fleet import group_scope_checks
from keyrack.http.calls import Call
from keyrack.http.steps import Next

DEADLOCKS = 4  # attempts in all: the database may end the same request each time


def check_query(call: Call) -> None:
    """Check the query string of a row without a read. Raises `BadRequest` for unknown names."""
    call.route.endpoint.check_query(call.request)


def check_representation(call: Call) -> None:
    """Raises what the read of a preferred representation raises: `BadRequest`, `NotImplemented`, `NotPermitted`."""
    if call.request.shows_result:
        prefer_return.check(call.request, call.route.endpoint, call.services.query_limits)


async def restrict_to_group_scope(call: Call) -> None:
    """Replace ids outside the groups of a group-limited caller with ids that do not exist.

    The request gets no stored response, so it is answered like one for an id that does not exist.
    """
    original = call.request
    call.request, call.value = await group_scope_checks.restrict_to_scope(original, call.route.endpoint, call.value)
    if call.request is not original:
        call.idempotency_key = None


async def prepare(call: Call) -> None:
    """Slow work that needs no connection, such as hashing a password. Raises what the row's `prepare` raises."""
    function = call.route.endpoint.prepare
    assert function is not None  # noqa: S101 - the step is for rows with it
    call.value = await function(call.request, call.value, call.services)


async def confirm_read(call: Call, call_next: Next[Call]) -> Response:
    """Raises `Unavailable` after a read if another server may be the primary by now.

    That server may have newer data.
    """
    answer = await call_next(call)
    call.services.authenticator.assert_current(call.proven)
    return answer


async def retry_deadlocks(call: Call, call_next: Next[Call]) -> Response:
    """Retry if the database ends the request to resolve a deadlock.

    Raises `Unavailable` after several attempts. A failed attempt has had no effect, and the other transaction of the
    deadlock continues.
    """
    for _ in range(DEADLOCKS):
        try:
            return await call_next(call)
        except asyncpg.DeadlockDetectedError:
            continue
    raise Unavailable(NOT_NOW)


async def raise_minimum_position(call: Call, call_next: Next[Call]) -> Response:
    """Exclude replicas that have not replayed this write from the customer's next read.

    A request that fails may have written as well.
    """
    try:
        return await call_next(call)
    finally:
        if call.services.replicas is not None:
            call.services.replicas.wrote(call.request.customer)


async def answer_dry_run(call: Call, call_next: Next[Call]) -> Response:
    """The response of a dry run, raised to roll back its transaction. Raises `Refusal`."""
    try:
        return await call_next(call)
    except DryRunRollback as undone:
        if isinstance(undone.outcome, Refusal):
            raise undone.outcome from None
        return undone.outcome


async def notify_changes(call: Call, call_next: Next[Call]) -> Response:
    """Notify the customer's streams of the row's topics, after the commit."""
    answer = await call_next(call)
    topics = call.value.topics if isinstance(call.value, BatchItems) else call.route.endpoint.topics
    call.services.notify(call.request.customer, topics)
    return answer


async def serialise(call: Call, call_next: Next[Call]) -> Response:
    """Apply the customer's pending operations first: the row changes what they depend on."""
    return await _after_pending(call, call_next)


async def serialise_if_compared(call: Call, call_next: Next[Call]) -> Response:
    """Apply the customer's pending operations first if the client sent `If-Match`."""
    if not call.request.compares:
        return await call_next(call)
    return await _after_pending(call, call_next)


async def _after_pending(call: Call, call_next: Next[Call]) -> Response:
    """Run the later steps after all accepted operations are applied.

    The precheck rejects early what would be rejected anyway. A request with an Idempotency-Key is not prechecked,
    because it may have a stored response.
    """
    request, services, concurrency = call.request, call.services, call.route.endpoint.concurrency
    if not concurrency.is_serialized_for(call.value):
        return await call_next(call)
    if call.idempotency_key is None and concurrency.precheck is not None:
        await concurrency.precheck(request.db, request, call.value)
    try:
        async with services.turns.of(request.customer):
            await flush_pending(request.db, request.customer, services.settings)
            return await call_next(call)
    finally:
        request.announce(worker_wakeup.WORK)
        request.announce(worker_wakeup.DELIVER)
        services.notify(request.customer, APPLIED)


async def replay_or_store(call: Call, call_next: Next[Call]) -> Response:
    """The stored response of the Idempotency-Key, or a new one.

    A new response of the later steps is stored in their transaction.
    """
    key, hours = call.idempotency_key, call.services.settings.idempotency_hours
    if key is None:
        return await call_next(call)
    return await idempotency.run_once(call.request, key, hours, lambda request: call_next(call.with_request(request)))


async def show_result(call: Call, call_next: Next[Call]) -> Response:
    """The preferred response of a write: the created or changed resource, or nothing."""
    request, route = call.request, call.route
    if not request.returns:
        return await call_next(call)
    if request.returns == "minimal":
        return await prefer_return.minimal(request, lambda inner: call_next(call.with_request(inner)))
    return await prefer_return.representation(
        request, lambda inner: call_next(call.with_request(inner)), route.endpoint, call.services
    )


def run_handler(call: Call) -> Awaitable[Response]:
    """The endpoint's own function."""
    return call.route.endpoint.handler(call.request, call.value, call.services)
