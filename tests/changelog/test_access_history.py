"""The access history: its answers, errors, baseline and retention."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import httpx
import pytest

from keyrack.api.permissions import Role
from keyrack.api.query_parameters import INVALID
from keyrack.changelog import access_queries, retention
from keyrack.changelog.access_queries import EVENTS
from keyrack.changelog.endpoints.access_history import AT_OR_RANGE, BEHIND, IN_FUTURE, TOO_MANY
from keyrack.changelog.visibility_watermark import VisibilityWatermark
from keyrack.core.error_codes import EMPTY_RANGE, ErrorCode
from keyrack.core.settings import Settings
from keyrack.fleet import person_erasure
from keyrack.fleet.endpoints.cars import NO_CAR
from keyrack.fleet.endpoints.users import NO_USER
from tests.changelog.outbox import House, house
from tests.docs.code_blocks import block, preamble
from tests.support.people import Person, Town, refused
from tests.support.servers import RunningServer, Sql, eventually

PAGE = "docs/access-history.md"
PROBLEM = {"Accept": "application/problem+json"}
FUTURE = "2999-01-01T00:00:00Z"
NOW = "select clock_timestamp()"
WHO = """set local keyrack.who to '{"type": "operator", "name": "tests"}'"""
VIN = "update car set vin = 'x' where customer_id = $1 and car_id = $2"
ROWS = "select * from custody where customer_id = $1 order by stretch_id"


def stamp(time: datetime) -> str:
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def access(person: Person, path: str, **query: str) -> dict[str, Any]:
    answer = person.get(path + "/access", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def between(person: Person, path: str, since: str, until: str) -> dict[str, Any]:
    return access(person, path, **{"from": since, "to": until})


def patched(person: Person, assignment: int, **members: Any) -> None:
    """Change an assignment, and wait until the change is applied."""
    steps = [{"op": "replace", "path": f"/{name}", "value": str(value)} for name, value in members.items()]
    assert person.patch(f"/assignments/{assignment}", steps).status_code == 204
    eventually(lambda: members.items() <= person.get(f"/assignments/{assignment}").json().items())


def ended(person: Person, assignment: int, car: int) -> None:
    assert person.delete(f"/assignments/{assignment}").status_code == 204
    eventually(lambda: assignment not in ids(person.get(f"/cars/{car}/assignments")), "the end of the assignment")


def ids(answer: httpx.Response) -> list[int]:
    return [row["id"] for row in answer.json()]


# Answers


def test_who_can_open_a_car_now(alice: Person) -> None:
    car, user = alice.car(), alice.user()
    box = alice.box_in(car)
    service = alice.sql.value("select service_id from service where customer_id = $1 and product_id = $2",
                              alice.customer, box)  # fmt: skip
    before = alice.sql.value(NOW)
    assignment = alice.assignment(car, user, "2026-01-01T08:00:00Z", end=FUTURE)
    alice.assignment(car, user, FUTURE)
    found = access(alice, f"/cars/{car}")
    newest = alice.get("/changes?$orderby=id desc&$top=1").json()[0]
    assert found["asOf"] == {"changeId": newest["id"], "recordedTime": newest["recordedTime"]}
    (one,) = found["assigned"]
    made = next(change for change in found["events"] if change["kind"] == "assignment.created")
    assert made["resourceId"] == str(assignment)
    assert one == {
        "assignmentId": assignment, "carId": car, "userId": user, "since": made["time"], "until": FUTURE,
        "knownFrom": made["time"], "knownUntil": None, "boxId": box, "serviceId": service,
    }  # fmt: skip
    assert stamp(before) < one["since"] <= found["at"]
    assert {change["kind"] for change in found["events"]} == {
        "car.created", "product.created", "service.created", "box.installed", "assignment.created",
    }  # fmt: skip
    assert made == next(one for one in alice.get("/changes").json() if one["id"] == made["id"])
    assert found["moreEvents"] is False
    of_user = access(alice, f"/users/{user}")
    assert of_user["userId"] == user and "carId" not in of_user
    assert of_user["assigned"] == [one]


def test_events_need_the_permission_to_read_changes(carol: Person, town: Town) -> None:
    """Changes contain names and addresses of managers."""
    car, user = carol.car_with_box(), carol.user()
    carol.assignment(car, user)
    for role, has_events in ((Role.VIEWER, False), (Role.DISPATCHER, False), (Role.AUDITOR, True)):
        reader = town.colleague(carol, f"the {role}", role)
        for path in (f"/cars/{car}", f"/users/{user}"):
            history = access(reader, path)
            assert len(history["assigned"]) == 1
            assert bool(history["events"]) == has_events
            assert (carol.username in json.dumps(history)) == has_events
            assert has_events or (history["events"], history["moreEvents"]) == ([], False)
        assert (reader.get("/changes").status_code == 200) == has_events


def test_changed_and_deleted_assignments_are_reported_as_known_then(alice: Person, sql: Sql) -> None:
    car, other, first, second = alice.car_with_box(), alice.car_with_box(), alice.user(), alice.user()
    assignment = alice.assignment(car, first)
    access(alice, f"/cars/{car}")
    times = [sql.value(NOW)]
    patched(alice, assignment, userId=second, end=FUTURE)
    access(alice, f"/cars/{car}")
    times.append(sql.value(NOW))
    patched(alice, assignment, carId=other)
    access(alice, f"/cars/{car}")
    times.append(sql.value(NOW))
    ended(alice, assignment, other)
    assert access(alice, f"/cars/{other}")["assigned"] == []

    def at(path: str) -> list[list[tuple[int, int, str | None]]]:
        return [[(row["carId"], row["userId"], row["until"]) for row in access(alice, path, at=stamp(time))["assigned"]]
                for time in times]  # fmt: skip

    was = [(car, first, None), (car, second, FUTURE), (other, second, FUTURE)]
    assert at(f"/cars/{car}") == [[was[0]], [was[1]], []]
    assert at(f"/cars/{other}") == [[], [], [was[2]]]
    assert at(f"/users/{first}") == [[was[0]], [], []]
    assert at(f"/users/{second}") == [[], [was[1]], [was[2]]]
    # over the whole time: one period for each state
    rows = between(alice, f"/users/{second}", stamp(times[0]), stamp(sql.value(NOW)))["assigned"]
    assert [row["carId"] for row in rows] == [car, other]
    assert rows[0]["since"] < rows[1]["since"] <= rows[0]["until"] < rows[1]["until"]
    assert all(row["until"] == row["knownUntil"] for row in rows)


def test_a_postponed_end_keeps_since(alice: Person, sql: Sql) -> None:
    car, user = alice.car_with_box(), alice.user()
    assignment = alice.assignment(car, user, end="2998-01-01T00:00:00Z")
    (first,) = access(alice, f"/cars/{car}")["assigned"]
    patched(alice, assignment, end=FUTURE)
    (second,) = access(alice, f"/cars/{car}")["assigned"]
    assert (second["since"], second["until"]) == (first["since"], FUTURE)
    assert second["knownFrom"] > first["knownFrom"]


def test_a_period_includes_its_start_and_excludes_its_end(carol: Person, sql: Sql) -> None:
    """To the microsecond."""
    car, user = carol.car_with_box(), carol.user()
    assignment = carol.assignment(car, user)
    access(carol, f"/cars/{car}")
    ended(carol, assignment, car)
    access(carol, f"/cars/{car}")
    (row,) = sql.rows(ROWS, carol.customer)
    moment = timedelta(microseconds=1)
    times = [row["since"] - moment, row["since"], row["known_until"] - moment, row["known_until"]]
    assert [len(access(carol, f"/cars/{car}", at=stamp(at))["assigned"]) for at in times] == [0, 1, 1, 0]
    windows = [between(carol, f"/cars/{car}", stamp(at), stamp(at + moment)) for at in times]
    assert [len(found["assigned"]) for found in windows] == [0, 1, 1, 0]


def test_a_car_that_was_deleted_is_still_answered(carol: Person, sql: Sql) -> None:
    car, user = carol.car_with_box(), carol.user()
    carol.assignment(car, user)
    empty = carol.car()
    access(carol, f"/cars/{car}")
    then = stamp(sql.value(NOW))
    for path in (f"/cars/{car}", f"/cars/{empty}", f"/users/{user}"):
        if path.startswith("/users"):
            assert carol.delete("/users/assignments/customers", {"userId": user}).status_code == 204
        else:
            assert carol.delete(path).status_code == 204
    eventually(lambda: access(carol, f"/cars/{car}")["assigned"] == [], "the end of the assignment")
    for path in (f"/cars/{car}", f"/users/{user}"):
        (one,) = access(carol, path, at=then)["assigned"]
        assert (one["carId"], one["userId"]) == (car, user)
        assert one["boxId"] is not None
    assert access(carol, f"/cars/{empty}", at=then)["assigned"] == []


def test_a_box_and_a_service_as_they_were_then(carol: Person, sql: Sql) -> None:
    car, user = carol.car(), carol.user()
    box = carol.box_in(car)
    carol.assignment(car, user)
    access(carol, f"/cars/{car}")
    begins = sql.value(NOW)
    sql.execute("update service set product_id = null where customer_id = $1 and product_id = $2", carol.customer, box)
    access(carol, f"/cars/{car}")
    sql.execute("update product set car_id = null where customer_id = $1 and product_id = $2", carol.customer, box)
    access(carol, f"/cars/{car}")
    rows = between(carol, f"/cars/{car}", stamp(begins), FUTURE)["assigned"]
    assert [(row["boxId"] is None, row["serviceId"] is None) for row in rows] == [
        (False, False), (False, True), (True, True),
    ]  # fmt: skip
    assert [row["until"] for row in rows] == [rows[1]["since"], rows[2]["since"], None]


def test_the_changes_nearest_to_a_time(carol: Person, sql: Sql) -> None:
    """A response has a maximum number of changes, and a flag if there are more."""
    car = carol.car()
    times: list[datetime] = []
    for number in range(EVENTS + 20):
        sql.execute("update car set vin = $3 where customer_id = $1 and car_id = $2", carol.customer, car, str(number))
        if number in (9, EVENTS + 9):
            access(carol, f"/cars/{car}")
            times.append(sql.value(NOW))
    access(carol, f"/cars/{car}")
    changes = carol.get("/changes?$filter=resource eq 'car'").json()
    for at in times:
        near = sorted(changes, key=lambda one: abs(datetime.fromisoformat(one["recordedTime"]) - at))[:EVENTS]
        found = access(carol, f"/cars/{car}", at=stamp(at))
        assert found["events"] == sorted(near, key=lambda one: one["id"])
        assert found["moreEvents"] is True
    found = between(carol, f"/cars/{car}", stamp(times[0]), stamp(times[1]))
    assert (found["events"], found["moreEvents"]) == (changes[11 : EVENTS + 11], False)


def test_the_nearest_changes_come_from_all_partitions(carol: Person, sql: Sql) -> None:
    """The log is partitioned by retention class and month. Changes of the same time are ordered by their numbers."""
    car = carol.car()
    for number in range(EVENTS + 20):
        sql.execute("update car set vin = $3 where customer_id = $1 and car_id = $2", carol.customer, car, str(number))
    access(carol, f"/cars/{car}")
    border = datetime.now(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    sql.execute("select make_changes($1)", (border - timedelta(days=1)).date())
    sql.execute("update custody_log set since = $2 where customer_id = $1", carol.customer, border - timedelta(days=9))
    middle = carol.get("/changes?$filter=resource eq 'car'").json()[EVENTS // 2]["id"]
    sql.execute(
        "update change set class = 1 + change_id % 4, recorded_at = $2::timestamptz + (change_id - $3) / 3"
        " * interval '20 minutes' where customer_id = $1 and resource = 'car'", carol.customer, border, middle,
    )  # fmt: skip
    partitions = "select distinct tableoid::regclass::text from change where customer_id = $1 and resource = 'car'"
    assert len(sql.rows(partitions, carol.customer)) == 8
    changes = carol.get("/changes?$filter=resource eq 'car'").json()

    def nearest(at: datetime) -> list[Any]:
        near = sorted(changes, key=lambda one: (abs(datetime.fromisoformat(one["recordedTime"]) - at), one["id"]))
        return sorted(near[:EVENTS], key=lambda one: one["id"])

    for at in (border, border - timedelta(hours=5)):
        found = access(carol, f"/cars/{car}", at=stamp(at))
        assert (found["events"], found["moreEvents"]) == (nearest(at), True)
    found = between(carol, f"/cars/{car}", stamp(border - timedelta(days=1)), stamp(border))
    before = [one for one in changes if datetime.fromisoformat(one["recordedTime"]) < border]
    assert (found["events"], found["moreEvents"]) == (before, False)


def test_periods_are_split_where_the_box_of_their_own_car_changed(carol: Person, sql: Sql) -> None:
    first, second = carol.user(), carol.user()
    car, other = carol.car(), carol.car()
    box, other_box = carol.box_in(car), carol.box_in(other)
    for user in (first, second):
        carol.assignment(car, user)
    carol.assignment(other, first)
    access(carol, f"/cars/{car}")
    begins = sql.value(NOW)
    service = sql.value("select service_id from service where customer_id = $1 and product_id = $2",
                        carol.customer, box)  # fmt: skip
    for change in ("update service set product_id = null", "update product set car_id = null"):
        sql.execute(change + " where customer_id = $1 and product_id = $2", carol.customer, box)
        access(carol, f"/cars/{car}")
    split, whole = [(box, service), (box, None), (None, None)], [(other_box, None)]
    for path, expected in (
        (f"/cars/{car}", {(car, first): split, (car, second): split}),
        (f"/users/{first}", {(car, first): split, (other, first): whole}),
    ):
        rows = between(carol, path, stamp(begins), FUTURE)["assigned"]
        assert rows == sorted(rows, key=lambda row: (datetime.fromisoformat(row["since"]), row["assignmentId"]))
        assert {(row["carId"], row["userId"]) for row in rows} == expected.keys()
        for pair, parts in expected.items():
            of = [row for row in rows if (row["carId"], row["userId"]) == pair]
            services = [row["serviceId"] if row["boxId"] == box else None for row in of]
            assert list(zip([row["boxId"] for row in of], services, strict=True)) == parts
            assert [row["until"] for row in of] == [*[row["since"] for row in of[1:]], None]


# Errors


UNKNOWN = "The valid parameters are at, from, to. Did you mean 'at'?"


@pytest.mark.parametrize(
    ("query", "reason", "fault"),
    [
        ("at=2026-01-01T00:00:00Z&from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z", AT_OR_RANGE, "at"),
        ("at=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z", AT_OR_RANGE, "at"),
        ("from=2026-01-01T00:00:00Z", AT_OR_RANGE, "to"),
        ("to=2026-01-01T00:00:00Z", AT_OR_RANGE, "from"),
        ("from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", EMPTY_RANGE, "to"),
        ("from=2026-01-02T00:00:00Z&to=2026-01-02T00:00:00Z", EMPTY_RANGE, "to"),
        (f"at={FUTURE}", IN_FUTURE.format(name="at"), "at"),
        (f"from={FUTURE}&to=2999-01-02T00:00:00Z", IN_FUTURE.format(name="from"), "from"),
        ("At=2026-01-01T00:00:00Z", INVALID.format(name="At", hint=UNKNOWN), "At"),
        ("at=2026-01-01", None, "at"),
        ("at=2026-01-01T00:00:00Z&at=2026-01-01T00:00:00Z", None, "at"),
        ("$top=3", None, "$top"),
    ],
)  # fmt: skip
def test_invalid_times_are_rejected(alice: Person, query: str, reason: ErrorCode | None, fault: str) -> None:
    for path in (f"/cars/{alice.car()}", f"/users/{alice.user()}"):
        answer = alice.get(f"{path}/access?{query}", headers=PROBLEM)
        problem = answer.json()
        assert answer.status_code == 400, answer.text
        assert [one["parameter"] for one in problem["errors"]] == [fault]
        if reason is not None:
            assert (problem["code"], problem["detail"]) == (reason.code, reason.text)


def test_an_unknown_car_or_user_gives_404(alice: Person, bob: Person, town: Town) -> None:
    car, user = alice.car_with_box(), alice.user()
    alice.assignment(car, user)
    access(alice, f"/cars/{car}")
    for id in (car, 2147483647):
        refused(bob.get(f"/cars/{id}/access"), 404, NO_CAR)
    for id in (user, 2147483647):
        refused(bob.get(f"/users/{id}/access"), 404, NO_USER)
    # another customer may have the same person, and sees none of the first one's cars
    other = town.another_fleet(alice)
    assert other.put("/users/assignments/customers", {"userId": user}).status_code == 204
    found = access(other, f"/users/{user}")
    assert found["assigned"] == []
    assert {change["kind"] for change in found["events"]} == {"user.created"}


def test_too_many_periods_are_rejected(dsn: str, settings: Settings, sql: Sql) -> None:
    with RunningServer(settings.model_copy(update={"access_max_periods": 2}), dsn) as few:
        person = Town(sql, few).person("dora")
        car = person.car_with_box()
        for number in (1, 2, 3):
            person.assignment(car, person.user())
            answer = person.get(f"/cars/{car}/access")
            if number <= 2:
                assert len(answer.json()["assigned"]) == number
        refused(answer, 400, TOO_MANY.format(most=2))
        person.client.close()


# Changes without a number


def test_a_change_without_a_number_is_waited_for(carol: Person, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_queries, "PATIENCE", 0.2)
    car = carol.car()
    then = access(carol, f"/cars/{car}")["at"]

    async def held() -> None:
        raw = await asyncpg.connect(dsn)
        try:
            async with raw.transaction():  # an open transaction blocks the sequencer
                await raw.execute('select set_config(\'keyrack.who\', \'{"type": "operator", "name": "x"}\', true)')
                await raw.execute(
                    "update car set vin = 'x' where customer_id = $1 and car_id = $2", carol.customer, car
                )
                id = await asyncio.to_thread(carol.car)
                refused(await asyncio.to_thread(carol.get, f"/cars/{id}/access"), 503, BEHIND)
                assert (await asyncio.to_thread(access, carol, f"/cars/{car}", at=then))["assigned"] == []
        finally:
            await raw.close()

    asyncio.run(held())
    assert access(carol, f"/cars/{car}")["assigned"] == []


# Baseline and retention

FLEET = """
insert into customer (name) values ('Fleet') returning customer_id
"""
CAR = "insert into car (customer_id, name) values ($1, 'Car') returning car_id"
USER = """
with p as (insert into person (email_address, type) values (gen_random_uuid() || '@example.org', 'Anonymous')
  returning user_id)
