"""Opens the database of a command, which may be embedded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager

from keyrack.cli.output import CommandFailed
from keyrack.core.error_codes import DATABASE_AWAY
from keyrack.core.errors import Unavailable
from keyrack.core.settings import Cell, Settings
from keyrack.db import schema_version
from keyrack.db.audit_context import acting, operator
from keyrack.db.cell_identity import require_identity
from keyrack.db.connection import UNREACHABLE, Database, unreachable
from keyrack.db.embedded.server import EmbeddedServer

NO_DATABASE = (
    "There is no database in {state}. Create one with `keyrack serve` or `keyrack migrate`, or select another one with "
    "--state, KEYRACK_STATE or KEYRACK_DATABASE_URL."
)


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
async def running_address(settings: Settings) -> AsyncGenerator[str]:
    """The address of the running database.

    An embedded one runs until the block ends. Raises `CommandFailed` if there is no database.
    """
    if settings.database_url is not None:
        yield settings.database_url
        return
    server = embedded_server(settings)
    if not server.made:
        server.refuse_beginning()
        raise no_database(settings)
    try:
        await asyncio.to_thread(server.start)
        yield server.dsn
    finally:
        await asyncio.to_thread(server.stop)


@asynccontextmanager
async def open_address(settings: Settings, *, older: bool = False) -> AsyncGenerator[str]:
    """The address of the running database.

    Its schema is of this release or, with `older`, of an earlier one. Raises as `running_address` does, `Unavailable`,
    and `SchemaError`.
    """
    async with running_address(settings) as dsn:
        with naming_setting(settings):
            await schema_version.require(settings.direct_address(dsn), settings, older=older)
        yield dsn


@contextmanager
def naming_setting(settings: Settings) -> Generator[None]:
    """Let errors of the connection name the setting with the address. Raises `Unavailable`."""
    try:
        yield
    except UNREACHABLE as error:
        if isinstance(error, OSError) and error.filename is not None:  # a file of TLS, no connection
            raise
        reason = unreachable(error, settings.database_setting)
        raise Unavailable(DATABASE_AWAY.with_text(f"The database cannot be reached: {reason}")) from error


@asynccontextmanager
async def open_database(cell: Cell, application: str = "keyrack command") -> AsyncGenerator[Database]:
    """The database of a cell, with the operator as actor.

    If there are several cells, errors get a note with the cell's name. Raises as `open_address` does, and `WrongCell`.
    """
    acting.set(operator())
    try:
        async with open_address(cell.settings) as dsn:
            database = await Database.connect(dsn, cell.settings, application=application)
            try:
                if cell.is_one_of_several:
                    await require_identity(database, cell)
                yield database
            finally:
                await database.close()
    except Exception as error:
        if cell.is_one_of_several:
            error.add_note(f"Cell {cell.name}")
        raise
