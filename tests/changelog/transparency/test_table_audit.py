"""`keyrack audit verify --tables`: the tables match the log, or an unlogged change is named."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from keyrack.changelog.audited_tables import RECORDED
from tests.changelog.outbox import house
from tests.cli.test_operator_commands import Operator
from tests.support.people import Person, Town, done
from tests.support.servers import Sql, eventually, migrated_database

NEW = itertools.count()
HAS_LOG = "select exists (select from change_log where customer_id = $1)"


@pytest.fixture
def carl(town: Town) -> Iterator[Person]:
    """The owner of a new customer in each test."""
    person = town.person(f"carl{next(NEW)}")
    yield person
    person.client.close()


def replaced(**members: object) -> list[dict[str, object]]:
    return [{"op": "replace", "path": f"/{name}", "value": value} for name, value in members.items()]


def lived(person: Person) -> dict[str, int]:
    """Create, change and delete something of everything a customer may have. Returns ids that exist."""
    car, user = person.car_with_box(), person.user(email=f"state{person.customer}@example.org")
    done(person.patch(f"/cars/{car}", replaced(name="Other", description="of last year")))
    done(person.patch(f"/cars/{car}", replaced(description=None)))
    group = person.group()
    for path in ("cars", "users"):
        done(person.put(f"/groups/{group}/{path}", {"carId": car} if path == "cars" else {"userId": user}))
    gone = person.car()
    done(person.put(f"/groups/{group}/cars", {"carId": gone}))
    done(person.delete(f"/cars/{gone}"))
    person.assignment(car, user, "2026-01-02T08:00:00Z", end="2999-01-01T00:00:00Z")
    person.put("/webhooks", {"url": "http://127.0.0.1:9/nobody", "secret": "hidden"})
    empty = person.group("Empty")
    done(person.delete(f"/groups/{empty}"))
    eventually(lambda: person.get(f"/cars/{car}/assignments").json() != [], "the assignment")
    eventually(lambda: person.sql.value(HAS_LOG, person.customer), "the first number")
    return {"car": car, "user": user, "group": group}


def state(dsn: str, customer: int) -> Any:
    return Operator(dsn).value("audit", "verify", "--customer", customer, "--tables")["tables"]


def unseen(sql: Sql, statement: str, *values: object) -> None:
    """Run a statement as an attacker who disables the triggers."""
    literal = statement
    for number, value in enumerate(values, 1):
        literal = literal.replace(f"${number}", str(value))
    sql.execute(f"do $$ begin perform set_config('session_replication_role', 'replica', true); {literal}; end $$")


def test_the_tables_are_what_the_log_says(carl: Person, dsn: str) -> None:
    """Also for changes without a number, and for rows that are older than the log, which are counted."""
    lived(carl)
    found = state(dsn, carl.customer)
    assert found["in_part"] == found["unsaid"] == 0 and found["whole"] >= 8
    unseen(carl.sql, "insert into car (customer_id, name) values ($1, 'Old')", carl.customer)
    assert state(dsn, carl.customer) == found | {"unsaid": 1}
    old = carl.sql.value("select car_id from car where customer_id = $1 and name = 'Old'", carl.customer)
    done(carl.patch(f"/cars/{old}", replaced(name="New")))
    assert state(dsn, carl.customer) == found | {"in_part": 1}
    said = Operator(dsn).quick("audit", "verify", "--customer", carl.customer, "--tables")[1]
    assert (
        f"{found['whole']} resources completely, 1 in the part that the log retains. 0 resources are older than the log"
        in said
    )
    assert state(dsn, carl.customer)["whole"] == found["whole"]


async def number_changes(dsn: str) -> None:
    """Number each change, as the worker does."""
    async with house(dsn) as home, home.workers(1):
        pass


def test_the_installation_is_compared_too(database_server: str) -> None:
    """A separate database: in the shared one every test changes data of the installation."""
    with migrated_database(database_server) as dsn:
        operator = Operator(dsn)
        customer = operator.value("customer", "add", "Fleet")["id"]
        operator.value("api-key", "add", "App")
        asyncio.run(number_changes(dsn))
        told = operator.value("audit", "verify", "--installation", "--tables")
    assert customer and told["valid"] and told["tables"]["whole"] > 0


@pytest.mark.parametrize(
    ("what", "resource", "why"),
    [
        ("update car set name = 'X' where car_id = {car}", "car {car}", "its `name` is not what change "),
        ("update car set vin = 'V' where car_id = {car}", "car {car}", "it has a `vin`, but no change says so"),
        ("update car set description = 'D' where car_id = {car}", "car {car}", "its `description` is not what change "),
        ("update product set car_id = null where car_id = {car}", "product ", "its `carId` is not what change "),
        ("update person set first_name = 'X' where user_id = {user}", "user {user}", "its `firstName` is not what "),
        ("update webhook set secret = null where customer_id = {c}", "webhook ", "its `secret` is not what change "),
        ("delete from assignment where customer_id = {c}", "assignment ", "it is not there, but change "),
        (
            "insert into car (customer_id, car_id, name) values ({c}, {gone}, '')",
            "car {gone}",
            "it is there, but change ",
        ),
        ("delete from group_car where group_id = {group}", "group {group}", "`carId` {car} is not in it, but change "),
        (
            "insert into group_product (customer_id, group_id, product_id) select {c}, {group}, product_id from product"
            " where customer_id = {c} limit 1",
            "group {group}",
            "is in it, but no change says so",
        ),
    ],
)
def test_unlogged_changes_are_named(what: str, resource: str, why: str, carl: Person, dsn: str) -> None:
    ids = {**lived(carl), "c": carl.customer}
    gone = "select max(resource_id::integer) from change where customer_id = $1 and kind = 'car.deleted'"
    ids["gone"] = eventually(lambda: carl.sql.value(gone, carl.customer), "the number")
    assert state(dsn, carl.customer)["unsaid"] == 0
    unseen(carl.sql, what.format(**ids))
    said = Operator(dsn).refused("audit", "verify", "--customer", carl.customer, "--tables")
    assert resource.format(**ids) in said and why.format(**ids) in said
    code, told, _ = Operator(dsn).quick("audit", "verify", "--customer", carl.customer, "--tables", "--json")
    assert code == 1 and json.loads(told)["resource"] == resource.split(" ")[0]
    # the log itself is intact
    assert Operator(dsn).value("audit", "verify", "--customer", carl.customer)["tables"] is None


def test_erased_content_is_not_compared(carl: Person, dsn: str) -> None:
    """Erased content proves nothing about the rows; later changes count again."""
    ids = lived(carl)
    eventually(
        lambda: carl.sql.value("select count(*) = 0 from change_inbox where customer_id = $1", carl.customer),
        "numbers",
    )
    before = state(dsn, carl.customer)
    carl.sql.execute(
        "update change set who = null, before = null, after = null, person = null, who_salt = null,"
        " content_salt = null, person_salt = null where customer_id = $1", carl.customer,
    )  # fmt: skip
    after = state(dsn, carl.customer)
    assert (after["whole"], after["in_part"], after["unsaid"]) == (0, before["whole"], 0)
    unseen(carl.sql, "update car set vin = 'V' where car_id = $1", ids["car"])
    assert state(dsn, carl.customer) == after
    done(carl.patch(f"/cars/{ids['car']}", replaced(name="Newest")))
    unseen(carl.sql, "update car set name = 'X' where car_id = $1", ids["car"])
    assert "its `name`" in Operator(dsn).refused("audit", "verify", "--customer", carl.customer, "--tables")


def test_only_the_newest_log_of_the_database_is_compared(carl: Person, dsn: str) -> None:
    refused = Operator(dsn).refused
    epoch = "6f0c1c1e-7c0e-4a55-9a0b-9a2f4d8a1e55"
    for options in (["/nowhere"], ["--customer", carl.customer, "--epoch", epoch]):
        assert "Remove FILE and --epoch" in refused("audit", "verify", *options, "--tables")


def test_every_table_that_is_recorded_can_be_compared(sql: Sql) -> None:
    """The view has a part for each; a person is compared as a customer's user."""
    view = str(sql.value("select pg_get_viewdef('recorded_state'::regclass)"))
    missing = [table for table in RECORDED if f"FROM {table} r" not in view and f"FROM ({table} r" not in view]
    assert missing == ["person"]
