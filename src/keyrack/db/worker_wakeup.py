"""In charge of notices that go out: after the commit, and never in it.

A notice in a transaction makes commits queue up behind one another, and such a transaction cannot be prepared.
"""

from __future__ import annotations

import asyncio
from typing import LiteralString

import asyncpg

from keyrack.db.connection import UNREACHABLE, Database
from keyrack.db.throttled_log import ThrottledLogger

log = ThrottledLogger("keyrack.worker_wakeup")

WORK: LiteralString = "notify keyrack_work"  # there are operations to apply
DELIVER: LiteralString = "notify keyrack_deliver"  # there are deliveries to send
ACCESS: LiteralString = "notify keyrack_access"  # it has changed who may call


class WakeupNotifier:
    """Gives notices, soon: many of the same become one. A lost one costs a poll, never the work."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._notices: list[LiteralString] = []
        self._wake = asyncio.Event()

    def __call__(self, notice: LiteralString) -> None:
        if notice not in self._notices:
            self._notices.append(notice)
        self._wake.set()

    async def run(self) -> None:
        """Announce until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._notices:
                notice = self._notices.pop(0)
                try:
                    await self._db.execute(notice)
                except (*UNREACHABLE, asyncpg.PostgresError) as error:
                    log.warning("worker wakeup failed", error=error, notification=notice)
