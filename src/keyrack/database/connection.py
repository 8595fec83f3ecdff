"""In charge of the database: the pool, transactions, typed statements, and bringing the schema up to date.

SQL is a `LiteralString` everywhere, so text of a client can only become a parameter: an injection is a type error.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, LiteralString, Protocol

import asyncpg

from keyrack.errors import Unavailable
from keyrack.settings import Settings

Row = asyncpg.Record

# What PostgreSQL or the network say when the server is away or going: nothing was committed, so a repeat is safe
UNREACHABLE = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.InternalClientError,  # the connection went away between two steps of asyncpg
)


class Statements(Protocol):
    """What runs statements: the pool, or one connection inside a transaction."""

    async def fetch(self, sql: LiteralString, *args: object) -> list[Row]: ...
    async def fetchrow(self, sql: LiteralString, *args: object) -> Row | None: ...
    async def fetchval(self, sql: LiteralString, *args: object) -> Any: ...
    async def execute(self, sql: LiteralString, *args: object) -> object: ...


class Connection:
    """One connection: the statements of a transaction."""

    def __init__(self, raw: asyncpg.Connection) -> None:
        self.raw = raw

    async def fetch(self, sql: LiteralString, *args: object) -> list[Row]:
        return await self.raw.fetch(sql, *args)

    async def fetchrow(self, sql: LiteralString, *args: object) -> Row | None:
        return await self.raw.fetchrow(sql, *args)

    async def fetchval(self, sql: LiteralString, *args: object) -> Any:
        return await self.raw.fetchval(sql, *args)

    async def execute(self, sql: LiteralString, *args: object) -> str:
        return await self.raw.execute(sql, *args)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[None]:
        """A savepoint: what fails inside is undone alone."""
        async with self.raw.transaction():
            yield

    async def copy(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """COPY `rows` into `table`."""
        await self.raw.copy_records_to_table(table, records=rows, columns=columns)


class Database:
    """The connections of one process; a statement outside a transaction takes one for itself.

    asyncpg's pool opens, counts and mends them. Between two statements a connection stays here: handing it back to
    the pool and taking it out again costs a third of a read (docs/performance.md), and is done only when somebody
    waits for one, or when something has gone wrong with it.
    """

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._kept: list[asyncpg.Connection] = []
        self._waiting = 0

    @classmethod
    async def connect(cls, dsn: str, settings: Settings, *, application: str = "keyrack") -> Database:
        """Open the pool. Raises `Unavailable` while the server cannot be reached."""
        try:
            pool = await asyncpg.create_pool(
                dsn,
                min_size=1,
                max_size=settings.pool_size,
                init=prepare,
                reset=_keep,
                statement_cache_size=200,  # each costs memory in every connection, here and in the database
                max_cached_statement_lifetime=0,
                command_timeout=settings.read_timeout + 5,  # a server that is gone without a word
                server_settings=session(settings, application),
            )
        except UNREACHABLE as error:
            raise Unavailable(f"The database cannot be reached: {error}") from error
        return cls(pool)

    async def close(self) -> None:
        """Close all connections; statements under way get three seconds."""
        try:
            async with asyncio.timeout(3):
                while self._kept:
                    await self._pool.release(self._kept.pop())
                await self._pool.close()
        except TimeoutError:
            self._pool.terminate()

    async def fetch(self, sql: LiteralString, *args: object) -> list[Row]:
        raw = await self._take()
        try:
            rows = await raw.fetch(sql, *args)
        except BaseException:
            await self._pool.release(raw)
            raise
        await self._give_back(raw)
        return rows

    async def fetchrow(self, sql: LiteralString, *args: object) -> Row | None:
        raw = await self._take()
        try:
            row = await raw.fetchrow(sql, *args)
        except BaseException:
            await self._pool.release(raw)
            raise
        await self._give_back(raw)
        return row

    async def fetchval(self, sql: LiteralString, *args: object) -> Any:
        row = await self.fetchrow(sql, *args)
        return None if row is None else row[0]

    async def execute(self, sql: LiteralString, *args: object) -> None:
        await self.fetch(sql, *args)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Connection]:
        """A transaction: committed when the block ends, undone when it raises."""
        raw = await self._take()
        try:
            async with raw.transaction():
                yield Connection(raw)
        except BaseException:
            await self._pool.release(raw)
            raise
        await self._give_back(raw)

    async def _take(self) -> asyncpg.Connection:
        while self._kept:
            raw = self._kept.pop()
            with suppress(asyncpg.InterfaceError):  # its server side has ended, and the pool has taken it back already
                if not raw.is_closed():
                    return raw
            await self._pool.release(raw)
        self._waiting += 1
        try:
            return await self._pool.acquire()
        finally:
            self._waiting -= 1

    async def _give_back(self, raw: asyncpg.Connection) -> None:
        if self._waiting:
            await self._pool.release(raw)
        else:
            self._kept.append(raw)


class InTransaction(Database):
    """A database whose statements all belong to one open transaction: each stands alone, as in a savepoint."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def fetch(self, sql: LiteralString, *args: object) -> list[Row]:
        async with self._connection.transaction():
            return await self._connection.fetch(sql, *args)

    async def fetchrow(self, sql: LiteralString, *args: object) -> Row | None:
        async with self._connection.transaction():
            return await self._connection.fetchrow(sql, *args)

    async def fetchval(self, sql: LiteralString, *args: object) -> Any:
        async with self._connection.transaction():
            return await self._connection.fetchval(sql, *args)

    async def execute(self, sql: LiteralString, *args: object) -> None:
        async with self._connection.transaction():
            await self._connection.execute(sql, *args)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Connection]:
        async with self._connection.transaction():
            yield self._connection


