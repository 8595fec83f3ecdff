"""The cost of recorded changes, compared with the same server without the triggers.

The CPU time is that of the server process and of all of PostgreSQL. No worker runs. `changes` measures the numbering.
"""

from __future__ import annotations

import asyncio
import functools
import time
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from benchmarks.estimates import ratio
from benchmarks.foundation import CARS, CUSTOMERS, database, load, serving
from benchmarks.load import http, typical
from benchmarks.sizes import sized
from benchmarks.slices import Variant, alternate_servers
from benchmarks.tables import row, table
from keyrack.changelog.audited_tables import RECORDED

CUSTOMER = 3


@dataclass(frozen=True)
class Write:
    """A kind of write: its requests, and their number per slice."""

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
        Write("`PUT /cars`", [http("PUT", "/v3/cars", headers, car)], sized(300, tiny=20)),
        Write(
            "`PATCH /cars/{carId}`",
            [http("PATCH", f"/v3/cars/{id}", headers, patch) for patch in patches for id in ids],
            sized(300, tiny=20),
        ),
        Write("`POST /batch`, 100 cars", [http("POST", "/v3/batch", headers, batch)], sized(12, tiny=2)),
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


def main() -> None:
    """Print the table of recorded writes of benchmarks/results.md, "Change log"."""
    with database("recording") as dsn:
        key = asyncio.run(load(dsn, CUSTOMERS, CARS))
        server = server_of(dsn)

        def switched(how: str) -> None:
            asyncio.run(switch(dsn, how))
            time.sleep(sized(0.2, tiny=0.0))

        with serving(dsn, key) as (keyrack, headers):
            table("recording writes", "", "writes/s", "CPU us", "without recording", "CPU us", "CPU", "throughput")
            for write in writes(headers):
                variants = (
                    Variant(
                        keyrack, write.requests, database=lambda: family(server),
                        prepare=functools.partial(switched, how),
                    )
                    for how in ("enable", "disable")
                )  # fmt: skip
                slices, base = alternate_servers(*variants, count=write.count)
                medians = [typical(of.results) for of in (slices, base)]
                cells = [cell for of in medians for cell in (f"{of.rate:,.0f}", f"{of.whole_cpu:,.0f}")]
                ratios = (ratio(slices.each(figure), base.each(figure)).cell() for figure in ("whole_cpu", "rate"))
                row(write.name, *cells, *ratios)
