"""`Keyrack-Position`: the server that answers a read, and the position of its response.

A caller that sends back a position never gets an older state, from any server or process. `Endpoint.can_use_replica`
selects the reads of replicas; the primary answers everything else.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import falcon.asgi

from keyrack.api.exchange import Response
from keyrack.core.error_codes import FieldError
from keyrack.core.errors import BadRequest, Gone, NotFound, Refusal
from keyrack.core.metrics.catalog import READS
from keyrack.db.replication.read_routing import ReadRouter, ReplicaLease
from keyrack.db.replication.replica import is_of_replica
from keyrack.db.replication.wal_positions import INVALID, position
from keyrack.http.calls import Call, HttpCall
from keyrack.http.request_state import RequestState
from keyrack.http.steps import Next

HEADER = "Keyrack-Position"
LATEST = "latest"  # instead of a position: the current state


def parse_position(call: HttpCall) -> None:
    """Read the position that the caller has seen, or `LATEST`. Raises `BadRequest`."""
    header = call.http.get_header(HEADER)
    if header is None or header == LATEST:
        call.read_position = header
        return
    try:
        call.read_position = position(header)
    except ValueError:
        fault = FieldError("wrong-form", INVALID.text, header=HEADER)
        raise BadRequest(INVALID, errors=[fault]) from None


def set_position_header(state: RequestState, reply: falcon.asgi.Response) -> None:
    """Set the position in the reply, if there is one."""
    if (read_position := state.read_position) is not None:
        reply.set_header(HEADER, str(read_position))


async def choose_server(call: HttpCall, call_next: Next[Call]) -> Response:
    """The response of a sufficiently recent replica, else of the primary, with its position."""
    replicas = call.services.replicas
    if replicas is None or _is_anonymous(call):
        return await call_next(call)
    request, seen = call.request, call.read_position
    if not call.route.endpoint.can_use_replica or request.if_match is not None or call.state.is_console_call:
        READS.add("leader-only")
        return await _at_primary(call, call_next, replicas)
    lease = None if isinstance(seen, str) else await replicas.choose(request.customer, seen)
    if lease is None:
        READS.add("leader-ahead")
        return await _at_primary(call, call_next, replicas)
    answer = await _at_replica(call, call_next, lease)
    if answer is None:
        READS.add("leader-after")
        return await _at_primary(call, call_next, replicas)
    READS.add("replica")
    return answer


async def report_position(call: HttpCall, call_next: Next[Call]) -> Response:
    """The answer of a write; the primary's position goes into the reply."""
    replicas = call.services.replicas
    if replicas is None or _is_anonymous(call):
        return await call_next(call)
    return await _at_primary(call, call_next, replicas)


def _is_anonymous(call: HttpCall) -> bool:
    """Whether the request has no history that a position could refer to."""
    return call.caller is None and not call.customer


async def _at_primary(call: HttpCall, call_next: Next[Call], replicas: ReadRouter) -> Response:
    """The primary's answer or error. After a failure the primary is not asked for its position: it may be away."""
    state = call.state
    try:
        answer = await call_next(call)
    except Refusal as refusal:
        if refusal.status < 500:
            state.read_position = await replicas.confirm_position()
        raise
    state.read_position = await replicas.confirm_position()
    return answer


async def _at_replica(call: HttpCall, call_next: Next[Call], lease: ReplicaLease) -> Response | None:
    """The replica's response; None if the primary has to answer.

    That is the case if the replica is unavailable, if the primary had to answer one of the statements, or if the
    replica does not find something that may have just been created.
    """
    request = call.request
    database = lease.database(request.customer, request.caller.id if request.caller else 0, request.db)
    answer = None
    try:
        answer = await call_next(call.with_request(replace(request, db=database)))
        if not database.used_primary:
            call.state.read_position = await lease.position(database)
            return answer
    except (Gone, NotFound):
        return None
    except Exception as error:
        if not is_of_replica(error):
            raise
    if answer is not None and answer.parts is not None:
        parts: Any = answer.parts
        await (parts.close() if hasattr(parts, "close") else parts.aclose())
    return None
