"""Wakes workers by NOTIFY, always after the commit.

NOTIFY inside a transaction serialises commits, and such a transaction cannot be prepared.
"""

from __future__ import annotations

import asyncio
from typing import LiteralString

import asyncpg

from keyrack.db.connection import UNREACHABLE, Database
from keyrack.db.throttled_log import ThrottledLogger

log = ThrottledLogger("keyrack.worker_wakeup")

WORK: LiteralString = "notify keyrack_work"  # operations are waiting
DELIVER: LiteralString = "notify keyrack_deliver"  # deliveries are waiting
ACCESS: LiteralString = "notify keyrack_access"  # a caller or its rights have changed


class WakeupNotifier:
    """Sends notifications soon, equal ones once. If one is lost, the worker finds the work at its next poll."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._notices: list[LiteralString] = []
        self._wake = asyncio.Event()

    def __call__(self, notice: LiteralString) -> None:
        """Send this notification soon. Call it after the commit."""
        if notice not in self._notices:
            self._notices.append(notice)
        self._wake.set()

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._notices:
                notice = self._notices.pop(0)
                try:
                    await self._db.execute(notice)
                except (*UNREACHABLE, asyncpg.PostgresError) as error:
                    log.warning("worker wakeup failed", error=error, notification=notice)
