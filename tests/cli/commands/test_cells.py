"""Commands with several cells: `keyrack cells`, `--cell`, and the cell of a customer."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from keyrack.core.cell_ids import IDS_PER_CELL
from keyrack.db import schema_version
from keyrack.db.encryption import master_keys
from tests.cli.test_operator_commands import Operator
from tests.support.servers import Sql, free_port, fresh_database, migrated_database

NOTE = "keyrack: This is cell main. For north, add --cell NAME.\n"
FIRST = IDS_PER_CELL + 1  # the first id of cell 1


@dataclass
class CellsOperator(Operator):
    """An operator with cell main and the cells of the settings."""

    cells: list[dict[str, Any]]

    @property
    def env(self) -> dict[str, str]:
        return {"KEYRACK_CELLS": json.dumps(self.cells)} if self.cells else {}

    def quick(self, *arguments: object, env: dict[str, str] | None = None, stdin: str = "") -> tuple[int, str, str]:
        return super().quick(*arguments, env=self.env | (env or {}), stdin=stdin)


@dataclass
class TwoCells:
    """The cells main and north, with an account in each."""

    operator: CellsOperator
    main: Sql
    north: Sql
    customers: tuple[int, int]
    managers: tuple[int, int]
    clients: tuple[int, int]


@pytest.fixture
def main(database_server: str) -> Iterator[str]:
    with migrated_database(database_server) as dsn:
        yield dsn


@pytest.fixture
def empty(database_server: str) -> Iterator[str]:
    with fresh_database(database_server) as dsn:
        yield dsn


@pytest.fixture(scope="module")
def two(database_server: str) -> Iterator[TwoCells]:
    with migrated_database(database_server) as main, migrated_database(database_server) as north:
        operator = CellsOperator(main, [])
        status, lines, errors = operator.quick("cells", "add", "north", "--url", north)
        assert status == 0, errors
        operator.cells = tomllib.loads(lines)["cells"]
        statements = Sql(main), Sql(north)
        ids = []
        for cell in ("main", "north"):
            customer = operator.value("customer", "add", f"Fleet of {cell}", "--cell", cell)["id"]
            manager = operator.value("manager", "add", f"{cell}@example.org", "--customer", customer, "--role", "owner")
            client = operator.value(
                "client", "add", f"Client of {cell}", "--customer", customer, "--scope", "cars:read"
            )
            ids.append((customer, manager["id"], client["id"]))
        customers, managers, clients = zip(*ids, strict=True)
        yield TwoCells(operator, *statements, customers, managers, clients)
        for sql in statements:
            sql.close()


def away(cell: dict[str, Any]) -> dict[str, Any]:
    """The cell at an address without a server."""
    return cell | {"url": f"postgresql://nobody@127.0.0.1:{free_port()}/nothing"}


# keyrack cells add


def test_a_cell_is_added_once(main: str, empty: str, tmp_path: Path) -> None:
    operator = CellsOperator(main, [])
    config = tmp_path / "keyrack.toml"
    config.write_text("log_level = 'info'")  # without the end of the line
    env = {"KEYRACK_CONFIG": str(config)}
    status, lines, errors = operator.quick("cells", "add", "north", "--url", empty, env=env)
    assert (status, lines) == (0, f'\n[[cells]]\nname = "north"\nnumber = 1\nurl = "{empty}"\n')
    said = f"keyrack: Cell north, number 1, was made. Add these lines to {config} of every node, and restart it.\n"
    assert errors.endswith(said)  # after the log of the migration
    status, again, errors = operator.quick("cells", "add", "north", "--url", empty, env=env)
    assert (status, again) == (0, lines) and "north, number 1, is unchanged" in errors
    config.write_text(config.read_text() + lines)
    status, again, errors = operator.quick("cells", "add", "north", env=env)
    assert (status, again) == (0, "")
    assert errors == "keyrack: Cell north, number 1, is unchanged. It is configured already.\n"
    north = Sql(empty)
    try:
        assert north.value("select number || name from cell") == "1north"
        assert north.value("select count(*) from signing_key") == north.value("select count(*) from data_key") == 1
        assert north.value("select count(*) from pg_inherits") > 0
        assert north.value("insert into customer (name) values ('a') returning customer_id") == FIRST
    finally:
        north.close()
    sql = Sql(main)
    try:
        highest = "select max_value from pg_sequences where sequencename = 'customer_customer_id_seq'"
        assert sql.value(highest) == IDS_PER_CELL
    finally:
        sql.close()


def test_the_second_cell_gets_the_next_number_and_its_addresses(two: TwoCells, main: str) -> None:
    added = two.operator.value("cells", "add", "south", "--url", main, "--direct-url", main, "--read-url", main)
    assert added | {"configuration": ""} == {
        "cell": "south", "number": 2, "isNew": True, "isConfigured": False, "configuration": "",
    }  # fmt: skip
    (table,) = tomllib.loads(added["configuration"])["cells"]
    assert table == {"name": "south", "number": 2, "url": main, "direct_url": main, "read_url": main}


def test_a_cell_is_not_added(two: TwoCells, empty: str, database_server: str) -> None:
    operator, north = two.operator, two.operator.cells[0]
    refused = operator.refused
    assert "is not configured. Add --url" in refused("cells", "add", "south")
    assert "configured with another url" in refused("cells", "add", "north", "--url", empty)
    assert "configured with another number" in refused("cells", "add", "north", "--number", 5)
    assert "two cells have the same number 1" in refused("cells", "add", "south", "--url", empty, "--number", 1)
    assert "two cells have the same url" in refused("cells", "add", "south", "--url", north["url"])
    assert "the address of KEYRACK_DATABASE_URL" in refused("cells", "add", "south", "--url", operator.dsn)
    same = operator.dsn + ("&" if "?" in operator.dsn else "?") + "application_name=other"
    assert "This is the database of cell main" in refused("cells", "add", "south", "--url", same)
    assert "name is not 1 to 32 characters" in refused("cells", "add", "South", "--url", empty)
    assert "a cell has the name main" in refused("cells", "add", "main", "--url", empty)
    assert "not an address" in refused("cells", "add", "south", "--url", "north.example.org")
    assert "cannot be reached" in refused("cells", "add", "south", "--url", away(north)["url"])
    with migrated_database(database_server) as other:
        sql = Sql(other)
        sql.execute("insert into customer (name) values ('a')")
        sql.close()
        assert "already cell 0, main, with ids" in refused("cells", "add", "south", "--url", other)
    alone = CellsOperator(operator.dsn, [])
    assert "The database is cell north already" in alone.refused("cells", "add", "south", "--url", north["url"])
    assert "already cell 1, north" in alone.refused("cells", "add", "south", "--url", north["url"], "--number", 2)
    sql = Sql(empty)
    try:
        assert sql.value("select count(*) from pg_class where relname = 'customer'") == 0, "nothing was made"
    finally:
        sql.close()


def test_the_number_of_a_removed_cell_is_not_given_again(main: str, empty: str, database_server: str) -> None:
    """Customers of the removed cell live on in `main`."""
    operator = CellsOperator(main, [])
    sql = Sql(main)
    try:
        sql.execute("insert into customer (customer_id, name) values ($1, 'Northern Fleet')", FIRST)
    finally:
        sql.close()
    assert "A cell had number 1, and its ids are in use" in operator.refused(
        "cells", "add", "east", "--url", empty, "--number", 1
    )
    lost = CellsOperator(main, [{"name": "lost", "number": 5, "url": away({})["url"]}])
    assert "Cell lost must answer" in lost.refused("cells", "add", "east", "--url", empty)
    added = operator.value("cells", "add", "east", "--url", empty)
    assert added["number"] == 2
    operator.cells = tomllib.loads(added["configuration"])["cells"]
    with migrated_database(database_server) as other:
        assert operator.value("cells", "add", "west", "--url", other)["number"] == 3


def test_a_cell_needs_the_master_key_of_cell_main(two: TwoCells, empty: str) -> None:
    env = {"KEYRACK_MASTER_KEY": master_keys.new().text}
    status, output, errors = two.operator.quick("cells", "add", "south", "--url", empty, env=env)
    assert (status, output) == (1, "") and "master key" in errors


# keyrack cells list


def test_cells_are_listed_with_their_sizes(two: TwoCells) -> None:
    main, north = two.operator.value("cells", "list")
    assert list(north) == ["number", "name", "address", "revision", "customers", "bytes", "lagSeconds", "away"]
    assert (main["number"], main["name"], north["number"], north["name"]) == (0, "main", 1, "north")
    assert main["revision"] == north["revision"] == schema_version.head()
    assert north["customers"] == two.north.value("select count(*) from customer") and north["bytes"] > 1_000_000
    assert north["away"] is None and "@" not in north["address"]


def test_a_cell_that_is_away_is_listed(two: TwoCells) -> None:
    operator = CellsOperator(two.operator.dsn, [away(two.operator.cells[0])])
    status, output, errors = operator.quick("cells", "list", "--json")
    assert (status, errors) == (1, "keyrack: The list is not complete.\n")
    main, north = json.loads(output)
    assert main["away"] is None and "cannot be reached" in north["away"]
    assert north["away"].endswith("and that `url` of the cell north in [[cells]] is its address.")
    assert north["customers"] is north["revision"] is None


def test_without_cells_the_only_cell_is_main(main: str) -> None:
    operator = CellsOperator(main, [])
    assert [row["name"] for row in operator.value("cells", "list")] == ["main"]
    assert operator.quick("cells", "check")[0] == 1  # its ids have no upper bound yet
    assert operator.value("customer", "add", "A", "--cell", "main") == {"id": 1}
    assert list(operator.value("customer", "list")[0]) == ["id", "name", "createdAt", "cars", "users"]
    assert operator.quick("customer", "list", "--cell", "main")[2] == ""
    assert operator.refused("customer", "list", "--cell", "north") == (
        "keyrack: There is no cell north: no cells are configured, so the only one is main.\n"
    )


# keyrack cells check


def faults(operator: CellsOperator) -> list[tuple[str | None, str, str]]:
    """The faults of `cells check`: cell, check and text."""
    status, output, errors = operator.quick("cells", "check", "--json")
    assert errors == ""
    found = [row for row in json.loads(output)["checks"] if row["result"] == "critical"]
    assert status == int(bool(found))
    assert all(row["action"] for row in found)
    return [(row["cell"], row["check"], row["text"]) for row in found]


def test_cells_fit_together(two: TwoCells) -> None:
    assert faults(two.operator) == []
    status, text, _ = two.operator.quick("cells", "check")
    assert status == 0 and "Cell north" in text and "wal_level is replica" in text


def test_a_cell_that_is_away_or_another_one_is_a_fault(two: TwoCells) -> None:
    (north,) = two.operator.cells
    ((cell, check, text),) = faults(CellsOperator(two.operator.dsn, [away(north)]))
    assert (cell, check) == ("north", "away") and "cannot be reached" in text
    ((cell, check, text),) = faults(CellsOperator(two.operator.dsn, [north | {"number": 2}]))
    assert (cell, check) == ("north", "number") and "says that it is cell 1, north" in text


def test_checks_that_compare_cells_do_not_pass_without_a_cell(two: TwoCells, empty: str) -> None:
    compared = {"extensions", "moves", "customers", "accounts", "user-names", "persons", "addresses"}
    (north,) = two.operator.cells
    outage = CellsOperator(two.operator.dsn, [away(north)])
    result = json.loads(outage.quick("cells", "check", "--json")[1])
    of_all = {row["check"]: (row["result"], row["text"]) for row in result["checks"] if row["cell"] is None}
    assert result["verdict"] == "critical" and of_all.keys() == compared
    assert {level for level, _ in of_all.values()} == {"unknown"}
    assert of_all["user-names"][1] == "user names: not checked, because cell north is away"
    text = outage.quick("cells", "check")[1]
    assert text.startswith("CRITICAL: ") and "no two cells" not in text and "no restore" not in text
    old = CellsOperator(two.operator.dsn, [north | {"url": empty}])
    rows = json.loads(old.quick("cells", "check", "--json")[1])["checks"]
    unknown = {row["check"]: row["text"] for row in rows if row["result"] == "unknown"}
    assert unknown.keys() == compared - {"extensions"}
    assert unknown["moves"] == "moves: not checked, because cell north has another schema"


def test_a_range_that_is_not_bounded_is_a_fault(two: TwoCells) -> None:
    two.north.execute("alter sequence person_user_id_seq maxvalue 2147483647")
    try:
        assert faults(two.operator)[0][:2] == ("north", "range")
    finally:
        assert two.operator.quick("cells", "add", "north")[0] == 0
    assert faults(two.operator) == []


def test_a_schema_of_another_release_is_a_fault(two: TwoCells, empty: str) -> None:
    two.north.execute("update alembic_version set version_num = '0081x'")
    try:
        assert [found[:2] for found in faults(two.operator)] == [("north", "schema")]
    finally:
        two.north.execute("update alembic_version set version_num = $1", schema_version.head())
    operator = CellsOperator(two.operator.dsn, [two.operator.cells[0] | {"url": empty}])
    assert faults(operator)[0][:2] == ("north", "schema")


def test_rows_that_two_cells_have_are_faults(two: TwoCells) -> None:
    customer, manager, _ = two.customers[1], two.managers[1], two.clients
    person = "insert into person (user_id, email_address, address_form, type) values ($1, $2, $2, 'Anonymous')"
    two.main.execute("insert into customer (customer_id, name) overriding system value values ($1, 'Twice')", customer)
    two.main.execute(
        "insert into manager (manager_id, username, address_form) overriding system value "
        "values ($1, 'north@example.org', 'north@example.org')",
        manager,
    )
    for sql, id, address in (
        (two.main, 501, "a@example.org"), (two.north, 501, "b@example.org"),  # one id, two persons
        (two.main, 502, "c@example.org"), (two.north, 503, "c@example.org"),  # one address, two ids
        (two.main, 504, "d@example.org"), (two.north, 504, "d@example.org"),  # a person in both cells
    ):  # fmt: skip
        sql.execute(person.replace(" values", " overriding system value values"), id, address)
    try:
        found = faults(two.operator)
        assert [row[:2] for row in found] == [
            (None, code) for code in ("customers", "accounts", "user-names", "persons", "addresses")
        ]
        assert [row[2] for row in found] == [
            f"Customer {customer} is in the cells main, north.",
            f"The id {manager} is that of a manager or client in the cells main, north.",
            "The user name north@example.org is that of managers in the cells main, north.",
            "The users with the id 501 in the cells main, north have different addresses.",
            "The address c@example.org is that of several users in the cells main, north.",
        ]
    finally:
        two.main.execute("delete from customer where customer_id = $1", customer)
        two.main.execute("delete from manager where manager_id = $1", manager)
        for sql in (two.main, two.north):
            sql.execute("delete from person where user_id between 501 and 504")


# The cell of a command


def test_a_customer_leads_to_its_cell_by_id_and_by_name(two: TwoCells) -> None:
    operator, (customer, other) = two.operator, two.customers
    assert (customer, other) == (1, FIRST)
    assert operator.value("sdk-key", "add", "--customer", other)["id"] == 1
    assert two.north.value("select count(*) from sdk_key") == 1 and two.main.value("select count(*) from sdk_key") == 0
    assert operator.value("customer", "change", "Fleet of north", "--name", "Northern fleet") == {"id": other}
    assert operator.value("customer", "change", other, "--name", "Fleet of north") == {"id": other}
    assert operator.value("manager", "change", "north@example.org", "--new-password")["id"] == two.managers[1]
    assert operator.value("manager", "change", two.managers[1], "--new-password")["id"] == two.managers[1]
    assert operator.value("client", "change", two.clients[1], "--name", "Client of north")["id"] == two.clients[1]


def test_a_customer_that_was_moved_is_found_in_its_cell(two: TwoCells) -> None:
    two.north.execute("insert into customer (customer_id, name) overriding system value values (77, 'Moved')")
    try:
        assert two.operator.value("customer", "change", 77, "--name", "Moved again") == {"id": 77}
        assert two.north.value("select name from customer where customer_id = 77") == "Moved again"
    finally:
        two.north.execute("delete from customer where customer_id = 77")


def test_a_customer_that_is_nowhere_or_twice_is_an_error(two: TwoCells) -> None:
    refused = two.operator.refused
    assert refused("customer", "remove", 99) == "keyrack: Cell main: There is no customer 99.\n"
    unknown = FIRST + 98
    assert refused("customer", "remove", unknown) == f"keyrack: Cell north: There is no customer {unknown}.\n"
    far = 40 * IDS_PER_CELL
    assert refused("customer", "remove", far) == f"keyrack: Cell main: There is no customer {far}.\n"
    assert refused("customer", "remove", "No fleet") == (
        "keyrack: There is no customer 'No fleet' in the cells main, north.\n"
    )
    twice = [two.operator.value("customer", "add", "Twice", "--cell", cell)["id"] for cell in ("main", "north")]
    assert refused("customer", "remove", "Twice") == (
        "keyrack: Customer 'Twice' is in the cells main, north. Choose one with --cell.\n"
    )
    assert two.operator.value("customer", "remove", "Twice", "--cell", "north") == {"id": twice[1]}
    assert two.operator.value("customer", "remove", "Twice") == {"id": twice[0]}


def test_an_id_in_two_cells_needs_a_cell(two: TwoCells) -> None:
    """The rows of a restored cell have moved to another cell since."""
    operator, (customer, manager, client) = two.operator, (two.customers[1], two.managers[1], two.clients[1])
    stale = (
        ("insert into customer (customer_id, name) overriding system value values ($1, 'Stale')", customer),
        (
            "insert into manager (manager_id, username, address_form) overriding system value values ($1, 'x', 'x')",
            manager,
        ),
        ("insert into client (client_id, name) values ($1, 'Stale')", client),
    )
    for statement, id in stale:
        two.main.execute(statement, id)
    twice = "is in the cells main, north. Choose one with --cell."
    try:
        for arguments in (
            ("customer", "change", customer, "--name", "X"),
            ("customer", "remove", "--everything", customer, "--dry-run"),
            ("manager", "change", manager, "--disable"),
            ("client", "change", client, "--disable"),
            ("sdk-key", "add", "--customer", customer),
        ):
            assert twice in operator.refused(*arguments), arguments
        assert two.main.value("select name from customer where customer_id = $1", customer) == "Stale"
        assert two.north.value("select name from customer where customer_id = $1", customer) == "Fleet of north"
        remove = ("customer", "remove", "--everything", customer, "--cell", "main")
        status, text, _ = operator.quick(*remove, "--dry-run")
        assert status == 0 and text.startswith(f"This would remove customer {customer} (Stale) in cell main.")
        assert operator.value(*remove, "--dry-run")["cell"] == "main"
        assert "(Stale) in cell main." in operator.refused(*remove)
        assert operator.value("manager", "remove", manager, "--cell", "main") == {"id": manager}
        assert operator.value("client", "remove", client, "--cell", "main") == {"id": client}
        assert operator.value(*remove, "--yes") == {"id": customer}
    finally:
        for table, id in (("customer", customer), ("manager", manager), ("client", client)):
            two.main.execute(f"delete from {table} where {table}_id = $1", id)
    assert faults(operator) == []


def test_a_user_name_leads_to_its_cell(two: TwoCells) -> None:
    for command in ("sign-out", "reset-factors", "reset-password", "prove"):
        status, _, errors = two.operator.quick("manager", command, "North@example.org", "--json")
        assert (status, errors) == (0, "keyrack: This is cell north.\n"), command
    assert two.north.value("select sign_outs from manager where manager_id = $1", two.managers[1]) >= 2
    assert two.operator.refused("manager", "sign-out", "nobody@example.org") == (
        "keyrack: There is no manager 'nobody@example.org' in the cells main, north.\n"
    )


def test_a_result_names_the_cell_that_an_id_has_led_to(two: TwoCells) -> None:
    status, text, errors = two.operator.quick("customer", "change", two.customers[1], "--name", "Fleet of north")
    assert (status, text, errors) == (0, f"Customer {two.customers[1]} changed.\n", "keyrack: This is cell north.\n")
    preview = two.operator.value("customer", "remove", "--everything", two.customers[1], "--dry-run")
    assert preview["cell"] == "north"


@pytest.mark.parametrize("noun", ["api-key", "sdk-key", "device-key"])
def test_a_key_is_revoked_in_all_cells(two: TwoCells, noun: str) -> None:
    operator, table, hash = two.operator, noun.replace("-", "_"), noun.encode()
    columns = {"api_key": "(name, hash) values ('k', $1)"}.get(
        table, "(customer_id, name, hash) values ((select min(customer_id) from customer), 'k', $1)"
    )
    add = f"insert into {table} {columns} returning {table}_id"
    two.north.execute(f"insert into {table} {columns}", b"another")  # so that the ids differ
    id, copy = two.main.value(add, hash), two.north.value(add, hash)
    is_revoked = f"select revoked_at is not null from {table} where {table}_id = $1"
    outage = CellsOperator(operator.dsn, [away(operator.cells[0])])
    status, output, errors = outage.quick(noun, "revoke", id, "--json")
    assert status == 1 and json.loads(output) == {"id": id, "cells": ["main"], "failed": ["north"]}
    assert "Cell north: The database cannot be reached" in errors
    assert f"{id} was not revoked in north, and may be valid there. It is revoked in cell main." in errors
    assert two.main.value(is_revoked, id) and not two.north.value(is_revoked, copy)
    two.main.execute(f"update {table} set revoked_at = null")
    status, output, errors = outage.quick(noun, "revoke", id, "--cell", "main", "--json")
    assert status == 0 and json.loads(output) == {"id": id, "cells": ["main"], "failed": ["north"]}
    assert f"{id} was not looked for in north, which did not answer" in errors
    status, _, _ = outage.quick(noun, "revoke", copy, "--cell", "north")
    assert status == 1 and not two.north.value(is_revoked, copy)
    assert operator.value(noun, "revoke", id) == {"id": id, "cells": ["north"]}
    assert two.north.value(is_revoked, copy)
    status, _, errors = operator.quick(noun, "revoke", id)
    assert status == 1 and f"{id} was already revoked at 20" in errors
    two.main.execute(f"update {table} set revoked_at = null")
    two.north.execute(f"update {table} set revoked_at = null")
    status, text, _ = operator.quick(noun, "revoke", copy, "--cell", "north")
    assert status == 0 and text.endswith(f" {copy} revoked in the cells main, north.\n")
    for sql in (two.main, two.north):
        sql.execute(f"delete from {table}")


def test_an_unknown_cell_is_an_error(two: TwoCells) -> None:
    assert two.operator.refused("customer", "list", "--cell", "south") == (
        "keyrack: There is no cell south. The cells are main, north.\n"
    )


def test_an_account_works_for_customers_of_one_cell(two: TwoCells) -> None:
    customer, other = two.customers
    both = ("--customer", customer, "--customer", other)
    said = two.operator.refused("manager", "add", "both@example.org", *both, "--role", "owner")
    assert said.startswith(f"keyrack: Customer {customer} and customer {other} are in the cells main, north.")
    assert "run it once in each" in said
    said = two.operator.refused("manager", "change", two.managers[0], "--customer", other, "--role", "owner")
    assert said.startswith(f"keyrack: Manager {two.managers[0]} and customer {other} are in the cells main, north.")
    assert two.operator.refused("client", "add", "Both", *both, "--scope", "cars:read")


def test_a_command_without_customer_works_in_cell_main_and_says_so(two: TwoCells) -> None:
    status, _, errors = two.operator.quick("api-key", "add", "Everybody", "--json")
    assert (status, errors) == (0, NOTE) and two.main.value("select count(*) from api_key") == 1
    status, _, errors = two.operator.quick("api-key", "add", "North", "--cell", "north", "--json")
    assert (status, errors) == (0, "") and two.north.value("select count(*) from api_key") == 1


def test_a_new_customer_goes_to_the_cell_with_the_fewest(two: TwoCells) -> None:
    operator = two.operator
    made = [operator.value("customer", "add", f"New {number}") for number in range(4)]
    assert sorted(row["cell"] for row in made) == ["main", "main", "north", "north"]
    assert all((row["id"] >= FIRST) == (row["cell"] == "north") for row in made)
    status, text, _ = operator.quick("customer", "add", "New 4", "--cell", "north")
    assert status == 0 and text.endswith(" added. Its cell is north.\n")
    (fifth,) = [row["id"] for row in operator.value("customer", "list") if row["name"] == "New 4"]
    for id in [*(row["id"] for row in made), fifth]:
        operator.value("customer", "remove", id)


def test_lists_show_all_cells_or_one(two: TwoCells) -> None:
    operator = two.operator
    for noun, ids in (("customer", two.customers), ("manager", two.managers), ("client", two.clients)):
        rows = operator.value(noun, "list")
        assert [(row["id"], row["cell"]) for row in rows] == list(zip(ids, ("main", "north"), strict=True)), noun
        assert [row["id"] for row in operator.value(noun, "list", "--cell", "north")] == [ids[1]]
    assert [row["id"] for row in operator.value("client", "list", "--customer", two.customers[1])] == [two.clients[1]]
    table = operator.quick("customer", "list")[1]
    assert table.splitlines()[0].endswith("CELL") and table.splitlines()[2].endswith("north")


def test_a_list_without_a_cell_that_is_away_is_not_complete(two: TwoCells) -> None:
    operator = CellsOperator(two.operator.dsn, [away(two.operator.cells[0])])
    status, output, errors = operator.quick("customer", "list", "--json")
    assert status == 1 and [row["cell"] for row in json.loads(output)] == ["main"]
    first, last = errors.splitlines()
    assert (
        first.startswith("Cell north: The database cannot be reached") and last == "keyrack: The list is not complete."
    )


def test_with_a_cell_away_only_what_is_certain_is_done(two: TwoCells) -> None:
    operator = CellsOperator(two.operator.dsn, [away(two.operator.cells[0])])
    customer, other = two.customers
    status, _, errors = operator.quick("customer", "change", customer, "--name", "Fleet of main")
    assert (status, errors) == (
        0,
        f"keyrack: Customer {customer} was not looked up in cell north: no answer.\nkeyrack: This is cell main.\n",
    )
    assert "cannot be looked up: cell north cannot be used" in operator.refused("customer", "remove", other)
    assert "cannot be looked up" in operator.refused("customer", "change", "Fleet of main", "--name", "X")
    status, output, errors = operator.quick("customer", "add", "Elsewhere", "--json")
    assert status == 0 and "Cell north cannot be used" in errors and json.loads(output)["cell"] == "main"
    operator.value("customer", "remove", json.loads(output)["id"])


def test_a_database_of_another_cell_is_not_used(two: TwoCells) -> None:
    operator = CellsOperator(two.operator.dsn, [two.operator.cells[0] | {"number": 2}])
    assert "says that it is cell 1, north, but the settings say 2" in operator.refused(
        "customer", "add", "Wrong", "--cell", "north"
    )
