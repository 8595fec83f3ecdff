"""The step that waits for the outcomes of operations (`Prefer: wait`).

Source: RFC 7240, section 4.3.

The operations are accepted and committed before. So nothing that happens during the wait turns the response into an
error: the client then gets the response without the wait, and looks for the outcome itself.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from keyrack.api.exchange import Response, with_applied_preference
from keyrack.assignments.outcome_waits import OutcomeWait
from keyrack.core.errors import Refusal
from keyrack.db.connection import is_interruption
from keyrack.http.calls import HttpCall
from keyrack.http.steps import Next


async def await_outcomes(call: HttpCall, call_next: Next[HttpCall]) -> Response:
    """The response with the outcomes: 200, or 202 if one is still pending.

    The request does not wait if a limit of waiting requests is reached, or after shutdown has begun.
    """
    first = await call_next(call)
    awaited, request, services = call.route.endpoint.awaited, call.request, call.services
    if not request.wait or awaited is None or not (operations := awaited.operations(request, first)):
        return first
    waits, follow, caller = services.outcome_waits, request.follow, request.caller
    if follow is None or caller is None or not waits.has_room(request.customer):
        return first
    end = asyncio.get_running_loop().time() + request.wait
    wait = OutcomeWait(request.customer, caller.key, follow.recheck, operations)
    follow.register(wait)
    with waits.entered(wait):
        if call.state.end_load is not None:
            call.state.end_load()
        await wait.wait_until(end)
    try:
        await follow.recheck()  # the caller may have lost its access meanwhile
        shown = await awaited.show(request, first, wait.pending, services)
        services.authenticator.assert_current(call.proven)
    except Exception as error:
        if request.method == "GET" or not (isinstance(error, Refusal) or is_interruption(error)):
            raise
        return first
    headers = with_applied_preference({**first.headers, **shown.headers}, f"wait={request.wait}")
    if request.method != "GET":
        headers.pop("ETag", None)  # it is the operation's, and could be mistaken for that of the changed resource
    status = 202 if wait.pending and shown.status == 200 else shown.status
    return replace(shown, status=status, headers=headers)
