"""Exclusive bookings of one slot: 50 requests at once over two nodes, each waiting for its outcome.

One request succeeds. The goal is that no other waits longer than 2 seconds. The peer is the same load with shared
assignments, which all succeed. Each node is a server with a worker.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from contextlib import ExitStack
from typing import Any

import asyncpg

from benchmarks import telemetry
from benchmarks.availability import FILL
from benchmarks.foundation import UNLIMITED, database, free_port, running, token
from benchmarks.load import http
from benchmarks.sizes import sized
from benchmarks.tables import row, table

NODES = 2
REQUESTS = sized(50, tiny=4)  # at once, for one slot
SLOTS = sized(40, tiny=2)  # of a car each
BOXES = FILL[:2]
PERIOD = {"start": "2030-01-01T08:00:00Z", "end": "2030-01-01T16:00:00Z"}


async def fill(dsn: str) -> None:
    raw = await asyncpg.connect(dsn)
    for statement in BOXES:
        await raw.execute(statement)
    await raw.close()


async def send(port: int, request: bytes) -> tuple[float, int, dict[str, Any]]:
    """Milliseconds of a request, its status, and its body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    begin = time.perf_counter()
    writer.write(request)
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    body = await reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0]))
    took = (time.perf_counter() - begin) * 1_000
    writer.close()
    return took, int(head.split()[1]), json.loads(body)


async def slot(ports: list[int], headers: dict[str, str], car: int, *, exclusive: bool) -> tuple[list[float], int]:
    """Milliseconds of each request for one slot, and the rejections.

    A rejection is a 409 before the request becomes an operation.
    """
    body = {"carId": car, "userId": 1, "exclusive": exclusive, **PERIOD}
    request = http("PUT", "/v3/assignments", headers, body)
    answers = await asyncio.gather(*(send(ports[number % len(ports)], request) for number in range(REQUESTS)))
    unexpected = [(status, answer) for _, status, answer in answers if status not in (200, 409)]
    assert not unexpected, unexpected[0]
    succeeded = sum(answer.get("state") == "Succeeded" for _, _, answer in answers)
    assert succeeded == (1 if exclusive else REQUESTS), answers
    return [took for took, _, _ in answers], sum(status == 409 for _, status, _ in answers)


async def measured(ports: list[int], headers: dict[str, str], cars: range, *, exclusive: bool) -> list[float]:
    """The milliseconds of each slot's slowest request, in order."""
    slowest: list[float] = []
    rejected = 0
    for car in cars:
        times, early = await slot(ports, headers, car, exclusive=exclusive)
        slowest.append(max(times))
        rejected += early
    slowest.sort()
    name = "exclusive: one succeeds" if exclusive else "shared: all succeed"
    row(
        name, len(slowest), f"{statistics.median(slowest):.0f}", f"**{slowest[-1]:.0f}**",
        f"{100 * rejected / (REQUESTS * len(slowest)):.0f} %",
    )  # fmt: skip
    return slowest


async def run(dsn: str) -> None:
    headers = await telemetry.set_up(dsn, 2 * SLOTS + 1)
    await fill(dsn)
    environment = {"KEYRACK_DATABASE_URL": dsn, "KEYRACK_LOG_LEVEL": "error", **UNLIMITED}
    with ExitStack() as nodes:
        ports = [free_port() for _ in range(NODES)]
        for port in ports:
            nodes.enter_context(running(["keyrack", "serve", "--port", str(port)], port, "/health", environment))
        headers["Authorization"] = f"Bearer {await asyncio.to_thread(token, ports[0], headers)}"
        headers |= {"Accept": "application/json", "Prefer": "wait=10"}
        await slot(ports, headers, 1, exclusive=False)  # opens connections to the database
        table(
            "exclusive slots", f"{REQUESTS} requests at once", "slots", "slowest p50 ms", "slowest ms", "rejected early"
        )
        shared = await measured(ports, headers, range(2, SLOTS + 2), exclusive=False)
        alone = await measured(ports, headers, range(SLOTS + 2, 2 * SLOTS + 2), exclusive=True)
        row("exclusive divided by shared", "", f"{statistics.median(alone) / statistics.median(shared):.2f}", "", "")


def main() -> None:
    """Print the table of benchmarks/results.md, "Exclusive bookings of one slot"."""
    with database("exclusive") as dsn:
        asyncio.run(run(dsn))
