"""Random histories: clients that change assignments, boxes, cars and users of one customer's fleet."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tests.assignments import model

CARS, USERS = 4, 3  # in a new fleet; each car has its box

FLEET = """
with made as (insert into customer (name) values ('history') returning customer_id),
manager as (
  insert into manager_customer (customer_id, manager_id) select customer_id, $1 from made returning customer_id
), owner as (insert into manager_role (customer_id, manager_id, role) select customer_id, $1, 'Owner' from manager)
select customer_id from made
"""
FILL = (
    """
    with p as (
      insert into person (email_address, type)
      select 'history' || $1::integer || '.' || n || '@example.org', 'Anonymous' from generate_series(1, $2::integer) n
      returning user_id
    )
    insert into customer_user (customer_id, user_id) select $1::integer, user_id from p
    """,
    "insert into car (customer_id, name) select $1::integer, n from generate_series(1, $2::integer) n",
    """
    insert into product (customer_id, unique_id, serial_number, sap_number, kind, car_id)
    select customer_id, car_id, car_id, car_id, 'Box', car_id from car
    where customer_id = $1::integer and $2::integer is not null
    """,
    """
    insert into service (customer_id, name, product_id)
    select customer_id, product_id, product_id from product where customer_id = $1::integer and $2::integer is not null
    """,
)


@dataclass
class Fleet:
    """A customer's fleet, and what the clients of a history have seen of it."""

    customer: int
    cars: list[int]
    users: list[int]
    boxes: dict[int, int]  # box -> its service
    # Operation -> the assignment that its client had seen, for a request with `If-Match`
    seen: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    async def make(cls, sql: Any, manager: int) -> Fleet:
        customer = await sql.fetchval(FLEET, manager)
        for statement, count in zip(FILL, (USERS, CARS, 0, 0), strict=True):
            await sql.execute(statement, customer, count)
        return cls(
            customer,
            [row[0] for row in await sql.fetch("select car_id from car where customer_id = $1", customer)],
            [row[0] for row in await sql.fetch("select user_id from customer_user where customer_id = $1", customer)],
            {
                row["product_id"]: row["service_id"]
                for row in await sql.fetch(
                    "select product_id, service_id from service where customer_id = $1", customer
                )
            },
        )


@dataclass(frozen=True)
class Step:
    """An accepted request: an operation, or a change of the fleet between two moments."""

    operation: str | None = None
    ground: tuple[str, int] | None = None  # what changed, and the id
    sent: float = 0.0
    answered: float = 0.0


