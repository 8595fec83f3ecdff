"""In charge of the log's months: made ahead, and dropped by class of retention when the days of the class are over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import LiteralString

import asyncpg
import structlog

from keyrack.changes import custody
from keyrack.changes.numbering import MAKE
from keyrack.database.connection import Database
from keyrack.database.partitions import months_ahead
from keyrack.settings import Settings

log = structlog.get_logger("keyrack.changes")

DAYS = {1: 100, 2: 400, 3: 800, 4: 3_660}  # of each class, for which a change is kept at least

# While nothing is numbered: both change the ends of logs
ALONE: LiteralString = "select pg_advisory_xact_lock(7260925)"
DROP: LiteralString = "select drop_changes($1, $2)"


async def tend(db: Database, settings: Settings, now: datetime | None = None) -> list[str]:
    """Make the months that will be needed, drop those that are too old; the names of these. A step of housekeeping."""
    now = now or datetime.now(UTC)
    for month in months_ahead(now):
        await db.execute(MAKE, month)
    dropped: list[str] = []
    for retention, days in DAYS.items():
        try:
            async with db.transaction() as connection:
                # To drop a partition is to lock its parent for a moment: rather later than make everybody wait
                await connection.execute("set local lock_timeout = '1s'")
                await connection.execute(ALONE)
                rows = await connection.fetch(DROP, retention, (now - timedelta(days=days)).date())
                dropped += [row[0] for row in rows]
        except asyncpg.LockNotAvailableError:
            log.info("the log of changes is in use; its old months will be dropped later", retention=retention)
        await custody.forget(db, settings, retention, _midnight(now - timedelta(days=days)))
    if dropped:
        log.info("old changes dropped", partitions=dropped)
    return dropped


def _midnight(time: datetime) -> datetime:
    return time.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
