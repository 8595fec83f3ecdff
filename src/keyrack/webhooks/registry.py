"""In charge of what is kept about webhooks: register and change them, publish outcomes to them, and send again.

Deliveries are written in the transaction of their outcome. Every statement that writes deliveries also locks the row
of their lane, in the order of the lanes: a worker that finishes a lane either sees them or comes first.
"""

from __future__ import annotations

import base64
import secrets
from datetime import datetime
from typing import Any, LiteralString
from urllib.parse import urlsplit

from keyrack.database.connection import Database, Row, Statements, repeat
from keyrack.settings import Settings
from keyrack.webhooks.outcomes import LANE, PAYLOAD, TEST, TYPE

REPLAYED_AT_ONCE = 10_000  # outcomes of a time range that one call sends again

INSERT: LiteralString = """
insert into webhook (customer_id, url, secret, kinds, is_enabled, signing_secret)
select $1, $2, $3, $4, $5, $6 where (select count(*) from webhook where customer_id = $1) < $7 returning webhook_id
"""
# What the patch does not name stays as it is
UPDATE: LiteralString = """
update webhook set
  url = case when $3 ? 'url' then $3->>'url' else url end,
  secret = case when $3 ? 'secret' then $3->>'secret' else secret end,
  kinds = case when $3 ? 'kinds' then array(select jsonb_array_elements_text($3->'kinds')) else kinds end,
  is_enabled = case when $3 ? 'enabled' then ($3->'enabled')::boolean else is_enabled end,
  disabled_reason = case when $3 ? 'enabled' then null else disabled_reason end
where customer_id = $1 and webhook_id = $2 returning webhook_id
"""
DELETE: LiteralString = """
with gone as (delete from webhook where customer_id = $1 and webhook_id = $2 returning customer_id, webhook_id)
insert into removed_webhook (customer_id, webhook_id) select customer_id, webhook_id from gone returning webhook_id
"""
ROTATE: LiteralString = """
update webhook set old_signing_secret = signing_secret, signing_secret = $3,
  old_signing_secret_until = now() + make_interval(hours => $4)
where customer_id = $1 and webhook_id = $2 returning old_signing_secret_until
"""
ENABLED: LiteralString = "select is_enabled from webhook where customer_id = $1 and webhook_id = $2"

# Lanes that wait for their turn or their next try stay as they are; the assignment to itself locks them
_LANES: LiteralString = """
lanes as (
  insert into delivery_lane (customer_id, webhook_id, lane) select distinct customer_id, webhook_id, lane from written
  order by customer_id, webhook_id, lane
  on conflict (customer_id, webhook_id, lane) do update set due_at = delivery_lane.due_at
)
select count(*)::integer from written
"""
# Lanes that nobody holds are due at once
_LANES_AT_ONCE: LiteralString = """
lanes as (
  insert into delivery_lane (customer_id, webhook_id, lane) select distinct customer_id, webhook_id, lane from written
  order by customer_id, webhook_id, lane
  on conflict (customer_id, webhook_id, lane) do update set attempts = 0,
    due_at = case when delivery_lane.lease > now() then delivery_lane.due_at else now() end
)
"""
_INSERT: LiteralString = (
    "insert into delivery (customer_id, webhook_id, message_id, type, lane, assignment_id, payload, created_at)"
    " select o.customer_id, w.webhook_id, o.operation_id, "
    + (TYPE + ", " + LANE + ", o.assignment_id, " + PAYLOAD + ", o.finished_at")
)
# Outcomes are written and published by one statement; `place` keeps the order in which they came about, also in
# `finished_at`, by which a lane is ordered: the next transaction on the same car is more than these microseconds later
FINISH: LiteralString = (
    """
with outcome as (
  select * from unnest($1::integer[], $2::uuid[], $3::text[], $4::text[], $5::jsonb[]) with ordinality
    as u (customer_id, operation_id, state, error_message, result, place)
),
finished as (
  update operation p set state = u.state, error_message = u.error_message, result = u.result,
    finished_at = statement_timestamp() + u.place * interval '1 microsecond',
    assignment_id = coalesce((u.result->>'assignmentId')::integer, p.assignment_id)
  from outcome u where p.customer_id = u.customer_id and p.operation_id = u.operation_id
  returning p.*, u.place
),
written as ("""
    + _INSERT
    + " from finished o join webhook w on w.customer_id = o.customer_id and w.is_enabled and "
    + TYPE
    + " = any(w.kinds) order by o.place on conflict (customer_id, webhook_id, message_id) do nothing"
    + " returning customer_id, webhook_id, lane), "
    + _LANES
)
_AGAIN: LiteralString = """
set state = 'Waiting', since = now(), next_attempt_at = null
"""
REPLAY_ONE: LiteralString = (
    "with written as (update delivery "
    + _AGAIN
    + " where customer_id = $1 and webhook_id = $2 and delivery_id = $3 returning customer_id, webhook_id, lane), "
    + _LANES_AT_ONCE
    + "select count(*) from written"
)
# Also what was never written, because the webhook was disabled, unknown or did not want it then
REPLAY_RANGE: LiteralString = (
    """
with o as (
  select o.* from operation o join webhook w on w.customer_id = o.customer_id and w.webhook_id = $2
  where o.customer_id = $1 and o.finished_at >= $3 and o.finished_at < $4 and """
    + TYPE
    + """ = any(w.kinds) and not ($5 and exists (
      select from delivery d where d.customer_id = o.customer_id and d.webhook_id = w.webhook_id
      and d.message_id = o.operation_id and d.state <> 'Dead'))
  order by o.finished_at limit $6
),
written as ("""
    + _INSERT
    + " from o join webhook w on w.customer_id = o.customer_id and w.webhook_id = $2 order by o.finished_at"
    + " on conflict (customer_id, webhook_id, message_id) do update "
    + _AGAIN
    + " returning customer_id, webhook_id, lane), "
    + _LANES_AT_ONCE
    + "select count(*)::integer as count, (select max(finished_at) from o) as newest from written"
)
SEND_TEST: LiteralString = (
    """
with t as (select gen_random_uuid() as id, -nextval(pg_get_serial_sequence('operation', 'seq')) as lane),
w as (select customer_id, webhook_id from webhook where customer_id = $1 and webhook_id = $2),
written as (
  insert into delivery (customer_id, webhook_id, message_id, type, lane, payload)
  select w.customer_id, w.webhook_id, t.id, '"""
    + TEST
    + """', t.lane, json_build_object(
    'type', '"""
    + TEST
    + """', 'operationId', null, 'customerId', w.customer_id, 'operationSucceeded', true, 'errorMessage', null,
    'checksum', null, 'assignmentId', null, 'carId', null, 'userId', null, 'start', null, 'end', null,
    'lifetime', null, 'renewableAfter', null)::text
  from w, t returning customer_id, webhook_id, lane, delivery_id), """
    + _LANES_AT_ONCE
    + "select delivery_id from written"
)

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


