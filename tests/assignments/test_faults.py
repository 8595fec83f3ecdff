"""The fault suite: killed workers, restarts of the database, failing receivers, and no lost outcome.

One customer's assignments go through all steps from creation to end, alone or many together in batches. Meanwhile
clients of other customers send random requests. Every outcome must be delivered, once and in order, and each fleet must
end as the model of its history. Readers of the change log, by polling and by stream, use a server that is killed as
well. Each must see every number, in order.

`make test-faults` runs 10,000 operations beside 200 histories. The suite runs a few hundred (`KEYRACK_FAULTS`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
import time
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import asyncpg
import pytest
from aiohttp import web

from keyrack.auth.password_hashing import Passwords
from keyrack.core import secret_hashes
from keyrack.db import schema_version
from keyrack.db.embedded.server import EmbeddedServer
from tests.assignments import histories, model
from tests.changelog.feed_readers import Listener, Poller, arrived, reading
from tests.support.people import JOIN, PASSWORD
from tests.support.servers import TESTS, free_port, reachable_directory

pytestmark = pytest.mark.cluster

OPERATIONS = int(os.environ.get("KEYRACK_FAULTS", "400"))
FLEETS = 4  # fleets whose clients send random requests
HISTORIES = max(FLEETS, OPERATIONS // 50)  # over all fleets
STEPS = 12  # requests of a history, by two clients
RESTARTS = 3 if OPERATIONS >= 5_000 else 1
CARS = 100 if OPERATIONS >= 5_000 else 20
WORKERS = 3
KILL_EVERY = 100 if OPERATIONS >= 5_000 else 30  # received outcomes between two kills
BAD = 0.2  # share of the receiver's answers that fail
STEPS_OF_A_LIFE = 5  # operations on each assignment: one creates, three change, one ends it
TOGETHER = 10  # assignments whose steps are sent in batches; as many others are sent alone
START = "2026-01-01T08:00:00Z"
FINAL_WAIT = 120.0
# Errors of a connection whose server has stopped, also between two steps of asyncpg
GONE = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)

ENVIRONMENT = {
    "KEYRACK_WEBHOOK_ALLOWED_NETWORKS": "127.0.0.0/8",
    "KEYRACK_WEBHOOK_TIMEOUT": "1",
    "KEYRACK_WEBHOOK_RETRY_FIRST": "0.2",
    "KEYRACK_WEBHOOK_RETRY_MAX": "2",
    "KEYRACK_WORKER_POLL": "0.5",
    "KEYRACK_ASSIGNMENT_RATE": "1000000",
    "KEYRACK_ASSIGNMENT_BURST": "100000",
    "KEYRACK_LOG_LEVEL": "error",
}


@dataclass
class Told:
    """Requests that the receiver got, in the order of arrival."""

    first: dict[str, dict[str, Any]] = field(default_factory=dict)  # operation -> its first payload
    requests: int = 0
    faults: Counter[str] = field(default_factory=Counter)

    async def take(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.requests += 1
        fault = random.choice(("500", "silence", "cut", "cut after")) if random.random() < BAD else None
        if fault:
            self.faults[fault] += 1
        if fault != "cut":  # the others fail after the outcome was stored
            self.first.setdefault(request.headers["webhook-id"], json.loads(body))
        if fault == "500":
            return web.Response(status=500)
        if fault == "silence":
            await asyncio.sleep(1.5)
        if fault in ("cut", "cut after") and request.transport is not None:
            reply = web.StreamResponse(headers={"Content-Length": "1000"})
            if fault == "cut after":  # the status decides, so it must not be sent unless the outcome was stored
                with contextlib.suppress(ConnectionError):
                    await reply.prepare(request)
                    await reply.write(b"half")
            request.transport.abort()
            return reply
        return web.Response()


class Fleet:
    """A customer with cars, boxes and a user, and its manager as a client."""

    def __init__(self, url: str) -> None:
        self.url = url + "/v3"
        self.repeats = 0
        self.operations: list[str] = []

    async def prepare(self, dsn: str, hook: str) -> None:
        sql = await asyncpg.connect(dsn, server_settings={"keyrack.who": TESTS})
        await sql.execute(model.LOG)
        key = secret_hashes.new_secret()
        await sql.execute("insert into customer (customer_id, name) values (1, 'One')")
        await sql.execute("insert into api_key (name, hash) values ('tests', $1)", secret_hashes.digest(key))
        await sql.execute(
            "insert into manager (manager_id, username, password_hash) values (1, 'one', $1)",
            await Passwords().hash(PASSWORD),
        )
        await sql.execute(JOIN, "one", 1, "Owner")
        await sql.execute("insert into person (user_id, email_address, type) values (1, 'a@example.org', 'Anonymous')")
        await sql.execute("insert into customer_user (customer_id, user_id) values (1, 1)")
        await sql.execute(
            "insert into car (customer_id, car_id, name) select 1, n, n from generate_series(1, $1) n", CARS
        )
        await sql.execute(
            "insert into product (customer_id, product_id, unique_id, serial_number, sap_number, kind, car_id)"
            " select 1, car_id, car_id, car_id, car_id, 'Box', car_id from car"
        )
        await sql.execute(
            "insert into service (customer_id, service_id, name, product_id) select 1, car_id, car_id, car_id from car"
        )
        await sql.execute("select setval(pg_get_serial_sequence('customer', 'customer_id'), 1)")
        for table, column in (
            ("person", "user_id"),
            ("car", "car_id"),
            ("product", "product_id"),
            ("service", "service_id"),
        ):
            await sql.execute(f"select setval(pg_get_serial_sequence('{table}', '{column}'), 1000)")
        self.random = [await histories.Fleet.make(sql, 1) for _ in range(FLEETS)]
        await sql.close()
        self.headers = {"vendor-API-Key": key}
        self.http = aiohttp.ClientSession()
        grant = {"username": "one", "password": PASSWORD, "grant_type": "password"}
        async with self.http.post(self.url + "/oauth2/token", data=grant, headers=self.headers) as answer:
            self.headers["Authorization"] = "Bearer " + (await answer.json())["access_token"]
        for customer in (1, *(fleet.customer for fleet in self.random)):
            await self.call("PUT", "/webhooks", {"url": hook}, 201, customer)

    async def call(self, method: str, path: str, body: Any = None, wanted: int = 204, customer: int = 1) -> Any:
        """Send until the expected answer arrives.

        Every attempt has the same Idempotency-Key, so the effect happens once.
        """
        headers = self.headers | {"Idempotency-Key": str(uuid.uuid4()), "Customer-ID": str(customer)}
        while True:
            with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                timeout = aiohttp.ClientTimeout(total=10)
                async with self.http.request(
                    method, self.url + path, json=body, headers=headers, timeout=timeout
                ) as answer:
                    text = await answer.text()
                    if answer.status == wanted:
                        return answer
                    assert answer.status in (409, 503), (answer.status, text)
            self.repeats += 1
            await asyncio.sleep(random.uniform(0.05, 0.3))

    def as_of(self, customer: int) -> dict[str, str]:
        return self.headers | {"Customer-ID": str(customer)}

    async def ask(self, method: str, path: str, body: Any = None) -> str:
        answer = await self.call(method, path, body)
        self.operations.append(answer.headers["Operation-Id"])
        return answer.headers["Operation-Id"]

    async def ask_at_once(self, items: list[Any]) -> list[str]:
        """The operations of a batch."""
        answer = await self.call("POST", "/batch", {"kind": "assignments", "atomic": True, "items": items}, 200)
        told = [result["operationId"] for result in (await answer.json())["results"]]
        self.operations += told
        return told


class Patient:
    """Queries to a database that may be unavailable for a while."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection: Any = None
        self._lock = asyncio.Lock()

    async def fetch(self, sql: str, *args: object) -> Any:
        async with self._lock:
            while True:
                try:
                    if self._connection is None or self._connection.is_closed():
                        self._connection = await asyncpg.connect(self._dsn, timeout=5)
                    return await self._connection.fetch(sql, *args)
                except (OSError, *GONE, TimeoutError):
                    self._connection = None
                    await asyncio.sleep(0.2)

    async def fetchval(self, sql: str, *args: object) -> Any:
        rows = await self.fetch(sql, *args)
        return rows[0][0] if rows else None


