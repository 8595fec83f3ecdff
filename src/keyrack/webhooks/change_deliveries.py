"""Deliveries of changes, written in the transaction that numbers the changes.

A change becomes one delivery for each webhook that subscribes to its event type. The record determines `webhook-id`, so
a repeated write adds no row. Changes of one resource share a lane, in the order of their numbers.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import LiteralString
from uuid import NAMESPACE_URL, uuid5

import structlog
from pydantic_core import to_json

from keyrack.api.schema.event_types import CHANGES, CHECKPOINT, wildcards
from keyrack.api.schema.fields import utc
from keyrack.db.connection import Row, Statements
from keyrack.webhooks.change_payload import COLUMNS, LANE, VALUES, CheckpointPayload
from keyrack.webhooks.delivery_errors import DISABLED_BY_TOO_MUCH
from keyrack.webhooks.message_sql import message_sql
from keyrack.webhooks.outbox import LOCK_LANES

log = structlog.get_logger("keyrack.delivery")

KNOWN_FOR = 5.0  # seconds for which a count of waiting deliveries is used
KNOWN = 10_000  # stored counts above which expired ones are dropped

TAKERS: LiteralString = """
select customer_id, webhook_id, kinds from webhook where customer_id = any($1) and is_enabled and kinds && $2
order by customer_id, webhook_id
"""
WAIT: LiteralString = """
select p.customer_id, p.webhook_id, (select count(*)::integer from (
  select from delivery d where d.customer_id = p.customer_id and d.webhook_id = p.webhook_id and d.state = 'Waiting'
  limit $3) w) as waiting
from unnest($1::integer[], $2::integer[]) p (customer_id, webhook_id)
"""
# Skips a webhook that another transaction is changing, because numbering would wait for it
DISABLE: LiteralString = """
update webhook set is_enabled = false, disabled_reason = $3 where ctid = any(array(
  select w.ctid from unnest($1::integer[], $2::integer[]) p (customer_id, webhook_id)
  join webhook w on w.customer_id = p.customer_id and w.webhook_id = p.webhook_id and w.is_enabled
  order by w.customer_id, w.webhook_id for update of w skip locked))
returning customer_id, webhook_id
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

Key = tuple[int, int]  # customer, webhook


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

    max_pending: int  # deliveries that may wait for a webhook; if more would wait, it is disabled
    _free_by_webhook: dict[Key, tuple[int, float]] = field(
        default_factory=dict[Key, tuple[int, float]]
    )  # free places, and the time until which they are used

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
        full = await self._full(statements, Counter((change.customer, webhook) for change, webhook in pairs))
        pairs = [(change, webhook) for change, webhook in pairs if (change.customer, webhook) not in full]
        if pairs:
            rows = [(c.customer, webhook, c.retention, c.id, c.recorded_at) for c, webhook in pairs]
            await statements.execute(PUBLISH, *map(list, zip(*rows, strict=True)))
        return {change.customer for change, _ in pairs} | {customer for customer, _ in full}

    async def _full(self, statements: Statements, coming: Counter[Key]) -> set[Key]:
        """Disable the webhooks whose queue limit these deliveries would exceed; return the disabled ones.

        A webhook that another transaction is changing stays enabled and gets the deliveries.
        """
        now = time.monotonic()
        unknown = [key for key, count in coming.items() if not self._has_room(key, count, now)]
        if unknown:
            await self._count_pending(statements, unknown, now)
        over = [key for key, count in coming.items() if count > self._free_by_webhook[key][0]]
        full = await self._disable(statements, over) if over else set[Key]()
        for key, count in coming.items():
            left, until = self._free_by_webhook[key]
            self._free_by_webhook[key] = (left - count, until)
        return full

    def _has_room(self, key: Key, count: int, now: float) -> bool:
        left, until = self._free_by_webhook.get(key, (0, 0.0))
        return now < until and count <= left

    async def _count_pending(self, statements: Statements, keys: Sequence[Key], now: float) -> None:
        if len(self._free_by_webhook) > KNOWN:
            self._free_by_webhook = {key: free for key, free in self._free_by_webhook.items() if free[1] > now}
        customers, webhooks = [key[0] for key in keys], [key[1] for key in keys]
        for row in await statements.fetch(WAIT, customers, webhooks, self.max_pending):
            key = (row["customer_id"], row["webhook_id"])
            self._free_by_webhook[key] = (self.max_pending - row["waiting"], now + KNOWN_FOR)

    async def _disable(self, statements: Statements, keys: Sequence[Key]) -> set[Key]:
        customers, webhooks = [key[0] for key in keys], [key[1] for key in keys]
        rows = await statements.fetch(DISABLE, customers, webhooks, DISABLED_BY_TOO_MUCH.text)
        disabled_keys = {(row["customer_id"], row["webhook_id"]) for row in rows}
        for customer, webhook in disabled_keys:
            log.warning(
                "webhook disabled, queue limit reached", customer=customer, webhook=webhook, limit=self.max_pending
            )
        return disabled_keys


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
