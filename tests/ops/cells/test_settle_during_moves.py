"""`keyrack backup settle` in cells that are moving customers."""

from __future__ import annotations

from typing import Any

import pytest

from keyrack.ops.backups.post_restore import JUMP
from tests.cli.test_operator_commands import Operator
from tests.ops.cells.conftest import RunningCell, TwoCells
from tests.ops.cells.moves import finish, move, signed_in, undo
from tests.ops.cells.test_move_customer import interrupted_move
from tests.support.people import Person
from tests.support.servers import eventually

pytestmark = pytest.mark.cluster


def settle(cells: TwoCells, cell: RunningCell) -> Any:
    operator = Operator(cells.main.dsn)
    return operator.value("backup", "settle", "--cell", cell.cell.name, env=cells.environment)["notAdvanced"]


def newest_event(cell: RunningCell, person: Person) -> int:
    return cell.sql.value("select last_id from event_counter where customer_id = $1", person.customer)


def states(cell: RunningCell) -> list[Any]:
    """The moves of a cell, which a settlement does not change."""
    return cell.sql.rows("select * from cell_move order by move_id")


def test_both_cells_are_settled_while_moves_are_open(cells: TwoCells) -> None:
    """Only the cell that writes a customer advances its rows."""
    stays, copied, held, moved = (cells.main.town.person(name) for name in ("stays", "copied", "held", "moved"))
    for person in (stays, copied, held, moved):
        person.event(person.car(), person.user())
    interrupted_move(cells, copied.customer, "copied")
    interrupted_move(cells, held.customer, "held")
    move(cells.main, cells.east, moved.customer)
    people = (stays, copied, held, moved)
    eventually(lambda: newest_event(cells.east, held) == newest_event(cells.main, held), "the copy of the last event")
    before = {
        cell.cell.name: (states(cell), [newest_event(cell, one) for one in people]) for cell in (cells.main, cells.east)
    }

    # In the target, the customers of the first two moves are copies
    assert settle(cells, cells.east) == []
    assert states(cells.east) == before["east"][0]
    *copies, there = before["east"][1]
    assert [newest_event(cells.east, one) for one in people] == [*copies, there + JUMP]
    assert settle(cells, cells.main) == []
    assert states(cells.main) == before["main"][0]
    *own, left = before["main"][1]
    assert [newest_event(cells.main, one) for one in people] == [*(number + JUMP for number in own), left]

    # A held customer stays held, and each move continues
    assert signed_in(held, cells.main).put("/cars", {"name": "Second"}).status_code == 503
    undo(cells.main, cells.east, copied.customer)
    move(cells.main, cells.east, held.customer)
    for person, cell in ((stays, cells.main), (copied, cells.main), (held, cells.east), (moved, cells.east)):
        again = signed_in(person, cell)
        assert again.event(again.car("Third"), again.user()) > JUMP, person.name
    for person in (held, moved):
        finish(cells.main, cells.east, person.customer)
    # The newest move decides: an undone one says nothing about a customer that was moved later
    interrupted_move(cells, stays.customer, "copied")
    undo(cells.main, cells.east, stays.customer)
    move(cells.main, cells.east, stays.customer)
    finish(cells.main, cells.east, stays.customer)
    number = newest_event(cells.east, stays)
    assert settle(cells, cells.east) == []
    assert newest_event(cells.east, stays) == number + JUMP
