"""The monthly partitions of history and of the change log: made ahead and on demand.

A partition of history is dropped as soon as no customer's retention needs it. The time of the newest reading is never
needed to find a partition: its name says which month it holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import LiteralString

import asyncpg
import structlog

from keyrack.core.settings import Settings
from keyrack.db.connection import Database, Statements

log = structlog.get_logger("keyrack.partitions")

AHEAD = 2  # months beside the current one
PER_DELETE = 5_000  # rows that one statement throws away, so that nobody waits for it

MAKE: LiteralString = "select make_history(month) from unnest($1::date[]) month order by month"
MAKE_AHEAD: LiteralString = """
select make_history(month), make_changes(month) from unnest($1::date[]) month order by month
"""
DROP: LiteralString = "select drop_history($1)"
# A partition is kept for as long as any customer wants it; whoever wants less has their rows deleted
LONGEST: LiteralString = "select greatest($1, max(history_days)) from customer"
# In another order each time: where a round has no time for all of many customers, nobody is always the last
SHORTER: LiteralString = """
select customer_id, coalesce(history_days, $1) as days from customer where coalesce(history_days, $1) < $2
order by random()
"""
DELETE_POSITIONS: LiteralString = """
with gone as (
  delete from position where (customer_id, car_id, at) in (
    select customer_id, car_id, at from position where customer_id = $1 and at < $2 limit $3) returning 1)
select count(*) from gone
"""
DELETE_ODOMETERS: LiteralString = """
with gone as (
  delete from odometer where (customer_id, car_id, at) in (
    select customer_id, car_id, at from odometer where customer_id = $1 and at < $2 limit $3) returning 1)
select count(*) from gone
"""
DELETE_TELEMETRY: LiteralString = """
with gone as (
  delete from telemetry where (customer_id, car_id, at) in (
    select customer_id, car_id, at from telemetry where customer_id = $1 and at < $2 limit $3) returning 1)
select count(*) from gone
"""


def month(at: datetime) -> date:
    """The first day of the month, in UTC, in which a time lies."""
    at = at.astimezone(UTC)
    return date(at.year, at.month, 1)


def months_ahead(now: datetime) -> list[date]:
    """This month and those after it that are made ahead."""
    first = month(now)
    return [date(first.year + (first.month - 1 + n) // 12, (first.month - 1 + n) % 12 + 1, 1) for n in range(AHEAD + 1)]


async def make(statements: Statements, months: Iterable[date]) -> None:
    """Make the partitions of these months where they do not exist."""
    await statements.execute(MAKE, sorted(months))


async def make_ahead(statements: Statements, now: datetime) -> None:
    """Make all partitions of the months in `months_ahead`.

    Those of history and of the change log; existing ones stay.
    """
    await statements.execute(MAKE_AHEAD, months_ahead(now))


async def maintain(db: Database, settings: Settings, now: datetime | None = None) -> list[str]:
    """Make what will be needed, throw away what is too old; the names of the partitions that were dropped."""
    now = now or datetime.now(UTC)
    await make_ahead(db, now)
    longest = await db.fetchval(LONGEST, settings.telemetry_retention_days)
    dropped: list[str] = []
    try:
        async with db.transaction() as connection:
            # To drop a partition is to lock its parent for a moment: rather later than make everybody wait
            await connection.execute("set local lock_timeout = '1s'")
            rows = await connection.fetch(DROP, (now - timedelta(days=longest)).date())
            dropped = [row[0] for row in rows]
    except asyncpg.LockNotAvailableError:
        log.info("history partition drop postponed")
    if dropped:
        log.info("history partitions dropped", partitions=dropped)
    for row in await db.fetch(SHORTER, settings.telemetry_retention_days, longest):
        await forget(db, row["customer_id"], now - timedelta(days=row["days"]))
    return dropped


async def forget(db: Database, customer: int, before: datetime) -> None:
    """Delete a customer's history of the days in UTC before a time, a little at once: a row is of one such day."""
    before = before.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    for sql in (DELETE_POSITIONS, DELETE_ODOMETERS, DELETE_TELEMETRY):
        while await db.fetchval(sql, customer, before, PER_DELETE) == PER_DELETE:
            pass