insert into customer_user (customer_id, user_id) select $1, user_id from p returning user_id
"""
ASSIGN = """
insert into assignment (customer_id, car_id, user_id, starts_at, ends_at, lifetime, renewable_after)
values ($1, $2, $3, $4, $5, 604800, 302400) returning assignment_id
"""
BOX = """
insert into product (customer_id, unique_id, serial_number, sap_number, kind, car_id)
values ($1, gen_random_uuid(), gen_random_uuid(), 'P', $3, $2) returning product_id
"""
SERVICE = "insert into service (customer_id, name, product_id) values ($1, 'S', $2) returning service_id"
FORGOTTEN = "with c as (delete from custody), f as (delete from fitting) delete from custody_log"
KNOWN = """
select 'assignment' as what, assignment_id as id, car_id as a, user_id as b, nullif(until, 'infinity') as until
from custody where customer_id = $1 and known_until = 'infinity'
union all
select kind, part_id, place_id, null, null from fitting where customer_id = $1 and known_until = 'infinity'
order by 1, 2
"""
HELD = """
select 'assignment' as what, assignment_id as id, car_id as a, user_id as b, ends_at as until from assignment
where customer_id = $1
union all
select 'box', product_id, car_id, null, null from product
where customer_id = $1 and car_id is not null and kind = 'Box'
union all
select 'service', service_id, product_id, null, null from service where customer_id = $1 and product_id is not null
order by 1, 2
"""
AT = KNOWN.replace("known_until = 'infinity'", "known_from <= $2 and known_until > $2")
PAST, LATER = datetime(2026, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC)


class Old:
    """An installation with existing assignments when the access history begins."""

    def __init__(self, sql: Sql) -> None:
        self.sql = sql
        self.customer: int = sql.value(FLEET)
        self.cars = [sql.value(CAR, self.customer) for _ in range(3)]
        self.users = [sql.value(USER, self.customer) for _ in range(3)]
        self.boxes = [sql.value(BOX, self.customer, car, "Box") for car in self.cars[:2]]
        sql.value(BOX, self.customer, self.cars[0], "IQ")
        self.services = [sql.value(SERVICE, self.customer, box) for box in self.boxes]
        self.assignments = [
            sql.value(ASSIGN, self.customer, car, user, PAST, end)
            for car, user, end in zip(self.cars, self.users, (None, LATER, PAST), strict=True)
        ]

    def change(self) -> None:
        """Change each resource, some of them several times."""
        for text, id in (
            ("update assignment set ends_at = '2031-01-01' where customer_id = $1 and assignment_id = $2", 0),
            ("update assignment set ends_at = null, car_id = car_id where customer_id = $1 and assignment_id = $2", 0),
            ("delete from assignment where customer_id = $1 and assignment_id = $2", 1),
        ):
            self.sql.execute(text, self.customer, self.assignments[id])
        new = self.sql.value(ASSIGN, self.customer, self.cars[2], self.users[0], PAST, None)
        self.sql.execute("update assignment set ends_at = $3 where customer_id = $1 and assignment_id = $2",
                         self.customer, new, LATER)  # fmt: skip
        gone = self.sql.value(ASSIGN, self.customer, self.cars[2], self.users[1], PAST, None)
        self.sql.execute("delete from assignment where customer_id = $1 and assignment_id = $2", self.customer, gone)
        self.sql.execute("update product set car_id = null where customer_id = $1 and product_id = $2", self.customer,
                         self.boxes[0])  # fmt: skip
        self.sql.execute("update product set car_id = $3 where customer_id = $1 and product_id = $2", self.customer,
                         self.boxes[1], self.cars[0])  # fmt: skip
        self.sql.execute("delete from service where customer_id = $1 and service_id = $2", self.customer,
                         self.services[0])  # fmt: skip
        self.sql.execute("update service set product_id = null where customer_id = $1 and product_id = $2",
                         self.customer, self.boxes[0])  # fmt: skip
        self.sql.value(SERVICE, self.customer, self.boxes[0])

    def held(self) -> list[Any]:
        return self.sql.rows(HELD, self.customer)

    def known(self) -> list[Any]:
        return self.sql.rows(KNOWN, self.customer)


@pytest.fixture(scope="module")
def apart(own: str) -> Iterator[Sql]:
    statements = Sql(own)
    yield statements
    statements.close()


async def round_of(home: House) -> None:
    """Number all changes with a new sequencer."""
    numbering, fence = home.numbering(), VisibilityWatermark(home.db)
    for _ in range(5):
        await numbering.sequence(fence)


@pytest.mark.parametrize("changes", ["none", "with numbers", "without numbers", "both"])
def test_the_baseline_counts_each_resource_once(own: str, apart: Sql, changes: str) -> None:
    """Whether or not recent changes have their numbers when the history begins."""

    async def main() -> None:
        async with house(own) as home:
            old = Old(apart)
            await round_of(home)
            if changes in ("with numbers", "both"):
                old.change()
                await round_of(home)
                old.assignments[1] = apart.value(ASSIGN, old.customer, old.cars[1], old.users[1], PAST, None)
                old.services[0] = apart.value(SERVICE, old.customer, None)
                await round_of(home)
            await home.db.execute(FORGOTTEN)  # as in a release without the access history
            begins, before = apart.value(NOW), old.held()
            if changes in ("without numbers", "both"):
                old.change()
            first = apart.value("select min(at) from change_inbox where customer_id = $1", old.customer)
            await round_of(home)
            assert old.known() == old.held()
            since = apart.value("select since from custody_log where customer_id = $1", old.customer)
            assert since == first if first else begins <= since <= apart.value(NOW)
            then = [tuple(row) for row in apart.rows(AT, old.customer, since)]
            assert {tuple(row) for row in before} <= set(then), "how it was before what had no numbers"
            assert len(then) == len(before) + (0 if first is None else 1)

    asyncio.run(main())


def test_concurrent_workers_write_the_baseline_once(own: str, apart: Sql) -> None:
    async def main() -> None:
        async with house(own) as home:
            fleets = [Old(apart) for _ in range(3)]
            await home.db.execute(FORGOTTEN)
            await asyncio.gather(*(round_of(home) for _ in range(3)))
            await round_of(home)
            for old in fleets:
                assert old.known() == old.held()

    asyncio.run(main())


def test_an_invalid_time_in_a_row_does_not_block_numbering(carol: Person, sql: Sql) -> None:
    """SQL may write values that the API rejects."""
    car, user = carol.car_with_box(), carol.user()
    assignment = carol.assignment(car, user)
    for start, end in (("-infinity", "infinity"), ("20001-01-01", "20002-01-01")):
        sql.execute(
            "update assignment set starts_at = $2::text::timestamptz, ends_at = $3::text::timestamptz"
            " where customer_id = $1 and assignment_id = $4", carol.customer, start, end, assignment,
        )  # fmt: skip
        (row,) = access(carol, f"/cars/{car}")["assigned"]
        assert (row["assignmentId"], row["until"]) == (assignment, None)
    assert sql.execute("delete from assignment where customer_id = $1", carol.customer) == "DELETE 1"
    assert access(carol, f"/cars/{car}")["assigned"] == []


def test_expired_history_is_deleted_and_gives_410(carol: Person, dsn: str, sql: Sql) -> None:
    car, user = carol.car_with_box(), carol.user()
    over, lasting = carol.assignment(car, user), carol.assignment(car, carol.user())
    access(carol, f"/cars/{car}")
    ended(carol, over, car)
    at = access(carol, f"/cars/{car}")["at"]
    days = 400  # the default class
    sql.execute(
        "update custody set known_until = known_until - make_interval(days => $2) where customer_id = $1"
        " and known_until < 'infinity'", carol.customer, days + 2,
    )  # fmt: skip
    sql.execute("update custody_log set since = since - make_interval(days => $2) where customer_id = $1",
                carol.customer, days + 30)  # fmt: skip
    then = stamp(datetime.now(UTC) - timedelta(days=days + 5))
    assert access(carol, f"/cars/{car}", at=then)["assigned"] == []

    async def tended() -> None:
        async with house(dsn) as home:
            await retention.prune_partitions(home.db, home.settings)

    asyncio.run(tended())
    assert [row["assignment_id"] for row in sql.rows(ROWS, carol.customer)] == [lasting]
    oldest = stamp(sql.value("select since from custody_log where customer_id = $1", carol.customer))
    for query in ({"at": then}, {"from": then, "to": at}):
        answer = carol.get(f"/cars/{car}/access", params=query, headers=PROBLEM)
        problem = answer.json()
        assert (answer.status_code, problem["code"], problem["oldestTime"]) == (410, "access-history-expired", oldest)
        assert oldest in problem["detail"]
    assert access(carol, f"/cars/{car}", at=oldest)["assigned"] == []
    assert [row["assignmentId"] for row in access(carol, f"/cars/{car}")["assigned"]] == [lasting]


def test_an_erased_person_stays_as_a_bare_number(carol: Person, dsn: str) -> None:
    """No response has the name or the address, as in the changes of assignments."""
    car = carol.car_with_box()
    user = carol.user("erased@example.org", userData={"firstName": "Nobody", "lastName": "Knows"})
    carol.assignment(car, user)
    then = access(carol, f"/cars/{car}")["at"]
    assert carol.post(f"/users/{user}/erase").status_code == 204
    eventually(lambda: access(carol, f"/cars/{car}")["assigned"] == [], "the end of the assignment")

    async def finished() -> None:
        async with house(dsn) as home:
            await person_erasure.finish(home.db, home.settings)

    asyncio.run(finished())
    for path in (f"/cars/{car}", f"/users/{user}"):
        found = access(carol, path, at=then)
        assert [row["userId"] for row in found["assigned"]] == [user]
        assert not any(word in json.dumps(found) for word in ("erased@example.org", "Nobody", "Knows"))


# docs/access-history.md


def test_the_examples_of_the_page(carol: Person, server: RunningServer, sql: Sql) -> None:
    car, user = carol.car_with_box(), carol.user()
    begins = stamp(sql.value(NOW))
    assignment = carol.assignment(car, user)
    then = access(carol, f"/cars/{car}")["at"]
    ended(carol, assignment, car)
    assert access(carol, f"/cars/{car}")["assigned"] == [], "its end has its number"
    names = {
        "KEYRACK_URL": f"{server.url}/v3", "KEYRACK_API_KEY": carol.api_key, "KEYRACK_CUSTOMER_ID": str(carol.customer),
        "TOKEN": carol.token, "CAR": str(car), "DRIVER": str(user), "FRIDAY": then, "MONDAY": begins,
    }  # fmt: skip
    found = json.loads(_printed(block(PAGE, "access").text, names))
    shown = json.loads(block(PAGE, "assigned").text)
    assert (list(found), list(found["asOf"])) == (list(shown), list(shown["asOf"]))
    assert (found["assignmentId"], found["userId"], found["until"]) == (assignment, user, None)
    assert found["knownUntil"] > then
    names["FRIDAY"] = stamp(sql.value(NOW))
    (line,) = _printed(block(PAGE, "stretches").text, names).splitlines()
    assert line.split("\t") == [found["since"], found["knownUntil"], str(car)]


def _printed(script: str, names: dict[str, str]) -> str:
    """The output of commands that follow the README's first block."""
    script = "api() {" + preamble().partition("api() {")[2] + script
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], env=os.environ | names, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout
