"""The heartbeat of a process: repeated small commits that prove that it reaches the primary.

A primary that has been cut off still answers reads, but acknowledges no commit: its standby has been promoted, or it
waits for another one. So a read counts as up to date only for a while after the sending of an acknowledged commit. The
commit also proves that all data seen before it will stay, even if the primary came back after a crash.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import time
from collections import deque
from collections.abc import Coroutine
from contextlib import suppress
from datetime import datetime
from typing import Any, Literal, LiteralString, TypeVar
from uuid import uuid4

import asyncpg

from keyrack import __version__
from keyrack.core.error_codes import PRIMARY_UNCONFIRMED
from keyrack.core.errors import Unavailable
from keyrack.core.settings import Settings
from keyrack.db.connection import UNREACHABLE, Database
from keyrack.db.migrations import revisions
from keyrack.db.replication.primary_connector import LEADS, PrimaryConnector
from keyrack.db.replication.wal_positions import WalHistory
from keyrack.db.row_batches import run_in_batches
from keyrack.db.session_settings import session
from keyrack.db.throttled_log import ThrottledLogger

log = ThrottledLogger("keyrack.heartbeat")
T = TypeVar("T")

APPLICATION = "keyrack heartbeat"
AGAIN = 0.4  # seconds until the next connection attempt, on average
LEAVING = 1.0  # maximum seconds for deleting its row at shutdown
REMEMBERED = 64  # beats that a replica can present as proof of its history

# No set_config here: the commit has to wait for the synchronous standby
BEAT: LiteralString = """
insert into heartbeat (heartbeat_id, role, host, pid, version, revision) values ($1, $2, $3, $4, $5, $6)
on conflict (heartbeat_id) do update set beat_at = now()
returning beat_at
"""
LEAVE: LiteralString = "delete from heartbeat where heartbeat_id = $1"
FORGET: LiteralString = """
with gone as (delete from heartbeat where heartbeat_id = any(array(
  select heartbeat_id from heartbeat where beat_at < now() - interval '1 day' limit $1)) returning true)
select count(*) from gone
"""


async def forget(db: Database, settings: Settings) -> None:
    """Delete the rows of crashed processes. A housekeeping step."""
    await run_in_batches(db, settings.housekeeping_rows, FORGET)


class Heartbeat:
    """The heartbeat of one process in one role, on its own connection."""

    def __init__(self, connector: PrimaryConnector, settings: Settings, role: Literal["serve", "work"]) -> None:
        self._connector = connector
        self._leadership = connector.leadership
        self._settings = settings
        self._seconds = settings.primary_lease_seconds
        self._row = (uuid4(), role, socket.gethostname(), os.getpid(), __version__, revisions()[-1])
        self._raw: asyncpg.Connection | None = None
        self._beating: asyncio.Task[datetime] | None = None
        self._proven_until = 0.0
        self.id = self._row[0]
        self.history: WalHistory | None = None  # the history in which these beats were acknowledged
        self.beats = deque[datetime](maxlen=REMEMBERED)
        self.proven = asyncio.Event()  # set after the first proof

    def check(self) -> int:
        """Raise `Unavailable` unless the primary is proven. Returns a number for `assert_current`.

        If no other server can take over, no proof is necessary: a slow or full disk blocks no reads.
        """
        if self._leadership.fails_over and (time.monotonic() >= self._proven_until or not self._is_connected):
            raise Unavailable(PRIMARY_UNCONFIRMED)
        return self._leadership.moves

    @property
    def _is_connected(self) -> bool:
        """Whether the heartbeat's connection is open.

        A server that was away for a moment proves nothing until the next beat: it may show data that were not
        acknowledged.
        """
        return self._raw is not None and not self._raw.is_closed()

    def assert_current(self, proven: int) -> None:
        """Raise `Unavailable` unless all reads since that `check` are still up to date."""
        if self.check() != proven and self._leadership.fails_over:
            raise Unavailable(PRIMARY_UNCONFIRMED)

    async def run(self) -> None:
        """Beat until cancelled, then delete the row."""
        self._leadership.watch(self._renewed)
        try:
            while True:
                try:
                    self._raw = await self._connector.connect(
                        server_settings={**session(self._settings), "application_name": APPLICATION},
                        statement_cache_size=self._settings.statement_cache,
                    )
                except (*UNREACHABLE, asyncpg.PostgresError) as error:
                    log.warning("heartbeat failed, database unreachable", error=error)
                    await asyncio.sleep(AGAIN * (0.5 + random.random()))  # noqa: S311 - not all processes at once
                else:
                    await self._beat_on(self._raw)
        finally:
            self._leadership.unwatch(self._renewed)
            self._proven_until = 0.0
            await self._leave()

    async def _beat_on(self, raw: asyncpg.Connection) -> None:
        """Beat on one connection until it ends."""
        generation = self._leadership.generation
        history: WalHistory | None = None
        while not raw.is_closed():
            sent = time.monotonic()
            try:
                if history is None:
                    history = await _history(raw)
                beat = await self._beat(raw)
            except (*UNREACHABLE, asyncpg.PostgresError) as error:
                log.warning("heartbeat failed, database unreachable or read-only", error=error)
                if self._leadership.is_telling(error):
                    self._proven_until = 0.0
                    self._leadership.doubt(generation, error)
                    break
            else:
                if history != self.history:
                    self.history = history
                    self.beats.clear()
                self.beats.append(beat)
                if generation == self._leadership.generation:
                    self._proven_until = sent + self._seconds
                    self.proven.set()
            await asyncio.sleep(max(0.0, sent + self._seconds / 2 - time.monotonic()))
        self._proven_until = 0.0  # the server of the next connection has proven nothing yet
        raw.terminate()

    async def _beat(self, raw: asyncpg.Connection) -> datetime:
        """Make one commit, however long it takes. Returns its time.

        A cancelled commit would still wait in the server. While it is late, probe whether another server is the
        primary. Raises the errors of the connection.
        """
        self._beating = beating = _retrieved(raw.fetchval(BEAT, *self._row))
        while not (await asyncio.wait((beating,), timeout=self._seconds))[0]:
            log.warning("heartbeat delayed by a slow commit")
            if self._leadership.fails_over:
                with suppress(*UNREACHABLE, asyncpg.PostgresError):
                    await self._connector.look_round()
        return beating.result()

    def _renewed(self, _moved: bool) -> None:
        self._proven_until = 0.0  # earlier proof does not count any more
        if self._raw is not None:
            self._raw.terminate()

    async def _leave(self) -> None:
        raw, self._raw = self._raw, None
        if raw is None:
            return
        with suppress(TimeoutError, *UNREACHABLE, asyncpg.PostgresError):
            async with asyncio.timeout(LEAVING):
                if self._beating is not None:
                    await asyncio.wait((self._beating,))
                await asyncio.shield(_retrieved(raw.execute(LEAVE, self._row[0])))
        raw.terminate()


async def _history(raw: asyncpg.Connection) -> WalHistory | None:
    """The history that this connection writes; None on a replica."""
    row = await raw.fetchrow(LEADS)
    return None if row is None or row["timeline"] is None else WalHistory(int(row["system"]), int(row["timeline"], 16))


def _retrieved(write: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """A write that keeps running if the caller leaves; its error may stay unread."""
    task = asyncio.create_task(write)
    task.add_done_callback(lambda task: task.cancelled() or task.exception())
    return task
