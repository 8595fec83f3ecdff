"""The backlog in the database, and its processes, replicas and archive.

Metrics and `keyrack status` use it.

Each statement uses an index and has a bound. Counts end at `MOST`. Ages cover the first `LOOK` customers or webhooks
with pending work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from keyrack.assignments.worker_liveness import seconds_without_worker
from keyrack.changelog import visibility_watermark
from keyrack.changelog.visibility_watermark import OpenWriter
from keyrack.db import archive_status
from keyrack.db.connection import Row, Statements
from keyrack.db.process_registry import Presence, processes
from keyrack.db.standbys import Standby, standbys
from keyrack.ops import housekeeping

MOST = 10_000  # maximum of a count
LOOK = 1_000  # maximum number of customers with operations, or webhooks with deliveries, that are read
OF_EACH = 100  # maximum number of deliveries read of each
APPLICATION = "keyrack metrics"  # application name of the connections

# Each count reads only a partial index (`operation_pending`, `delivery_waiting`, `delivery_dead`, `webhook_disabled`,
# `change_tree_refused`), and stops at the limit
COUNTS: LiteralString = """
select
  (select count(*) from (select from operation where state = 'Pending' limit $1) o) as pending,
  (select count(*) from (select from delivery where state = 'Waiting' limit $1) d) as waiting,
  (select count(*) from (select from delivery where state = 'Dead' limit $1) d) as dead,
  (select count(*) from (select from webhook where not is_enabled limit $1) w) as disabled,
  (select count(*) from (select from change_tree where refused is not null limit $1) t) as refused
"""
# Walks from customer to customer through the index of pending operations. The first operation of each kind (by request
# or not) is the oldest of its kind
OLDEST_PENDING: LiteralString = """
with recursive customer_of as (
  (select customer_id, 1 as step from operation where state = 'Pending' order by customer_id limit 1)
  union all
  select n.customer_id, c.step + 1 from customer_of c cross join lateral (
    select customer_id from operation where state = 'Pending' and customer_id > c.customer_id
    order by customer_id limit 1) n
  where c.step < $1
)
select extract(epoch from now() - min(first.requested_at))::float8 from customer_of c
cross join (values (true), (false)) kind (by_request) cross join lateral (
  select o.requested_at from operation o
  where o.customer_id = c.customer_id and (o.cause = 'Request') = kind.by_request and o.state = 'Pending'
  order by o.seq limit 1) first
"""
# The same walk from webhook to webhook
WEBHOOKS: LiteralString = """
with recursive webhook_of as (
  (select customer_id, webhook_id, 1 as step from delivery where state = 'Waiting'
   order by customer_id, webhook_id limit 1)
  union all
  select n.customer_id, n.webhook_id, w.step + 1 from webhook_of w cross join lateral (
    select customer_id, webhook_id from delivery
    where state = 'Waiting' and (customer_id, webhook_id) > (w.customer_id, w.webhook_id)
    order by customer_id, webhook_id limit 1) n
  where w.step < $1
)
"""
# Deliveries of disabled webhooks do not count, because no worker sends them. Those of pull webhooks count separately,
# without webhooks that Keyrack deletes if no client uses them: these are for tests
OLDEST_WAITING: LiteralString = (
    WEBHOOKS
    + """
select extract(epoch from now() - min(first.created_at) filter (where not w.is_pull))::float8 as pushed,
  extract(epoch from now() - min(first.created_at)
    filter (where w.is_pull and w.delete_unused_after_days is null))::float8 as pulled
from webhook_of o join webhook w on w.customer_id = o.customer_id and w.webhook_id = o.webhook_id and w.is_enabled
cross join lateral (
  select d.created_at from delivery d
  where d.customer_id = o.customer_id and d.webhook_id = o.webhook_id and d.state = 'Waiting'
  order by d.lane, d.applied, d.delivery_id limit $2) first
"""
)
OLDEST_CHANGE: LiteralString = """
select extract(epoch from clock_timestamp() - at)::float8 from change_inbox order by seq limit 1
"""
OLDEST_OF_PERSONS: LiteralString = """
select extract(epoch from now() - created_at)::float8 from person_change_outbox order by created_at limit 1
"""
SERVER: LiteralString = """
select pg_database_size(current_database()) as bytes, current_setting('max_connections')::integer as most
"""
SESSIONS: LiteralString = """
select case when application_name like 'keyrack%' then application_name else 'other' end as application,
  count(*) as connections
from pg_stat_activity where backend_type = 'client backend' group by 1
"""


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """The state of one housekeeping task."""

    name: str
    last_good: datetime | None
    failures: int  # since the last success
    late: bool


@dataclass(frozen=True, slots=True)
class Backlog:
    """Pending work and its age. Ages are in seconds, 0 if nothing waits. Counts end at `MOST`."""

    operations: int
    operations_age: float
    deliveries: int
    deliveries_age: float  # for enabled webhooks
    pulled_age: float  # of the oldest message that a client should have fetched
    changes_age: float  # of the oldest change without a sequence number
    persons_age: float  # of the oldest change of a person that another cell has not got
    writers: tuple[OpenWriter, ...]  # open transactions that block old changes, the oldest first
    refused: int  # change logs that do not match their signed checkpoint
    dead: int
    disabled: int  # webhooks
    housekeeping: tuple[TaskStatus, ...]
    database_bytes: int
    sessions: Mapping[str, int]  # connections to the database server, by application name
    most_sessions: int
    processes: tuple[Presence, ...]
    unattended: float | None  # seconds for which work has waited without a running worker
    standbys: tuple[Standby, ...]
    archive: archive_status.ArchiveStatus

    def living(self, role: str) -> int:
        """The number of live processes with this role."""
        return sum(process.lives and process.role == role for process in self.processes)


async def backlog(statements: Statements) -> Backlog:
    """Read the current backlog. Raises the errors of the database."""
    counts = _row(await statements.fetchrow(COUNTS, MOST))
    waiting = _row(await statements.fetchrow(OLDEST_WAITING, LOOK, OF_EACH)) if counts["waiting"] else None
    server = _row(await statements.fetchrow(SERVER))
    sessions = await statements.fetch(SESSIONS)
    steps = await housekeeping.status(statements)
    changes_age = await _age(statements, OLDEST_CHANGE)
    return Backlog(
        counts["pending"],
        await _age(statements, OLDEST_PENDING, LOOK) if counts["pending"] else 0.0,
        counts["waiting"],
        0.0 if waiting is None else max(0.0, waiting["pushed"] or 0.0),
        0.0 if waiting is None else max(0.0, waiting["pulled"] or 0.0),
        changes_age,
        await _age(statements, OLDEST_OF_PERSONS),
        tuple(await visibility_watermark.writers(statements)) if changes_age > visibility_watermark.OLD else (),
        counts["refused"],
        counts["dead"],
        counts["disabled"],
        tuple(TaskStatus(row["step"], row["last_good"], row["failures"], row["late"]) for row in steps),
        server["bytes"],
        {row["application"]: row["connections"] for row in sessions},
        server["most"],
        await processes(statements),
        await seconds_without_worker(statements),
        await standbys(statements),
        await archive_status.standing(statements),
    )


async def _age(statements: Statements, sql: LiteralString, *bounds: int) -> float:
    return max(0.0, await statements.fetchval(sql, *bounds) or 0.0)


def _row(row: Row | None) -> Row:
    assert row is not None  # noqa: S101 - a select of one row
    return row
