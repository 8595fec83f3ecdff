"""Runs commands on the database: opens it, prints the result, explains errors.

A command is an async function that gets a `DatabaseSession` and returns its result. It runs in one transaction. An
error leaves no trace. A printed result is already committed, and all processes are notified.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Concatenate, LiteralString, ParamSpec

import asyncpg
import typer

from keyrack.changelog.transparency.checkpoint_keys import CheckpointKeyError
from keyrack.changelog.transparency.checkpoints import LogRefused
from keyrack.cli import name_lookup
from keyrack.cli.confirmation import ConfirmationPreview, DryRun, Yes, agree
from keyrack.cli.environment import read_settings
from keyrack.cli.output import CommandFailed, CommandResult, Json, ListResult, show, visible
from keyrack.cli.server_address import with_server_address
from keyrack.core.errors import Refusal
from keyrack.core.settings import Settings
from keyrack.core.systemd import NoListener
from keyrack.db import schema_version, worker_wakeup
from keyrack.db.audit_context import acting, operator
from keyrack.db.cell_identity import WrongCell
from keyrack.db.change_notifier import EVERYBODY, NOTHING, NOTIFY, Topics, encode_notifications
from keyrack.db.connection import UNREACHABLE, Connection, Database, OutcomeUnknown, unreachable
from keyrack.db.embedded.server import EmbeddedServer, EmbeddedServerError
from keyrack.db.encryption.bootstrap import open_vault
from keyrack.db.encryption.cipher import Encryption
from keyrack.db.encryption.master_keys import MasterKeyError

P = ParamSpec("P")

# Commands may wait for one another. An import is idle while it reads its file, which may be a pipe
PATIENCE: LiteralString = "set local lock_timeout = '30s'; set local idle_in_transaction_session_timeout = '10min'"
NO_DATABASE = (
    "There is no database in {state}. Create one with `keyrack serve` or `keyrack migrate`, or select another one with "
    "--state, KEYRACK_STATE or KEYRACK_DATABASE_URL."
)
SHOWN_ONCE = "It is shown only once."

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
    settings: Settings
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


def embedded_server(settings: Settings) -> EmbeddedServer:
    """The server in the state directory, not yet started."""
    return EmbeddedServer(
        settings.state,
        bin_dir=settings.postgres_bin,
        log_bytes=settings.postgres_log_max_bytes,
        backups=settings.backup_directory,
    )


def no_database(settings: Settings) -> CommandFailed:
    """The error of a command that needs a database and may not create one."""
    return CommandFailed(NO_DATABASE.format(state=settings.state), demo_below(settings))


def demo_below(settings: Settings) -> list[str]:
    """A hint at the demo's database, which the operator may have meant."""
    demo = settings.state / "demo"
    env = demo / "demo.env"
    return [f"To use the demo's database, load {env} or add --state {demo}."] if env.exists() else []


@asynccontextmanager
async def open_address(settings: Settings) -> AsyncGenerator[str]:
    """The address of the running database with this release's schema; an embedded one runs until the block ends.

    Raises `CommandFailed` if there is no database, and `SchemaError` if its schema is of another release.
    """
    if settings.database_url is not None:
        await schema_version.require(settings.database_direct_url or settings.database_url, settings)
        yield settings.database_url
        return
    server = embedded_server(settings)
    if not server.made:
        server.refuse_beginning()
        raise no_database(settings)
    try:
        await asyncio.to_thread(server.start)
        await schema_version.require(server.dsn)
        yield server.dsn
    finally:
        await asyncio.to_thread(server.stop)


@asynccontextmanager
async def open_database(settings: Settings, application: str = "keyrack command") -> AsyncGenerator[Database]:
    """The database, with the operator of the command as actor."""
    acting.set(operator())
    async with open_address(settings) as dsn:
        database = await Database.connect(dsn, settings, application=application)
        try:
            yield database
        finally:
            await database.close()


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


def command(
    app: typer.Typer, name: str, *, preview: Before | None = None, topics: Topics = NOTHING
) -> Callable[[Callable[Concatenate[DatabaseSession, P], Awaitable[CommandResult | ListResult]]], Callable[..., None]]:
    """Register an async function as the command `name`, with the additional options `--state` and `--json`.

    `preview` gets the same options, and returns the effect to confirm, or None if no consent is needed. It adds `--yes`
    and `--dry-run`. `topics` are the topics that may change, for the customer of the option `customer` or for all.
    """

    def register(
        function: Callable[Concatenate[DatabaseSession, P], Awaitable[CommandResult | ListResult]],
    ) -> Callable[..., None]:
        def run(
            *, state: Path | None, json: bool, yes: bool = False, dry_run_only: bool = False, **options: Any
        ) -> None:
            def work() -> None:
                called = CommandCall(function, options, preview, yes, dry_run_only, topics)
                show(asyncio.run(_done(state, called)), json)

            explained(work, as_json=json)

        _take_options(run, function, consents=preview is not None)
        return app.command(name)(run)

    return register


async def _done(state: Path | None, called: CommandCall) -> CommandResult | ListResult:
    """Run a command in one transaction, after its preview in another one."""
    settings = with_server_address(read_settings(state))
    async with open_database(settings) as database:
        # Resolved once, so that the consent and the change are about the same rows
        options = await name_lookup.resolved(database, called.options)
        if called.preview is not None and (called.dry_run or not called.yes):
            async with _transaction(database, settings) as session:
                preview = await called.preview(session, **options)
            if called.dry_run:
                return (preview or ConfirmationPreview("make this change without deleting anything else", then="")).said
            if preview is not None:
                agree(preview)
        async with _transaction(database, settings) as session:
            result = await called.work(session, **options)
        if isinstance(result, CommandResult):
            await tell(database, options.get("customer") or EVERYBODY, called.topics)
        return result


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
    """Give `run` the options of `function`, with `--state` and `--json` instead of the session.

    Typer derives options from a function's signature and has no other way to declare them. `run` wraps every command,
    so its own signature is `**options`. `functools.wraps` would show that of `function`, whose first parameter is the
    session and which lacks the options that `run` adds. The alternative is to repeat `state`, `json`, `yes` and
    `dry_run_only`, and the call that handles them, in each command of the database.
    """
    signature = inspect.signature(function, eval_str=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [parameter.replace(kind=keyword) for parameter in list(signature.parameters.values())[1:]]
    if consents:
        parameters.append(inspect.Parameter("yes", keyword, default=False, annotation=Yes))
        parameters.append(inspect.Parameter("dry_run_only", keyword, default=False, annotation=DryRun))
    parameters.append(inspect.Parameter("state", keyword, default=None, annotation=State))
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
    """An error as one line for the user of the command."""
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
