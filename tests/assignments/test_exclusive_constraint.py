"""The constraint behind exclusive bookings, with the rule bypassed by direct statements."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from asyncpg.exceptions import ExclusionViolationError

from keyrack.assignments.bookings import CarBookings
from tests.assignments.test_exclusive_bookings import Desk, batch, finished
from tests.cli.test_operator_commands import Operator
from tests.support.people import Person
from tests.support.servers import Sql, eventually, migrated_database

INSERT = """
insert into assignment (customer_id, car_id, user_id, starts_at, ends_at, lifetime, is_exclusive, booking_gap)
values ($1, $2, $3, $4::text::timestamptz, $5::text::timestamptz, 604800, $6, $7) returning assignment_id
"""
BOOKINGS = "select assignment_id from booking where customer_id = $1 and car_id = $2 order by assignment_id"


def at(hour: int) -> str:
    return f"2050-01-01T{hour:02}:00:00Z"


class Car:
    """A car whose assignments are written without the rule."""

    def __init__(self, person: Person, sql: Sql) -> None:
        self.person, self.sql = person, sql
        self.id, self.user = person.car(), person.user()

    def insert(self, start: str, end: str | None, *, exclusive: bool = True, gap: int = 0) -> int:
        id: int = self.sql.value(INSERT, self.person.customer, self.id, self.user, start, end, exclusive, gap)
        return id

    @property
    def bookings(self) -> list[int]:
        rows: Any = self.sql.rows(BOOKINGS, self.person.customer, self.id)
        return [row["assignment_id"] for row in rows]


@pytest.fixture
def desk(alice: Person) -> Desk:
    return Desk(alice)


@pytest.fixture
def car(alice: Person, sql: Sql) -> Car:
    return Car(alice, sql)


@pytest.mark.parametrize(
    ("first", "second", "gap"),
    [
        ((at(8), at(10)), (at(9), at(11)), 0),
        ((at(8), at(12)), (at(9), at(10)), 0),
        ((at(8), None), (at(20), None), 0),
        ((at(8), at(10)), (at(10), at(11)), 1),
    ],
)
def test_an_overlap_fails_at_commit(car: Car, first: tuple[str, str], second: tuple[str, str], gap: int) -> None:
    kept = car.insert(*first, gap=gap)
    with pytest.raises(ExclusionViolationError) as violation:
        car.insert(*second)
    assert violation.value.constraint_name == "booking_overlap"
    assert car.bookings == [kept]


def test_what_does_not_conflict_is_kept(car: Car, sql: Sql) -> None:
    first = car.insert(at(8), at(10))
    touching = car.insert(at(10), at(11))
    shared = car.insert(at(8), None, exclusive=False)
    empty = car.insert(at(9), at(9), gap=3600)
    other = Car(car.person, sql).insert(at(8), at(10))
    assert car.bookings == [first, touching]
    assert shared and empty and other


def test_bookings_follow_their_assignments(car: Car, sql: Sql) -> None:
    first, second = car.insert(at(8), at(10)), car.insert(at(10), at(12))
    swap = (
        "update assignment set starts_at = case assignment_id when $2 then $5::text::timestamptz"
        " else $4::text::timestamptz end, ends_at = case assignment_id when $2 then $6::text::timestamptz"
        " else $5::text::timestamptz end where customer_id = $1 and assignment_id in ($2, $3)"
    )
    sql.execute(swap, car.person.customer, first, second, at(8), at(10), at(12))
    assert car.bookings == [first, second]
    sql.execute("update assignment set is_exclusive = false where assignment_id = $1", first)
    assert car.bookings == [second]
    sql.execute("update assignment set is_exclusive = true where assignment_id = $1", first)
    sql.execute("delete from assignment where assignment_id = $1", second)
    assert car.bookings == [first]
    assert car.person.delete(f"/cars/{car.id}").status_code == 204
    assert car.bookings == []


def test_a_violation_fails_its_operation_and_not_the_worker(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule is switched off. The worker applies the operations one by one."""
    monkeypatch.setattr(CarBookings, "overlapping", lambda _self, _wanted: ())
    results = batch(
        desk, {"op": "create", "body": desk.body(8, 10)}, {"op": "create", "body": desk.body(9, 11)},
        {"op": "create", "body": desk.body(11, 12)},
    )  # fmt: skip
    assert finished(desk, results) == ["Succeeded", "internal-error", "Succeeded"]


@pytest.fixture
def database(database_server: str) -> Iterator[tuple[str, Sql]]:
    with migrated_database(database_server) as dsn, closing(Sql(dsn)) as sql:
        yield dsn, sql


CREATE = "select create_booking_constraint()"


def test_without_the_extension_the_doctor_says_how_to_add_the_constraint(database: tuple[str, Sql]) -> None:
    dsn, sql = database

    def checks() -> list[Any]:
        listed = json.loads(Operator(dsn).quick("doctor", "--json")[1])["checks"]
        return [(check["result"], check["action"]) for check in listed if check["check"] == "bookings"]

    def doctor() -> tuple[str, str]:
        """The doctor may stop before this check on a busy machine."""
        ((result, action),) = eventually(checks, "the doctor's check of bookings")
        return result, action

    assert sql.value(CREATE) is True, "it exists already"
    assert doctor() == ("ok", "")
    sql.execute("drop extension btree_gist cascade")
    result, action = doctor()
    assert result == "warning"
    customer = sql.value("insert into customer (name) values ('New') returning customer_id")
    overlap = (
        "insert into booking values ($1, 1, 1, '2050-01-01Z', '2050-01-02Z'), ($1, 2, 1, '2050-01-01Z', 'infinity')"
    )
    sql.execute(overlap, customer)
    with pytest.raises(ExclusionViolationError):
        sql.value(CREATE)
    sql.execute("delete from booking where assignment_id = 2")
    for statement in action.split("`")[1::2]:
        sql.execute(statement)
    assert doctor() == ("ok", "")


def test_a_role_without_the_right_to_create_extensions_goes_on(database: tuple[str, Sql]) -> None:
    _, sql = database
    sql.execute("drop extension btree_gist cascade")
    role = f"unprivileged_{os.getpid()}"
    sql.execute(f"create role {role}")
    try:
        sql.execute(f"grant usage on schema public to {role}")
        sql.execute(f"set role {role}")
        assert sql.value(CREATE) is False
        sql.execute("reset role")
    finally:
        sql.execute("reset role")
        sql.execute(f"drop owned by {role}")
        sql.execute(f"drop role {role}")
