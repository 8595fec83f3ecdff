"""Telemetry, events and history.

Measures samples by HTTP, compared with COPY, samples by MQTT, events, and locations by date.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiomqtt
import asyncpg

from benchmarks.foundation import database, free_port, running, token
from benchmarks.load import http, measure
from benchmarks.sizes import sized
from benchmarks.tables import row, table
from keyrack.auth.password_hashing import Passwords
from keyrack.core import secret_hashes
from keyrack.core.settings import Settings
from keyrack.db import schema_version
from keyrack.db.connection import Database
from keyrack.db.group_commit import GroupCommitter
from keyrack.telemetry.ingest import Telemetry

CARS = sized(1_000, tiny=100)
CLIENTS = 8
SAMPLES, BATCH = sized(80_000, tiny=800), 100
EVENTS = sized(4_000, tiny=50)  # one per request
MESSAGES = sized(20_000, tiny=50)  # MQTT messages
POSITIONS = sized((1_000_000, 10_000_000, 100_000_000), tiny=(6_000,))
READINGS_STANDING = sized(10_000_000, tiny=1_000)
SEARCHES = sized(5_000, tiny=20)  # searches of a position by date
NOW = datetime.now(UTC).replace(microsecond=0)

SET_UP = """
insert into customer (name) values ('bench');
insert into person (email_address, type) values ('a@example.org', 'Anonymous');
insert into customer_user (customer_id, user_id) values (1, 1);
insert into car (customer_id, name) select 1, 'Car ' || n from generate_series(1, $cars) n;
insert into product (customer_id, unique_id, serial_number, sap_number, kind, car_id)
  select 1, 'U' || n, 'S' || n, 'P', 'IQ', n from generate_series(1, $cars) n;
