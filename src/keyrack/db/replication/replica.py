"""One replica: its connections, its replayed position, and whether it has the primary's history.

A server behind an address may be replaced by another one, or be rebuilt from an older state. So all connections in use
lead to the very server whose position is polled, and end with the polling connection.
"""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import suppress
from datetime import datetime
from math import inf
from typing import Any, LiteralString

import asyncpg

from keyrack.core.errors import Unavailable
from keyrack.core.log_config import MINUTE, RateLimitedLogger
from keyrack.core.settings import Settings
from keyrack.db.connection import UNREACHABLE, Database, is_interruption
from keyrack.db.replication.primary import PrimaryTracker
from keyrack.db.replication.primary_connector import Host, KeepAliveConnection, PrimaryConnector
from keyrack.db.replication.primary_heartbeat import Heartbeat
from keyrack.db.replication.wal_positions import EVERY, Position, PrimaryPosition, SharedQuery, WalHistory
from keyrack.db.session_settings import open_session

log = RateLimitedLogger("keyrack.replicas", MINUTE)

APPLICATION = "keyrack replica"
PATIENCE = 2.0  # seconds that it has to report its position
AT_ONCE = 0.2  # the same if a caller waits that could also use the primary
AGAIN = 1.0  # seconds until the next connection attempt, on average
BEGUN: LiteralString = """
select pg_postmaster_start_time() as begun, coalesce((pg_last_wal_replay_lsn() - '0/0')::int8, 0) as replayed
"""
BEHIND = ("42", "0A")  # SQLSTATE classes: a migration has not arrived yet, or a replica cannot read the table
# A commit can be visible before its LSN is reported as replayed, unless received = replayed
REPLAYED: LiteralString = """
pg_is_in_recovery() as follows_, (pg_last_wal_replay_lsn() - '0/0')::int8 as replayed_,
  (pg_last_wal_receive_lsn() - '0/0')::int8 as received_
"""
ASK: LiteralString = "select " + REPLAYED
LOOK: LiteralString = (
    "select (select system_identifier from pg_control_system()) as system,"
    " (select beat_at from heartbeat where heartbeat_id = $1) as beat, " + REPLAYED
)


class ReplicaUnusable(ConnectionError):
    """The replica cannot be used: it is another server than before, or has not replayed enough."""


class _Generations(PrimaryTracker):
    """The generations of a replica's connections; a renewal says nothing about the primary."""

    def renew(self, error: BaseException | None = None, *, moved: bool = False) -> None:
        self._begin(moved)


class _ReplicaConnector(PrimaryConnector):
    """Opens connections to one host, all of them to the same server."""

    def __init__(self, dsn: str, host: Host, settings: Settings) -> None:
        alone = settings.model_copy(update={"database_ha": False})
        super().__init__(dsn, settings, _Generations(alone, several=False))
        self._host = host
        self.started_at: datetime | None = None  # start time of the server, which identifies it
        self.replayed = 0  # the last reported position: a server with less was rebuilt

    async def connect(self, **options: Any) -> asyncpg.Connection:
        """A connection to the server. Raises `ReplicaUnusable` if it is another one, and asyncpg's errors."""
        min_replayed = self.replayed
        raw, started_at, replayed = await self._open(options)
        if started_at != self.started_at or replayed < min_replayed:
            raw.terminate()
            raise ReplicaUnusable("another server is at the address of the replica")
        return raw

    async def first(self, **options: Any) -> asyncpg.Connection:
        """A connection to the current server, which later connections have to match."""
        raw, self.started_at, self.replayed = await self._open(options)
        return raw

    async def _open(self, options: dict[str, Any]) -> tuple[asyncpg.Connection, datetime, int]:
        options.setdefault("connection_class", KeepAliveConnection)
        options["timeout"] = self._seconds
        raw = await open_session(self.dsn, host=self._host.name, port=self._host.port, **options)
        try:
            row = await raw.fetchrow(BEGUN, timeout=self._seconds)
            assert row is not None  # noqa: S101 - a row by its form
            return raw, row["begun"], row["replayed"]
        except BaseException:
            raw.terminate()
            raise


