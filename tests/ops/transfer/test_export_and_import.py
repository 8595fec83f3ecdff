"""Export and import of a customer: every row returns with a new number, and damaged files are rejected."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from keyrack.ops.transfer.record_types import BY_NAME, KINDS
from tests.cli.test_operator_commands import Operator
from tests.support.people import Person, Town
from tests.support.servers import RunningServer, Sql, eventually, migrated_database
from tests.telemetry.endpoints.test_ingest import device_key, unit_of

pytestmark = pytest.mark.cluster

INSIDE = {"carId": "cars", "userId": "users", "assignmentId": "assignments"}


@pytest.fixture(scope="module")
def operator(dsn: str) -> Operator:
    return Operator(dsn)


@pytest.fixture(scope="module")
def carla(town: Town) -> Person:
    """A manager whose customer has rows of every kind."""
    return furnished(town.person("carla"))


def furnished(person: Person, cars: int = 2) -> Person:
    """Create rows of every kind through the interfaces of users."""
    address = f"İPEK.{person.customer}@example.org"  # Python and PostgreSQL lower the first letter differently
    users = [person.user(address), person.user(type="Normal", password="correct horse battery")]
    group = person.group("Pool =1+1")
    for number in range(cars):
        car = person.car_with_box(f"=cmd|' /C calc'!A{number}")
        person.put(f"/groups/{group}/cars", {"carId": car})
        for user in users:
            person.assignment(car, user, "2026-01-01T08:00:00Z")
            person.event(car, user, latitude=52.5, longitude=13.4)
        person.event(car, users[0], type="CarClosed")
    person.put(f"/groups/{group}/users", {"userId": users[0]})
    gone, left = person.car_with_box("Gone"), person.user()
    person.event(gone, left)
    ended = person.assignment(gone, left)
    assert person.delete(f"/assignments/{ended}").status_code == 204
    eventually(lambda: person.get(f"/assignments/{ended}").status_code == 404, "the end")
    assert person.delete(f"/cars/{gone}").status_code == 204
    assert person.delete("/users/assignments/customers", {"userId": left}).status_code == 204
    assert (
        person.put(
            "/webhooks", {"url": "https://example.com/hook", "secret": "static", "dialect": "standard-webhooks"}
        ).status_code
        == 201
    )
    service = person.service(name="Spare")
    person.put(f"/groups/{group}/services", {"serviceId": service})
    person.put(f"/groups/{group}/products", {"productId": person.product("IQ")})
    person.sql.execute(
        "insert into contract (customer_id, service_id, order_number, document_number, starts_at, ends_at)"
        " values ($1, $2, 'O1', 'D1', '2026-01-01', '2027-01-01')",
        person.customer,
        service,
    )
    driven(person)
    count = "select count(*) from operation where customer_id = $1 and state = 'Pending'"
    eventually(lambda: person.sql.value(count, person.customer) == 0, "the operations")
    return person


TEN = datetime.now(UTC).replace(hour=10, minute=0, second=0, microsecond=0) - timedelta(days=20)


def read_at(day: int, minute: int) -> str:
    """The time of a reading of the unit."""
    return (TEN + timedelta(days=day, minutes=minute)).strftime("%Y-%m-%dT%H:%M:%SZ")


def driven(person: Person) -> None:
    """A unit that has reported positions, odometers and other values.

    The last values are reported twice.
    """
    unit, key = unit_of(person), device_key(person)
    lines = [
        {
            "serialNumber": unit.serial,
            "carDataReadTime": read_at(day, minute),
            "fuelLevelPercent": day,
            "currentLatitude": 52.5 + minute // 4, "currentLongitude": 13.4, "odometer": 1000 + day,
        }
        for day in range(1, 4) for minute in range(0, 40, 2)
    ]  # fmt: skip
    body = "\n".join(map(json.dumps, lines))
    headers = {"Device-Key": key, "Content-Type": "application/x-ndjson"}
    answer = person.client.post("/ingest/telemetry", content=body, headers=headers)
    assert answer.json()["accepted"] == len(lines), answer.text


def rows(directory: Path, kind: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (directory / f"{kind}.jsonl").read_text().splitlines()]


def renumbered(old: Path, ids: dict[str, dict[int, int]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The rows of an export as they must appear after the import."""
    for kind in KINDS:
        found = rows(old, kind.name)
        for row in found:
            if kind.numbered:
                row["id"] = ids[kind.name][row["id"]]
            for part in (row, row.get("request"), row.get("result")):
                for member, of in {**(kind.references or {}), **({} if part is row else INSIDE)}.items():
                    if part and part.get(member):
                        part[member] = ids[of][part[member]]
        yield kind.name, found


