"""Import from another server by its API alone: with failures, after kills, and without duplicates."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.test_operator_commands import Operator
from tests.ops.transfer.faulty_source import Faulty
from tests.ops.transfer.test_export_and_import import furnished
from tests.support.people import Person, Town
from tests.support.servers import DEADLINE, RunningServer, Sql, eventually

pytestmark = pytest.mark.cluster

LONG = bool(os.environ.get("KEYRACK_MOVING"))
CARS, KILLS = (60, 40) if LONG else (2, 2)
COUNTS = """
select (select count(*) from car where customer_id = $1) as cars,
  (select count(*) from product where customer_id = $1) as products,
  (select count(*) from service where customer_id = $1) as services,
  (select count(*) from customer_user where customer_id = $1) as users,
  (select count(*) from fleet_group where customer_id = $1) as groups,
  (select count(*) from assignment where customer_id = $1) as assignments,
  (select count(*) from event where customer_id = $1) as events
"""


@pytest.fixture(scope="module")
def dora(town: Town) -> Person:
    """The manager of the moving customer. Its past and its ended assignment are not imported."""
    person = furnished(town.person("dora"), CARS)
    car = person.get("/cars?$top=1").json()[0]["id"]
    user = person.get("/users?$top=1").json()[0]["id"]
    person.assignment(car, user, "2026-01-01T08:00:00Z", end="2026-01-02T08:00:00Z")
    person.assignment(car, user, "2036-01-01T08:00:00Z", lifetime=700_000, renewableAfter=1)
    return person


@pytest.fixture(scope="module")
def target(own: str) -> Operator:
    """The operator of the target server."""
    return Operator(own)


@pytest.fixture(scope="module")
def there(own: str) -> Iterator[Sql]:
    statements = Sql(own)
    yield statements
    statements.close()


def access(person: Person, url: str) -> dict[str, str]:
    return {
        "KEYRACK_SOURCE_URL": f"{url}/v3",
        "KEYRACK_SOURCE_API_KEY": person.api_key,
        "KEYRACK_SOURCE_USERNAME": person.username,
        "KEYRACK_SOURCE_PASSWORD": person.password,
        "KEYRACK_SOURCE_CUSTOMER_ID": str(person.customer),
    }


def arrive(customer: int | str) -> tuple[object, ...]:
    return ("import", "api", "--customer", customer, "--per-second", 1000)


def by_kind(result: Any, member: str) -> dict[str, int]:
    return {row["kind"]: row[member] for row in result["kinds"]}


def test_an_import_by_the_spec_alone_survives_failures(
    dora: Person, target: Operator, there: Sql, server: RunningServer
) -> None:
    customer = target.value("customer", "add", "Dora's new fleet")["id"]
    with Faulty(server.url, bare=True) as source:
        env = access(dora, source.url)
        preview = target.value(*arrive(customer), "--dry-run", env=env)
        assert by_kind(preview, "source") == by_kind(preview, "coming")
        assert sum(there.rows(COUNTS, customer)[0].values()) == 0
        result = target.value(*arrive("Dora's new fleet"), env=env)
        assert source.failed > 3
        assert source.writes == 0
    assert result["agrees"], result["differences"]
    assert result["refused"] == []
    assert by_kind(result, "source") == by_kind(result, "here") == by_kind(result, "new")
    # the spec has no events of a removed car, and ended assignments are not imported
    events = {row["id"] for car in dora.get("/cars").json() for row in dora.get(f"/cars/{car['id']}/events").json()}
    expected = dict(dora.sql.rows(COUNTS, dora.customer)[0]) | {"events": len(events)}
    expected["assignments"] -= 1
    assert dict(there.rows(COUNTS, customer)[0]) == expected
    chosen = "select renewable_after from assignment where customer_id = $1 and lifetime = 700000"
    assert there.value(chosen, customer) == 1
    operations = "select count(*) from operation where customer_id = $1 and state = 'Succeeded'"
    assert there.value(operations, customer) == expected["assignments"]


def test_a_killed_import_resumes_without_duplicates(
    dora: Person, target: Operator, there: Sql, server: RunningServer
) -> None:
    customer = target.value("customer", "add", "Dora's third fleet")["id"]
    with Faulty(server.url) as source:
        env = access(dora, source.url)
        for number in range(KILLS):
            mark = source.after(5 + number * 37 % 240 if LONG else 12 + number * 25)
            process = subprocess.Popen(
                [sys.executable, "-m", "keyrack", *map(str, arrive(customer))],
                env=os.environ | env | {"KEYRACK_DATABASE_URL": target.dsn},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            eventually(lambda mark=mark, process=process: mark.is_set() or process.poll() is not None, "the moment")
            process.kill()
            process.wait(DEADLINE)
        result = target.value(*arrive(customer), env=env)
        assert result["agrees"], result["differences"]
        counts = dict(there.rows(COUNTS, customer)[0])
        expected = dict(dora.sql.rows(COUNTS, dora.customer)[0])
        expected["assignments"] -= 1
        assert counts == expected
        again = target.value(*arrive(customer), env=env)
        assert set(by_kind(again, "new").values()) == {0}
        assert dict(there.rows(COUNTS, customer)[0]) == counts
        events = there.rows("select event_id from event where customer_id = $1 order by event_id", customer)
        assert [row["event_id"] for row in events] == list(range(1, counts["events"] + 1)), "numbers without gaps"
        numbers = target.value("import", "ids", "--customer", customer, "--kind", "products")
        assert len(numbers) == counts["products"]

        # a change on one side is detected and reported
        car = there.value("select min(car_id) from car where customer_id = $1", customer)
        there.execute("update car set name = 'Another' where customer_id = $1 and car_id = $2", customer, car)
        code, output, _ = target.quick(*arrive(customer), env=env)
        assert code == 1
        assert "The sides differ." in output
        assert "differs in name" in output
        assert "KIND" in output and "passwords" in output

        # a row removed here is not imported again, nor are its dependent rows
        there.execute("delete from car where customer_id = $1 and car_id = $2", customer, car)
        code, output, errors = target.quick(*arrive(customer), env=env)
        assert (code, errors) == (1, "")
        assert "cars: id" in output and "is missing here" in output
        assert there.value("select count(*) from car where customer_id = $1", customer) == counts["cars"] - 1


ROWS = {
    "products": "insert into product (customer_id, unique_id, serial_number, sap_number, kind)"
    " values ($1, 'U9', 'S9', 'P9', 'Box')",
    "services": "insert into service (customer_id, name) values ($1, 'Live service')",
    "cars": "insert into car (customer_id, name) values ($1, 'Live car')",
    "groups": "insert into fleet_group (customer_id, name) values ($1, 'Live group')",
}


@pytest.mark.parametrize("kind", ROWS)
def test_a_target_customer_with_rows_is_rejected(
    kind: str, dora: Person, target: Operator, there: Sql, server: RunningServer
) -> None:
    customer = target.value("customer", "add", f"Live fleet of {kind}")["id"]
    there.execute(ROWS[kind], customer)
    before = dict(there.rows(COUNTS, customer)[0])
    env = access(dora, server.url)
    for words in ((), ("--dry-run",)):
        code, output, errors = target.quick(*arrive(customer), *words, env=env)
        assert (code, output) == (1, "")
        assert f"Customer {customer} (Live fleet of {kind}) is not empty: it has 1 {kind}." in errors
        assert "--merge" in errors
        assert dict(there.rows(COUNTS, customer)[0]) == before
    assert there.value("select count(*) from customer_import where customer_id = $1", customer) == 0


def test_a_merge_needs_the_option_only_once(dora: Person, target: Operator, there: Sql, server: RunningServer) -> None:
    customer = target.value("customer", "add", "Merged fleet")["id"]
    there.execute(ROWS["cars"], customer)
    env = access(dora, server.url)
    assert by_kind(target.value(*arrive(customer), "--dry-run", "--merge", env=env), "coming")["cars"] > 0
    assert target.value(*arrive(customer), "--merge", env=env)["agrees"]
    names = [row["name"] for row in there.rows("select name from car where customer_id = $1", customer)]
    assert "Live car" in names and len(names) == 1 + len(dora.get("/cars").json())
    assert target.value(*arrive(customer), env=env)["agrees"], "a later run needs no --merge"


def test_invalid_imports_are_rejected(dora: Person, target: Operator, server: RunningServer, tmp_path: Any) -> None:
    customer = target.value("customer", "add", "Refusing fleet")["id"]
    env = access(dora, server.url)

    def refused(words: str, *arguments: object, **changed: str) -> None:
        code, output, errors = target.quick(*(arguments or arrive(customer)), env=env | changed)
        assert (code, output) == (1, ""), output
        assert words in errors
        assert dora.password not in errors

    refused("401", KEYRACK_SOURCE_API_KEY="wrong")
    refused("The source has no customer 999999", KEYRACK_SOURCE_CUSTOMER_ID="999999")
    refused("There is no customer 999999", *arrive(999_999))
    refused("KEYRACK_SOURCE_PASSWORD is not set", KEYRACK_SOURCE_PASSWORD="")
    secret = tmp_path / "password"
    secret.write_text(dora.password + "\n")
    by_file = {"KEYRACK_SOURCE_PASSWORD": "", "KEYRACK_SOURCE_PASSWORD_FILE": str(secret)}
    assert target.value(*arrive(customer), env=env | by_file)["agrees"]
    refused("would be mixed up", KEYRACK_SOURCE_URL=f"http://localhost:{server.port}/v3")
