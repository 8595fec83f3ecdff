"""In charge of the connections to the database: the pool, transactions, typed statements.

SQL is a `LiteralString` everywhere, so text of a client can only become a parameter: an injection is a type error.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import lru_cache
from typing import Any, LiteralString, Protocol, TypeVar

import asyncpg

from keyrack.core.error_codes import DATABASE_AWAY
from keyrack.core.errors import Unavailable
from keyrack.core.metrics.catalog import STATEMENT_SECONDS
from keyrack.core.settings import Settings
from keyrack.db.audit_context import UNRECORDED, acting, begin_statement
from keyrack.db.fair_semaphore import PROCESS, TenantShares
from keyrack.db.pool import NEVER, ROLLBACK, OutcomeUnknown, Pool, acquire_timeout, timed
from keyrack.db.replication.primary import GOING, is_shutting_down
from keyrack.db.replication.primary_connector import KeepAliveConnection, PrimaryConnector
from keyrack.db.session_settings import LACKING, NO_STATEMENT_TIMEOUT, NOT_TOLD, prepare, session

__all__ = ["Connection", "Database", "OutcomeUnknown", "Row", "Statements"]

Row = asyncpg.Record
T = TypeVar("T")

# Sent by hand: asyncpg's own transactions would put the time-out of statements on a COMMIT
COMMIT: LiteralString = "commit"
# Of one name the last one is meant, so that they may lie in one another
INNER: tuple[LiteralString, ...] = (
    "savepoint inner_one",
    "rollback to savepoint inner_one; release savepoint inner_one",
    "release savepoint inner_one",
)
# What a statement writes to; `for update` and `do update set` name no table
WRITTEN = re.compile(r"\b(?:insert into|update|delete from)\s+(?:only\s+)?(\w+)", re.IGNORECASE).findall
NO_TABLES = {"of", "nowait", "set", "skip"}

# asyncpg's own cursors prepare a statement with a name, which is not there any more on PgBouncer's next connection.
# Powers of two: each text is prepared once in every connection
DECLARE: LiteralString = "declare listed no scroll cursor for "
SOME: tuple[LiteralString, ...] = (
    "fetch 1 from listed", "fetch 2 from listed", "fetch 4 from listed", "fetch 8 from listed", "fetch 16 from listed",
    "fetch 32 from listed", "fetch 64 from listed", "fetch 128 from listed",
)  # fmt: skip

# What PostgreSQL or the network say when the server is away or going: nothing was committed, so a repeat is safe, but
# for `OutcomeUnknown`
UNREACHABLE = (*GOING, asyncpg.TooManyConnectionsError)

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


class Connection:
    """One connection: the statements of a transaction."""

    def __init__(self, raw: asyncpg.Connection, pool: str = "keyrack") -> None:
        self.raw = raw
        self._seconds = STATEMENT_SECONDS.of(pool)
        self._timeout: float | None = None  # seconds of one statement; None: those of the connection

    async def lift_timeouts(self) -> None:
        """Let each further statement of the transaction take as long as it needs, at the server and at this end."""
        await self.execute(NO_STATEMENT_TIMEOUT)
        self._timeout = NEVER

    async def fetch(self, sql: LiteralString, *args: object) -> list[Row]:
        return await timed(self._seconds, sql, self.raw.fetch(sql, *args, timeout=self._timeout))

    async def fetchrow(self, sql: LiteralString, *args: object) -> Row | None:
        return await timed(self._seconds, sql, self.raw.fetchrow(sql, *args, timeout=self._timeout))

    async def fetchval(self, sql: LiteralString, *args: object) -> Any:
        return await timed(self._seconds, sql, self.raw.fetchval(sql, *args, timeout=self._timeout))

    async def execute(self, sql: LiteralString, *args: object) -> str:
        return await timed(self._seconds, sql, self.raw.execute(sql, *args, timeout=self._timeout))

    async def declare(self, sql: LiteralString, *args: object) -> None:
        """Begin with a statement whose rows are fetched some at a time, one of them in a transaction."""
        await self.raw.execute(DECLARE + sql, *args, timeout=self._timeout)

    async def fetch_batch(self, max_rows: int) -> list[Row]:
        """The next rows of the declared statement, `max_rows` or somewhat fewer; none at the end."""
        return await self.raw.fetch(SOME[min(max_rows.bit_length(), len(SOME)) - 1], timeout=self._timeout)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[None]:
        """A savepoint: what fails inside is undone alone. On a connection without a transaction it is one."""
        begin, undo, end = INNER if self.raw.is_in_transaction() else (begin_statement(), ROLLBACK, COMMIT)
        await self.raw.execute(begin)
        try:
            yield
        except BaseException:
            with suppress(*UNREACHABLE):  # then there is nothing to undo any more
                await self.raw.execute(undo)
            raise
        await self.raw.execute(end)

    async def copy(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """COPY `rows` into `table`."""
        await self.raw.copy_records_to_table(table, records=rows, columns=columns, timeout=self._timeout)


class Database:
    """The database, on somebody's behalf; a statement outside a transaction takes a connection for itself.

    Where it is not known to be a read, nobody cancels it; see `pool`. `OutcomeUnknown` says that its connection was
    lost meanwhile.
    """

    __slots__ = ("_pool", "_reads", "_shares")

    def __init__(self, pool: Pool, shares: TenantShares = PROCESS, *, reads: bool = False) -> None:
        self._pool = pool
        self._shares = shares
        self._reads = reads

    @classmethod
    async def connect(
        cls,
        dsn: str | PrimaryConnector,
        settings: Settings,
        *,
        application: str = "keyrack",
        parameters: Mapping[str, str] | None = None,
        size: int | None = None,
    ) -> Database:
        """Open the connections, `size` at most, else `pool_size`; `parameters` are the server's. Raises `Unavailable`
        while it cannot be reached."""
        size = size or settings.pool_size
        own = parameters or {}
        session_parameters = {name: value for name, value in session(settings).items() if name not in own}
        connector = dsn if isinstance(dsn, PrimaryConnector) else PrimaryConnector(dsn, settings)
        try:
            pool = await asyncpg.create_pool(
                connector.dsn,
                connect=connector,
                connection_class=KeepAliveConnection,
                init_size=1,
                min_size=0,  # else asyncpg tries to open one again and again while the server is away
                max_size=size,
                init=prepare,
                reset=_keep,
                statement_cache_size=settings.statement_cache,
                max_cached_statement_lifetime=0,
                command_timeout=acquire_timeout(settings),
                server_settings={**session_parameters, "application_name": application, **own},
            )
        except UNREACHABLE as error:
            raise Unavailable(DATABASE_AWAY.with_text(f"The database cannot be reached: {error}")) from error
        database = cls(Pool(pool, size, settings, connector, application))
        if lacking := await database.fetchval(LACKING, list(session_parameters), list(session_parameters.values())):
            await database.close()
            raise Unavailable(DATABASE_AWAY.with_text(NOT_TOLD.format(lacking=lacking)))
        return database

    def of(self, customer: int, manager: int = 0, *, reads: bool = False) -> Database:
        """The same database on behalf of a customer or a manager or both, 0 for none: what it takes is taken from
        their shares, half of the connections each. Reads leave the last one of it to what is written."""
        tenants = [("customer", customer)] if customer else []
        if manager:
            tenants.append(("manager", manager))
        return Database(self._pool, TenantShares(tuple(tenants), max(1, self._pool.share - reads)), reads=reads)

    def reading(self) -> Database:
        """The same, for statements that change nothing."""
        return Database(self._pool, self._shares, reads=True)

    @property
    def connector(self) -> PrimaryConnector:
        """The way on which its connections are opened."""
        return self._pool.connector

    async def close(self) -> None:
        """Close all connections; statements under way get three seconds."""
        await self._pool.close()

    async def fetch(self, sql: LiteralString, *args: object) -> list[Row]:
        raw = await self._pool.take(self._shares)
        if not self._reads:
            return await self._pool.finish(self._write(raw, raw.fetch, sql, args))
        try:
            rows = await timed(self._pool.seconds, sql, raw.fetch(sql, *args))
        except BaseException as error:
            await self._pool.mend(self._shares, raw, error)
            raise
        self._pool.give_back(self._shares, raw)
        return rows

    async def fetchrow(self, sql: LiteralString, *args: object) -> Row | None:
        raw = await self._pool.take(self._shares)
        if not self._reads:
            return await self._pool.finish(self._write(raw, raw.fetchrow, sql, args))
        try:
            row = await timed(self._pool.seconds, sql, raw.fetchrow(sql, *args))
        except BaseException as error:
            await self._pool.mend(self._shares, raw, error)
            raise
        self._pool.give_back(self._shares, raw)
        return row

    async def fetchval(self, sql: LiteralString, *args: object) -> Any:
        row = await self.fetchrow(sql, *args)
        return None if row is None else row[0]

    async def execute(self, sql: LiteralString, *args: object) -> None:
        await self.fetch(sql, *args)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Connection]:
        """A transaction: committed when the block ends, undone when it raises. Raises `OutcomeUnknown` where the
        connection is lost while it is being committed."""
        raw = await self._pool.take(self._shares)
        try:
            await raw.execute(begin_statement())
            yield Connection(raw, self._pool.name)
        except BaseException as error:
            await self._pool.mend(self._shares, raw, error)
            raise
        if await self._pool.finish(self._write(raw, raw.execute, COMMIT, ())) != "COMMIT":
            raise asyncpg.InFailedSQLTransactionError("a statement of the transaction had failed: it was undone")

    async def _write(
        self,
        raw: asyncpg.Connection,
        do: Callable[..., Awaitable[T]],
        sql: LiteralString,
        args: Sequence[object],
    ) -> T:
        """Do what nobody is to cancel, and give back the connection."""
        try:
            if acting.get() is not None and _is_recorded(sql):
                result = await self._write_as_actor(raw, do, sql, args)
            else:
                result = await timed(self._pool.seconds, sql, do(sql, *args, timeout=NEVER))
        except BaseException as error:
            await self._pool.mend(self._shares, raw, error)
            if is_shutting_down(error):
                raise OutcomeUnknown(f"the connection was lost while something was being written: {error}") from error
            raise
        self._pool.give_back(self._shares, raw)
        return result

    async def _write_as_actor(
        self, raw: asyncpg.Connection, do: Callable[..., Awaitable[T]], sql: LiteralString, args: Sequence[object]
    ) -> T:
        """One statement in a transaction that says who acts."""
        await raw.execute(begin_statement())
        result = await timed(self._pool.seconds, sql, do(sql, *args, timeout=NEVER))
        await timed(self._pool.seconds, COMMIT, raw.execute(COMMIT, timeout=NEVER))
        return result


@lru_cache(maxsize=4096)
def _is_recorded(sql: str) -> bool:
    """Whether changes of the statement may be recorded, and with them the actor.

    Such a statement needs three round trips: begin with the actor, itself, commit. Every other statement needs one. The
    text decides, and not the caller by `db.write(sql)` or `db.read(sql)`, for three reasons:

    - Functions that take `Statements` run both in a transaction, which has its actor already, and outside of one. They
      would have to choose for a case that is not theirs.
    - A mistake of the text is safe. A table that is not in `UNRECORDED` counts as recorded. A write that the text
      hides, such as that of an SQL function, reaches a trigger without an actor, and the trigger rejects it.
    - A mistake of a caller, `read` for a write, would end the same way. So the explicit form has no stronger promise,
      and the fact that belongs to a table would be repeated at each call.

    The cache has the answer for every statement that is constant text.
    """
    return not UNRECORDED.issuperset(set(WRITTEN(sql)) - NO_TABLES)


async def _keep(_raw: asyncpg.Connection) -> None:
    """Nothing to reset: no statement of ours leaves a trace in the session. The default costs a round trip."""
