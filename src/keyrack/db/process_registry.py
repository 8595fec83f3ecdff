"""In charge of who is there, as the heartbeats tell it: which processes serve and work, where, since when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from keyrack.db.connection import Statements

SILENT = 60.0  # seconds without a beat, of which there is one in two: whoever makes none for so long is gone
MOST = 1_000  # processes that are told

# Those that ended without a word stay until housekeeping forgets them
FOUND: LiteralString = """
select role, host, pid, version, started_at as started,
  greatest(0, extract(epoch from clock_timestamp() - beat_at))::float8 as seconds_since_beat
from heartbeat order by beat_at >= now() - make_interval(secs => $1) desc, role, host, started_at, pid limit $2
"""


@dataclass(frozen=True, slots=True)
class Presence:
    """A process in one of its roles; one that serves and works has both."""

    role: str  # `serve` or `work`
    host: str
    pid: int
    version: str
    started: datetime
    seconds_since_beat: float  # seconds since its last beat

    @property
    def lives(self) -> bool:
        return self.seconds_since_beat < SILENT


async def processes(statements: Statements) -> tuple[Presence, ...]:
    """The processes, those that live first. Raises what the database raises."""
    return tuple(Presence(**dict(row)) for row in await statements.fetch(FOUND, SILENT, MOST))
