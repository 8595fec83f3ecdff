"""Rate-limited database warnings: one "unreachable" line a minute per process."""

from __future__ import annotations

from collections.abc import Hashable

from keyrack.core.log_config import EVERY, MINUTE, RateLimitedLogger, cause
from keyrack.db.connection import UNREACHABLE

UNREACHABLE_EVENT = "database unreachable"

_database_log = RateLimitedLogger("keyrack.database", MINUTE)


class ThrottledLogger(RateLimitedLogger):
    """Database warnings of one component of a process.

    An unreachable database interrupts all components again and again. They share one line. Its field `component` names
    the first of them: the last segment of its logger's name. Any other trouble has its own lines.
    """

    def __init__(self, name: str, every: float = EVERY) -> None:
        super().__init__(name, every)
        self._component = name.rpartition(".")[2]

    def warning(
        self, event: str, *, error: BaseException | None = None, throttle_by: Hashable = None, **fields: object
    ) -> None:
        """Write the line, unless a line about the same was written a moment ago."""
        if isinstance(error, UNREACHABLE) and not isinstance(error, ValueError):
            _database_log.warning(UNREACHABLE_EVENT, component=self._component, cause=cause(error))
        else:
            super().warning(event, error=error, throttle_by=throttle_by, **fields)
