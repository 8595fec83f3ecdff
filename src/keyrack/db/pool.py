"""The connection pool of one process: fair shares, renewal after a failover, uncancelled writes.

A write is never cancelled. A COMMIT that waits for the synchronous standby and is cancelled is still a commit. Every
session sees it, but the next primary may not have it. So a write keeps running and keeps its connection if the caller
disconnects or times out, until the server answers or is gone.
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

NEVER = 1e9  # seconds, in place of the statement timeout
MENDING = 1.0  # maximum seconds that a caller with an error waits for the rollback
CLOSING = 3.0  # seconds that running statements get at shutdown
ROLLBACK: LiteralString = "rollback"


class OutcomeUnknown(ConnectionError):
    """A write may be committed or not. The connection was lost or too slow."""


class Pool:
    """The connections of one process, and which caller gets one next.

    asyncpg's pool opens and repairs them. Between two statements a connection stays here. To return it to asyncpg's
    pool and take it out again costs a third of a read, so this happens only after an error.

    ```text
    asyncpg's pool --_acquire--> in use --give_back--> kept
          ^                        |  ^                 |
          |                        |  +------take-------+
          |           mend, or give_back of an old one  |
          |                        v                    |
          +-------_released--------+<-----_renewed------+
    ```

    The state is three sets:
    - `_connections`: the connections in use and the kept ones.
    - `_idle`: the kept ones.
    - `_expired`: those of `_connections` that were opened before the last renewal of `PrimaryTracker`.

    A renewal releases the kept ones at once, and those in use when they come back. If another server has become the
    primary, it ends those in use as well. An enum at each connection would repeat the sets, because every operation
    needs a whole set: the next kept one, all expired ones.
    """

    def __init__(
        self, pool: asyncpg.Pool, size: int, settings: Settings, connector: PrimaryConnector, name: str
    ) -> None:
        self.share = max(1, size // 2)  # maximum connections of one tenant at a time
        self.patience = acquire_timeout(settings)
        self.name = name
        self.seconds = STATEMENT_SECONDS.of(name)
        self._pool = pool
        self.connector = connector
        self._leadership = connector.leadership
        self._shares = FairSemaphore(size, settings.db_queue_max_waiting, settings.db_queue_timeout_seconds, name)
        self._idle: list[asyncpg.Connection] = []
        self._connections = set[asyncpg.Connection]()  # in use or kept
        self._expired = set[asyncpg.Connection]()  # those of them that a renewal has expired
        self._tasks = set[asyncio.Task[Any]]()
        self._expiring: asyncio.Task[None] | None = None
        self._leadership.watch(self._renewed)

    async def take(self, shares: TenantShares) -> asyncpg.Connection:
        """Take a connection, charged to `shares`. Raises `Unavailable` if too many wait, or the wait is too long."""
        await self._shares.take(shares)
        try:
            while self._idle:
                raw = self._idle.pop()
                with suppress(asyncpg.InterfaceError):  # the server closed it, and asyncpg has already taken it back
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
            await self._pool.release(raw)  # opened before a renewal

    def give_back(self, shares: TenantShares, raw: asyncpg.Connection) -> None:
        """Keep the connection for the next caller."""
        if self._expired and raw in self._expired:
            self._run(self._mended(shares, raw))
            return
        self._idle.append(raw)
        self._shares.give_back(shares)

    async def mend(self, shares: TenantShares, raw: asyncpg.Connection, error: BaseException) -> None:
        """Roll back and return a connection after an error."""
        if raw not in self._expired and self._leadership.is_telling(error):
            self._leadership.doubt(self._leadership.generation, error)
        await asyncio.wait((self._run(self._mended(shares, raw)),), timeout=MENDING)

    async def finish(self, write: Coroutine[Any, Any, T]) -> T:
        """The result of a write; it keeps running if the caller leaves.

        Raises `OutcomeUnknown` after `patience` seconds.
        """
        task = self._run(write)
        await asyncio.wait((task,), timeout=self.patience)
        if not task.done():
            raise OutcomeUnknown("the commit has not been acknowledged yet")
        return task.result()

    async def close(self) -> None:
        """Close all connections; running statements get three seconds.

        A commit that then still waits for a standby continues in the server: an abrupt disconnect cancels nothing.
        """
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
        """Stop using all connections opened so far.

        If another server is the primary now, end what runs on the previous one: it can acknowledge nothing any more.
        """
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
        """Return a connection to asyncpg, which closes it if it has expired."""
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
            task.exception()  # retrieve the error: the caller may be gone


def acquire_timeout(settings: Settings) -> float:
    """Maximum seconds that a caller waits for one statement.

    It is twice the server's own statement timeout, because the server may be gone.
    """
    return 2 * settings.statement_timeout_seconds


async def timed(seconds: Spread, sql: LiteralString, statement: Awaitable[T]) -> T:
    """The result of a statement; observes its time, also if it fails."""
    begun = perf_counter()
    try:
        return await statement
    finally:
        took = perf_counter() - begun
        seconds.observe(took)
        if TRACES.on:
            TRACES.statement(sql, took, sys.exception())
