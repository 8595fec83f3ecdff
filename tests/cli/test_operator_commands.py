"""The operator's commands: JSON, text and errors; some tests start real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from keyrack.cli.main import application
from keyrack.core import secret_hashes
from tests.support.invalid_timestamps import NO_MOMENTS_OF_BODIES
from tests.support.people import Town
from tests.support.servers import DEADLINE, Process, Sql, eventually, reachable_directory

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]


@dataclass
class Operator:
    """An operator on the tests' database."""

    dsn: str

    def run(self, *arguments: object, env: dict[str, str] | None = None, stdin: str = "") -> Any:
        """Run a command as a process."""
        return subprocess.run(
            [sys.executable, "-m", "keyrack", *map(str, arguments)],
            env=os.environ | {"KEYRACK_DATABASE_URL": self.dsn} | (env or {}),
            capture_output=True,
            text=True,
            input=stdin,
            timeout=60,
        )

    def json(self, *arguments: object, **options: Any) -> Any:
        """The JSON of a command that runs as a process."""
        ran = self.run(*arguments, "--json", **options)
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    def quick(self, *arguments: object, env: dict[str, str] | None = None, stdin: str = "") -> tuple[int, str, str]:
        """Run a command in this process, which is faster. Returns exit status, standard output and standard error."""
        runner = CliRunner(env={"KEYRACK_DATABASE_URL": self.dsn} | (env or {}))
        result = runner.invoke(application(str(arguments[0])), [str(argument) for argument in arguments], stdin)
        return result.exit_code, result.stdout, result.stderr

    def value(self, *arguments: object, env: dict[str, str] | None = None, stdin: str = "") -> Any:
        """The JSON of a command."""
        status, output, errors = self.quick(*arguments, "--json", env=env, stdin=stdin)
        assert status == 0, errors
        return json.loads(output)

    def refused(self, *arguments: object, status: int = 1) -> str:
        """The error of a command that must fail."""
        code, output, errors = self.quick(*arguments)
        assert (code, output) == (status, ""), (code, output, errors)
        assert "Traceback" not in errors
        if status == 1:
            assert errors.startswith("keyrack: ") and errors.count("\n") == 1, errors
        return errors


@pytest.fixture(scope="module")
def operator(dsn: str) -> Operator:
    return Operator(dsn)


@pytest.fixture(scope="module")
def customer(operator: Operator) -> int:
    return operator.value("customer", "add", "Fleet of the command line")["id"]


def test_a_customer_from_its_beginning_to_its_end(operator: Operator) -> None:
    added = operator.json("customer", "add", "Sea Cars")
    assert list(added) == ["id"] and isinstance(added["id"], int)
    id = added["id"]
    assert operator.run("customer", "change", id, "--name", "Lake Cars").stdout == f"Customer {id} changed.\n"
    listed = [row for row in operator.json("customer", "list") if row["id"] == id]
    assert [(row["name"], row["cars"], row["users"]) for row in listed] == [("Lake Cars", 0, 0)]
    table = operator.run("customer", "list").stdout
    assert table.startswith("ID ") and "Lake Cars" in table
    assert operator.json("customer", "remove", id) == {"id": id}
    assert operator.refused("customer", "remove", id) == f"keyrack: There is no customer {id}.\n"
    assert operator.refused("customer", "change", id, "--name", "X") == f"keyrack: There is no customer {id}.\n"


def test_a_customer_with_a_fleet_is_removed_only_with_everything(operator: Operator, town: Town, sql: Sql) -> None:
    alice = town.person("alice")
    car = alice.car_with_box()
    user = alice.user()
    alice.assignment(car, user)
    alice.event(car, user)
    said = operator.refused("customer", "remove", alice.customer)
    assert "still has 1 cars, 1 users, 1 products, 1 services, 1 events" in said and "--everything" in said
    operator.value("customer", "remove", alice.customer, "--everything", "--yes")
    tables = "select table_name from information_schema.columns where column_name = 'customer_id'"
    # Its history, who had access and who removed it stay as long as the log
    for row in sql.rows(tables + " and table_name !~ '^(change|custody|fitting)'"):
        assert sql.value(f'select count(*) from "{row[0]}" where customer_id = $1', alice.customer) == 0, row[0]
    assert sql.value("select count(*) from person where user_id = $1", user) == 0
    assert alice.get("/cars").status_code == 404


