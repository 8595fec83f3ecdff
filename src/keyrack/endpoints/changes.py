"""The log of changes: what has happened to a customer's data, numbered, to be read from where somebody stopped. Ours,
beside the spec."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from keyrack import odata
from keyrack.api.endpoint import Endpoints, Read
from keyrack.api.exchange import Answer, Request
from keyrack.api.parameters import Parameter, given
from keyrack.api.reads import Select
from keyrack.api.spool import Spool
from keyrack.changes import feed
from keyrack.model.changes import CHANGE
from keyrack.odata import Limits
from keyrack.settings import Settings

endpoints = Endpoints("Changes")

# Up to the newest change that the answer's head tells of: what came since is for the next request
READ = Read(Select(CHANGE, paged=True, by="{t}.change_id <= $2"))


def an_epoch(text: str) -> UUID:
    """Raises `ValueError`."""
    try:
        return UUID(text)
    except ValueError:
        raise ValueError(f"It is what the header {feed.EPOCH} told, as 5f0c1c1e-7c0e-4a55-9a0b-9a2f4d8a1e55.") from None


OF_EPOCH = Parameter(
    "epoch",
    an_epoch,
    f"The epoch that the number in `$filter=id gt N` is of, as the header {feed.EPOCH} told it.",
    {"type": "string", "format": "uuid"},
)


@endpoints.write(
    "GET",
    "/changes",
    "What has happened to the customer's data, in the order of its numbers",
    status=200,
    read=READ,
    refuses={410: (feed.CURSOR_GONE,)},
    options=(OF_EPOCH,),
    headers=feed.HEADERS,
    ours=True,
)
async def changes(request: Request, limits: Limits, spool: Spool, settings: Settings) -> Answer:
    epoch: UUID | None = given(request.query, (OF_EPOCH,), beside=True).get(OF_EPOCH.name)
    READ.query(replace(request, ids=(0,)), limits)  # what is wrong with the options comes first
    cursor = odata.beginning(request.query, "id", limits)
    extent = await feed.look(request.db, request.customer)
    extent.check(cursor, epoch)
    answer = await READ(replace(request, ids=(extent.newest,)), None, limits, spool, settings)
    if cursor is not None and cursor < extent.newest:  # the oldest ones may have gone while they were read
        (await feed.look(request.db, request.customer)).check(cursor, epoch)
    return replace(answer, headers={**answer.headers, **extent.headers()})
