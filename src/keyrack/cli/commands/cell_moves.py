"""The commands of `cells` that move customers and databases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from typing import Annotated, Any

import typer

from keyrack.cli.cell_choice import cell_of_call, named_cell
from keyrack.cli.database_opening import open_address, open_database
from keyrack.cli.database_session import explained
from keyrack.cli.environment import read_settings
from keyrack.cli.name_lookup import Reference, resolved
from keyrack.cli.options import which as argument_of
from keyrack.cli.options import words
from keyrack.cli.output import CommandFailed, CommandResult, Json, as_text, show, visible
from keyrack.cli.progress import ProgressReporter, progress
from keyrack.core.settings import Cell, Settings
from keyrack.core.settings.cells import MAIN
from keyrack.db.audit_context import acting, operator
from keyrack.ops.cells import customer_move, whole_cell
from keyrack.ops.cells.cleanup import IS_HERE
from keyrack.ops.cells.move_states import read_moves
from keyrack.ops.cells.replication import Report
from keyrack.ops.cells.side import EVERY_CUSTOMER, MoveRefused, Side, open_side

app = typer.Typer()

Customer = Annotated[Any, argument_of("customer")]
WhichMove = Annotated[str, typer.Argument(metavar="ID|NAME", help="The id of a customer, or the name of a cell.")]
NewDatabase = Annotated[str, typer.Option("--to", metavar="URL", help="The address of the new database.")]
To = Annotated[str, typer.Option("--to", metavar="NAME", callback=words, help="The cell that gets the customer.")]
TEXTS = {
    "copying": "Copying the rows ...",
    "held": "Writes are held.",
    "switched": "Switched; writes were held for at most {heldSeconds} s at a time.",
    "released": "The source accepts writes again.",
    "deleted": "Deleted {rows} rows of {table}.",
    "revoked-key": (
        "Warning: API key {apiKey} ({name}) is revoked in cell {cell} only. Callers with this key get 401 after the "
        "switch."
    ),
    "valid-key": (
        "Warning: API key {apiKey} ({name}) is not revoked in cell {cell}. It is valid again after the switch, unless "
        "you run `keyrack api-key revoke {apiKey} --cell {cell}`."
    ),
}
# Steps of one table, of which a move has more than a hundred
OF_TABLES = {"copied": "Copied {table}", "compared": "Compared {table}"}
SUMMARIES = {"copied": "Copied {tables:,} tables.", "compared": "Compared {tables:,} tables: {rows:,} rows."}

NEW_ADDRESS = (
    "The new database has taken over, and the old one is read-only. Change {setting} to the new address, and restart "
    "all processes. Until then, writes get 503. Then run `keyrack cells finish {name}`."
)
BROUGHT_BACK = (
    "Customer {customer} is active again in cell {cell}, with its rows of {time:%Y-%m-%d %H:%M:%S} UTC. Later writes "
    "in cell {target} are lost."
)


@app.command("move-customer")
def move_customer(customer: Customer, to: To, as_json: Json = False) -> None:
    """Move a customer to another cell, or continue an interrupted move."""

    async def work() -> CommandResult:
        settings = read_settings()
        async with _addresses(settings) as cells:
            target = cells[named_cell(settings, to).name]
            id = await _id(settings, customer)
            source = cells[await _source(cells, id, to)]
            async with customer_move.open_sides(source, target, id) as sides:
                with _reporter(as_json=as_json) as report:
                    moved = await customer_move.move_customer(*sides, id, report)
        value = {
            "customer": id, "from": moved.source, "to": moved.target,
            "heldSeconds": round(moved.held_seconds, 3), "holds": [round(seconds, 3) for seconds in moved.holds],
            "tables": moved.tables, "rows": moved.rows,
        }  # fmt: skip
        return CommandResult(
            value,
            f"Customer {id} is in cell {to}. Its rows in cell {moved.source} stay until `keyrack cells finish {id}`.",
        )

    _run(work, as_json=as_json)


@app.command("move")
def move(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The cell.")],
    to: NewDatabase,
    is_switch: Annotated[
        bool, typer.Option("--switch", help="Let the new database take over: the old one becomes read-only.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Move the database of a cell to an empty one."""

    async def work() -> CommandResult:
        async with _whole_cell(name, to) as (source, target):
            with _reporter(as_json=as_json) as report:
                moved = await whole_cell.move_cell(source, target, report, is_switch=is_switch)
        value = {"cell": name, "tables": moved.tables, "rows": moved.rows, "switched": moved.is_switched}
        if not moved.is_switched:
            return CommandResult(
                value,
                "The new database is up to date and follows the old one. Prepare the new address, then run the command "
                "again with --switch.",
            )
        return CommandResult(value, NEW_ADDRESS.format(name=name, setting=_setting(name)))

    _run(work, as_json=as_json)