def comparable(found: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in found)


def test_an_export_can_be_imported_completely(
    carla: Person, operator: Operator, server: RunningServer, sql: Sql, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    told = operator.value("export", "--customer", carla.customer, "--to", first)
    counts = {file["name"]: file["rows"] for file in told["files"]}
    assert sorted(path.name for path in first.iterdir()) == sorted([*counts, "manifest.json"])
    assert {kind.name for kind in KINDS if counts[f"{kind.name}.jsonl"] == 0} == {"erasures", "factor-rules"}
    assert oct(first.stat().st_mode & 0o777) == "0o700"
    written = "".join(path.read_text() for path in first.iterdir())
    assert not any(word in written for word in ("argon2", "whsec", '"static"', "password_hash"))
    assert told["left"] == {
        "passwords": 1, "webhookSecrets": 1, "deviceKeys": 2, "sdkKeys": 0, "boxes": 0, "phones": 0,
        "driverAccounts": 0, "managers": 1,
    }  # fmt: skip

    taken = operator.value("import", "customer", first, "--name", "Carla's new fleet")
    new = taken["id"]
    assert new != carla.customer
    assert taken["rows"] == {kind.name: counts[f"{kind.name}.jsonl"] for kind in KINDS}
    operator.value("export", "--customer", new, "--to", second)
    ids: dict[str, dict[int, int]] = {}
    for row in operator.value("import", "ids", "--customer", new):
        ids.setdefault(row["kind"], {})[row["oldId"]] = row["newId"]
    assert ids["users"].keys() >= {row["id"] for row in rows(first, "users")}
    assert all(ids["cars"][row["id"]] != row["id"] for row in rows(first, "cars"))
    for kind, expected in renumbered(first, ids):
        found = rows(second, kind)
        for row in expected if kind == "webhooks" else ():
            row["isEnabled"] = False
        assert comparable(found) == comparable(expected), kind
    names = [
        row["new_id"]
        for row in sql.rows("select new_id from imported_id where kind = 'cars' and customer_id = $1", new)
    ]
    assert len(names) == counts["cars.jsonl"] + 1, "the car that has gone has a number that nobody else has"

    code, output, errors = operator.quick("import", "customer", first)
    assert (code, output) == (1, "")
    assert f"This export was already imported as customer {new}" in errors
    code, _, errors = operator.quick("export", "--customer", new, "--to", second)
    assert code == 1
    assert "not an empty directory" in errors


def test_an_import_does_not_change_a_customer_with_the_same_name(
    carla: Person, operator: Operator, sql: Sql, tmp_path: Path
) -> None:
    operator.value("export", "--customer", carla.customer, "--to", tmp_path / "out")
    live = operator.value("customer", "add", "Live fleet")["id"]
    sql.execute("insert into car (customer_id, name) values ($1, 'Live car')", live)
    new = operator.value("import", "customer", tmp_path / "out", "--name", "Live fleet")["id"]
    assert new != live
    cars = sql.rows("select name from car where customer_id = $1", live)
    assert [row["name"] for row in cars] == ["Live car"]


def test_an_imported_customer_can_continue_to_work(
    carla: Person, operator: Operator, town: Town, tmp_path: Path
) -> None:
    """The manager records an event with the next number and ends an assignment. Readings of the unit are equal."""
    operator.value("export", "--customer", carla.customer, "--to", tmp_path / "out")
    new = operator.value("import", "customer", tmp_path / "out")["id"]
    heir = town.another_fleet(carla)
    carla.sql.execute(
        "with gone as (delete from manager_customer where customer_id = $1 returning manager_id)"
        ", m as (insert into manager_customer (customer_id, manager_id) select $2, manager_id from gone"
        " returning customer_id, manager_id)"
        " insert into manager_role (customer_id, manager_id, role) select customer_id, manager_id, 'Owner' from m",
        heir.customer,
        new,
    )
    heir.customer, heir.headers["Customer-ID"] = new, str(new)
    eventually(lambda: heir.get("/cars").status_code == 200, "the manager's new customer")
    car = heir.get("/cars?$filter=assignments/$count gt 0&$top=1").json()[0]["id"]
    assignment = heir.get(f"/cars/{car}/assignments").json()[0]
    last = heir.get("/events?$orderby=id desc&$top=1").json()[0]["id"]
    assert heir.event(car, assignment["userId"]) == last + 1
    assert heir.delete(f"/assignments/{assignment['id']}").status_code == 204
    eventually(lambda: heir.get(f"/assignments/{assignment['id']}").status_code == 404, "the end")
    old = carla.get("/cars?$filter=products/any(p:p/type eq 'vendor IQ')").json()[0]["id"]
    there = heir.get("/cars?$filter=products/any(p:p/type eq 'vendor IQ')").json()[0]["id"]
    at = read_at(2, 13)
    assert heir.get(f"/cars/{there}/location/{at}").json() == carla.get(f"/cars/{old}/location/{at}").json()
    assert heir.get(f"/cars/{there}/telemetry").json() == carla.get(f"/cars/{old}/telemetry").json()
    driven_again = heir.get(f"/cars/{there}/location").json()
    assert driven_again["date"] == read_at(3, 38)


def test_an_imported_user_becomes_the_existing_person_with_the_address(
    operator: Operator, town: Town, database_server: str, tmp_path: Path
) -> None:
    source = town.person("moving")
    source.user("Kim@Bücher.Example")
    operator.value("export", "--customer", source.customer, "--to", tmp_path / "export")
    with migrated_database(database_server) as dsn, closing(Sql(dsn)) as sql:
        there = sql.value(
            "insert into person (email_address, address_form, type) values ($1, $1, 'Normal') returning user_id",
            "kim@xn--bcher-kva.example",
        )
        sql.execute("insert into person (email_address, type) values ('kim@ｂücher.example.net', 'Normal')")
        Operator(dsn).value("import", "customer", tmp_path / "export")
        assert sql.value("select user_id from customer_user") == there
    source.client.close()


def test_two_users_of_a_source_with_one_address_are_not_merged(
    operator: Operator, town: Town, database_server: str, tmp_path: Path
) -> None:
    """The source is an older release. The error names both users."""
    source, texts = town.person("moving"), ("Lee@Bücher.Example", "lee@xn--bcher-kva.example")
    for number, text in enumerate(texts):
        user = source.user(f"kim{number}.{source.customer}@example.org")
        source.sql.execute("update person set email_address = $2 where user_id = $1", user, text)
    operator.value("export", "--customer", source.customer, "--to", tmp_path / "export")
    source.sql.execute(
        "update person set email_address = user_id || '@example.org' where email_address = any($1)", texts
    )
    with migrated_database(database_server) as dsn, closing(Sql(dsn)) as sql:
        message = Operator(dsn).refused("import", "customer", tmp_path / "export")
        assert all(text in message for text in (*texts, "have the same e-mail address"))
        assert sql.value("select count(*) from person") == 0
    source.client.close()


def test_imported_texts_of_an_older_release_are_normalised(
    town: Town, operator: Operator, sql: Sql, tmp_path: Path
) -> None:
    """An export has texts as stored. The import normalises them, except addresses."""
    person = town.person("decomposed")
    car = person.car("Plain")
    address = f"Ju\u0308rgen.{person.customer}@example.org"
    user = person.user(address)
    old = "update car set name = $2, license_plate = $2 where car_id = $1"
    sql.execute(old, car, "Cafe\u0301 1")
    sql.execute("update person set last_name = $2 where user_id = $1", user, "Mu\u0308ller")
    operator.value("export", "--customer", person.customer, "--to", tmp_path / "files")
    assert "Cafe\u0301 1" in [row["name"] for row in rows(tmp_path / "files", "cars")]
    new = operator.value("import", "customer", tmp_path / "files", "--name", "Cafe\u0301")["id"]
    assert sql.value("select name from customer where customer_id = $1", new) == "Caf\u00e9"
    (found,) = sql.rows("select name, license_plate, search_text like '%cafe1%' from car where customer_id = $1", new)
    assert tuple(found) == ("Caf\u00e9 1", "Caf\u00e9 1", True)
    members = "select user_id from customer_user where customer_id = $1"
    assert sql.value(members, new) == user, "the address is that of the person who is here already"
    assert sql.value("select email_address from person where user_id = $1", user) == address


def test_no_csv_cell_is_a_formula(carla: Person, operator: Operator, tmp_path: Path) -> None:
    """The customer is exported by its name."""
    operator.value("customer", "change", carla.customer, "--name", "Carla's fleet")
    operator.value("export", "--customer", "Carla's fleet", "--to", tmp_path / "out")
    with (tmp_path / "out/cars.csv").open(newline="") as file:
        names = [row["name"] for row in csv.DictReader(file)]
    assert names[0] == "'=cmd|' /C calc'!A0"
    assert rows(tmp_path / "out", "cars")[0]["name"] == "=cmd|' /C calc'!A0", "what is imported is as it was"


def test_damaged_exports_are_rejected(carla: Person, operator: Operator, sql: Sql, tmp_path: Path) -> None:
    out = tmp_path / "out"
    operator.value("export", "--customer", carla.customer, "--to", out)
    customers = "select count(*) from customer"
    before = sql.value(customers)

    def refused(words: str) -> None:
        code, output, errors = operator.quick("import", "customer", out)
        assert (code, output) == (1, "")
        assert words in errors
        assert sql.value(customers) == before

    cars, manifest = (out / "cars.jsonl").read_text(), (out / "manifest.json").read_text()
    (out / "cars.jsonl").write_text(cars.replace("=cmd", "=CMD", 1))
    refused("cars.jsonl was changed")
    (out / "cars.jsonl").unlink()
    refused("cars.jsonl is missing")
    (out / "cars.jsonl").write_text(cars)
    (out / "manifest.json").write_text(manifest.replace('"version": 1', '"version": 2'))
    refused("has version 2; this release reads version 1")
    (out / "manifest.json").write_text("{}")
    refused("is not the manifest of an export")
    (out / "manifest.json").unlink()
    refused("it is not an export, or an incomplete one")
    code, _, errors = operator.quick("export", "--customer", 999_999, "--to", tmp_path / "none")
    assert code == 1
    assert "There is no customer 999999." in errors
    assert [path.name for path in tmp_path.iterdir()] == ["out"], "nothing half-done stays"


def test_every_table_of_a_customer_is_exported_or_named_here(sql: Sql) -> None:
    """A new table must be in the export, or here with a reason."""
    left = {
        "customer", "customer_hold", "event_counter",  # in the manifest
        # secrets, and the customer's managers
        "client_customer", "device_key", "invitation", "manager_customer", "manager_role", "sdk_key",
        "scope", "scope_group", "scope_member",  # the limits of managers
        "factor_rule",  # the importing installation has its own rules
        "delivery", "delivery_lane", "pulled_message", "removed_webhook",  # deliveries of this server
        "idempotency_key",  # responses of this server
        "booking",  # triggers write it from the assignments
        # private keys, and rows that depend on them: boxes and phones are enrolled again
        "key_authority", "issuing_key", "service_key", "new_root", "key_set_request", "enrolment_nonce",
        "registration_nonce", "removed_device", "box_epoch",
        "status_generation", "box_key", "box_entry", "box_report", "app_subject", "app_device",
        # drivers get their accounts at this installation, and send requests to it
        "driver_access", "driver_link", "driver_push_change", "driver_session", "driver_withdrawn",
        "assignment_request",
        "customer_import", "imported_id",  # the origin of an import
        "custody", "custody_log", "fitting",  # derived from the log
        # events of this installation: a new one starts a separate log
        "change", "change_checkpoint", "change_inbox", "change_log", "change_tile", "change_tree",
        "change_edge", "change_epoch",
        "car_state", "customer_user",  # contained in positions, odometers and users
    }  # fmt: skip
    tables = {
        row["relname"]
        for row in sql.rows(
            "select c.relname from pg_class c join pg_attribute a on a.attrelid = c.oid where a.attname = 'customer_id'"
            " and c.relkind in ('r', 'p') and not c.relispartition and c.relnamespace = 'public'::regnamespace"
        )
    }
    named = " ".join(kind.rows for kind in BY_NAME.values())
    assert {table for table in tables if f" {table} " not in named} <= left
    assert left <= tables
