"""A switch compares every row, and holds writes for moments only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from keyrack.ops.cells import compared_switch
from keyrack.ops.cells.side import MoveRefused
from tests.ops.cells.conftest import RunningCell, TwoCells
from tests.ops.cells.moves import finish, move, signed_in, undo
from tests.support.people import Person
from tests.support.servers import Sql, eventually

DIFFERENCES = {
    "changed": "update car set name = 'Other' where customer_id = $1",
    "missing": "delete from car where customer_id = $1",
    "added": """
    insert into car select (jsonb_populate_record(null::car, to_jsonb(c) || '{"car_id": 2000000000}')).*
    from car c where customer_id = $1
    """,
}
READERS = """
select count(*) from pg_stat_activity where application_name = 'keyrack move' and datname = current_database()
"""
RECORDED = "select count(*) from cell_move_changed_row"
RECORDERS = "select count(*) from pg_trigger where tgname like 'record_move_%'"
RENAME = [{"op": "replace", "path": "/name", "value": "Renamed"}]


class Steps:
    """A reporter that acts once, at the first step that fits."""

    def __init__(self, fits: Callable[[Mapping[str, Any]], bool], act: Callable[[], object]) -> None:
        self._fits, self._act = fits, act
        self._has_acted = False
        self.names: list[str] = []

    def __call__(self, step: Mapping[str, Any]) -> None:
        self.names.append(step["step"])
        if not self._has_acted and self._fits(step):
            self._has_acted = True
            self._act()


def is_copied(step: Mapping[str, Any]) -> bool:
    """Whether all rows are copied, and no write is held yet."""
    return step["step"] == "copied" and step["tables"] == step["of"]


def is_released(step: Mapping[str, Any]) -> bool:
    """Whether the first hold has ended; the comparison of all rows follows."""
    return step["step"] == "released"


@contextmanager
def as_replication(cell: RunningCell) -> Iterator[Sql]:
    """A session whose writes run only the triggers of replicated rows."""
    sql = Sql(cell.dsn)
    try:
        sql.execute("set session_replication_role = replica")
        yield sql
    finally:
        sql.close()


def refused_move(cells: TwoCells, alice: Person, steps: Steps, message: str) -> None:
    """The move is refused. The customer then works in the source, and the move can be undone."""
    with pytest.raises(MoveRefused, match=message):
        move(cells.main, cells.east, alice.customer, steps)
    assert alice.car("After the refusal") > 0
    undo(cells.main, cells.east, alice.customer)
    for cell in (cells.main, cells.east):
        assert [cell.sql.value(sql) for sql in (RECORDED, RECORDERS)] == [0, 0]


@pytest.mark.parametrize("difference", DIFFERENCES)
@pytest.mark.parametrize(("moment", "holds"), [(is_copied, 1), (is_released, 2)])
def test_a_row_that_differs_is_found(
    cells: TwoCells, difference: str, moment: Callable[[Mapping[str, Any]], bool], holds: int
) -> None:
    alice = cells.main.town.person("alice")
    alice.car("First")

    def change_target() -> None:
        with as_replication(cells.east) as sql:
            sql.execute(DIFFERENCES[difference], alice.customer)

    steps = Steps(moment, change_target)
    refused_move(cells, alice, steps, "The rows of car differ between the cells main and east")
    assert steps.names.count("held") == holds
    assert "switched" not in steps.names


def test_a_row_that_changed_after_the_comparison_is_compared_again(cells: TwoCells) -> None:
    """The target receives the change, and then another value."""
    alice = cells.main.town.person("alice")
    car = alice.car("First")
    name = "select name from car where customer_id = $1 and car_id = $2"

    def change_both() -> None:
        assert alice.patch(f"/cars/{car}", RENAME).status_code == 204
        with as_replication(cells.east) as sql:
            eventually(lambda: sql.value(name, alice.customer, car) == "Renamed", "the replicated change")
            sql.execute(DIFFERENCES["changed"], alice.customer)

    refused_move(cells, alice, Steps(is_released, change_both), "The rows of car differ")


def test_changes_during_the_comparison_reach_the_target(cells: TwoCells) -> None:
    alice, bob = cells.main.town.person("alice"), cells.main.town.person("bob")
    car, deleted = alice.car("First"), alice.car("Deleted")

    def write() -> None:
        alice.car("Added")
        assert alice.patch(f"/cars/{car}", RENAME).status_code == 204
        assert alice.delete(f"/cars/{deleted}").status_code == 204
        assert bob.car() > 0

    steps = Steps(is_released, write)
    moved = move(cells.main, cells.east, alice.customer, steps)
    assert steps.names.count("held") == len(moved.holds) == 2
    assert moved.held_seconds == max(moved.holds)
    there = signed_in(alice, cells.east)
    assert sorted(row["name"] for row in there.get("/cars").json()) == ["Added", "Renamed"]
    for cell in (cells.main, cells.east):
        assert [cell.sql.value(sql) for sql in (RECORDED, RECORDERS)] == [0, 0]
    finish(cells.main, cells.east, alice.customer)


def test_many_changes_are_compared_after_another_hold(cells: TwoCells, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compared_switch, "FEW_CHANGES", 0)
    alice = cells.main.town.person("alice")
    moved = move(cells.main, cells.east, alice.customer, Steps(is_released, lambda: alice.car("Added")))
    assert len(moved.holds) == 3
    assert [row["name"] for row in signed_in(alice, cells.east).get("/cars").json()] == ["Added"]
    finish(cells.main, cells.east, alice.customer)


def test_an_interrupted_comparison_leaves_no_session_and_is_repeated(cells: TwoCells) -> None:
    class Interrupted(Exception):
        pass

    def interrupt() -> None:
        raise Interrupted

    alice = cells.main.town.person("alice")
    with pytest.raises(Interrupted):
        move(cells.main, cells.east, alice.customer, Steps(is_released, interrupt))
    for cell in (cells.main, cells.east):
        eventually(lambda cell=cell: cell.sql.value(READERS) == 0, "the end of the snapshots")
    car = alice.car("Later")
    steps = Steps(lambda step: False, lambda: None)
    moved = move(cells.main, cells.east, alice.customer, steps)
    assert steps.names.count("compared") == moved.tables
    assert [row["id"] for row in signed_in(alice, cells.east).get("/cars").json()] == [car]
    finish(cells.main, cells.east, alice.customer)