@dataclass
class Client:
    """A client that waits for each answer before its next request."""

    http: aiohttp.ClientSession
    url: str
    headers: Mapping[str, str]
    fleet: Fleet
    random: random.Random
    sql: Any
    sure: bool = False  # repeats a request with its Idempotency-Key until it is answered
    steps: list[Step] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)

    async def call(
        self, method: str, path: str, body: Any = None, tag: str | None = None
    ) -> tuple[int, Mapping[str, str], Any]:
        headers = dict(self.headers) | {"Customer-ID": str(self.fleet.customer)}
        if tag is not None:
            headers["If-Match"] = tag
        if self.sure:
            headers["Idempotency-Key"] = str(uuid.uuid4())
        while True:
            try:
                timeout = aiohttp.ClientTimeout(total=10)
                async with self.http.request(
                    method, self.url + path, json=body, headers=headers, timeout=timeout
                ) as answer:
                    text = await answer.text()
                    assert answer.status < 500 or answer.status == 503, (method, path, body, answer.status, text)
                    in_flight = answer.status == 409 and "still being worked on" in text
                    if not (self.sure and (answer.status == 503 or in_flight)):
                        self.answers[f"{method} {path.split('/')[1]} {answer.status}"] += 1
                        return (
                            answer.status,
                            answer.headers,
                            await answer.json() if answer.status in (200, 201) else None,
                        )
            except (aiohttp.ClientError, TimeoutError):
                if not self.sure:
                    raise
            await asyncio.sleep(self.random.uniform(0.02, 0.2))

    async def ask(self, method: str, path: str, body: Any = None) -> None:
        """Request an operation."""
        status, headers, _ = await self.call(method, path, body)
        if status == 204:
            self.steps.append(Step(operation=headers["Operation-Id"]))

    async def ask_about(self, method: str, id: int, body: Any = None) -> None:
        """Request a change of an assignment, half of the time with `If-Match`."""
        path = f"/assignments/{id}"
        if self.random.random() < 0.5:
            await self.ask(method, path, body)
            return
        status, headers, seen = await self.call("GET", path)
        if status == 200:
            status, told, _ = await self.call(method, path, body, headers["ETag"])
            if status == 204:
                self.fleet.seen[told["Operation-Id"]] = seen
                self.steps.append(Step(operation=told["Operation-Id"]))

    async def change(self, what: str, of: int, method: str, path: str, body: Any = None) -> bool:
        """Change the fleet; return whether it succeeded."""
        sent = time.time()
        status, _, _ = await self.call(method, path, body)
        if status == 204:
            self.steps.append(Step(ground=(what, of), sent=sent, answered=time.time()))
        return status == 204

    async def act(self) -> None:
        """Send one random request, or a few that belong together."""
        some = self.random
        car, user, box = some.choice(self.fleet.cars), some.choice(self.fleet.users), some.choice([*self.fleet.boxes])
        match some.choices(ACTIONS, WEIGHTS)[0]:
            case "create":
                await self.ask("PUT", "/assignments", {"carId": car, "userId": user, **self.times()})
            case "change":
                if (id := await self.assignment()) is not None:
                    await self.ask_about("PATCH", id, self.patch(car, user))
            case "end":
                if (id := await self.assignment()) is not None:
                    await self.ask_about("DELETE", id)
            case "uninstall":
                if (at := await self.sql.fetchval(CAR_OF, self.fleet.customer, box)) is not None:
                    await self.change("uninstall", box, "DELETE", "/installations", {"carId": at, "productId": box})
            case "install":
                free = await self.sql.fetch(FREE, self.fleet.customer)
                if free and some.random() < 0.8:
                    car, box = some.choice(free)
                await self.change("install", box, "PUT", "/installations", {"carId": car, "productId": box})
            case "unpair":
                pair = {"serviceId": self.fleet.boxes[box], "productId": box}
                if await self.change("service", self.fleet.boxes[box], "DELETE", "/pairings", pair):
                    await self.change("service", self.fleet.boxes[box], "PUT", "/pairings", pair)
            case "delete car":
                if await self.change("car gone", car, "DELETE", f"/cars/{car}"):
                    _, _, made = await self.call("PUT", "/cars", {"name": "new"})
                    self.fleet.cars = [made["id"] if old == car else old for old in self.fleet.cars]
            case "remove user":
                at = "/users/assignments/customers"
                gone = await self.change("user gone", user, "DELETE", at, {"userId": user})
                if not gone or some.random() < 0.7:
                    await self.take_in(user)
            case "batch":
                items = [await self.item() for _ in range(some.randrange(1, 7))]
                how = {"conflicts": some.choice(("allow", "allow", "report", "refuse")), "dryRun": some.random() < 0.1}
                for result in await self.batch("assignments", items, **how):
                    if "operationId" in result:
                        self.steps.append(Step(operation=result["operationId"]))
            case "batch of ends":
                await self.end_at_once()

    async def batch(self, kind: str, items: list[Any], **how: Any) -> list[Any]:
        """Send a batch, atomic or not; return its results, or none if it was rejected."""
        body = {"kind": kind, "items": items, "atomic": self.random.random() < 0.4, **how}
        status, _, told = await self.call("POST", "/batch", body)
        assert status in (200, 422, 503), status
        return told["results"] if status == 200 else []

    async def item(self) -> dict[str, Any]:
        """An item of a batch, sometimes for a missing assignment."""
        some = self.random
        car, user = some.choice(self.fleet.cars), some.choice(self.fleet.users)
        id = await self.assignment() if some.random() < 0.9 else 2_000_000_000
        match some.choice(("create", "create", "change", "end")):
            case "change" if id is not None:
                return {"op": "change", "id": id, "patch": self.patch(car, user)}
            case "end" if id is not None:
                return {"op": "end", "id": id}
            case _:
                return {"op": "create", "body": {"carId": car, "userId": user, **self.times()}}

    async def end_at_once(self) -> None:
        """Delete cars or remove users in one batch.

        The batch also creates cars in place of deleted ones.
        """
        kind, ids = self.random.choice((("cars", self.fleet.cars), ("users", self.fleet.users)))
        ends = self.random.sample(ids, 2)
        items = [{"op": "end", "id": id} for id in ends]
        items += [{"op": "create", "body": {"name": "new"}} for _ in ends] if kind == "cars" else []
        sent = time.time()
        results = await self.batch(kind, items)
        answered = time.time()
        what = "car gone" if kind == "cars" else "user gone"
        for id, result in zip(ends, results, strict=False):
            if result["status"] == 204:
                self.steps.append(Step(ground=(what, id), sent=sent, answered=answered))
        if kind == "cars":
            made = {old: result["id"] for old, result in zip(ends, results[len(ends) :], strict=False)}
            self.fleet.cars = [made.get(old, old) for old in self.fleet.cars]
        else:
            for user in ends:
                await self.take_in(user)

    async def take_in(self, user: int) -> None:
        """Add a user by e-mail address: an id finds only users who are in a customer."""
        address = await self.sql.fetchval(ADDRESS, user)
        await self.change("user", user, "PUT", "/users/assignments/customers", {"emailAddress": address})

    def times(self) -> dict[str, Any]:
        some = self.random
        start = some.randrange(10, 20)
        return {
            "start": f"2026-01-{start}T08:00:00Z",
            "end": some.choice((None, f"2026-01-{start + some.randrange(10)}T18:00:00Z")),
            "lifetime": some.choice((None, 700_000, 900_000)),
            "renewableAfter": some.choice((None, 100, 500_000)),
            "externalId": some.choice((None, None, None, "A", "B", "C", "D")),
        }

    def patch(self, car: int, user: int) -> list[dict[str, Any]]:
        values = {**self.times(), "carId": car, "userId": user}
        if values["renewableAfter"] is not None and values["lifetime"] is None:
            values["renewableAfter"] = 100
        names = self.random.sample(sorted(values), self.random.choice((1, 1, 1, 2, 3)))
        if "start" not in names and "end" in names:
            values["end"] = self.random.choice((None, "2026-01-15T18:00:00Z", "2026-01-09T18:00:00Z"))
        return [{"op": "replace", "path": f"/{name}", "value": values[name]} for name in names]

    async def assignment(self) -> int | None:
        ids = [row[0] for row in await self.sql.fetch(IDS, self.fleet.customer)]
        return self.random.choice(ids) if ids else None


