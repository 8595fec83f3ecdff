"""In charge of bringing the schema up to date, and of saying which revision that is."""

from __future__ import annotations

from pathlib import Path

import asyncpg

from keyrack.errors import Unavailable

NO_ADDRESS = (
    "KEYRACK_DATABASE_URL is no address of the form postgresql://user:password@host:port/name. "
    "In the user's name and password, : / ? # [ ] @ and % are written as %3A %2F %3F %23 %5B %5D %40 and %25."
)

MIGRATION_LOCK = 7_260_915  # any constant: one migration at a time, whoever starts first


async def migrate(dsn: str) -> str:
    """Bring the schema up to date under an advisory lock and return its revision; a current one takes no time.

    Raises `Unavailable` for what is no address.
    """
    raw = await _connect(dsn)
    try:
        await raw.execute("select pg_advisory_lock($1)", MIGRATION_LOCK)
        revision = await _revision(raw)
        if revision != head():
            await _upgrade(dsn)
        return head()
    finally:
        await raw.close()


async def _connect(dsn: str) -> asyncpg.Connection:
    try:
        return await asyncpg.connect(dsn)
    except asyncpg.InterfaceError:  # some of them are ValueErrors too, but quote nothing
        raise
    except ValueError:  # quotes what it takes for a port, which may be part of a password
        raise Unavailable(NO_ADDRESS) from None


def head() -> str:
    """The newest revision: the name of a file in migrations/versions starts with it."""
    files = (Path(__file__).parent / "migrations/versions").glob("[0-9]*_*.py")
    return max(file.name.split("_")[0] for file in files)


async def _revision(raw: asyncpg.Connection) -> str | None:
    if await raw.fetchval("select to_regclass('alembic_version')") is None:
        return None
    return await raw.fetchval("select version_num from alembic_version")


async def _upgrade(dsn: str) -> None:
    # Alembic and SQLAlchemy are heavy and needed only here, once in a release
    from alembic import command
    from alembic.config import Config
    from sqlalchemy.ext.asyncio import create_async_engine
    from sqlalchemy.pool import NullPool

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))

    def upgrade(connection: object) -> None:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")

    engine = create_async_engine(
        "postgresql+asyncpg://", async_creator=lambda: asyncpg.connect(dsn), poolclass=NullPool
    )
    async with engine.begin() as connection:
        await connection.run_sync(upgrade)