def test_a_customer_with_nothing_but_old_operations_still_has_these(operator: Operator, town: Town) -> None:
    alice = town.person("old")
    car, user = alice.car(), alice.user()
    body = {"carId": car, "userId": user, "start": "2026-01-01T08:00:00Z"}
    assert alice.put("/assignments", body).status_code == 204  # fails later, because there is no box
    eventually(lambda: alice.get("/operations?$filter=state ne 'Pending'").json(), "the outcome")
    alice.delete(f"/cars/{car}").raise_for_status()
    alice.delete("/users/assignments/customers", {"userId": user}).raise_for_status()
    said = operator.refused("customer", "remove", alice.customer)
    assert said.startswith(f"keyrack: Customer {alice.customer} still has 1 operations. "), said
    operator.value("customer", "remove", alice.customer, "--everything", "--yes")
    eventually(lambda: alice.get("/cars").status_code == 404, "what servers are told of access")


def test_a_manager_logs_in_with_what_was_printed_and_not_after_removal(
    operator: Operator, town: Town, customer: int
) -> None:
    key = operator.value("api-key", "add", "tests of managers")["apiKey"]
    other = operator.value("customer", "add", "Another")["id"]
    added = operator.value(
        "manager", "add", "mo.anders", "--role", "owner", "--customer", customer, "--customer", other
    )
    assert list(added) == ["id", "username", "password"] and added["username"] == "mo.anders"
    client = town.person("carl").client

    def token(password: str) -> Any:
        form = {"username": "mo.anders", "password": password, "grant_type": "password"}
        return client.post("/oauth2/token", data=form, headers={"vendor-API-Key": key})

    assert token(added["password"]).status_code == 200
    listed = [row for row in operator.value("manager", "list") if row["id"] == added["id"]]
    assert listed[0]["customers"] == sorted([customer, other]) and listed[0]["isDisabled"] is False
    assert added["password"] not in json.dumps(listed)

    changed = operator.value(
        "manager",
        "change",
        added["id"],
        "--password",
        "-",
        "--remove-customer",
        other,
        "--leave-without-owner",
        stdin="a new pass phrase\n",
    )
    assert changed == {"id": added["id"], "username": "mo.anders"}
    assert token(added["password"]).status_code == 401
    assert token("a new pass phrase").status_code == 200
    operator.value("manager", "change", added["id"], "--disable", "--leave-without-owner")
    assert token("a new pass phrase").status_code == 401
    operator.value("manager", "change", added["id"], "--enable")
    assert token("a new pass phrase").status_code == 200
    assert operator.value("manager", "remove", added["id"], "--leave-without-owner") == {"id": added["id"]}
    assert token("a new pass phrase").status_code == 401
    assert operator.refused("manager", "remove", added["id"]) == f"keyrack: There is no manager {added['id']}.\n"


def test_several_customers_may_follow_one_option(operator: Operator, customer: int) -> None:
    other = operator.value("customer", "add", "Another")["id"]
    id = operator.value("manager", "add", "several", "--role", "owner", "--customer", customer, other)["id"]
    assert next(row for row in operator.value("manager", "list") if row["id"] == id)["customers"] == [customer, other]


def test_a_manager_is_refused(operator: Operator, customer: int, sql: Sql) -> None:
    operator.value("manager", "add", "taken", "--role", "owner", "--customer", customer)
    assert "There is already a manager called TAKEN." in operator.refused(
        "manager", "add", "TAKEN", "--role", "owner", "--customer", customer
    )
    assert "There is no customer 2000000000." in operator.refused(
        "manager", "add", "half", "--role", "owner", "--customer", 2_000_000_000
    )
    assert sql.value("select count(*) from manager where username = 'half'") == 0
    assert "fewer than 8" in operator.refused(
        "manager", "add", "short", "--role", "owner", "--customer", customer, "--password", "secret", status=2
    )
    assert "--customer" in operator.refused("manager", "add", "nobody", status=2)


def test_a_password_is_shown_only_when_it_was_generated(operator: Operator, customer: int) -> None:
    said = operator.quick("manager", "add", "generated", "--role", "owner", "--customer", customer)[1]
    assert "Password: " in said and "shown only once" in said
    given = operator.quick(
        "manager", "add", "given", "--role", "owner", "--customer", customer, "--password", "a pass phrase"
    )[1]
    assert "a pass phrase" not in given


