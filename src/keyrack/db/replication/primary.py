"""The primary, as a process knows it: generations of connections and changes of the primary.

A server that is no longer the primary still answers reads. So connections opened before a doubt belong to an older
generation, which is not used any more. Answers of a server on an older timeline are ignored.

```text
generation n -- doubt: an error of a connection whose server ends, `QUIET` after the last renewal --> generation n + 1
generation n -- learn: a connection has found a newer timeline, or another system -> generation n + 1, moves + 1
```

Four classes share the work:

- `PrimaryConnector` finds the primary and opens connections to it. It calls `learn`.
- `PrimaryTracker` counts generations, and notifies the others of each renewal (`watch`). It has no connection.
- `Pool` checks the generation before and after each opening, and calls `doubt` after an error. `FairSemaphore` decides
  which caller is next.
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

QUIET = 1.0  # seconds after a renewal in which errors cause no other one

# Errors of a connection whose server shuts down, is gone, or is not the primary any more
GOING = (
    OSError,
    asyncpg.PostgresConnectionError,  # class 08
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # the connection was lost between two steps of asyncpg
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
)


def is_shutting_down(error: BaseException) -> bool:
    """Whether the connection has ended or is about to end.

    False if a value cannot be sent, or an answer is slow.
    """
    return isinstance(error, GOING) and not isinstance(error, ValueError | TimeoutError)


class PrimaryTracker:
    """The primary that a process believes in. Notifies its watchers of each renewal."""

    def __init__(self, settings: Settings, *, several: bool) -> None:
        chosen = settings.database_ha
        self.fails_over = several if chosen is None else chosen
        self.generation = 0  # of connections
        self.moves = 0  # changes of the primary
        self._system = ""
        self._timeline = 0
        self._watching: list[Callable[[bool], None]] = []
        self._quiet_until = 0.0

    def watch(self, renewed: Callable[[bool], None]) -> None:
        """Call `renewed` at each renewal.

        Its argument is True if another primary was found: then all running work at the previous one is void.
        """
        self._watching.append(renewed)

    def unwatch(self, renewed: Callable[[bool], None]) -> None:
        self._watching.remove(renewed)

    def is_telling(self, error: BaseException) -> bool:
        """Whether the error means that the server ends, or is not the primary although another could be."""
        return is_shutting_down(error) or (self.fails_over and isinstance(error, asyncpg.ReadOnlySQLTransactionError))

    def doubt(self, generation: int, error: BaseException) -> None:
        """Report such an error of a connection of this generation."""
        if generation == self.generation and time.monotonic() >= self._quiet_until:
            self.renew(error)

    def renew(self, error: BaseException | None = None, *, moved: bool = False) -> None:
        """Begin a new generation: all earlier connections expire."""
        log.warning("database pool reset", error=error, primary_changed=moved)
        self._begin(moved)

    def _begin(self, moved: bool) -> None:
        self.generation += 1
        self.moves += moved
        self._quiet_until = time.monotonic() + QUIET
        for renewed in list(self._watching):
            renewed(moved)

    def is_new(self, system: str, timeline: int) -> bool:
        """Whether this history is new: another server's promotion, or the first answer."""
        return system != self._system or timeline > self._timeline

    def is_over(self, system: str, timeline: int) -> bool:
        """Whether another server has been promoted since."""
        return system == self._system and timeline < self._timeline

    def learn(self, system: str, timeline: int) -> None:
        """Record a primary that was found."""
        moved = bool(self._timeline) and self.is_new(system, timeline)
        self._system, self._timeline = system, timeline
        if moved:
            self.renew(moved=True)
