"""Current and past positions, compared with a handwritten statement over asyncpg.

There are 10,000 cars with 20 assignments each, a car that reports every ten seconds for a month, and a stationary one.
"""

from __future__ import annotations

import asyncio
import functools
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from typing import Any, LiteralString
from urllib.parse import quote

import asyncpg

from benchmarks import telemetry
from benchmarks.estimates import ratio
from benchmarks.foundation import database, token
from benchmarks.sizes import sized
from benchmarks.slices import alternate
from benchmarks.tables import row, table
from keyrack.telemetry.runs import packed

CARS = sized(10_000, tiny=200)
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
DAYS, STEP = sized(31, tiny=2), timedelta(seconds=10)
MOVING, STANDING = 1, 2

FILL = (
    """
    update car_state set product_id = car_id, position_at = $1::timestamptz - car_id * interval '1 second',
      latitude = 50 + random(), longitude = 8 + random(), read_at = $1,
      telemetry = '{"rpm": 2100, "ignition": true, "isDriving": true, "currentSpeed": 88.5, "fuelLevelPercent": 44}'
    """,
    """
    insert into assignment (customer_id, car_id, user_id, starts_at, ends_at, lifetime, renewable_after)
    select 1, c, 1, $1::timestamptz - n * interval '10 days',
      case when n > 1 then $1::timestamptz - n * interval '10 days' + interval '5 days' end, 604800, 302400
    from (select car_id as c from car where customer_id = 1) cars, generate_series(1, 20) n
    """,
)
ALL: LiteralString = """
select json_agg(json_build_object('carId', c.car_id, 'name', c.name, 'latitude', s.latitude, 'longitude', s.longitude,
  'utcDateTime', s.position_at) order by c.car_id)::text
from car c left join car_state s using (customer_id, car_id) where c.customer_id = 1
"""
NEWER: LiteralString = ALL.replace("c.customer_id = 1", "c.customer_id = 1 and s.position_at > $1")
IN_USE: LiteralString = """
select count(*) from car c where customer_id = 1 and exists (
  select from assignment a where a.customer_id = 1 and a.car_id = c.car_id
  and a.starts_at <= now() and coalesce(a.ends_at, 'infinity') > now())
"""
PLACES: LiteralString = """
select json_agg(json_build_object('at', n, 'latitude', latitude, 'longitude', longitude) order by n)::text
from position, packed_times(at, times) n where customer_id = 1 and car_id = $1 and at >= $2 and at < $3
"""
BUCKETS: LiteralString = """
select json_agg(b)::text from (
  select date_bin('1 hour', n, $2) as at, count(*), min(odometer), max(odometer), avg(odometer)
  from odometer, packed_times(at, times) n where customer_id = 1 and car_id = $1 and at >= $2 and at < $3
  group by 1 order by 1) b
"""


async def fill(dsn: str, now: datetime) -> None:
    raw = await asyncpg.connect(dsn)
    for statement in FILL:
        await raw.execute(statement, *([now] if "$1" in statement else []))
    await raw.execute(
        "select make_history(m::date) from generate_series($1::timestamptz - interval '2 months', $1, '28 days') m", now
    )
    times = [TODAY - timedelta(days=DAYS) + n * STEP for n in range(DAYS * 86_400 // 10)]
    for car, value in ((MOVING, 1e-5), (STANDING, 0.0)):
        places = [stretch for stretch, _ in packed((at, (50 + n * value, 8.0)) for n, at in enumerate(times))]
        distances = [stretch for stretch, _ in packed((at, (7 + n * value,)) for n, at in enumerate(times))]
        for name, stretches in (("position", places), ("odometer", distances)):
            columns = ("latitude", "longitude") if name == "position" else ("odometer",)
            rows = [(1, car, stretch.at, *stretch.value, stretch.times) for stretch in stretches]
            names = ("customer_id", "car_id", "at", *columns, "times")
            await raw.copy_records_to_table(name, columns=names, records=rows)
    await raw.execute("vacuum analyze")
    await raw.close()


def beside(
    name: str, dsn: str, port: int, path: str, headers: dict[str, str], sql: LiteralString, args: tuple[Any, ...]
) -> None:
    """Print a row: median milliseconds of the response and of the floor's statement, and their ratio."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    with asyncio.Runner() as runner:
        raw = runner.run(asyncpg.connect(dsn))

        def response() -> None:
            connection.request("GET", "/v3" + path, headers=headers)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200, path

        def statement() -> None:
            runner.run(raw.fetchval(sql, *args))

        times = alternate(*(functools.partial(milliseconds, work) for work in (response, statement)))
        runner.run(raw.close())
    connection.close()
    row(name, *(f"{statistics.median(of):.1f}" for of in times), ratio(*times).cell(1))


def milliseconds(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def stamp(at: datetime) -> str:
    return quote(at.isoformat().replace("+00:00", "Z"))


def cases(now: datetime) -> list[tuple[str, str, LiteralString, tuple[Any, ...]]]:
    """The cases: name, path, and the floor's statement with its parameters."""
    newer = now - timedelta(seconds=100)
    found: list[tuple[str, str, LiteralString, tuple[Any, ...]]] = [
        (f"all {CARS:,} positions", "/positions", ALL, ()),
        ("the same, only five properties", "/positions?$select=carId,name,latitude,longitude,utcDateTime", ALL, ()),
        (
            "the 100 positions that are newer than a time",
            f"/positions?$filter=utcDateTime%20gt%20{stamp(newer)}",
            NEWER,
            (newer,),
        ),
        ("the number of cars in use", "/positions?$filter=inUse%20eq%20true&$count=true&$top=0", IN_USE, ()),
    ]
    for car, words in ((MOVING, "moving"), (STANDING, "parked")):
        for days in (1, DAYS):
            since = TODAY - timedelta(days=days)
            time_range, args = f"from={stamp(since)}&to={stamp(TODAY)}", (car, since, TODAY)
            name = f"of {days} days, a {words} car" if days > 1 else f"of a day, a {words} car"
            found.append((f"track {name}", f"/cars/{car}/track?{time_range}", PLACES, args))
            found.append((f"samples {name}", f"/cars/{car}/samples?{time_range}&points={24 * days}", BUCKETS, args))
    return found


def main() -> None:
    """Print the table of benchmarks/results.md, "Positions and tracks"."""
    now = datetime.now(UTC)
    with database("positions") as dsn:
        headers = asyncio.run(telemetry.set_up(dsn, CARS))
        asyncio.run(fill(dsn, now))
        with telemetry.serving(dsn) as server:
            headers["Authorization"] = f"Bearer {token(server.port, headers)}"
            table("positions reads", "", "p50 ms", "floor p50 ms", "ratio")
            for name, path, sql, args in cases(now):
                beside(name, dsn, server.port, path, headers, sql, args)