@app.command("finish")
def finish(which: WhichMove, as_json: Json = False) -> None:
    """Delete what a completed move has left."""

    async def work() -> CommandResult:
        if which.isdecimal():
            customer = int(which)
            async with _open_move(customer) as (source, target):
                with _reporter(as_json=as_json) as report:
                    await customer_move.finish_move(source, target, customer, report)
            cell = source.cell.name
            text = f"The rows of customer {customer} in cell {cell} are deleted."
            return CommandResult({"customer": customer, "cell": cell}, text)
        async with _whole_cell(which, None) as (source, _):
            await whole_cell.finish_cell(source)
        return CommandResult({"cell": which}, f"The move of cell {which} has ended. Delete the old database.")

    _run(work, as_json=as_json)


@app.command("undo")
def undo(
    which: WhichMove,
    to: Annotated[str | None, typer.Option("--to", metavar="URL", help="The new database of a cell.")] = None,
    as_json: Json = False,
) -> None:
    """Undo a move before its switch, or after its target was restored."""

    async def work() -> CommandResult:
        if which.isdecimal():
            return await _undo_customer(int(which), as_json=as_json)
        if to is None:
            raise typer.BadParameter("is needed for a cell", param_hint="--to")
        async with _whole_cell(which, to) as (source, target):
            await whole_cell.undo_cell(source, target)
        return CommandResult({"cell": which}, f"Cell {which} keeps its database.")

    _run(work, as_json=as_json)


async def _undo_customer(customer: int, *, as_json: bool) -> CommandResult:
    async with _open_move(customer) as (source, target):
        with _reporter(as_json=as_json) as report:
            switched_at = await customer_move.undo_move(source, target, customer, report)
        is_here = await source.fetchval(IS_HERE, customer)
    cell = source.cell.name
    value = {"customer": customer, "cell": cell, "rowsAsOf": switched_at}
    if switched_at is not None:
        text = BROUGHT_BACK.format(customer=customer, cell=cell, time=switched_at, target=target.cell.name)
    elif is_here:
        text = f"Customer {customer} stays in cell {cell}."
    else:
        text = f"The move of customer {customer} has ended. The customer is in no cell."
    return CommandResult(value, text)


def _run(work: Callable[[], Coroutine[Any, Any, CommandResult]], *, as_json: bool) -> None:
    async def acted() -> CommandResult:
        acting.set(operator())
        try:
            return await work()
        except MoveRefused as refused:
            raise CommandFailed(str(refused)) from None

    explained(lambda: show(asyncio.run(acted()), as_json), as_json=as_json)


@contextmanager
def _reporter(*, as_json: bool) -> Generator[Report]:
    """Prints each step.

    That is a line of JSON on standard output, or of text on standard error.
    """
    if as_json:
        yield lambda step: typer.echo(as_text(dict(step)))
        return
    printer = StepPrinter()
    try:
        yield printer.print_step
    finally:
        printer.end_phase()


