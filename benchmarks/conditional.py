"""The CPU time of a 304, compared with that of its 200, for server and PostgreSQL.

The client of the 200 has no earlier response, the client of the 304 has one. The goal is a ratio of at most a half in
the last column, for the sum of both.
"""

from __future__ import annotations

import asyncio
import urllib.request
from dataclasses import dataclass

import asyncpg

from benchmarks.foundation import LARGE, SMALL, UNLIMITED, Running, database, free_port, load, running, token
from benchmarks.load import cpu_since, cpu_times, http, measure
from benchmarks.sizes import sized
from benchmarks.tables import row, table

CUSTOMERS, CARS = 3, 2_000
COUNT = sized(2_000, tiny=20)  # requests per measurement
ROUNDS = sized(5, tiny=1)  # the 200 and the 304 in turn, so that other load affects both


@dataclass
class Spent:
    """CPU microseconds per request."""

    server: float = 0.0
    database: float = 0.0

    @property
    def both(self) -> float:
        return self.server + self.database


async def backends(dsn: str) -> list[int]:
    """The backends that serve requests."""
    raw = await asyncpg.connect(dsn)
    rows = await raw.fetch("select pid from pg_stat_activity where application_name = 'keyrack'")
    await raw.close()
    return [row["pid"] for row in rows]


def spent(keyrack: Running, dsn: str, requests: list[bytes], count: int, status: int) -> Spent:
    """Measure these requests, which must all get the status."""
    measure(
        keyrack.pid, keyrack.port, requests, min(len(requests) * 8, count)
    )  # opens the connections and makes their plans
    before = cpu_times(asyncio.run(backends(dsn)))
    result = measure(keyrack.pid, keyrack.port, requests, count, 4)
    database = cpu_since(before)
    assert set(result.statuses) == {status}, result.statuses
    return Spent(result.cpu, database / count * 1e6)


def tags(port: int, paths: list[str], headers: dict[str, str]) -> list[str]:
    """The ETag of each path."""
    found: list[str] = []
    for path in paths:
        request = urllib.request.Request(f"http://127.0.0.1:{port}/v3{path}", headers=headers)
        found.append(urllib.request.urlopen(request, timeout=10).headers["ETag"])
    return found


def compare(keyrack: Running, dsn: str, paths: list[str], headers: dict[str, str], count: int) -> tuple[Spent, Spent]:
    """Print the 200 and the 304 of these paths, measured in turn."""
    whole = [http("GET", "/v3" + path, headers) for path in paths]
    same = [
        http("GET", "/v3" + path, headers | {"If-None-Match": tag})
        for path, tag in zip(paths, tags(keyrack.port, paths, headers), strict=True)
    ]
    totals = Spent(), Spent()
    for _ in range(ROUNDS):
        for total, requests, status in ((totals[0], whole, 200), (totals[1], same, 304)):
            found = spent(keyrack, dsn, requests, count, status)
            total.server += found.server / ROUNDS
            total.database += found.database / ROUNDS
    return totals


def main() -> None:
    """Print the table of benchmarks/results.md, "Conditional reads"."""
    with database("conditional") as dsn:
        key = asyncio.run(load(dsn, CUSTOMERS, CARS))
        port = free_port()
        command = ["keyrack", "serve", "--port", str(port), "--no-worker"]
        with running(command, port, "/health", {"KEYRACK_DATABASE_URL": dsn, **UNLIMITED}) as keyrack:
            signed_in = key | {"Authorization": f"Bearer {token(port, key)}"}
            small = signed_in | {"Customer-ID": str(SMALL)}
            cases = [
                ("GET /cars/{carId}", [f"/cars/{id}" for id in range(1, 101)], small, COUNT),
                ("GET /cars, 100 rows", ["/cars"], small, COUNT // 2),
                ("GET /cars, 1,000 rows", ["/cars"], signed_in | {"Customer-ID": str(LARGE)}, COUNT // 7),
            ]
            table("conditional reads", "CPU us: server + PostgreSQL", "200", "304", "ratio")
            for name, paths, headers, count in cases:
                whole, same = compare(keyrack, dsn, paths, headers, count)
                cells = (f"{spent.server:.0f} + {spent.database:.0f}" for spent in (whole, same))
                row(name, *cells, f"**{same.both / whole.both:.2f}**")
