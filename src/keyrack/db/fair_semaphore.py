"""Fair semaphore: shares connections, or password hashing threads, among tenants.

No tenant has more than its share. The waiting tenant with the fewest permits is next. So a flood of one tenant delays
itself, and others only until a permit is returned.
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
    "Too many requests are already queued. Please try again.",
    "Send fewer requests at once, and retry after the seconds in `Retry-After`.",
)
TOO_LONG = ErrorCode(
    "waited-too-long",
    "The request waited too long in the queue. Please try again.",
    "Send fewer requests at once, and retry after the seconds in `Retry-After`.",
)


class TenantShares(NamedTuple):
    """The tenants that a permit is charged to: a customer, a manager or both.

    `max_each` is the maximum number of permits per tenant. The process itself has no tenants and no such limit.
    """

    tenants: tuple[Hashable, ...] = ()
    max_each: int = 0


PROCESS = TenantShares()


class FairSemaphore:
    """`total` permits. Per tenant, `max_waiting` callers may wait, each for `seconds`.

    The process itself (`PROCESS`) waits without these limits. `name` is the label of its metrics.
    """

    def __init__(self, total: int, max_waiting: int, seconds: float, name: str) -> None:
        self._free = total
        self._max_waiting = max_waiting
        self._seconds = seconds
        self._in_use: dict[Hashable, int] = {}
        self._waiting_counts: dict[Hashable, int] = {}
        self._queues: dict[TenantShares, deque[asyncio.Future[None]]] = {}  # the last served one is last
        self._name = name
        self._total = total
        self._in_use_gauge = QUEUE_IN_USE.of(name)
        QUEUE_CAPACITY.of(name).add(total)

    async def take(self, shares: TenantShares) -> None:
        """Take a permit. Raises `Unavailable` if too many wait, or after too long a wait."""
        if self._free and self._can_take(shares):
            self._grant(shares)
            return
        if any(self._waiting_counts.get(tenant, 0) >= self._max_waiting for tenant in shares.tenants):
            LIMITS.add("queue-waiting")
            raise Unavailable(TOO_MANY)
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._queues.setdefault(shares, deque()).append(turn)
        _increment(self._waiting_counts, shares)
        clock = loop.call_later(self._seconds, _too_long, turn) if shares.tenants else None
        begun = time.perf_counter()
        QUEUE_WAITING.add(self._name)
        try:
            await turn
        except BaseException:
            self._dequeue(shares, turn)
            if not turn.cancelled() and turn.exception() is None:  # granted at the moment of the cancellation
                self.give_back(shares)
            raise
        finally:
            QUEUE_WAITING.add(self._name, by=-1)
            QUEUE_SECONDS.observe(time.perf_counter() - begun, self._name)
            _decrement(self._waiting_counts, shares)
            if clock is not None:
                clock.cancel()

    def end(self) -> None:
        """Withdraw the permits from the metrics."""
        QUEUE_CAPACITY.of(self._name).add(-self._total)

    def give_back(self, shares: TenantShares) -> None:
        """Return a permit; the next waiting caller gets it."""
        _decrement(self._in_use, shares)
        self._free += 1
        self._in_use_gauge.value -= 1
        while self._free and self._queues and (next_shares := self._next_in_line()) is not None:
            queue = self._queues.pop(next_shares)
            turn = queue.popleft()
            if queue:
                self._queues[next_shares] = queue
            if not turn.done():
                self._grant(next_shares)
                turn.set_result(None)

    def _can_take(self, shares: TenantShares) -> bool:
        for tenant in shares.tenants:  # noqa: SIM110 - it runs before every statement, and `all` takes twice as long
            if self._in_use.get(tenant, 0) >= shares.max_each:
                return False
        return True

    def _grant(self, shares: TenantShares) -> None:
        self._free -= 1
        self._in_use_gauge.value += 1
        _increment(self._in_use, shares)

    def _next_in_line(self) -> TenantShares | None:
        """The waiting shares whose tenants have the fewest permits.

        Shares at their limit do not count. The process itself has no tenants, so it comes first.
        """
        return min(filter(self._can_take, self._queues), key=self._max_in_use, default=None)

    def _max_in_use(self, shares: TenantShares) -> int:
        return max((self._in_use.get(tenant, 0) for tenant in shares.tenants), default=-1)

    def _dequeue(self, shares: TenantShares, turn: asyncio.Future[None]) -> None:
        queue = self._queues.get(shares, deque[asyncio.Future[None]]())
        if turn in queue:
            queue.remove(turn)
            if not queue:
                del self._queues[shares]


def _increment(counts: dict[Hashable, int], shares: TenantShares) -> None:
    for tenant in shares.tenants:
        counts[tenant] = counts.get(tenant, 0) + 1


def _decrement(counts: dict[Hashable, int], shares: TenantShares) -> None:
    for tenant in shares.tenants:
        if counts[tenant] > 1:
            counts[tenant] -= 1
        else:
            del counts[tenant]


def _too_long(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        LIMITS.add("queue-seconds")
        turn.set_exception(Unavailable(TOO_LONG))
