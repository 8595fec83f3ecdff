"""Erasure of a person removes the references from every table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.assignments.test_references import booked, outcome, replace
from tests.changelog.outbox import finish_erasing
from tests.cli.test_operator_commands import Operator
from tests.support.people import Person
from tests.support.servers import NUMBERS, Sql, eventually
from tests.webhooks.receiver import Receiver

TABLES = """
select c.relname::text from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = current_schema() and c.relkind in ('r', 'p') and not c.relispartition order by 1
"""


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


def places(sql: Sql, *texts: str) -> set[str]:
    """The tables that contain one of the texts, plain or as bytes."""
    patterns = [f"%{form}%" for text in texts for form in (text, text.encode().hex())]
    return {
        table
        for (table,) in sql.rows(TABLES)
        if sql.value(f'select exists (select from "{table}" r where r::text like any($1::text[]))', patterns)
    }


def referenced(person: Person) -> tuple[int, list[str]]:
    """A user with changed references and assignments, and all texts."""
    texts = [f"erased-{next(NUMBERS)}-{name}" for name in ("user", "plan", "later", "booking", "seat", "old")]
    user, plan, later, booking, seat, old = texts
    id = person.user(externalId=user, metadata={"plan": plan})
    answer = person.patch(f"/users/{id}", [replace("/metadata/later", later)])
    assert answer.status_code == 204, answer.text
    car = person.car_with_box()
    person.event(car, id)
    ended = outcome(person, booked(person, car, id, externalId=old, metadata={"seat": seat}))
    outcome(person, person.delete(f"/assignments/{ended['assignmentId']}"))
    made = outcome(person, booked(person, car, id, externalId=booking))
    path = f"/assignments/{made['assignmentId']}"
    outcome(person, person.patch(path, [replace("/metadata/seat", seat)]))
    outcome(person, person.patch(path, [replace("/metadata/seat", plan)]))
    return id, texts


def subscribed(person: Person, receiver: Receiver) -> None:
    body = {"url": receiver.url + f"/{person.customer}", "kinds": ["assignment.*", "user.*", "event.*"]}
    person.put("/webhooks", body).raise_for_status()
    body["url"] = "http://127.0.0.1:9/never"  # its deliveries wait
    person.put("/webhooks", body).raise_for_status()


def test_of_all_customers(alice: Person, dsn: str, receiver: Receiver) -> None:
    subscribed(alice, receiver)
    id, texts = referenced(alice)
    assert {"customer_user", "assignment", "operation", "delivery"} <= places(alice.sql, *texts)
    Operator(dsn).value("user", "erase", id, "--yes")
    assert eventually(lambda: not places(alice.sql, *texts) and "none", "no reference") == "none"


def test_of_one_customer(alice: Person, dsn: str, receiver: Receiver) -> None:
    alice.sql.execute("delete from webhook where customer_id = $1", alice.customer)
    body = {"url": receiver.url + "/one", "kinds": ["assignment.*", "user.*", "event.*"]}
    alice.put("/webhooks", body).raise_for_status()
    id, texts = referenced(alice)
    kept = alice.car(externalId="kept-of-a-car")
    answer = alice.post(f"/users/{id}/erase")
    assert answer.status_code in (200, 202, 204), answer.text

    def remaining() -> Any:
        finish_erasing(dsn)
        return not places(alice.sql, *texts) and "none"

    assert eventually(remaining, "no reference") == "none"
    assert alice.get(f"/cars/{kept}?$select=externalId").json() == {"externalId": "kept-of-a-car"}


def test_the_export_of_a_person_has_both(alice: Person, dsn: str) -> None:
    id = alice.user(externalId="exported-1", metadata={"plan": "gold"})
    done = outcome(alice, booked(alice, alice.car_with_box(), id, externalId="exported-2", metadata={"a": "b"}))
    whole = Operator(dsn).value("user", "export", id)
    [customer] = whole["customers"]
    assert (customer["externalId"], customer["metadata"]) == ("exported-1", {"plan": "gold"})
    [assignment] = whole["assignments"]
    assert assignment["id"] == done["assignmentId"]
    assert (assignment["externalId"], assignment["metadata"]) == ("exported-2", {"a": "b"})
