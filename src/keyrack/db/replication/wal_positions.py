"""In charge of positions: how far a history of the database had come, and how far the leader has by now.

A place in the write-ahead log means something only in one history: a system, and a timeline of it, which a promotion or
a restore ends.
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

# A commit that was not waited for is seen before it is on the disk: so a position counts what was written, and the lag,
# which is of what replicas can have got, what is on the disk. The timeline stands in the name of a file of the log.
NOW: LiteralString = """
select left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) as timeline,
  (pg_current_wal_insert_lsn() - '0/0')::int8 as written, (pg_current_wal_flush_lsn() - '0/0')::int8 as kept
"""
SYSTEM: LiteralString = "select system_identifier from pg_control_system()"  # which reads a file
EVERY = 0.1  # seconds between two looks
SAMPLES = 1_200  # with so many looks at least, lags of a minute are known
APART = 0.05  # seconds between two that are remembered
INVALID = ErrorCode(
    "invalid-position",
    "The header Keyrack-Position must be the value from a response, or latest.",
    "Send the `Keyrack-Position` of the newest response unchanged, or leave it out.",
)

_TEXT = re.compile(r"([0-9]{1,20})-([0-9]{1,10})-([0-9A-F]{1,8})/([0-9A-F]{1,8})", re.ASCII)


class WalHistory(NamedTuple):
    """What was written one after the other."""

    system: int  # the identifier that a database cluster gets when it is made
    timeline: int


class Position(NamedTuple):
    """A place in a history: everything before it has happened. `at` are bytes of the write-ahead log."""

    history: WalHistory
    at: int

    def __str__(self) -> str:
        return f"{self.history.system}-{self.history.timeline}-{self.at >> 32:X}/{self.at & 0xFFFFFFFF:X}"


def position(text: str) -> Position:
    """The position of a text, as `str` makes it. Raises `ValueError`.

    >>> str(position("7300000000000000001-2-1A/B00C4D8"))
    '7300000000000000001-2-1A/B00C4D8'
    """
    match = _TEXT.fullmatch(text)
    if match is None:
        raise ValueError("no position")
    return Position(WalHistory(int(match[1]), int(match[2])), int(match[3], 16) << 32 | int(match[4], 16))


class SharedQuery(Generic[T]):
    """A question that is asked once for all who want to know at the same time. Who comes while it is under way waits
    for the next: an answer is never older than the wish for it."""

    def __init__(self, fetch: Callable[[], Awaitable[T]]) -> None:
        self._fetch = fetch
        self._running: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None

    async def __call__(self) -> T:
        """Raises what asking raises."""
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
    """How far the leader has come, and when it had come how far."""

    def __init__(self, database: Database) -> None:
        self._database = database.reading()
        self.history: WalHistory | None = None  # the newest that is known
        self._system = 0
        self._times = deque[float](maxlen=SAMPLES)
        self._flushed = deque[int](maxlen=SAMPLES)
        self.position = SharedQuery(self._fetch)  # of now, after everything that can be seen now

    async def identify(self) -> None:
        """Ask which system it is: at its address another one may stand now."""
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
        """When the leader was no further than this last, by the monotonic clock; minus infinity where nobody knows."""
        place = bisect_right(self._flushed, replayed)
        return self._times[place - 1] if place else -inf


def _retrieved(task: asyncio.Task[T]) -> None:
    """Whoever asked may have gone: its failure need not be asked for."""
    if not task.cancelled():
        task.exception()
