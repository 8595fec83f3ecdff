"""In charge of how the archiving stands, as the database itself tells it: PostgreSQL's own counters, of any server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

import structlog

from keyrack.database.connection import Database, Statements
from keyrack.embedded.archive import OFF
from keyrack.settings import Settings

log = structlog.get_logger("keyrack.backups")

STANDING: LiteralString = """
select current_setting('archive_mode') <> 'off' as on, current_setting('archive_command') as command,
  s.last_archived_wal as segment, s.last_archived_time as at,
  extract(epoch from now() - s.last_archived_time)::float8 as age,
  coalesce(s.last_failed_time > coalesce(s.last_archived_time, '-infinity'), false) as failing,
  case when s.last_failed_time > coalesce(s.last_archived_time, '-infinity') then s.last_failed_wal end as failed,
  s.failed_count as failures
from pg_stat_archiver s
"""


@dataclass(frozen=True, slots=True)
class Standing:
    """How the archiving stands. `age` is that of the last archived segment, in seconds: while anything writes,
    PostgreSQL archives one a minute, so an age of some minutes means trouble. None: none since the counters began."""

    on: bool
    command: str | None  # None for whoever may not see it
    segment: str | None
    at: datetime | None
    age: float | None
    failing: bool  # the last try has failed; it is tried again, and the log stays on the server's disk meanwhile
    failed: str | None  # the segment of that try
    failures: int


async def standing(statements: Statements) -> Standing:
    """How the archiving of the server stands. Raises what the database raises."""
    row = await statements.fetchrow(STANDING)
    assert row is not None  # noqa: S101 - the view has one row
    return Standing(**dict(row))


async def warn(settings: Settings, dsn: str) -> None:
    """Say so in the log where the running database does not archive to the directory of this process's settings."""
    if settings.backup_directory in (None, OFF):
        return
    async with connected(settings, dsn) as database:
        found = await standing(database)
    if not found.on or settings.backup_directory not in (found.command or ""):
        log.warning(
            "the database does not archive to KEYRACK_BACKUP_DIRECTORY: it was started before that was set; stop "
            "everything that uses it once",
            directory=settings.backup_directory,
        )


@asynccontextmanager
async def connected(settings: Settings, dsn: str) -> AsyncGenerator[Database]:
    """The database at this address, over one connection. Raises `Unavailable`."""
    database = await Database.connect(dsn, settings, application="keyrack backup", size=1)
    try:
        yield database
    finally:
        await database.close()
