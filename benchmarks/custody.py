"""Queries of the access history, over a log of ten million changes.

Cars pass from one user to the next. Each assignment has three changes in the log: its creation, a change of its end,
and its deletion. So it has two access periods.
"""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import asyncpg

from benchmarks.foundation import UNLIMITED, database, free_port, load, running, token
from benchmarks.load import http, measure
from benchmarks.sizes import sized
from benchmarks.tables import row, table

CHANGES = sized(10_000_000, tiny=30_000)
CUSTOMER, CARS = 2, 1_000  # the customer with that many cars, and the id of its first car
FIRST_CAR = 101
DAYS = 360
REQUESTS, CONNECTIONS = sized(3_000, tiny=20), 2
# A sixth of the memory, for tables and indexes of 10 GB. The default of 128 MB would measure copies from the file cache
MEMORY = {"shared_buffers": sized("4GB", tiny="128MB")}

FILL = """
select make_changes((now() - n * interval '28 days')::date) from generate_series(0, 14) n;
delete from custody where customer_id = {customer};
insert into custody_log (customer_id, since) values ({customer}, now() - interval '{days} days 1 hour')
  on conflict (customer_id) do update set since = excluded.since;
create temp table held as
  select n as assignment_id, {first} + n % {cars} as car_id, 1 + n % 97 as user_id,
    now() - interval '{days} days' + (n / {cars}) * interval '{days} days' / ({count} / {cars}) as began,
    interval '{days} days' / ({count} / {cars}) as lasted
  from generate_series(0, {count} - 1) n;
insert into custody (customer_id, assignment_id, car_id, user_id, since, until, known_from, known_until)
  select {customer}, assignment_id, car_id, user_id, began, 'infinity', began, began + lasted / 2 from held;
insert into custody (customer_id, assignment_id, car_id, user_id, since, until, known_from, known_until)
  select {customer}, assignment_id, car_id, user_id, began, began + lasted, began + lasted / 2, began + lasted
  from held;
insert into change (class, customer_id, change_id, recorded_at, at, kind, resource, resource_id, who, groups, before,
    after, record)
  select 2, {customer}, row_number() over (order by at, assignment_id), at, at, 'assignment.' || word, 'assignment',
    assignment_id::text, '{{"type": "manager", "id": "7", "name": "anna"}}', '{{1}}', null, '{{"carId": 1}}', ''
  from (
    select assignment_id, 'created' as word, began as at from held
    union all select assignment_id, 'updated', began + lasted / 2 from held
    union all select assignment_id, 'deleted', began + lasted from held) c;
delete from change_inbox;
insert into change_log (customer_id, last_id, last_recorded_at) values ({customer}, {count} * 3, now())
  on conflict (customer_id) do update set last_id = excluded.last_id, last_recorded_at = excluded.last_recorded_at;
vacuum analyze custody;
vacuum analyze change
"""


async def fill(dsn: str) -> None:
    raw = await asyncpg.connect(dsn)
    values = {"customer": CUSTOMER, "first": FIRST_CAR, "cars": CARS, "days": DAYS, "count": CHANGES // 3}
    for statement in FILL.split(";\n"):
        await raw.execute(statement.format(**values))
    await raw.close()


def questions(headers: dict[str, str]) -> dict[str, list[bytes]]:
    """Requests by name, with random cars and times."""
    chance, now = random.Random(7), datetime.now(UTC)

    def time() -> datetime:
        return now - timedelta(days=chance.uniform(1, DAYS - 1))

    def get(path: str, **query: datetime) -> bytes:
        told = "&".join(f"{name}={quote(value.isoformat())}" for name, value in query.items())
        return http("GET", f"/v3{path}?{told}", headers)

    cars = [f"/cars/{chance.randrange(FIRST_CAR, FIRST_CAR + CARS)}/access" for _ in range(500)]
    users = [f"/users/{CUSTOMER}/access" for _ in range(500)]
    return {
        "a car, at a time": [get(path, at=time()) for path in cars],
        "a car, now": [get(path) for path in cars],
        "a car, over a week: about 130 access periods": [
            get(path, **{"from": at, "to": at + timedelta(days=7)}) for path, at in ((path, time()) for path in cars)
        ],
        "the cars of a user, at a time: ten cars at once": [get(path, at=time()) for path in users],
    }


def main() -> None:
    """Print the table of questions of benchmarks/results.md, "Change log"."""
    with database("custody", MEMORY) as dsn:
        key = asyncio.run(load(dsn, 3, 1_200))
        asyncio.run(fill(dsn))
        port = free_port()
        env = {"KEYRACK_DATABASE_URL": dsn, **UNLIMITED}
        with running(["keyrack", "serve", "--port", str(port), "--no-worker"], port, "/health", env) as keyrack:
            headers = key | {"Authorization": f"Bearer {token(port, key)}", "Customer-ID": str(CUSTOMER)}
            table("custody questions", "Access to", "requests/s", "p50 ms", "p99 ms")
            for name, requests in questions(headers).items():
                measure(keyrack.pid, port, requests, REQUESTS // 5, CONNECTIONS)
                result = measure(keyrack.pid, port, requests, REQUESTS, CONNECTIONS)
                wrong = {status: count for status, count in result.statuses.items() if status >= 400}
                assert not wrong, f"{name}: {wrong}"
                row(name, f"{result.rate:,.0f}", f"{result.p50:.2f}", f"**{result.p99:.2f}**")
