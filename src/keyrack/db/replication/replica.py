"""In charge of one replica: its connections, which position it has replayed, and whether it has our history.

A server behind an address may be replaced by another one, or begin anew further back. So all connections that are used
are of the very server that was asked how far it is, and end with the one on which it was asked.
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
PATIENCE = 2.0  # seconds that it has to say how far it is
AT_ONCE = 0.2  # seconds that it has where somebody waits who can as well ask the leader
AGAIN = 1.0  # seconds until it is tried again, on average
BEGUN: LiteralString = """
select pg_postmaster_start_time() as begun, coalesce((pg_last_wal_replay_lsn() - '0/0')::int8, 0) as replayed
"""
BEHIND = ("42", "0A")  # classes of SQLSTATE: a migration has not arrived yet, or a table is not for replicas
# A commit can be seen before the place behind it is told. Where nothing else has arrived, there is none such
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
    """The replica cannot be used: it is another server than the one that was asked, or has not come far enough."""


class _Generations(PrimaryTracker):
    """The generations of a replica's connections; that they change is no news of the leader."""

    def renew(self, error: BaseException | None = None, *, moved: bool = False) -> None:
        self._begin(moved)


class _ReplicaConnector(PrimaryConnector):
    """Opens connections to one host, all of them to the same server."""

    def __init__(self, dsn: str, host: Host, settings: Settings) -> None:
        alone = settings.model_copy(update={"database_ha": False})
        super().__init__(dsn, settings, _Generations(alone, several=False))
        self._host = host
        self.started_at: datetime | None = None  # when the server began, by which it is known
        self.replayed = 0  # as it has said last: whoever has less has begun anew

    async def connect(self, **options: Any) -> asyncpg.Connection:
        """A connection to the server. Raises `ReplicaUnusable` where it is another one, and what asyncpg raises."""
        min_replayed = self.replayed
        raw, started_at, replayed = await self._open(options)
        if started_at != self.started_at or replayed < min_replayed:
            raw.terminate()
            raise ReplicaUnusable("the replica is another server now")
        return raw

    async def first(self, **options: Any) -> asyncpg.Connection:
        """The same, to whichever server is there: from now on it is that one."""
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
        self._lock = asyncio.Lock()  # of asking on that connection
        self._shared_state = SharedQuery(self._fetch_position)
        self._replayed = -1  # as it has said last; nothing where it cannot be asked, or follows nobody
        self._caught_up_at = -inf  # when the leader was no further than that
        self._history: WalHistory | None = None  # that it has: it has shown a commit of ours

    @property
    def generation(self) -> int:
        """Of its connections."""
        return self._connector.leadership.generation

    def can_answer(self, history: WalHistory, floor: int) -> bool:
        """Whether it may answer: it follows our leader, has replayed the floor, and is not too far behind."""
        return (
            self._replayed >= floor and self._history == history and self.lag <= self._settings.replica_max_lag_seconds
        )

    @property
    def lag(self) -> float:
        """Seconds that it is behind the leader, at most; infinity where that is not known, or too many."""
        return time.monotonic() - self._caught_up_at

    async def position(self, history: WalHistory, floor: int, generation: int) -> Position:
        """How far the story goes, at most, that was read just now. Raises `ReplicaUnusable` where it may have been a
        server that was not at the floor, and what asking raises."""
        async with asyncio.timeout(PATIENCE):
            state = await self._shared_state()
        if generation != self.generation or state["replayed_"] < floor:
            raise ReplicaUnusable("the replica has changed meanwhile")
        return Position(history, reachable_position(state))

    async def refresh(self) -> bool:
        """Look how far it is by now: since the last time it may have come as far as somebody needs it. False where it
        does not say so at once."""
        with suppress(*UNREACHABLE, asyncpg.PostgresError, TimeoutError):
            async with asyncio.timeout(AT_ONCE):
                await self._shared_state()
            return True
        return False

    async def run(self) -> None:
        """Look how far it is, again and again, until cancelled."""
        self._connector.leadership.watch(self._on_reset)
        try:
            while True:
                try:
                    await self._poll()
                except (*UNREACHABLE, asyncpg.PostgresError, TimeoutError, Unavailable) as error:
                    log.warning("replica unreachable, reading from primary", replica=self.name, error=error)
                self._connector.leadership.renew(moved=True)  # whoever waits for it goes to the leader
                await asyncio.sleep(AGAIN * (0.5 + random.random()))  # noqa: S311 - not all processes at once
        finally:
            self._connector.leadership.unwatch(self._on_reset)
            self._end()

    async def close(self) -> None:
        if self.reads is not None:
            await self.reads.close()

    async def _poll(self) -> None:
        """Look on one connection as long as it lasts. Raises what it says."""
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
        """What the server says, on the connection on which it is looked at. Raises what that says, and
        `ReplicaUnusable`."""
        async with self._lock:
            if self._raw is None:
                raise ReplicaUnusable("the replica is away")
            generation = self.generation
            state = await self._raw.fetchrow(sql, *args)
            assert state is not None  # noqa: S101 - a row by its form
            if generation == self.generation:
                self._replayed = state["replayed_"] if state["follows_"] else -1
                self._caught_up_at = self._leader.since(self._replayed)
                self._connector.replayed = max(0, self._replayed)
            return state

    def _judge(self, state: asyncpg.Record) -> None:
        """Whether what it has is our history."""
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
    """How far a story goes that was seen before this was said. Raises `ReplicaUnusable` where the server leads
    meanwhile."""
    if not state["follows_"]:
        raise ReplicaUnusable("the replica follows nobody any more")
    return state["replayed_"] + (state["received_"] != state["replayed_"])


def is_of_replica(error: BaseException) -> bool:
    """Whether the leader may well answer what a replica did not: it is away, recovery came in the way, or something is
    not there yet. Not where the statement itself took too long, or cannot take a value."""
    if isinstance(error, asyncpg.QueryCanceledError):
        return False
    return is_interruption(error) or str(getattr(error, "sqlstate", "")).startswith(BEHIND)
