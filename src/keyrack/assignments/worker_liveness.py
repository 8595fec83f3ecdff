"""Detection of pending work without a live worker, for an alert by any process."""

from __future__ import annotations

from typing import LiteralString

from keyrack.db.connection import Statements
from keyrack.db.process_registry import SILENT

PATIENCE = 60.0  # seconds that work may wait without a live worker
LOOK = 1_000  # pending operations, and deliveries, that the query reads at most

# Uses an index of pending rows, and only if no worker is alive. Deliveries of disabled and pull webhooks do not
# count: no worker would send them
WAITED: LiteralString = """
select case when not exists (
  select from heartbeat where role = 'work' and beat_at > now() - make_interval(secs => $1))
then (select extract(epoch from now() - least(
  (select min(o.requested_at) from (
    select requested_at from operation where state = 'Pending' order by customer_id limit $2) o),
  (select min(d.created_at) from (
    select customer_id, webhook_id, created_at from delivery where state = 'Waiting'
    order by customer_id, webhook_id limit $2) d
  join webhook w on w.customer_id = d.customer_id and w.webhook_id = d.webhook_id and w.is_enabled
    and not w.is_pull)
)))::float8 end
"""


async def seconds_without_worker(statements: Statements) -> float | None:
    """Seconds that the oldest work has waited while no worker is alive anywhere.

    The oldest is that of the first `LOOK` operations and deliveries in the order of customers. Returns None if a worker
    is alive, nothing waits, or the wait is at most `PATIENCE`. Raises the database's exceptions.
    """
    waited: float | None = await statements.fetchval(WAITED, SILENT, LOOK)
    return waited if waited is not None and waited > PATIENCE else None
