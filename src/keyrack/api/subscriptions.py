"""In charge of what a process holds open for a client: whose it is, how long it may last, and its end."""

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
]  # until when the caller may go on, in seconds since 1970; raises `Refusal`


@dataclass(frozen=True, slots=True)
class FollowContext:
    """The parts of a request that a stream or a long poll needs."""

    last_event_id: str | None  # the id that the client has seen last, as it was sent
    prefers_events: bool  # the client prefers server-sent events to the other media type
    recheck: RecheckAccess  # looks up anew until when the caller may go on
    register: Callable[[Subscription], None]  # lets the connection end a long poll that has no answer yet


class Subscription:
    """A stream or a long poll, which ends at `expires_at` or at the time that `recheck_access` returns.

    Both are seconds since 1970.
    """

    def __init__(self, customer: int, caller: CallerKey, expires_at: float, recheck_access: RecheckAccess) -> None:
        self.customer = customer
        self.caller = caller
        self.recheck_access = recheck_access
        self.wait_seconds = 0.0  # seconds until its answer began, which are no time that the answer took
        self._expires_at = expires_at
        self._wake = asyncio.Event()
        self._ended = False
        self._keepalive_due = False
        self._timer: asyncio.TimerHandle | None = None

    def notify(self, topics: Iterable[Name], number: int) -> None:
        """News of the customer, where they are what is waited for."""

    def keep_alive(self) -> None:
        """Give a sign of life, where there is a way to."""
        self._keepalive_due = True
        self._wake.set()

    def begin(self) -> None:
        """It lasts from now on."""
        self.set_expiry(self._expires_at)

    def set_expiry(self, expires_at: float) -> None:
        """It ends at this time at the latest."""
        self.release()
        seconds = min(LONGEST_TIMER, max(0.0, expires_at - time.time()))
        self._timer = asyncio.get_running_loop().call_later(seconds, self.end)

    def end(self) -> None:
        self._ended = True
        self._wake.set()

    def wake(self) -> None:
        """Look again what there is to do."""
        self._wake.set()

    def release(self) -> None:
        """Whoever held it lets go of it."""
        if self._timer is not None:
            self._timer.cancel()
