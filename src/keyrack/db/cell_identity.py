"""The number, the name and the range of ids of a cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString

from keyrack.core.cell_ids import id_range
from keyrack.core.settings import Cell
from keyrack.db.connection import Statements

READ: LiteralString = "select number, name from cell"
# A database with customers, accounts or persons has given ids already
HAS_ROWS: LiteralString = """
select exists (select from customer) or exists (select from manager) or exists (select from client)
  or exists (select from person)
"""
NUMBER: LiteralString = "update cell set number = $1, name = $2"
BOUND_IDS: LiteralString = "select bound_cell_ids($1, $2)"


class WrongCell(Exception):
    """The database is another cell than expected. The text is for operators."""


@dataclass(frozen=True, slots=True)
class CellIdentity:
    """The number and the name that a database has for itself."""

    number: int
    name: str


async def read_identity(statements: Statements) -> CellIdentity:
    """The cell in this database: cell 0, `main`, unless it was numbered."""
    (row,) = await statements.fetch(READ)
    return CellIdentity(row["number"], row["name"])


async def require_identity(statements: Statements, cell: Cell) -> None:
    """Raise `WrongCell` unless the database is this cell."""
    found = await read_identity(statements)
    if found.number != cell.number:
        raise WrongCell(
            f"The database of cell {cell.name} says that it is cell {found.number}, {found.name}, but the settings "
            f"say {cell.number}. Correct its number or its address in the settings, or number an empty database with "
            "`keyrack cells add`."
        )


async def require_numberable(statements: Statements, number: int) -> None:
    """Check that `number_cell` can number the database; changes nothing.

    Raises `WrongCell` if it is another numbered cell, or cell 0 with rows.
    """
    found = await read_identity(statements)
    if found.number != number and (found.number != 0 or await statements.fetchval(HAS_ROWS)):
        raise WrongCell(
            f"The database is already cell {found.number}, {found.name}, with ids of its range. Use an empty database "
            f"for cell {number}."
        )


async def number_cell(connection: Statements, number: int, name: str) -> None:
    """Number an empty database as a cell, and bound its ids.

    If the database is that cell already, it gets the name, and its ids are bounded. Raises `WrongCell` if it is another
    numbered cell, or cell 0 with rows.
    """
    await require_numberable(connection, number)
    await connection.execute(NUMBER, number, name)
    ids = id_range(number)
    await connection.execute(BOUND_IDS, ids.start, ids.stop - 1)
