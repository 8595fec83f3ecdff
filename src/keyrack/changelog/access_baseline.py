"""The baseline of the access history: a customer's state when its recording begins.

No change gets a number meanwhile. The baseline is read from the tables, without the effect of the changes that still
wait for a number: that is the state after the last numbered change. The waiting changes continue from there, so nothing
counts twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString

from keyrack.changelog.visibility_watermark import IF_ALONE
from keyrack.db.connection import Connection, Database

CUSTOMERS = 100  # per transaction
ROWS = 10_000  # per statement

NOT_BEGUN: LiteralString = """
select c.customer_id from customer c where not exists (select from custody_log l where l.customer_id = c.customer_id)
order by c.customer_id limit $1
"""
# The history begins with the oldest waiting change, or now without any, but not before the last numbered change.
BEGIN: LiteralString = """
insert into custody_log as l (customer_id, since)
select k.customer_id, greatest(
  (select c.last_recorded_at from change_log c where c.customer_id = k.customer_id),
  coalesce(w.at, clock_timestamp()))
from unnest($1::integer[]) k (customer_id) left join (
  select i.customer_id, min(i.at) as at from change_inbox i where i.customer_id = any($1) group by 1
) w on w.customer_id = k.customer_id
where not exists (select from custody_log o where o.customer_id = k.customer_id)
on conflict (customer_id) do nothing
returning l.customer_id, exists (select from assignment a where a.customer_id = l.customer_id)
  or exists (select from product p where p.customer_id = l.customer_id)
  or exists (select from service s where s.customer_id = l.customer_id) as has_things
"""
# For each resource with waiting changes: whether the first of them created it, and the members that they changed. Each
# member has its value before the first change.
_WAITING: LiteralString = """
with waiting as (
  select i.customer_id, i.resource_id::integer as id, (array_agg(i.before order by i.seq))[1] is null as made,
    coalesce(jsonb_object_agg(m.key, m.value order by i.seq desc) filter (where m.key is not null), '{}') as members
  from change_inbox i left join lateral jsonb_each(i.before) m on true
  where i.customer_id = any($1) and i.resource = $2 group by 1, 2
)
"""


def _before(member: LiteralString, type: LiteralString, column: LiteralString) -> LiteralString:
    """SQL of a member's value before the waiting changes."""
    was: LiteralString = "(w.members ->> '" + member + "')::" + type
    return "case when w.members ? '" + member + "' then " + was + " else t." + column + " end"


def _quiet(columns: LiteralString, table: LiteralString, key: LiteralString, into: LiteralString) -> LiteralString:
    """SQL that records the next $4 rows of customer $1 after key $3, and returns the last key.

    It writes a baseline row for each resource of type $2 that has no waiting changes.
    """
    return (
        "with piece as (select * from " + table + " where customer_id = $1 and " + key + " > $3 order by " + key
        + " limit $4), kept as (insert into " + into + " select t.customer_id, " + columns + ", l.since from piece t"
        " join custody_log l using (customer_id) where not exists (select from change_inbox i"
        " where i.customer_id = t.customer_id and i.resource = $2 and i.resource_id = t." + key + "::text)"
    )  # fmt: skip


_CUSTODY: LiteralString = "custody (customer_id, assignment_id, car_id, user_id, since, until, known_from)"
_FITTING: LiteralString = "fitting (customer_id, kind, part_id, place_id, known_from)"
_LAST: LiteralString = " on conflict do nothing) select max(key) from (select "

# Resource -> SQL for the resources without waiting changes, in batches
QUIET: dict[str, LiteralString] = {
    "assignment": _quiet(
        "t.assignment_id, t.car_id, t.user_id, t.starts_at, coalesce(t.ends_at, 'infinity')",
        "assignment", "assignment_id", _CUSTODY,
    ) + _LAST + "assignment_id as key from piece) s",
    "product": _quiet("'box', t.product_id, t.car_id", "product", "product_id", _FITTING)
    + " and t.kind = 'Box' and t.car_id is not null" + _LAST + "product_id as key from piece) s",
    "service": _quiet("'service', t.service_id, t.product_id", "service", "service_id", _FITTING)
    + " and t.product_id is not null" + _LAST + "service_id as key from piece) s",
}  # fmt: skip
# Resource -> SQL for the resources of customers $1 as they were before their waiting changes
TAKEN_BACK: dict[str, LiteralString] = {
    "assignment": _WAITING + "insert into " + _CUSTODY + " select w.customer_id, w.id, b.car, b.person, b.start,"
    " coalesce(b.until, 'infinity'), l.since from waiting w join custody_log l using (customer_id)"
    " left join assignment t on t.customer_id = w.customer_id and t.assignment_id = w.id cross join lateral (select "
    + _before("carId", "integer", "car_id") + " as car, " + _before("userId", "integer", "user_id") + " as person, "
    + _before("start", "timestamptz", "starts_at") + " as start, " + _before("end", "timestamptz", "ends_at")
    + " as until) b where not w.made and b.car is not null and b.person is not null and b.start is not null"
    " on conflict do nothing",
    "product": _WAITING + "insert into " + _FITTING + " select w.customer_id, 'box', w.id, b.place, l.since"
    " from waiting w join custody_log l using (customer_id) left join product t on t.customer_id = w.customer_id"
    " and t.product_id = w.id cross join lateral (select " + _before("carId", "integer", "car_id") + " as place, "
    + _before("type", "text", "kind") + " as kind) b where not w.made and b.kind = 'Box' and b.place is not null"
    " on conflict do nothing",
    "service": _WAITING + "insert into " + _FITTING + " select w.customer_id, 'service', w.id, b.place, l.since"
    " from waiting w join custody_log l using (customer_id) left join service t on t.customer_id = w.customer_id"
    " and t.service_id = w.id cross join lateral (select " + _before("productId", "integer", "product_id")
    + " as place) b where not w.made and b.place is not null on conflict do nothing",
}  # fmt: skip


async def begin(connection: Connection, customers: Sequence[int]) -> None:
    """Record the baseline of those of these customers that have none.

    The caller has the sequencer's lock, so that no other process gives numbers.
    """
    if not customers:
        return
    begun = await connection.fetch(BEGIN, customers)
    if not begun:
        return
    for customer in (row["customer_id"] for row in begun if row["has_things"]):
        for resource, sql in QUIET.items():
            last: int | None = 0
            while last is not None:
                last = await connection.fetchval(sql, customer, resource, last, ROWS)
    for resource, sql in TAKEN_BACK.items():
        await connection.execute(sql, [row["customer_id"] for row in begun], resource)


async def begin_some(db: Database) -> bool:
    """Record the baseline of some customers. Returns whether no customer is left without one."""
    if not await db.reading().fetch(NOT_BEGUN, 1):
        return True
    async with db.transaction() as connection:
        if await connection.fetchval(IF_ALONE):
            await connection.lift_timeouts()  # many changes may wait beside a release that gives no numbers
            rows = await connection.fetch(NOT_BEGUN, CUSTOMERS)
            await begin(connection, [row["customer_id"] for row in rows])
    return False
