"""Status of WAL archiving, from PostgreSQL's own counters on any server."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from keyrack.db.connection import Statements

# Seconds beyond `archive_timeout`. Each process of Keyrack writes a heartbeat every few seconds, so there is always WAL
# to archive
LATE = 600.0

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
    """Status of WAL archiving.

    `age` is the age of the last archived segment in seconds, or None if there is none since the counters began. While
    anything writes, PostgreSQL archives a segment at least every `timeout` seconds. An age of some minutes more means
    trouble.
    """

    on: bool
    command: str | None  # None if the role may not read it
    segment: str | None
    at: datetime | None
    age: float | None
    failing: bool  # the last attempt failed; PostgreSQL retries it and keeps the WAL on its disk
    failed: str | None  # the segment of that attempt
    failures: int
    timeout: int  # seconds until a partial segment is archived; 0: only full ones

    running: float  # uptime of the server in seconds

    @property
    def late(self) -> bool:
        """Whether the last segment is older than it should be.

        Without an `archive_timeout`, or before the first segment, the age says nothing. Then it is late if archiving
        fails. Time before the server's start does not count, because a stopped server archives nothing.
        """
        if not self.on:
            return False
        if self.age is None or not self.timeout:
            return self.failing
        return min(self.age, self.running) - self.timeout > LATE


async def standing(statements: Statements) -> ArchiveStatus:
    """Read the archiving status of the server. Raises the database's errors."""
    row = await statements.fetchrow(STANDING)
    assert row is not None  # noqa: S101 - the view has one row
    return ArchiveStatus(**dict(row))
