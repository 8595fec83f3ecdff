"""The version of the database's schema: whether this release works with it, and migration."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import LiteralString

import asyncpg
import structlog

from keyrack import __version__
from keyrack.core.settings import Settings
from keyrack.db import migration_runner, partitions
from keyrack.db.connection import Connection, Statements
from keyrack.db.migrations import RELEASES, STOPPED, oldest, revisions
from keyrack.db.replication.primary_connector import PrimaryConnector

log = structlog.get_logger("keyrack.schema")

MIGRATION_LOCK = 7_260_915  # any constant: it serialises migrations
LEAVE = 10.0  # seconds until the connections of stopped processes must be gone

MAY_CREATE: LiteralString = "select coalesce(has_schema_privilege(current_schema(), 'create'), false)"
# Only two tables are checked: the rest of the schema has the same owner.
NOT_OWNED: LiteralString = """
select relname from pg_class
where oid in (to_regclass('alembic_version'), to_regclass('customer')) and not pg_has_role(relowner, 'usage')
order by relname limit 1
"""
# The statement that repairs a `search_path` without the schema of Keyrack's tables; no row if the path is right
MEND_SEARCH_PATH: LiteralString = """
select format('alter role %I in database %I set search_path = %I', current_user, current_database(), n.nspname)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where to_regclass('alembic_version') is null
  and c.relname in ('alembic_version', 'customer', 'car', 'person') and c.relkind in ('r', 'p')
group by n.nspname having count(*) = 4 order by n.nspname limit 1
"""
# Connections of processes that serve, work or ingest. `keyrack migration` is not one of them: that is this process, or
# one that waits for it
RUNNING: LiteralString = """
select distinct application_name || coalesce(' at ' || host(client_addr), '') as name
from pg_stat_activity
where datname = current_database() and application_name in (
  'keyrack', 'keyrack access', 'keyrack listener', 'keyrack worker', 'keyrack mqtt', 'keyrack position',
  'keyrack replica')
order by name
"""


OFF_SEARCH_PATH = "The search_path of Keyrack's role does not contain the schema of Keyrack's tables."


class SchemaError(Exception):
    """Keyrack cannot work with this schema or role; the text gives the operator the reason and remedy."""


class SchemaState(Enum):
    """The relation of a schema to this release."""

    EMPTY = "empty"
    OLDER = "older"
    CURRENT = "current"
    NEWER = "newer"  # compatible with this release, while a newer one takes over
    TOO_NEW = "too new"


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """The revision of the schema, and its relation to this release."""

    state: SchemaState
    revision: str | None
    mend_search_path: str | None = None  # the statement that adds Keyrack's schema to it; None if it is there

    @property
    def pending(self) -> list[str]:
        """The revisions that are still to be applied, oldest first."""
        if self.state in (SchemaState.NEWER, SchemaState.TOO_NEW):
            return []
        return [revision for revision in revisions() if revision > (self.revision or "")]

    @property
    def floor(self) -> str | None:
        """The oldest revision whose release works beside all pending revisions."""
        return max(filter(None, map(oldest, self.pending)), default=None)

    @property
    def needs_stop(self) -> bool:
        """Whether a pending revision would break the release of the current schema."""
        return self.revision is not None and (self.floor or "") > self.revision


async def migrate(dsn: str, settings: Settings | None = None) -> str:
    """Migrate the schema to this release under an advisory lock, and return its revision.

    A current schema takes no time, and that of a compatible newer release stays as it is. In every case, missing
    partitions of the months ahead are made.

    Raises `SchemaError` in these cases:
    - This release does not work with the schema.
    - A release that the migration would break is running.
    - The migration did not get its locks.
    - The role lacks a right that Keyrack needs.
    """
    settings = settings or Settings.model_construct()
    patience = migration_runner.MigrationTimeouts(
        settings.migration_lock_seconds, settings.migration_lock_retry_timeout_seconds
    )
    async with _opened(dsn, settings) as raw:
        await _lock(raw)
        await _check_search_path(raw)
        await _check_rights(raw)
        status = await standing(raw)
        if status.state is SchemaState.TOO_NEW:
            raise SchemaError(too_new(status))
        if status.state is SchemaState.NEWER:
            log.warning("schema of a newer release, compatible", revision=status.revision)
        if status.needs_stop:
            await _wait_for_stop(raw, status)
        targets = status.pending if status.revision else [head()]  # an empty schema has no users: one step
        try:
            await migration_runner.run(lambda: _connect(dsn, settings, patience.parameters()), raw, targets, patience)
        except migration_runner.LocksNotHad as error:
            raise SchemaError(str(error)) from None
        # Housekeeping does the same, but the months would be missing until the first worker runs it
        await partitions.make_ahead(Connection(raw), datetime.now(UTC))
        return (await standing(raw)).revision or head()


async def read_schema_state(dsn: str, settings: Settings | None = None) -> SchemaStatus:
    """The relation of the schema to this release; changes nothing. Raises `SchemaError` if a right is missing."""
    async with _opened(dsn, settings or Settings.model_construct()) as raw:
        await _check_search_path(raw)
        await _check_rights(raw)
        return await standing(raw)


async def is_ours(statements: Statements) -> bool:
    """Whether this release works with the schema: it is its own, or that of a compatible newer release."""
    return (await standing(statements)).state in (SchemaState.CURRENT, SchemaState.NEWER)


async def require(dsn: str, settings: Settings | None = None, *, newer: bool = False, older: bool = False) -> None:
    """Raise `SchemaError` unless this release works with the schema.

    A compatible schema of a newer release passes only if `newer` is true, and an older schema only if `older` is.
    """
    status = await read_schema_state(dsn, settings)
    if status.state is SchemaState.EMPTY or (status.state is SchemaState.OLDER and not older):
        stands = "is still empty" if status.revision is None else f"is at revision {status.revision}"
        raise SchemaError(
            f"The database {stands}; this Keyrack, {__version__}, works with revision {head()}. Run `keyrack migrate`."
        )
    if status.state is SchemaState.TOO_NEW or (status.state is SchemaState.NEWER and not newer):
        raise SchemaError(too_new(status))


def head() -> str:
    """The newest revision of this release."""
    return revisions()[-1]


def too_new(status: SchemaStatus) -> str:
    """The error text if a newer release has migrated the schema."""
    return (
        f"The database's schema is at revision {status.revision}, but Keyrack {__version__} knows revisions only up to "
        f"{head()}. A newer release has migrated it. Start that release, or use another database."
    )


def explain_workaround(status: SchemaStatus) -> str:
    """The end of a sentence: the skipped release that avoids a stop.

    Empty if no such release was skipped.
    """
    if status.floor is None or status.floor <= STOPPED:
        return ""
    return f"; or upgrade to {next(name for name, newest in RELEASES.items() if newest == status.floor)} first"


async def _check_search_path(raw: asyncpg.Connection) -> None:
    """Raise `SchemaError` if Keyrack's tables exist, but `search_path` does not contain their schema."""
    if (mend := await raw.fetchval(MEND_SEARCH_PATH)) is not None:
        raise SchemaError(f"{OFF_SEARCH_PATH} Run `{mend}`, and start Keyrack again.")


