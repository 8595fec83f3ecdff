"""The snapshot for `keyrack status`: the state of the database and of this machine.

The snapshot only reads. It does not start an embedded database.
"""

from __future__ import annotations

import asyncio
import shutil
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, LiteralString

import asyncpg

from keyrack.core.settings import Settings
from keyrack.db import schema_version
from keyrack.db.connection import UNREACHABLE, Connection, unreachable
from keyrack.db.embedded import locks, wal_archiving
from keyrack.db.embedded.layout import Layout
from keyrack.db.embedded.server import EmbeddedServer, EmbeddedServerError
from keyrack.db.read_only_session import read_only_session
from keyrack.db.replication.primary_connector import hosts_of
from keyrack.ops.backups.repository import BackupError, BackupRepository
from keyrack.ops.monitoring.backlog import Backlog, backlog
from keyrack.ops.monitoring.failing_webhooks import SHOWN, FailingWebhook, addresses, failing, given_up
from keyrack.webhooks import certificates
from keyrack.webhooks.certificates import Certificate

APPLICATION = "keyrack status"
LONGEST = 20.0  # seconds of a snapshot; each statement has a timeout of its own
ALL_CERTIFICATES = 100  # maximum number of hosts with `--certificates`

SERVER: LiteralString = """
select current_setting('server_version') as version, current_database() as name, pg_is_in_recovery() as standby
"""
# `set local`, because PgBouncer may give a session and its settings to another client
BEGIN: LiteralString = """
begin read only; set local statement_timeout = '2s'; set local lock_timeout = '1s'; set local enable_seqscan = off
"""
LACKING = ("42P01", "42703", "42883")  # SQLSTATEs of a missing table, column or function


class DatabaseUnknown(Exception):
    """The database cannot be read. The text names the database and the reason."""


@dataclass(frozen=True, slots=True)
class Disk:
    """The disk of the state directory."""

    path: Path
    free: int  # bytes
    bytes: int


@dataclass(frozen=True, slots=True)
class Backups:
    """The full backups of the embedded database; `wrong` is the reason if they cannot be read."""

    newest: datetime | None = None
    name: str | None = None
    wrong: str | None = None


@dataclass(slots=True)
class StatusSnapshot:
    """The state of an installation. None or empty: unknown or missing."""

    database: str  # its address without secrets
    running: bool = True  # False: no process uses the embedded database
    schema: schema_version.SchemaStatus | None = None
    server: str | None = None  # PostgreSQL's version
    name: str | None = None
    standby: bool = False  # the server accepts no writes
    backlog: Backlog | None = None
    given_up: int = 0
    failing: tuple[FailingWebhook, ...] = ()
    certificates: list[Certificate] = field(default_factory=list[Certificate])
    disk: Disk | None = None
    backups: Backups | None = None


async def collect_status(settings: Settings, *, all_certificates: bool = False) -> StatusSnapshot:
    """Collect the current state. Raises `DatabaseUnknown`."""
    embedded = settings.database_url is None
    where = str(settings.state) if embedded else printable_address(address(settings))
    picture = StatusSnapshot(where)
    if embedded:
        _on_this_machine(settings, picture)
        if not picture.running:
            return picture
    try:
        async with asyncio.timeout(LONGEST), opened(settings) as raw:
            await _in_the_database(Connection(raw), picture, settings, all_certificates)
    except TimeoutError:
        raise DatabaseUnknown(f"The database at {where} does not respond within {LONGEST:g} seconds.") from None
    except (*UNREACHABLE, asyncpg.PostgresError) as error:
        reason = unreachable(error, settings.database_setting)
        raise DatabaseUnknown(f"The database at {where} cannot be reached: {reason}") from None
    return picture


def printable_address(dsn: str) -> str:
    """The hosts of an address, without secrets.

    >>> printable_address("postgresql://u:secret@one,two:5433/keyrack")
    'one:5432, two:5433'
    """
    return ", ".join(map(str, hosts_of(dsn))) or "the address in the environment"


def address(settings: Settings) -> str:
    """The database's address without PgBouncer. It does not start an embedded database."""
    return settings.database_direct_url or settings.database_url or EmbeddedServer(settings.state).dsn


def opened(settings: Settings) -> AbstractAsyncContextManager[asyncpg.Connection]:
    """A connection without PgBouncer, in a read-only transaction.

    An embedded server must run already. Raises the errors of asyncpg.
    """
    return read_only_session(address(settings), settings, application=APPLICATION, seconds=LONGEST, begin=BEGIN)


def _on_this_machine(settings: Settings, picture: StatusSnapshot) -> None:
    """Raises `DatabaseUnknown`."""
    layout = Layout(settings.state.resolve())
    if not EmbeddedServer(settings.state).made:
        raise DatabaseUnknown(
            f"There is no database in {settings.state}, and KEYRACK_DATABASE_URL is not set. Name its directory with "
            "`--state DIR` or KEYRACK_STATE."
        )
    usage = shutil.disk_usage(layout.data)
    picture.disk = Disk(layout.state, usage.free, usage.total)
    picture.backups = _backups(settings, layout)
    try:
        picture.running = locks.kept(layout)
    except EmbeddedServerError as error:
        raise DatabaseUnknown(str(error)) from None


def _backups(settings: Settings, layout: Layout) -> Backups | None:
    directory = wal_archiving.resolve_archive_directory(layout, settings.backup_directory)
    if directory is None:
        return None
    try:
        newest = max(BackupRepository(directory).backups(), key=lambda backup: backup.finished, default=None)
    except BackupError as error:
        return Backups(wrong=str(error))
    return Backups() if newest is None else Backups(newest.finished, newest.name)


async def _in_the_database(
    connection: Connection, picture: StatusSnapshot, settings: Settings, all_certificates: bool
) -> None:
    server: Any = await connection.fetchrow(SERVER)
    picture.server, picture.name, picture.standby = server["version"], server["name"], server["standby"]
    picture.schema = await schema_version.standing(connection)
    if picture.schema.state is schema_version.SchemaState.EMPTY:
        return
    try:
        picture.backlog = await backlog(connection)
        picture.failing = await failing(connection)
        picture.given_up = await given_up(connection)
        urls = [webhook.url for webhook in picture.failing]
        if all_certificates:
            urls += await addresses(connection, ALL_CERTIFICATES)
    except asyncpg.PostgresError as error:
        if error.sqlstate not in LACKING:
            raise
        return
    most = ALL_CERTIFICATES if all_certificates else SHOWN
    picture.certificates = await certificates.check_certificates(urls, settings, most)
