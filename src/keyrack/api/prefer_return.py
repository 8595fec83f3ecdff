"""In charge of `Prefer: return=...` (RFC 7240, section 4.2): a write that answers with what it has made or changed.

What is shown is the resource's own single read, in the transaction of the write: nobody's later change is among it.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, LiteralString

from keyrack.api.endpoint import Endpoint
from keyrack.api.exchange import Request, Response, with_vary
from keyrack.api.odata import Limits
from keyrack.api.read_endpoint import ReadEndpoint
from keyrack.api.services import ReadServices
from keyrack.db.transaction_database import InTransaction

Run = Callable[[Request], Awaitable[Response]]


async def minimal(request: Request, run: Run) -> Response:
    """The answer of `run`, as it is without a preference."""
    answer = await run(request)
    return replace(answer, headers=_applied(answer.headers, "minimal"))


def check(request: Request, endpoint: Endpoint[Any], limits: Limits) -> None:
    """Check the query options of a representation, and the permissions of what it shows.

    The edge checks before anything is done, and before it looks for a stored answer. Raises what the read raises:
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
    """The answer of `run` with what the endpoint `shows`, shaped by the query options of the request.

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
    headers = _applied({**shown.headers, **done.headers}, "representation")
    if endpoint.representation_status == 202:
        del headers["ETag"]  # it is the operation's, and would be taken for that of what the operation changes
    else:
        headers["ETag"] = shown.headers["ETag"]  # of what is shown, which the query options may have shaped
    if done.status == 201:
        headers["Location"] = services.settings.public_url + "/v3" + shows.path.partition("{")[0] + str(done.created_id)
    body = _with_secrets(shown.body or b"{}", done.body)
    return replace(shown, status=endpoint.representation_status, body=body, headers=headers)


def _applied(headers: Mapping[str, str], preference: str) -> dict[str, str]:
    return with_vary({**headers, "Preference-Applied": f"return={preference}"}, "Prefer")


def _with_secrets(shown: bytes, write_body: bytes | None) -> bytes:
    """What is shown, and what only the write itself tells, such as a generated password: that counts, whatever the
    query options have called so."""
    more = {name: value for name, value in json.loads(write_body or b"{}").items() if name != "id"}
    return json.dumps(json.loads(shown) | more).encode() if more else shown