insert into car_state (customer_id, car_id) select 1, n from generate_series(1, $cars) n;
insert into manager_customer (manager_id, customer_id) values (1, 1);
insert into manager_role (manager_id, customer_id, role) values (1, 1, 'Owner');
"""

DEVICE_KEY = """
insert into device_key (customer_id, hash, is_gateway, scopes) values (1, $1, true, '{telemetry,events}')
"""


# Rows of moving cars: one per position in history, and the newest one in the state
STORED = "select (select count(*) from position) + (select count(*) from car_state where position_since is not null)"


async def set_up(dsn: str, cars: int = CARS) -> dict[str, str]:
    """Make a customer with cars and units. Returns the headers of its device and its manager."""
    await schema_version.migrate(dsn)
    raw = await asyncpg.connect(dsn)
    key, hashed = secret_hashes.new_secret(), await Passwords().hash("bench")
    await raw.execute("insert into manager (username, password_hash) values ('bench', $1)", hashed)
    for statement in SET_UP.replace("$cars", str(cars)).split(";\n"):
        if statement.strip():
            await raw.execute(statement)
    await raw.execute(DEVICE_KEY, secret_hashes.digest(key))
    await raw.execute("insert into api_key (name, hash) values ('bench', $1)", secret_hashes.digest(key))
    await raw.execute("vacuum analyze")
    await raw.close()
    return {"Device-Key": key, "vendor-API-Key": key, "Customer-ID": "1"}


def sample(car: int, at: datetime) -> dict[str, Any]:
    return {
        "serialNumber": f"S{car}",
        "carDataReadTime": at.isoformat().replace("+00:00", "Z"),
        "currentLatitude": round(random.uniform(47, 55), 6),
        "currentLongitude": round(random.uniform(6, 15), 6),
        "odometer": round(random.uniform(1, 200_000), 1),
        "currentSpeed": round(random.uniform(0, 130), 1),
        "rpm": random.randint(800, 4000),
        "isDriving": True,
        "fuelLevelPercent": random.randint(5, 100),
    }


def samples() -> list[dict[str, Any]]:
    """Samples of the fleet, tick by tick. Each batch has the next 100 cars."""
    start = NOW - timedelta(hours=10)
    return [sample(n % CARS + 1, start + timedelta(seconds=5 * (n // CARS))) for n in range(SAMPLES)]


@contextmanager
def serving(dsn: str) -> Iterator[Any]:
    port = free_port()
    command = ["keyrack", "serve", "--port", str(port), "--no-worker"]
    with running(command, port, "/health", {"KEYRACK_DATABASE_URL": dsn, "KEYRACK_LOG_LEVEL": "error"}) as server:
        yield server


def ingest() -> None:
    """Samples over HTTP: from a forwarder, in batches of 100 cars, and from units, each with 100 readings."""
    told = samples()
    _ingest("of 100 cars each", told)
    start = NOW - timedelta(seconds=SAMPLES)
    _ingest("of one car each", [sample(n // BATCH % CARS + 1, start + timedelta(seconds=n)) for n in range(SAMPLES)])


def _ingest(words: str, told: list[dict[str, Any]]) -> None:
    """Ingest samples over HTTP, and write the same rows by COPY: in hundreds, and all at once."""
    with database("ingest") as dsn:
        headers = asyncio.run(set_up(dsn))
        requests = [
            http("POST", "/v3/ingest/telemetry", headers, told[n : n + BATCH]) for n in range(0, SAMPLES, BATCH)
        ]
        with serving(dsn) as server:
            warm, rest = requests[: len(requests) // 8], requests[len(requests) // 8 :]
            measure(server.pid, server.port, warm, len(warm), CLIENTS)
            result = measure(server.pid, server.port, rest, len(rest), CLIENTS)
        assert set(result.statuses) == {200}, result.statuses
        rate = result.rate * BATCH
        stored = asyncio.run(fetch(dsn, STORED))
        assert stored == SAMPLES, stored
        row(f"samples per second over HTTP, batches of 100 {words}, {CLIENTS} clients", "20,000", f"{rate:,.0f}")
        row("p99 of such a batch", "", f"{result.p99:.0f} ms; CPU of the server {result.cpu / 1000:.1f} ms per batch")
        rows = [(1, int(s["serialNumber"][1:]), datetime.fromisoformat(s["carDataReadTime"]), s) for s in told]
        ways = {BATCH: "COPY of the same rows in batches of 100, 8 connections", SAMPLES: "COPY of all at once"}
        for size, way in ways.items():
            copied = asyncio.run(copy(dsn, rows, size))
            row(f"rows per second by {way}", "3 times", f"{copied:,.0f}, {copied / rate:.1f} times as many")


async def fetch(dsn: str, sql: str) -> Any:
    raw = await asyncpg.connect(dsn)
    try:
        return await raw.fetchval(sql)
    finally:
        await raw.close()


async def copy(dsn: str, rows: list[Any], size: int) -> float:
    pool = await asyncpg.create_pool(dsn, min_size=CLIENTS, max_size=CLIENTS)
    await pool.execute("truncate position, odometer")
    parts = [rows[n : n + size] for n in range(0, len(rows), size)]
    start = time.perf_counter()

    async def work() -> None:
        async with pool.acquire() as raw:
            while parts:
                part = parts.pop(0)
                async with raw.transaction():
                    places = [(c, car, at, s["currentLatitude"], s["currentLongitude"]) for c, car, at, s in part]
                    columns = ("customer_id", "car_id", "at", "latitude", "longitude")
                    await raw.copy_records_to_table("position", records=places, columns=columns)
                    odometers = [(c, car, at, s["odometer"]) for c, car, at, s in part]
                    await raw.copy_records_to_table("odometer", records=odometers, columns=(*columns[:3], "odometer"))

    await asyncio.gather(*(work() for _ in range(CLIENTS)))
    seconds = time.perf_counter() - start
    await pool.close()
    return len(rows) / seconds


def event(number: int) -> dict[str, Any]:
    return {
        "dateTime": "2026-05-01T10:00:00", "utcDateTime": NOW.isoformat(), "userId": 1,
        "carId": number % CARS + 1, "type": "CarOpened", "userAgent": "bench",
    }  # fmt: skip


def events() -> None:
    """Events one by one from 50 clients, and in batches from 8.

    A batch has 100 events.
    """
    with database("events") as dsn:
        headers = asyncio.run(set_up(dsn))
        with serving(dsn) as server:
            signed = headers | {"Authorization": f"Bearer {token(server.port, headers)}"}
            single = [http("PUT", "/v3/events", signed, event(n)) for n in range(100)]
            measure(server.pid, server.port, single, EVENTS // 8, 50)
            for clients in (1, 8, 50):
                result = measure(server.pid, server.port, single, EVENTS // 10 if clients == 1 else EVENTS, clients)
                assert set(result.statuses) == {201}
                row(
                    f"events per second, one per request, {clients} clients",
                    "1,000",
                    f"{result.rate:,.0f} (p99 {result.p99:.1f} ms)",
                )
            batches = [[event(n) | {"clientId": f"{k}-{n}"} for n in range(100)] for k in range(EVENTS // 20)]
            many = [http("POST", "/v3/ingest/events", headers, batch) for batch in batches]
            result = measure(server.pid, server.port, many, len(many), CLIENTS)
            row(f"events per second in batches of 100, {CLIENTS} clients", "", f"{result.rate * 100:,.0f}")
        last = asyncio.run(fetch(dsn, "select last_id from event_counter where customer_id = 1"))
        assert last == asyncio.run(fetch(dsn, "select count(*) from event"))


def mqtt() -> None:
    """Single samples by MQTT: waiting at a broker until all are committed, and while they are published."""
    mosquitto = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
    if mosquitto is None:
        row("samples per second by MQTT, one per message", "5,000", "not measured: Mosquitto is not installed")
        return
    port, count = free_port(), MESSAGES
    configuration = Path(tempfile.mkdtemp(prefix="keyrack-bench-mqtt-")) / "mosquitto.conf"
    configuration.write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\nmax_inflight_messages 1000\n"
    )
    broker = subprocess.Popen([mosquitto, "-c", configuration], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with database("mqtt") as dsn:
            asyncio.run(set_up(dsn))
            env = os.environ | {"KEYRACK_DATABASE_URL": dsn, "KEYRACK_MQTT_URL": f"mqtt://127.0.0.1:{port}"}
            command = [sys.executable, "-m", "keyrack", "ingest-mqtt", "--json"]
            for waiting in (True, False):
                asyncio.run(_mqtt(dsn, port, command, env, count, waiting))
    finally:
        broker.terminate()
        broker.wait()
        shutil.rmtree(configuration.parent)


async def _mqtt(dsn: str, port: int, command: list[str], env: dict[str, str], count: int, waiting: bool) -> None:
    start_at = NOW - timedelta(hours=20 if waiting else 10)
    messages = [(n % CARS + 1, sample(n % CARS + 1, start_at + timedelta(seconds=n // CARS))) for n in range(count)]

    async def publish() -> None:
        async with aiomqtt.Client("127.0.0.1", port, max_inflight_messages=500) as client:
            client.pending_calls_threshold = 1_000
            for first in range(0, count, 500):
                await asyncio.gather(
                    *(
                        client.publish(f"keyrack/1/S{car}/telemetry", json.dumps(body), qos=1, timeout=60)
                        for car, body in messages[first : first + 500]
                    )
                )

    def begin() -> subprocess.Popen[bytes]:
        process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        return process

    before = await fetch(dsn, STORED)
    process = await asyncio.to_thread(begin)
    if waiting:
        process.terminate()
        await asyncio.to_thread(process.wait)
        await publish()
        start = time.perf_counter()
        process = await asyncio.to_thread(begin)
    else:
        start = time.perf_counter()
        await publish()
    while await fetch(dsn, STORED) < before + count:  # noqa: ASYNC110 - another process's work
        await asyncio.sleep(0.05)
    words = "that waited at the broker, start of the process included" if waiting else "while they are published"
    row(
        f"samples per second by MQTT, one per message, {words}",
        "5,000",
        f"{count / (time.perf_counter() - start):,.0f}",
    )
    process.terminate()
    await asyncio.to_thread(process.wait)


FILL = """
insert into position select 1, c, t, 47 + random() * 8, 6 + random() * 9, null
from generate_series($1::timestamptz, $2::timestamptz - interval '1 second', $3::interval) t, generate_series(1, $4) c
"""
FILL_ODOMETER = """
insert into odometer select 1, c, t, 1000 + random() * 100000, null
from generate_series($1::timestamptz, $2::timestamptz - interval '1 second', $3::interval) t, generate_series(1, $4) c
"""


def location() -> None:
    """Print the table of searches in history, of benchmarks/results.md.

    The number of positions grows. They cover ten months. Cars and times of the requests are random.
    """
    table("location search", "`location/{searchDate}` (goal: p99 5 ms)", "Result")
    first = (NOW - timedelta(days=300)).replace(hour=0, minute=0, second=0)
    reference = 0.0
    for size in POSITIONS:
        with database("location") as dsn:
            headers = asyncio.run(set_up(dsn))
            began = time.perf_counter()
            count = asyncio.run(fill(dsn, first, size))
            took = time.perf_counter() - began
            bytes_each = asyncio.run(
                fetch(
                    dsn,
                    "select sum(pg_total_relation_size(inhrelid))::float8 / (select count(*) from position)"
                    " from pg_inherits where inhparent = 'position'::regclass",
                )
            )
            with serving(dsn) as server:
                signed = headers | {"Authorization": f"Bearer {token(server.port, headers)}"}
                requests: list[bytes] = []
                for _ in range(SEARCHES + SEARCHES // 5):
                    at = first + timedelta(seconds=random.randrange(300 * 86_400))
                    car = random.randint(1, CARS)
                    requests.append(http("GET", f"/v3/cars/{car}/location/{at:%Y-%m-%dT%H:%M:%SZ}", signed))
                measure(server.pid, server.port, requests[SEARCHES:], SEARCHES // 5, 2)
                result = measure(server.pid, server.port, requests[:SEARCHES], SEARCHES, 1)
            assert set(result.statuses) == {200}
            reference = reference or result.p99
            row(
                f"{count:,} positions",
                f"p50 {result.p50:.2f} ms, p99 {result.p99:.2f} ms ({result.p99 / reference:.2f} times the first), "
                f"{bytes_each:.0f} bytes per position with its index (filled in {took:.0f} s)",
            )


async def fill(dsn: str, first: datetime, size: int) -> int:
    raw = await asyncpg.connect(dsn)
    await raw.execute(
        "select make_history((now() - make_interval(days => 32 * n))::date) from generate_series(0, 11) n"
    )
    step = timedelta(days=300) / (size / CARS)
    for day in range(0, 300, 10):
        span = (first + timedelta(days=day), first + timedelta(days=day + 10))
        await raw.execute(FILL, *span, step, CARS, timeout=3600)
        await raw.execute(FILL_ODOMETER, *span, step * 10, CARS, timeout=3600)
    await raw.execute("vacuum analyze position, odometer", timeout=3600)
    count = await raw.fetchval("select count(*) from position", timeout=3600)
    await raw.close()
    return count


SIZES = """
select coalesce(sum(pg_total_relation_size(inhrelid)) filter (where inhparent = 'position'::regclass), 0),
  coalesce(sum(pg_total_relation_size(inhrelid)) filter (where inhparent = 'odometer'::regclass), 0),
  pg_total_relation_size('car_state')
