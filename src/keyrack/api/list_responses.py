"""Lists: short ones in one statement, long ones in chunks that continue after the last row.

A list whose order has no index is written to a file first and sent from there. It takes one statement, and no
connection of the database waits for the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Hashable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from time import monotonic
from urllib.parse import unquote_plus

import structlog

from keyrack.api import scoped_page_sql
from keyrack.api.odata import Query, Segment, option_name, segments_after
from keyrack.api.read_sql import PAGE, Select
from keyrack.api.response_spool import Spool, SpooledResponse
from keyrack.api.scoped_page_sql import PageSource
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import BadRequest, ConnectionAborted
from keyrack.core.settings import Settings
from keyrack.db.connection import Database, Row
from keyrack.db.named_parameters import NamedStatement

log = structlog.get_logger("keyrack.list_responses")

AT_ONCE = 200  # maximum rows of a cursor's batch: a process has that many of the largest rows in memory
TOO_SLOW = ErrorCode(
    "answer-too-slow",
    "The response took too long to generate. Request less at once.",
    "Narrow the list with `$filter`, or reduce `$top`.",
)
FIRST = 10  # the first chunk has a tenth of a chunk's rows; each may double, so that few large rows are read in vain
SMALL = 100  # in a list of one statement, each row has at most a hundredth of a chunk's bytes


class RecentKeys:
    """Keys that expire after `seconds`.

    All are dropped at `limit` keys.
    """

    def __init__(self, seconds: float, limit: int) -> None:
        self._seconds = seconds
        self._limit = limit
        self._expires_at: dict[Hashable, float] = {}

    def __contains__(self, key: Hashable) -> bool:
        return self._expires_at.get(key, 0.0) > monotonic()

    def add(self, key: Hashable) -> None:
        if len(self._expires_at) >= self._limit:
            self._expires_at.clear()
        self._expires_at[key] = monotonic() + self._seconds


# Scopes with few of the customer's first rows, by filter and order. It only decides which statement is tried first
SPARSE_SCOPES = RecentKeys(60.0, 10_000)


@dataclass(frozen=True)
class Listing:
    """One requested list. `parameters` are those of the request, without those of chunks."""

    select: Select
    query: Query
    parameters: Mapping[str, object]
    db: Database
    settings: Settings

    async def whole(self, known_versions: Sequence[int]) -> Row | None:
        """The row of `Select.statement`.

        Its body is null if the list is too long for one chunk, or has one of the known versions.
        """
        if not self.select.can_page_by(self.query):
            return await self._whole(PageSource.SCOPE, known_versions)
        sql = self.query.sql
        key = (self.parameters["customer"], self.parameters["scope"], sql.where, sql.order)
        if key not in SPARSE_SCOPES:
            row = await self._whole(PageSource.FIRST_ROWS, known_versions)
            if row is None or row["is_complete"]:
                return row
            SPARSE_SCOPES.add(key)
        return await self._whole(scoped_page_sql.otherwise(sql), known_versions)

    async def _whole(self, source: PageSource, known_versions: Sequence[int]) -> Row | None:
        return await self._row(
            self.select.from_source(source).statement(self.query.sql, has_versions=bool(known_versions)),
            rows=self.settings.list_chunk_rows, size=max(1, self.settings.list_chunk_bytes // SMALL),
            versions=known_versions,
        )  # fmt: skip

    async def first_chunk(self) -> Row | None:
        """The row of the first `Select.chunk`; None if the parent has been deleted meanwhile."""
        return await self._chunk(max(1, self.settings.list_chunk_rows // FIRST))

    async def chunks(self, row: Row) -> AsyncIterator[bytes]:
        """The bytes of the array, beginning with the first chunk. After an error, its end is missing."""
        try:
            yield row["body"][:-1]
            async with aclosing(self._following_chunks(row)) as chunks:
                async for body in chunks:
                    yield self.select.separator.encode() + body[1:-1]
            yield b"]"
        except Exception:
            log.exception("list response aborted", resource=self.select.resource.name)
            raise ConnectionAborted from None

    async def _following_chunks(self, row: Row) -> AsyncGenerator[bytes]:
        """The non-empty chunks after the first one."""
        rows_left = self._max_rows() - row["rows"]
        last_chunk: Row | None = row
        while last_chunk is not None and last_chunk["place"] is not None and rows_left > 0:
            rows = min(self.settings.list_chunk_rows, 2 * last_chunk["rows"])
            segments = segments_after(self.query.sql.walk, last_chunk["place"])
            last_chunk = None
            for segment in segments:
                chunk = await self._chunk(min(rows, rows_left), segment)
                if chunk is None:  # the parent was deleted with its rows
                    return
                rows_left -= chunk["rows"]
                if chunk["rows"]:
                    yield chunk["body"]
                if chunk["place"] is not None:
                    last_chunk = chunk
                    break

    def _max_rows(self) -> int | float:
        """The maximum number of rows of the list."""
        if self.query.top is not None:
            return self.query.top
        return int(PAGE) if self.select.paged else float("inf")

    async def _chunk(self, rows: int | float, segment: Segment | None = None) -> Row | None:
        statement = self.select.chunk(self.query.sql, segment and segment.sql)
        behind = {} if segment is None else segment.parameters
        size = self.settings.list_chunk_bytes
        return await self._row(statement, rows=int(min(rows, self._max_rows())), size=size, **behind)

    async def _row(self, statement: NamedStatement, **parameters: object) -> Row | None:
        return await self.db.fetchrow(statement.sql, *statement.select({**self.parameters, **parameters}))

    async def spooled(self, spool: Spool, customer: int) -> SpooledResponse:
        """The array in a file, read in one transaction. Raises `BadRequest` or `Unavailable` above the limits."""
        try:
            async with asyncio.timeout(self.settings.spool_timeout_seconds), aclosing(self._batches()) as batches:
                return await spool.keep(customer, batches)
        except TimeoutError:
            raise BadRequest(TOO_SLOW) from None

    async def _batches(self) -> AsyncGenerator[bytes]:
        """The bytes of the array, in batches of rows."""
        separator = self.select.separator.encode()
        statement = self.select.items(self.query.sql)
        yield b"["
        async with self.db.transaction() as connection:
            await connection.declare(statement.sql, *statement.select(self.parameters))
            rows, start = 1, b""
            while batch := await connection.fetch_batch(rows):
                body = start + separator.join([row["item"] for row in batch])
                yield body
                start = separator
                rows = max(1, min(AT_ONCE, 2 * rows, rows * self.settings.list_chunk_bytes // len(body)))
        yield b"]"


async def empty_body() -> AsyncIterator[bytes]:
    """The empty body of a HEAD response."""
    for none in ():
        yield none


def next_page(address: str, query: bytes, skip: int) -> Mapping[str, str]:
    """The header with the next page (RFC 8288): the same query string with another `$skip`."""
    parts = [part for part in query.decode().split("&") if part and not _is_skip(part)]
    return {"Link": f'<{address}?{"&".join([*parts, f"$skip={skip}"])}>; rel="next"'}


def _is_skip(part: str) -> bool:
    return option_name(unquote_plus(part.partition("=")[0])) == "skip"
