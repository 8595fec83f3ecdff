"""The outbox: publication of outcomes, and replay of all messages.

Deliveries are written in the transaction of their outcome. Every statement that writes deliveries also locks the rows
of their lanes, in the order of the lanes. A worker that finishes a lane therefore either sees the new deliveries or
comes first.
"""

from __future__ import annotations

from datetime import datetime
from typing import LiteralString

from keyrack.api.schema.event_types import CHANGES, TEST
from keyrack.changelog.schema import CHANGE
from keyrack.db.connection import Row, Statements
from keyrack.webhooks import event_payload
from keyrack.webhooks.change_payload import COLUMNS, MESSAGE, VALUES
from keyrack.webhooks.outcome_payload import LANE, PAYLOAD, TEST_PAYLOAD, TYPE

REPLAYED_AT_ONCE = 10_000  # outcomes, changes and events that one replay of a time range sends

# Existing lanes keep their due time; the assignment of a column to itself locks their rows
LOCK_LANES: LiteralString = """
  insert into delivery_lane (customer_id, webhook_id, lane) select distinct customer_id, webhook_id, lane from written
  order by customer_id, webhook_id, lane
  on conflict (customer_id, webhook_id, lane) do update set due_at = delivery_lane.due_at
"""
# Lanes without a lease, or with an expired one, become due at once
_WAKE_LANES: LiteralString = """
  insert into delivery_lane (customer_id, webhook_id, lane) select distinct customer_id, webhook_id, lane from written
  order by customer_id, webhook_id, lane
  on conflict (customer_id, webhook_id, lane) do update set attempts = 0,
    due_at = case when delivery_lane.lease > now() then delivery_lane.due_at else now() end
"""
# The columns of an outcome's delivery, and their values from the rows `o` of `operation` and `w` of `webhook`
_OUTCOME_COLUMNS: LiteralString = (
    "customer_id, webhook_id, message_id, type, lane, assignment_id, payload, created_at, applied, traceparent"
)
_OUTCOME: LiteralString = f"""o.customer_id, w.webhook_id, o.operation_id, {TYPE}, {LANE}, o.assignment_id, {PAYLOAD},
    o.finished_at, coalesce(o.applied, 0), o.traceparent"""
_CHANGES: LiteralString = CHANGE.table.format(t="t")
_SEND_AGAIN: LiteralString = "state = 'Waiting', since = now(), next_attempt_at = null"
# One statement writes and publishes outcomes, for customers that the caller has locked. `applied` numbers each
# customer's operations in the order of the arrays. Finish times differ by a microsecond only so that a replay can
# continue where it stopped
FINISH: LiteralString = f"""
with outcome as (
  select u.*, row_number() over (partition by u.customer_id order by u.place) as number
  from unnest($1::integer[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[]::jsonb[],
    $7::text[]::jsonb[]) with ordinality
    as u (customer_id, operation_id, state, error_code, error_message, result, conflicts, place)
),
counted as (
  update customer_hold h set applied = h.applied + c.count, due_at = null
  from (select customer_id, count(*) as count from outcome group by customer_id) c where c.customer_id = h.customer_id
  returning h.customer_id, h.applied - c.count as before
),
finished as (
  update operation p set state = u.state, error_code = u.error_code, error_message = u.error_message,
    result = u.result, conflicts = u.conflicts,
    finished_at = statement_timestamp() + u.place * interval '1 microsecond', applied = c.before + u.number,
    assignment_id = coalesce((u.result->>'assignmentId')::integer, p.assignment_id)
  from outcome u join counted c on c.customer_id = u.customer_id
  where p.customer_id = u.customer_id and p.operation_id = u.operation_id
  returning p.*, u.place
),
written as (
  insert into delivery ({_OUTCOME_COLUMNS})
  select {_OUTCOME}
  from finished o join webhook w on w.customer_id = o.customer_id and w.is_enabled and {TYPE} = any(w.kinds)
  order by o.place
  on conflict (customer_id, webhook_id, message_id) do nothing returning customer_id, webhook_id, lane
),
lanes as ({LOCK_LANES})
select count(*)::integer from written
"""
REPLAY_ONE: LiteralString = f"""
with written as (
  update delivery set {_SEND_AGAIN}
  where customer_id = $1 and webhook_id = $2 and delivery_id = $3 returning customer_id, webhook_id, lane
),
lanes as ({_WAKE_LANES})
select count(*) from written
"""


def _first_event(name: LiteralString, time: LiteralString) -> LiteralString:
    """SQL that searches for the first event recorded at a time or later. `max(low)` is its number."""
    return (
        name + """ as (
  select 1 as low, c.last_id + 1 as high
  from event_counter c join w on w.customer_id = c.customer_id and w.kinds && """ + event_payload.KINDS + """
  union all
  select case when b.is_before then m.middle + 1 else s.low end, case when b.is_before then s.high else m.middle end
  from """ + name + """ s
  cross join lateral (select s.low + (s.high - s.low) / 2 as middle) m
  cross join lateral (select coalesce((
    select coalesce(t.recorded_at, '-infinity') < """ + time + """ from event t
    where t.customer_id = $1 and t.event_id >= m.middle order by t.event_id limit 1), false) as is_before) b
  where s.low < s.high
)"""
    )  # fmt: skip


