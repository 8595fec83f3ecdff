"""`migrate`, `status` and `doctor` with several cells."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from keyrack.db import schema_version
from keyrack.db.migrations import revisions
from tests.cli.commands.test_cells import CellsOperator, away
from tests.support.servers import Sql, fresh_database, migrated_database

HEAD = schema_version.head()
SET_REVISION = "update alembic_version set version_num = $1"


@pytest.fixture(scope="module")
def operator(database_server: str) -> Iterator[CellsOperator]:
    with migrated_database(database_server) as main, migrated_database(database_server) as north:
        operator = CellsOperator(main, [])
        assert operator.quick("cells", "add", "north", "--url", north)[0] == 0
        operator.cells = [{"name": "north", "number": 1, "url": north}]
        yield operator


@pytest.fixture
def empty(database_server: str) -> Iterator[str]:
    with fresh_database(database_server) as dsn:
        yield dsn


@pytest.fixture
def newer_north(operator: CellsOperator) -> Iterator[None]:
    """A newer, incompatible release has migrated cell north."""
    sql = Sql(operator.cells[0]["url"])
    oldest = sql.value("select oldest_revision from compatibility")
    sql.execute(SET_REVISION, "9999")
    sql.execute("update compatibility set oldest_revision = '9999'")
    yield
    sql.execute(SET_REVISION, HEAD)
    sql.execute("update compatibility set oldest_revision = $1", oldest)
    sql.close()


def ran(operator: CellsOperator, *arguments: object) -> tuple[int, Any, str]:
    """Exit status, JSON and standard error of a command."""
    status, output, errors = operator.quick(*arguments, "--json")
    return status, json.loads(output), errors


def test_all_cells_are_migrated_with_main_first(operator: CellsOperator) -> None:
    status, value, errors = ran(operator, "migrate")
    assert (status, value) == (0, {"cells": [{"cell": name, "revision": HEAD} for name in ("main", "north")]})
    assert errors == "keyrack: Migrating cell main.\nkeyrack: Migrating cell north.\n"


def test_one_cell_is_migrated_as_a_canary(operator: CellsOperator) -> None:
    status, value, errors = ran(operator, "migrate", "--cell", "north")
    assert (status, value["cells"]) == (0, [{"cell": "north", "revision": HEAD}])
    assert errors == "keyrack: Migrating cell north.\n"
    assert "There is no cell south. The cells are main, north." in operator.refused("migrate", "--cell", "south")


def test_a_failing_cell_stops_the_others(operator: CellsOperator, newer_north: None) -> None:
    last = {"name": "south", "number": 2, "url": operator.cells[0]["url"] + "&application_name=south"}
    three = CellsOperator(operator.dsn, [*operator.cells, last])
    status, value, errors = ran(three, "migrate")
    assert status == 1 and value == {"cells": [{"cell": "main", "revision": HEAD}], "failed": "north"}
    assert "Cell north: The database's schema is at revision 9999" in errors
    assert errors.endswith("Migrated: main. Not migrated: north, south.\n") and "Migrating cell south" not in errors


def test_a_database_that_is_not_the_cell_is_not_migrated(operator: CellsOperator, empty: str) -> None:
    other = CellsOperator(operator.dsn, [operator.cells[0] | {"url": empty}])
    status, value, errors = ran(other, "migrate")
    assert (status, value["failed"]) == (1, "north") and "Run `keyrack cells add north`" in errors
    sql = Sql(empty)
    assert sql.value("select to_regclass('alembic_version')") is None
    sql.close()
    wrong = CellsOperator(operator.dsn, [operator.cells[0] | {"number": 2}])
    assert "says that it is cell 1, north, but the settings say 2" in ran(wrong, "migrate")[2]


def test_the_worst_status_of_a_check_wins(operator: CellsOperator, newer_north: None) -> None:
    status, value, _ = ran(operator, "migrate", "--check")
    assert status == 5 and [(row["cell"], row["state"]) for row in value["cells"]] == [
        ("main", "current"), ("north", "too-new"),
    ]  # fmt: skip
    assert ran(operator, "migrate", "--check", "--cell", "main")[0] == 0
    status, text, _ = operator.quick("migrate", "--check")
    assert text.startswith(f"Cell main: The schema is at revision {HEAD}, and up to date.\nCell north: ")


def test_a_cell_that_is_away_fails_a_check(operator: CellsOperator) -> None:
    status, value, _ = ran(CellsOperator(operator.dsn, [away(operator.cells[0])]), "migrate", "--check")
    assert status == 1 and "cannot be reached" in value["cells"][1]["error"]
    assert value["cells"][0]["state"] == "current"


def test_a_plan_names_the_revisions_of_each_cell(operator: CellsOperator) -> None:
    sql = Sql(operator.cells[0]["url"])
    sql.execute(SET_REVISION, revisions()[-2])
    try:
        status, value, _ = ran(operator, "migrate", "--plan")
        assert status == 0 and [len(row["steps"]) for row in value["cells"]] == [0, 1]
        assert ran(operator, "migrate", "--check")[0] == 3
    finally:
        sql.execute(SET_REVISION, HEAD)
        sql.close()


def test_status_reports_every_cell(operator: CellsOperator) -> None:
    _, value, errors = ran(operator, "status")
    assert (list(value), errors) == (["verdict", "keyrack", "cells"], "")
    assert [row["cell"] for row in value["cells"]] == ["main", "north"]
    assert [row["schema"]["revision"] for row in value["cells"]] == [HEAD, HEAD]
    single = ran(CellsOperator(operator.dsn, []), "status")[1]
    assert value["cells"][0].keys() == {"cell", *single}
    text = operator.quick("status")[1]
    assert "\nCell main\n" in text and "\nCell north\n" in text
    assert [row["cell"] for row in ran(operator, "status", "--cell", "north")[1]["cells"]] == ["north"]


def test_status_names_a_cell_that_is_away(operator: CellsOperator) -> None:
    other = CellsOperator(operator.dsn, [away(operator.cells[0])])
    status, value, _ = ran(other, "status")
    assert (status, value["verdict"]) == (3, "unknown")
    assert "cannot be reached" in value["cells"][1]["why"] and value["cells"][0]["schema"]["revision"] == HEAD
    assert other.quick("status")[1].startswith("UNKNOWN: Cell north: The database at 127.0.0.1")


def test_doctor_examines_every_cell(operator: CellsOperator) -> None:
    def checks(operator: CellsOperator) -> list[tuple[str, str, str]]:
        found = ran(operator, "doctor")[1]["checks"]
        return [(row["subject"], row["check"], row["result"]) for row in found]

    found = checks(operator)
    for name in ("main", "north"):
        assert (f"Database of cell {name}", "number", "ok") in found
        assert (f"Database of cell {name}", "rights", "ok") in found
    found = checks(CellsOperator(operator.dsn, [away(operator.cells[0])]))
    assert ("Database of cell north", "database", "fault") in found
    assert ("Database of cell main", "rights", "ok") in found
    assert any(subject == "Reachability" for subject, _, _ in found)


def test_a_backup_is_one_of_cell_main(operator: CellsOperator) -> None:
    assert operator.refused("backup", "list", "--cell", "north") == (
        "keyrack: Cell north is not an embedded database. Use the backup tool of its server (docs/backups.md).\n"
    )
