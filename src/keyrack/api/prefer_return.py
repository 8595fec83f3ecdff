"""`Prefer: return=...` (RFC 7240, section 4.2): a write that returns the created or changed resource.

The representation is the resource's own single read, in the transaction of the write, so it contains no later change.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, LiteralString

from keyrack.api.endpoint import Endpoint
from keyrack.api.exchange import Request, Response, with_applied_preference
from keyrack.api.odata import Limits
from keyrack.api.read_endpoint import ReadEndpoint
from keyrack.api.services import ReadServices
from keyrack.db.transaction_database import InTransaction

Run = Callable[[Request], Awaitable[Response]]


async def minimal(request: Request, run: Run) -> Response:
    """The response of `run`, unchanged."""
    answer = await run(request)
    return replace(answer, headers=with_applied_preference(answer.headers, "return=minimal"))


def check(request: Request, endpoint: Endpoint[Any], limits: Limits) -> None:
    """Check the query options of a representation, and the permissions for its content.

    The pipeline checks before the write, and before it looks for a stored response. Raises what the read raises:
    `BadRequest`, `NotImplemented`, `NotPermitted`.
    """
    _, read = _representation(endpoint)
    read.query(request, limits)


def _representation(endpoint: Endpoint[Any]) -> tuple[Endpoint[Any], ReadEndpoint]:
    """The row whose response is the representation, and its read."""
    shows = endpoint.responses.representation
    assert shows is not None and shows.read is not None  # noqa: S101 - only such a row takes the preference
    return shows, shows.read


async def representation(request: Request, run: Run, endpoint: Endpoint[Any], services: ReadServices) -> Response:
    """The response of `run` with the endpoint's representation, shaped by the query options.

    Raises what `run` raises.
    """
    shows, run_read = _representation(endpoint)
    announced: list[LiteralString] = []
    async with request.db.transaction() as connection:
        inner = request.within(InTransaction(connection), announced.append)
        done = await run(inner)
        ids = request.ids if done.created_id is None else (done.created_id,)
        # The conditions were those of the write
        read = replace(inner, method="GET", ids=ids, if_match=None, if_none_match=None)
        shown = await run_read(read, None, services)
    for notice in announced:
        request.announce(notice)
    headers = with_applied_preference({**shown.headers, **done.headers}, "return=representation")
    if endpoint.representation_status == 202:
        del headers["ETag"]  # it is the operation's, and could be mistaken for that of the changed resource
    else:
        headers["ETag"] = shown.headers["ETag"]  # of the representation, which the query options may have shaped
    if done.status == 201:
        headers["Location"] = services.settings.public_url + "/v3" + shows.path.partition("{")[0] + str(done.created_id)
    body = _with_secrets(shown.body or b"{}", done.body)
    return replace(shown, status=endpoint.representation_status, body=body, headers=headers)


def _with_secrets(shown: bytes, write_body: bytes | None) -> bytes:
    """The representation with the properties that only the write returns.

    A generated password is such a property. They replace properties of the same name that the query options may have
    defined.
    """
    more = {name: value for name, value in json.loads(write_body or b"{}").items() if name != "id"}
    return json.dumps(json.loads(shown) | more).encode() if more else shown