def test_an_api_key_expires_and_is_revoked(operator: Operator, sql: Sql) -> None:
    added = operator.value("api-key", "add", "partner", "--expires", "2099-12-31")
    assert list(added) == ["id", "apiKey"]
    stored = sql.rows("select hash, expires_at from api_key where api_key_id = $1", added["id"])[0]
    assert stored["hash"] == secret_hashes.digest(added["apiKey"]) and stored["expires_at"].year == 2100
    assert operator.value("api-key", "revoke", added["id"]) == {"id": added["id"]}
    listed = next(row for row in operator.value("api-key", "list") if row["id"] == added["id"])
    assert listed["isActive"] is False and listed["expiresAt"] == "2100-01-01T00:00:00Z" and listed["revokedAt"]
    assert "was already revoked" in operator.refused("api-key", "revoke", added["id"])
    assert "There is no API key 2000000000." in operator.refused("api-key", "revoke", 2_000_000_000)
    assert "is in the past" in operator.refused("api-key", "add", "late", "--expires", "2020-01-01", status=2)
    assert operator.value("api-key", "add", "unlimited", "--expires", "9999-12-31")["apiKey"]
    assert "is not a date" in operator.refused("api-key", "add", "never", "--expires", "31.12.2099", status=2)
    said = operator.quick("api-key", "add", "people")[1]
    assert "shown only once" in said


def test_an_sdk_key(operator: Operator, customer: int, sql: Sql) -> None:
    added = operator.value("sdk-key", "add", "--customer", customer)
    assert list(added) == ["id", "sdkKey"]
    assert sql.value("select hash from sdk_key where sdk_key_id = $1", added["id"]) == secret_hashes.digest(
        added["sdkKey"]
    )
    assert operator.value("sdk-key", "revoke", added["id"]) == {"id": added["id"]}
    assert [row["isActive"] for row in operator.value("sdk-key", "list", "--customer", customer)] == [False]
    assert "was already revoked" in operator.refused("sdk-key", "revoke", added["id"])
    assert "There is no customer 2000000000." in operator.refused("sdk-key", "add", "--customer", 2_000_000_000)


def test_a_signing_key_takes_over(operator: Operator) -> None:
    kid = operator.value("signing-key", "rotate")["kid"]
    listed = operator.value("signing-key", "list")
    assert [row["kid"] for row in listed if row["signs"]] == [kid] == [listed[0]["kid"]]


def test_a_product(operator: Operator, customer: int, sql: Sql) -> None:
    numbers = ("--unique-id", "U1", "--sap-number", "P1")
    added = operator.value(
        "product", "add", "--customer", customer, "--type", "vendor Box", "--serial-number", "S1", *numbers
    )
    assert list(added) == ["id"]
    id = added["id"]
    assert operator.value("product", "change", id, "--sap-number", "P9") == {"id": id}
    listed = operator.value("product", "list", "--customer", customer)
    assert [(row["type"], row["serialNumber"], row["uniqueId"], row["sapNumber"]) for row in listed] == [
        ("vendor Box", "S1", "U1", "P9")
    ]
    again = ("product", "add", "--customer", customer, "--type", "vendor IQ", "--serial-number")
    assert "already has a product with this serial number" in operator.refused(
        *again, "S1", "--unique-id", "U2", *numbers[2:]
    )
    assert "already has a product with this unique id" in operator.refused(*again, "S2", *numbers)
    wrong = operator.refused(
        "product", "add", "--customer", customer, "--type", "Boat", "--serial-number", "S3", *numbers, status=2
    )
    assert "must be 'vendor Box' or 'vendor IQ', not 'Boat'" in wrong
    nowhere = ("product", "add", "--customer", 2_000_000_000, "--type", "vendor Box", "--serial-number", "S1")
    assert "There is no customer 2000000000." in operator.refused(*nowhere, *numbers)
    car = sql.value("insert into car (customer_id, name) values ($1, 'C') returning car_id", customer)
    sql.execute("update product set car_id = $2 where product_id = $1", id, car)
    assert f"installed in car {car}" in operator.refused("product", "remove", id)
    sql.execute("update product set car_id = null where product_id = $1", id)
    assert operator.value("product", "remove", id) == {"id": id}
    assert f"There is no product {id}." in operator.refused("product", "change", id, "--sap-number", "P")


def test_the_types_carry_the_brand_that_is_set(operator: Operator, customer: int) -> None:
    options = ("--customer", customer, "--serial-number", "SB", "--unique-id", "UB", "--sap-number", "PB")
    operator.value("product", "add", "--type", "acme IQ", *options, env={"KEYRACK_BRAND": "acme"})