ACTIONS = (
    "create", "change", "end", "uninstall", "install", "unpair", "delete car", "remove user", "batch", "batch of ends",
)  # fmt: skip
WEIGHTS = (8, 9, 2, 2, 4, 2, 1, 1, 6, 1)
CAR_OF = "select car_id from product where customer_id = $1 and product_id = $2"
FREE = """
select c.car_id, p.product_id from car c join product p on p.customer_id = c.customer_id and p.car_id is null
where c.customer_id = $1 and not exists (
  select from product i where i.customer_id = c.customer_id and i.car_id = c.car_id)
"""
ADDRESS = "select email_address from person where user_id = $1"
IDS = "select assignment_id from assignment where customer_id = $1"


async def check_order(sql: Any, fleet: Fleet, client: Client) -> None:
    """Check that a client's steps were applied in the order of its requests.

    A request after an answer must be applied after everything that the answer confirmed.
    """
    applied = {row["id"]: row["applied"] for row in await sql.fetch(model.OPERATIONS, fleet.customer)}
    changes = [dict(row) for row in await sql.fetch(model.GROUND, fleet.customer)]
    last = (0, 0)  # applied number; index among the changes after it
    for step in client.steps:
        if step.operation is not None:
            places = [(applied[step.operation], 0)]
        else:  # another client may have done the same before the answer came: then either change may be this step
            places = [
                (change["after"], change["n"])
                for change in changes
                if (change["what"], change["a"]) == step.ground
                and step.sent <= change["at"].timestamp() <= step.answered
            ]
        later = [place for place in places if place > last]
        assert later, f"{step} was carried out as {places}, after {last}"
        last = min(later)
