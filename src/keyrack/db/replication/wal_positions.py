"""WAL positions: points in a history of the database, and the primary's current one.

A position has a meaning only in one history: a system and one of its timelines. A promotion or a restore ends the
timeline.
"""

from __future__ import annotations

import asyncio
import re
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import Context
from math import inf
from typing import Generic, LiteralString, NamedTuple, TypeVar

from keyrack.core.error_codes import ErrorCode
from keyrack.db.connection import Database

T = TypeVar("T")

# An asynchronous commit is visible before it is on disk. So a position counts what is written. The lag counts what is
# on disk, because replicas cannot have more. The name of a WAL file contains the timeline.
NOW: LiteralString = """
select left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) as timeline,
  (pg_current_wal_insert_lsn() - '0/0')::int8 as written, (pg_current_wal_flush_lsn() - '0/0')::int8 as kept
"""
SYSTEM: LiteralString = "select system_identifier from pg_control_system()"  # it reads a file
EVERY = 0.1  # seconds between two queries
SAMPLES = 1_200  # samples, enough for lags of at least a minute
APART = 0.05  # minimum seconds between two samples
INVALID = ErrorCode(
    "invalid-position",
    "The header Keyrack-Position must be the value from a response, or latest.",
    "Send the `Keyrack-Position` of the newest response unchanged, or leave it out.",
)

_TEXT = re.compile(r"([0-9]{1,20})-([0-9]{1,10})-([0-9A-F]{1,8})/([0-9A-F]{1,8})", re.ASCII)


class WalHistory(NamedTuple):
    """One sequence of writes: a system and a timeline."""

    system: int  # the identifier that initdb gives a cluster
    timeline: int


class Position(NamedTuple):
    """A point in a history: everything before it has happened. `at` are bytes of WAL."""

    history: WalHistory
    at: int

    def __str__(self) -> str:
        return f"{self.history.system}-{self.history.timeline}-{self.at >> 32:X}/{self.at & 0xFFFFFFFF:X}"


def position(text: str) -> Position:
    """Parse a position, as `str` writes it. Raises `ValueError`.

    >>> str(position("7300000000000000001-2-1A/B00C4D8"))
    '7300000000000000001-2-1A/B00C4D8'
    """
    match = _TEXT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:100]!r} is not a position")
    return Position(WalHistory(int(match[1]), int(match[2])), int(match[3], 16) << 32 | int(match[4], 16))


class SharedQuery(Generic[T]):
    """A query that runs once for all concurrent callers.

    A caller that comes while it runs waits for the next run, so an answer is never older than its request.
    """

    def __init__(self, fetch: Callable[[], Awaitable[T]]) -> None:
        self._fetch = fetch
        self._running: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None

    async def __call__(self) -> T:
        """The result of a run that begins after this call. Raises the errors of the query."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._run_after(self._running), context=Context())
            self._next.add_done_callback(_retrieved)
        return await asyncio.shield(self._next)

    async def _run_after(self, before: asyncio.Task[T] | None) -> T:
        if before is not None and not before.done():
            await asyncio.wait((before,))
        self._running, self._next = self._next, None
        return await self._fetch()


class PrimaryPosition:
    """The primary's position, now and in the last minute."""

    def __init__(self, database: Database) -> None:
        self._database = database.reading()
        self.history: WalHistory | None = None  # the newest known one
        self._system = 0
        self._times = deque[float](maxlen=SAMPLES)
        self._flushed = deque[int](maxlen=SAMPLES)
        self.position = SharedQuery(self._fetch)  # current position, after everything that is visible now

    async def identify(self) -> None:
        """Read the system identifier: another server may be at the address now."""
        self._system = await self._database.fetchval(SYSTEM)

    async def _fetch(self) -> Position:
        if not self._system:
            await self.identify()
        sent = time.monotonic()
        row = await self._database.fetchrow(NOW)
        assert row is not None  # noqa: S101 - a row by its form
        history = WalHistory(self._system, int(row["timeline"], 16))
        if history != self.history:
            self.history = history
            self._times.clear()
            self._flushed.clear()
        if not self._times or sent >= self._times[-1] + APART:
            self._times.append(sent)
            self._flushed.append(row["kept"])
        return Position(history, row["written"])

    def since(self, replayed: int) -> float:
        """The last time at which the primary was no further than `replayed`, on the monotonic clock.

        Minus infinity if it is unknown.
        """
        place = bisect_right(self._flushed, replayed)
        return self._times[place - 1] if place else -inf


def _retrieved(task: asyncio.Task[T]) -> None:
    """Mark the error as retrieved: the callers may be gone."""
    if not task.cancelled():
        task.exception()
