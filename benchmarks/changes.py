"""Changes: the rate at which one worker numbers and hashes them, and the delay of each.

The database writes to disk as in production. Changes are inserted into the outbox by SQL, as the triggers write them.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Any

import asyncpg

from benchmarks.foundation import database
from benchmarks.load import cpu_seconds
from benchmarks.outcomes import until, workers
from benchmarks.sizes import sized
from benchmarks.tables import row, table
from keyrack.db import schema_version

COUNT = sized(50_000, tiny=200)  # changes that wait at once
RUNS = sized(3, tiny=1)  # the best one counts, because other work only slows runs down
GOAL = 5_000  # numbered and hashed per second
RATE, SECONDS = 100, sized(15, tiny=1)  # single changes with a timed way to their number

# Changes of customers in turn. One in five is about a person
WRITE = """
insert into change_inbox (customer_id, kind, resource, resource_id, who, groups, before, after)
select 1 + n % $1::integer, r || '.updated', r, (n % 900)::text,
  jsonb_build_object('type', 'manager', 'id', '7', 'name', 'anna', 'address', '192.0.2.1',
    'requestId', gen_random_uuid()),
  array[n % 50, 50 + n % 50],
  case r when 'user' then '{"emailAddress": "a@example.org", "firstName": "A", "lastName": "B"}'::jsonb
    else '{"name": "Pool 17", "licensePlate": "B-KR 17", "vin": "WDB1234567890123"}' end,
  case r when 'user' then '{"emailAddress": "b@example.org", "firstName": "A", "lastName": "C"}'::jsonb
    else '{"name": "Pool 18", "licensePlate": "B-KR 18", "vin": "WDB1234567890123"}' end
from generate_series($2::integer, $3::integer) n, lateral (select case n % 5 when 0 then 'user' else 'car' end) t (r)
"""
LEFT = "select exists (select from change_inbox)"
WAITED = """
select extract(epoch from recorded_at - at) * 1000 as ms from change where at >= $1 order by 1
"""


async def numbered(raw: Any, pid: int, customers: int) -> tuple[float, float]:
    """Changes numbered per second, and CPU microseconds of the worker for each."""
    await raw.execute(WRITE, customers, 1, 1)  # starts the worker

    async def done() -> bool:
        return not await raw.fetchval(LEFT)

    await until(done)
    cpu = cpu_seconds(pid)
    await raw.execute(WRITE, customers, 1, COUNT)
    written = time.perf_counter()
    await until(done)
    return COUNT / (time.perf_counter() - written), (cpu_seconds(pid) - cpu) / COUNT * 1e6


async def soon(raw: Any) -> tuple[float, float]:
    """Milliseconds from a single change, before its commit, to its number: median and 99th percentile."""
    since = await raw.fetchval("select clock_timestamp()")
    loop = asyncio.get_running_loop()
    begun = loop.time()
    for number in range(RATE * SECONDS):
        await asyncio.sleep(max(0.0, begun + number / RATE - loop.time()))
        await raw.execute(WRITE, 10, number, number)

    async def done() -> bool:
        return not await raw.fetchval(LEFT)

    await until(done)
    times = [float(row["ms"]) for row in await raw.fetch(WAITED, since)]
    return statistics.median(times), times[int(len(times) * 0.99)]


async def measured(dsn: str) -> None:
    await schema_version.migrate(dsn)
    raw = await asyncpg.connect(dsn)
    try:
        with workers(dsn, 1) as (pid,):
            table("changes numbered", "", f"changes/s (goal {GOAL:,})", "CPU us of the worker")
            for customers in (1, 100, 10_000):
                rate, cpu = max([await numbered(raw, pid, customers) for _ in range(RUNS)])
                row(f"of {customers:,} customers", f"**{rate:,.0f}**", f"{cpu:.0f}")
            p50, p99 = await soon(raw)
            row(f"delay of a number, {RATE} single changes per second", f"p50 {p50:.1f} ms, p99 {p99:.1f} ms", "")
    finally:
        await raw.close()


def main() -> None:
    """Print the table of numbered changes of benchmarks/results.md, "Change log"."""
    with database("changes") as dsn:
        asyncio.run(measured(dsn))
