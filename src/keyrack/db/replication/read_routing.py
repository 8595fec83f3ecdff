"""Routes reads to replicas that have what the caller has seen.

The caller has seen the position that it sends, and the positions of this process's answers to its customer's writes.
Whether a replica has reached them is checked before a statement, never in it: a statement sees the state at its start.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from math import isfinite
from typing import Any, LiteralString

import asyncpg

from keyrack.core.background_tasks import supervise
from keyrack.core.errors import Unavailable
from keyrack.core.metrics.catalog import READ_LAG
from keyrack.core.settings import Settings
from keyrack.db.change_notifier import DRIVEN, EVERYBODY, parse_notification
from keyrack.db.connection import UNREACHABLE, Connection, Database, Row
from keyrack.db.replication.primary_connector import Host, PrimaryConnector, hosts_of
from keyrack.db.replication.primary_heartbeat import Heartbeat
from keyrack.db.replication.replica import REPLAYED, Replica, is_of_replica, reachable_position
from keyrack.db.replication.wal_positions import EVERY, Position, PrimaryPosition, WalHistory

PACE = 0.02  # minimum seconds between two queries that notifications cause
IDENTIFY = 1.0  # seconds between two checks of the primary's system identifier
PATIENCE = 2.0  # seconds to wait for the primary's position; after that an answer has none


class ReadYourWrites:
    """The positions that replicas need for each customer's reads.

    `max_customers` are remembered; all others need the greatest position that was evicted. While the position after a
    write is unknown, the customer's floor is open.

    >>> floors = ReadYourWrites(1)
    >>> floors.of(7)
    0
    >>> floors.rise(7, 500); floors.rise(8, 600); floors.of(7), floors.of(8), floors.of(9)
    (500, 600, 500)
    >>> first, second = floors.open(7), floors.open(7)
    >>> floors.close(first, 700); floors.of(7)
    >>> floors.close(second, 800); floors.of(7)
    800
    """

    def __init__(self, max_customers: int) -> None:
        self._max_customers = max_customers
        self._floors: dict[int, int] = {}  # least recently raised first
        self._of_others = 0
        self._unconfirmed: dict[int, int] = {}  # customers, or `EVERYBODY`, with the number of their latest opening
        self.open_count = 0  # number of openings

    def of(self, customer: int) -> int | None:
        """The position; None while it is unknown."""
        if self._unconfirmed and (customer in self._unconfirmed or EVERYBODY in self._unconfirmed):
            return None
        return self._floors.get(customer, self._of_others)

    def open(self, customer: int) -> int:
        """Open the floor of a customer whose data may have been written. Returns a number for `close`."""
        if len(self._unconfirmed) >= self._max_customers:
            self._unconfirmed = {}
            customer = EVERYBODY
        self.open_count += 1
        self._unconfirmed.pop(customer, None)
        self._unconfirmed[customer] = self.open_count
        return self.open_count

    def close(self, until: int, at: int) -> None:
        """Close all floors opened up to number `until`: `at` is a position read later."""
        while self._unconfirmed and (first := next(iter(self._unconfirmed.items())))[1] <= until:
            del self._unconfirmed[first[0]]
            self.rise(first[0], at)

    def rise(self, customer: int, at: int) -> None:
        """Require at least this position for the customer."""
        if customer == EVERYBODY:
            self._floors.clear()
            self._of_others = max(self._of_others, at)
            return
        self._floors[customer] = max(self._floors.pop(customer, self._of_others), at)
        while len(self._floors) > self._max_customers:
            self._of_others = max(self._of_others, self._floors.pop(next(iter(self._floors))))

    def clear(self) -> None:
        """Reset the floors for a new history: its servers have everything that was acknowledged before."""
        self._floors.clear()
        self._of_others = 0


# The position beside a row is read after the row's snapshot
WITH_POSITION: LiteralString = "select q_.*, " + REPLAYED + " from ("
END: LiteralString = ") q_"
POSITION_COLUMNS = 3  # the columns of `REPLAYED`


class ReplicaRow(Row):
    """A row of a replica, with the columns of the primary's row.

    The columns of the position follow them, and can be reached by name only.
    """

    def __len__(self) -> int:
        return super().__len__() - POSITION_COLUMNS

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values())

    def keys(self) -> Iterator[str]:
        return islice(super().keys(), len(self))

    def values(self) -> Iterator[Any]:
        return islice(super().values(), len(self))

    def items(self) -> Iterator[tuple[str, Any]]:
        return islice(super().items(), len(self))


class ReplicaSession(Database):
    """The connections of a replica for one read; the primary answers if the replica fails.

    Each statement is wrapped, so that its own rows carry the replica's position. The position must be read after the
    snapshot of the rows, and by the same server. A second statement would cost a round trip, and might run on another
    connection. A transaction for the whole request would keep one snapshot as long as its client reads, which could
    delay the replay of the replica.
    """

    __slots__ = ("_leader", "at", "needs_position", "used_primary")

    _row_class = ReplicaRow

    def __init__(self, replica: Database, leader: Database) -> None:
        super().__init__(replica._pool, replica._shares, reads=True)
        self._leader = leader
        self.used_primary = False  # the primary has answered at least one statement
        self.at = -1  # position that the rows themselves carry
        self.needs_position = False  # a read without a position in its rows: ask for it

    async def fetch(self, sql: LiteralString, *args: object) -> list[Row]:
        if not self.used_primary:
            try:
                rows = await super().fetch(WITH_POSITION + sql + END, *args)
                self._note_position(rows[-1] if rows else None)
                return rows
            except Exception as error:
                self._fall_back(error)
        return await self._leader.fetch(sql, *args)

    async def fetchrow(self, sql: LiteralString, *args: object) -> Row | None:
        if not self.used_primary:
            try:
                row = await super().fetchrow(WITH_POSITION + sql + END, *args)
                self._note_position(row)
                return row
            except Exception as error:
                self._fall_back(error)
        return await self._leader.fetchrow(sql, *args)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Connection]:
        """Run a transaction at the replica, without a fallback to the primary."""
        self.needs_position = True
        async with super().transaction() as connection:
            yield connection

    def _note_position(self, row: Row | None) -> None:
        if row is None:
            self.needs_position = True
        else:
            self.at = max(self.at, reachable_position(row))

    def _fall_back(self, error: Exception) -> None:
        if not is_of_replica(error):
            raise error
        self.used_primary = True


@dataclass(frozen=True, slots=True)
class ReplicaLease:
    """A replica that may answer one read, and the position that it needs afterwards."""

    replica: Replica
    history: WalHistory
    floor: int
    generation: int

    def database(self, customer: int, manager: int, leader: Database) -> ReplicaSession:
        """The replica's database, charged to a customer and a manager."""
        assert self.replica.reads is not None  # noqa: S101 - `choose` requires it
        return ReplicaSession(self.replica.reads.of(customer, manager, reads=True), leader)

    async def position(self, read: ReplicaSession) -> Position:
        """The position of the data that were read.

        If it raises an error that `is_of_replica` accepts, the data do not count.
        """
        if not read.needs_position and read.at >= 0:
            return Position(self.history, read.at)
        return await self.replica.position(self.history, self.floor, self.generation)