class Faults:
    """Kills workers, and restarts the database."""

    def __init__(self, dsn: str, state: Path) -> None:
        self._env = os.environ | ENVIRONMENT | {"KEYRACK_DATABASE_URL": dsn}
        self._state = state
        self.port = free_port()  # of the server that readers of changes use
        self.workers: list[asyncio.subprocess.Process] = []
        self.reader: asyncio.subprocess.Process | None = None
        self.kills = self.reader_kills = 0
        self.restarts = 0

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "keyrack", *arguments, env=self._env, stdout=asyncio.subprocess.DEVNULL
        )

    async def keep_killing(self, told: Told) -> None:
        """Kill a worker after every `KILL_EVERY` outcomes.

        The number of outcomes decides, not time, so that the load of the machine does not change what is tested.
        """
        self.workers = [await self.start("work") for _ in range(WORKERS)]
        due = KILL_EVERY
        while True:
            if len(told.first) >= due:
                with contextlib.suppress(ProcessLookupError):
                    random.choice(self.workers).kill()
                    self.kills += 1
                due += KILL_EVERY
                if self.reader is not None and self.kills % 2:
                    with contextlib.suppress(ProcessLookupError):
                        self.reader.kill()
                        self.reader_kills += 1
            if self.reader is None or self.reader.returncode is not None:
                self.reader = await self.start("serve", "--port", str(self.port), "--no-worker")
            for place, worker in enumerate(self.workers):  # a worker that found no database at startup has exited
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(worker.wait(), 0.05)
                    self.workers[place] = await self.start("work")

    def restart_database(self) -> None:
        """Stop the database in one of three ways; its supervisor starts it again."""
        (file,) = self._state.rglob("postmaster.pid")
        how = (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL)[self.restarts % 3]
        os.kill(int(file.read_text().split()[0]), how)
        self.restarts += 1

    async def end(self) -> None:
        for worker in (*self.workers, *([self.reader] if self.reader else [])):
            if worker.returncode is None:
                worker.kill()
            await worker.wait()


