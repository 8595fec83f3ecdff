"""In charge of what the log says of a database in trouble: where it is away, one line a minute for all of a process."""

from __future__ import annotations

from keyrack.core.log_config import EVERY, MINUTE, RateLimitedLogger, cause
from keyrack.db.connection import UNREACHABLE

AWAY = "the database is away: what has to wait goes on when it is back"

_away = RateLimitedLogger("keyrack.database", MINUTE)


class ThrottledLogger(RateLimitedLogger):
    """Warnings of one part of a process about what the database has interrupted.

    A database that cannot be reached interrupts all parts at once, again and again: they share a line, which names the
    first of them. Any other trouble has lines of its own.
    """

    def __init__(self, name: str, every: float = EVERY) -> None:
        super().__init__(name, every)
        self._part = name.rpartition(".")[2]

    def warning(self, event: str, *, error: BaseException | None = None, **told: object) -> None:
        """Write the line, unless one about the same was written a moment ago."""
        if isinstance(error, UNREACHABLE) and not isinstance(error, ValueError):
            _away.warning(AWAY, part=self._part, cause=cause(error))
        else:
            super().warning(event, error=error, **told)
