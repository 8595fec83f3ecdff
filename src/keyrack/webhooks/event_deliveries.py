"""Deliveries of events, written in the transaction that records the events.

A customer without a webhook for events costs nothing: the statement that records its events also looks for such a
webhook. Only if there is one, further statements write the deliveries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import LiteralString

from keyrack.api.schema.event_types import ALL
from keyrack.db.connection import Connection, Row
from keyrack.webhooks.event_payload import COLUMNS, EVENT_TYPES, KINDS, TYPE, VALUES
from keyrack.webhooks.outbox import LOCK_LANES
from keyrack.webhooks.queue_limit import Key, QueueLimit

WILDCARD = "event" + ALL
KNOWN = 10_000  # customers with such webhooks that a process remembers, at most

# SQL that is true if the webhook `w` takes events
_TAKES: LiteralString = "w.is_enabled and w.kinds && " + KINDS


def takes_events_sql(customer: LiteralString) -> LiteralString:
    """SQL that is true if an enabled webhook takes events."""
    return "exists (select from webhook w where w.customer_id = " + customer + " and " + _TAKES + ")"


TAKERS: LiteralString = (
    "select webhook_id, kinds from webhook w where customer_id = $1 and " + _TAKES + " order by webhook_id"
)
# Events with the numbers from $2 to $3, for the webhooks $4
PUBLISH: LiteralString = f"""
with written as (
  insert into delivery ({COLUMNS})
  select t.customer_id, w.webhook_id, {VALUES}
  from webhook w join event t on t.customer_id = w.customer_id and t.event_id between $2 and $3
  where w.customer_id = $1 and w.webhook_id = any($4::integer[]) and w.kinds && array[{TYPE}, '{WILDCARD}']
  order by w.webhook_id, t.event_id
  on conflict (customer_id, webhook_id, message_id) do nothing returning customer_id, webhook_id, lane
),
lanes as ({LOCK_LANES})
select count(*)::integer from written
"""


@dataclass(slots=True, eq=False)
class EventPublisher:
    """Writes the deliveries of events, for one process."""

    limit: QueueLimit
    _customers: dict[int, None] = field(default_factory=dict[int, None])  # that had a webhook for events last

    def is_expected(self, customer: int) -> bool:
        """Whether the customer had a webhook for events last."""
        return customer in self._customers

    async def publish(self, connection: Connection, customer: int, rows: Sequence[Row]) -> None:
        """Write the deliveries of new events, in the transaction that records them.

        Each row has `id`, which is null for none that is new, `type`, and the value `is_wanted` of `takes_events_sql`.
        The new events have consecutive numbers.
        """
        new = [row for row in rows if row["id"] is not None]
        is_wanted = any(row["is_wanted"] for row in rows)
        self._remember(customer, takes_events=is_wanted)
        if not (new and is_wanted):
            return
        counts = Counter(EVENT_TYPES[row["type"]] for row in new)
        coming = Counter[Key]()
        for row in await connection.fetch(TAKERS, customer):
            coming[customer, row["webhook_id"]] = sum(
                count for kind, count in counts.items() if kind in row["kinds"] or WILDCARD in row["kinds"]
            )
        coming = +coming  # without webhooks that take none of these
        if not coming:
            return
        full = await self.limit.disable_full(connection, coming)
        webhooks = sorted(webhook for _, webhook in coming.keys() - full)
        numbers = [row["id"] for row in new]
        await connection.fetchval(PUBLISH, customer, min(numbers), max(numbers), webhooks)

    def _remember(self, customer: int, *, takes_events: bool) -> None:
        self._customers.pop(customer, None)
        if takes_events:
            self._customers[customer] = None
            if len(self._customers) > KNOWN:
                del self._customers[next(iter(self._customers))]
