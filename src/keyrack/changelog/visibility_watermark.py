"""In charge of the fence: the number of the inbox up to which every change is to be seen, or never will be.

Numbers are drawn before their transactions end, so a smaller one may come to light after a larger one. Who draws one
has an id of a transaction already (the default of `change_inbox.seq` sees to it). So: (1) read the last number drawn,
(2) draw an id, (3) look at snapshots until one has nothing below that id that still runs. Whoever drew a number up to
the one of (1) has a smaller id, and has ended: what a later statement does not see of them, nobody ever will.

What runs elsewhere, in other tables or databases of the server, may keep (3) from coming true for hours. Then the locks
tell who can matter: whoever has drawn a number holds the inbox open for writing until its end, prepared or not. Those
who did so after (1) are waited for, for as long as it takes. No time-out passes over anybody: an old transaction is
named instead.
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

QUICKLY = 0.2  # seconds in which most transactions end, wherever they are
OFTEN, SELDOM, OLDER = 0.002, 0.05, 0.25  # seconds between two looks: the first, and the longest; at old ones
OLD = 5.0  # seconds after which a transaction that holds the numbers up is named

# Who gives numbers, or changes the ends of logs, does it alone: if it is free, and when it is
IF_ALONE: LiteralString = "select pg_try_advisory_xact_lock(7260925)"
ALONE: LiteralString = "select pg_advisory_xact_lock(7260925)"
# Null where it was never used, which `last_value` alone does not tell
LAST: LiteralString = "select coalesce(pg_sequence_last_value('change_seq'), 0)"
OWN: LiteralString = "select pg_current_xact_id()::text"
OLDEST: LiteralString = """
select oldest::text, oldest >= $1::text::xid8 as passed from pg_snapshot_xmin(pg_current_snapshot()) oldest
"""
# Who holds the inbox open for writing and has an id, all of them or those of $1. Locks go when a transaction's rows are
# to be seen, and not before; all are read at one time. A prepared one keeps its locks and its id, and loses its process
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
    """A transaction that has written changes, or is about to, and has not ended."""

    xid: str
    pid: int | None  # of its process; None where it is prepared
    gid: str | None  # the name under which it is prepared
    application: str
    database: str
    seconds: float  # since it began, or was prepared

    def __str__(self) -> str:
        writer = f"the prepared transaction {self.gid}" if self.gid else f"process {self.pid} ({self.application})"
        return f"{writer} in {self.database}, for {int(self.seconds)} s"


async def writers(statements: Statements, xids: Sequence[str] | None = None) -> list[OpenWriter]:
    """Who writes changes now, the oldest first; of `xids` those who still do."""
    open_writers = [OpenWriter(**dict(row)) for row in await statements.fetch(WRITERS, xids)]
    return sorted(open_writers, key=lambda writer: -writer.seconds)


class VisibilityWatermark:
    """The fences that one process draws, one after another.

    A transaction that they wait for is named after `warn_after` seconds.
    """

    def __init__(self, db: Database, *, warn_after: float = OLD) -> None:
        self._db = db
        self._warn_after = warn_after
        self._reads = db.reading()
        self._oldest_seen = ""  # the oldest transaction that was running when the locks were looked at last

    async def advance(self) -> int:
        """A number, as large as can be, up to which all is settled; however long that takes."""
        last: int = await self._reads.fetchval(LAST)
        own: str = await self._db.fetchval(OWN)
        if not await self._has_passed(own):
            await self._wait_for_writers(await writers(self._reads))
        return last

    async def _has_passed(self, own: str) -> bool:
        """Whether nothing below the id runs any more; it is not waited for what has been running for long."""
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
        """Wait until these have ended. Who takes long is named once."""
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
