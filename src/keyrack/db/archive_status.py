"""In charge of how the archiving of the log stands, as the database itself tells it: PostgreSQL's own counters, of any
server."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from keyrack.db.connection import Statements

LATE = 600.0  # seconds beyond `archive_timeout`: every process writes something in two seconds

STANDING: LiteralString = """
select current_setting('archive_mode') <> 'off' as on, current_setting('archive_command') as command,
  s.last_archived_wal as segment, s.last_archived_time as at,
  extract(epoch from now() - s.last_archived_time)::float8 as age,
  coalesce(s.last_failed_time > coalesce(s.last_archived_time, '-infinity'), false) as failing,
  case when s.last_failed_time > coalesce(s.last_archived_time, '-infinity') then s.last_failed_wal end as failed,
  s.failed_count as failures,
  (select setting::integer from pg_settings where name = 'archive_timeout') as timeout,
  extract(epoch from clock_timestamp() - pg_postmaster_start_time())::float8 as running
from pg_stat_archiver s
"""


@dataclass(frozen=True, slots=True)
class ArchiveStatus:
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
    timeout: int  # seconds after which the server archives what there is; 0: whenever a segment is full

    running: float  # seconds since the server's start

    @property
    def late(self) -> bool:
        """Whether the last segment is older than it should be. Where the server waits until a segment is full, nobody
        can say how long that takes: then it is late if it fails."""
        if not self.on:
            return False
        if self.age is None or not self.timeout:
            return self.failing
        return min(self.age, self.running) - self.timeout > LATE


async def standing(statements: Statements) -> ArchiveStatus:
    """How the archiving of the server stands. Raises what the database raises."""
    row = await statements.fetchrow(STANDING)
    assert row is not None  # noqa: S101 - the view has one row
    return ArchiveStatus(**dict(row))
