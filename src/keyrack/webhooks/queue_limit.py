"""The queue limit: a webhook with too many waiting deliveries is disabled."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import LiteralString

import structlog

from keyrack.db.audit_context import SET_ACTOR, Actor, acting
from keyrack.db.connection import Statements
from keyrack.webhooks.delivery_errors import DISABLED_BY_TOO_MUCH

log = structlog.get_logger("keyrack.delivery")

KNOWN_FOR = 5.0  # seconds for which a count of waiting deliveries is used
KNOWN = 10_000  # stored counts above which expired ones are dropped

WAIT: LiteralString = """
select p.customer_id, p.webhook_id, (select count(*)::integer from (
  select from delivery d where d.customer_id = p.customer_id and d.webhook_id = p.webhook_id and d.state = 'Waiting'
  limit $3) w) as waiting
from unnest($1::integer[], $2::integer[]) p (customer_id, webhook_id)
"""
# Skips a webhook that another transaction is changing, because the caller would wait for it
DISABLE: LiteralString = """
update webhook set is_enabled = false, disabled_reason = $3 where ctid = any(array(
  select w.ctid from unnest($1::integer[], $2::integer[]) p (customer_id, webhook_id)
  join webhook w on w.customer_id = p.customer_id and w.webhook_id = p.webhook_id and w.is_enabled
  order by w.customer_id, w.webhook_id for update of w skip locked))
returning customer_id, webhook_id
"""

Key = tuple[int, int]  # customer, webhook


@dataclass(slots=True)
class QueueLimit:
    """The waiting deliveries of webhooks, as one process knows them."""

    max_pending: int  # deliveries that may wait for a webhook; if more would wait, it is disabled
    actor: Actor  # disables it
    _free_by_webhook: dict[Key, tuple[int, float]] = field(
        default_factory=dict[Key, tuple[int, float]]
    )  # free places, and the time until which they are used

    async def disable_full(self, statements: Statements, coming: Counter[Key]) -> set[Key]:
        """Disable the webhooks whose queue limit these deliveries would exceed.

        Returns the disabled ones. A webhook that another transaction is changing stays enabled and gets the deliveries.
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
        actor = acting.get()
        await statements.fetchval(SET_ACTOR, self.actor.encoded)  # not the caller whose request writes the deliveries
        rows = await statements.fetch(DISABLE, customers, webhooks, DISABLED_BY_TOO_MUCH.text)
        await statements.fetchval(SET_ACTOR, "" if actor is None else actor.encoded)
        disabled_keys = {(row["customer_id"], row["webhook_id"]) for row in rows}
        for customer, webhook in disabled_keys:
            log.warning(
                "webhook disabled, queue limit reached", customer=customer, webhook=webhook, limit=self.max_pending
            )
        return disabled_keys