class StepPrinter:
    """Prints the steps of a move as text.

    All tables of a phase have one line. It shows their progress meanwhile.
    """

    def __init__(self) -> None:
        self._display = ExitStack()
        self._show_progress: ProgressReporter | None = None
        self._phase = ""  # the step of a table that came last; empty outside of these steps
        self._tables = self._rows = 0

    def print_step(self, step: Mapping[str, Any]) -> None:
        """Print a step, or count that of a table."""
        name = step["step"]
        if name != self._phase:
            self.end_phase()
        if name not in OF_TABLES:
            typer.echo(visible(TEXTS[name].format(**step)), err=True)
            return
        self._phase = name
        self._tables += 1
        self._rows += step.get("rows", 0)
        if self._show_progress is None:
            self._show_progress = self._display.enter_context(progress())
        self._show_progress(visible(OF_TABLES[name].format(**step)), step.get("tables"), step.get("of"))

    def end_phase(self) -> None:
        """Print the summary of the counted steps."""
        self._display.close()
        self._show_progress = None
        if self._phase:
            typer.echo(SUMMARIES[self._phase].format(tables=self._tables, rows=self._rows), err=True)
        self._phase, self._tables, self._rows = "", 0, 0


@asynccontextmanager
async def _addresses(settings: Settings) -> AsyncGenerator[dict[str, tuple[Cell, str]]]:
    """Each cell by name, with its address without PgBouncer. An embedded database runs until the block ends."""
    if not settings.cells:
        raise CommandFailed("There is only one cell. Add another one to the settings first: see docs/scaling.md.")
    async with AsyncExitStack() as stack:
        yield {
            cell.name: (
                cell,
                cell.settings.direct_address(await stack.enter_async_context(open_address(cell.settings))),
            )
            for cell in settings.all_cells
        }


@asynccontextmanager
async def _whole_cell(name: str, to: str | None) -> AsyncGenerator[tuple[Side, Side]]:
    """The database of a cell, and the new one; without a new one, the same twice."""
    cell = named_cell(read_settings(), name)
    async with open_address(cell.settings) as address:
        own = (cell, cell.settings.direct_address(address))
        new = own if to is None else (Cell(cell.number, "of the new database", cell.settings), to)
        async with open_side(*own, EVERY_CUSTOMER) as source, open_side(*new, EVERY_CUSTOMER) as target:
            yield source, target


def _setting(name: str) -> str:
    return "KEYRACK_DATABASE_URL" if name == MAIN else f"`url` of cell {name}"


async def _id(settings: Settings, customer: Reference) -> int:
    """The id of a customer. Raises `CommandFailed` for an unknown name."""
    if customer.id is not None:
        return customer.id
    cell = await cell_of_call(settings, None, {"customer": customer})
    async with open_database(cell) as database:
        return (await resolved(database, {"customer": customer}))["customer"]


@asynccontextmanager
async def _all_sides(cells: Mapping[str, tuple[Cell, str]], customer: int) -> AsyncGenerator[dict[str, Side]]:
    """A connection to each cell, by name."""
    async with AsyncExitStack() as stack:
        yield {name: await stack.enter_async_context(open_side(*cell, customer)) for name, cell in cells.items()}


async def _source(cells: Mapping[str, tuple[Cell, str]], customer: int, to: str) -> str:
    """The cell from which the customer moves. Raises `CommandFailed` if it cannot move."""
    async with _all_sides(cells, customer) as sides:
        move = (await read_moves(sides, customer)).get(customer)
        here = [name for name, side in sides.items() if await side.fetchval(IS_HERE, customer)]
    if move is not None:
        if move.target != to or not here:
            raise CommandFailed(f"{move.problem} {move.remedy}")
        return move.source
    if not here:
        raise CommandFailed(f"There is no customer {customer} in any cell.")
    if len(here) > 1:
        raise CommandFailed(
            f"Customer {customer} is in the cells {', '.join(here)}. Remove the older one with `keyrack customer "
            f"remove {customer} --everything --cell NAME`."
        )
    if here == [to]:
        raise CommandFailed(f"Customer {customer} is in cell {to} already.")
    return here[0]


@asynccontextmanager
async def _open_move(customer: int) -> AsyncGenerator[tuple[Side, Side]]:
    """Both cells of the open move of a customer. Raises `CommandFailed` if there is none."""
    settings = read_settings()
    async with _addresses(settings) as cells:
        async with _all_sides(cells, customer) as sides:
            move = (await read_moves(sides, customer)).get(customer)
        if move is None:
            raise CommandFailed(f"No move of customer {customer} is open.")
        async with customer_move.open_sides(cells[move.source], cells[move.target], customer) as pair:
            yield pair
