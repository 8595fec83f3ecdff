"""Runs commands on the database: opens it, prints the result, explains errors.

A command is an async function that gets a `DatabaseSession` and returns its result. It runs in one transaction. An
error leaves no trace. A printed result is already committed, and all processes are notified. With several cells, it
runs in one of them; a list may run in all.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Concatenate, LiteralString, ParamSpec, cast

import asyncpg
import typer

from keyrack.changelog.transparency.checkpoint_keys import CheckpointKeyError
from keyrack.changelog.transparency.checkpoints import LogRefused
from keyrack.cli import name_lookup
from keyrack.cli.cell_choice import CellName, DefaultCell, cells_of_call, has_references
from keyrack.cli.confirmation import ConfirmationPreview, DryRun, Yes, agree
from keyrack.cli.database_opening import open_database
from keyrack.cli.environment import read_settings
from keyrack.cli.output import CommandFailed, CommandResult, Json, ListResult, show, visible
from keyrack.cli.server_address import with_server_address
from keyrack.core.errors import Refusal
from keyrack.core.settings import Cell, Settings
from keyrack.core.systemd import NoListener
from keyrack.db import schema_version, worker_wakeup
from keyrack.db.cell_identity import WrongCell
from keyrack.db.change_notifier import EVERYBODY, NOTHING, NOTIFY, Topics, encode_notifications
from keyrack.db.connection import UNREACHABLE, Connection, Database, OutcomeUnknown, unreachable
from keyrack.db.embedded.server import EmbeddedServerError
from keyrack.db.encryption.bootstrap import open_vault
from keyrack.db.encryption.cipher import Encryption
from keyrack.db.encryption.master_keys import MasterKeyError

P = ParamSpec("P")

# Commands may wait for one another. An import is idle while it reads its file, which may be a pipe
PATIENCE: LiteralString = "set local lock_timeout = '30s'; set local idle_in_transaction_session_timeout = '10min'"
MOVED: LiteralString = """
select moved_customer from cell_move m where role = 'source' and state = 'switched'
and not exists (select from customer c where c.customer_id = m.moved_customer)
"""
SHOWN_ONCE = "It is shown only once."
INCOMPLETE = "The list is not complete."
NOTHING_ELSE = ConfirmationPreview("make this change without deleting anything else", then="")

State = Annotated[
    Path | None,
    typer.Option(
        "--state",
        metavar="DIR",
        help="Use the embedded database in this directory. Default: KEYRACK_DATABASE_URL, else KEYRACK_STATE.",
    ),
]


@dataclass(frozen=True, slots=True)
class DatabaseSession:
    """The connection, settings and database of a running command."""

    sql: Connection  # in the command's transaction
    settings: Settings  # those of its cell
    db: Database

    async def vault(self) -> Encryption:
        """The encryption, for a command that stores a secret. Raises `MasterKeyError`."""
        return await open_vault(self.db, self.settings)

    async def settle(self, *customers: int) -> None:
        """Lock these customers for the rest of the transaction, and apply their pending operations. Raises `Refusal`.

        Operations depend on the rows that the command changes, so it calls this before it writes.
        """
        from keyrack.assignments.customer_lock import flush_all  # imports all checks of assignments

        await flush_all(self.db, self.sql, customers, self.settings)


# Errors whose messages are written for the operator
TOLD_AS_THEY_ARE = (
    CommandFailed, Refusal, EmbeddedServerError, MasterKeyError, CheckpointKeyError, LogRefused, NoListener,
    schema_version.SchemaError, WrongCell,
)  # fmt: skip

Work = Callable[..., Awaitable[CommandResult | ListResult]]
Before = Callable[..., Awaitable[ConfirmationPreview | None]]


@dataclass(frozen=True, slots=True)
class CommandCall:
    """A command with the options of its call."""

    work: Work
    options: Mapping[str, Any]
    preview: Before | None  # shows the effect of a command that deletes much
    yes: bool
    dry_run: bool
    topics: Topics
    default: DefaultCell


def command(
    app: typer.Typer,
    name: str,
    *,
    preview: Before | None = None,
    topics: Topics = NOTHING,
    default: DefaultCell = DefaultCell.MAIN,
) -> Callable[[Callable[Concatenate[DatabaseSession, P], Awaitable[CommandResult | ListResult]]], Callable[..., None]]:
    """Register an async function as the command `name`.

    It gets the additional options `--state`, `--cell` and `--json`.

    `preview` gets the same options, and returns the effect to confirm, or None if no consent is needed. It adds `--yes`
    and `--dry-run`. `topics` are the topics that may change, for the customer of the option `customer` or for all.
    `default` is the cell without `--cell` and without an option that leads to one.
    """

    def register(
        function: Callable[Concatenate[DatabaseSession, P], Awaitable[CommandResult | ListResult]],
    ) -> Callable[..., None]:
        def run(
            *,
            state: Path | None,
            cell: str | None,
            json: bool,
            yes: bool = False,
            dry_run_only: bool = False,
            **options: Any,
        ) -> None:
            def work() -> None:
                called = CommandCall(function, options, preview, yes, dry_run_only, topics, default)
                _run(state, cell, called, as_json=json)

            explained(work, as_json=json)

        _take_options(run, function, consents=preview is not None)
        return app.command(name)(run)

    return register


def _run(state: Path | None, cell: str | None, called: CommandCall, *, as_json: bool) -> None:
    """Run a command in its cell, or a list in all cells. Raises its errors."""
    settings = with_server_address(read_settings(state))
    cells = asyncio.run(cells_of_call(settings, cell, called.options, called.default))
    if called.default is DefaultCell.ALL and settings.cells:
        _list_cells(cells, called, as_json=as_json)
    else:
        show(asyncio.run(_done(cells[0], called)), as_json)
        if cell is None and settings.cells and has_references(called.options) and not called.dry_run:
            typer.echo(f"keyrack: This is cell {cells[0].name}.", err=True)


def _list_cells(cells: Sequence[Cell], called: CommandCall, *, as_json: bool) -> None:
    """Print the rows of each cell, with its name. Raises `CommandFailed` at the end if some cells did not answer."""
    rows: list[Mapping[str, Any]] = []
    columns: dict[str, str] = {}
    failures: list[str] = []
    for cell in cells:
        try:
            result = asyncio.run(_done(cell, called))
        except Exception as error:
            if len(cells) == 1:
                raise
            failures.append(explain(error))
        else:
            listed = cast("ListResult", result)
            rows += [{**row, "cell": cell.name} for row in listed.rows]
            columns = {**listed.columns, "CELL": "cell"}
    show(ListResult(rows, columns), as_json)
    if failures:
        raise CommandFailed(INCOMPLETE, failures)


async def _done(cell: Cell, called: CommandCall) -> CommandResult | ListResult:
    """Run a command in one transaction, after its preview in another one."""
    async with open_database(cell) as database:
        # Resolved once, so that the consent and the change are about the same rows
        options = await name_lookup.resolved(database, called.options)
        if called.preview is not None and (called.dry_run or not called.yes):
            async with _transaction(database, cell.settings) as session:
                preview = await called.preview(session, **options)
            place = cell.name if cell.is_one_of_several else None
            if called.dry_run:
                return replace(preview or NOTHING_ELSE, cell=place).said
            if preview is not None:
                agree(replace(preview, cell=place))
        async with _transaction(database, cell.settings) as session:
            result = await called.work(session, **options)
        if isinstance(result, ListResult) and cell.is_one_of_several:
            result = await _without_moved(database, result)
        if isinstance(result, CommandResult):
            await tell(database, options.get("customer") or EVERYBODY, called.topics)
            if called.default is DefaultCell.FEWEST_CUSTOMERS and cell.is_one_of_several:
                result = CommandResult({**result.value, "cell": cell.name}, f"{result.text} Its cell is {cell.name}.")
        return result


async def _without_moved(database: Database, result: ListResult) -> ListResult:
    """The list without the rows that wait for the end of a move."""
    moved = {row[0] for row in await database.fetch(MOVED)}
    return ListResult([row for row in result.rows if row.get("customerId") not in moved], result.columns)


async def tell(database: Database, customer: int, topics: Topics) -> None:
    """Wake all workers, and notify the subscribers of the customer about the changed topics."""
    for notice in (worker_wakeup.ACCESS, worker_wakeup.WORK, worker_wakeup.DELIVER):
        await database.execute(notice)
    if topics:
        await database.execute(NOTIFY, list(encode_notifications({customer: topics})))


@asynccontextmanager
async def _transaction(database: Database, settings: Settings) -> AsyncGenerator[DatabaseSession]:
    async with database.transaction() as connection:
        await connection.lift_timeouts()  # an import may take longer than a request
        await connection.execute(PATIENCE)
        yield DatabaseSession(connection, settings, database)


def _take_options(run: Callable[..., None], function: Callable[..., Any], *, consents: bool) -> None:
    """Give `run` the options of `function`, and those of every command.

    Typer derives options from a function's signature and has no other way to declare them. `run` wraps every command,
    so its own signature is `**options`. `functools.wraps` would show that of `function`, whose first parameter is the
    session and which lacks the options that `run` adds. The alternative is to repeat `state`, `cell`, `json`, `yes`
    and `dry_run_only`, and the call that handles them, in each command of the database.
    """
    signature = inspect.signature(function, eval_str=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [parameter.replace(kind=keyword) for parameter in list(signature.parameters.values())[1:]]
    if consents:
        parameters.append(inspect.Parameter("yes", keyword, default=False, annotation=Yes))
        parameters.append(inspect.Parameter("dry_run_only", keyword, default=False, annotation=DryRun))
    parameters.append(inspect.Parameter("state", keyword, default=None, annotation=State))
    parameters.append(inspect.Parameter("cell", keyword, default=None, annotation=CellName))
    parameters.append(inspect.Parameter("json", keyword, default=False, annotation=Json))
    run.__dict__["__signature__"] = inspect.Signature(parameters, return_annotation=None)
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__doc__ = function.__doc__


def explained(work: Callable[[], None], *, as_json: bool = False) -> None:
    """Run `work`; an error becomes one line on standard error and the exit status 1.

    With `as_json`, the JSON value of the error is printed as well.
    """
    try:
        work()
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except KeyboardInterrupt:
        typer.echo("keyrack: Interrupted.", err=True)
        raise typer.Exit(130) from None
    except BrokenPipeError:  # `keyrack ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    except Exception as error:
        if os.environ.get("KEYRACK_LOG_LEVEL") == "debug":
            traceback.print_exc()
        if isinstance(error, CommandFailed):
            if as_json and error.value is not None:
                show(CommandResult(error.value, ""), as_json)
            for line in error.lines:
                typer.echo(visible(line), err=True)
        typer.echo(visible(f"keyrack: {explain(error)}"), err=True)
        raise typer.Exit(1) from None


def explain(error: Exception) -> str:
    """An error as one line for the user, after its notes."""
    return ": ".join([*getattr(error, "__notes__", ()), _explain(error)])


def _explain(error: Exception) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, TOLD_AS_THEY_ARE):
        return text
    if isinstance(error, asyncpg.InterfaceError) and isinstance(error, ValueError):  # before anything was sent
        return f"A value is invalid: {text}"
    if isinstance(error, OutcomeUnknown):
        return f"The connection to the database was lost. Check whether the change was made. {text}"
    if isinstance(error, OSError) and error.filename is not None:  # no connection has one
        return f"{error.filename} cannot be opened: {error.strerror}."
    if isinstance(error, UNREACHABLE):
        return f"The database cannot be reached: {unreachable(error)}"
    if isinstance(error, asyncpg.LockNotAvailableError):
        return "Another process has locked the same data for too long. Nothing was changed; try again."
    if isinstance(error, asyncpg.PostgresError):
        return f"The database reports an error: {error.args[0]}"  # its details quote whole rows
    return f"Unexpected {type(error).__name__}: {text}"
