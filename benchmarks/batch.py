"""Batches, compared with single requests and with a bare insert of their rows.

The database writes to disk as in production. No worker applies the operations meanwhile.
"""

from __future__ import annotations

import asyncio
import functools
import http.client
import json
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg

from benchmarks.estimates import ratio
from benchmarks.foundation import UNLIMITED, database, free_port, load, running, token
from benchmarks.load import http as request_bytes
from benchmarks.load import measure
from benchmarks.outcomes import PREPARE
from benchmarks.sizes import sized
from benchmarks.slices import alternate_tasks
from benchmarks.tables import row, table

ITEMS = sized(1_000, tiny=100)
START = "2026-01-01T08:00:00Z"

# As many rows as the batch has items, written without any check
FLOOR_OPERATIONS = """
insert into operation (customer_id, kind, car_id, user_id, request, checksum)
select 1, 'CreateAssignment', car_id, 1, request::jsonb, checksum
from unnest($1::integer[], $2::text[], $3::text[]) u (car_id, request, checksum)
"""
FLOOR_CARS = "insert into car (customer_id, name) select 3, name from unnest($1::text[]) u (name) returning car_id"

Json = dict[str, Any]


def creations(count: int) -> list[Json]:
    """Creations for cars of the first customer, an hour each, which do not overlap."""
    return [
        {
            "op": "create",
            "body": {"carId": 1 + n % 100, "userId": 1, "start": hour(n // 100), "end": hour(n // 100 + 1)},
        }
        for n in range(count)
    ]


def create(car: int, number: int) -> Json:
    return {"op": "create", "body": {"carId": car, "userId": 1, "start": hour(number), "end": hour(number + 1)}}


def hour(number: int) -> str:
    return f"2020-01-01T{number:02}:00:00Z"


def mixed() -> list[Json]:
    """Two creations, one change and one end, in turn."""
    items = iter(creations(ITEMS))
    patch = [{"op": "replace", "path": "/lifetime", "value": 700_000}]
    found: list[Json] = []
    for n in range(1, ITEMS // 4 + 1):
        found += [
            next(items),
            {"op": "change", "id": n, "patch": patch},
            next(items),
            {"op": "end", "id": n + ITEMS // 4},
        ]
    return found


def cases() -> list[tuple[str, int, Json, str]]:
    """The cases: name, customer, body, and their floor."""
    cars = [{"op": "create", "body": {"name": f"New {n}"}} for n in range(ITEMS)]
    assignments = {"kind": "assignments", "items": creations(ITEMS)}
    return [
        (f"{ITEMS:,} creations of assignments", 1, assignments, "operations"),
        ("creations, changes and ends", 1, {"kind": "assignments", "items": mixed()}, "operations"),
        ("the creations, `atomic`", 1, assignments | {"atomic": True}, "operations"),
        ("the creations, `conflicts: refuse`", 1, assignments | {"conflicts": "refuse"}, "operations"),
        ("the creations, `dryRun`", 1, assignments | {"dryRun": True}, "operations"),
        (f"{ITEMS:,} creations of cars", 3, {"kind": "cars", "items": cars}, "cars"),
    ]


class Bench:
    """A server with its database, and the removal of rows between two runs."""

    def __init__(self, port: int, headers: dict[str, str], raw: Any) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.headers, self.raw = headers | {"Content-Type": "application/json"}, raw

    async def forget(self) -> None:
        await self.raw.execute("delete from operation; delete from car where customer_id = 3")

    async def alone(self, run: Callable[[], Awaitable[float]]) -> float:
        """Milliseconds of a run without the rows of the one before."""
        await self.forget()
        return await run() * 1000

    async def batch(self, customer: int, body: Json) -> float:
        """Seconds of one call."""
        content = json.dumps(body)
        begin = time.perf_counter()
        self.connection.request("POST", "/v3/batch", content, self.headers | {"Customer-ID": str(customer)})
        answer = self.connection.getresponse()
        told = json.loads(answer.read())
        seconds = time.perf_counter() - begin
        assert (answer.status, told["done"]) == (200, ITEMS), told
        return seconds

    async def floor(self, what: str) -> float:
        """Seconds of one bare insert."""
        asked = json.dumps({"start": START, "end": None, "lifetime": None, "renewableAfter": None})
        begin = time.perf_counter()
        if what == "cars":
            await self.raw.fetch(FLOOR_CARS, [f"New {n}" for n in range(ITEMS)])
        else:
            cars = [1 + n % 100 for n in range(ITEMS)]
            await self.raw.execute(FLOOR_OPERATIONS, cars, [asked] * ITEMS, ["0" * 32] * ITEMS)
        return time.perf_counter() - begin


def single(pid: int, port: int, headers: dict[str, str]) -> dict[str, float]:
    """Milliseconds of as many single requests over eight connections."""
    put = headers | {"Customer-ID": "1"}
    assignments = [request_bytes("PUT", "/v3/assignments", put, item["body"]) for item in creations(100)]
    cars = [request_bytes("PUT", "/v3/cars", headers | {"Customer-ID": "3"}, {"name": "New"})]
    found: dict[str, float] = {}
    for what, requests in (("operations", assignments), ("cars", cars)):
        measure(pid, port, requests, ITEMS // 5)
        found[what] = statistics.median(measure(pid, port, requests, ITEMS).seconds for _ in range(3)) * 1000
    return found


async def compare(dsn: str, headers: dict[str, str]) -> None:
    """Print the table."""
    port = free_port()
    raw = await asyncpg.connect(dsn)
    env = {"KEYRACK_DATABASE_URL": dsn, "KEYRACK_DRY_RUN_RATE": "100000", "KEYRACK_DRY_RUN_BURST": "1000", **UNLIMITED}
    with running(["keyrack", "serve", "--port", str(port), "--no-worker"], port, "/health", env) as server:
        headers = headers | {"Authorization": "Bearer " + await asyncio.to_thread(token, port, headers)}
        bench = Bench(port, headers, raw)
        singly = await asyncio.to_thread(single, server.pid, port, headers)
        table(
            "batch calls", "in one call", "ms", "as single requests ms", "times faster", "bare insert ms",
            "times the floor",
        )  # fmt: skip
        for name, customer, body, floor in cases():
            runs = functools.partial(bench.batch, customer, body), functools.partial(bench.floor, floor)
            times = await alternate_tasks(*(functools.partial(bench.alone, run) for run in runs))
            took, bare = map(statistics.median, times)
            quicker = (
                (f"{singly[floor]:.0f}", f"**{singly[floor] / took:.1f}**") if "creations of" in name else ("", "")
            )
            row(name, f"{took:.0f}", *quicker, f"{bare:.1f}", ratio(*times).cell(1))
    await raw.close()


def main() -> None:
    """Print the table of benchmarks/results.md, "Batches"."""
    with database("batch") as dsn:
        headers = asyncio.run(load(dsn, 3, 1_200, PREPARE))
        asyncio.run(compare(dsn, headers))
