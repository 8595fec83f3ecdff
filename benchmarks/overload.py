"""Overload: the served share, the delay of rejections, and the recovery.

The best rate is that of closed connections. Then requests arrive at three times that rate, independently of earlier
responses (an open loop, 400 kept connections), and then at half of it. The load generator shares the two cores with the
server, which affects both sides of the ratio.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections import Counter, deque
from dataclasses import dataclass, field

from benchmarks.foundation import UNLIMITED, database, free_port, load, running, token
from benchmarks.load import http
from benchmarks.sizes import sized
from benchmarks.tables import row, table

CUSTOMERS = 20
CLOSED, OPEN = 32, sized(400, tiny=40)  # connections
WARM, BEST, OVER, AFTER = sized((2.0, 8.0, 20.0, 10.0), tiny=(0.1, 0.5, 1.0, 1.0))  # seconds
BEGIN = sized(2.0, tiny=0.2)  # first seconds of the overload, which are not counted
REST = sized((0.5, 2.0), tiny=(0.5, 0.5))  # seconds for the last responses of both loads
IN_TIME = 1.0  # seconds in which a response is useful


@dataclass
class Seen:
    """Observed responses: the time, status and duration of each, and the state of connections."""

    answers: list[tuple[float, int, float]] = field(default_factory=list[tuple[float, int, float]])
    closed: int = 0
    unsent: int = 0  # requests without a free connection

    def good(self, first: float, last: float) -> float:
        """Useful responses per second."""
        counted = [at for at, status, took in self.answers if first <= at < last and status < 400 and took <= IN_TIME]
        return len(counted) / (last - first)

    def statuses(self) -> dict[int, int]:
        return dict(Counter(status for _, status, _ in self.answers))

    def quantile(self, share: float, *statuses: int) -> float:
        """A quantile of the response times in milliseconds."""
        times = sorted(took for _, status, took in self.answers if status in statuses)
        return times[min(len(times) - 1, int(share * len(times)))] * 1e3 if times else float("nan")


class Line(asyncio.Protocol):
    """One connection. It is free once the last response is complete."""

    def __init__(self, free: deque[Line], seen: Seen) -> None:
        self._free = free
        self._seen = seen
        self._buffer = b""
        self._sent = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # always TCP
        self._free.append(self)

    def send(self, request: bytes) -> None:
        self._sent = time.monotonic()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self._buffer[:end].lower()
        at = head.find(b"content-length: ")
        stop = head.find(b"\r\n", at)
        length = int(head[at + 16 : stop if stop > 0 else None]) if at >= 0 else 0
        if len(self._buffer) < end + 4 + length:
            return
        now = time.monotonic()
        self._seen.answers.append((now, int(self._buffer[9:12]), now - self._sent))
        self._buffer = b""
        self._free.append(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._seen.closed += 1


async def _lines(port: int, count: int, seen: Seen) -> deque[Line]:
    free: deque[Line] = deque()
    loop = asyncio.get_running_loop()
    for _ in range(count):
        await loop.create_connection(lambda: Line(free, seen), "127.0.0.1", port)
    return free


async def _closed(port: int, requests: itertools.cycle[bytes], seconds: float) -> Seen:
    """Send requests over connections that wait for each response."""
    seen = Seen()
    free = await _lines(port, CLOSED, seen)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        while free:
            free.popleft().send(next(requests))
        await asyncio.sleep(0)
    await asyncio.sleep(REST[0])
    return seen


async def _open(
    port: int, requests: itertools.cycle[bytes], phases: list[tuple[float, float]]
) -> tuple[Seen, list[float]]:
    """Send requests at each rate in turn. Returns the start of each phase and the end of the last."""
    seen = Seen()
    free = await _lines(port, OPEN, seen)
    began = [time.monotonic()]
    for rate, seconds in phases:
        due, end = time.monotonic(), began[-1] + seconds
        while (now := time.monotonic()) < end:
            while due <= now:
                due += random.expovariate(rate)
                if free:
                    free.popleft().send(next(requests))
                else:
                    seen.unsent += 1
            await asyncio.sleep(0.001)
        began.append(end)
    await asyncio.sleep(REST[1])
    return seen, began


def requests(headers: dict[str, str]) -> itertools.cycle[bytes]:
    """Requests of many customers in turn: seven reads of three kinds per write."""
    made: list[bytes] = []
    for number in range(CUSTOMERS * 8):
        told = headers | {"Customer-ID": str(3 + number % CUSTOMERS)}
        kinds = [http("GET", path, told) for path in ("/v3/cars?$top=20", "/v3/customers", "/v3/cars?$top=1")]
        made.append(http("PUT", "/v3/cars", told, {"name": "New"}) if number % 8 == 7 else kinds[number % 3])
    random.Random(1).shuffle(made)
    return itertools.cycle(made)


def recovered(seen: Seen, since: float, until: float) -> float:
    """The seconds until all later requests are served in time."""
    for second in range(int(until - since) - 1):
        rest = [row for row in seen.answers if since + second <= row[0] < until]
        if all(status < 400 and took <= IN_TIME for _, status, took in rest) and rest:
            return float(second)
    return float("inf")


def main() -> None:
    """Print the table of benchmarks/results.md, "Load shedding"."""
    with database("overload") as dsn:
        headers = asyncio.run(load(dsn, CUSTOMERS + 2, 2_000))
        port = free_port()
        env = {"KEYRACK_DATABASE_URL": dsn, "KEYRACK_MAX_CLIENT_CONNECTIONS_PER_ADDRESS": "2000", **UNLIMITED}
        with running(["keyrack", "serve", "--port", str(port), "--no-worker"], port, "/health", env):
            stream = requests(headers | {"Authorization": f"Bearer {token(port, headers)}"})
            asyncio.run(_closed(port, stream, WARM))
            first = asyncio.run(_closed(port, stream, BEST))
            rate = len([row for row in first.answers if row[1] < 400]) / BEST
            seen, (begun, ended, over) = asyncio.run(_open(port, stream, [(3 * rate, OVER), (rate / 2, AFTER)]))
    good = seen.good(begun + BEGIN, ended)
    table("overload figures", "", "")
    row(f"best rate, {CLOSED} connections", f"{rate:,.0f}/s, p99 {first.quantile(0.99, 200, 201):.0f} ms")
    row(
        "successful requests at three times that rate (goal: 85 %)", f"{good:,.0f}/s, **{good / rate:.0%}** of the best"
    )
    row("their p50, p99", f"{seen.quantile(0.5, 200, 201):.0f}, {seen.quantile(0.99, 200, 201):.0f} ms")
    row("rejected with 503: p50, p99", f"{seen.quantile(0.5, 503):.0f}, {seen.quantile(0.99, 503):.0f} ms")
    row("statuses", f"{seen.statuses()}; not sent, all connections busy: {seen.unsent}")
    row("connections closed by the server", seen.closed)
    row("recovered (goal: 5 s)", f"{recovered(seen, ended, over):.0f} s after the rate fell to half of the best")
