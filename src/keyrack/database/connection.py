"""In charge of the connections to the database: the pool, transactions, typed statements.

SQL is a `LiteralString` everywhere, so text of a client can only become a parameter: an injection is a type error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, LiteralString, Protocol

import asyncpg

from keyrack.database.session import prepare, session
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

# Classes of SQLSTATE that say nothing about the statement itself: connections, transactions that cannot go on here and
# now (read-only, serialization, deadlock), resources such as a full disk, locks and time-outs, operators, the system
PASSING = ("08", "25", "40", "53", "55", "57", "58", "XX")


def is_interruption(error: BaseException) -> bool:
    """Whether the cause lies outside of what was asked for: the same may go well another time.

    A value that cannot even be sent is asyncpg's `InterfaceError` too, but also a `ValueError`, and no accident.
    """
    if isinstance(error, asyncpg.PostgresError):
        return (error.sqlstate or "")[:2] in PASSING
    return isinstance(error, (*UNREACHABLE, TimeoutError)) and not isinstance(error, ValueError)


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
    async def connect(
        cls,
        dsn: str,
        settings: Settings,
        *,
        application: str = "keyrack",
        parameters: Mapping[str, str] | None = None,
    ) -> Database:
        """Open the pool; `parameters` are the server's. Raises `Unavailable` while it cannot be reached."""
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
                server_settings=session(settings, application) | dict(parameters or {}),
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


async def _keep(_raw: asyncpg.Connection) -> None:
    """Nothing to reset: no statement of ours leaves a trace in the session. The default costs a round trip."""