class Replica:
    """One replica, as this process sees it. `reads` are its connections, once it has been reached."""

    def __init__(self, dsn: str, host: Host, settings: Settings, leader: PrimaryPosition, heartbeat: Heartbeat) -> None:
        self.name = str(host)
        self.reads: Database | None = None
        self._settings = settings
        self._leader = leader
        self._heartbeat = heartbeat
        self._connector = _ReplicaConnector(dsn, host, settings)
        self._raw: asyncpg.Connection | None = None
        self._lock = asyncio.Lock()  # serialises queries on that connection
        self._shared_state = SharedQuery(self._fetch_position)
        self._replayed = -1  # last reported position; -1 if unreachable or not in recovery
        self._caught_up_at = -inf  # latest time when the primary was no further than that
        self._history: WalHistory | None = None  # its history, proven by one of our heartbeats

    @property
    def generation(self) -> int:
        """The generation of its connections."""
        return self._connector.leadership.generation

    def can_answer(self, history: WalHistory, floor: int) -> bool:
        """Whether it may answer: it has the history, has replayed `floor`, and its lag is acceptable."""
        return (
            self._replayed >= floor and self._history == history and self.lag <= self._settings.replica_max_lag_seconds
        )

    @property
    def lag(self) -> float:
        """Maximum seconds that it is behind the primary; infinity if that is unknown or too long."""
        return time.monotonic() - self._caught_up_at

    async def position(self, history: WalHistory, floor: int, generation: int) -> Position:
        """An upper bound of the position of data that were just read from it.

        Raises `ReplicaUnusable` if the server may have changed, or is below `floor`; also the errors of the query.
        """
        async with asyncio.timeout(PATIENCE):
            state = await self._shared_state()
        if generation != self.generation or state["replayed_"] < floor:
            raise ReplicaUnusable("the replica has changed during the read")
        return Position(history, reachable_position(state))

    async def refresh(self) -> bool:
        """Query its position, which may have advanced since the last poll.

        Returns False if it does not answer at once.
        """
        with suppress(*UNREACHABLE, asyncpg.PostgresError, TimeoutError):
            async with asyncio.timeout(AT_ONCE):
                await self._shared_state()
            return True
        return False

    async def run(self) -> None:
        """Poll its position until cancelled."""
        self._connector.leadership.watch(self._on_reset)
        try:
            while True:
                try:
                    await self._poll()
                except (*UNREACHABLE, asyncpg.PostgresError, TimeoutError, Unavailable) as error:
                    log.warning("replica unreachable, reading from primary", replica=self.name, error=error)
                self._connector.leadership.renew(moved=True)  # running reads move to the primary
                await asyncio.sleep(AGAIN * (0.5 + random.random()))  # noqa: S311 - not all processes at once
        finally:
            self._connector.leadership.unwatch(self._on_reset)
            self._end()

    async def close(self) -> None:
        if self.reads is not None:
            await self.reads.close()

    async def _poll(self) -> None:
        """Poll on one connection until it ends. Raises its errors."""
        self._raw = await self._connector.first(server_settings={"application_name": APPLICATION})
        try:
            if self.reads is None:
                self.reads = await Database.connect(self._connector, self._settings, application=APPLICATION)
            while True:
                begun = time.monotonic()
                async with asyncio.timeout(PATIENCE):
                    self._judge(await self._fetch_state(LOOK, self._heartbeat.id))
                await asyncio.sleep(max(0.0, begun + EVERY - time.monotonic()))
        finally:
            self._end()

    async def _fetch_position(self) -> asyncpg.Record:
        return await self._fetch_state(ASK)

    async def _fetch_state(self, sql: LiteralString, *args: object) -> asyncpg.Record:
        """Query the state on the polling connection. Raises its errors, and `ReplicaUnusable`."""
        async with self._lock:
            if self._raw is None:
                raise ReplicaUnusable("the replica is not connected")
            generation = self.generation
            state = await self._raw.fetchrow(sql, *args)
            assert state is not None  # noqa: S101 - a row by its form
            if generation == self.generation:
                self._replayed = state["replayed_"] if state["follows_"] else -1
                self._caught_up_at = self._leader.since(self._replayed)
                self._connector.replayed = max(0, self._replayed)
            return state

    def _judge(self, state: asyncpg.Record) -> None:
        """Check whether the replica has the primary's history."""
        heartbeat, ours = self._heartbeat, self._leader.history
        if not state["follows_"]:
            log.warning("replica skipped, not in recovery", replica=self.name)
        elif ours is not None and state["system"] != ours.system:
            log.warning("replica skipped, other system identifier", replica=self.name)
        elif state["beat"] in heartbeat.beats:
            self._history = heartbeat.history

    def _on_reset(self, _moved: bool) -> None:
        self._replayed, self._caught_up_at, self._history = -1, -inf, None
        self._end()

    def _end(self) -> None:
        raw, self._raw = self._raw, None
        if raw is not None:
            with suppress(asyncpg.InterfaceError):
                raw.terminate()


def reachable_position(state: asyncpg.Record) -> int:
    """The upper bound of a position that was visible before this report.

    Raises `ReplicaUnusable` if the server has been promoted.
    """
    if not state["follows_"]:
        raise ReplicaUnusable("the replica is not in recovery any more")
    return state["replayed_"] + (state["received_"] != state["replayed_"])


def is_of_replica(error: BaseException) -> bool:
    """Whether the primary may answer what the replica could not.

    True if the replica is away, recovery interfered, or an object is missing there. False if the statement itself was
    too slow, or cannot take a value.
    """
    if isinstance(error, asyncpg.QueryCanceledError):
        return False
    return is_interruption(error) or str(getattr(error, "sqlstate", "")).startswith(BEHIND)
