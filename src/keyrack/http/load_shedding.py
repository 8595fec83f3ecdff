"""Load shedding: an overloaded process defers the busiest callers first.

The measure is the lag of the event loop's timer, which delays everything in the process. A burst may cause a short lag;
only a lasting one is overload, as in CoDel's judgement of queues (RFC 8289). A rejection takes time too, and its client
may retry at once. So the connection is not read until its turn, and the number of turns per second is limited. That
applies to every 429 and 503, whatever its reason.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from collections.abc import Callable
from typing import Any, Protocol

from keyrack.auth.page_origin import READS
from keyrack.core.log_config import MINUTE, RateLimitedLogger

FEW = 16  # with fewer active requests, the callers do not cause the lag
TICK = 0.01  # seconds between two checks while requests are active
LASTS = 0.2  # seconds of lag before it is overload
AGAIN = 1.0  # seconds after an overload in which a new lag counts at once
WRITES, ALL = 2, 4  # times the target: above 2, also writes of the busiest are deferred, above 4 all requests
ALWAYS = ("/health", "/v3/health", "/console/sign-out", "/v3/sessions")  # never deferred: they help, or end something
TURNS, MORE_TURNS = 5, 100  # per tick: 5 are 500 a second, and rejecting 500 takes a tenth of a process's time
STREAMS, FOLLOWED = "/live", "/changes"  # suffixes of paths whose responses never end, or may wait for changes
# Blanks around a name are ignored (`api/query_parameters`)
_WAITS = re.compile(rb"(?:\A|&)(?:\+|%20|%09)*wait(?:\+|%20|%09)*=").search

Scope = dict[str, Any]


class Overload:
    """The active requests of one process by owner: the customer in the header, else the address.

    `target` is the acceptable lag of the process in seconds, by `clock`.
    """

    def __init__(self, target: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._target = target
        self._requests_by_owner: dict[str, int] = {}
        self._total = 0
        self._next_check = 0.0  # the time of the next check; 0 if no request is active
        self._late = 0.0  # lag at the last check
        self._late_since = 0.0  # 0 while the lag is acceptable
        self._again_until = 0.0
        self._log = RateLimitedLogger("keyrack.http", MINUTE)

    def enter(self, scope: Scope, address: str) -> str | None:
        """Add a request and return its owner for `leave`. None if the request is deferred."""
        path: str = scope["path"]
        if path.endswith(STREAMS):
            return ""  # it waits, and causes no load
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
        """The request of this owner has ended."""
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
        """The lag of the process if it lasts too long, else 0."""
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


class Admission:
    """One active request. It ends with the response, or earlier if the request only waits from then on."""

    def __init__(self, overload: Overload, owner: str) -> None:
        self._overload = overload
        self._owner = owner

    def end(self) -> None:
        """The request causes no load any more. A repeated call has no effect."""
        owner, self._owner = self._owner, ""
        self._overload.leave(owner)


def _follows(scope: Scope) -> bool:
    """Whether the request waits for changes. The console page of the same name does not."""
    if scope["method"] != "GET" or scope["path"].startswith("/console/"):
        return False
    return _WAITS(scope["query_string"]) is not None or any(
        name == b"accept" and b"event-stream" in value for name, value in scope["headers"]
    )


class DeferredConnection(Protocol):
    """One connection whose client got 429 or 503."""

    def go_on(self) -> None:
        """Read the next request."""


class DeferredConnections:
    """Connections whose clients got 429 or 503. They are not read until their turn, longest waiting first."""

    def __init__(self) -> None:
        self._deferred: dict[DeferredConnection, None] = {}
        self._put_off = 0  # since the last tick
        self._turns = TURNS  # at the next tick
        self._ticks = False  # a tick is scheduled

    def wait(self, guest: DeferredConnection) -> None:
        """Resume the connection at its turn, after one tick at the earliest."""
        self._deferred[guest] = None
        self._put_off += 1
        self._tick()

    def forget(self, guest: DeferredConnection) -> None:
        """The connection was closed."""
        self._deferred.pop(guest, None)

    def _tick(self) -> None:
        """Schedule a tick, once. A resumed request may be deferred again at once, and wait for the next tick alone."""
        if not self._ticks:
            self._ticks = True
            asyncio.get_running_loop().call_later(TICK, self._next)

    def _next(self) -> None:
        """Resume connections. As long as hardly any is deferred again, each tick resumes more."""
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
