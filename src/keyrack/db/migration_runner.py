"""Runs migrations one by one, with short lock timeouts, many retries and progress logs.

A session that waits for a table's lock blocks all sessions after it. So a migration gives up soon and retries, and
other sessions use the table in between.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, LiteralString

import asyncpg
import structlog

if TYPE_CHECKING:
    from sqlalchemy.exc import DBAPIError

log = structlog.get_logger("keyrack.migrations")

LOOKS = 5  # progress queries per lock timeout
TELL = 10.0  # seconds between two log lines about a long migration
LONGEST_PAUSE = 10.0  # maximum seconds between two attempts, before jitter
NOT_NOW = (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError)

# Autovacuum yields only to a session that has waited for `deadlock_timeout`, which must be below the lock timeout
GIVE_WAY: LiteralString = """
select set_config('deadlock_timeout', $1, false) where has_parameter_privilege('deadlock_timeout', 'set')
"""
UNDER_WAY: LiteralString = """
select left(regexp_replace(a.query, '\\s+', ' ', 'g'), 100) as statement, p.phase,
  round(100.0 * coalesce(nullif(p.blocks_done, 0), p.tuples_done)
        / nullif(coalesce(nullif(p.blocks_total, 0), p.tuples_total), 0)) as percent,
  array(
    select format('%s (%s, %s for %s s)', b.pid, coalesce(nullif(b.application_name, ''), b.backend_type),
                  coalesce(b.state, 'at work'), coalesce(extract(epoch from now() - b.xact_start)::integer, 0))
    from pg_stat_activity b where b.pid = any(pg_blocking_pids(a.pid)) or b.pid = nullif(p.current_locker_pid, 0)
  ) as waits_for
from pg_stat_activity a left join pg_stat_progress_create_index p on p.pid = a.pid where a.pid = $1
"""


class LocksNotHad(Exception):
    """A migration did not get its locks; the text names it and the blocking sessions."""


@dataclass(frozen=True, slots=True)
class MigrationTimeouts:
    """Seconds that a migration waits: for a lock, and with all attempts."""

    lock: float
    whole: float

    def parameters(self) -> dict[str, str]:
        """Server parameters of the migrating connection."""
        return {"lock_timeout": f"{self.lock * 1000:.0f}"}


async def run(
    connect: Callable[[], Awaitable[asyncpg.Connection]],
    onlooker: asyncpg.Connection,
    revisions: Sequence[str],
    patience: MigrationTimeouts,
) -> None:
    """Apply these revisions one after another on connections of `connect`; `onlooker` observes them.

    Raises `LocksNotHad`, or PostgreSQL's error. Earlier revisions stay applied; the rest can be retried.
    """
    if not revisions:
        return
    # Alembic and SQLAlchemy are heavy and needed only here, once per release
    from alembic import command
    from alembic.config import Config
    from sqlalchemy.exc import DBAPIError
    from sqlalchemy.ext.asyncio import create_async_engine
    from sqlalchemy.pool import NullPool

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["patience"] = patience.whole
    pids: list[int] = []

    async def connected() -> asyncpg.Connection:
        raw = await connect()
        await raw.execute(GIVE_WAY, f"{patience.lock * 500:.0f}")
        pids.append(raw.get_server_pid())
        return raw

    def upgrade(connection: object, revision: str) -> None:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)

    engine = create_async_engine("postgresql+asyncpg://", async_creator=connected, poolclass=NullPool)
    try:
        async with engine.connect() as connection:
            for revision in revisions:
                seen = MigrationProgress(onlooker, revision, pids[-1], patience.lock / LOOKS)
                await _with_patience(lambda revision=revision: connection.run_sync(upgrade, revision), seen, patience)
    except DBAPIError as error:  # it wraps PostgreSQL's error, with the whole statement
        raise _driver_error(error) from None


def _driver_error(error: DBAPIError) -> BaseException:
    """PostgreSQL's own error."""
    return (error.orig and error.orig.__cause__) or error


async def _with_patience(
    attempt: Callable[[], Awaitable[None]], seen: MigrationProgress, patience: MigrationTimeouts
) -> None:
    from sqlalchemy.exc import DBAPIError

    began = time.monotonic()
    pause = patience.lock
    tries = 0
    while True:
        tries += 1
        try:
            async with seen.watched():
                await attempt()
            log.info("migration applied", revision=seen.revision, seconds=round(time.monotonic() - began, 1))
            return
        except DBAPIError as error:
            if not isinstance(_driver_error(error), NOT_NOW):
                raise
        if time.monotonic() + pause > began + patience.whole:
            times = "1 try" if tries == 1 else f"{tries} tries"
            raise LocksNotHad(
                f"The migration to revision {seen.revision} did not get its locks within {patience.whole:g} s "
                f"({times}). It was blocked by {seen.blockers()}. It was rolled back. End the blocking session, then "
                "run `keyrack migrate` again."
            )
        log.warning(
            "migration lock timeout, retrying",
            revision=seen.revision, attempts=tries, blocked_by=seen.blockers(), retry_seconds=round(pause, 1),
        )  # fmt: skip
        await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - jitter, to avoid lockstep with the blocker
        pause = min(2 * pause, LONGEST_PAUSE)


class MigrationProgress:
    """The progress of a migration, observed from another connection."""

    def __init__(self, onlooker: asyncpg.Connection, revision: str, pid: int, pause: float) -> None:
        self.revision = revision
        self._onlooker = onlooker
        self._pid = pid
        self._pause = pause
        self._blockers: list[str] = []
        self._began = self._reported_at = time.monotonic()

    def blockers(self) -> str:
        """The sessions that blocked it last."""
        return ", ".join(self._blockers) or "a session that has ended"

    @asynccontextmanager
    async def watched(self) -> AsyncGenerator[None]:
        watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.wait((watching,))

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._pause)
            row = await self._onlooker.fetchrow(UNDER_WAY, self._pid)
            if row is None:
                return
            self._blockers = row["waits_for"] or self._blockers
            if time.monotonic() - self._reported_at >= TELL:
                self._reported_at = time.monotonic()
                log.info(
                    "migration running",
                    revision=self.revision, seconds=round(self._reported_at - self._began), statement=row["statement"],
                    phase=row["phase"], percent=None if row["percent"] is None else int(row["percent"]),
                    blocked_by=row["waits_for"],
                )  # fmt: skip
