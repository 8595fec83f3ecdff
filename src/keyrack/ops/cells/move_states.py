"""The state of a customer's move, as both cells know it.

A cell that is restored to an earlier time has an older state of the move than the other cell, and other customers. So
each command looks at both states, and at the cells that have the customer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import LiteralString, Protocol
from uuid import UUID

from keyrack.db.connection import Row
from keyrack.ops.cells.side import State

OPEN = ("copying", "held", "switched")
SWITCHED = ("switched", "finished")  # states of the target after the switch
# $1: a customer, or null for all
MOVES: LiteralString = """
select moved_customer, move_id, role, other_cell, state, started_at from cell_move
where moved_customer <> 0 and ($1::integer is null or moved_customer = $1)
"""
HERE: LiteralString = "select customer_id from customer where customer_id = any($1::integer[])"


class Reader(Protocol):
    """A connection to a cell."""

    async def fetch(self, sql: LiteralString, *args: object) -> list[Row]: ...


class Standing(Enum):
    """The place of the customer in a move, as problem and remedy.

    Both texts have the places `customer`, `source` and `target`.
    """

    BEFORE_SWITCH = (
        "Customer {customer} has not been switched to cell {target}.",
        "Complete its move with `keyrack cells move-customer {customer} --to {target}`, or end it with `keyrack cells "
        "undo {customer}`.",
    )
    HALF_KNOWN = (
        "Customer {customer} is in cell {source}, and a move to cell {target} is open in only one of the two cells.",
        "Run `keyrack cells undo {customer}`.",
    )
    IN_BOTH = (
        "Customer {customer} has been switched already, but cell {source} has it too. The rows of cell {target} are "
        "newer.",
        "Run `keyrack cells move-customer {customer} --to {target}` to complete the move.",
    )
    AFTER_SWITCH = (
        "Customer {customer} is in cell {target}, and its move is not finished.",
        "Run `keyrack cells finish {customer}`. Then the customer can move again.",
    )
    OLD_COPY = (
        "Customer {customer} is in both cells. Cell {target} was restored, so the rows of cell {source} are newer.",
        "Run `keyrack cells undo {customer}`. It removes the customer from cell {target}.",
    )
    OLD_TARGET = (
        "Cell {target} was restored to a time before the move of customer {customer}, so cell {source} has newer rows "
        "than cell {target}.",
        "To use the newer rows, run `keyrack cells undo {customer}`: it removes the customer from cell {target}. To "
        "delete them, run `keyrack cells finish {customer}`.",
    )
    LOST_IN_TARGET = (
        "Customer {customer} is in no cell: cell {target} was restored to a time before the switch. Cell {source} has "
        "the rows of the time of the switch.",
        "Run `keyrack cells undo {customer}`. Then the customer works in cell {source} with these rows. Later writes "
        "are lost.",
    )
    REMOVED = (
        "Customer {customer} was removed in cell {target} after its move, and cell {source} still has rows of it.",
        "Run `keyrack cells finish {customer}` to delete them.",
    )
    LOST = (
        "Customer {customer} is in no cell: cell {target} was restored to a time before the switch, and the rows in "
        "cell {source} are deleted.",
        "Restore cell {target} to a time after the switch. To give the customer up, run `keyrack cells finish "
        "{customer}`.",
    )
    GONE = (
        "Customer {customer} is in no cell, and its move to cell {target} is open.",
        "Run `keyrack cells undo {customer}`.",
    )


@dataclass(frozen=True, slots=True)
class KnownMove:
    """A move of a customer, and where the customer is. A state is None in a cell that does not know the move."""

    id: UUID
    customer: int
    source: str
    target: str
    source_state: State | None
    target_state: State | None
    started_at: datetime
    in_source: bool
    in_target: bool

    @property
    def is_open(self) -> bool:
        """Whether a cell has not ended the move."""
        return self.source_state in OPEN or self.target_state in OPEN

    @property
    def is_settled(self) -> bool:
        """Whether both cells have ended the move in the same way. An undone one may be unknown in one cell."""
        states = {self.source_state, self.target_state}
        return states == {"finished"} or states <= {"undone", None}

    @property
    def is_in_progress(self) -> bool:
        """Whether the move has begun, and has not been switched or undone."""
        return self.source_state in ("copying", "held") and self.target_state in ("copying", None)

    @property
    def standing(self) -> Standing:
        """The place of the customer."""
        if self.in_source and not self.in_target:
            return Standing.BEFORE_SWITCH if self.is_in_progress else Standing.HALF_KNOWN
        has_switched = self.target_state in SWITCHED
        if self.in_source:
            return Standing.IN_BOTH if has_switched else Standing.OLD_COPY
        if self.in_target:
            is_old = self.source_state == "switched" and not has_switched
            return Standing.OLD_TARGET if is_old else Standing.AFTER_SWITCH
        if has_switched:
            return Standing.REMOVED
        return {"switched": Standing.LOST_IN_TARGET, "finished": Standing.LOST}.get(
            self.source_state or "", Standing.GONE
        )

    @property
    def problem(self) -> str:
        """The place of the customer, as a sentence."""
        return self._filled(self.standing.value[0])

    @property
    def remedy(self) -> str:
        """The commands that solve the problem."""
        return self._filled(self.standing.value[1])

    def _filled(self, text: str) -> str:
        return text.format(customer=self.customer, source=self.source, target=self.target)


async def read_moves(cells: Mapping[str, Reader], customer: int | None = None) -> dict[int, KnownMove]:
    """The newest move of each customer that still counts.

    It is open, or it has left the customer in both cells or in none.
    `cells` are the connections by name. Moves from or to other cells are left out.
    """
    rows = {cell: await reader.fetch(MOVES, customer) for cell, reader in cells.items()}
    customers = list({row["moved_customer"] for known in rows.values() for row in known})
    here = {cell: {row[0] for row in await reader.fetch(HERE, customers)} for cell, reader in cells.items()}
    everywhere = set[int]().union(*here.values())
    moves: dict[int, KnownMove] = {}
    for move in sorted(_combined(rows, here), key=lambda move: move.started_at):
        if _counts(move, everywhere):
            moves[move.customer] = move
    return moves


def _counts(move: KnownMove, everywhere: set[int]) -> bool:
    """Whether the move is open, or has left a problem. `everywhere`: the customers of all cells."""
    if move.is_open or move.is_settled:
        return move.is_open
    return move.standing is Standing.IN_BOTH or (move.standing is Standing.LOST and move.customer not in everywhere)


def _combined(rows: Mapping[str, Sequence[Row]], here: Mapping[str, set[int]]) -> list[KnownMove]:
    """One move for the rows of both cells."""
    of_source: dict[UUID, tuple[str, Row]] = {}
    of_target: dict[UUID, tuple[str, Row]] = {}
    for cell, known in rows.items():
        for row in known:
            (of_source if row["role"] == "source" else of_target)[row["move_id"]] = cell, row
    moves: list[KnownMove] = []
    for id in of_source | of_target:
        one, other = of_source.get(id), of_target.get(id)
        row = (one or of_target[id])[1]
        source, target = one[0] if one else row["other_cell"], other[0] if other else row["other_cell"]
        if source not in rows or target not in rows:
            continue
        customer = row["moved_customer"]
        move = KnownMove(
            id=id, customer=customer, source=source, target=target,
            source_state=one[1]["state"] if one else None, target_state=other[1]["state"] if other else None,
            started_at=row["started_at"], in_source=customer in here[source], in_target=customer in here[target],
        )  # fmt: skip
        moves.append(move)
    return moves
