"""The visibility watermark: up to this outbox number, no change can still appear.

Numbers are drawn before their transactions end, so a smaller one may become visible after a larger one. A transaction
that draws a number already has a transaction id: the default of `change_inbox.seq` ensures it. So:
1. Read the last number drawn.
2. Draw a transaction id.
3. Poll snapshots until no transaction below that id is running.

Each transaction that drew a number up to the one of step 1 has a smaller id, and has ended. If a later statement does
not see its changes, no statement ever will.

Transactions on other tables or databases of the server may delay step 3 for hours. Then the locks show which ones
matter. A transaction that has drawn a number keeps the outbox locked for writing until its end, prepared or not. The
transactions with such a lock after step 1 are waited for, without a limit. No timeout skips one; an old transaction is
logged instead.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import LiteralString

import structlog

from keyrack.db.connection import Database, Statements

log = structlog.get_logger("keyrack.sequencer")

QUICKLY = 0.2  # seconds in which most transactions end, whatever they do
OFTEN, SELDOM, OLDER = 0.002, 0.05, 0.25  # seconds between two polls: the first, the longest; for old transactions
OLD = 5.0  # seconds after which a blocking transaction is logged

# The lock for sequencing, and for changes to the ends of logs: only if it is free, or waiting
IF_ALONE: LiteralString = "select pg_try_advisory_xact_lock(7260925)"
ALONE: LiteralString = "select pg_advisory_xact_lock(7260925)"
# Null for an unused sequence; `last_value` alone would not show that
LAST: LiteralString = "select coalesce(pg_sequence_last_value('change_seq'), 0)"
OWN: LiteralString = "select pg_current_xact_id()::text"
OLDEST: LiteralString = """
select oldest::text, oldest >= $1::text::xid8 as passed from pg_snapshot_xmin(pg_current_snapshot()) oldest
"""
# Transactions with a write lock on the outbox and an id, all of them or those of $1. A transaction releases its locks
# when its rows become visible, not before. One query reads all locks at the same time. A prepared transaction keeps its
# locks and its id, but has no process
WRITERS: LiteralString = """
with held as materialized (select * from pg_locks where granted)
select distinct on (own.transactionid::text) own.transactionid::text as xid, own.pid, p.gid,
  coalesce(a.application_name, '') as application, current_database()::text as database,
  coalesce(extract(epoch from clock_timestamp() - coalesce(p.prepared, a.xact_start)), 0)::float8 as seconds
from held inbox join held own using (virtualtransaction)
left join pg_stat_activity a on a.pid = own.pid
left join pg_prepared_xacts p on p.transaction = own.transactionid
where inbox.locktype = 'relation' and inbox.relation = 'change_inbox'::regclass and inbox.mode = 'RowExclusiveLock'
  and inbox.database = (select oid from pg_database where datname = current_database())
  and own.locktype = 'transactionid' and own.mode = 'ExclusiveLock'
  and ($1::text[] is null or own.transactionid::text = any($1))
"""


@dataclass(frozen=True, slots=True)
class OpenWriter:
    """A running transaction that has written changes, or is about to."""

    xid: str
    pid: int | None  # of its process; None if it is prepared
    gid: str | None  # the name of a prepared transaction
    application: str
    database: str
    seconds: float  # since it began, or was prepared

    def __str__(self) -> str:
        writer = f"the prepared transaction {self.gid}" if self.gid else f"process {self.pid} ({self.application})"
        return f"{writer} in {self.database}, for {int(self.seconds)} s"


async def writers(statements: Statements, xids: Sequence[str] | None = None) -> list[OpenWriter]:
    """The transactions that write changes now, the oldest first; with `xids`, those of them still running."""
    open_writers = [OpenWriter(**dict(row)) for row in await statements.fetch(WRITERS, xids)]
    return sorted(open_writers, key=lambda writer: -writer.seconds)


class VisibilityWatermark:
    """Computes the watermarks of one process, one after another.

    A transaction that blocks them is logged after `warn_after` seconds.
    """

    def __init__(self, db: Database, *, warn_after: float = OLD) -> None:
        self._db = db
        self._warn_after = warn_after
        self._reads = db.reading()
        self._oldest_seen = ""  # the oldest running transaction at the last check of the locks

    async def advance(self) -> int:
        """The highest number up to which all changes are settled. Waits as long as necessary."""
        last: int = await self._reads.fetchval(LAST)
        own: str = await self._db.fetchval(OWN)
        if not await self._has_passed(own):
            await self._wait_for_writers(await writers(self._reads))
        return last

    async def _has_passed(self, own: str) -> bool:
        """Whether no transaction below the id is running. Gives up if a long one is."""
        end, pause = time.monotonic() + QUICKLY, OFTEN
        while True:
            row = await self._reads.fetchrow(OLDEST, own)
            if row is None or row["passed"]:
                return row is not None
            if row["oldest"] == self._oldest_seen or time.monotonic() > end:
                self._oldest_seen = row["oldest"]
                return False
            await asyncio.sleep(pause)
            pause = min(2 * pause, SELDOM)

    async def _wait_for_writers(self, before: list[OpenWriter]) -> None:
        """Wait until these transactions have ended. Logs the oldest once if it takes long."""
        begun, pause, has_warned = time.monotonic(), OFTEN, False
        while before:
            if not has_warned and time.monotonic() - begun > self._warn_after:
                has_warned = True
                log.warning(
                    "sequencing blocked by an old transaction",
                    pid=before[0].pid, prepared=before[0].gid, application=before[0].application,
                    database=before[0].database, seconds=round(before[0].seconds), others=len(before) - 1,
                )  # fmt: skip
            await asyncio.sleep(pause)
            pause = OLDER if has_warned else min(2 * pause, SELDOM)
            before = await writers(self._reads, [writer.xid for writer in before])
        if has_warned:
            log.info("sequencing resumed", seconds=round(time.monotonic() - begun))
