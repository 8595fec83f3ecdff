"""In charge of which schema the database has: whether this release works with it, what is to be done, and doing it."""

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

MIGRATION_LOCK = 7_260_915  # any constant: one migration at a time, whoever starts first
LEAVE = 10.0  # seconds in which the connections of processes that were stopped are gone

MAY_CREATE: LiteralString = "select coalesce(has_schema_privilege(current_schema(), 'create'), false)"
# One table of ours that belongs to somebody else: everything else in the schema came with it
NOT_OWNED: LiteralString = """
select relname from pg_class
where oid in (to_regclass('alembic_version'), to_regclass('customer')) and not pg_has_role(relowner, 'usage')
order by relname limit 1
"""
# The statement that mends a `search_path` without the schema of Keyrack's tables; no row where it is there
MEND_SEARCH_PATH: LiteralString = """
select format('alter role %I in database %I set search_path = %I', current_user, current_database(), n.nspname)
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where to_regclass('alembic_version') is null
  and c.relname in ('alembic_version', 'customer', 'car', 'person') and c.relkind in ('r', 'p')
group by n.nspname having count(*) = 4 order by n.nspname limit 1
"""
# What serves, works or takes in; `keyrack migration` is ourselves and those who wait for us
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
    """Keyrack cannot work with this schema, or as this role; the text tells an operator why and what to do."""


class SchemaState(Enum):
    """How a schema stands to this release."""

    EMPTY = "empty"
    OLDER = "older"
    CURRENT = "current"
    NEWER = "newer"  # and this release works with it, while the newer one takes over
    TOO_NEW = "too new"


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """The schema's revision, and how it stands to this release."""

    state: SchemaState
    revision: str | None
    mend_search_path: str | None = None  # the statement that puts the schema of Keyrack's tables on it; None: it is

    @property
    def pending(self) -> list[str]:
        """The revisions that are still to come, oldest first."""
        if self.state in (SchemaState.NEWER, SchemaState.TOO_NEW):
            return []
        return [revision for revision in revisions() if revision > (self.revision or "")]

    @property
    def floor(self) -> str | None:
        """The oldest revision whose release works beside all that is still to come."""
        return max(filter(None, map(oldest, self.pending)), default=None)

    @property
    def needs_stop(self) -> bool:
        """Whether what is still to come would break the release that the schema is of."""
        return self.revision is not None and (self.floor or "") > self.revision


async def migrate(dsn: str, settings: Settings | None = None) -> str:
    """Bring the schema up to date under an advisory lock and return its revision; a current one takes no time. One of a
    newer release that this one works with stays as it is.

    Raises `SchemaError`: this release does not work with it, another one that would break is running, locks were not to
    be had, or the role lacks a right that Keyrack needs.
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
        targets = status.pending if status.revision else [head()]  # where nobody can be in the way, all at once
        try:
            await migration_runner.run(lambda: _connect(dsn, settings, patience.parameters()), raw, targets, patience)
        except migration_runner.LocksNotHad as error:
            raise SchemaError(str(error)) from None
        # Housekeeping does the same; without it, the months would be missing until the first worker has run
        await partitions.make_ahead(Connection(raw), datetime.now(UTC))
        return (await standing(raw)).revision or head()


async def read_schema_state(dsn: str, settings: Settings | None = None) -> SchemaStatus:
    """How the schema stands to this release; nothing is changed. Raises `SchemaError`: a right is missing."""
    async with _opened(dsn, settings or Settings.model_construct()) as raw:
        await _check_search_path(raw)
        await _check_rights(raw)
        return await standing(raw)


async def is_ours(statements: Statements) -> bool:
    """Whether this release works with the schema: its own, or that of a newer one that is taking over."""
    return (await standing(statements)).state in (SchemaState.CURRENT, SchemaState.NEWER)


async def require(dsn: str, settings: Settings | None = None, *, newer: bool = False) -> None:
    """Raises `SchemaError` where the schema is not that of this release, or, if `newer`, one that it works with."""
    status = await read_schema_state(dsn, settings)
    if status.state in (SchemaState.EMPTY, SchemaState.OLDER):
        stands = "is still empty" if status.revision is None else f"is at revision {status.revision}"
        raise SchemaError(
            f"The database {stands}; this Keyrack, {__version__}, works with revision {head()}. Run `keyrack migrate`."
        )
    if status.state is SchemaState.TOO_NEW or (status.state is SchemaState.NEWER and not newer):
        raise SchemaError(too_new(status))


def head() -> str:
    """The newest revision that this release knows."""
    return revisions()[-1]


def too_new(status: SchemaStatus) -> str:
    """What to say where a newer release has migrated."""
    return (
        f"The database's schema is at revision {status.revision}; this Keyrack, {__version__}, knows revisions up to "
        f"{head()}: a newer one has migrated it. Start that one, or use a database of this one's own."
    )


def explain_workaround(status: SchemaStatus) -> str:
    """The release by which the upgrade needs no stop, where one was skipped, as the end of a sentence."""
    if status.floor is None or status.floor <= STOPPED:
        return ""
    return f"; or upgrade to {next(name for name, newest in RELEASES.items() if newest == status.floor)} first"


async def _check_search_path(raw: asyncpg.Connection) -> None:
    """Raises `SchemaError` if `search_path` does not lead to Keyrack's tables, which exist."""
    if (mend := await raw.fetchval(MEND_SEARCH_PATH)) is not None:
        raise SchemaError(f"{OFF_SEARCH_PATH} Run `{mend}`, and start Keyrack again.")


async def standing(raw: asyncpg.Connection | Statements) -> SchemaStatus:
    """How the schema stands to this release."""
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
    """Give the connections of processes that were stopped just now a moment. Raises `SchemaError`: others stay."""
    end = time.monotonic() + LEAVE
    while running := [row["name"] for row in await raw.fetch(RUNNING)]:
        if time.monotonic() > end:
            raise SchemaError(
                f"The schema is at revision {status.revision}, and what brings it to {head()} breaks the release that "
                f"made it, which is still running: {', '.join(running)}. Nothing was changed. Stop every process of "
                "Keyrack on this database, and run `keyrack migrate` again"
                f"{explain_workaround(status)} (docs/upgrading.md)."
            )
        await asyncio.sleep(0.2)


async def _lock(raw: asyncpg.Connection) -> None:
    """Take the lock of migrations as soon as no other process has it.

    It polls: a statement that waits for a lock has a snapshot, and `create index concurrently` waits for older ones.
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
    """Raises `SchemaError` where a migration, or a new partition some month, would fail."""
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
