"""In charge of who goes next where many want the same few things: connections, or threads that hash passwords.

Nobody has more than a share, and of those who wait, whoever has the fewest comes next. So one caller's flood waits for
itself, and others for what is under way at most.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Hashable
from typing import NamedTuple

from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import Unavailable
from keyrack.core.metrics.catalog import LIMITS, QUEUE_CAPACITY, QUEUE_IN_USE, QUEUE_SECONDS, QUEUE_WAITING

TOO_MANY = ErrorCode(
    "too-many-waiting",
    "Too many requests wait for their turn already. Please try again.",
    "Send fewer requests at once, and this one again after the seconds that Retry-After says.",
)
TOO_LONG = ErrorCode(
    "waited-too-long",
    "The request has waited too long for its turn. Please try again.",
    "Send fewer requests at once, and this one again after the seconds that Retry-After says.",
)


class TenantShares(NamedTuple):
    """On whose behalf: the parties whose shares it is taken from, such as a customer and a manager; nobody's is the
    process's own. `most` is how many each of them may have by then."""

    parties: tuple[Hashable, ...] = ()
    most: int = 0


PROCESS = TenantShares()


class FairSemaphore:
    """`total` things; `waiting` askers may wait for each party, for so many seconds. Metrics call them `name`."""

    def __init__(self, total: int, waiting: int, seconds: float, name: str) -> None:
        self._free = total
        self._waiting = waiting
        self._seconds = seconds
        self._has: dict[Hashable, int] = {}
        self._waits: dict[Hashable, int] = {}
        self._lines: dict[TenantShares, deque[asyncio.Future[None]]] = {}  # the one that was served last stands last
        self._name = name
        self._total = total
        self._taken = QUEUE_IN_USE.of(name)
        QUEUE_CAPACITY.of(name).add(total)

    async def take(self, who: TenantShares) -> None:
        """Take one. Raises `Unavailable` where too many wait, or after having waited for too long."""
        if self._free and self._may(who):
            self._give(who)
            return
        if any(self._waits.get(party, 0) >= self._waiting for party in who.parties):
            LIMITS.add("queue-waiting")
            raise Unavailable(TOO_MANY)
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._lines.setdefault(who, deque()).append(turn)
        _more(self._waits, who)
        clock = loop.call_later(self._seconds, _too_long, turn) if who.parties else None
        begun = time.perf_counter()
        QUEUE_WAITING.add(self._name)
        try:
            await turn
        except BaseException:
            self._leave(who, turn)
            if not turn.cancelled() and turn.exception() is None:  # it came at the very moment
                self.give_back(who)
            raise
        finally:
            QUEUE_WAITING.add(self._name, by=-1)
            QUEUE_SECONDS.observe(time.perf_counter() - begun, self._name)
            _less(self._waits, who)
            if clock is not None:
                clock.cancel()

    def end(self) -> None:
        """There are no such things any more."""
        QUEUE_CAPACITY.of(self._name).add(-self._total)

    def give_back(self, who: TenantShares) -> None:
        """Return what was taken: to the next one, if somebody waits."""
        _less(self._has, who)
        self._free += 1
        self._taken.value -= 1
        while self._free and self._lines and (following := self._following()) is not None:
            line = self._lines.pop(following)
            turn = line.popleft()
            if line:
                self._lines[following] = line
            if not turn.done():
                self._give(following)
                turn.set_result(None)

    def _may(self, who: TenantShares) -> bool:
        for party in who.parties:  # noqa: SIM110 - it runs before every statement, and `all` takes twice as long
            if self._has.get(party, 0) >= who.most:
                return False
        return True

    def _give(self, who: TenantShares) -> None:
        self._free -= 1
        self._taken.value += 1
        _more(self._has, who)

    def _following(self) -> TenantShares | None:
        """Of those who may, the one whose parties have the fewest; the process itself has none."""
        return min(filter(self._may, self._lines), key=self._held, default=None)

    def _held(self, who: TenantShares) -> int:
        return max((self._has.get(party, 0) for party in who.parties), default=-1)

    def _leave(self, who: TenantShares, turn: asyncio.Future[None]) -> None:
        line = self._lines.get(who, deque[asyncio.Future[None]]())
        if turn in line:
            line.remove(turn)
            if not line:
                del self._lines[who]


def _more(counts: dict[Hashable, int], who: TenantShares) -> None:
    for party in who.parties:
        counts[party] = counts.get(party, 0) + 1


def _less(counts: dict[Hashable, int], who: TenantShares) -> None:
    for party in who.parties:
        if counts[party] > 1:
            counts[party] -= 1
        else:
            del counts[party]


def _too_long(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        LIMITS.add("queue-seconds")
        turn.set_exception(Unavailable(TOO_LONG))
