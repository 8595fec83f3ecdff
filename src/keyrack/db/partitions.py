"""The monthly partitions of history and of the change log, made ahead and on demand.

A partition of history is dropped as soon as no customer's retention needs it. Its name gives its month, so no query for
its newest reading is necessary.
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

AHEAD = 2  # months after the current one
PER_DELETE = 5_000  # rows of one statement, so that its locks are short

MAKE: LiteralString = "select make_history(month) from unnest($1::date[]) month order by month"
MAKE_AHEAD: LiteralString = """
select make_history(month), make_changes(month) from unnest($1::date[]) month order by month
"""
DROP: LiteralString = "select drop_history($1)"
# A partition is kept for the longest retention of any customer; the rows of customers with a shorter one are deleted
LONGEST: LiteralString = "select greatest($1, max(history_days)) from customer"
# In random order: if the time does not suffice for many customers, no customer is always the last
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
    """The first day of the month of a time, in UTC."""
    at = at.astimezone(UTC)
    return date(at.year, at.month, 1)


def months_ahead(now: datetime) -> list[date]:
    """The current month and the next `AHEAD` ones."""
    first = month(now)
    return [date(first.year + (first.month - 1 + n) // 12, (first.month - 1 + n) % 12 + 1, 1) for n in range(AHEAD + 1)]


async def make(statements: Statements, months: Iterable[date]) -> None:
    """Make the missing partitions of history for these months."""
    await statements.execute(MAKE, sorted(months))


async def make_ahead(statements: Statements, now: datetime) -> None:
    """Make the missing partitions of history and of the change log for `months_ahead`."""
    await statements.execute(MAKE_AHEAD, months_ahead(now))


async def maintain(db: Database, settings: Settings, now: datetime | None = None) -> list[str]:
    """Make the partitions ahead and delete what is too old. Returns the names of dropped partitions."""
    now = now or datetime.now(UTC)
    await make_ahead(db, now)
    longest = await db.fetchval(LONGEST, settings.telemetry_retention_days)
    dropped: list[str] = []
    try:
        async with db.transaction() as connection:
            # A drop locks the parent table, and later sessions queue behind it while it waits for the lock. So it gives
            # up after a second, and the next run tries again
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
    """Delete a customer's history of the UTC days before `before`, in batches."""
    before = before.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    for sql in (DELETE_POSITIONS, DELETE_ODOMETERS, DELETE_TELEMETRY):
        while await db.fetchval(sql, customer, before, PER_DELETE) == PER_DELETE:
            pass