def test_every_option_that_takes_a_time_takes_those_of_rfc_3339_and_days(
    operator: Operator, customer: int, sql: Sql
) -> None:
    """A4: like the API; a day means its start in UTC."""
    numbers = ("--serial-number", "ST", "--unique-id", "UT", "--sap-number", "PT")
    id = operator.value("product", "add", "--customer", customer, "--type", "vendor IQ", *numbers)["id"]
    shown = "select dongle_terminated_at::text from product where product_id = $1"
    for text, at in (
        ("2027-01-31", "2027-01-31 00:00:00+00"),
        ("2027-01-31t08:00:00.1234567z", "2027-01-31 08:00:00.123456+00"),
        ("2027-01-31T23:59:60-00:00", "2027-02-01 00:00:00+00"),
        ("2027-01-31T08:00:00-09:30", "2027-01-31 17:30:00+00"),
    ):
        operator.value("product", "change", id, "--dongle-termination", text)
        assert sql.value(shown, id) == at
    form = "is not a date or time: use 2026-01-31, or a time of RFC 3339"
    for text in set(NO_MOMENTS_OF_BODIES) - {"2026-01-01", " 2026-01-01T10:00:00Z"}:
        said = operator.refused("product", "change", id, "--dongle-termination", text, status=2)
        assert form in " ".join(said.replace("\u2502", " ").split()), text


CONTRACT = ("--order-number", "O1", "--document-number", "D1", "--start", "2026-01-01", "--end", "2028-12-31")


def test_a_service_with_its_contract(operator: Operator, customer: int, sql: Sql) -> None:
    added = operator.value(
        "service", "add", "--customer", customer, "--name", "Gold", *CONTRACT, "--order-position", 10,
        "--term-of-contract", 36, "--term-of-notice", 3, "--unit-of-notice", "Month",
    )  # fmt: skip
    assert list(added) == ["id"]
    id = added["id"]
    operator.value("service", "change", id, "--terminate", "--cause", "Sold", "--date", "2026-05-01")
    row = next(row for row in operator.value("service", "list", "--customer", customer) if row["id"] == id)
    expected = {
        "name": "Gold", "isTerminated": True, "terminationDate": "2026-05-01T00:00:00Z", "terminationCause": "Sold",
        "orderNumber": "O1", "documentNumber": "D1", "orderPosition": 10, "start": "2026-01-01T00:00:00Z",
        "end": "2028-12-31T00:00:00Z", "termOfContract": 36, "termOfNotice": 3, "unitOfNotice": "Month",
    }  # fmt: skip
    assert row | expected == row
    operator.value("service", "change", id, "--reinstate", "--name", "Silver")
    row = next(row for row in operator.value("service", "list", "--customer", customer) if row["id"] == id)
    assert (row["name"], row["isTerminated"], row["terminationCause"]) == ("Silver", False, None)
    assert operator.value("service", "remove", id, "--yes") == {"id": id}
    assert sql.value("select count(*) from contract where service_id = $1", id) == 0


def test_a_service_is_refused(operator: Operator, customer: int, sql: Sql) -> None:
    add = ("service", "add", "--customer", customer, "--name", "Part")
    before = sql.value("select count(*) from service")
    assert "A contract needs" in operator.refused(*add, *CONTRACT[:4], status=2)
    backwards = (*CONTRACT[:4], "--start", "2026-01-02", "--end", "2026-01-01")
    assert "ends before it starts" in operator.refused(*add, *backwards, status=2)
    assert "is not a date" in operator.refused(*add, *CONTRACT[:-1], "soon", status=2)
    for blank in (" ", "\u00a0", "\u200b\u3164"):
        assert "must not be empty" in operator.refused(
            "service", "add", "--customer", customer, "--name", blank, status=2
        )
    nowhere = ("service", "add", "--customer", 2_000_000_000, "--name", "N", *CONTRACT)
    assert "There is no customer 2000000000." in operator.refused(*nowhere)
    assert sql.value("select count(*) from service") == before
    bare = operator.value(*add)["id"]
    assert "must not be in the future" in operator.refused(
        "service", "change", bare, "--terminate", "--date", "2099-01-01", status=2
    )
    assert "need --terminate" in operator.refused("service", "change", bare, "--cause", "X", status=2)
    car = sql.value("insert into car (customer_id, name) values ($1, 'C') returning car_id", customer)
    product = sql.value(
        "insert into product (customer_id, unique_id, serial_number, sap_number, kind, car_id)"
        " values ($1, 'UX', 'SX', 'PX', 'Box', $2) returning product_id", customer, car,
    )  # fmt: skip
    sql.execute("update service set product_id = $2 where service_id = $1", bare, product)
    assert f"product {product}, which is installed in car {car}" in operator.refused("service", "remove", bare)


