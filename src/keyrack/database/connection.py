"""In charge of the connections to the database: the pool, transactions, typed statements.

SQL is a `LiteralString` everywhere, so text of a client can only become a parameter: an injection is a type error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from time import perf_counter
from typing import Any, LiteralString, Protocol, TypeVar

import asyncpg

from keyrack.database.session import prepare, session
from keyrack.database.shares import PROCESS, Shares, Who
from keyrack.errors import Unavailable
from keyrack.metrics.instruments import Spread
from keyrack.metrics.measures import STATEMENT_SECONDS
from keyrack.reasons import DATABASE_AWAY
from keyrack.settings import Settings

Row = asyncpg.Record
T = TypeVar("T")

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
# now (read-only, serialization, deadlock), rights that were taken away (a file system that has become read-only is told
# like that, too), resources such as a full disk, locks and time-outs, operators, the system
PASSING = ("08", "25", "40", "42501", "53", "55", "57", "58", "XX")


def is_interruption(error: BaseException) -> bool:
    """Whether the cause lies outside of what was asked for: the same may go well another time.

    A value that cannot even be sent is asyncpg's `InterfaceError` too, but also a `ValueError`, and no accident.
    """
    if isinstance(error, asyncpg.PostgresError):
        return (error.sqlstate or "").startswith(PASSING)
    return isinstance(error, (*UNREACHABLE, TimeoutError)) and not isinstance(error, ValueError)


class Statements(Protocol):
    """What runs statements: the pool, or one connection inside a transaction."""

    async def fetch(self, sql: LiteralString, *args: object) -> list[Row]: ...
    async def fetchrow(self, sql: LiteralString, *args: object) -> Row | None: ...
    async def fetchval(self, sql: LiteralString, *args: object) -> Any: ...
    async def execute(self, sql: LiteralString, *args: object) -> object: ...


async def timed(seconds: Spread, statement: Awaitable[T]) -> T:
    """What a statement answers; its time is taken note of, however it ends."""
    begun = perf_counter()
    try:
        return await statement
    finally:
        seconds.observe(perf_counter() - begun)


class Cursor(Protocol):
    """What hands over rows some at a time."""

    async def fetch(self, n: int) -> list[Row]: ...


class Connection:
    """One connection: the statements of a transaction."""

    def __init__(self, raw: asyncpg.Connection, pool: str = "keyrack") -> None:
        self.raw = raw
        self._seconds = STATEMENT_SECONDS.of(pool)

    async def fetch(self, sql: LiteralString, *args: object) -> list[Row]:
        return await timed(self._seconds, self.raw.fetch(sql, *args))

    async def fetchrow(self, sql: LiteralString, *args: object) -> Row | None:
        return await timed(self._seconds, self.raw.fetchrow(sql, *args))

    async def fetchval(self, sql: LiteralString, *args: object) -> Any:
        return await timed(self._seconds, self.raw.fetchval(sql, *args))

    async def execute(self, sql: LiteralString, *args: object) -> str:
        return await timed(self._seconds, self.raw.execute(sql, *args))

    async def cursor(self, sql: LiteralString, *args: object) -> Cursor:
        """The rows of a statement, some at a time, as long as the transaction is open."""
        return await self.raw.cursor(sql, *args)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[None]:
        """A savepoint: what fails inside is undone alone."""
        async with self.raw.transaction():
            yield

    async def copy(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """COPY `rows` into `table`."""
        await self.raw.copy_records_to_table(table, records=rows, columns=columns)


class Pool:
    """The connections of one process, and who gets one next.

    asyncpg's pool opens and mends them. Between two statements a connection stays here: handing it back to the pool
    and taking it out again costs a third of a read (docs/performance.md), and is done only when something has gone
    wrong with it.
    """

    def __init__(self, pool: asyncpg.Pool, size: int, settings: Settings, name: str) -> None:
        self.share = max(1, size // 2)  # connections that one party has at a time
        self.name = name
        self.seconds = STATEMENT_SECONDS.of(name)
        self._pool = pool
        self._shares = Shares(size, settings.share_waiting, settings.share_seconds, name)
        self._kept: list[asyncpg.Connection] = []

    async def take(self, who: Who) -> asyncpg.Connection:
        """A connection for `who`. Raises `Unavailable` where too many wait for theirs."""
        await self._shares.take(who)
        try:
            while self._kept:
                raw = self._kept.pop()
                with suppress(asyncpg.InterfaceError):  # its server side has ended, and asyncpg has it back already
                    if not raw.is_closed():
                        return raw
                await self._pool.release(raw)
            return await self._pool.acquire()
        except BaseException:
            self._shares.give_back(who)
            raise

    def give_back(self, who: Who, raw: asyncpg.Connection) -> None:
        """Keep the connection for the next one."""
        self._kept.append(raw)
        self._shares.give_back(who)

    async def mend(self, who: Who, raw: asyncpg.Connection) -> None:
        """Give back a connection on which something has gone wrong."""
        try:
            await self._pool.release(raw)
        finally:
            self._shares.give_back(who)

    async def close(self) -> None:
        """Close all connections; statements under way get three seconds."""
        self._shares.end()
        try:
            async with asyncio.timeout(3):
                while self._kept:
                    await self._pool.release(self._kept.pop())
                await self._pool.close()
        except TimeoutError:
            self._pool.terminate()


class Database:
    """The database, on somebody's behalf; a statement outside a transaction takes a connection for itself."""

    __slots__ = ("_pool", "_who")

    def __init__(self, pool: Pool, who: Who = PROCESS) -> None:
        self._pool = pool
        self._who = who

    @classmethod
    async def connect(
        cls,
        dsn: str,
        settings: Settings,
        *,
        application: str = "keyrack",
        parameters: Mapping[str, str] | None = None,
        size: int | None = None,
    ) -> Database:
        """Open the connections, `size` at most, else `pool_size`; `parameters` are the server's. Raises `Unavailable`
        while it cannot be reached."""
        size = size or settings.pool_size
        try:
            pool = await asyncpg.create_pool(
                dsn,
                min_size=1,
                max_size=size,
                init=prepare,
                reset=_keep,
                statement_cache_size=200,  # each costs memory in every connection, here and in the database
                max_cached_statement_lifetime=0,
                command_timeout=settings.read_timeout + 5,  # a server that is gone without a word
                server_settings=session(settings, application) | dict(parameters or {}),
            )
        except UNREACHABLE as error:
            raise Unavailable(DATABASE_AWAY.saying(f"The database cannot be reached: {error}")) from error
        return cls(Pool(pool, size, settings, application))

    def of(self, customer: int, manager: int = 0, *, reads: bool = False) -> Database:
        """The same database on behalf of a customer or a manager or both, 0 for none: what it takes is taken from
        their shares, half of the connections each. Reads leave the last one of it to what is written."""
        parties = [("customer", customer)] if customer else []
        if manager:
            parties.append(("manager", manager))
        return Database(self._pool, Who(tuple(parties), max(1, self._pool.share - reads)))

    async def close(self) -> None:
        """Close all connections; statements under way get three seconds."""
        await self._pool.close()

    async def fetch(self, sql: LiteralString, *args: object) -> list[Row]:
        raw = await self._pool.take(self._who)
        try:
            rows = await timed(self._pool.seconds, raw.fetch(sql, *args))
        except BaseException:
            await self._pool.mend(self._who, raw)
            raise
        self._pool.give_back(self._who, raw)
        return rows

    async def fetchrow(self, sql: LiteralString, *args: object) -> Row | None:
        raw = await self._pool.take(self._who)
        try:
            row = await timed(self._pool.seconds, raw.fetchrow(sql, *args))
        except BaseException:
            await self._pool.mend(self._who, raw)
            raise
        self._pool.give_back(self._who, raw)
        return row

    async def fetchval(self, sql: LiteralString, *args: object) -> Any:
        row = await self.fetchrow(sql, *args)
        return None if row is None else row[0]

    async def execute(self, sql: LiteralString, *args: object) -> None:
        await self.fetch(sql, *args)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Connection]:
        """A transaction: committed when the block ends, undone when it raises."""
        raw = await self._pool.take(self._who)
        try:
            async with raw.transaction():
                yield Connection(raw, self._pool.name)
        except BaseException:
            await self._pool.mend(self._who, raw)
            raise
        self._pool.give_back(self._who, raw)


class InTransaction(Database):
    """A database whose statements all belong to one open transaction: each stands alone, as in a savepoint."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def of(self, customer: int, manager: int = 0, *, reads: bool = False) -> Database:
        """Itself: it has its connection already."""
        return self

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


async def _keep(_raw: asyncpg.Connection) -> None:
    """Nothing to reset: no statement of ours leaves a trace in the session. The default costs a round trip."""
