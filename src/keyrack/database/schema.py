"""In charge of bringing the schema up to date, and of saying which revision that is."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import LiteralString

import asyncpg

from keyrack import __version__
from keyrack.database.connection import Statements
from keyrack.database.connector import Connector
from keyrack.settings import Settings

MIGRATION_LOCK = 7_260_915  # any constant: one migration at a time, whoever starts first

MAY_CREATE: LiteralString = "select coalesce(has_schema_privilege(current_schema(), 'create'), false)"
# One table of ours that belongs to somebody else: everything else in the schema came with it
NOT_OWNED: LiteralString = """
select relname from pg_class
where oid in (to_regclass('alembic_version'), to_regclass('customer')) and not pg_has_role(relowner, 'usage')
order by relname limit 1
"""


class SchemaError(Exception):
    """Keyrack cannot work with this schema, or as this role; the text tells an operator why and what to do."""


async def migrate(dsn: str, settings: Settings | None = None) -> str:
    """Bring the schema up to date under an advisory lock and return its revision; a current one takes no time.

    Raises `SchemaError`: a newer Keyrack has migrated it, or the role lacks a right that Keyrack needs.
    """
    connector = Connector(dsn, settings or Settings.model_construct())
    raw = await connector.connect()
    try:
        await raw.execute("select pg_advisory_lock($1)", MIGRATION_LOCK)
        await _check_rights(raw)
        revision = await _revision(raw)
        if revision not in (None, *_revisions()):
            raise SchemaError(
                f"The database's schema is at revision {revision}; this Keyrack, {__version__}, knows revisions up to "
                f"{head()}: a newer one has migrated it. Start that one, or use a database of this one's own."
            )
        if revision != head():
            await _upgrade(connector)
        return head()
    finally:
        await raw.close()


async def is_current(statements: Statements) -> bool:
    """Whether the schema is one that this release works with: its own, or that of a newer one, which may be on its way
    to take over."""
    known, found = _revisions(), await _revision(statements)
    return found is not None and (found not in known or found == max(known))


def head() -> str:
    """The newest revision: the name of a file in migrations/versions starts with it."""
    return max(_revisions())


@cache
def _revisions() -> list[str]:
    files = (Path(__file__).parent / "migrations/versions").glob("[0-9]*_*.py")
    return [file.name.split("_")[0] for file in files]


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


async def _revision(raw: asyncpg.Connection | Statements) -> str | None:
    if await raw.fetchval("select to_regclass('alembic_version')") is None:
        return None
    return await raw.fetchval("select version_num from alembic_version")


async def _upgrade(connector: Connector) -> None:
    # Alembic and SQLAlchemy are heavy and needed only here, once in a release
    from alembic import command
    from alembic.config import Config
    from sqlalchemy.exc import DBAPIError
    from sqlalchemy.ext.asyncio import create_async_engine
    from sqlalchemy.pool import NullPool

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))

    def upgrade(connection: object) -> None:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")

    engine = create_async_engine("postgresql+asyncpg://", async_creator=connector.connect, poolclass=NullPool)
    try:
        async with engine.begin() as connection:
            await connection.run_sync(upgrade)
    except DBAPIError as error:  # around what PostgreSQL said, with the whole statement
        raise (error.orig and error.orig.__cause__) or error from None
