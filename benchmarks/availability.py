"""Free cars of a period, compared with a handwritten statement over asyncpg.

There are 10,000 cars with a key box each, and 100,000 exclusive assignments. About half of the cars are free. The goal
is a p50 below 30 ms for a page of the default size.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import LiteralString

import asyncpg

from benchmarks import telemetry
from benchmarks.foundation import database, token
from benchmarks.positions import beside, stamp
from benchmarks.sizes import sized
from benchmarks.tables import table

CARS = sized(10_000, tiny=200)
BOOKINGS = 10  # of each car
PENDING = sized(100, tiny=10)  # operations that are not applied yet

FILL = (
    """
    insert into product (customer_id, unique_id, serial_number, sap_number, kind, car_id)
    select 1, 'B' || car_id, 'B' || car_id, 'P', 'Box', car_id from car
    """,
    """
    insert into service (customer_id, name, product_id) select 1, 'Service', product_id from product where kind = 'Box'
    """,
    """
    insert into assignment (customer_id, car_id, user_id, starts_at, ends_at, lifetime, is_exclusive)
    select 1, car_id, 1, t, t + interval '8 hours', 604800, true from car, generate_series(1, $2) n,
      lateral (select $1::timestamptz + (n - 4) * interval '16 hours' + car_id % 961 * interval '1 minute' as t) x
    """,
    "vacuum analyze",
)
# The first cars have no booking that the pending ones overlap, so the number of free cars stays about the same
PENDING_OPERATIONS = """
insert into operation (customer_id, kind, car_id, user_id, request, checksum)
select 1, 'CreateAssignment', car_id, 1, jsonb_build_object('start', $2::text, 'end', $3::text, 'exclusive', true), ''
from car order by car_id limit $1
"""
BY_HAND: LiteralString = """
select json_agg(r)::text from (
  select c.car_id as id, c.name, c.description, c.vin, c.license_plate as "licensePlate", c.brand, c.model,
    (select max(b.blocked_until) from booking b
     where b.customer_id = 1 and b.car_id = c.car_id and b.starts_at < $2) as "freeFrom",
    (select min(b.starts_at) from booking b
     where b.customer_id = 1 and b.car_id = c.car_id and b.starts_at >= $2) as "freeUntil"
  from car c where c.customer_id = 1
    and not exists (select from booking b where b.customer_id = 1 and b.car_id = c.car_id and b.starts_at < $2
      and b.blocked_until > $1)
    and exists (select from product p join service s using (customer_id, product_id) where p.customer_id = 1
      and p.car_id = c.car_id and p.kind = 'Box' and not s.is_terminated)
  order by {order} limit {limit}) r
"""


async def fill(dsn: str, now: datetime) -> None:
    raw = await asyncpg.connect(dsn)
    for statement in FILL:
        await raw.execute(statement, *([now, BOOKINGS] if "$1" in statement else []))
    await raw.close()


async def ask(dsn: str, start: datetime) -> None:
    """Add operations that are not applied."""
    raw = await asyncpg.connect(dsn)
    times = [f"{moment:%Y-%m-%dT%H:%M:%SZ}" for moment in (start, start + timedelta(hours=2))]
    await raw.execute(PENDING_OPERATIONS, PENDING, *times)
    await raw.execute("analyze operation")
    await raw.close()


def cases(path: str) -> list[tuple[str, str, LiteralString]]:
    """The cases: name, path, and the floor's statement."""
    by_id: LiteralString = BY_HAND.replace("{order}", "c.car_id")
    page, first = by_id.replace("{limit}", "1000"), by_id.replace("{limit}", "20")
    by_name: LiteralString = BY_HAND.replace("{order}", "c.name, c.car_id").replace("{limit}", "20")
    return [
        ("a page of the default size, 1,000 cars", path, page),
        ("`$top=20`", f"{path}&$top=20", first),
        ("`$top=20`, by name", f"{path}&$top=20&$orderby=name", by_name),
        ("`$top=20`, with the number of all", f"{path}&$top=20&$count=true", first),
        ("a page, with a gap of an hour", f"{path}&gap=3600", page),
    ]


def main() -> None:
    """Print the table of benchmarks/results.md, "Free cars"."""
    now = datetime.now(UTC).replace(microsecond=0)
    start = now + timedelta(hours=24)
    end = start + timedelta(hours=2)
    with database("availability") as dsn:
        headers = asyncio.run(telemetry.set_up(dsn, CARS))
        asyncio.run(fill(dsn, now))
        with telemetry.serving(dsn) as server:
            headers["Authorization"] = f"Bearer {token(server.port, headers)}"
            table("availability cars", "", "p50 ms", "floor p50 ms", "ratio")
            listed = cases(f"/cars/available?from={stamp(start)}&to={stamp(end)}")
            for name, path, sql in listed:
                beside(name, dsn, server.port, path, headers, sql, (start, end))
            asyncio.run(ask(dsn, start))
            _, path, sql = listed[0]
            beside(f"a page, {PENDING} requests pending", dsn, server.port, path, headers, sql, (start, end))
