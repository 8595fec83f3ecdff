"""A load generator: keep-alive connections that send one request after another, with figures."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import statistics
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True)
class Result:
    """The figures of a run: requests per second, milliseconds, and CPU microseconds per request."""

    requests: int
    seconds: float
    p50: float
    p99: float
    cpu: float  # of the server
    statuses: dict[int, int]
    database_cpu: float = 0  # of the processes of PostgreSQL, if they were named

    @property
    def rate(self) -> float:
        return self.requests / self.seconds

    @property
    def whole_cpu(self) -> float:
        """CPU microseconds per request of server and PostgreSQL."""
        return self.cpu + self.database_cpu


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
    """A connection that sends one request after another."""

    def __init__(self) -> None:
        self.buffer = b""
        self.sent = 0.0
        self.done: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # always TCP
        self.transport = transport

    def send(self, requests: Iterator[bytes], times: list[float], statuses: dict[int, int]) -> asyncio.Future[None]:
        """Send these requests. The result is there after the last response."""
        self.requests, self.times, self.statuses = requests, times, statuses
        self.done = done = asyncio.get_running_loop().create_future()
        if self.transport.is_closing():
            self.connection_lost(None)
        else:
            self._next()
        return done

    def _next(self) -> None:
        request = next(self.requests, None)
        if request is None:
            assert self.done is not None
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
        if self.done is not None and not self.done.done():
            self.done.set_exception(ConnectionError("the server closed the connection"))


class Connections:
    """Keep-alive connections to a server process, open until the context ends.

    Measurements that follow each other do not pay for connecting again.
    """

    def __init__(self, pid: int, port: int, number: int = 8) -> None:
        self.pid, self.port, self.number = pid, port, number

    def __enter__(self) -> Self:
        self._runner = asyncio.Runner()
        self._clients = self._runner.run(self._open())
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.run(self._close())
        self._runner.close()

    def measure(self, requests: Sequence[bytes], database: Iterable[int] = ()) -> Result:
        """Send these requests, at least one, over all connections.

        `database` are the ids of PostgreSQL's processes, whose CPU time is counted too.
        """
        database_before = cpu_times(database)
        before, start = cpu_seconds(self.pid), time.perf_counter()
        times, statuses = self._runner.run(self._send(iter(requests)))
        seconds, cpu = time.perf_counter() - start, cpu_seconds(self.pid) - before
        database_cpu = cpu_since(database_before)
        ordered = sorted(times)
        return Result(
            len(ordered),
            seconds,
            statistics.median(ordered) * 1e3,
            ordered[int(len(ordered) * 0.99)] * 1e3,
            cpu / len(ordered) * 1e6,
            statuses,
            database_cpu / len(ordered) * 1e6,
        )

    async def _open(self) -> list[_Client]:
        loop = asyncio.get_running_loop()
        return [(await loop.create_connection(_Client, "127.0.0.1", self.port))[1] for _ in range(self.number)]

    async def _send(self, requests: Iterator[bytes]) -> tuple[list[float], dict[int, int]]:
        times: list[float] = []
        statuses: dict[int, int] = {}
        await asyncio.gather(*(client.send(requests, times, statuses) for client in self._clients))
        return times, statuses

    async def _close(self) -> None:
        for client in self._clients:
            client.transport.close()


def measure(pid: int, port: int, requests: Sequence[bytes], count: int, connections: int = 8) -> Result:
    """Send `count` requests, at least one, over `connections`, in turn from `requests`."""
    with Connections(pid, port, connections) as opened:
        return opened.measure(list(itertools.islice(itertools.cycle(requests), max(count, 1))))


def typical(results: Sequence[Result]) -> Result:
    """The medians of measurements with the same number of requests, and all statuses."""
    statuses: Counter[int] = Counter()
    for result in results:
        statuses.update(result.statuses)
    rows = ((of.seconds, of.p50, of.p99, of.cpu, of.database_cpu) for of in results)
    seconds, p50, p99, cpu, database_cpu = (statistics.median(figures) for figures in zip(*rows, strict=True))
    return Result(results[0].requests, seconds, p50, p99, cpu, dict(statuses), database_cpu)
