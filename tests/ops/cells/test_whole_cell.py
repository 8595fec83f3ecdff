"""The database of a cell moves, also to a newer PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from keyrack.core.settings import Cell, Settings
from keyrack.db.embedded.server import EmbeddedServer
from keyrack.ops.cells import whole_cell
from keyrack.ops.cells.side import EVERY_CUSTOMER, MoveRefused, Side, open_side
from keyrack.ops.cells.whole_cell import MovedCell
from tests.ops.cells.conftest import OPTIONS, RunningCell
from tests.ops.cells.moves import ignore, signed_in
from tests.support.people import Town
from tests.support.servers import RunningServer, Sql, fresh_database, migrated_database, reachable_directory

OLD = Path("/usr/lib/postgresql/15/bin")
T = TypeVar("T")


def with_databases(source: str, target: str, settings: Settings, work: Callable[[Side, Side], Awaitable[T]]) -> T:
    cell = Cell(0, "main", settings)

    async def run() -> T:
        async with open_side(cell, source, EVERY_CUSTOMER) as one, open_side(cell, target, EVERY_CUSTOMER) as other:
            return await work(one, other)

    return asyncio.run(run())


def move(source: str, target: str, settings: Settings, *, is_switch: bool = True) -> MovedCell:
    return with_databases(
        source, target, settings, lambda one, other: whole_cell.move_cell(one, other, ignore, is_switch=is_switch)
    )


@pytest.fixture
def empty(logical_server: str) -> Iterator[str]:
    with fresh_database(logical_server) as dsn:
        yield dsn


def check_move(source: str, target: str, settings: Settings) -> None:
    """Move a database with a customer, and check both databases."""
    with RunningServer(settings, source) as server:
        sql = Sql(source)
        alice = Town(sql, server).person("alice")
        car, user = alice.car_with_box(), alice.user()
        assignment = alice.assignment(car, user)
        assert not move(source, target, settings, is_switch=False).is_switched
        second = alice.car("Second")  # nothing is held yet
        epoch = alice.get("/changes?$top=0").headers["changes-epoch"]
        sql.close()
        assert move(source, target, settings).is_switched
        answer = alice.put("/cars", {"name": "Third"})
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        with RunningServer(settings, target) as other:
            sql = Sql(target)
            there = signed_in(alice, RunningCell(Cell(0, "main", settings), target, other, sql, Town(sql, other)))
            assert [row["id"] for row in there.get("/cars").json()] == [car, second]
            assert there.assignment(car, user, "2026-02-01T08:00:00Z") > assignment
            assert there.get("/changes?$top=0").headers["changes-epoch"] == epoch
            sql.close()


def test_a_database_moves_to_another_one(logical_server: str, empty: str, settings: Settings) -> None:
    with migrated_database(logical_server) as source:
        check_move(source, empty, settings)
        with pytest.raises(MoveRefused, match="taken over"):
            with_databases(source, empty, settings, whole_cell.undo_cell)
        with_databases(source, source, settings, lambda side, _: whole_cell.finish_cell(side))


def test_an_undone_move_leaves_the_source_writable_and_the_target_empty(
    logical_server: str, empty: str, settings: Settings
) -> None:
    with migrated_database(logical_server) as source:
        sql = Sql(source)
        sql.execute("insert into customer (name) values ('One')")
        move(source, empty, settings, is_switch=False)
        with_databases(source, empty, settings, whole_cell.undo_cell)
        sql.execute("insert into customer (name) values ('Two')")
        sql.close()
        target = Sql(empty)
        assert target.value("select count(*) from customer") == 0
        target.close()


def test_a_database_with_rows_is_no_target(logical_server: str, settings: Settings) -> None:
    with migrated_database(logical_server) as source, migrated_database(logical_server) as target:
        sql = Sql(target)
        sql.execute("insert into customer (name) values ('One')")
        sql.close()
        with pytest.raises(MoveRefused, match="has rows already"):
            move(source, target, settings)


@pytest.mark.cluster
@pytest.mark.skipif(not OLD.exists(), reason="no PostgreSQL 15 of the system")
def test_a_database_moves_to_the_next_major_version(empty: str, settings: Settings) -> None:
    with (
        reachable_directory() as state,
        EmbeddedServer(state, bin_dir=OLD, options=OPTIONS) as old,
        migrated_database(old.dsn) as source,
    ):
        check_move(source, empty, settings)
