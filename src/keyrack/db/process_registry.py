"""The running processes and their roles, from their heartbeats."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from keyrack.db.connection import Statements

SILENT = 60.0  # seconds without a beat after which a process counts as gone; by default it beats every two seconds
MOST = 1_000  # maximum processes in an answer

# Rows of processes that crashed stay until housekeeping deletes them
FOUND: LiteralString = """
select role, host, pid, version, started_at as started,
  greatest(0, extract(epoch from clock_timestamp() - beat_at))::float8 as seconds_since_beat
from heartbeat order by beat_at >= now() - make_interval(secs => $1) desc, role, host, started_at, pid limit $2
"""


@dataclass(frozen=True, slots=True)
class Presence:
    """A process in one role; a process that serves and works has two entries."""

    role: str  # `serve` or `work`
    host: str
    pid: int
    version: str
    started: datetime
    seconds_since_beat: float

    @property
    def lives(self) -> bool:
        return self.seconds_since_beat < SILENT


async def processes(statements: Statements) -> tuple[Presence, ...]:
    """The processes, live ones first. Raises the database's errors."""
    return tuple(Presence(**dict(row)) for row in await statements.fetch(FOUND, SILENT, MOST))
