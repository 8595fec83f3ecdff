"""In charge of what a process takes on while it has more to do than time: the busiest callers are put off first.

The measure is how late the event loop's timer is: by so much is everything late that the process does. A burst may make
it late for a moment; only what lasts is overload (as CoDel judges queues, RFC 8289). To put off takes time too, and who
is put off may ask again at once: so such connections are not read until it is their turn, and there are so many turns a
second. That holds for whoever is told to come again later, for whatever reason.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from collections.abc import Callable
from typing import Any, Protocol

from keyrack.core.log_config import MINUTE, RateLimitedLogger
from keyrack.http.session_cookie import READS

FEW = 16  # requests under way, at most, with which a process is late for reasons that are not its callers'
TICK = 0.01  # seconds between two looks, while there is something to do
LASTS = 0.2  # seconds that a process is late before that is overload
AGAIN = 1.0  # seconds after an overload in which it need not last to be one
WRITES, ALL = 2, 4  # times as late, the busiest ones' writes are put off too, and then whatever comes
ALWAYS = ("/health", "/v3/health", "/console/sign-out", "/v3/sessions")  # what helps, or ends something, is taken
TURNS, MORE_TURNS = 5, 100  # in a tick: 5 are 500 a second, and putting off 500 is a tenth of a process's time
STREAMS, FOLLOWED = "/live", "/changes"  # how the paths end whose answers have no end, or may wait for what comes
# Blanks around a name are ignored (`api/query_parameters`)
_WAITS = re.compile(rb"(?:\A|&)(?:\+|%20|%09)*wait(?:\+|%20|%09)*=").search

Scope = dict[str, Any]


class Overload:
    """The requests under way of one process, by whom they are of: the customer that they name, else an address.

    `target` is how many seconds late the process may be, by `clock`.
    """

    def __init__(self, target: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._target = target
        self._requests_by_owner: dict[str, int] = {}
        self._total = 0
        self._next_check = 0.0  # when the process looks again; 0 while it has nothing to do
        self._late = 0.0  # when it looked last
        self._late_since = 0.0  # 0 while it is in time
        self._again_until = 0.0
        self._log = RateLimitedLogger("keyrack.http", MINUTE)

    def enter(self, scope: Scope, address: str) -> str | None:
        """Take a request on, and say whose it is, for `leave`; None if it is put off."""
        path: str = scope["path"]
        if path.endswith(STREAMS):
            return ""  # it waits, and is nobody's load
        owner = _customer(scope["headers"]) or address
        if self._total >= FEW and (late := self._overload()) and self._puts_off(scope["method"], path, owner, late):
            self._log.warning("load shedding active", lag_seconds=round(late, 3))
            return None
        if path.endswith(FOLLOWED) and _follows(scope):
            return ""
        self._requests_by_owner[owner] = self._requests_by_owner.get(owner, 0) + 1
        self._total += 1
        if not self._next_check:
            self._set()
        return owner

    def leave(self, owner: str) -> None:
        """A request is done."""
        if owner:
            self._total -= 1
            self._requests_by_owner[owner] -= 1
            if not self._requests_by_owner[owner]:
                del self._requests_by_owner[owner]

    def _puts_off(self, method: str, path: str, owner: str, late: float) -> bool:
        if path.startswith(ALWAYS):
            return False
        busiest = self._requests_by_owner.get(owner, 0) * len(self._requests_by_owner) >= self._total
        return late > ALL * self._target or (busiest and (method in READS or late > WRITES * self._target))

    def _overload(self) -> float:
        """How late the process is, if it has been so for too long; else 0."""
        now = self._clock()
        late = max(now - self._next_check, self._late)
        if late <= self._target:
            return 0.0
        if now - (self._late_since or self._next_check) < LASTS and now > self._again_until:
            return 0.0
        self._again_until = now + AGAIN
        return late

    def _set(self) -> None:
        self._next_check = self._clock() + TICK
        asyncio.get_running_loop().call_later(TICK, self._check)

    def _check(self) -> None:
        self._late = self._clock() - self._next_check
        self._late_since = (self._late_since or self._next_check) if self._late > self._target else 0.0
        if self._total:
            self._set()
        else:
            self._next_check = self._late_since = self._late = 0.0


def _follows(scope: Scope) -> bool:
    """Whether what comes is waited for; the page of the same name does not."""
    if scope["method"] != "GET" or scope["path"].startswith("/console/"):
        return False
    return _WAITS(scope["query_string"]) is not None or any(
        name == b"accept" and b"event-stream" in value for name, value in scope["headers"]
    )


class DeferredConnection(Protocol):
    """One connection whose client was told to come again later."""

    def go_on(self) -> None:
        """Read the next request."""


class DeferredConnections:
    """The connections whose clients were told to come again later: they are not read until then, the longest first."""

    def __init__(self) -> None:
        self._deferred: dict[DeferredConnection, None] = {}
        self._put_off = 0  # since the last tick
        self._turns = TURNS  # in the next one
        self._ticks = False  # a tick is to come

    def wait(self, guest: DeferredConnection) -> None:
        """Have it go on when it is its turn, after a tick at the soonest."""
        self._deferred[guest] = None
        self._put_off += 1
        self._tick()

    def forget(self, guest: DeferredConnection) -> None:
        """It has gone."""
        self._deferred.pop(guest, None)

    def _tick(self) -> None:
        """Once, however often it is asked for: who goes on may be put off at once, and wait where nobody else does."""
        if not self._ticks:
            self._ticks = True
            asyncio.get_running_loop().call_later(TICK, self._next)

    def _next(self) -> None:
        """As long as hardly anybody is put off again, there are more turns with each tick."""
        self._ticks = False
        self._turns = TURNS if self._put_off >= TURNS else min(2 * self._turns, MORE_TURNS)
        self._put_off = 0
        first = [*itertools.islice(self._deferred, self._turns)]
        for guest in first:
            del self._deferred[guest]
        if self._deferred:
            self._tick()
        for guest in first:
            guest.go_on()


def _customer(headers: list[tuple[bytes, bytes]]) -> str:
    for name, value in headers:
        if name == b"customer-id":
            return value.decode("latin-1")
    return ""
