"""Deliveries of changes, written in the transaction that numbers the changes.

A change becomes one delivery for each webhook that subscribes to its event type. The record determines `webhook-id`, so
a repeated write adds no row. Changes of one resource share a lane, in the order of their numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString
from uuid import NAMESPACE_URL, uuid5

from pydantic_core import to_json

from keyrack.api.schema.event_types import CHANGES, CHECKPOINT, wildcards
from keyrack.api.schema.fields import utc
from keyrack.db.connection import Row, Statements
from keyrack.webhooks.change_payload import COLUMNS, LANE, VALUES, CheckpointPayload
from keyrack.webhooks.message_sql import message_sql
from keyrack.webhooks.outbox import LOCK_LANES
from keyrack.webhooks.queue_limit import QueueLimit

TAKERS: LiteralString = """
select customer_id, webhook_id, kinds from webhook where customer_id = any($1) and is_enabled and kinds && $2
order by customer_id, webhook_id
"""
# The whole key finds each change in its partition
PUBLISH: LiteralString = f"""
with written as (
  insert into delivery ({COLUMNS})
  select p.customer_id, p.webhook_id, {VALUES}
  from unnest($1::integer[], $2::integer[], $3::smallint[], $4::bigint[], $5::timestamptz[])
    p (customer_id, webhook_id, class, change_id, recorded_at)
  cross join lateral (
    select * from change c where c.class = p.class and c.customer_id = p.customer_id and c.change_id = p.change_id
    and c.recorded_at = p.recorded_at limit 1) t
  order by p.customer_id, p.webhook_id, p.change_id
  on conflict (customer_id, webhook_id, message_id) do nothing returning customer_id, webhook_id, lane
),
lanes as ({LOCK_LANES})
select count(*)::integer from written
"""
_CHECKPOINT: LiteralString = message_sql(
    CheckpointPayload,
    {"type": "$4::text", "timestamp": utc("now()"), "customerId": "w.customer_id", "data": "m.body::json"},
)
# All share one lane and `applied`, so they are sent in the order of creation
CHECKPOINTS: LiteralString = f"""
with t as (select 'changes' as resource, 'checkpoint' as resource_id),
written as (
  insert into delivery ({COLUMNS})
  select w.customer_id, w.webhook_id, m.message_id, $4, {LANE}, {_CHECKPOINT}, 0
  from unnest($1::integer[], $2::uuid[], $3::text[]) m (customer_id, message_id, body)
  join webhook w on w.customer_id = m.customer_id and w.is_enabled and w.kinds && $5, t
  order by w.customer_id, w.webhook_id
  on conflict (customer_id, webhook_id, message_id) do nothing returning customer_id, webhook_id, lane
),
lanes as ({LOCK_LANES})
select count(*)::integer from written
"""


@dataclass(frozen=True, slots=True)
class NumberedChange:
    """A change that has just received its number: its position in the log, and its resource."""

    customer: int
    retention: int  # its retention class
    id: int
    recorded_at: datetime
    kind: str
    resource: str


@dataclass(slots=True)
class Publisher:
    """Writes the deliveries of changes, for one worker that numbers them."""

    limit: QueueLimit

    async def publish(self, statements: Statements, changes: Iterable[NumberedChange]) -> set[int]:
        """Write the deliveries of changes, in the transaction that numbers them.

        Returns the customers with new deliveries or newly disabled webhooks. If no webhook subscribes to these event
        types, this costs one query.
        """
        webhook_changes = [change for change in changes if change.kind in CHANGES]
        if not webhook_changes:
            return set()
        names = {name for change in webhook_changes for name in _names(change)}
        takers = await statements.fetch(TAKERS, sorted({change.customer for change in webhook_changes}), sorted(names))
        if not takers:
            return set()
        pairs = _pairs(webhook_changes, takers)
        coming = Counter((change.customer, webhook) for change, webhook in pairs)
        full = await self.limit.disable_full(statements, coming)
        pairs = [(change, webhook) for change, webhook in pairs if (change.customer, webhook) not in full]
        if pairs:
            rows = [(c.customer, webhook, c.retention, c.id, c.recorded_at) for c, webhook in pairs]
            await statements.execute(PUBLISH, *map(list, zip(*rows, strict=True)))
        return {change.customer for change, _ in pairs} | {customer for customer, _ in full}


def _names(change: NumberedChange) -> tuple[str, ...]:
    """The event types and wildcards that match a change."""
    return (change.kind, *wildcards(change.kind, change.resource))


def _pairs(changes: Sequence[NumberedChange], takers: Sequence[Row]) -> list[tuple[NumberedChange, int]]:
    """Each change with each webhook that subscribes to it."""
    taking: dict[tuple[int, str], set[int]] = {}
    for row in takers:
        for name in row["kinds"]:
            taking.setdefault((row["customer_id"], name), set()).add(row["webhook_id"])
    return [
        (change, webhook)
        for change in changes
        for webhook in sorted(set[int]().union(*(taking.get((change.customer, name), ()) for name in _names(change))))
    ]


async def publish_checkpoints(statements: Statements, made: Mapping[tuple[int, str], object]) -> int:
    """Write the deliveries of checkpoints, in the caller's transaction; return their number.

    A checkpoint's key is its customer and a value that is unique within that customer. Its value becomes the member
    `data`. A checkpoint that was written before is not written again.
    """
    messages = [uuid5(NAMESPACE_URL, f"{CHECKPOINT}/{customer}/{key}") for customer, key in made]
    bodies = [to_json(body).decode() for body in made.values()]
    taken = [CHECKPOINT, *wildcards(CHECKPOINT, "changes")]
    return await statements.fetchval(
        CHECKPOINTS, [customer for customer, _ in made], messages, bodies, CHECKPOINT, taken
    )
