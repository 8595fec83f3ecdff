"""Random histories of several clients, compared with a model of each customer's order.

`make test-faults` runs 1,000 histories, the suite fewer (`KEYRACK_HISTORIES`).
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import asyncpg
import pytest

from keyrack.auth.password_hashing import Passwords
from keyrack.core import secret_hashes
from tests.assignments import model
from tests.assignments.histories import Client, Fleet, check_order
from tests.support.people import PASSWORD
from tests.support.servers import Process, free_port, listening, migrated_database

pytestmark = pytest.mark.cluster

HISTORIES = int(os.environ.get("KEYRACK_HISTORIES", "80"))
FLEETS = 8  # fleets whose histories run at the same time
STEPS = 12  # requests of one history, over all its clients
WORKERS = 2
BURST = 120  # operations that one client requests before a worker applies any
SEED = int(os.environ.get("KEYRACK_SEED", random.randrange(10**6)))

ENVIRONMENT = {
    "KEYRACK_WORKER_POLL": "0.5",
    "KEYRACK_ASSIGNMENT_RATE": "1000000",
    "KEYRACK_ASSIGNMENT_BURST": "100000",
    "KEYRACK_LOG_LEVEL": "error",
}


@pytest.fixture
def own(database_server: str) -> Iterator[str]:
    """A database of its own, with the log of changes for the model."""
    with migrated_database(database_server) as dsn:
        yield dsn


class Place:
    """A server with its database and a manager of every fleet; workers start on request."""

    def __init__(self, dsn: str, http: aiohttp.ClientSession, sql: Any) -> None:
        self.dsn, self.http, self.sql = dsn, http, sql
        self.env = ENVIRONMENT | {"KEYRACK_DATABASE_URL": dsn}
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/v3"
        self.processes = [Process("serve", "--port", str(self.port), "--no-worker", env=self.env)]

    async def prepare(self) -> None:
        await self.sql.execute(model.LOG)
        key = secret_hashes.new_secret()
        await self.sql.execute("insert into api_key (name, hash) values ('tests', $1)", secret_hashes.digest(key))
        self.manager = await self.sql.fetchval(
            "insert into manager (username, password_hash) values ('one', $1) returning manager_id",
            await Passwords().hash(PASSWORD),
        )
        await listening(self.port)
        self.headers = {"vendor-API-Key": key}
        grant = {"username": "one", "password": PASSWORD, "grant_type": "password"}
        async with self.http.post(self.url + "/oauth2/token", data=grant, headers=self.headers) as answer:
            self.headers["Authorization"] = "Bearer " + (await answer.json())["access_token"]

    async def fleets(self, count: int) -> list[Fleet]:
        """New fleets that the server already knows."""
        made = [await Fleet.make(self.sql, self.manager) for _ in range(count)]
        while True:
            async with self.http.get(self.url + "/customers?$select=id", headers=self.headers) as answer:
                known = {int(row["id"]) for row in await answer.json()}
            if {fleet.customer for fleet in made} <= known:
                client = self.client(made[-1], random.Random())
                if (await client.call("GET", "/cars"))[0] == 200:
                    return made
            await asyncio.sleep(0.05)

    def client(self, fleet: Fleet, some: random.Random) -> Client:
        return Client(self.http, self.url, self.headers, fleet, some, self.sql)

    def start_workers(self) -> None:
        self.processes += [Process("work", env=self.env) for _ in range(WORKERS)]

    async def settled(self, customer: int) -> None:
        """Wait until nothing of the customer is pending."""
        async with asyncio.timeout(60):
            while await self.sql.fetchval(PENDING, customer):  # noqa: ASYNC110 - another process's work
                await asyncio.sleep(0.01)

    def stop(self) -> None:
        for process in self.processes:
            process.stop()


PENDING = "select exists (select from operation where customer_id = $1 and state = 'Pending')"


@asynccontextmanager
async def place(dsn: str) -> AsyncGenerator[Place]:
    async with aiohttp.ClientSession() as http, asyncpg.create_pool(dsn, min_size=1, max_size=10) as sql:
        found = Place(dsn, http, sql)
        try:
            await found.prepare()
            yield found
        finally:
            found.stop()


def test_random_histories_end_as_the_model_says(own: str) -> None:
    print(f"seed {SEED}")
    asyncio.run(random_histories(own))


async def random_histories(dsn: str) -> None:
    answers: Counter[str] = Counter()
    async with place(dsn) as at:
        at.start_workers()
        fleets = await at.fleets(FLEETS)

        async def histories(fleet: Fleet, place: int) -> None:
            some = random.Random(SEED + place)
            for number in range(HISTORIES // FLEETS):
                crowd = 1 if number % 2 else some.choice((2, 3, 4))
                clients = [at.client(fleet, random.Random(some.random())) for _ in range(crowd)]

                async def live(client: Client, steps: int) -> None:
                    for _ in range(steps):
                        await client.act()

                await asyncio.gather(*(live(client, STEPS // crowd) for client in clients))
                await at.settled(fleet.customer)
                for client in clients:
                    await check_order(at.sql, fleet, client)
                    answers.update(client.answers)

        await asyncio.gather(*(histories(fleet, n) for n, fleet in enumerate(fleets)))
        for fleet in fleets:
            await model.check(at.sql, fleet.customer, fleet.seen)
        states = await at.sql.fetch("select cause, state, count(*) from operation group by 1, 2 order by 1, 2")
    print(f"{HISTORIES} histories: {dict(sorted(answers.items()))}; {[tuple(row) for row in states]}")
    assert not [answer for answer in answers if answer.endswith(" 500")]
    # Every cause of an end occurred
    assert {row["cause"] for row in states} == {"Request", "Uninstallation", "CarDeleted", "UserRemoved"}
    assert any(fleet.seen for fleet in fleets)


def test_a_backlog_is_applied_in_the_order_in_which_it_was_accepted(own: str) -> None:
    asyncio.run(backlog(own))


async def backlog(dsn: str) -> None:
    """More operations than one transaction takes, requested without a worker.

    Clients of several customers send them, one after another and at the same time.
    """
    async with place(dsn) as at:
        fleets = await at.fleets(3)
        clients = [at.client(fleet, random.Random(SEED)) for fleet in fleets for _ in range(2)]

        async def ask(client: Client) -> None:
            car, user = client.fleet.cars[0], client.fleet.users[0]
            await client.ask("PUT", "/assignments", {"carId": car, "userId": user, **client.times()})

        await asyncio.gather(*(ask(client) for client in clients))
        at.start_workers()
        for fleet in fleets:
            await at.settled(fleet.customer)
        for process in at.processes[1:]:
            process.stop()

        async def change(client: Client) -> None:
            id = await client.assignment()
            for step in range(BURST):
                value = [{"op": "replace", "path": "/lifetime", "value": 700_000 + (step * 7919) % 10_000}]
                await client.ask("PATCH", f"/assignments/{id}", value)

        await asyncio.gather(*(change(client) for client in clients))
        at.start_workers()
        for fleet in fleets:
            await at.settled(fleet.customer)
            await model.check(at.sql, fleet.customer)
        for client in clients:
            assert len(client.steps) == BURST + 1
            await check_order(at.sql, client.fleet, client)