class ReadRouter:
    """The replicas of one process, and the primary's position."""

    def __init__(self, database: Database, dsn: str, settings: Settings, heartbeat: Heartbeat) -> None:
        self._database = database
        self._leader = PrimaryPosition(database)
        self._history: WalHistory | None = None  # the history of the floors
        self._floors = ReadYourWrites(settings.read_your_writes_customers)
        hosts = hosts_of(dsn) or (Host("localhost", 5432),)
        self._replicas = [Replica(dsn, host, settings, self._leader, heartbeat) for host in hosts]
        self._last_index = 0
        self._wake = asyncio.Event()  # requests an early query

    @classmethod
    async def connect(cls, connector: PrimaryConnector, settings: Settings, heartbeat: Heartbeat) -> ReadRouter | None:
        """The router; None if no replicas are configured. Raises `Unavailable` if the primary is unreachable."""
        dsn = settings.read_database_url
        if dsn is None:
            return None
        return cls(
            await Database.connect(connector, settings, application="keyrack position", size=1),
            dsn,
            settings,
            heartbeat,
        )

    async def choose(self, customer: int, min_position: Position | None) -> ReplicaLease | None:
        """A replica that may answer a read; None: the primary must answer.

        The replica has `min_position` and the customer's known writes.
        """
        history = self._leader.history
        if history is None or (min_position is not None and min_position.history != history):
            return None
        floor = self._floors.of(customer)
        if floor is None:
            return None
        floor = floor if min_position is None else max(floor, min_position.at)
        candidate = None
        for _ in self._replicas:  # round robin
            self._last_index = (self._last_index + 1) % len(self._replicas)
            replica = self._replicas[self._last_index]
            if replica.can_answer(history, floor):
                return ReplicaLease(replica, history, floor, replica.generation)
            if replica.can_answer(history, 0):
                candidate = replica
        if candidate is not None and await candidate.refresh() and candidate.can_answer(history, floor):
            return ReplicaLease(candidate, history, floor, candidate.generation)
        return None

    def wrote(self, customer: int) -> None:
        """Record a possible write of the customer. Only replicas that have reached it may answer from then on.

        Until its position is known, no replica answers for the customer.
        """
        self._floors.open(customer)

    async def confirm_position(self) -> Position | None:
        """The primary's current position, which covers all earlier writes; None if it does not answer.

        It also closes the floors that were opened before.
        """
        open_count = self._floors.open_count
        with suppress(*UNREACHABLE, asyncpg.PostgresError, TimeoutError, Unavailable):
            async with asyncio.timeout(PATIENCE):
                position = await self._leader.position()
            if position.history != self._history:
                self._history = position.history
                self._floors.clear()
            self._floors.close(open_count, position.at)
            return position
        return None

    def hear(self, payload: str) -> None:
        """Record possible writes that another process announces; the next query confirms their position."""
        for customer, topics in parse_notification(payload):
            if topics != DRIVEN:  # positions change every second in each moving fleet, and are soon outdated
                self._floors.open(customer)
                self._wake.set()

    def lost(self) -> None:
        """Open all floors, because notifications may have been missed."""
        self._floors.open(EVERYBODY)

    async def run(self) -> None:
        """Poll the positions of the primary and the replicas until cancelled."""
        tasks = [asyncio.create_task(supervise(f"replica {replica.name}", replica.run)) for replica in self._replicas]
        identify_at = 0.0
        try:
            while True:
                if time.monotonic() >= identify_at:
                    identify_at = time.monotonic() + IDENTIFY
                    with suppress(*UNREACHABLE, asyncpg.PostgresError, TimeoutError, Unavailable):
                        await self._leader.identify()
                await self.confirm_position()
                READ_LAG.replace({(replica.name,): replica.lag for replica in self._replicas if isfinite(replica.lag)})
                await asyncio.sleep(PACE)
                with suppress(TimeoutError):
                    async with asyncio.timeout(EVERY - PACE):
                        await self._wake.wait()
                self._wake.clear()
        finally:
            READ_LAG.replace({})
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def close(self) -> None:
        for replica in self._replicas:
            await replica.close()
        await self._database.close()