# Parameters: customer $1, webhook $2, from $3 up to but not including $4; $5: skip what is delivered or waits; $6:
# limit; $7: the event types of changes that webhooks can get. Includes what was never written, because the webhook was
# disabled, did not exist or had not subscribed then. Changes were recorded in the order of their numbers, so each class
# is read by its key up to the limit. So were events, whose range of numbers a binary search finds
REPLAY_RANGE: LiteralString = f"""
with recursive w as materialized (select * from webhook where customer_id = $1 and webhook_id = $2),
o as (
  select o.* from operation o join w on w.customer_id = o.customer_id
  where o.customer_id = $1 and o.finished_at >= $3 and o.finished_at < $4 and {TYPE} = any(w.kinds)
    and not ($5 and exists (
      select from delivery d where d.customer_id = o.customer_id and d.webhook_id = w.webhook_id
      and d.message_id = o.operation_id and d.state <> 'Dead'))
  order by o.finished_at limit $6
),
c as (
  select t.* from {_CHANGES} join w on w.customer_id = t.customer_id
  where t.customer_id = $1 and t.recorded_at >= $3 and t.recorded_at < $4 and t.kind = any($7::text[])
    and w.kinds && array[t.kind, split_part(t.kind, '.', 1) || '.*', t.resource || '.*']
    and not ($5 and exists (
      select from delivery d where d.customer_id = t.customer_id and d.webhook_id = w.webhook_id
      and d.message_id = {MESSAGE} and d.state <> 'Dead'))
  order by t.change_id limit $6
),
{_first_event("since", "$3")},
{_first_event("until", "$4")},
e as (
  select t.* from event t join w on w.customer_id = t.customer_id
  where t.customer_id = $1 and t.event_id >= (select max(low) from since)
    and t.event_id < (select max(low) from until) and t.recorded_at >= $3 and t.recorded_at < $4
    and w.kinds && array[{event_payload.TYPE}, 'event.*']
    and not ($5 and exists (
      select from delivery d where d.customer_id = t.customer_id and d.webhook_id = w.webhook_id
      and d.message_id = {event_payload.MESSAGE} and d.state <> 'Dead'))
  order by t.event_id limit $6
),
taken as (
  select operation_id, null::bigint as change_id, null::integer as event_id, finished_at as at from o
  union all select null, change_id, null, recorded_at from c
  union all select null, null, event_id, recorded_at from e
  order by 4, 2, 3 limit $6
),
written_outcomes as (
  insert into delivery ({_OUTCOME_COLUMNS})
  select {_OUTCOME}
  from taken b join o using (operation_id) join w on true order by o.finished_at
  on conflict (customer_id, webhook_id, message_id) do update set {_SEND_AGAIN} returning customer_id, webhook_id, lane
),
written_changes as (
  insert into delivery ({COLUMNS})
  select t.customer_id, w.webhook_id, {VALUES}
  from taken b join c t using (change_id) join w on true order by t.change_id
  on conflict (customer_id, webhook_id, message_id) do update set {_SEND_AGAIN} returning customer_id, webhook_id, lane
),
written_events as (
  insert into delivery ({event_payload.COLUMNS})
  select t.customer_id, w.webhook_id, {event_payload.VALUES}
  from taken b join e t using (event_id) join w on true order by t.event_id
  on conflict (customer_id, webhook_id, message_id) do update set {_SEND_AGAIN} returning customer_id, webhook_id, lane
),
written as (
  select * from written_outcomes union all select * from written_changes union all select * from written_events
),
lanes as ({_WAKE_LANES})
select count(*)::integer as count, (select max(at) from taken) as newest from written
"""


def _test(payload: LiteralString) -> LiteralString:
    """SQL that sends a test with this payload to a webhook."""
    return f"""
with t as (select gen_random_uuid() as id, -nextval(pg_get_serial_sequence('operation', 'seq')) as lane),
w as (select customer_id, webhook_id from webhook where customer_id = $1 and webhook_id = $2),
written as (
  insert into delivery (customer_id, webhook_id, message_id, type, lane, payload)
  select w.customer_id, w.webhook_id, t.id, '{TEST}', t.lane, {payload} from w, t
  returning customer_id, webhook_id, lane, delivery_id
),
lanes as ({_WAKE_LANES})
select delivery_id from written
"""


SEND_TEST: LiteralString = _test(TEST_PAYLOAD)
# A test in the form of another event type. The log shows it as a test, so that it is not mistaken for an outcome
SEND_EXAMPLE: LiteralString = _test("$3::text")


async def replay(statements: Statements, customer: int, webhook: int, delivery: int) -> bool:
    """Make a delivery wait again, in its old order. Returns False if there is none."""
    return bool(await statements.fetchval(REPLAY_ONE, customer, webhook, delivery))


async def replay_range(
    statements: Statements, customer: int, webhook: int, since: datetime, until: datetime, *, undelivered: bool
) -> tuple[int, datetime | None]:
    """Replay the outcomes, changes and events of a time range, oldest first.

    With `undelivered`, skips those that are delivered or wait. Returns the number of replayed ones, and the time to
    continue from if there may be more. That time is the newest replayed one, so its entries are replayed again.
    """
    row: Row | None = await statements.fetchrow(
        REPLAY_RANGE, customer, webhook, since, until, undelivered, REPLAYED_AT_ONCE, [*CHANGES]
    )
    assert row is not None  # noqa: S101 - an aggregate returns one row
    return row["count"], row["newest"] if row["count"] == REPLAYED_AT_ONCE else None
