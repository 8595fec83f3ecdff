"""A load generator: keep-alive connections that send one request after another, with figures."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Result:
    """The figures of a run: requests per second, milliseconds, and server CPU microseconds per request."""

    requests: int
    seconds: float
    p50: float
    p99: float
    cpu: float
    statuses: dict[int, int]

    @property
    def rate(self) -> float:
        return self.requests / self.seconds


def http(method: str, path: str, headers: dict[str, str], body: object = None) -> bytes:
    """A request as bytes."""
    content = b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} {path} HTTP/1.1", "Host: bench", *(f"{name}: {value}" for name, value in headers.items())]
    if content:
        lines += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


def cpu_seconds(pid: int) -> float:
    """CPU time of a process with all its threads, to the nanosecond.

    Raises FileNotFoundError if the process has ended. Use `cpu_times` for processes that may end.
    """
    nanoseconds = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            nanoseconds += int((task / "schedstat").read_text().split()[0])
    return nanoseconds / 1e9


def cpu_times(pids: Iterable[int]) -> dict[int, float]:
    """CPU seconds of each process that still exists: the database server ends its processes when it likes."""
    times: dict[int, float] = {}
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            times[pid] = cpu_seconds(pid)
    return times


def cpu_since(before: dict[int, float]) -> float:
    """CPU seconds that the processes of `cpu_times` have used since then. One that has ended counts as 0."""
    return sum(now - before[pid] for pid, now in cpu_times(before).items())


def memory(pid: int) -> str:
    """A text with the memory of a process: resident (RSS) and proportional (PSS)."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return f"{resident(pid):.0f} MB resident, {int(line.split()[1]) / 1024:.0f} MB proportional"
    raise LookupError(pid)


def resident(pid: int) -> float:
    """Resident memory of a process in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise LookupError(pid)


class _Client(asyncio.Protocol):
    def __init__(self, requests: Iterator[bytes], times: list[float], statuses: dict[int, int]) -> None:
        self.requests, self.times, self.statuses = requests, times, statuses
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.buffer = b""
        self.sent = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # always TCP
        self._next()

    def _next(self) -> None:
        request = next(self.requests, None)
        if request is None:
            self.transport.close()
            if not self.done.done():
                self.done.set_result(None)
            return
        self.sent = time.perf_counter()
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self.buffer[:end].lower()
        at = head.find(b"content-length: ")
        length = int(head[at + 16 : head.find(b"\r\n", at) if head.find(b"\r\n", at) > 0 else None]) if at >= 0 else 0
        if len(self.buffer) < end + 4 + length:
            return
        status = int(self.buffer[9:12])
        self.buffer = b""
        self.times.append(time.perf_counter() - self.sent)
        self.statuses[status] = self.statuses.get(status, 0) + 1
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(ConnectionError("the server closed the connection"))


async def _run(
    port: int, requests: Sequence[bytes], count: int, connections: int
) -> tuple[list[float], dict[int, int]]:
    times: list[float] = []
    statuses: dict[int, int] = {}
    stream = itertools.islice(itertools.cycle(requests), count)
    loop = asyncio.get_running_loop()
    clients = [
        (await loop.create_connection(lambda: _Client(stream, times, statuses), "127.0.0.1", port))[1]
        for _ in range(connections)
    ]
    await asyncio.gather(*(client.done for client in clients))
    return times, statuses


def measure(pid: int, port: int, requests: Sequence[bytes], count: int, connections: int = 8) -> Result:
    """Send `count` requests, at least one, over `connections`, in turn from `requests`."""
    count = max(count, 1)
    before, start = cpu_seconds(pid), time.perf_counter()
    times, statuses = asyncio.run(_run(port, requests, count, connections))
    seconds, cpu = time.perf_counter() - start, cpu_seconds(pid) - before
    ordered = sorted(times)
    return Result(
        count,
        seconds,
        statistics.median(ordered) * 1e3,
        ordered[int(len(ordered) * 0.99)] * 1e3,
        cpu / count * 1e6,
        statuses,
    )
