"""Live updates: cost of idle streams, delay of an outcome, and cost of publishing for a write."""

from __future__ import annotations

import asyncio
import statistics
import time
from contextlib import suppress
from typing import Any

import asyncpg

from benchmarks.foundation import SMALL, UNLIMITED, database, free_port, load, running, token
from benchmarks.load import cpu_seconds, http, measure, resident
from benchmarks.outcomes import workers
from benchmarks.sizes import sized
from benchmarks.tables import row, table
from keyrack.core.settings import Settings
from keyrack.db.change_notifier import NOTIFY, ChangeNotifier
from keyrack.db.connection import Database
from keyrack.http.routes import ALL

STREAMS = sized(200, tiny=5)
REST = sized(45.0, tiny=0.2)  # seconds; keep-alives and access checks come every 20
OUTCOMES, PAUSE = sized(100, tiny=3), 0.1  # timed operations, and seconds between two
TELLS = sized(200_000, tiny=1_000)
NOTICES = sized(500, tiny=5)
WRITES = sized(1_000, tiny=10)

PREPARE = """
insert into product (customer_id, unique_id, serial_number, sap_number, kind, car_id)
  select customer_id, car_id, car_id, car_id, 'Box', car_id from car where customer_id = $1;
insert into service (customer_id, name, product_id)
  select customer_id, product_id, product_id from product where customer_id = $1
"""
ASK = """
insert into operation (customer_id, kind, car_id, user_id, request, checksum)
select $1, 'CreateAssignment', (select min(car_id) from car where customer_id = $1), $1,
  '{"start": "2026-01-01T08:00:00Z", "end": null, "lifetime": null, "renewableAfter": null}', repeat('0', 32)
returning operation_id
"""
# The begin of the transaction that the worker committed. The published time is later
FINISHED = "select extract(epoch from finished_at)::float8 from operation where customer_id = $1 and operation_id = $2"


async def opened(port: int, request: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Open a stream, and read its first bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), head
    await reader.readuntil(b"id: ")
    return reader, writer


class Heard:
    """Waits until all streams have received an event about assignments."""

    def __init__(self, streams: int) -> None:
        self._streams = streams
        self._left = streams
        self._all = asyncio.Event()

    async def listen(self, reader: asyncio.StreamReader) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await reader.readuntil(b"event: assignments\n")
                self._left -= 1
                if not self._left:
                    self._all.set()

    async def at(self) -> float:
        """The time of the last arrival, in seconds since 1970."""
        async with asyncio.timeout(10):
            await self._all.wait()
        now = time.time()
        self._left = self._streams
        self._all.clear()
        return now


async def rest(pid: int, port: int, request: bytes) -> tuple[float, float, float]:
    """The idle share of a core without and with streams, and their memory in MB."""
    before, memory = cpu_seconds(pid), resident(pid)
    await asyncio.sleep(REST)
    idle = (cpu_seconds(pid) - before) / REST
    streams = [await opened(port, request) for _ in range(STREAMS)]
    await asyncio.sleep(sized(1.0, tiny=0.1))
    before = cpu_seconds(pid)
    await asyncio.sleep(REST)
    busy = (cpu_seconds(pid) - before) / REST
    grown = resident(pid) - memory
    for _, writer in streams:
        writer.close()
    return idle, busy, grown


async def outcomes(dsn: str, port: int, request: bytes) -> list[float]:
    """Milliseconds from before a worker's commit to the event at the last client."""
    raw = await asyncpg.connect(dsn)
    for statement in PREPARE.split(";"):
        await raw.execute(statement.replace("$1", str(SMALL)))
    streams = [await opened(port, request) for _ in range(STREAMS)]
    heard = Heard(STREAMS)
    tasks = [asyncio.create_task(heard.listen(reader)) for reader, _ in streams]
    found: list[float] = []
    for _ in range(OUTCOMES):
        operation = await raw.fetchval(ASK, SMALL)
        await raw.execute("notify keyrack_work")
        told = await heard.at()
        found.append((told - await raw.fetchval(FINISHED, SMALL, operation)) * 1e3)
        await asyncio.sleep(PAUSE)
    for task, (_, writer) in zip(tasks, streams, strict=True):
        writer.close()
        await task
    await raw.close()
    return sorted(found)


async def cost(dsn: str) -> tuple[float, float]:
    """CPU microseconds of publishing a write, and of a notification to other processes."""
    db: Any = await Database.connect(dsn, Settings(), application="keyrack bench", size=1)
    tell, row = ChangeNotifier(db), next(row for row in ALL if (row.method, row.path) == ("PUT", "/cars"))
    begin = time.process_time()
    for number in range(TELLS):
        tell(1 + number % 100, row.topics)
    telling = (time.process_time() - begin) / TELLS
    begin = time.process_time()
    for _ in range(NOTICES):
        await db.execute(NOTIFY, ["1abc"])
    notice = (time.process_time() - begin) / NOTICES
    await db.close()
    return telling * 1e6, notice * 1e6


def main() -> None:
    """Print the table of benchmarks/results.md, "Live updates"."""
    with database("live") as dsn:
        key = asyncio.run(load(dsn, 3, 2_000))
        port = free_port()
        env = {"KEYRACK_DATABASE_URL": dsn, "KEYRACK_LIVE_STREAMS_PER_CALLER": str(STREAMS), **UNLIMITED}
        with running(["keyrack", "serve", "--port", str(port), "--no-worker"], port, "/health", env) as keyrack:
            headers = key | {"Authorization": f"Bearer {token(port, key)}", "Customer-ID": str(SMALL)}
            request = http("GET", "/v3/live", headers)
            idle, busy, memory = asyncio.run(rest(keyrack.pid, port, request))
            table("live streams", "", "")
            row(
                f"An idle process, share of a core without and with {STREAMS} streams (goal: below 5 %)",
                f"{idle:.2%} and **{busy:.2%}**",
            )
            row("Memory of a stream", f"{memory / STREAMS * 1024:.0f} kB")
            with workers(dsn, 1):
                time.sleep(sized(2.0, tiny=0.0))
                found = asyncio.run(outcomes(dsn, port, request))
            p50, p99 = statistics.median(found), found[int(len(found) * 0.99)]
            row(
                f"From before a worker's commit to the event at the last of {STREAMS} clients (goal: below 300 ms)",
                f"p50 **{p50:.0f} ms**, p99 {p99:.0f} ms",
            )
            writes = [http("PUT", "/v3/cars", headers, {"name": "Told"})]
            measure(keyrack.pid, port, writes, WRITES)
            write = measure(keyrack.pid, port, writes, WRITES).cpu
        telling, notice = asyncio.run(cost(dsn))
        row(
            f"Publishing a write to the streams, as part of the {write:.0f} us of `PUT /cars`",
            f"{telling:.2f} us ({telling / write:.2%})",
        )
        row("A notification to other processes, at most 20 per second and process", f"{notice:.0f} us")
