"""Gauges of the database, which one process reads for all.

With cells, it reads the database of each. A request of metrics does not wait for an unreachable or slow database.
Unknown values are left out, and `keyrack_database_up` is 0.
"""

from __future__ import annotations

import asyncio
import time

import structlog

from keyrack.core.errors import Unavailable
from keyrack.core.log_config import MINUTE
from keyrack.core.metrics import catalog
from keyrack.core.metrics.instruments import Snapshot, snapshot
from keyrack.core.settings import Settings
from keyrack.db.connection import Database, is_interruption
from keyrack.db.throttled_log import ThrottledLogger
from keyrack.ops.monitoring.backlog import APPLICATION, Backlog, backlog

log = structlog.get_logger("keyrack.metrics")
seldom = ThrottledLogger("keyrack.metrics", MINUTE)

EVERY = 5.0  # minimum time between two readings (seconds)
PATIENCE = 2.0  # maximum wait of a page for a reading (seconds)
STATEMENT = 2.0  # statement timeout (seconds)
# Sequential scans are off, because the tables can be large
PARAMETERS = {"statement_timeout": str(int(STATEMENT * 1000)), "enable_seqscan": "off"}


class GaugeCollector:
    """Reads the gauges of one database."""

    def __init__(self, dsn: str, settings: Settings) -> None:
        self._dsn = dsn
        self._settings = settings
        self._db: Database | None = None
        self._task: asyncio.Task[None] | None = None
        self._backlog: Backlog | None = None  # the last reading; None if it failed
        self._due = 0.0

    async def look(self) -> Snapshot:
        """The gauges, read again if they are outdated.

        One reading runs at a time, and callers wait at most `PATIENCE`.
        """
        if self._task is not None and self._task.done():
            self._task = None
        if self._task is None and time.monotonic() >= self._due:
            self._task = asyncio.create_task(self._look())
        if self._task is not None:
            await asyncio.wait((self._task,), timeout=PATIENCE)
        is_late = self._task is not None and not self._task.done()
        # No other collector sets the gauges before the snapshot is taken
        if self._backlog is None or is_late:
            _unknown()
        else:
            _tell(self._backlog)
        return snapshot((catalog.DATABASE_UP, *catalog.OF_DATABASE))

    async def close(self) -> None:
        """Close the connection."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,), timeout=PATIENCE)
        if self._db is not None:
            await self._db.close()

    async def _look(self) -> None:
        try:
            if self._db is None:
                self._db = await Database.connect(
                    self._dsn, self._settings, application=APPLICATION, parameters=PARAMETERS, size=1
                )
            self._backlog = await backlog(self._db)
        except Exception as error:  # the page shows all other metrics
            self._backlog = None
            if isinstance(error, Unavailable) or is_interruption(error):
                seldom.warning("backlog query failed, database unreachable or slow", error=error.__cause__ or error)
            else:
                log.exception("backlog query failed")
        finally:
            self._due = time.monotonic() + EVERY


def _unknown() -> None:
    catalog.DATABASE_UP.of().set(0)
    for gauge in catalog.OF_DATABASE:
        gauge.replace({})


def _tell(current_backlog: Backlog) -> None:
    catalog.DATABASE_UP.of().set(1)
    for gauge, value in (
        (catalog.PENDING, current_backlog.operations),
        (catalog.PENDING_AGE, current_backlog.operations_age),
        (catalog.WAITING, current_backlog.deliveries),
        (catalog.WAITING_AGE, current_backlog.deliveries_age),
        (catalog.UNSEQUENCED_AGE, current_backlog.changes_age),
        (catalog.UNDELIVERED_PERSONS_AGE, current_backlog.persons_age),
        (catalog.CHECKPOINT_FAILED_LOGS, current_backlog.refused),
        (catalog.DEAD, current_backlog.dead),
        (catalog.DISABLED, current_backlog.disabled),
        (catalog.DATABASE_BYTES, current_backlog.database_bytes),
        (catalog.MOST_SESSIONS, current_backlog.most_sessions),
        (catalog.PENDING_WITHOUT_WORKER, current_backlog.unattended or 0),
        (catalog.ARCHIVE_LATE, current_backlog.archive.late),
    ):
        gauge.replace({(): float(value)})
    steps = current_backlog.housekeeping
    catalog.LAST_SUCCESS.replace({(step.name,): step.last_good.timestamp() for step in steps if step.last_good})
    catalog.FAILURES.replace({(step.name,): float(step.failures) for step in steps})
    catalog.LATE.replace({(step.name,): float(step.late) for step in steps})
    catalog.SESSIONS.replace({(name,): float(count) for name, count in current_backlog.sessions.items()})
    catalog.LIVING.replace({(role,): float(current_backlog.living(role)) for role in ("serve", "work")})
    measured_standbys = [
        standby for standby in current_backlog.standbys if standby.seconds is not None and standby.bytes is not None
    ]
    catalog.REPLICA_LAG.replace({(standby.name,): float(standby.seconds or 0) for standby in measured_standbys})
    catalog.REPLICA_BYTES.replace({(standby.name,): float(standby.bytes or 0) for standby in measured_standbys})
    archived = current_backlog.archive.on and current_backlog.archive.age is not None
    catalog.ARCHIVE_AGE.replace({(): current_backlog.archive.age or 0.0} if archived else {})
