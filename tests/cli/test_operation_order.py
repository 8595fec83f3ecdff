"""Commands that affect assignments are applied after operations that were submitted earlier."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from keyrack.assignments.failure_codes import NO_SERVICE, TERMINATED, TEXTS
from tests.cli.test_operator_commands import Operator
from tests.support.people import Person, nobody_works
from tests.support.servers import Sql, eventually

START = "2026-01-01T08:00:00Z"


@pytest.fixture(scope="module")
def operator(dsn: str) -> Operator:
    return Operator(dsn)


def ask(person: Person, car: int, user: int) -> str:
    answer = person.put("/assignments", {"carId": car, "userId": user, "start": START})
    assert answer.status_code == 204
    return answer.headers["Operation-Id"]


def outcome(person: Person, id: str) -> Any:
    """The error code of the operation; None if it succeeded."""
    row = eventually(lambda: (r := person.get(f"/operations/{id}").json())["state"] != "Pending" and r, "the outcome")
    return row["errorMessage"]


def equipped(person: Person) -> tuple[int, int, int, int]:
    """A car, its box, the box's service, and a user."""
    car = person.car()
    box = person.box_in(car)
    service = person.sql.value("select service_id from service where product_id = $1", box)
    return car, box, service, person.user()


def test_terminating_a_service_has_its_place(carol: Person, operator: Operator) -> None:
    car, _, service, user = equipped(carol)
    with nobody_works(carol):
        before = ask(carol, car, user)
        operator.value("service", "change", service, "--terminate", "--cause", "test")
        after = ask(carol, car, user)
        operator.value("service", "change", service, "--reinstate")
        last = ask(carol, car, user)
    assert [outcome(carol, id) for id in (before, after, last)] == [None, TEXTS[TERMINATED], None]


def test_renaming_a_service_waits_for_nobody(carol: Person, operator: Operator, dsn: str) -> None:
    _, _, service, _ = equipped(carol)

    async def rename() -> Any:
        connection = await asyncpg.connect(dsn)
        async with connection.transaction():
            await connection.execute("select from customer_hold where customer_id = $1 for update", carol.customer)
            return await asyncio.to_thread(operator.run, "service", "change", service, "--name", "Renamed")

    assert asyncio.run(rename()).returncode == 0


def test_an_import_that_pairs_services_has_its_place(carol: Person, operator: Operator, tmp_path: Path) -> None:
    car, box, service, user = equipped(carol)
    serial = carol.sql.value("select serial_number from product where product_id = $1", box)
    assert carol.delete("/pairings", {"serviceId": service, "productId": box}).status_code == 204
    (tmp_path / "services.csv").write_text(f"name,productSerialNumber\nNew,{serial}\n")
    with nobody_works(carol):
        before = ask(carol, car, user)
        operator.value("import", "services", tmp_path / "services.csv", "--customer", carol.customer)
        after = ask(carol, car, user)
    assert [outcome(carol, id) for id in (before, after)] == [TEXTS[NO_SERVICE], None]


def test_erasing_a_person_has_its_place(carol: Person, operator: Operator, sql: Sql) -> None:
    car, _, _, user = equipped(carol)
    other = carol.user()
    handed = carol.assignment(car, user)
    with nobody_works(carol):
        step = [{"op": "replace", "path": "/userId", "value": other}]
        assert carol.patch(f"/assignments/{handed}", step).status_code == 204
        ended = ask(carol, car, user)
        operator.value("user", "erase", user, "--yes")
    assert outcome(carol, ended) is None
    assert carol.get(f"/assignments/{handed}").json()["userId"] == other, "handed over before the person went"
    ends = "select state from operation where customer_id = $1 and cause = 'UserRemoved'"
    eventually(lambda: [row["state"] for row in sql.rows(ends, carol.customer)] == ["Succeeded"], "one end")


def test_what_is_not_there_cannot_be_held(operator: Operator) -> None:
    assert "There is no service 2147483647." in operator.refused("service", "remove", 2147483647)
    assert "There is no service 2147483647." in operator.refused("service", "change", 2147483647, "--terminate")
    assert "There is no product 2147483647." in operator.refused("product", "remove", 2147483647)
    assert "There is no customer 2147483647." in operator.refused("customer", "remove", 2147483647, "--everything")
