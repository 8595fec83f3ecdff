"""In charge of where custody begins: what a customer has when it begins to be kept.

While nothing is numbered, the tables are read together with what has no number yet, and that is taken back: what is
left is how things stood behind the last number. What waits then goes on from there, and nothing counts twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString

from keyrack.changelog.visibility_watermark import IF_ALONE
from keyrack.db.connection import Connection, Database

CUSTOMERS = 100  # of one transaction
ROWS = 10_000  # of one statement

NOT_BEGUN: LiteralString = """
select c.customer_id from customer c where not exists (select from custody_log l where l.customer_id = c.customer_id)
order by c.customer_id limit $1
"""
# From the first change that waits on all is known, unless something that has a number was recorded later
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
# Of each thing with changes that wait: whether the first of them has made it, and the members that they have changed,
# each as it was before the first one
_WAITING: LiteralString = """
with waiting as (
  select i.customer_id, i.resource_id::integer as id, (array_agg(i.before order by i.seq))[1] is null as made,
    coalesce(jsonb_object_agg(m.key, m.value order by i.seq desc) filter (where m.key is not null), '{}') as members
  from change_inbox i left join lateral jsonb_each(i.before) m on true
  where i.customer_id = any($1) and i.resource = $2 group by 1, 2
)
"""


def _before(member: LiteralString, type: LiteralString, column: LiteralString) -> LiteralString:
    """SQL of a member as it was before what waits."""
    was: LiteralString = "(w.members ->> '" + member + "')::" + type
    return "case when w.members ? '" + member + "' then " + was + " else t." + column + " end"


def _quiet(columns: LiteralString, table: LiteralString, key: LiteralString, into: LiteralString) -> LiteralString:
    """Of customer $1 the next $4 rows behind key $3: of those of resource $2 of which nothing waits a row is written;
    returns the last key."""
    return (
        "with piece as (select * from " + table + " where customer_id = $1 and " + key + " > $3 order by " + key
        + " limit $4), kept as (insert into " + into + " select t.customer_id, " + columns + ", l.since from piece t"
        " join custody_log l using (customer_id) where not exists (select from change_inbox i"
        " where i.customer_id = t.customer_id and i.resource = $2 and i.resource_id = t." + key + "::text)"
    )  # fmt: skip


_CUSTODY: LiteralString = "custody (customer_id, assignment_id, car_id, user_id, since, until, known_from)"
_FITTING: LiteralString = "fitting (customer_id, kind, part_id, place_id, known_from)"
_LAST: LiteralString = " on conflict do nothing) select max(key) from (select "

# Resource -> what is there of which nothing waits, piece by piece
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
# Resource -> what was there before what waits, of customers $1
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
    """Begin to keep the custody of those of these customers of whom it is not kept yet. The caller numbers, and nobody
    else does."""
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
    """Begin to keep the custody of some customers of whom it is not kept; whether there is none left."""
    if not await db.reading().fetch(NOT_BEGUN, 1):
        return True
    async with db.transaction() as connection:
        if await connection.fetchval(IF_ALONE):
            await connection.lift_timeouts()  # much may wait for a number beside a release that gives none
            rows = await connection.fetch(NOT_BEGUN, CUSTOMERS)
            await begin(connection, [row["customer_id"] for row in rows])
    return False
