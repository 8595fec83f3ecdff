"""In charge of what a process knows about which server leads: since when, and that what was before is over.

A server that has lost the leadership goes on answering reads. So everything that was opened before a doubt is of an
older generation, and not used any more; and what a server of an older timeline says is not believed.

```text
generation n -- doubt: a connection says that its server goes, `QUIET` after the last renewal --> generation n + 1
generation n -- learn: a connection has found a newer timeline, or another system -> generation n + 1, moves + 1
```

Four classes share the work, each with one question:

- `PrimaryConnector` finds the primary and opens connections to it. It calls `learn`.
- `PrimaryTracker` counts generations, and tells the others of each renewal (`watch`). It has no connection.
- `Pool` asks it before and after each opening, and calls `doubt` after an error. `FairSemaphore` decides who is next.
- `Heartbeat` proves that the primary of this generation still acknowledges commits.

There is no enum of states: a process may always ask for a connection, whatever it believes. Only the number of the
generation decides whether an answer still counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import asyncpg

from keyrack.core.log_config import RateLimitedLogger
from keyrack.core.settings import Settings

log = RateLimitedLogger("keyrack.primary")

QUIET = 1.0  # seconds after a renewal in which errors are no reason for the next one

# What a connection says when its server goes, is gone, or leads no more
GOING = (
    OSError,
    asyncpg.PostgresConnectionError,  # class 08
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # the connection went away between two steps of asyncpg
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
)


def is_shutting_down(error: BaseException) -> bool:
    """Whether it is the connection that has ended, or is about to: not where a value cannot be sent, or an answer takes
    long."""
    return isinstance(error, GOING) and not isinstance(error, ValueError | TimeoutError)


class PrimaryTracker:
    """Which leader a process believes in. What depends on it asks to be told of each renewal."""

    def __init__(self, settings: Settings, *, several: bool) -> None:
        chosen = settings.database_ha
        self.fails_over = several if chosen is None else chosen
        self.generation = 0  # of connections
        self.moves = 0  # to another leader
        self._system = ""
        self._timeline = 0
        self._watching: list[Callable[[bool], None]] = []
        self._quiet_until = 0.0

    def watch(self, renewed: Callable[[bool], None]) -> None:
        """Have `renewed` called at each renewal: with True where another leader has been found, so that whatever is
        still under way at the one before comes to nothing."""
        self._watching.append(renewed)

    def unwatch(self, renewed: Callable[[bool], None]) -> None:
        self._watching.remove(renewed)

    def is_telling(self, error: BaseException) -> bool:
        """Whether only a server says so that goes; or one that leads no more, where another one could."""
        return is_shutting_down(error) or (self.fails_over and isinstance(error, asyncpg.ReadOnlySQLTransactionError))

    def doubt(self, generation: int, error: BaseException) -> None:
        """A connection of this generation has told something of that kind."""
        if generation == self.generation and time.monotonic() >= self._quiet_until:
            self.renew(error)

    def renew(self, error: BaseException | None = None, *, moved: bool = False) -> None:
        """Begin a new generation: every connection of before is over."""
        log.warning("database pool reset", error=error, primary_changed=moved)
        self._begin(moved)

    def _begin(self, moved: bool) -> None:
        self.generation += 1
        self.moves += moved
        self._quiet_until = time.monotonic() + QUIET
        for renewed in list(self._watching):
            renewed(moved)

    def is_new(self, system: str, timeline: int) -> bool:
        """Whether this is history that we have not seen: another server's promotion, or the first look."""
        return system != self._system or timeline > self._timeline

    def is_over(self, system: str, timeline: int) -> bool:
        """Whether somebody else has been promoted since."""
        return system == self._system and timeline < self._timeline

    def learn(self, system: str, timeline: int) -> None:
        """A leader was found."""
        moved = bool(self._timeline) and self.is_new(system, timeline)
        self._system, self._timeline = system, timeline
        if moved:
            self.renew(moved=True)