async def standing(raw: asyncpg.Connection | Statements) -> SchemaStatus:
    """The relation of the schema to this release."""
    if await raw.fetchval("select to_regclass('alembic_version')") is None:
        return SchemaStatus(SchemaState.EMPTY, None, await raw.fetchval(MEND_SEARCH_PATH))
    revision: str | None = await raw.fetchval("select version_num from alembic_version")
    if revision is None:
        return SchemaStatus(SchemaState.EMPTY, None)
    if revision in revisions():
        return SchemaStatus(SchemaState.CURRENT if revision == head() else SchemaState.OLDER, revision)
    floor = None
    if await raw.fetchval("select to_regclass('compatibility')") is not None:
        floor = await raw.fetchval("select oldest_revision from compatibility")
    return SchemaStatus(SchemaState.TOO_NEW if floor is None or floor > head() else SchemaState.NEWER, revision)


async def _wait_for_stop(raw: asyncpg.Connection, status: SchemaStatus) -> None:
    """Wait until the connections of stopped processes are gone. Raises `SchemaError` if others stay after `LEAVE`."""
    end = time.monotonic() + LEAVE
    while running := [row["name"] for row in await raw.fetch(RUNNING)]:
        if time.monotonic() > end:
            raise SchemaError(
                f"The migration from revision {status.revision} to {head()} breaks the previous release, which is "
                f"still running: {', '.join(running)}. Nothing was changed. Stop every process of "
                "Keyrack on this database, and run `keyrack migrate` again"
                f"{explain_workaround(status)} (docs/upgrading.md)."
            )
        await asyncio.sleep(0.2)


async def _lock(raw: asyncpg.Connection) -> None:
    """Take the migration lock as soon as it is free.

    It polls. A statement that waits for a lock has a snapshot, and `create index concurrently` waits for older
    snapshots.
    """
    while True:
        if await raw.fetchval("select pg_try_advisory_lock($1)", MIGRATION_LOCK):
            return
        await asyncio.sleep(0.2)


@asynccontextmanager
async def _opened(dsn: str, settings: Settings) -> AsyncGenerator[asyncpg.Connection]:
    raw = await _connect(dsn, settings, {})
    try:
        yield raw
    finally:
        await raw.close()


async def _connect(dsn: str, settings: Settings, parameters: Mapping[str, str]) -> asyncpg.Connection:
    server_settings = {"application_name": "keyrack migration", **parameters}
    return await PrimaryConnector(dsn, settings).connect(server_settings=server_settings)


async def _check_rights(raw: asyncpg.Connection) -> None:
    """Raise `SchemaError` if the role lacks a right that migrations or new monthly partitions need."""
    role, database = await raw.fetchval("select current_user"), await raw.fetchval("select current_database()")
    if table := await raw.fetchval(NOT_OWNED):
        raise SchemaError(
            f"The role {role} does not own the table {table} in the database {database}. Keyrack's role must own its "
            "database and what is in it."
        )
    if not await raw.fetchval(MAY_CREATE):
        raise SchemaError(
            f"The role {role} may not create tables in the database {database}. Keyrack's role must own its database."
        )
