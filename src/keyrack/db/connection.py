"""The database connection: pool, transactions, typed statements.

SQL is a `LiteralString` everywhere, so a client's text can only become a parameter: an injection is a type error.
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
from keyrack.core.log_config import cause
from keyrack.core.metrics.catalog import STATEMENT_SECONDS
from keyrack.core.os_errors import connection_failure
from keyrack.core.settings import Settings
from keyrack.db.audit_context import UNRECORDED, acting, begin_statement
from keyrack.db.fair_semaphore import PROCESS, TenantShares
from keyrack.db.pool import NEVER, ROLLBACK, OutcomeUnknown, Pool, acquire_timeout, timed
from keyrack.db.replication.primary import GOING, is_shutting_down
from keyrack.db.replication.primary_connector import KeepAliveConnection, PrimaryConnector
from keyrack.db.session_settings import LACKING, NO_STATEMENT_TIMEOUT, WRONG_SETTINGS, prepare, session

__all__ = ["Connection", "Database", "OutcomeUnknown", "Row", "Statements"]

Row = asyncpg.Record
T = TypeVar("T")

# Sent as statements: asyncpg's own transactions apply its `command_timeout` to COMMIT, which nothing may cancel
COMMIT: LiteralString = "commit"
# A name means the latest savepoint of that name, so these can nest
INNER: tuple[LiteralString, ...] = (
    "savepoint inner_one",
    "rollback to savepoint inner_one; release savepoint inner_one",
    "release savepoint inner_one",
)
# The tables that a statement writes; `for update` and `do update set` name no table
WRITTEN = re.compile(r"\b(?:insert into|update|delete from)\s+(?:only\s+)?(\w+)", re.IGNORECASE).findall
NO_TABLES = {"of", "nowait", "set", "skip"}

# asyncpg's own cursors use a named prepared statement, which PgBouncer's next connection does not have. Powers of two
# limit the number of statement texts, so that each connection prepares each text once.
DECLARE: LiteralString = "declare listed no scroll cursor for "
SOME: tuple[LiteralString, ...] = (
    "fetch 1 from listed", "fetch 2 from listed", "fetch 4 from listed", "fetch 8 from listed", "fetch 16 from listed",
    "fetch 32 from listed", "fetch 64 from listed", "fetch 128 from listed",
)  # fmt: skip

# Errors of PostgreSQL or the network when the server is unreachable or shuts down. Nothing was committed, so a retry is
# safe, except after `OutcomeUnknown`.
UNREACHABLE = (*GOING, asyncpg.TooManyConnectionsError)

# SQLSTATE classes whose cause is not the statement itself:
# - connections; transactions that cannot continue here and now (read-only, serialization, deadlock)
# - revoked rights (a file system that has become read-only reports the same)
# - resources such as a full disk; locks and timeouts; operator intervention; the system
PASSING = ("08", "25", "40", "42501", "53", "55", "57", "58", "XX")


def unreachable(error: BaseException, setting: str = "KEYRACK_DATABASE_URL") -> str:
    """Why the database cannot be reached, and what to check. `setting` has its address."""
    if isinstance(error, OSError):
        return f"{connection_failure(error)}. Check that PostgreSQL runs, and that {setting} is its address."
    return f"{cause(error)}."


def is_interruption(error: BaseException) -> bool:
    """Whether the cause is outside of the statement, so that a retry may succeed.

    asyncpg raises an `InterfaceError` that is also a `ValueError` for a value that it cannot send. That is no
    interruption.
    """
    if isinstance(error, asyncpg.PostgresError):
        return (error.sqlstate or "").startswith(PASSING)
    return isinstance(error, (*UNREACHABLE, TimeoutError)) and not isinstance(error, ValueError)


class Statements(Protocol):
    """Runs statements: the pool, or one connection inside a transaction."""

    async def fetch(self, sql: LiteralString, *args: object) -> list[Row]: ...
    async def fetchrow(self, sql: LiteralString, *args: object) -> Row | None: ...
    async def fetchval(self, sql: LiteralString, *args: object) -> Any: ...
    async def execute(self, sql: LiteralString, *args: object) -> object: ...


class Connection:
    """One connection inside a transaction."""

    def __init__(self, raw: asyncpg.Connection, pool: str = "keyrack") -> None:
        self.raw = raw
        self._seconds = STATEMENT_SECONDS.of(pool)
        self._timeout: float | None = None  # seconds per statement; None: the connection's own

    async def lift_timeouts(self) -> None:
        """Lift the statement timeouts of server and client for the rest of the transaction."""
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
        """Open a cursor for a statement; one per transaction. `fetch_batch` reads its rows."""
        await self.raw.execute(DECLARE + sql, *args, timeout=self._timeout)

    async def fetch_batch(self, max_rows: int) -> list[Row]:
        """The next rows of the cursor: the largest power of two up to `max_rows`, at most 128; empty at the end."""
        return await self.raw.fetch(SOME[min(max_rows.bit_length(), len(SOME)) - 1], timeout=self._timeout)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[None]:
        """Begin a savepoint, or a transaction if the connection has none. An error undoes only the block."""
        begin, undo, end = INNER if self.raw.is_in_transaction() else (begin_statement(), ROLLBACK, COMMIT)
        await self.raw.execute(begin)
        try:
            yield
        except BaseException:
            with suppress(*UNREACHABLE):  # a lost connection has nothing to undo
                await self.raw.execute(undo)
            raise
        await self.raw.execute(end)

    async def copy(self, table: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """COPY `rows` into `table`."""
        await self.raw.copy_records_to_table(table, records=rows, columns=columns, timeout=self._timeout)


class Database:
    """Runs statements and transactions on connections of a pool, charged to tenants.

    A statement outside a transaction takes its own connection. It is not cancelled unless the database is used for
    reads; see `pool`. Raises `OutcomeUnknown` if the connection is lost during a write, and `Unavailable` if no
    connection becomes free in time.
    """

    __slots__ = ("_pool", "_reads", "_shares")

    _row_class: type[Row] = Row  # of reads

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
        """Open the connections: at most `size`, or `pool_size`.

        `parameters` are additional session settings of the server. Raises `Unavailable` if the server cannot be
        reached, or if a session lacks the settings of `session_settings`.
        """
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
                min_size=0,  # otherwise asyncpg reconnects in a loop while the server is away
                max_size=size,
                init=prepare,
                reset=_keep,
                statement_cache_size=settings.statement_cache,
                max_cached_statement_lifetime=0,
                command_timeout=acquire_timeout(settings),
                server_settings={**session_parameters, "application_name": application, **own},
            )
        except UNREACHABLE as error:
            raise Unavailable(
                DATABASE_AWAY.with_text(
                    f"The database cannot be reached: {unreachable(error, settings.database_setting)}"
                )
            ) from error
        database = cls(Pool(pool, size, settings, connector, application))
        if lacking := await database.fetchval(LACKING, list(session_parameters), list(session_parameters.values())):
            await database.close()
            raise Unavailable(DATABASE_AWAY.with_text(WRONG_SETTINGS.format(lacking=lacking)))
        return database

    def of(self, customer: int, manager: int = 0, *, reads: bool = False) -> Database:
        """The same database, charged to a customer, a manager or both; 0 is none.

        Each tenant gets at most half of the connections. Reads leave the last one of that share to writes.
        """
        return self._charged({"customer": customer, "manager": manager}, reads=reads)

    def of_driver(self, customer: int, driver: int, *, reads: bool = False) -> Database:
        """The same database, charged to a driver.

        A customer other than 0 is charged as well.
        """
        return self._charged({"customer": customer, "driver": driver}, reads=reads)

    def _charged(self, parties: Mapping[str, int], *, reads: bool) -> Database:
        tenants = tuple((kind, id) for kind, id in parties.items() if id)
        return Database(self._pool, TenantShares(tenants, max(1, self._pool.share - reads)), reads=reads)

    def reading(self) -> Database:
        """The same database, for statements that change nothing."""
        return Database(self._pool, self._shares, reads=True)

    @property
    def connector(self) -> PrimaryConnector:
        """The connector that opens its connections."""
        return self._pool.connector

    async def close(self) -> None:
        """Close all connections; running statements get three seconds."""
        await self._pool.close()

    async def fetch(self, sql: LiteralString, *args: object) -> list[Row]:
        raw = await self._pool.take(self._shares)
        if not self._reads:
            return await self._pool.finish(self._write(raw, raw.fetch, sql, args))
        try:
            rows = await timed(self._pool.seconds, sql, raw.fetch(sql, *args, record_class=self._row_class))
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
            row = await timed(self._pool.seconds, sql, raw.fetchrow(sql, *args, record_class=self._row_class))
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
        """Run a transaction: commit at the end of the block, roll back if it raises.

        Raises `OutcomeUnknown` if the connection is lost during the commit, and asyncpg's `InFailedSQLTransactionError`
        if a statement failed although the block did not raise.
        """
        raw = await self._pool.take(self._shares)
        try:
            await raw.execute(begin_statement())
            yield Connection(raw, self._pool.name)
        except BaseException as error:
            await self._pool.mend(self._shares, raw, error)
            raise
        if await self._pool.finish(self._write(raw, raw.execute, COMMIT, ())) != "COMMIT":
            raise asyncpg.InFailedSQLTransactionError(
                "The transaction was rolled back, because one of its statements failed."
            )

    async def _write(
        self,
        raw: asyncpg.Connection,
        do: Callable[..., Awaitable[T]],
        sql: LiteralString,
        args: Sequence[object],
    ) -> T:
        """Run an uncancellable statement, then return the connection."""
        try:
            if acting.get() is not None and _is_recorded(sql):
                result = await self._write_as_actor(raw, do, sql, args)
            else:
                result = await timed(self._pool.seconds, sql, do(sql, *args, timeout=NEVER))
        except BaseException as error:
            await self._pool.mend(self._shares, raw, error)
            if is_shutting_down(error):
                raise OutcomeUnknown(f"the connection was lost during a write: {error}") from error
            raise
        self._pool.give_back(self._shares, raw)
        return result

    async def _write_as_actor(
        self, raw: asyncpg.Connection, do: Callable[..., Awaitable[T]], sql: LiteralString, args: Sequence[object]
    ) -> T:
        """Run one statement in a transaction that sets the actor."""
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
    """Skip asyncpg's session reset, a round trip: no statement of Keyrack leaves session state."""
