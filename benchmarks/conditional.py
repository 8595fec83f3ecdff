"""The CPU time of a 304, compared with that of its 200, for server and PostgreSQL.

The client of the 200 has no earlier response, the client of the 304 has one. The goal is a ratio of at most a half in
the last column, for the sum of both.
"""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import Callable

import asyncpg

from benchmarks.estimates import ratio
from benchmarks.foundation import LARGE, SMALL, Running, database, load, serving
from benchmarks.load import http, typical
from benchmarks.sizes import sized
from benchmarks.slices import Slices, Variant, alternate_servers
from benchmarks.tables import row, table

CUSTOMERS, CARS = 3, 2_000
COUNT = sized(400, tiny=20)  # requests per slice
CONNECTIONS = 4


async def backends(dsn: str) -> list[int]:
    """The backends that serve requests."""
    raw = await asyncpg.connect(dsn)
    rows = await raw.fetch("select pid from pg_stat_activity where application_name = 'keyrack'")
    await raw.close()
    return [row["pid"] for row in rows]


def backends_of(dsn: str) -> Callable[[], list[int]]:
    """A function that returns the backends that serve requests."""
    return lambda: asyncio.run(backends(dsn))


def cells(slices: Slices, base: Slices) -> list[str]:
    """The last cells of a row: both CPU times of the base and of the slices, and the ratio of their sums."""
    medians = [typical(of.results) for of in (base, slices)]
    return [
        *(f"{median.cpu:.0f} + {median.database_cpu:.0f}" for median in medians),
        ratio(slices.each("whole_cpu"), base.each("whole_cpu")).cell(),
    ]


def tags(port: int, paths: list[str], headers: dict[str, str]) -> list[str]:
    """The ETag of each path."""
    found: list[str] = []
    for path in paths:
        request = urllib.request.Request(f"http://127.0.0.1:{port}/v3{path}", headers=headers)
        found.append(urllib.request.urlopen(request, timeout=10).headers["ETag"])
    return found


def compare(keyrack: Running, dsn: str, paths: list[str], headers: dict[str, str], count: int) -> list[str]:
    """Measure the 200 and the 304 of these paths. Returns the cells of their row."""
    whole = [http("GET", "/v3" + path, headers) for path in paths]
    same = [
        http("GET", "/v3" + path, headers | {"If-None-Match": tag})
        for path, tag in zip(paths, tags(keyrack.port, paths, headers), strict=True)
    ]
    variants = (Variant(keyrack, of, status, backends_of(dsn)) for of, status in ((whole, 200), (same, 304)))
    base, slices = alternate_servers(*variants, count=count, connections=CONNECTIONS)
    return cells(slices, base)


def main() -> None:
    """Print the table of benchmarks/results.md, "Conditional reads"."""
    with database("conditional") as dsn:
        key = asyncio.run(load(dsn, CUSTOMERS, CARS))
        with serving(dsn, key) as (keyrack, signed_in):
            small = signed_in | {"Customer-ID": str(SMALL)}
            cases = [
                ("GET /cars/{carId}", [f"/cars/{id}" for id in range(1, 101)], small, COUNT),
                ("GET /cars, 100 rows", ["/cars"], small, COUNT // 2),
                ("GET /cars, 1,000 rows", ["/cars"], signed_in | {"Customer-ID": str(LARGE)}, COUNT // 7),
            ]
            table("conditional reads", "CPU us: server + PostgreSQL", "200", "304", "ratio")
            for name, paths, headers, count in cases:
                row(name, *compare(keyrack, dsn, paths, headers, count))
