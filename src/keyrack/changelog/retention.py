"""Retention of the change log: monthly partitions, and the erasure of expired content.

Months are made ahead. A month is dropped per retention class when its days have passed. The content of a change is
erased on its day, while its month still exists.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import LiteralString

import asyncpg
import structlog

from keyrack.changelog import access_history
from keyrack.changelog.transparency import trust_anchors
from keyrack.changelog.transparency.trust_anchors import CLASSES
from keyrack.changelog.visibility_watermark import ALONE
from keyrack.core.settings import Settings
from keyrack.db.connection import Database, Statements
from keyrack.db.partitions import make_ahead
from keyrack.db.row_batches import run_in_batches

log = structlog.get_logger("keyrack.changelog")

DROP: LiteralString = "select drop_changes($1, $2)"

# The first expired changes of a log: {which}, at most $1 of them
_FIRST: LiteralString = (
    "cross join lateral (select class, customer_id, change_id, recorded_at from change where customer_id ="
    " l.customer_id and {which} order by change_id limit $1) c"
)
# The changes before a log's oldest one. They are in a longer retention class, which the customer had before, and the
# changes after them were dropped already
LEFT: LiteralString = (
    "with left_over as materialized (select c.* from change_log l "
    + _FIRST.replace("{which}", "change_id < l.oldest_id")
    + " limit $1), gone as (delete from change c using left_over o where (c.class, c.customer_id, c.change_id,"
    " c.recorded_at) = (o.class, o.customer_id, o.change_id, o.recorded_at) returning 1) select count(*) from gone"
)
# $2: the chosen days, $3: erase up to this time, $4: the default days. Changes of a log are taken in number order, so
# that the next batch begins after them
ERASE: LiteralString = (
    "with old as materialized (select c.* from change_log l left join customer u using (customer_id) "
    + _FIRST.replace("{which}", "change_id > l.erased_id and recorded_at < $3")
    + " where coalesce(u.changes_days, $4) = $2 limit $1), gone as (update change c set who = null, before = null,"
    " after = null, person = null, who_salt = null, content_salt = null, person_salt = null from old o where (c.class,"
    " c.customer_id, c.change_id, c.recorded_at) = (o.class, o.customer_id, o.change_id, o.recorded_at) returning 1),"
    " locked as (select customer_id from change_log where customer_id in (select customer_id from old)"
    " order by customer_id for update), far as (update change_log l set erased_id = o.change_id from locked join"
    " (select customer_id, max(change_id) as change_id from old group by customer_id) o using (customer_id)"
    " where l.customer_id = o.customer_id) select count(*) from gone"
)
CHOOSE: LiteralString = "update customer set changes_days = $2 where customer_id = $1 returning true"
# The changes that a choice of days would erase
OLDER: LiteralString = """
select count(*) from change c join change_log l using (customer_id)
where l.customer_id = $1 and c.change_id > l.erased_id and c.recorded_at < now() - make_interval(days => $2)
"""


async def prune_partitions(db: Database, settings: Settings, now: datetime | None = None) -> list[str]:
    """Make the months ahead and drop expired ones. Returns the dropped names. A housekeeping step."""
    now = now or datetime.now(UTC)
    await make_ahead(db, now)
    dropped: list[str] = []
    for days, retention in CLASSES.items():
        try:
            async with db.transaction() as connection:
                # A drop locks the parent table, and later sessions queue behind it while it waits for the lock. So it
                # gives up after a second, and the next run tries again
                await connection.execute("set local lock_timeout = '1s'")
                await connection.execute(ALONE)
                rows = await connection.fetch(DROP, retention, (now - timedelta(days=days)).date())
                if rows:
                    await trust_anchors.forget(connection)
                dropped += [row[0] for row in rows]
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            log.info("changelog partition drop postponed", retention=retention)
        await access_history.prune_periods(db, settings, retention, _midnight(now - timedelta(days=days)))
    if dropped:
        log.info("changelog partitions dropped", partitions=dropped)
    await run_in_batches(db, settings.housekeeping_rows, LEFT)
    return dropped


def _midnight(time: datetime) -> datetime:
    return time.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


async def erase(db: Database, settings: Settings, now: datetime | None = None) -> None:
    """Erase the content of expired changes: actor, content and person; their records stay.

    A housekeeping step.
    """
    now = now or datetime.now(UTC)
    for days in CLASSES:
        rows = gone = settings.housekeeping_rows
        while gone >= rows:
            gone = await db.fetchval(ERASE, rows, days, now - timedelta(days=days), settings.changelog_retention_days)


async def choose(statements: Statements, customer: int, days: int | None) -> bool:
    """Set the retention of a customer's changes in days, one of `CLASSES`; None: the default.

    Returns whether the customer exists.
    """
    return bool(await statements.fetchval(CHOOSE, customer, days))


async def older(statements: Statements, customer: int, days: int) -> int:
    """The number of a customer's changes that are older than `days` and not erased."""
    return await statements.fetchval(OLDER, customer, days)
