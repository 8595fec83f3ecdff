"""Clean-up of old deliveries and operations, and after removed and disabled webhooks.

Each function is a step of housekeeping.
"""

from __future__ import annotations

from typing import LiteralString

import structlog

from keyrack.core.settings import Settings
from keyrack.db.connection import Database
from keyrack.db.row_batches import run_in_batches
from keyrack.webhooks.delivery_errors import NOT_PULLED

log = structlog.get_logger("keyrack.delivery")

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
# A pulled message waits as long as a pushed one is tried
GIVE_UP_PULLED: LiteralString = """
with gone as (update delivery set state = 'Dead', error = $1, next_attempt_at = null,
  attempted_at = now() where ctid = any(array(
  select d.ctid from webhook w join delivery d on d.customer_id = w.customer_id and d.webhook_id = w.webhook_id
  where w.is_pull and w.is_enabled and d.state = 'Waiting' and d.since < now() - make_interval(secs => $2) limit $3))
  returning true)
select count(*) from gone
"""
# Numbers whose messages do not wait any longer, such as those of a deleted webhook
FORGET_NUMBERS: LiteralString = """
with gone as (delete from pulled_message where ctid = any(array(
  select m.ctid from pulled_message m where not exists (
    select from delivery d where d.customer_id = m.customer_id and d.webhook_id = m.webhook_id
    and d.delivery_id = m.delivery_id and d.state = 'Waiting') limit $1)) returning true)
select count(*) from gone
"""
DELETE_UNUSED: LiteralString = """
with gone as (delete from webhook where ctid = any(array(
  select ctid from webhook where is_pull
  and coalesce(pulled_at, created_at) < now() - make_interval(days => delete_unused_after_days) limit 100))
  returning customer_id, webhook_id, name),
kept as (insert into removed_webhook (customer_id, webhook_id) select customer_id, webhook_id from gone)
select customer_id, webhook_id, name from gone
"""


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


async def pulled_messages(db: Database, settings: Settings) -> None:
    """Give up messages that no client has fetched in time."""
    await run_in_batches(db, settings.housekeeping_rows, GIVE_UP_PULLED, NOT_PULLED.text, settings.webhook_retry_for)
    await run_in_batches(db, settings.housekeeping_rows, FORGET_NUMBERS)


async def unused_webhooks(db: Database, settings: Settings) -> None:
    """Delete pull webhooks that no client has used for long."""
    for row in await db.fetch(DELETE_UNUSED):
        log.warning(
            "unused pull webhook deleted", customer=row["customer_id"], webhook=row["webhook_id"], name=row["name"]
        )
