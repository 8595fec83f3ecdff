"""The commands of `cells` that move a customer or a database to another cell."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Annotated, Any

import typer

from keyrack.cli.database_session import explained, open_address
from keyrack.cli.environment import read_settings
from keyrack.cli.options import words
from keyrack.cli.output import CommandFailed, CommandResult, Json, as_text, show, visible
from keyrack.core.settings import Cell
from keyrack.db.audit_context import acting, operator
from keyrack.ops.cells import moving
from keyrack.ops.cells.replication import Report
from keyrack.ops.cells.side import MoveRefused, Side, open_side

app = typer.Typer()

Customer = Annotated[int, typer.Argument(metavar="ID", min=1, help="The id of the customer.")]
To = Annotated[str, typer.Option("--to", metavar="NAME", callback=words, help="The cell that gets the customer.")]
TEXTS = {
    "copying": "Copying the rows ...",
    "copied": "Copied {table} ({tables} of {of}).",
    "held": "Writes are held.",
    "compared": "Compared {table}: {rows} rows.",
    "switched": "Switched; writes were held for {heldSeconds} s.",
    "released": "The source accepts writes again.",
    "deleted": "Deleted {rows} rows of {table}.",
}


@app.command("move-customer")
def move_customer(customer: Customer, to: To, as_json: Json = False) -> None:
    """Move a customer to another cell while it works, or continue an interrupted move."""

    async def work() -> CommandResult:
        async with _addresses() as cells:
            target = _named(cells, to)
            source = await _source(cells, customer)
            if source[0].name == to:
                raise CommandFailed(
                    f"Customer {customer} is in cell {to} already, or has rows of an earlier move there. Then run "
                    f"`keyrack cells finish {customer}` first."
                )
            async with moving.open_sides(source, target, customer) as sides:
                moved = await moving.move_customer(*sides, customer, _reporter(as_json=as_json))
        value = {
            "customer": customer, "from": moved.source, "to": moved.target,
            "heldSeconds": round(moved.held_seconds, 3), "tables": moved.tables, "rows": moved.rows,
        }  # fmt: skip
        return CommandResult(
            value,
            f"Customer {customer} is in cell {to}. Its rows in cell {moved.source} stay until "
            f"`keyrack cells finish {customer}`.",
        )

    _run(work, as_json=as_json)


@app.command("finish")
def finish(customer: Customer, as_json: Json = False) -> None:
    """Delete the rows of a moved customer in the cell where it was."""

    async def work() -> CommandResult:
        async with _open_move(customer) as (source, target):
            await moving.finish_move(source, target, customer, _reporter(as_json=as_json))
            return CommandResult(
                {"customer": customer, "cell": source.cell.name},
                f"The rows of customer {customer} in cell {source.cell.name} are deleted.",
            )

    _run(work, as_json=as_json)


@app.command("undo")
def undo(customer: Customer, as_json: Json = False) -> None:
    """Undo a move before its switch: remove the replication and the copied rows."""

    async def work() -> CommandResult:
        async with _open_move(customer) as (source, target):
            await moving.undo_move(source, target, customer, _reporter(as_json=as_json))
            return CommandResult(
                {"customer": customer, "cell": source.cell.name},
                f"Customer {customer} stays in cell {source.cell.name}.",
            )

    _run(work, as_json=as_json)


def _run(work: Callable[[], Coroutine[Any, Any, CommandResult]], *, as_json: bool) -> None:
    async def acted() -> CommandResult:
        acting.set(operator())
        try:
            return await work()
        except MoveRefused as refused:
            raise CommandFailed(str(refused)) from None

    explained(lambda: show(asyncio.run(acted()), as_json), as_json=as_json)


def _reporter(*, as_json: bool) -> Report:
    """Prints each step: a line of JSON on standard output, or of text on standard error."""

    def report(step: Mapping[str, Any]) -> None:
        if as_json:
            typer.echo(as_text(dict(step)))
        else:
            typer.echo(visible(TEXTS[step["step"]].format(**step)), err=True)

    return report


@asynccontextmanager
async def _addresses() -> AsyncGenerator[list[tuple[Cell, str]]]:
    """All cells, each with its address without PgBouncer. An embedded database runs until the block ends."""
    settings = read_settings()
    if not settings.cells:
        raise CommandFailed("There is only one cell. Add another one to the settings first: see docs/scaling.md.")
    async with AsyncExitStack() as stack:
        cells: list[tuple[Cell, str]] = []
        for cell in settings.all_cells:
            address = await stack.enter_async_context(open_address(cell.settings))
            cells.append((cell, cell.settings.database_direct_url or address))
        yield cells


def _named(cells: list[tuple[Cell, str]], name: str) -> tuple[Cell, str]:
    for cell in cells:
        if cell[0].name == name:
            return cell
    names = ", ".join(cell.name for cell, _ in cells)
    raise CommandFailed(f"There is no cell {name}. The cells are {names}.")


async def _source(cells: list[tuple[Cell, str]], customer: int) -> tuple[Cell, str]:
    """The cell from which the customer moves. Raises `CommandFailed` if no cell has it."""
    for cell in cells:
        async with open_side(*cell, customer) as side:
            if await moving.is_source(side, customer):
                return cell
    raise CommandFailed(f"There is no customer {customer} in any cell.")


@asynccontextmanager
async def _open_move(customer: int) -> AsyncGenerator[tuple[Side, Side]]:
    """Both cells of the open move of a customer. Raises `CommandFailed` if there is none."""
    async with _addresses() as cells:
        for cell in cells:
            async with open_side(*cell, customer) as side:
                known = await side.open_move(customer)
            if known is not None and known.role == "source":
                async with moving.open_sides(cell, _named(cells, known.other_cell), customer) as sides:
                    yield sides
                return
    raise CommandFailed(f"No move of customer {customer} is open.")
