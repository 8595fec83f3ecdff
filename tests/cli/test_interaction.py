"""Names instead of ids, confirmations, table widths, progress, and warnings about unknown variables."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_operator_commands import Operator
from tests.support.people import Town
from tests.support.servers import DEADLINE, migrated_database
from tests.support.terminal import ESCAPE, seen

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def operator(dsn: str) -> Operator:
    return Operator(dsn)


NUMBERS = ("--type", "vendor Box", "--unique-id", "UN", "--sap-number", "PN")


def test_names_stand_for_ids_where_they_are_one_row_s(operator: Operator) -> None:
    rental = operator.value("customer", "add", "Delta Rentals")["id"]
    other = operator.value("customer", "add", "Delta Cars")["id"]
    box = operator.value("product", "add", "--customer", "delta rentals", "--serial-number", "SN-1", *NUMBERS)["id"]
    assert [row["customerId"] for row in operator.value("product", "list", "--customer", "Delta Rentals")] == [rental]
    assert operator.value("product", "change", "SN-1", "--sap-number", "P2") == {"id": box}
    both = operator.value("manager", "add", "delta", "--role", "owner", "--customer", "Delta Cars", "Delta Rentals")[
        "id"
    ]
    assert (
        operator.value("manager", "change", "DELTA", "--remove-customer", "Delta Cars", "--leave-without-owner")["id"]
        == both
    )
    said = operator.refused("product", "list", "--customer", "Delta Rental")
    assert said == (
        "keyrack: There is no customer called 'Delta Rental'. Did you mean 'Delta Rentals' "
        f"({rental}), 'Delta Cars' ({other})?\n"
    )
    twin = operator.value("customer", "add", "DELTA CARS")["id"]
    assert operator.value("customer", "change", "Delta Cars", "--name", "Delta Cars")["id"] == other  # as written
    said = operator.refused("customer", "change", "delta cars", "--name", "X")
    assert said == f"keyrack: There are 2 customers called 'delta cars'. Use the id: {other}, {twin}.\n"
    operator.value("product", "add", "--customer", other, "--serial-number", "SN-1", *NUMBERS)
    assert f"{box} (of customer {rental})" in operator.refused("product", "remove", "SN-1")
    for wrong in ("0", "-1", "2147483648", " "):
        assert "--customer" in operator.refused("product", "list", "--customer", wrong, status=2)


def test_a_service_is_paired_in_one_command(operator: Operator) -> None:
    customer = operator.value("customer", "add", "Pairing Fleet")["id"]
    add = ("product", "add", "--customer", customer, "--type", "vendor Box", "--sap-number", "P")
    box = operator.value(*add, "--serial-number", "PF-1", "--unique-id", "PF-1")["id"]
    spare = operator.value(*add, "--serial-number", "PF-2", "--unique-id", "PF-2")["id"]
    service = ("service", "add", "--customer", "Pairing Fleet", "--name", "Pairing Gold", "--pair-product")
    made = operator.value(*service, "PF-1")
    assert made["productId"] == box
    assert "is already paired with service" in operator.refused(*service, "PF-1")
    assert "no product with the serial number PF-9" in operator.refused(*service, "PF-9")
    assert len(operator.value("service", "list", "--customer", customer)) == 1  # an error leaves no service behind
    assert "paired with product" in operator.refused("service", "pair", made["id"], "PF-2")
    assert operator.value("service", "unpair", made["id"])["productId"] == box
    assert operator.value("service", "pair", "Pairing Gold", "PF-2") == {"id": made["id"], "productId": spare}
    assert [row["productId"] for row in operator.value("service", "list", "--customer", customer)] == [spare]


def test_what_removes_much_is_shown_and_wants_consent(operator: Operator, town: Town) -> None:
    alice = town.person("consent")
    car = alice.car_with_box()
    alice.assignment(car, alice.user())
    remove = ("customer", "remove", alice.customer, "--everything")
    shown = operator.value(*remove, "--dry-run")
    assert (shown["dryRun"], shown["goes"]["cars"], shown["goes"]["assignments"]) == (True, 1, 1)
    said = operator.refused(*remove)
    assert "Affected: 1 cars, 1 users" in said and said.endswith("This cannot be undone. Confirm with --yes.\n")
    code, output, _ = operator.quick(*remove, "--json")
    assert code == 1 and json.loads(output) == {"done": False, **{k: v for k, v in shown.items() if k != "dryRun"}}
    assert len(alice.get("/cars").json()) == 1  # nothing was changed yet
    env = {"KEYRACK_DATABASE_URL": operator.dsn}
    assert "Nothing was changed." in answered(b"n\n", env, *map(str, remove))
    assert len(alice.get("/cars").json()) == 1
    assert "removed." in answered(b"y\n", env, *map(str, remove))
    assert alice.get("/cars").status_code == 404


def answered(answer: bytes, env: dict[str, str], *arguments: str) -> str:
    """The output of a command on a terminal, after an answer to its prompt."""
    own, other = pty.openpty()
    command = [sys.executable, "-m", "keyrack", *arguments]
    with subprocess.Popen(command, stdin=other, stdout=other, stderr=other, env=os.environ | env) as process:
        os.close(other)
        written = b""
        try:
            while piece := os.read(own, 4096):
                written += piece
                if b"[y/N]" in written and answer:
                    os.write(own, answer)
                    answer = b""
        except OSError:  # the other end was closed
            pass
        os.close(own)
        process.wait(DEADLINE)
        return written.decode()


def test_tables_fit_a_terminal_and_are_whole_elsewhere(database_server: str) -> None:
    """Uses its own database, because names without spaces, which other tests add, are never shortened."""
    name = "A fleet whose name is so long that no terminal of eighty columns has room for it beside the rest"
    with migrated_database(database_server) as dsn:
        operator, env = Operator(dsn), {"KEYRACK_DATABASE_URL": dsn}
        operator.value("customer", "add", name)
        for columns in (80, 140):
            code, written = seen(columns, env, "customer", "list")
            lines = [ESCAPE.sub("", line) for line in written.splitlines()]
            assert code == 0 and max(map(len, lines)) <= columns
            assert any(line.startswith("ID ") and "SINCE" in line for line in lines)
            assert (name in written) is (columns == 140)
        narrow = seen(30, env, "customer", "list")[1]
        assert "NAME   A fleet whose" in narrow.replace("\r", "")
        assert name in operator.quick("customer", "list")[1]


def test_long_work_tells_how_far_it_is_on_a_terminal(operator: Operator, tmp_path: Path) -> None:
    customer = operator.value("customer", "add", "Import Fleet")["id"]
    file = tmp_path / "many.csv"
    file.write_text(
        "type,serialNumber,uniqueId,sapNumber\n" + "".join(f"vendor Box,S{n},U{n},P\n" for n in range(9_000))
    )
    arguments = ("import", "products", str(file), "--customer", str(customer), "--dry-run")
    code, written = seen(80, {"KEYRACK_DATABASE_URL": operator.dsn, "TERM": "xterm"}, *arguments)
    assert code == 0 and "rows" in written.partition("9,000 products can be imported.")[0]
    assert operator.quick(*arguments)[1:] == ("9,000 products can be imported.\n", "")


def test_a_variable_that_is_no_setting_is_named(operator: Operator) -> None:
    strange = {"KEYRACK_POOLSIZE": "5", "KEYRACK_URL": "http://127.0.0.1/v3"}
    said = "keyrack: KEYRACK_POOLSIZE is not a setting and has no effect. Did you mean KEYRACK_POOL_SIZE?\n"
    for arguments in (("settings",), ("migrate", "--check")):
        assert operator.quick(*arguments, env=strange)[2] == said
    assert operator.quick("customer", "list", env=strange)[2] == ""
