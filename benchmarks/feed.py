"""The change feed: its delay to a listener, and the cost of a thousand listeners."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from datetime import datetime

import asyncpg

from benchmarks.foundation import UNLIMITED, database, free_port, load, running, token
from benchmarks.load import http, resident
from benchmarks.outcomes import until, workers
from benchmarks.sizes import sized
from benchmarks.tables import row, table

RATE, SECONDS = 100, sized(20, tiny=1)
WARM = sized(RATE, tiny=5)  # warm-up changes
LISTENERS = sized(1_000, tiny=5)
LAST, PAUSE = sized((20, 0.5), tiny=(2, 0.05))  # changes whose last listener is timed, and seconds between them
GOALS = (30, 40)  # median ms from the change to a listener; kB per listener
CUSTOMER = 1
LIMITS = {
    "KEYRACK_LIVE_STREAMS": "4000",
    "KEYRACK_LIVE_STREAMS_PER_CUSTOMER": "4000",
    "KEYRACK_LIVE_STREAMS_PER_CALLER": "4000",
    "KEYRACK_MAX_CLIENT_CONNECTIONS_PER_ADDRESS": "4000",
}


class Listener:
    """A stream of changes with the arrival time of each."""

    def __init__(self) -> None:
        self.late: list[float] = []  # milliseconds from the change, before its commit, until it was read
        self.last = 0

    async def listen(self, port: int, request: bytes) -> None:
        reader, self._writer = await asyncio.open_connection("127.0.0.1", port)
        self._writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        await reader.readuntil(b"id: ")
        self._task = asyncio.create_task(self._read(reader))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        async for line in reader:
            if line.startswith(b"data: "):
                now = time.time()
                change = json.loads(line[6:])
                self.last = change["id"]
                self.late.append((now - datetime.fromisoformat(change["time"]).timestamp()) * 1e3)

    def close(self) -> None:
        self._task.cancel()
        self._writer.close()


async def changed(port: int, request: bytes, count: int) -> None:
    """Make `count` changes one after another at the rate."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    for number in range(count):
        await asyncio.sleep(max(0.0, begun + number / RATE - loop.time()))
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 201"), head
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
    writer.close()


async def told(listeners: list[Listener], count: int) -> None:
    """Wait until each listener has received so many changes."""

    async def done() -> bool:
        return all(len(listener.late) >= count for listener in listeners)

    await until(done)


async def measured(dsn: str, pid: int, port: int, headers: dict[str, str]) -> None:
    write = http("PUT", "/v3/cars", headers, {"name": "Told"})

    async def stream() -> bytes:
        """The request of a listener for changes from now on."""
        path = f"/v3/changes?$filter=id%20gt%20{await numbered(dsn)}"
        return http("GET", path, headers | {"Accept": "text/event-stream"})

    one = Listener()
    await one.listen(port, await stream())
    await changed(port, write, WARM)
    await told([one], WARM)
    one.late.clear()
    await changed(port, write, RATE * SECONDS)
    await told([one], RATE * SECONDS)
    late = sorted(one.late)
    p50, p99 = statistics.median(late), late[int(len(late) * 0.99)]
    row(
        f"delay to one listener, {RATE} changes per second", f"p50 **{p50:.1f} ms** (goal {GOALS[0]}), p99 {p99:.1f} ms"
    )
    memory = resident(pid)
    listeners, request = [Listener() for _ in range(LISTENERS)], await stream()
    for listener in listeners:
        await listener.listen(port, request)
    await changed(port, write, 10)
    await told(listeners, 10)
    grown = (resident(pid) - memory) / LISTENERS * 1024
    row(f"memory of {LISTENERS:,} listeners in one process", f"**{grown:.0f} kB** each (goal {GOALS[1]})")
    for listener in listeners:
        listener.late.clear()
    for _ in range(LAST):
        await changed(port, write, 1)
        await asyncio.sleep(PAUSE)
    await told(listeners, LAST)
    last = sorted(max(listener.late[n] for listener in listeners) for n in range(LAST))
    row(f"delay to the last of {LISTENERS:,} listeners", f"p50 {statistics.median(last):.0f} ms")
    for listener in (one, *listeners):
        listener.close()


async def numbered(dsn: str) -> int:
    """The number of the customer's last change, once all changes are numbered.

    0 means that there is no change.
    """
    raw = await asyncpg.connect(dsn)

    async def done() -> bool:
        return not await raw.fetchval("select exists (select from change_inbox)")

    await until(done)
    last = await raw.fetchval("select coalesce(max(last_id), 0) from change_log where customer_id = $1", CUSTOMER)
    await raw.close()
    return last


def main() -> None:
    """Print the table of listeners of benchmarks/results.md, "Change log"."""
    with database("feed") as dsn:
        key = asyncio.run(load(dsn, 3, 2_000))
        port = free_port()
        env = {"KEYRACK_DATABASE_URL": dsn, **UNLIMITED, **LIMITS}
        with running(["keyrack", "serve", "--port", str(port), "--no-worker"], port, "/health", env) as keyrack:
            headers = key | {"Authorization": f"Bearer {token(port, key)}", "Customer-ID": str(CUSTOMER)}
            with workers(dsn, 1):
                table("feed listeners", "", "")
                asyncio.run(measured(dsn, keyrack.pid, port, headers))
