"""In charge of the worker: the loops that do what waits, woken by the database, stopped cleanly."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import asyncpg
import structlog

from keyrack import operations
from keyrack.db import UNREACHABLE, Database, Listener
from keyrack.settings import Settings

log = structlog.get_logger("keyrack.worker")

TIDY_SECONDS = 300  # between two rounds of throwing away what nobody needs any more
FORGET_LIMITS = "delete from rate_limit where full_at < now() - interval '1 hour'"


class Worker:
    """One worker: several cars at a time; any number of workers share the work through the database alone."""

    def __init__(self, db: Database, dsn: str, settings: Settings) -> None:
        self._db = db
        self._settings = settings
        self._wake = asyncio.Condition()
        self._stopping = asyncio.Event()
        self._listener = Listener(dsn, {"keyrack_work": self._on_notice}, lambda: None)
        self._notices: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Work until `stop`; what is held then is finished first."""
        listening = asyncio.create_task(self._listener.run())
        tidying = asyncio.create_task(self._tidy())
        try:
            loops = [self._loop(polls=number == 0) for number in range(self._settings.worker_concurrency)]
            await asyncio.gather(*loops)
        finally:
            for task in (listening, tidying):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def stop(self) -> None:
        """Ask the loops to end after the lane that each one holds."""
        self._stopping.set()
        await self._notify()

    async def _loop(self, *, polls: bool) -> None:
        while not self._stopping.is_set():
            try:
                if await operations.run_lane(self._db):
                    if polls:
                        await self._notify()  # where there is one car with work there may be more
                    continue
            except (*UNREACHABLE, asyncpg.PostgresError, TimeoutError) as error:
                log.warning("work interrupted; it will be done again", error=str(error))
                await asyncio.sleep(0.5)
            await self._rest(self._settings.worker_poll if polls else None)

    async def _rest(self, seconds: float | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds), self._wake:
                if not self._stopping.is_set():
                    await self._wake.wait()

    def _on_notice(self) -> None:
        task = asyncio.ensure_future(self._notify())
        self._notices.add(task)
        task.add_done_callback(self._notices.discard)

    async def _notify(self) -> None:
        async with self._wake:
            self._wake.notify_all()

    async def _tidy(self) -> None:
        while True:
            with suppress(*UNREACHABLE, asyncpg.PostgresError):
                await self._db.execute(FORGET_LIMITS)
            await asyncio.sleep(TIDY_SECONDS)
