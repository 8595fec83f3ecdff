"""Limits for unsent responses: the minimum rate of a client, and the total bytes."""

from __future__ import annotations

import asyncio

from keyrack.core.log_config import MINUTE, RateLimitedLogger
from keyrack.core.metrics.catalog import LIMITS


class WriteBufferBudget:
    """The unsent bytes of all clients of one process.

    Above `max_bytes`, clients are disconnected until the rest fits, the one with the longest wait first. One client
    always stays. A client is also disconnected if it reads less than `rate` bytes per second, over `seconds` in which
    data waited for it.
    """

    def __init__(self, max_bytes: int, rate: int, seconds: float) -> None:
        self.max_bytes = max_bytes
        self.rate = rate
        self.seconds = seconds
        self._readers: dict[SlowClientGuard, None] = {}  # the longest waiting first
        self._bytes = 0
        self._log = RateLimitedLogger("keyrack.http", MINUTE)

    def add(self, reader: SlowClientGuard) -> None:
        self._readers[reader] = None
        self._bytes += reader.size
        if self._bytes > self.max_bytes:
            self._make_room()

    def remove(self, reader: SlowClientGuard) -> None:
        del self._readers[reader]
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
        for reader in self._readers:
            before = reader.size
            reader.measure()
            self._bytes += reader.size - before
        while self._bytes > self.max_bytes and len(self._readers) > 1:
            longest = next(iter(self._readers))
            LIMITS.add("unread-bytes")
            self._log.warning(
                "write buffers full, slowest client disconnected",
                client=longest.name,
                buffered_bytes=self._bytes,
                limit=self.max_bytes,
            )
            longest.cut()


class SlowClientGuard:
    """One client. `pause` is called when more is written than it reads, `resume` when it has caught up."""

    def __init__(self, unread: WriteBufferBudget, transport: asyncio.Transport, name: str) -> None:
        self.size = 0  # unsent bytes at the last measurement
        self.name = name
        self._budget = unread
        self._transport = transport
        self._clock = asyncio.get_running_loop()
        self._waiting_since: float | None = None  # set while data waits
        self._waited_seconds = 0.0  # seconds and bytes since the last judgement
        self._bytes_read = 0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_waiting(self) -> bool:
        return self._waiting_since is not None

    def pause(self) -> None:
        if self._waiting_since is not None:
            return
        self._waiting_since = self._clock.time()
        self.size = self._transport.get_write_buffer_size()
        self._timer = self._clock.call_later(max(0.0, self._budget.seconds - self._waited_seconds), self._judge)
        self._budget.add(self)

    def resume(self) -> None:
        if self._waiting_since is None:
            return
        self._budget.remove(self)
        self.measure()
        self._waiting_since = None
        if self._timer is not None:
            self._timer.cancel()

    def measure(self) -> None:
        """Measure the bytes that the client has read since."""
        if self._waiting_since is None:
            return
        now, size = self._clock.time(), self._transport.get_write_buffer_size()
        self._waited_seconds += now - self._waiting_since
        self._bytes_read += self.size - size
        self._waiting_since, self.size = now, size

    def cut(self) -> None:
        """Close the connection and discard unsent bytes."""
        self.resume()
        self._transport.abort()

    def _judge(self) -> None:
        self._budget.remove(self)
        self.measure()
        self._budget.add(self)
        if self._bytes_read < self._budget.rate * self._waited_seconds:
            self._budget.cut_slow(self)
        elif self.is_waiting:
            self._waited_seconds, self._bytes_read = 0.0, 0
            self._timer = self._clock.call_later(self._budget.seconds, self._judge)
