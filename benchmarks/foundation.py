"""Reads and writes of the API, compared with their floor: 100 customers, 100,000 cars.

The floor (`benchmarks.floor`) is a bare ASGI function with asyncpg and the same SQL, without any check.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import socket
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

import asyncpg

from benchmarks import ACTOR, instructions
from benchmarks.estimates import ratio
from benchmarks.load import http, memory, typical
from benchmarks.processes import started
from benchmarks.sizes import sized
from benchmarks.slices import Slices, Variant, alternate_servers
from benchmarks.tables import note, row, table
from keyrack.auth.password_hashing import Passwords
from keyrack.core import secret_hashes
from keyrack.db import schema_version
from keyrack.db.embedded.server import EmbeddedServer

CUSTOMERS, CARS = 100, sized(100_000, tiny=1_400)
GROWTH = (1_000, sized(1_000_000, tiny=2_000))  # cars
START_TIMEOUT = 60.0  # seconds until a server responds
SETTLE_TIMEOUT = 300.0  # seconds until a worker has started the access history of all customers
UNSETTLED = """
select exists (select from customer c where not exists (
  select from custody_log l where l.customer_id = c.customer_id)) or exists (select from change_inbox)
"""
COUNT = sized(400, tiny=40)  # requests per slice
SMALL, LARGE = 1, 2  # the customers with 100 and with 1,000 cars
UNLIMITED = {"KEYRACK_ASSIGNMENT_RATE": "100000000", "KEYRACK_ASSIGNMENT_BURST": "100000000"}

LOAD = """
insert into customer (name) select 'Customer ' || n from generate_series(1, $1) n;
insert into person (email_address, first_name, last_name, type)
  select 'user' || n || '@example.org', 'First ' || n, 'Last ' || n, 'Anonymous' from generate_series(1, $1) n;
insert into customer_user (customer_id, user_id) select n, n from generate_series(1, $1) n;
insert into car (customer_id, name, vin, license_plate, brand, model)
  select case when n <= 100 then 1 when n <= 1100 then 2 else 3 + n % greatest($1 - 2, 1) end,
    'Car ' || n, 'WVWZZZ1KZ' || lpad(n::text, 8, '0'), 'B-KR ' || n, 'Volkswagen', 'Golf'
  from generate_series(1, $2) n;
insert into assignment (customer_id, car_id, user_id, starts_at, ends_at, lifetime, renewable_after)
  select 1, 1 + n % 100, 1, now() + n * interval '1 hour', null, 604800, 302400 from generate_series(1, 500) n;
