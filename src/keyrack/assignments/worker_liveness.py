"""In charge of whether anybody attends to what waits: that no worker lives while work waits is an alert everywhere."""

from __future__ import annotations

from typing import LiteralString

from keyrack.db.connection import Statements
from keyrack.db.process_registry import SILENT

PATIENCE = 60.0  # seconds that work may wait without a worker
LOOK = 1_000  # operations, and deliveries, that are looked at

# Asked of an index of those that wait, and only where no worker lives; what waits for a disabled webhook is nobody's
# work
WAITED: LiteralString = """
select case when not exists (
  select from heartbeat where role = 'work' and beat_at > now() - make_interval(secs => $1))
then (select extract(epoch from now() - least(
  (select min(o.requested_at) from (
    select requested_at from operation where state = 'Pending' order by customer_id limit $2) o),
  (select min(d.created_at) from (
    select customer_id, webhook_id, created_at from delivery where state = 'Waiting'
    order by customer_id, webhook_id limit $2) d
  join webhook w on w.customer_id = d.customer_id and w.webhook_id = d.webhook_id and w.is_enabled)
)))::float8 end
"""


async def seconds_without_worker(statements: Statements) -> float | None:
    """Seconds for which work has waited while no worker lives anywhere; None if it does not, or not for long yet.

    Raises what the database raises.
    """
    waited: float | None = await statements.fetchval(WAITED, SILENT, LOOK)
    return waited if waited is not None and waited > PATIENCE else None
