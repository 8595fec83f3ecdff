"""In charge of forgetting what nobody needs any more: old deliveries and operations, and what removed webhooks left."""

from __future__ import annotations

from typing import LiteralString

from keyrack.database.connection import Database, repeat
from keyrack.settings import Settings

# What nobody needs any more; those with a limit are repeated while they find something
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
delete from delivery_lane l using removed_webhook r
where r.customer_id = l.customer_id and r.webhook_id = l.webhook_id
"""
# A transaction that saw the webhook may have published to it a moment later
FORGET_REMOVED: LiteralString = """
delete from removed_webhook r where removed_at < now() - interval '1 hour' and not exists (
  select from delivery d where d.customer_id = r.customer_id and d.webhook_id = r.webhook_id)
"""
GIVE_UP_DISABLED: LiteralString = """
update delivery d set state = 'Dead', error = 'The webhook was disabled for too long.'
from webhook w where w.customer_id = d.customer_id and w.webhook_id = d.webhook_id and not w.is_enabled
  and d.state = 'Waiting' and d.since < now() - make_interval(secs => $1)
"""


async def tidy(db: Database, settings: Settings) -> None:
    """Forget what is older than the settings want, and what is left of removed webhooks."""
    await repeat(db, FORGET_DELIVERIES, settings.delivery_days)
    await repeat(db, FORGET_OPERATIONS, settings.operation_days)
    await repeat(db, EMPTY_REMOVED)
    await db.execute(EMPTY_REMOVED_LANES)
    await db.execute(FORGET_REMOVED)
    await db.execute(GIVE_UP_DISABLED, settings.webhook_retry_for)