"""


@dataclass(frozen=True)
class Running:
    """A measured server process."""

    pid: int
    port: int


async def load(dsn: str, customers: int, cars: int, more: str = "") -> dict[str, str]:
    """Fill a database with the rows of `LOAD` and `more`. Returns the headers of a manager of all its customers."""
    await schema_version.migrate(dsn)
    raw = await asyncpg.connect(dsn)
    for statement in (LOAD + more).split(";\n"):
        if statement.strip():
            await raw.execute(statement.replace("$1", str(customers)).replace("$2", str(cars)))
    key, password = secret_hashes.new_secret(), "bench"
    hashed = await Passwords().hash(password)
    await raw.execute("insert into api_key (name, hash) values ('bench', $1)", secret_hashes.digest(key))
    await raw.execute("insert into manager (username, password_hash) values ('bench', $1)", hashed)
    await raw.execute("insert into manager_customer (manager_id, customer_id) select 1, customer_id from customer")
    await raw.execute(
        "insert into manager_role (manager_id, customer_id, role) select 1, customer_id, 'Owner' from customer"
    )
    await raw.close()
    await settle(dsn)
    return {"vendor-API-Key": key}


async def settle(dsn: str) -> None:
    """Let a worker finish its one-time work on new rows before the measurement.

    It starts the access history of each customer. The changes for the inserted rows are dropped first, because
    numbering a million of them would take too long.
    """
    raw = await asyncpg.connect(dsn)
    await raw.execute("delete from change_inbox")
    env = {"KEYRACK_DATABASE_URL": dsn, "KEYRACK_LOG_LEVEL": "error"}
    end = time.monotonic() + SETTLE_TIMEOUT
    with started(["keyrack", "work"], environment=env):
        while await raw.fetchval(UNSETTLED):
            if time.monotonic() > end:
                raise TimeoutError("The worker has not begun the access history of all customers.")
            await asyncio.sleep(0.1)
    await raw.execute("vacuum analyze")
    await raw.execute("checkpoint")
    await raw.close()


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def running(command: list[str], port: int, path: str, env: dict[str, str]) -> Iterator[Running]:
    """A server process that responds at the path.

    Raises RuntimeError if the process ends, or does not respond in time.
    """
    with started(command, environment=env) as (process,):
        end = time.monotonic() + START_TIMEOUT
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2)
                break
            except OSError as error:
                if time.monotonic() > end or process.has_ended():
                    raise RuntimeError(f"{command} did not start: {error}") from error
                time.sleep(0.05)
        yield Running(process.pid, port)


def _execute(dsn: str, statement: str) -> None:
    async def execute() -> None:
        raw = await asyncpg.connect(dsn)
        try:
            await raw.execute(statement)
        finally:
            await raw.close()

    asyncio.run(execute())


def _name(dsn: str) -> str:
    """The quoted name of the database."""
    return f'"{unquote(urlsplit(dsn).path[1:])}"'


def _with_actor(dsn: str) -> str:
    """Give the sessions of the address an actor, so that their writes are recorded. Returns the address."""
    _execute(dsn, f"alter database {_name(dsn)} set keyrack.who = '{ACTOR}'")
    return dsn


@contextlib.contextmanager
def database(name: str, options: Mapping[str, str] | None = None) -> Iterator[str]:
    """A database on a separate server with these parameters, and with fsync as in production.

    With `BENCHMARK_DATABASE_URL` it is a copy of that database instead, on the same server.
    """
    if template := os.environ.get("BENCHMARK_DATABASE_URL"):
        copy = f"benchmark-{name}-{os.getpid()}"
        _execute(template, f'create database "{copy}" template {_name(template)} strategy file_copy')
        try:
            dsn = urlunsplit(urlsplit(template)._replace(path=f"/{copy}"))
            yield _with_actor(dsn)
        finally:
            _execute(template, f'drop database "{copy}" with (force)')
        return
    state = Path(tempfile.mkdtemp(prefix=f"keyrack-bench-{name}-"))
    state.chmod(0o711)
    try:
        with EmbeddedServer(state, options=options) as server:
            yield _with_actor(server.dsn)
    finally:
        shutil.rmtree(state, ignore_errors=True)


@contextlib.contextmanager
def serving(dsn: str, headers: dict[str, str]) -> Iterator[tuple[Running, dict[str, str]]]:
    """A server without a worker, and the headers of a signed-in manager."""
    port = free_port()
    command = ["keyrack", "serve", "--port", str(port), "--no-worker"]
    with running(command, port, "/health", {"KEYRACK_DATABASE_URL": dsn, **UNLIMITED}) as keyrack:
        yield keyrack, headers | {"Authorization": f"Bearer {token(port, headers)}"}


@contextlib.contextmanager
def both(dsn: str, headers: dict[str, str]) -> Iterator[tuple[Running, Running, dict[str, str]]]:
    """Keyrack and the floor in separate processes, and the headers of a signed-in manager."""
    port = free_port()
    command, env = ["benchmarks.floor", dsn, str(port)], {"KEYRACK_DATABASE_URL": dsn, **UNLIMITED}
    with serving(dsn, headers) as (keyrack, signed_in), running(command, port, "/1/cars/1", env) as floor:
        yield keyrack, floor, signed_in


def token(port: int, headers: dict[str, str]) -> str:
    form = b"grant_type=password&username=bench&password=bench"
    request = urllib.request.Request(f"http://127.0.0.1:{port}/oauth2/token", form, headers)
    return json.load(urllib.request.urlopen(request, timeout=10))["access_token"]


def cases(headers: dict[str, str]) -> list[tuple[str, list[bytes], list[bytes], int]]:
    """The cases: name, requests to Keyrack, the same requests to the floor, and their number per slice."""

    def small(path: str) -> bytes:
        return http("GET", "/v3" + path, headers | {"Customer-ID": str(SMALL)})

    def large(path: str) -> bytes:
        return http("GET", "/v3" + path, headers | {"Customer-ID": str(LARGE)})

    ids = range(1, 101)
    car = {"name": "New car"}
    assignments = [{"carId": id, "userId": 1, "start": "2026-01-01T08:00:00Z"} for id in ids]
    put = headers | {"Customer-ID": str(SMALL)}
    return [
        (
            "GET /cars/{carId}",
            [small(f"/cars/{id}") for id in ids],
            [http("GET", f"/1/cars/{id}", {}) for id in ids],
            COUNT,
        ),
        ("GET /cars, 100 rows", [small("/cars")], [http("GET", "/1/cars", {})], COUNT // 2),
        ("GET /cars, 1,000 rows", [large("/cars")], [http("GET", "/2/cars", {})], COUNT // 4),
        (
            "GET /cars/{carId}/assignments",
            [small(f"/cars/{id}/assignments") for id in ids],
            [http("GET", f"/1/cars/{id}/assignments", {}) for id in ids],
            COUNT,
        ),
        (
            "PUT /cars",
            [http("PUT", "/v3/cars", headers | {"Customer-ID": "3"}, car)],
            [http("PUT", "/3/cars", {}, car)],
            COUNT // 2,
        ),
        (
            "PUT /assignments",
            [http("PUT", "/v3/assignments", put, body) for body in assignments],
            [http("PUT", "/1/assignments", {}, body) for body in assignments],
            COUNT // 2,
        ),
    ]


def floor_table(name: str) -> None:
    """Begin a table whose rows are of `beside_floor`."""
    columns = "requests/s", "p50 ms", "p99 ms", "CPU us", "floor requests/s", "floor CPU us", "CPU ratio"
    counted = "instructions", "floor instructions", "instructions ratio"
    table(name, "", *columns, *(counted if instructions.is_countable() else ()))


def beside_floor(name: str, ours: Slices, floor: Slices) -> None:
    """Print a row of a table of `floor_table`: medians of the slices, and the ratio with its interval."""
    one, other = typical(ours.results), typical(floor.results)
    cells = [
        f"{one.rate:,.0f}", f"{one.p50:.2f}", f"{one.p99:.2f}", f"{one.cpu:.0f}", f"{other.rate:,.0f}",
        f"{other.cpu:.0f}", ratio(ours.each("cpu"), floor.each("cpu")).cell(),
    ]  # fmt: skip
    if ours.instructions is not None and floor.instructions is not None:
        counted = ours.instructions, floor.instructions
        cells += [*(f"{number:,.0f}" for number in counted), f"**{counted[0] / counted[1]:.3f}**"]
    row(name, *cells)


def compare() -> None:
    """Print the table of reads and writes beside their floor, and the memory afterwards."""
    with database("foundation") as dsn:
        headers = asyncio.run(load(dsn, CUSTOMERS, CARS))
        with both(dsn, headers) as (keyrack, floor, signed_in):
            floor_table("foundation reads-and-writes")
            for name, ours, theirs, count in cases(signed_in):
                beside_floor(name, *alternate_servers(Variant(keyrack, ours), Variant(floor, theirs), count=count))
            ours, theirs = memory(keyrack.pid), memory(floor.pid)
            note(f"Memory after the run: {ours} (floor {theirs}).")


@contextlib.contextmanager
def growing(cars: int) -> Iterator[Variant]:
    """A server with this number of cars, and point reads."""
    with database(f"growth-{cars}") as dsn:
        headers = asyncio.run(load(dsn, 3, cars))
        with serving(dsn, headers) as (keyrack, signed_in):
            ids = range(1, 101)
            yield Variant(keyrack, [http("GET", f"/v3/cars/{id}", signed_in | {"Customer-ID": "1"}) for id in ids])


def growth() -> None:
    """Print the table of the same point read with 1,000 and with 1,000,000 cars."""
    few_cars, many_cars = GROWTH
    with growing(few_cars) as few_variant, growing(many_cars) as many_variant:
        few, many = alternate_servers(few_variant, many_variant, count=COUNT)
    table("foundation growth", "GET /cars/{carId}", "p50 ms", "CPU us")
    for cars, slices in ((few_cars, few), (many_cars, many)):
        medians = typical(slices.results)
        row(f"{cars:,} cars", f"{medians.p50:.2f}", f"{medians.cpu:.0f}")
    row("ratio", *(ratio(many.each(figure), few.each(figure)).cell() for figure in ("p50", "cpu")))


def main() -> None:
    """Print the tables of benchmarks/results.md, "Reads and writes"."""
    compare()
    growth()
