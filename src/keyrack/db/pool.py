"""In charge of the connections of one process: who gets one next, those of before that are over, writes that go on.

A write is never cancelled: a COMMIT that waits for the synchronous standby and is told to stop is a commit all the
same, which everybody sees and the next leader may not have. So it goes on whoever leaves or does not wait any more, and
has its connection until the server has answered or is gone.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Coroutine
from contextlib import suppress
from time import perf_counter
from typing import Any, LiteralString, TypeVar

import asyncpg

from keyrack.core.metrics.catalog import STATEMENT_SECONDS
from keyrack.core.metrics.instruments import Spread
from keyrack.core.settings import Settings
from keyrack.core.tracing.spans import TRACES
from keyrack.db.fair_semaphore import FairSemaphore, TenantShares
from keyrack.db.replication.primary_connector import PrimaryConnector

T = TypeVar("T")

NEVER = 1e9  # seconds, in place of the time-out that statements have
MENDING = 1.0  # seconds that whoever had an error waits until its transaction is undone
CLOSING = 3.0  # seconds that statements under way get at the end
ROLLBACK: LiteralString = "rollback"


class OutcomeUnknown(ConnectionError):
    """The connection was lost, or took too long, while something was being committed: it may have been done, or not."""


class Pool:
    """The connections of one process, and who gets one next.

    asyncpg's pool opens and mends them. Between two statements a connection stays here: handing it back to the pool
    and taking it out again costs a third of a read, and is done only when something has gone
    wrong with it.

    ```text
    asyncpg's pool --_acquire--> in use --give_back--> kept
          ^                        |  ^                 |
          |                        |  +------take-------+
          |           mend, or give_back of an old one  |
          |                        v                    |
          +-------_released--------+<-----_renewed------+
    ```

    `_connections` has the connections in use and the kept ones, `_idle` the latter, `_expired` those of `_connections`
    that were opened before the last renewal of `PrimaryTracker`. A renewal releases the kept ones at once, and
    those in use when they come back. If another server has become the primary, it ends those in use as well. These
    sets are the state. An enum
    at each connection would repeat them, as every operation needs a whole set: the next kept one, all old ones.
    """

    def __init__(
        self, pool: asyncpg.Pool, size: int, settings: Settings, connector: PrimaryConnector, name: str
    ) -> None:
        self.share = max(1, size // 2)  # connections that one party has at a time
        self.patience = acquire_timeout(settings)
        self.name = name
        self.seconds = STATEMENT_SECONDS.of(name)
        self._pool = pool
        self.connector = connector
        self._leadership = connector.leadership
        self._shares = FairSemaphore(size, settings.db_queue_max_waiting, settings.db_queue_timeout_seconds, name)
        self._idle: list[asyncpg.Connection] = []
        self._connections = set[asyncpg.Connection]()  # those that are ours now, kept or in use
        self._expired = set[asyncpg.Connection]()  # of them, those that are over
        self._tasks = set[asyncio.Task[Any]]()
        self._expiring: asyncio.Task[None] | None = None
        self._leadership.watch(self._renewed)

    async def take(self, shares: TenantShares) -> asyncpg.Connection:
        """A connection for `shares`. Raises `Unavailable` where too many wait for theirs."""
        await self._shares.take(shares)
        try:
            while self._idle:
                raw = self._idle.pop()
                with suppress(asyncpg.InterfaceError):  # its server side has ended, and asyncpg has it back already
                    if not raw.is_closed():
                        return raw
                self._connections.discard(raw)
                await self._pool.release(raw)
            return await self._acquire()
        except BaseException:
            self._shares.give_back(shares)
            raise

    async def _acquire(self) -> asyncpg.Connection:
        while True:
            if self._expiring is not None:
                await asyncio.wait((self._expiring,))
            generation = self._leadership.generation
            raw = await self._pool.acquire()
            if generation == self._leadership.generation:
                self._connections.add(raw)
                return raw
            await self._pool.release(raw)  # it was opened before a doubt

    def give_back(self, shares: TenantShares, raw: asyncpg.Connection) -> None:
        """Keep the connection for the next one."""
        if self._expired and raw in self._expired:
            self._run(self._mended(shares, raw))
            return
        self._idle.append(raw)
        self._shares.give_back(shares)

    async def mend(self, shares: TenantShares, raw: asyncpg.Connection, error: BaseException) -> None:
        """Give back a connection on which something has gone wrong; a transaction is undone."""
        if raw not in self._expired and self._leadership.is_telling(error):
            self._leadership.doubt(self._leadership.generation, error)
        await asyncio.wait((self._run(self._mended(shares, raw)),), timeout=MENDING)

    async def finish(self, write: Coroutine[Any, Any, T]) -> T:
        """What a write returns, which goes on whoever leaves. Raises `OutcomeUnknown` if it takes too long."""
        task = self._run(write)
        await asyncio.wait((task,), timeout=self.patience)
        if not task.done():
            raise OutcomeUnknown("the commit has not been acknowledged yet")
        return task.result()

    async def close(self) -> None:
        """Close all connections; statements under way get three seconds. What still waits then for a standby goes on
        in the server: a connection that ends without a word cancels nothing."""
        self._leadership.unwatch(self._renewed)
        self._shares.end()
        try:
            async with asyncio.timeout(CLOSING):
                while self._tasks:
                    await asyncio.wait(self._tasks)
                while self._idle:
                    await self._pool.release(self._idle.pop())
                await self._pool.close()
        except TimeoutError:
            self._pool.terminate()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=MENDING)

    def _renewed(self, moved: bool) -> None:
        """Use no connection of before any more. Where another server leads, end what is under way at the one before:
        nothing of it can be acknowledged any more."""
        self._expired = set(self._connections)
        kept, self._idle = self._idle, []
        self._expiring = self._run(self._pool.expire_connections())
        for raw in kept:
            self._run(self._released(raw))
        if moved:
            for raw in self._expired.difference(kept):
                with suppress(asyncpg.InterfaceError):
                    raw.terminate()

    async def _mended(self, shares: TenantShares, raw: asyncpg.Connection) -> None:
        try:
            await self._released(raw)
        finally:
            self._shares.give_back(shares)

    async def _released(self, raw: asyncpg.Connection) -> None:
        """Hand a connection back to asyncpg, which closes it if it is over."""
        try:
            async with asyncio.timeout(self.patience):
                if self._expiring is not None:
                    await asyncio.wait((self._expiring,))
                with suppress(asyncpg.InterfaceError):
                    if not raw.is_closed() and raw.is_in_transaction():
                        await raw.execute(ROLLBACK)
                await self._pool.release(raw)
        except Exception:
            with suppress(asyncpg.InterfaceError):
                raw.terminate()
        finally:
            self._connections.discard(raw)
            self._expired.discard(raw)

    def _run(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ran)
        return task

    def _ran(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # who has gone does not ask for it


def acquire_timeout(settings: Settings) -> float:
    """Seconds that anybody waits for one statement, twice those that the server gives it: it may be gone."""
    return 2 * settings.statement_timeout_seconds


async def timed(seconds: Spread, sql: LiteralString, statement: Awaitable[T]) -> T:
    """What a statement answers; its time is taken note of, however it ends."""
    begun = perf_counter()
    try:
        return await statement
    finally:
        took = perf_counter() - begun
        seconds.observe(took)
        if TRACES.on:
            TRACES.statement(sql, took, sys.exception())