def check_url(url: str) -> None:
    """Raises `ValueError` for what cannot be the address of a webhook. Whether it may be dialled is seen when it is."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        raise ValueError("it must begin with https:// or http://")
    if not parts.hostname:
        raise ValueError("it names no host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("it must not hold a user name or a password")
    if parts.fragment:
        raise ValueError("it must not have a fragment")
    if not url.isascii() or any(c.isspace() or not c.isprintable() for c in url):
        raise ValueError("it must be printable ASCII without blanks")
    _ = parts.port  # raises for what is no port


def new_signing_secret() -> str:
    """A Standard Webhooks signing secret: `whsec_` and 32 random bytes in base64."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


async def replay(statements: Statements, customer: int, webhook: int, delivery: int) -> bool:
    """Put a delivery back into its place; False when there is none."""
    return bool(await statements.fetchval(REPLAY_ONE, customer, webhook, delivery))


async def replay_range(
    statements: Statements, customer: int, webhook: int, since: datetime, until: datetime, *, undelivered: bool
) -> tuple[int, datetime | None]:
    """Send the outcomes of a time again, oldest first: how many, and from when to go on where there are more."""
    row: Row | None = await statements.fetchrow(
        REPLAY_RANGE, customer, webhook, since, until, undelivered, REPLAYED_AT_ONCE
    )
    assert row is not None  # noqa: S101 - one row by its form
    return row["count"], row["newest"] if row["count"] == REPLAYED_AT_ONCE else None


async def rotate(statements: Statements, customer: int, webhook: int, overlap_hours: int) -> tuple[str, Any] | None:
    """A new signing secret, and until when the old one signs too; None when there is no such webhook."""
    secret = new_signing_secret()
    until = await statements.fetchval(ROTATE, customer, webhook, secret, overlap_hours)
    return None if until is None else (secret, until)


async def tidy(db: Database, settings: Settings) -> None:
    """Forget what is older than the settings want, and what is left of removed webhooks."""
    await repeat(db, FORGET_DELIVERIES, settings.delivery_days)
    await repeat(db, FORGET_OPERATIONS, settings.operation_days)
    await repeat(db, EMPTY_REMOVED)
    await db.execute(EMPTY_REMOVED_LANES)
    await db.execute(FORGET_REMOVED)
    await db.execute(GIVE_UP_DISABLED, settings.webhook_retry_for)
