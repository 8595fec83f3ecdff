"""In charge of `Keyrack-Position`: which server answers a request, and how far the story goes that the answer tells.

A caller who sends back what an answer said is told no older story, by whichever server and process. What a row of the
table says of its reads (`Endpoint.can_use_replica`) is all that there is to say: everything else is the leader's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import falcon.asgi

from keyrack.api.endpoint import Endpoint
from keyrack.api.exchange import Request, Response
from keyrack.core.error_codes import FieldError
from keyrack.core.errors import BadRequest, Gone, NotFound, Refusal
from keyrack.core.metrics.catalog import READS
from keyrack.db.replication.read_routing import ReadRouter, ReplicaLease
from keyrack.db.replication.replica import is_of_replica
from keyrack.db.replication.wal_positions import INVALID, Position, position
from keyrack.http.session_cookie import CONSOLE_CALL

HEADER = "Keyrack-Position"
LATEST = "latest"  # in place of a position: what there is now
READ_POSITION = "keyrack.read_position"  # key of a scope: the position in the response

Perform = Callable[[Request], Awaitable[Response]]


def parse_position(http: falcon.asgi.Request) -> Position | str | None:
    """What the caller has seen: a position, or `LATEST`. Raises `BadRequest`."""
    header = http.get_header(HEADER)
    if header is None or header == LATEST:
        return header
    try:
        return position(header)
    except ValueError:
        fault = FieldError("wrong-form", INVALID.text, header=HEADER)
        raise BadRequest(INVALID, errors=[fault]) from None


def set_position_header(http: falcon.asgi.Request, reply: falcon.asgi.Response) -> None:
    """Put the position into the reply, if there is one to tell."""
    if (read_position := http.scope.get(READ_POSITION)) is not None:
        reply.set_header(HEADER, str(read_position))


async def respond_with_position(
    http: falcon.asgi.Request, endpoint: Endpoint[Any], request: Request, perform: Perform, replicas: ReadRouter | None
) -> Response:
    """What `perform` answers, at a replica where one may; how far it goes is noted for `set_position_header`, of
    refusals too. Raises `BadRequest` for what is no position."""
    wanted = parse_position(http) if endpoint.auth.has_customer else None
    if replicas is None or (request.caller is None and not request.customer):
        return await perform(request)
    if endpoint.method == "GET":
        only = not _may_be_elsewhere(endpoint, request) or CONSOLE_CALL in http.scope
        turn = None if only or isinstance(wanted, str) else await replicas.choose(request.customer, wanted)
        if turn is not None and (answer := await _of_replica(http.scope, request, perform, turn)) is not None:
            READS.add("replica")
            return answer
        READS.add("leader-after" if turn is not None else "leader-only" if only else "leader-ahead")
    return await _of_leader(http.scope, request, perform, replicas)


def _may_be_elsewhere(endpoint: Endpoint[Any], request: Request) -> bool:
    """Whether a replica may answer: nothing is decided by it."""
    return endpoint.can_use_replica and request.if_match is None


async def _of_leader(scope: dict[str, Any], request: Request, perform: Perform, replicas: ReadRouter) -> Response:
    """What the leader answers. After a failure it is not asked how far it is: it may be away."""
    try:
        answer = await perform(request)
    except Refusal as refusal:
        if refusal.status < 500:
            scope[READ_POSITION] = await replicas.seen()
        raise
    scope[READ_POSITION] = await replicas.seen()
    return answer


async def _of_replica(scope: dict[str, Any], request: Request, perform: Perform, turn: ReplicaLease) -> Response | None:
    """What the replica answers; None where the leader has to: it was not there any more, or does not find something,
    which may have been made a moment ago."""
    database = turn.database(request.customer, request.caller.id if request.caller else 0, request.db)
    answer = None
    try:
        answer = await perform(replace(request, db=database))
        if not database.left:
            scope[READ_POSITION] = await turn.position(database)
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
