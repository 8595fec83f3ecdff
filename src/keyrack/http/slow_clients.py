"""In charge of answers that wait for their readers: how slowly a client may take them, and how much may wait in all."""

from __future__ import annotations

import asyncio

from keyrack.core.log_config import MINUTE, RateLimitedLogger
from keyrack.core.metrics.catalog import LIMITS


class WriteBufferBudget:
    """What the clients of one process have not taken yet.

    Above `most` bytes, whoever has taken nothing for the longest time is cut off first; so is, at once, a client that
    takes less than `rate` bytes a second over `seconds` in which something waited for it.
    """

    def __init__(self, most: int, rate: int, seconds: float) -> None:
        self.most = most
        self.rate = rate
        self.seconds = seconds
        self._waiting: dict[SlowClientGuard, None] = {}  # the longest first
        self._bytes = 0
        self._log = RateLimitedLogger("keyrack.http", MINUTE)

    def add(self, reader: SlowClientGuard) -> None:
        self._waiting[reader] = None
        self._bytes += reader.size
        if self._bytes > self.most:
            self._make_room()

    def remove(self, reader: SlowClientGuard) -> None:
        del self._waiting[reader]
        self._bytes -= reader.size

    def cut_slow(self, reader: SlowClientGuard) -> None:
        LIMITS.add("slow-clients")
        self._log.warning(
            "slow client disconnected",
            client=reader.name,
            buffered_bytes=reader.size,
            rate=self.rate,
            seconds=self.seconds,
        )
        reader.cut()

    def _make_room(self) -> None:
        for reader in self._waiting:
            before = reader.size
            reader.measure()
            self._bytes += reader.size - before
        while self._bytes > self.most and len(self._waiting) > 1:
            longest = next(iter(self._waiting))
            LIMITS.add("unread-bytes")
            self._log.warning(
                "write buffers full, slowest client disconnected",
                client=longest.name,
                buffered_bytes=self._bytes,
                limit=self.most,
            )
            longest.cut()


class SlowClientGuard:
    """One client: `waits` is called when more is written than it takes, `goes_on` when it has caught up."""

    def __init__(self, unread: WriteBufferBudget, transport: asyncio.Transport, name: str) -> None:
        self.size = 0  # bytes that wait for it, when it was last looked at
        self.name = name
        self._unread = unread
        self._transport = transport
        self._clock = asyncio.get_running_loop()
        self._since: float | None = None  # while something waits
        self._waited = 0.0  # seconds and bytes since it was judged last
        self._taken = 0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> bool:
        return self._since is not None

    def waits(self) -> None:
        if self._since is not None:
            return
        self._since = self._clock.time()
        self.size = self._transport.get_write_buffer_size()
        self._timer = self._clock.call_later(max(0.0, self._unread.seconds - self._waited), self._judge)
        self._unread.add(self)

    def goes_on(self) -> None:
        if self._since is None:
            return
        self._unread.remove(self)
        self.measure()
        self._since = None
        if self._timer is not None:
            self._timer.cancel()

    def measure(self) -> None:
        """Look how much it has taken meanwhile."""
        if self._since is None:
            return
        now, size = self._clock.time(), self._transport.get_write_buffer_size()
        self._waited += now - self._since
        self._taken += self.size - size
        self._since, self.size = now, size

    def cut(self) -> None:
        """End the connection; what waits is thrown away."""
        self.goes_on()
        self._transport.abort()

    def _judge(self) -> None:
        self._unread.remove(self)
        self.measure()
        self._unread.add(self)
        if self._taken < self._unread.rate * self._waited:
            self._unread.cut_slow(self)
        elif self.waiting:
            self._waited, self._taken = 0.0, 0
            self._timer = self._clock.call_later(self._unread.seconds, self._judge)
