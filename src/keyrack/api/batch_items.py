"""The items of a batch: each runs like the equivalent single request.

The row of that request is looked up in the table. So the same model validates its body and the same function runs it,
and an item gets the response of the request.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, LiteralString, TypeVar

import asyncpg

from keyrack.api.endpoint import Endpoint, JsonBody
from keyrack.api.exchange import Request, Response
from keyrack.api.request_mode import RequestMode
from keyrack.api.schema.request_body import validate_body
from keyrack.core.errors import Refusal, TooManyRequests
from keyrack.db.change_notifier import NOTHING, Topics
from keyrack.db.connection import Connection, Row
from keyrack.db.transaction_database import InTransaction

PIECE = 50  # items that share a savepoint, unless one of them breaks the transaction
BREATH = 25  # validated items after which other tasks run


@dataclass(frozen=True, slots=True)
class BatchItem:
    """One item: its row, its request, and its validated body or error."""

    endpoint: Endpoint[Any]
    request: Request
    value: Any = None
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True)
class BatchItems:
    """The validated body of a batch."""

    items: Sequence[BatchItem]

    @property
    def topics(self) -> Topics:
        """The topics of all items. A batch notifies subscribers about everything that it changes."""
        return NOTHING.union(*[item.endpoint.topics for item in self.items])


Result = Response | Refusal
S = TypeVar("S")


def canonical(value: object) -> bytes:
    """JSON as in RFC 8785, limited to strings, integers, booleans, null, arrays and objects."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()


async def checked_item(
    request: Request, endpoint: Endpoint[S], ids: tuple[int, ...], body: object, services: S
) -> BatchItem:
    """A batch item, with the path's ids and the parsed body.

    Raises errors that are not about the item itself: `NotPermitted`, which applies to all items of a kind, and others
    (`batch_database`).
    """
    endpoint.permit(request.caller, request.customer)
    names = dict(zip(endpoint.parameters, ids, strict=True))
    request = replace(
        request, method=endpoint.method, path=endpoint.path.format(**names), ids=ids, query=b"",
        body=canonical(body) if isinstance(endpoint.body, JsonBody) else b"",
    )  # fmt: skip
    if not isinstance(endpoint.body, JsonBody):
        return BatchItem(endpoint, request)
    try:
        value = validate_body(
            endpoint.body.adapter, request.body, endpoint.body.action,
            strict=request.strict or request.mode is RequestMode.STRICT,
            let_through=frozenset() if request.strict else endpoint.readable_members,
        )  # fmt: skip
        if endpoint.prepare is not None:
            value = await endpoint.prepare(request, value, services)
    except Refusal as refusal:
        return BatchItem(endpoint, request, refusal=batch_database(refusal))
    return BatchItem(endpoint, request, value)


def batch_database(refusal: Refusal) -> Refusal:
    """The error as an item's own. Raises a retryable error, because it concerns the whole batch."""
    if refusal.status >= 500 or isinstance(refusal, TooManyRequests):
        raise refusal
    return refusal


async def yield_to_event_loop(number: int) -> None:
    """Let other tasks run, after some items."""
    if number % BREATH == BREATH - 1:
        await asyncio.sleep(0)


class _Straight(InTransaction):
    """Statements without savepoints: an error of the database breaks the transaction."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.is_broken = False

    async def fetch(self, sql: LiteralString, *args: object) -> list[Row]:
        try:
            return await self._connection.fetch(sql, *args)
        except asyncpg.PostgresError:
            self.is_broken = True
            raise

    async def fetchrow(self, sql: LiteralString, *args: object) -> Row | None:
        rows = await self.fetch(sql, *args)
        return rows[0] if rows else None

    async def fetchval(self, sql: LiteralString, *args: object) -> Any:
        row = await self.fetchrow(sql, *args)
        return None if row is None else row[0]

    async def execute(self, sql: LiteralString, *args: object) -> None:
        await self.fetch(sql, *args)


class _Broken(Exception):
    """An item broke the transaction of its chunk."""


async def run_items(
    connection: Connection, items: Sequence[BatchItem], services: object, announce: Callable[[LiteralString], None]
) -> list[Result]:
    """Run the items in the caller's transaction. The writes of a rejected item are rolled back.

    `services` are those for which the items were validated. `announce` receives the notifications after the commit.

    A savepoint costs two round trips, and many savepoints slow down the snapshots of other transactions. So a chunk of
    items shares one. Only if the database rejects a statement, the chunk runs again with a savepoint per statement.
    """
    results: list[Result] = []
    for first in range(0, len(items), PIECE):
        piece = items[first : first + PIECE]
        notices: list[LiteralString] = []
        try:
            async with connection.transaction():
                done = await _each(_Straight(connection), piece, services, notices.append)
        except _Broken:
            notices.clear()  # their changes are rolled back
            done = await _each(InTransaction(connection), piece, services, notices.append)
        results += done
        for notice in notices:
            announce(notice)
    return results


async def _each(
    db: InTransaction, items: Sequence[BatchItem], services: object, announce: Callable[[LiteralString], None]
) -> list[Result]:
    results: list[Result] = []
    for item in items:
        results.append(await _one(item, item.request.within(db, announce), services))
        if isinstance(db, _Straight) and db.is_broken:
            raise _Broken
    return results


async def _one(item: BatchItem, request: Request, services: object) -> Result:
    if item.refusal is not None:
        return item.refusal
    try:
        return await item.endpoint.handler(request, item.value, services)
    except Refusal as refusal:
        return batch_database(refusal)
