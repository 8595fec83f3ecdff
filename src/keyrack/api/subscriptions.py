"""Long-lived responses: their owner, their maximum lifetime, and their end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from keyrack.api.principals import CallerKey
from keyrack.db.change_notifier import Topic

LONGEST_TIMER = 86_400.0  # seconds

Name = Topic | Literal["gap"]
RecheckAccess = Callable[
    [], Awaitable[float]
]  # the time until which the caller may continue, in seconds since 1970; raises `Refusal`


@dataclass(frozen=True, slots=True)
class FollowContext:
    """The parts of a request that a stream or long poll needs."""

    last_event_id: str | None  # the id that the client has seen last, as sent
    prefers_events: bool  # the client prefers server-sent events to the other media type
    recheck: RecheckAccess  # looks up again until when the caller may continue
    register: Callable[[Subscription], None]  # lets the connection end a long poll before its response


class Subscription:
    """A stream or long poll. It ends at `expires_at`, or at the time that `recheck_access` returns.

    Both are seconds since 1970.
    """

    def __init__(self, customer: int, caller: CallerKey, expires_at: float, recheck_access: RecheckAccess) -> None:
        self.customer = customer
        self.caller = caller
        self.recheck_access = recheck_access
        self.wait_seconds = 0.0  # seconds until its response began, which do not count as response time
        self._expires_at = expires_at
        self._wake = asyncio.Event()
        self._ended = False
        self._keepalive_due = False
        self._timer: asyncio.TimerHandle | None = None

    def notify(self, topics: Iterable[Name], number: int) -> None:
        """Process a notification of the customer, if it is relevant."""

    def keep_alive(self) -> None:
        """Send a keep-alive, if the subclass supports it."""
        self._keepalive_due = True
        self._wake.set()

    def begin(self) -> None:
        """Start the timer of its maximum lifetime."""
        self.set_expiry(self._expires_at)

    def set_expiry(self, expires_at: float) -> None:
        """Set the time at which it ends at the latest."""
        self.release()
        seconds = min(LONGEST_TIMER, max(0.0, expires_at - time.time()))
        self._timer = asyncio.get_running_loop().call_later(seconds, self.end)

    def end(self) -> None:
        self._ended = True
        self._wake.set()

    def wake(self) -> None:
        """Wake it to check its state."""
        self._wake.set()

    def release(self) -> None:
        """Cancel the timer, when the response is done."""
        if self._timer is not None:
            self._timer.cancel()