from pg_inherits
"""
READINGS = """
select (select count(*) from position h, packed_times(h.at, h.times))
  + (select count(*) from car_state, packed_times(position_since, position_times))
"""


def standing() -> None:
    """Print the table of a stationary fleet, of benchmarks/results.md: bytes and searches.

    Each reading has a repeated position and odometer. About a minute lies between two readings of a car. A third of the
    clocks has whole seconds, a third milliseconds, and a third microseconds.
    """
    table("standing fleet", "What", "Goal", "Result")
    count = READINGS_STANDING
    with database("standing") as dsn:
        headers = asyncio.run(set_up(dsn))
        first = NOW - timedelta(minutes=count // CARS)
        took = asyncio.run(_stand(dsn, first, count))
        sizes = asyncio.run(_row(dsn, SIZES))
        stored = asyncio.run(fetch(dsn, READINGS))
        assert stored == count, stored
        each = [f"{size / count:.2f}" for size in sizes]
        row(
            f"size of a reading of parked cars, with position and odometer, {count:,}",
            "12 bytes",
            f"{sum(sizes) / count:.2f} bytes: position {each[0]}, odometer {each[1]}, newest state {each[2]}"
            f" ({count / took:,.0f} a second, one process, no HTTP)",
        )
        with serving(dsn) as server:
            signed = headers | {"Authorization": f"Bearer {token(server.port, headers)}"}
            requests: list[bytes] = []
            for _ in range(SEARCHES):
                at = first + (NOW - first) * random.random()
                path = f"/v3/cars/{random.randint(1, CARS)}/location/{at:%Y-%m-%dT%H:%M:%SZ}"
                requests.append(http("GET", path, signed))
            measure(server.pid, server.port, requests, SEARCHES // 5, 2)
            result = measure(server.pid, server.port, requests, SEARCHES // 2, 1)
        assert set(result.statuses) == {200}
        row(
            "`location/{searchDate}` among these readings",
            "p99 5 ms",
            f"p50 {result.p50:.2f} ms, p99 {result.p99:.2f} ms",
        )


async def _stand(dsn: str, first: datetime, count: int) -> float:
    """Ingest the readings as units deliver them. Returns the seconds.

    Each delivery has a hundred readings of one car.
    """
    db = await Database.connect(dsn, Settings())
    telemetry = Telemetry(GroupCommitter(db), Settings())
    rounds = [range(n, min(n + BATCH, count // CARS)) for n in range(0, count // CARS, BATCH)]
    jobs = iter([(minutes, car) for minutes in rounds for car in range(1, CARS + 1)])

    async def work() -> None:
        for minutes, car in jobs:
            lines = [_standing(car, first + timedelta(minutes=minute)) for minute in minutes]
            report = await telemetry.ingest(1, "\n".join(lines).encode())
            assert report.accepted == len(lines), report

    start = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(CLIENTS)))
    seconds = time.perf_counter() - start
    await db.close()
    return seconds


def _standing(car: int, at: datetime) -> str:
    late = timedelta(seconds=random.random() * 5)
    stamp = (at + late).isoformat(timespec=("seconds", "milliseconds", "microseconds")[car % 3])
    return (
        f'{{"serialNumber":"S{car}","carDataReadTime":"{stamp}","currentLatitude":{50 + car / 1000},'
        f'"currentLongitude":8.5,"odometer":{car}.5,"ignition":false}}'
    )


async def _row(dsn: str, sql: str) -> Any:
    raw = await asyncpg.connect(dsn)
    try:
        return await raw.fetchrow(sql)
    finally:
        await raw.close()


def main() -> None:
    """Print the table of samples and events of benchmarks/results.md."""
    table("telemetry rates", "What", "Goal", "Result")
    ingest()
    mqtt()
    events()
