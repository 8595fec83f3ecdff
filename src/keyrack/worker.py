"""In charge of the worker: the loops that do what waits, woken by the database, stopped cleanly."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import asyncpg
import structlog

from keyrack.api import idempotency
from keyrack.assignments import lanes
from keyrack.database import partitions
from keyrack.database.connection import UNREACHABLE, Database
from keyrack.database.listener import Listener
from keyrack.settings import Settings
from keyrack.webhooks import housekeeping

log = structlog.get_logger("keyrack.worker")

GRACE = 2.5  # seconds that deliveries under way get at a stop; with the rest it stays below what a parent waits
TIDY_SECONDS = 300  # between two rounds of throwing away what nobody needs any more
FORGET_LIMITS = "delete from rate_limit where full_at < now() - interval '1 hour'"


class Bell:
    """Wakes one sleeper for each ring; a ring while nobody sleeps is kept for the next one."""

    def __init__(self) -> None:
        self._sleepers: deque[asyncio.Future[None]] = deque()
        self._rung = False

    def ring(self) -> None:
        while self._sleepers:
            sleeper = self._sleepers.popleft()
            if not sleeper.done():
                sleeper.set_result(None)
                return
        self._rung = True

    async def sleep(self, seconds: float | None) -> None:
        """Until a ring, or for so long."""
        if self._rung:
            self._rung = False
            return
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append(sleeper)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await sleeper


class Worker:
    """One worker: several cars at a time; any number of workers share the work through the database alone."""

    def __init__(self, db: Database, dsn: str, settings: Settings) -> None:
        self._db = db
        self._settings = settings
        self._bell = Bell()
        self._stopping = asyncio.Event()
        heard = {"keyrack_work": self._on_work, "keyrack_deliver": self._on_deliver}
        self._listener = Listener(dsn, heard, self._on_work)
        self._courier: Any = None
        self._call = asyncio.Event()

    async def run(self) -> None:
        """Work until `stop`; what is held then is finished first, or given back."""
        from keyrack.webhooks.delivery import Courier  # with it comes an HTTP client that only workers need

        self._courier = courier = Courier(self._db, self._settings, self._call.set)
        helpers = [self._start(self._listener.run()), self._start(self._tidy()), self._start(self._call_others())]
        delivering = self._start(courier.run(GRACE))
        loops = [self._start(self._loop(polls=number == 0)) for number in range(self._settings.worker_concurrency)]
        try:
            stopped = self._start(self._stopping.wait())
            await asyncio.wait([stopped, delivering, *loops], return_when=asyncio.FIRST_COMPLETED)
            courier.stop()
            for _ in loops:
                self._bell.ring()
            await asyncio.wait([delivering, *loops], timeout=2 * GRACE)
        finally:
            for task in (*helpers, delivering, *loops):
                task.cancel()
            await asyncio.gather(*helpers, delivering, *loops, return_exceptions=True)
        for task in (delivering, *loops):
            if not task.cancelled() and (error := task.exception()):
                raise error

    def _start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        return asyncio.create_task(work)

    async def stop(self) -> None:
        """Ask the loops to end after what each one holds."""
        self._stopping.set()

    async def _loop(self, *, polls: bool) -> None:
        while not self._stopping.is_set():
            try:
                done = await lanes.run_lanes(self._db)
                if done is not None:
                    if done.deliveries:
                        self._on_deliver()
                    self._bell.ring()  # where there is work there may be more
                    continue
            except (*UNREACHABLE, asyncpg.PostgresError, TimeoutError) as error:
                log.warning("work interrupted; it will be done again", error=str(error))
                await asyncio.sleep(0.5)
            except Exception:
                log.exception("work failed")
                await asyncio.sleep(2)
            await self._bell.sleep(self._settings.worker_poll if polls else None)

    def _on_work(self) -> None:
        self._bell.ring()
        self._on_deliver()

    def _on_deliver(self) -> None:
        if self._courier is not None:
            self._courier.wake()

    async def _call_others(self) -> None:
        """Tell the other workers that there is more to deliver than this one can take."""
        while True:
            await self._call.wait()
            self._call.clear()
            with suppress(*UNREACHABLE, asyncpg.PostgresError):
                await self._db.execute("notify keyrack_deliver")

    async def _tidy(self) -> None:
        while True:
            try:
                await partitions.tend(self._db, self._settings)
                await self._db.execute(FORGET_LIMITS)
                await housekeeping.tidy(self._db, self._settings)
                await idempotency.tidy(self._db, self._settings)
            except (*UNREACHABLE, asyncpg.PostgresError, TimeoutError) as error:
                log.warning("old rows not removed yet", error=str(error))
            await asyncio.sleep(TIDY_SECONDS)
