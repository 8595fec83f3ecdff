"""In charge of what every command on the database needs: finds it, opens it, prints the result, explains a failure.

A command is an async function that gets a `DatabaseSession` and returns what it has to say. It runs in one
transaction: a refusal leaves nothing behind, and what is printed has been committed and told to all processes.
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
from keyrack.db.change_notifier import EVERYBODY, NOTHING, NOTIFY, Topics, encode_notifications
from keyrack.db.connection import UNREACHABLE, Connection, Database, OutcomeUnknown
from keyrack.db.embedded.server import EmbeddedServer, EmbeddedServerError
from keyrack.db.encryption.bootstrap import open_vault
from keyrack.db.encryption.cipher import Encryption
from keyrack.db.encryption.master_keys import MasterKeyError

P = ParamSpec("P")

PATIENCE: LiteralString = "set local lock_timeout = '30s'"  # commands may wait for one another
NO_DATABASE = (
    "There is no database in {state}. `keyrack serve` and `keyrack migrate` make one there; --state, KEYRACK_STATE and "
    "KEYRACK_DATABASE_URL name another one."
)
SHOWN_ONCE = "It is shown only this once."

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
    """What a command works with."""

    sql: Connection  # in the command's transaction
    settings: Settings
    db: Database

    async def vault(self) -> Encryption:
        """What seals secrets, for a command that writes one. Raises `MasterKeyError`."""
        return await open_vault(self.db, self.settings)

    async def settle(self, *customers: int) -> None:
        """Hold these customers for the rest of the transaction, with all that was asked for applied: what the command
        changes is what operations stand on. To be called before anything is written. Raises `Refusal`."""
        from keyrack.assignments.customer_lock import flush_all  # with it comes all that assignments are checked by

        await flush_all(self.db, self.sql, customers, self.settings)


def embedded_server(settings: Settings) -> EmbeddedServer:
    """The server in the state directory, not started yet."""
    return EmbeddedServer(
        settings.state,
        bin_dir=settings.postgres_bin,
        log_bytes=settings.postgres_log_max_bytes,
        backups=settings.backup_directory,
    )


def no_database(settings: Settings) -> CommandFailed:
    """Why a command that makes no database comes to nothing."""
    return CommandFailed(NO_DATABASE.format(state=settings.state), demo_below(settings))


def demo_below(settings: Settings) -> list[str]:
    """Where the demo's database is, which is what somebody may have meant."""
    demo = settings.state / "demo"
    env = demo / "demo.env"
    return [f"The demo has one: load {env}, or say --state {demo}."] if env.exists() else []


@asynccontextmanager
async def open_address(settings: Settings) -> AsyncGenerator[str]:
    """The address of the database, running and with the schema of this release; the embedded one is used meanwhile.

    Raises `CommandFailed`: there is none, and no command but those that serve and migrate makes one. Raises
    `SchemaError`: it has another schema.
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
    """The database itself, for the operator who types the command."""
    acting.set(operator())
    async with open_address(settings) as dsn:
        database = await Database.connect(dsn, settings, application=application)
        try:
            yield database
        finally:
            await database.close()


# What is said in words for the operator already
TOLD_AS_THEY_ARE = (
    CommandFailed, Refusal, EmbeddedServerError, MasterKeyError, CheckpointKeyError, LogRefused, NoListener,
    schema_version.SchemaError,
)  # fmt: skip

Work = Callable[..., Awaitable[CommandResult | ListResult]]
Before = Callable[..., Awaitable[ConfirmationPreview | None]]


@dataclass(frozen=True, slots=True)
class CommandCall:
    """A command as it was called."""

    work: Work
    options: Mapping[str, Any]
    preview: Before | None  # what tells that much would go
    yes: bool
    dry_run: bool
    topics: Topics


def command(
    app: typer.Typer, name: str, *, preview: Before | None = None, topics: Topics = NOTHING
) -> Callable[[Callable[Concatenate[DatabaseSession, P], Awaitable[CommandResult | ListResult]]], Callable[..., None]]:
    """Register an async function as the command `name`; `--state` and `--json` are added to its options.

    `preview` gets the same options, and tells what would go, or None where that needs no consent: with it come `--yes`
    and `--dry-run`. `topics` are what the command may change, of the customer that its option names, or else of all.
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
    """Do what was called, in one transaction; before it, in another one, what would go is looked at."""
    settings = with_server_address(read_settings(state))
    async with open_database(settings) as database:
        options = await name_lookup.resolved(database, called.options)  # what is agreed to is what is done
        if called.preview is not None and (called.dry_run or not called.yes):
            async with _transaction(database, settings) as session:
                preview = await called.preview(session, **options)
            if called.dry_run:
                return (preview or ConfirmationPreview("remove this, and nothing else", then="")).said
            if preview is not None:
                agree(preview)
        async with _transaction(database, settings) as session:
            result = await called.work(session, **options)
        if isinstance(result, CommandResult):
            await tell(database, options.get("customer") or EVERYBODY, called.topics)
        return result


async def tell(database: Database, customer: int, topics: Topics) -> None:
    """Tell all processes that something was done, and those who watch the customer what may be new."""
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
    """Give `run` the options of `function`, with `--state` and `--json` in the place of the session.

    Typer makes options of a function's signature and has no other way to declare them. `run` wraps every command, so
    its own signature is `**options`. `functools.wraps` would show that of `function`, whose first parameter is the
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
    """Do `work`; whatever goes wrong becomes one line on standard error and the exit status 1.

    What a refusal has for machines is printed for them, `as_json`.
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
    """What went wrong, in one line for the command's user."""
    text = " ".join(str(error).split())
    if isinstance(error, TOLD_AS_THEY_ARE):
        return text
    if isinstance(error, asyncpg.InterfaceError) and isinstance(error, ValueError):  # before anything was sent
        return f"A value is not valid: {text}"
    if isinstance(error, OutcomeUnknown):
        return f"The connection to the database was lost: look whether it was done, or not. {text}"
    if isinstance(error, OSError) and error.filename is not None:  # no connection has one
        return f"{error.filename} cannot be opened: {error.strerror}."
    if isinstance(error, UNREACHABLE):
        return f"The database cannot be reached: {text or 'it does not answer.'}"
    if isinstance(error, asyncpg.LockNotAvailableError):
        return "Somebody else has been working on the same for too long. Nothing was changed; please try again."
    if isinstance(error, asyncpg.PostgresError):
        return f"The database refuses: {error.args[0]}"  # its details quote whole rows
    return f"Unexpected {type(error).__name__}: {text}"