def test_a_brand_with_a_drawing(operator: Operator, town: Town, tmp_path: Path) -> None:
    svg = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"><path d="M0 0h1"/></svg>'
    file = tmp_path / "key.svg"
    file.write_text(f'<?xml version="1.0"?>\n{svg}\n')
    added = operator.value(
        "brand", "add", "Testa Rossa", "--key-form", "Testa flip", "--box-name", "Box T", "--box-sap-number", "41",
        "--drawing", file,
    )  # fmt: skip
    assert list(added) == ["id"]
    client = town.person("dora")
    key = client.get("/brands/testa rossa/keys").json()[0]
    assert (key["brand"], key["boxName"], key["boxSapNumber"]) == ("Testa Rossa", "Box T", "41")
    assert client.client.get(key["keyForm"]["imageUrl"]).text == svg
    same = ("brand", "add", "Testa Rossa", "--key-form", "Testa flip", "--box-name", "Box T")
    assert "already has the key form 'Testa flip'" in operator.refused(*same)
    # A second key of the brand in another spelling; a form without a picture gets a neutral drawing
    second = operator.value("brand", "add", "TESTA ROSSA", "--key-form", "Testa plain")["id"]
    rows = operator.value("brand", "list", "--brand", "testa rossa")
    assert [(row["brand"], row["hasDrawing"]) for row in rows] == [("Testa Rossa", True)] * 2
    assert operator.value("brand", "remove", second) == {"id": second}
    assert "There is no key" in operator.refused("brand", "remove", second)


@pytest.mark.parametrize(
    "text", ["no svg", "<svg><script>alert(1)</script></svg>", '<svg onload="alert(1)"></svg>', "<svg>\0</svg>"]
)
def test_a_drawing_that_is_more_than_a_drawing_is_refused(operator: Operator, tmp_path: Path, text: str) -> None:
    file = tmp_path / "bad.svg"
    file.write_text(text)
    operator.refused("brand", "add", "Bad", "--key-form", "Bad form", "--drawing", file)


def test_the_database_cannot_be_reached(operator: Operator) -> None:
    for address in ("postgresql://127.0.0.1:1/none", "mysql://somewhere"):
        ran = operator.run("customer", "list", env={"KEYRACK_DATABASE_URL": address})
        assert (ran.returncode, ran.stdout) == (1, "")
        assert ran.stderr.startswith("keyrack: ") and ran.stderr.count("\n") == 1


def test_a_setting_that_is_not_valid(operator: Operator) -> None:
    ran = operator.run("customer", "list", env={"KEYRACK_PUBLIC_URL": "nowhere"})
    assert ran.returncode == 1
    assert ran.stderr.startswith("keyrack: A setting is not valid. KEYRACK_PUBLIC_URL")


@pytest.fixture
def state() -> Iterator[Path]:
    with reachable_directory() as directory:
        yield directory / "state"


@pytest.mark.cluster
@pytest.mark.skipif("KEYRACK_TEST_DATABASE_URL" in os.environ, reason="is about the embedded server")
def test_a_state_directory_comes_before_the_address_and_is_left_as_it_was(operator: Operator, state: Path) -> None:
    operator.json("migrate", "--state", state)
    first = operator.json(
        "customer", "add", "First", "--state", state, env={"KEYRACK_DATABASE_URL": "postgresql://x:1/"}
    )
    assert first == {"id": 1}
    assert not (state / "pgdata/postmaster.pid").exists()  # the command stopped the server that it started
    holder = Process("work", "--json", "--state", str(state))
    try:
        assert holder.popen.stdout is not None and holder.popen.stdout.readline()
        # Several concurrent commands use the server of another process, which the environment selects
        env = os.environ | {"KEYRACK_STATE": str(state)}
        adding = [
            subprocess.Popen([sys.executable, "-m", "keyrack", "customer", "add", f"C{i}"], env=env, stdout=-1)
            for i in range(3)
        ]
        assert [process.wait(DEADLINE) for process in adding] == [0, 0, 0]
        for process in adding:
            process.communicate()
        assert holder.popen.poll() is None
        assert len(operator.json("customer", "list", "--state", state)) == 4
    finally:
        assert holder.stop() == 0