@pytest.fixture
def database() -> Iterator[tuple[str, Path]]:
    """A separate server that can be restarted. Committed data must survive, so commits are written."""
    with reachable_directory() as state, EmbeddedServer(state, options={"fsync": "off"}) as server:
        asyncio.run(schema_version.migrate(server.dsn))
        yield server.dsn, state


@contextlib.asynccontextmanager
async def receiving(told: Told) -> AsyncGenerator[str]:
    app = web.Application()
    app.router.add_post("/hook", told.take)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield f"http://127.0.0.1:{port}/hook"
    finally:
        await runner.cleanup()


async def left(dsn: str) -> dict[str, int]:
    """The work that remains. Waits while the database is unavailable."""
    tables = {
        "pending operations": "operation where state = 'Pending'",
        "waiting deliveries": "delivery where state = 'Waiting'",
        "lanes of deliveries": "delivery_lane",
        "changes without a number": "change_inbox",
    }
    while True:
        try:
            sql = await asyncpg.connect(dsn, timeout=5)
            try:
                return {name: await sql.fetchval(f"select count(*) from {what}") for name, what in tables.items()}
            finally:
                await sql.close()
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError):
            await asyncio.sleep(0.2)


async def all_done(dsn: str, seconds: float) -> dict[str, int]:
    end = time.monotonic() + seconds
    while any((rest := await left(dsn)).values()) and time.monotonic() < end:  # noqa: ASYNC110 - another process's work
        await asyncio.sleep(0.3)
    return rest


