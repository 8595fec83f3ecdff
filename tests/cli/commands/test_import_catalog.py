"""Imports of products, services and brands: fast, with errors by line, and all or nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_operator_commands import Operator
from tests.http.test_noisy_neighbours import locked
from tests.support.servers import Sql, eventually, migrated_database

LONG_WAITS = """
select count(*) from pg_stat_activity
where wait_event_type = 'Lock' and datname = current_database() and now() - query_start > interval '1 second'
"""

Write = Callable[..., Path]


@pytest.fixture(scope="module")
def operator(dsn: str) -> Operator:
    return Operator(dsn)


@pytest.fixture
def customer(operator: Operator) -> int:
    return operator.value("customer", "add", "Importing fleet")["id"]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(name: str, content: Any) -> Path:
        path = tmp_path / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
        return path

    return write


PRODUCTS = """type,serialNumber,uniqueId,sapNumber
vendor Box,S1,U1,P1
vendor IQ,S2,U2,P1

vendor box,"S,3",U3,P2
"""


def test_products_from_csv(operator: Operator, customer: int, write: Write, sql: Sql) -> None:
    file = write("products.csv", PRODUCTS)
    assert operator.value("import", "products", file, "--customer", customer) == {"imported": 3}
    rows = sql.rows(
        "select kind, serial_number, unique_id, sap_number from product where customer_id = $1 order by product_id",
        customer,
    )
    assert [tuple(row) for row in rows] == [
        ("Box", "S1", "U1", "P1"), ("IQ", "S2", "U2", "P1"), ("Box", "S,3", "U3", "P2"),
    ]  # fmt: skip
    code, output, errors = operator.quick("import", "products", file, "--customer", customer)
    assert (code, output) == (1, "")
    assert "line 2: the customer already has a product with the serial number S1" in errors
    assert "line 5: the customer already has a product with the unique id U3" in errors
    assert errors.endswith("keyrack: Nothing was imported: 3 of 3 rows have errors.\n")


def test_products_from_json_name_their_customers(operator: Operator, customer: int, write: Write, sql: Sql) -> None:
    other = operator.value("customer", "add", "Another")["id"]
    product = {"type": "vendor Box", "serialNumber": 17, "uniqueId": "U", "sapNumber": "P"}
    file = write("products.json", [product | {"customerId": other}, product])
    said = operator.quick("import", "products", file, "--customer", customer)
    assert said == (0, "2 products imported.\n", "")
    for id in (customer, other):
        assert sql.value("select serial_number from product where customer_id = $1", id) == "17"


def test_a_heading_may_be_written_as_spreadsheets_do(operator: Operator, customer: int, write: Write) -> None:
    text = f"\ufeffSerial number;Unique ID;SAP_NUMBER;Type;Customer-ID\r\nS1;U1;P1;vendor Box;{customer}\r\n"
    assert operator.value("import", "products", write("data.csv", text)) == {"imported": 1}


def test_every_line_is_reported_and_nothing_imported(operator: Operator, customer: int, write: Write, sql: Sql) -> None:
    file = write(
        "bad.csv",
        "type,serialNumber,uniqueId,sapNumber,customerId\n"
        "vendor Box,S1,U1,P1,\n"  # good
        "vendor Boat,S2,U2,P1,\n"
        "vendor Box,,U3,,\n"
        "vendor Box,S1,U4,P1,\n"
        "vendor Box,S5,U5,P1,2000000000\n"
        "vendor Box,S6,U6,P1,x\n"
        "vendor Box,S7,U7,P1,,extra\n"
        "vendor Box,S8\x00,U8,P1,\n",
    )
    code, output, errors = operator.quick("import", "products", file, "--customer", customer, "--json")
    assert code == 1
    report = json.loads(output)
    assert report["imported"] == 0
    assert {row["line"]: row["problem"] for row in report["problems"]} == {
        3: "type must be 'vendor Box' or 'vendor IQ', not 'vendor Boat'",
        4: "serialNumber is missing; sapNumber is missing",
        5: "serialNumber S1 is already in line 2",
        6: "there is no customer 2000000000",
        7: "customerId must be a whole number from 0 to 2147483647, not 'x'",
        8: "has 6 cells, but the header has 5",
        9: "serialNumber contains unprintable characters",
    }
    assert "line 3: type must be" in errors and errors.endswith("7 of 8 rows have errors.\n")
    assert sql.value("select count(*) from product where customer_id = $1", customer) == 0


def test_a_dry_run_checks_and_changes_nothing(operator: Operator, customer: int, write: Write, sql: Sql) -> None:
    file = write("products.csv", PRODUCTS)
    dry = operator.value("import", "products", file, "--customer", customer, "--dry-run")
    assert dry == {"imported": 0, "valid": 3, "dryRun": True}
    assert sql.value("select count(*) from product where customer_id = $1", customer) == 0


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.csv", b"", "has no header"),
        ("x.csv", b"type,colour\n", "has unknown columns: colour. Valid columns: customerId, type,"),
        ("x.csv", b"type,Type\n", "a duplicate column"),
        ("x.csv", b'type\n"open', "line 2: unexpected end of data"),
        ("x.csv", b"type\n\xff\n", "is not UTF-8"),
        ("x.json", b"{", "is not valid JSON"),
        ("x.json", b"[" * 100_000, "is not valid JSON"),
        ("x.json", b"{}", "must contain an array of objects"),
        ("x.xlsx", b"", "Add --format csv or --format json"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read(operator: Operator, write: Write, name: str, content: bytes, said: str) -> None:
    assert said in operator.refused("import", "products", write(name, content), "--customer", 1)


def test_a_file_that_is_not_there(operator: Operator, tmp_path: Path) -> None:
    assert "cannot be read" in operator.refused("import", "products", tmp_path / "none.csv")


def test_items_of_json_that_are_no_rows(operator: Operator, customer: int, write: Write) -> None:
    file = write("x.json", [1, {"colour": "red"}, {"type": ["vendor Box"]}])
    errors = operator.quick("import", "products", file, "--customer", customer)[2]
    assert "line 1: is not an object" in errors
    assert "line 2: has an unknown property: 'colour'" in errors
    assert "line 3: type must be text or a whole number" in errors


def test_services_with_products_and_contracts(operator: Operator, customer: int, write: Write, sql: Sql) -> None:
    operator.value("import", "products", write("products.csv", PRODUCTS), "--customer", customer)
    rows = [
        {"name": "A", "productSerialNumber": "S1", "orderNumber": "O", "documentNumber": "D", "orderPosition": 10,
         "start": "2026-01-01", "end": "2027-01-01T12:00:00+01:00", "unitOfNotice": "Month"},
        {"name": "B"},
    ]  # fmt: skip
    file = write("services.json", rows)
    assert operator.value("import", "services", file, "--customer", customer) == {"imported": 2}
    listed = operator.value("service", "list", "--customer", customer)
    assert [(row["name"], row["orderNumber"], row["end"]) for row in listed] == [
        ("A", "O", "2027-01-01T11:00:00Z"), ("B", None, None),
    ]  # fmt: skip
    serial = sql.value("select serial_number from product where product_id = $1", listed[0]["productId"])
    assert serial == "S1"
    wrong = [
        {"name": "C", "productSerialNumber": "S1"},
        {"name": "D", "productSerialNumber": "S9"},
        {"name": "E", "orderNumber": "O"},
        {"name": "F", "start": "soon", "orderPosition": -1},
        {"name": "G", "productSerialNumber": "S1"},
    ]
    errors = operator.quick("import", "services", write("bad.json", wrong), "--customer", customer)[2]
    assert "line 1: there is already a service for the product with the serial number S1" in errors
    assert "line 2: the customer has no product with the serial number S9" in errors
    assert "line 3: A contract needs order number, document number, start and end" in errors
    assert "line 4: orderPosition must be a whole number from 0 to 2147483647, not '-1'; start is not a date" in errors
    assert "line 5: productSerialNumber S1 is already in line 1" in errors


def test_brands(operator: Operator, write: Write) -> None:
    file = write(
        "brands.csv",
        "brand,keyForm,boxName,boxSapNumber,imageUrl\n"
        "Imperia,Imperia flip,Box F,1,\n"
        "IMPERIA,Imperia smart,,,https://example.org/key.png\n"
        "Jowett,Imperia flip,Box F,1,\n",
    )
    assert operator.value("import", "brands", file) == {"imported": 3}
    rows = operator.value("brand", "list", "--brand", "imperia")
    assert [(row["brand"], row["keyForm"], row["hasDrawing"], row["imageUrl"]) for row in rows] == [
        ("Imperia", "Imperia flip", True, None),
        ("Imperia", "Imperia smart", False, "https://example.org/key.png"),
    ]
    errors = operator.quick("import", "brands", file)[2]
    assert "line 2: Imperia already has the key form Imperia flip with this box" in errors
    twice = write("twice.csv", "brand,keyForm,imageUrl\nNew,F,\nnew,F,\nNew,G,ftp://x\n")
    errors = operator.quick("import", "brands", twice)[2]
    assert "line 3: the key form F of new is already in line 2" in errors
    assert "line 4: imageUrl must begin with http" in errors


def test_a_statement_takes_longer_than_a_request_may(
    operator: Operator, customer: int, write: Write, sql: Sql, dsn: str
) -> None:
    """Neither the server nor the client ends it."""
    file = write("one.csv", "type,serialNumber,uniqueId,sapNumber\nvendor Box,S1,U1,P\n")
    impatient = {"KEYRACK_STATEMENT_TIMEOUT_SECONDS": "0.2"}
    command = ("import", "products", file, "--customer", customer)
    with ThreadPoolExecutor() as pool:
        with locked(sql, "product"):
            result = pool.submit(operator.run, *command, env=impatient)
            other = Sql(dsn)
            eventually(lambda: other.value(LONG_WAITS), "a statement that waits longer")
            other.close()
        assert (result.result().returncode, result.result().stderr) == (0, "")


@pytest.mark.cluster
def test_a_hundred_thousand_lines_are_imported(database_server: str, write: Write) -> None:
    """Uses its own database, because a worker would number these changes first."""
    lines = "".join(f"vendor Box,S{i},U{i},P\n" for i in range(100_000))
    file = write("many.csv", "type,serialNumber,uniqueId,sapNumber\n" + lines)
    with migrated_database(database_server) as dsn, closing(Sql(dsn)) as sql:
        operator = Operator(dsn)
        customer = operator.value("customer", "add", "Importing fleet")["id"]
        code, output, errors = operator.quick("import", "products", file, "--customer", customer)
        assert (code, output) == (0, "100,000 products imported.\n"), errors
        assert re.fullmatch(
            r"(\d\d,000 rows read\n)*", errors
        )  # without a terminal, progress appears only for long work
        assert sql.value("select count(*) from product where customer_id = $1", customer) == 100_000
