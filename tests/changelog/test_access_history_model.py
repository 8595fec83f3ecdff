"""The access history against a simple model: random changes of assignments, boxes and services."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from keyrack.changelog import access_history
from keyrack.changelog.transparency.trust_anchors import CLASSES
from tests.changelog.access_history_model import BEGINS, History, Told
from tests.changelog.outbox import house
from tests.support.people import Person
from tests.support.servers import Sql, eventually

MOMENT = timedelta(microseconds=1)


def stamp(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")


def told(rows: Sequence[dict[str, Any]]) -> set[Told]:
    return {(row["assignmentId"], row["carId"], row["userId"], row["boxId"], row["serviceId"]) for row in rows}


def since_long_ago(person: Person) -> None:
    """Make the access history begin years ago, with the longest retention."""
    begun = "select exists (select from custody_log where customer_id = $1)"
    eventually(lambda: person.sql.value(begun, person.customer), "the beginning of custody")
    days = max(CLASSES)
    person.sql.execute("update customer set changes_days = $2 where customer_id = $1", person.customer, days)
    person.sql.execute("update change_log set class = $2 where customer_id = $1", person.customer, CLASSES[days])
    person.sql.execute(
        "update custody_log set since = $2 where customer_id = $1", person.customer, BEGINS - timedelta(days=1)
    )


@pytest.mark.parametrize("seed", range(4))
def test_every_answer_is_what_could_be_known_then(carol: Person, dsn: str, seed: int) -> None:
    cars, users = [carol.car() for _ in range(3)], [carol.user() for _ in range(3)]
    since_long_ago(carol)
    chance = random.Random(seed)
    history = History(carol.customer, cars, users, chance)

    async def happen() -> None:
        async with house(dsn) as home:
            rows: Any
            for rows, recorded in history.pieces(150):
                async with home.db.transaction() as connection:
                    await access_history.record_periods(connection, rows, {carol.customer: recorded})

    asyncio.run(happen())
    times = [time for time in history.times() if time < datetime.now(UTC)]
    for _ in range(60):
        thing, ids = chance.choice((("car", cars), ("user", users)))
        id, at = chance.choice(ids), chance.choice(times) + chance.choice((-MOMENT, 0 * MOMENT, MOMENT))
        found = asked(carol, thing, id, at=stamp(at))
        assert told(found["assigned"]) == history.told(thing, id, at), (thing, id, at)
    for _ in range(15):
        thing, ids = chance.choice((("car", cars), ("user", users)))
        id, (since, until) = chance.choice(ids), sorted(chance.sample(times, 2))
        rows = asked(carol, thing, id, **{"from": stamp(since), "to": stamp(until)})["assigned"]
        assert all(stamp(since) < (row["until"] or "9") and row["since"] < stamp(until) for row in rows)
        assert rows == sorted(rows, key=lambda row: datetime.fromisoformat(row["since"]))
        for at in {since, until - MOMENT, *chance.sample(times, 8)}:
            if since <= at < until:
                of = [row for row in rows if _within(row, at)]
                assert told(of) == history.told(thing, id, at), (thing, id, at)


# The limits of the length classes in seconds: a period at either side of each is found to its end
BOUNDS = [60 * 4**power for power in range(12)]


def test_periods_of_any_length_are_found_until_their_end(carol: Person, dsn: str) -> None:
    car, user = carol.car(), carol.user()
    since_long_ago(carol)
    lengths = [timedelta(seconds=bound) + more for bound in BOUNDS for more in (-MOMENT, 0 * MOMENT, MOMENT)]
    lengths = [length for length in lengths if BEGINS + length < datetime.now(UTC)]
    rows: Any = [
        {
            "customer_id": carol.customer, "at": BEGINS, "kind": "assignment.created", "resource": "assignment",
            "resource_id": str(number), "after": json.dumps({"carId": car, "userId": user, "start": stamp(BEGINS),
                                                             "end": stamp(BEGINS + length)}),
        }
        for number, length in enumerate(lengths)
    ]  # fmt: skip

    async def happen() -> None:
        async with house(dsn) as home, home.db.transaction() as connection:
            await access_history.record_periods(connection, rows, {carol.customer: BEGINS})

    asyncio.run(happen())
    for number, length in enumerate(lengths):
        found = asked(carol, "car", car, at=stamp(BEGINS + length - MOMENT))["assigned"]
        assert [row["assignmentId"] for row in found] == list(range(number, len(lengths)))


def _within(row: dict[str, Any], at: datetime) -> bool:
    until = row["until"]
    return datetime.fromisoformat(row["since"]) <= at and (until is None or at < datetime.fromisoformat(until))


def asked(person: Person, thing: str, id: int, **query: str) -> dict[str, Any]:
    answer = person.get(f"/{thing}s/{id}/access", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


NOW = "select clock_timestamp()"
TABLES = """
select a.assignment_id, a.car_id, a.user_id, p.product_id, s.service_id from assignment a
left join product p on p.customer_id = a.customer_id and p.car_id = a.car_id and p.kind = 'Box'
left join service s on s.customer_id = p.customer_id and s.product_id = p.product_id
where a.customer_id = $1 and a.car_id = $2 and a.starts_at <= now() and coalesce(a.ends_at, 'infinity') > now()
"""
TIMES = PAST, FUTURE = ("2020-01-01T00:00:00Z", "2999-01-01T00:00:00Z")


OUT = "update product set car_id = null where customer_id = $1 and car_id = $2 and kind = 'Box' returning product_id"
IN = "update product set car_id = $3 where customer_id = $1 and product_id = $2"
END = "update service set is_terminated = not is_terminated where customer_id = $1 and service_id = $2"


class Fleet:
    """Two cars whose boxes change places, and two users."""

    def __init__(self, person: Person, chance: random.Random) -> None:
        self.person, self.chance, self.sql = person, chance, person.sql
        self.cars, self.users = [person.car() for _ in range(2)], [person.user() for _ in range(2)]
        self.boxes = [person.box_in(self.cars[0]), person.product()]
        self.service = person.service(self.boxes[1])
        person.box_in(self.cars[1])

    def held(self) -> dict[int, set[Told]]:
        """The state of each car in the tables."""
        return {car: {tuple(row) for row in self.sql.rows(TABLES, self.person.customer, car)} for car in self.cars}

    def change(self) -> None:
        """Make a change, and wait until it is applied."""
        do = self.chance.choice(("create", "create", "patch", "patch", "delete", "box"))
        there = [row["id"] for car in self.cars for row in self.person.get(f"/cars/{car}/assignments").json()]
        car, user, time = self.chance.choice(self.cars), self.chance.choice(self.users), self.chance.choice(TIMES)
        if do == "box":  # by SQL, not through the API
            box = self.sql.value(OUT, self.person.customer, self.cars[0])
            self.sql.execute(IN, self.person.customer, self.boxes[box == self.boxes[0]], self.cars[0])
            self.sql.execute(END, self.person.customer, self.service)
            return
        if do == "create" or not there:
            answer = self.person.put("/assignments", {"carId": car, "userId": user, "start": time})
        elif do == "patch":
            steps = (("/start", time), ("/end", FUTURE), ("/userId", str(user)), ("/carId", str(car)))
            path, value = self.chance.choice(steps)
            step = {"op": "replace", "path": path, "value": value}
            answer = self.person.patch(f"/assignments/{self.chance.choice(there)}", [step])
        else:
            answer = self.person.delete(f"/assignments/{self.chance.choice(there)}")
        assert answer.status_code == 204, answer.text
        eventually(lambda: not self.person.get("/operations?$filter=state eq 'Pending'").json(), "the end of the work")


def test_a_history_through_the_api(carol: Person, sql: Sql) -> None:
    """At a time between two changes, the answer is the state of the tables.

    While a change is made, the answer has at least what is in both states, and at most what is in either.
    """
    chance = random.Random(7)
    fleet = Fleet(carol, chance)
    states: list[tuple[datetime, datetime, dict[int, set[Told]]]] = []  # the times between which the tables had a state
    for _ in range(24):
        asked(carol, "car", fleet.cars[0])  # waits until all changes have their numbers
        states.append((sql.value(NOW), sql.value(NOW), fleet.held()))
        fleet.change()
    for (_, leaves, before), (comes, _, after) in pairwise(states):
        for at in (leaves, leaves + chance.random() * (comes - leaves), comes):
            for car in fleet.cars:
                found = told(asked(carol, "car", car, at=stamp(at))["assigned"])
                if at in (leaves, comes):
                    assert found == (before if at == leaves else after)[car]
                either = {one[:3] for one in before[car] | after[car]}
                assert {one[:3] for one in before[car] & after[car]} <= {one[:3] for one in found} <= either
