"""Clean-up of old deliveries and operations, and after removed and disabled webhooks.

Each function is a step of housekeeping.
"""

from __future__ import annotations

from typing import LiteralString

from keyrack.core.settings import Settings
from keyrack.db.connection import Database
from keyrack.db.row_batches import run_in_batches

FORGET_DELIVERIES: LiteralString = """
with gone as (delete from delivery where ctid = any(array(
  select ctid from delivery where state <> 'Waiting' and created_at < now() - make_interval(days => $1)
  and (attempted_at is null or attempted_at < now() - make_interval(days => $1)) limit $2)) returning true)
select count(*) from gone
"""
FORGET_OPERATIONS: LiteralString = """
with gone as (delete from operation where ctid = any(array(
  select o.ctid from customer c cross join lateral (
    select ctid from operation o where o.customer_id = c.customer_id
    and o.finished_at < now() - make_interval(days => $1) order by o.finished_at limit $2) o limit $2)) returning true)
select count(*) from gone
"""
EMPTY_REMOVED: LiteralString = """
with gone as (delete from delivery where ctid = any(array(
  select d.ctid from removed_webhook r join delivery d using (customer_id, webhook_id) limit $1)) returning true)
select count(*) from gone
"""
EMPTY_REMOVED_LANES: LiteralString = """
with gone as (delete from delivery_lane where ctid = any(array(
  select l.ctid from removed_webhook r join delivery_lane l using (customer_id, webhook_id) limit $1)) returning true)
select count(*) from gone
"""
# Kept for an hour: a transaction that saw the webhook may still publish to it
FORGET_REMOVED: LiteralString = """
with gone as (delete from removed_webhook where ctid = any(array(
  select r.ctid from removed_webhook r where removed_at < now() - interval '1 hour' and not exists (
    select from delivery d where d.customer_id = r.customer_id and d.webhook_id = r.webhook_id) limit $1))
  returning true)
select count(*) from gone
"""
GIVE_UP_DISABLED: LiteralString = "select give_up_disabled($1, $2)"


async def deliveries(db: Database, settings: Settings) -> None:
    """Delete finished deliveries whose retention has passed."""
    await run_in_batches(db, settings.housekeeping_rows, FORGET_DELIVERIES, settings.delivery_retention_days)


async def operations(db: Database, settings: Settings) -> None:
    """Delete finished operations whose retention has passed."""
    await run_in_batches(db, settings.housekeeping_rows, FORGET_OPERATIONS, settings.operation_retention_days)


async def removed_webhooks(db: Database, settings: Settings) -> None:
    """Delete the deliveries and lanes of removed webhooks."""
    await run_in_batches(db, settings.housekeeping_rows, EMPTY_REMOVED)
    await run_in_batches(db, settings.housekeeping_rows, EMPTY_REMOVED_LANES)
    await run_in_batches(db, settings.housekeeping_rows, FORGET_REMOVED)


async def disabled_webhooks(db: Database, settings: Settings) -> None:
    """Give up deliveries of webhooks disabled for the whole retry period."""
    await run_in_batches(db, settings.housekeeping_rows, GIVE_UP_DISABLED, settings.webhook_retry_for)
