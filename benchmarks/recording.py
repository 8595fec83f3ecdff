"""The cost of recorded changes, compared with the same server without the triggers.

The CPU time is that of the server process and of all of PostgreSQL. No worker runs. `changes` measures the numbering.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from benchmarks.foundation import CARS, CUSTOMERS, UNLIMITED, database, free_port, load, running, token
from benchmarks.load import Result, cpu_since, cpu_times, http, measure
from benchmarks.sizes import sized
from benchmarks.tables import row, table
from keyrack.changelog.audited_tables import RECORDED

ROUNDS = sized(5, tiny=1)  # of both in turn, because the machine's speed drifts
CUSTOMER = 3
GOALS = (1.3, 0.8)  # ratios of CPU time and throughput


@dataclass(frozen=True)
class Write:
    """A kind of write: its requests, and their number per round."""

    name: str
    requests: list[bytes]
    count: int


def writes(headers: dict[str, str]) -> list[Write]:
    headers = headers | {"Customer-ID": str(CUSTOMER)}
    car = {"name": "New car", "vin": "WVWZZZ1KZ00000001", "licensePlate": "B-KR 1"}
    patches = [[{"op": "replace", "path": "/name", "value": f"Name {n}"}] for n in range(7)]
    ids = [1_176 + 98 * n for n in range(sized(100, tiny=2))]  # cars of this customer from `load`
    batch = {"kind": "cars", "items": [{"op": "create", "body": {"name": f"Many {n}"}} for n in range(100)]}
    return [
        Write("PUT /cars", [http("PUT", "/v3/cars", headers, car)], sized(1_500, tiny=20)),
        Write(
            "PATCH /cars/{carId}",
            [http("PATCH", f"/v3/cars/{id}", headers, patch) for patch in patches for id in ids],
            sized(1_400, tiny=20),
        ),
        Write("POST /batch, 100 cars", [http("POST", "/v3/batch", headers, batch)], sized(60, tiny=2)),
    ]


def family(pid: int) -> list[int]:
    """A process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]


async def switch(dsn: str, how: str) -> None:
    raw = await asyncpg.connect(dsn)
    for name in sorted(RECORDED):
        names = await raw.fetch(
            "select tgname from pg_trigger where tgrelid = $1::text::regclass and tgname like 'RECORD%'", name
        )
        for (trigger,) in names:
            await raw.execute(f'alter table {name} {how} trigger "{trigger}"')
    await raw.close()


async def directory(dsn: str) -> str:
    raw = await asyncpg.connect(dsn)
    path = await raw.fetchval("select current_setting('data_directory')")
    await raw.close()
    return path


def server_of(dsn: str) -> int:
    """The process id of the database server."""
    return int(Path(asyncio.run(directory(dsn)), "postmaster.pid").read_text().split()[0])


def timed(pid: int, port: int, write: Write, server: int) -> tuple[Result, float]:
    """Measure a round, with CPU microseconds per request including PostgreSQL."""
    before = cpu_times(family(server))
    result = measure(pid, port, write.requests, write.count)
    wrong = {status: count for status, count in result.statuses.items() if status >= 400}
    assert not wrong, f"{write.name}: {wrong}"
    return result, result.cpu + cpu_since(before) / write.count * 1e6


def main() -> None:
    """Print the table of recorded writes of benchmarks/results.md, "Change log"."""
    with database("recording") as dsn:
        key = asyncio.run(load(dsn, CUSTOMERS, CARS))
        server, port = server_of(dsn), free_port()
        env = {"KEYRACK_DATABASE_URL": dsn, **UNLIMITED}
        with running(["keyrack", "serve", "--port", str(port), "--no-worker"], port, "/health", env) as keyrack:
            headers = key | {"Authorization": f"Bearer {token(port, key)}"}
            goals = f"CPU (goal: {GOALS[0]})", f"throughput (goal: {GOALS[1]})"
            table("recording writes", "", "writes/s", "CPU us", "without recording", "CPU us", *goals)
            for write in writes(headers):
                found: dict[str, list[tuple[Result, float]]] = {"enable": [], "disable": []}
                for round in range(ROUNDS + 1):
                    for how, results in found.items():
                        asyncio.run(switch(dsn, how))
                        time.sleep(sized(0.2, tiny=0.0))
                        result = timed(keyrack.pid, port, write, server)
                        if round:  # the first round warms up both
                            results.append(result)
                (rate, cpu), (bare, bare_cpu) = (
                    (statistics.median(r.rate for r, _ in rounds), statistics.median(c for _, c in rounds))
                    for rounds in (found["enable"], found["disable"])
                )
                cells = f"{rate:,.0f}", f"{cpu:,.0f}", f"{bare:,.0f}", f"{bare_cpu:,.0f}"
                row(f"`{write.name}`", *cells, f"**{cpu / bare_cpu:.2f}**", f"**{rate / bare:.2f}**")
