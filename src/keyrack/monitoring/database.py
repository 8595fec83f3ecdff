"""In charge of the gauges that are read from the database: by one process for all, seldom, and never for long.

Whoever asks for metrics does not wait for a database that is away or slow: what is not known is left out, and
`keyrack_database_up` says so.
"""

from __future__ import annotations

import asyncio
import time

import structlog

from keyrack.database.connection import Database, is_interruption
from keyrack.database.trouble import Interruptions
from keyrack.errors import Unavailable
from keyrack.logs import MINUTE
from keyrack.metrics import measures
from keyrack.monitoring.backlog import APPLICATION, Backlog, backlog
from keyrack.settings import Settings

log = structlog.get_logger("keyrack.metrics")
seldom = Interruptions("keyrack.metrics", MINUTE)

EVERY = 5.0  # seconds between two looks
PATIENCE = 2.0  # seconds that a page waits for one
STATEMENT = 2.0  # seconds that a statement may take
# A plan that reads a table from end to end is none that we want: the tables are large where it matters
PARAMETERS = {"statement_timeout": str(int(STATEMENT * 1000)), "enable_seqscan": "off"}


class Looks:
    """The looks of one process."""

    def __init__(self, dsn: str, settings: Settings) -> None:
        self._dsn = dsn
        self._settings = settings
        self._db: Database | None = None
        self._task: asyncio.Task[None] | None = None
        self._due = 0.0

    async def look(self) -> None:
        """Bring the gauges up to date, if they are old. One look at a time; if it takes long, nobody waits for it."""
        if self._task is not None and self._task.done():
            self._task = None
        if self._task is None and time.monotonic() >= self._due:
            self._task = asyncio.create_task(self._look())
        if self._task is not None:
            await asyncio.wait((self._task,), timeout=PATIENCE)
            if not self._task.done():
                _unknown()

    async def close(self) -> None:
        """Give back the connection."""
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
            _tell(await backlog(self._db))
        except Exception as error:  # whatever it is, the other metrics are told
            _unknown()
            if isinstance(error, Unavailable) or is_interruption(error):
                seldom.warning(
                    "the backlog is not known: the database is away, or too slow", error=error.__cause__ or error
                )
            else:
                log.exception("the backlog is not known")
        finally:
            self._due = time.monotonic() + EVERY


def _unknown() -> None:
    measures.DATABASE_UP.of().set(0)
    for gauge in measures.OF_DATABASE:
        gauge.replace({})


def _tell(found: Backlog) -> None:
    measures.DATABASE_UP.of().set(1)
    for gauge, value in (
        (measures.PENDING, found.operations),
        (measures.PENDING_AGE, found.operations_age),
        (measures.WAITING, found.deliveries),
        (measures.WAITING_AGE, found.deliveries_age),
        (measures.CHANGES_AGE, found.changes_age),
        (measures.REFUSED, found.refused),
        (measures.DEAD, found.dead),
        (measures.DISABLED, found.disabled),
        (measures.DATABASE_BYTES, found.database_bytes),
        (measures.MOST_SESSIONS, found.most_sessions),
        (measures.UNATTENDED, found.unattended or 0),
        (measures.ARCHIVE_LATE, found.archive.late),
    ):
        gauge.replace({(): float(value)})
    steps = found.housekeeping
    measures.LAST_GOOD.replace({(step.name,): step.last_good.timestamp() for step in steps if step.last_good})
    measures.FAILURES.replace({(step.name,): float(step.failures) for step in steps})
    measures.LATE.replace({(step.name,): float(step.late) for step in steps})
    measures.SESSIONS.replace({(name,): float(count) for name, count in found.sessions.items()})
    measures.LIVING.replace({(role,): float(found.living(role)) for role in ("serve", "work")})
    known = [standby for standby in found.standbys if standby.seconds is not None and standby.bytes is not None]
    measures.REPLICA_LAG.replace({(standby.name,): float(standby.seconds or 0) for standby in known})
    measures.REPLICA_BYTES.replace({(standby.name,): float(standby.bytes or 0) for standby in known})
    archived = found.archive.on and found.archive.age is not None
    measures.ARCHIVE_AGE.replace({(): found.archive.age or 0.0} if archived else {})