PIECE = 5_000  # rows that one statement removes


async def repeat(db: Database, sql: LiteralString, *args: object) -> None:
    """Remove rows, a piece at a time: `sql` takes the size of a piece as its last parameter and returns how many."""
    removed = PIECE
    while removed >= PIECE:
        removed = await db.fetchval(sql, *args, PIECE)


def session(settings: Settings, application: str) -> dict[str, str]:
    """What every connection is told at its start; SQL reads the `keyrack.` ones with `current_setting`."""
    return {
        "application_name": application,
        "timezone": "UTC",
        "jit": "off",
        "statement_timeout": str(int(settings.read_timeout * 1000)),
        "idle_in_transaction_session_timeout": "15000",  # a client that is gone silently must not hold its locks
        "keyrack.brand": settings.brand,
        "keyrack.public_url": settings.public_url,
    }


async def prepare(raw: asyncpg.Connection) -> None:
    """JSON that PostgreSQL has built goes out as the bytes that came; JSON for it comes in as Python values.

    A time is the time that it is: asyncpg's own codecs take the first and the last that Python has for infinity.
    """
    await raw.set_type_codec("json", schema="pg_catalog", encoder=_dump, decoder=bytes, format="binary")
    await raw.set_type_codec("jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads, format="text")
    await raw.set_type_codec("timestamptz", schema="pg_catalog", encoder=_sent, decoder=_received, format="tuple")
    await raw.set_type_codec("date", schema="pg_catalog", encoder=_sent_day, decoder=_received_day, format="tuple")


def _dump(value: object) -> bytes:
    return json.dumps(value).encode()


_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)  # PostgreSQL's
_MICROSECOND = timedelta(microseconds=1)


def _sent(time: datetime) -> tuple[int]:
    return ((time - _EPOCH) // _MICROSECOND,)


def _received(microseconds: tuple[int]) -> datetime:
    return _EPOCH + microseconds[0] * _MICROSECOND


def _sent_day(day: date) -> tuple[int]:
    return (day.toordinal() - _EPOCH.toordinal(),)


def _received_day(days: tuple[int]) -> date:
    return date.fromordinal(_EPOCH.toordinal() + days[0])


async def _keep(_raw: asyncpg.Connection) -> None:
    """Nothing to reset: no statement of ours leaves a trace in the session. The default costs a round trip."""


MIGRATION_LOCK = 7_260_915  # any constant: one migration at a time, whoever starts first


async def migrate(dsn: str) -> str:
    """Bring the schema up to date under an advisory lock and return its revision; a current one takes no time."""
    raw = await asyncpg.connect(dsn)
    try:
        await raw.execute("select pg_advisory_lock($1)", MIGRATION_LOCK)
        revision = await _revision(raw)
        if revision != head():
            await _upgrade(dsn)
        return head()
    finally:
        await raw.close()


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