async def scenario(dsn: str, state: Path) -> None:
    told, faults, begin = Told(), Faults(dsn, state), time.monotonic()
    port = free_port()
    server = await faults.start("serve", "--port", str(port), "--no-worker")
    fleet = Fleet(f"http://127.0.0.1:{port}")
    try:
        async with receiving(told) as hook, contextlib.AsyncExitStack() as stack:
            while True:
                with contextlib.suppress(OSError):
                    (await asyncio.open_connection("127.0.0.1", port))[1].close()
                    break
                await asyncio.sleep(0.1)
            await fleet.prepare(dsn, hook)
            killing = asyncio.create_task(faults.keep_killing(told))
            readers = {
                customer: [kind(lambda: f"http://127.0.0.1:{faults.port}/v3", partial(fleet.as_of, customer))
                           for kind in (Poller, Listener)]
                for customer in (1, *(some.customer for some in fleet.random))
            }  # fmt: skip
            everybody = [reader for some in readers.values() for reader in some]
            await stack.enter_async_context(reading(*everybody))
            assignments = OPERATIONS // STEPS_OF_A_LIFE
            restarts = [assignments * (n + 1) // (RESTARTS + 1) for n in range(RESTARTS)]
            slots = asyncio.Semaphore(40)

            async def made(operation: str) -> int:
                """Wait for a creation; return the id of the assignment."""
                while True:
                    row = await (await fleet.call("GET", f"/operations/{operation}", wanted=200)).json()
                    if row["state"] != "Pending":
                        assert row["state"] == "Succeeded", row
                        return row["assignmentId"]
                    await asyncio.sleep(0.1)

            async def lives(numbers: Sequence[int]) -> None:
                """Several assignments from creation to end, each step in one batch."""
                async with slots:
                    if set(numbers) & set(restarts):
                        faults.restart_database()
                    body = {"userId": 1, "start": START, "lifetime": 700_000}
                    new = [{"op": "create", "body": body | {"carId": number % CARS + 1}} for number in numbers]
                    ids = [await made(operation) for operation in await fleet.ask_at_once(new)]
                    for step in range(1, STEPS_OF_A_LIFE - 1):
                        patch = [{"op": "replace", "path": "/lifetime", "value": 700_000 + step}]
                        await fleet.ask_at_once([{"op": "change", "id": id, "patch": patch} for id in ids])
                    await fleet.ask_at_once([{"op": "end", "id": id} for id in ids])

            async def life(number: int) -> None:
                """One assignment from creation to end."""
                async with slots:
                    if number in restarts:
                        faults.restart_database()
                    body = {"carId": number % CARS + 1, "userId": 1, "start": START, "lifetime": 700_000}
                    at = f"/assignments/{await made(await fleet.ask('PUT', '/assignments', body))}"
                    for step in range(1, STEPS_OF_A_LIFE - 1):
                        value = 700_000 + step
                        await fleet.ask("PATCH", at, [{"op": "replace", "path": "/lifetime", "value": value}])
                    await fleet.ask("DELETE", at)

            clients: list[histories.Client] = []
            sql = Patient(dsn)

            async def act(some: histories.Fleet) -> None:
                """The histories of one fleet, one after another."""
                pair = [
                    histories.Client(fleet.http, fleet.url, fleet.headers, some, random.Random(), sql, sure=True)
                    for _ in range(2)
                ]
                clients.extend(pair)

                async def live(client: histories.Client) -> None:
                    for _ in range(HISTORIES // FLEETS * STEPS // 2):
                        await client.act()

                await asyncio.gather(*(live(client) for client in pair))

            async with asyncio.TaskGroup() as group:
                for some in fleet.random:
                    group.create_task(act(some))
                for number in range(0, assignments, TOGETHER):
                    together = range(number, min(number + TOGETHER, assignments))
                    if number // TOGETHER % 2:
                        group.create_task(lives(together))
                        continue
                    for one in together:
                        group.create_task(life(one))
            asked = time.monotonic() - begin
            await all_done(dsn, FINAL_WAIT)
            rows = await sql.fetch("select customer_id, last_id from change_log")
            newest = {id(one): row["last_id"] for row in rows for one in readers.get(row["customer_id"], ())}
            await arrived(everybody, lambda reader: newest[id(reader)])
            killing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await killing
            rest = await all_done(dsn, 30)
    finally:
        await faults.end()
        server.kill()
        await server.wait()
        if hasattr(fleet, "http"):
            await fleet.http.close()
    await judge(dsn, fleet, clients, told, rest, faults, asked, time.monotonic() - begin)
    print(
        f"{len(everybody)} readers of changes, whose server was killed {faults.reader_kills} times: numbers seen "
        f"{sum(reader.seen for reader in everybody)}, repeats {sum(reader.repeats for reader in everybody)}, "
        f"connections that broke {sum(reader.breaks for reader in everybody)}"
    )
    assert not [(reader.wrong, reader.gone) for reader in everybody if reader.wrong or reader.gone]
    assert all(reader.seen >= newest[id(reader)] for reader in everybody), "each saw every number"


async def judge(
    dsn: str,
    fleet: Fleet,
    clients: list[histories.Client],
    told: Told,
    rest: dict[str, int],
    faults: Faults,
    asked: float,
    took: float,
) -> None:
    sql = await asyncpg.connect(dsn)
    try:
        rows = await sql.fetch(
            "select customer_id, operation_id::text as id, state, assignment_id, applied, cause from operation"
        )
        deliveries = await sql.fetch("select message_id::text as id, state from delivery")
        assignments = await sql.fetchval("select count(*) from assignment where customer_id = 1")
        for customer in (1, *(some.customer for some in fleet.random)):
            await model.check(sql, customer)
        for client in clients:
            await histories.check_order(sql, client.fleet, client)
    finally:
        await sql.close()
    known = {row["id"] for row in rows}
    applied = {row["id"]: row["applied"] for row in rows}
    order: dict[tuple[int, int], list[int]] = {}
    for id, payload in told.first.items():
        if payload["assignmentId"] is not None:
            order.setdefault((payload["customerId"], payload["assignmentId"]), []).append(applied[id])
    broken = [lane for lane, numbers in order.items() if numbers != sorted(numbers)]
    steps: dict[int, list[tuple[str, int]]] = {}
    for payload in told.first.values():
        if payload["customerId"] == 1:
            steps.setdefault(payload["assignmentId"], []).append((payload["type"], payload["lifetime"]))
    expected = [
        ("assignment.created", 700_000),
        *[("assignment.updated", 700_000 + step) for step in range(1, STEPS_OF_A_LIFE - 1)],
        ("assignment.deleted", 700_000 + STEPS_OF_A_LIFE - 2),
    ]
    broken += [(1, id) for id, lived in steps.items() if lived != expected]
    answers = sum((client.answers for client in clients), Counter[str]())
    print(
        f"\n{len(fleet.operations)} operations asked for in {asked:.1f} s, all told in {took:.1f} s; requests sent "
        f"again {fleet.repeats}; workers killed {faults.kills}; database restarted {faults.restarts}\n"
        f"beside them {HISTORIES} histories: {dict(sorted(answers.items()))}\n"
        f"operations in the database {len(rows)}, {dict(Counter((row['cause'], row['state']) for row in rows))}; "
        f"deliveries {dict(Counter(row['state'] for row in deliveries))}\n"
        f"received {told.requests}, of {len(told.first)} outcomes; repeats {told.requests - len(told.first)}; "
        f"failed on purpose {dict(told.faults)}\n"
        f"missing {len(known - set(told.first))}; order broken {len(broken)}; left behind {rest}, "
        f"assignments {assignments}"
    )
    own = [row for row in rows if row["customer_id"] == 1]
    asked_for = {step.operation for client in clients for step in client.steps if step.operation is not None}
    assert not any(rest.values())
    assert len(fleet.operations) == len(set(fleet.operations)) == OPERATIONS // STEPS_OF_A_LIFE * STEPS_OF_A_LIFE
    assert {row["id"] for row in own} == set(fleet.operations), "one operation for each request, however often sent"
    assert {row["id"] for row in rows if row["cause"] == "Request"} == set(fleet.operations) | asked_for
    assert all(row["state"] == "Succeeded" for row in own)
    assert sorted(row["id"] for row in deliveries) == sorted(known), "one outcome for each operation"
    assert all(row["state"] == "Delivered" for row in deliveries)
    assert set(told.first) == known, "each outcome was received"
    assert not broken
    assert assignments == 0


def test_no_outcome_is_lost(database: tuple[str, Path]) -> None:
    asyncio.run(scenario(*database))
