"""The choice of the cells in which a command works.

`--cell` names one. Otherwise a row in the options leads to its cell, or there is a default. Customers, managers and
machine clients have ids that no two cells give. But a restored cell can have a row that has moved to another cell
since. All other ids and names may be in two cells.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto
from typing import Annotated, Any, LiteralString, cast

import asyncpg
import typer

from keyrack.cli import name_lookup
from keyrack.cli.database_opening import open_database
from keyrack.cli.name_lookup import NOUNS, ManagerName, Reference
from keyrack.cli.output import CommandFailed
from keyrack.core.cell_ids import cell_of_id
from keyrack.core.errors import Unavailable
from keyrack.core.settings import Cell, Settings
from keyrack.db.cell_identity import WrongCell
from keyrack.db.connection import UNREACHABLE
from keyrack.db.embedded.server import EmbeddedServerError
from keyrack.db.schema_version import SchemaError

CellName = Annotated[
    str | None,
    typer.Option("--cell", metavar="NAME", help="Use this cell. Default: the customer's cell, otherwise main."),
]

UNIQUE_NOUNS = ("customer", "manager", "client")  # their ids are unique over all cells
COUNT: LiteralString = "select count(*) from customer"
# Errors of a cell that is away, or that is not what the settings say
UNUSABLE = (
    CommandFailed,
    Unavailable,
    SchemaError,
    EmbeddedServerError,
    WrongCell,
    asyncpg.PostgresError,
    TimeoutError,
    *UNREACHABLE,
)
TWO_CELLS = (
    "{first} and {second} are in the cells {cells}. A command works in one cell, and an account works for customers of "
    "one cell: run it once in each, with another name for a second account."
)


class DefaultCell(Enum):
    """The cells of a command whose options lead to none."""

    MAIN = auto()
    ALL = auto()  # a list of the rows of all cells
    FEWEST_CUSTOMERS = auto()


def named_cell(settings: Settings, name: str | None) -> Cell:
    """The cell with this name, or cell 0 for None. Raises `CommandFailed`."""
    cells = settings.all_cells
    for cell in cells:
        if name in (None, cell.name):
            return cell
    if not settings.cells:
        raise CommandFailed(f"There is no cell {name}: no cells are configured, so the only one is main.")
    raise CommandFailed(f"There is no cell {name}. The cells are {names(cells)}.")


def names(cells: Sequence[Cell]) -> str:
    """The names of cells for a sentence."""
    return ", ".join(cell.name for cell in cells)


async def cells_of_call(
    settings: Settings, name: str | None, options: Mapping[str, Any], default: DefaultCell = DefaultCell.MAIN
) -> Sequence[Cell]:
    """The cells in which a command works. Only a list with `DefaultCell.ALL` has several.

    Raises `CommandFailed` if there is no such cell, or if the options lead to two.
    """
    if name is not None or not settings.cells:
        return [named_cell(settings, name)]
    if references := list(_references(options.values())):
        return [await _cell_of_all(settings.all_cells, references)]
    if default is DefaultCell.ALL:
        return settings.all_cells
    if default is DefaultCell.FEWEST_CUSTOMERS:
        return [await _cell_with_fewest_customers(settings.all_cells)]
    main, *others = settings.all_cells
    typer.echo(f"keyrack: This is cell {main.name}. For {names(others)}, add --cell NAME.", err=True)
    return [main]


async def cell_of_call(settings: Settings, name: str | None, options: Mapping[str, Any]) -> Cell:
    """The cell in which a command works. Raises as `cells_of_call` does."""
    return (await cells_of_call(settings, name, options))[0]


def has_references(options: Mapping[str, Any]) -> bool:
    """Whether an option has a row that leads to its cell."""
    return any(True for _ in _references(options.values()))


def _references(values: Any) -> Iterator[Reference]:
    for value in values:
        if isinstance(value, list):
            yield from _references(cast("list[Any]", value))
        elif isinstance(value, ManagerName):
            yield Reference("manager", value)
        elif isinstance(value, Reference) and value.noun in UNIQUE_NOUNS:
            yield value


async def _cell_of_all(cells: Sequence[Cell], references: Sequence[Reference]) -> Cell:
    """The common cell of several rows. Raises `CommandFailed`."""
    first = await _cell_of(cells, references[0])
    for reference in references[1:]:
        if (cell := await _cell_of(cells, reference)) != first:
            raise CommandFailed(
                TWO_CELLS.format(
                    first=_capitalised(references[0]), second=_named(reference), cells=names([first, cell])
                )
            )
    return first


async def _cell_of(cells: Sequence[Cell], reference: Reference) -> Cell:
    """The only cell that has a row.

    For an unknown id it is the cell of its range, whose command reports the error. An id is used although a cell is
    away: two cells have it only after a restore. A name needs the answers of all cells. Raises `CommandFailed`.
    """
    answers = await asyncio.gather(*(_has(cell, reference) for cell in cells))
    matches = [cell for cell, answer in zip(cells, answers, strict=True) if answer]
    away = [cell for cell, answer in zip(cells, answers, strict=True) if answer is None]
    if len(matches) > 1:
        raise CommandFailed(f"{_capitalised(reference)} is in the cells {names(matches)}. Choose one with --cell.")
    if away and matches and reference.id is not None:
        typer.echo(f"keyrack: {_capitalised(reference)} was not looked up in {listed(away)}: no answer.", err=True)
    elif away:
        raise CommandFailed(
            f"{_capitalised(reference)} cannot be looked up: {listed(away)} cannot be used "
            "(`keyrack cells check` says why). Choose a cell with --cell."
        )
    if not matches and reference.id is None:
        raise CommandFailed(f"There is no {_named(reference)} in {listed(cells)}.")
    return matches[0] if matches else _cell_of_range(cells, reference.id)


async def _has(cell: Cell, reference: Reference) -> bool | None:
    """Whether the cell has the row. None if it cannot be used."""
    try:
        async with open_database(cell) as database:
            return await name_lookup.is_there(database, reference)
    except UNUSABLE:
        return None


def _cell_of_range(cells: Sequence[Cell], id: int | None) -> Cell:
    """The cell that gives this id, or else cell 0."""
    return next((cell for cell in cells if id is not None and cell.number == cell_of_id(id)), cells[0])


def listed(cells: Sequence[Cell]) -> str:
    """The cells for a sentence, with the noun."""
    return f"cell {names(cells)}" if len(cells) == 1 else f"the cells {names(cells)}"


def _named(reference: Reference) -> str:
    word = NOUNS[reference.noun].word
    return f"{word} {reference.text}" if reference.id is not None else f"{word} {reference.text!r}"


def _capitalised(reference: Reference) -> str:
    """The row at the beginning of a sentence. The case of its name stays."""
    named = _named(reference)
    return named[:1].upper() + named[1:]


async def _cell_with_fewest_customers(cells: Sequence[Cell]) -> Cell:
    """The cell with the fewest customers of those that can be used. Raises `CommandFailed`."""
    counts: list[tuple[int, int]] = []
    for position, cell in enumerate(cells):
        try:
            async with open_database(cell) as database:
                counts.append((await database.fetchval(COUNT), position))
        except UNUSABLE:
            typer.echo(f"keyrack: Cell {cell.name} cannot be used: see `keyrack cells check`.", err=True)
    if not counts:
        raise CommandFailed(f"None of {listed(cells)} can be used.")
    return cells[min(counts)[1]]
