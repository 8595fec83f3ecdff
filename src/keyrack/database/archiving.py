"""In charge of how the archiving of the log stands, as the database itself tells it: PostgreSQL's own counters, of any
server."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from keyrack.database.connection import Statements

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
