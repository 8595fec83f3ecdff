"""Queries of the access history: by car or by user, at a time or over one.

A period counts from `began`, inclusive, until `ended`, exclusive. Periods have a class of their length, `span`. A query
reads in each class only the periods that began within that length before the time. So it skips all that ended long ago.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Literal, LiteralString

from keyrack.api.schema.group_scope import in_group_scope, in_scope_sql
from keyrack.changelog.schema import CHANGE
from keyrack.db.connection import Row, Statements
from keyrack.db.named_parameters import NamedStatement, compile_statement

Thing = Literal["car", "user"]

MOMENT = timedelta(microseconds=1)  # the shortest time: a query of one time ends this much later
AROUND = timedelta(days=1)  # before and after a time: whose changes are reported
EVENTS = 100  # maximum changes in an answer
NEAR = 200  # maximum resources of each kind whose changes are searched
SOON = 0.3  # seconds in which a query of now waits until no change is without a number
PATIENCE = 2.0  # seconds to wait for the numbers of the changes before the query
PAUSE = 0.02  # seconds between two polls

# The extent of the customer's history, the time of its oldest change without a number, and whether resource $2 exists
# or is in the history
_LOOK: LiteralString = """
select l.since, k.now, coalesce(c.last_id, 0) as last_id, coalesce(c.last_recorded_at, l.since) as recorded_at,
  (select min(i.at) from change_inbox i where i.customer_id = $1) as waiting,
"""
_FROM: LiteralString = """
from (select clock_timestamp() as now) k left join custody_log l on l.customer_id = $1
left join change_log c on c.customer_id = $1
"""
LOOK: dict[Thing, LiteralString] = {
    "car": _LOOK + " exists (select from car where customer_id = $1 and car_id = $2) or exists (select from custody"
    " where customer_id = $1 and car_id = $2 and ended > began) as known" + _FROM,
    "user": _LOOK + " exists (select from customer_user where customer_id = $1 and user_id = $2) or exists (select from"
    " custody where customer_id = $1 and user_id = $2 and ended > began) as known" + _FROM,
}  # fmt: skip
EVER: LiteralString = """
select exists (select from change where customer_id = $1 and resource = $2 and resource_id = $3::integer::text)
"""

# For a group-limited caller the conditions of the group scope replace these marks
_PAIR: LiteralString = "{pair}"
_CHANGE: LiteralString = "{change}"
_CHANGE_MEMBERS: LiteralString = "{members}"

# The periods from `:since` to `:until`, exclusive. Each class is one range of the index, so each has its limit. The
# bounds are those of the column `span`; the last two classes have none
_COUNTS: LiteralString = """
(values (0, interval '60 s'), (1, '240 s'), (2, '960 s'), (3, '3840 s'), (4, '15360 s'), (5, '61440 s'),
  (6, '245760 s'), (7, '983040 s'), (8, '3932160 s'), (9, '15728640 s'), (10, '62914560 s'), (11, '251658240 s'),
  (12, '6000 years'), (13, '6000 years')) l (span, reach)
cross join lateral (
  select c.*, c as period from custody c where c.customer_id = :customer and c.span = l.span and c.ended > c.began
  and c.began > :since::timestamptz - l.reach and c.began < :until::timestamptz and c.ended > :since and {pair}"""


def _of(thing: LiteralString, order: LiteralString) -> LiteralString:
    """The first `:most` periods of the car or user `:id` from `:since` to `:until`."""
    return (
        "(select c.* from " + _COUNTS + "c." + thing + "_id = :id order by " + order + " limit :most) c"
        " order by " + order + " limit :most)"
    )  # fmt: skip


# The newest part that was put there, if it was still there
_FITTED: LiteralString = """
left join lateral (
  select case when f.known_until > p.at then f.part_id end as part_id from fitting f
  where f.customer_id = :customer and f.kind = 'box' and f.place_id = s.car_id and f.known_from <= p.at
  order by f.known_from desc, f.fitting_id desc limit 1) b on true
left join lateral (
  select case when f.known_until > p.at then f.part_id end as part_id from fitting f
  where f.customer_id = :customer and f.kind = 'service' and f.place_id = b.part_id and f.known_from <= p.at
  order by f.known_from desc, f.fitting_id desc limit 1) v on true
"""
_SHOWN: LiteralString = """
select s.stretch_id, s.assignment_id, s.car_id, s.user_id, s.known_from,
  nullif(s.known_until, 'infinity') as known_until, b.part_id as box_id, v.part_id as service_id,"""
_AT: LiteralString = _SHOWN + " s.since, nullif(s.until, 'infinity') as until from "
_AT_END: LiteralString = (
    " s cross join lateral (select :since::timestamptz as at) p" + _FITTED + " order by s.began, s.stretch_id"
)
# Periods, split where the box or service changed. A car has many periods, so the times of these changes are read once
# for each car
_OVER: LiteralString = (
    _SHOWN
    + """ p.at as since, nullif(p.until, 'infinity') as until from (
  select car_id, array_agg(period) as periods from """
)
_OVER_END: LiteralString = """ c group by car_id) c
cross join lateral (
  select array(
    select t.at from fitting f, unnest(array[f.known_from, f.known_until]) t (at)
    where f.customer_id = :customer and f.kind = 'box' and f.place_id = c.car_id
    union
    select t.at from fitting f cross join lateral (
      select g.known_from, g.known_until from fitting g
      where g.customer_id = :customer and g.kind = 'service' and g.place_id = f.part_id offset 0) g,
      unnest(array[g.known_from, g.known_until]) t (at)
    where f.customer_id = :customer and f.kind = 'box' and f.place_id = c.car_id) as times offset 0
) f
cross join lateral unnest(c.periods) s
cross join lateral (
  select q.at, coalesce(lead(q.at) over (order by q.at), s.ended) as until from (
    select s.began as at
    union all
    select t.at from unnest(f.times) t (at) where t.at > s.began and t.at < s.ended) q
) p""" + _FITTED + " where p.at < :until and p.until > :since order by p.at, s.stretch_id limit :most"  # fmt: skip

FIRST: LiteralString = "c.began, c.stretch_id"
AT: dict[Thing, LiteralString] = {
    "car": _AT + _of("car", FIRST) + _AT_END,
    "user": _AT + _of("user", FIRST) + _AT_END,
}
OVER: dict[Thing, LiteralString] = {
    "car": _OVER + _of("car", FIRST) + _OVER_END,
    "user": _OVER + _of("user", FIRST) + _OVER_END,
}

# The changes nearest to `:place`: of the car or user itself, its assignments, the boxes of their cars, and their
# services. They are ordered once, and not for each of these things. `offset 0` keeps the lookups by the index
_EVENTS: LiteralString = """), boxes as (
  select distinct f.part_id from cars c join fitting f on f.customer_id = :customer and f.kind = 'box'
    and f.place_id = c.car_id
  where f.known_from < :until and f.known_until >= :since limit :most
), services as (
  select distinct f.part_id from boxes b join fitting f on f.customer_id = :customer and f.kind = 'service'
    and f.place_id = b.part_id
  where f.known_from < :until and f.known_until >= :since limit :most
), things (resource, id) as (
  select :thing::text, :id::integer::text
  union select 'assignment', assignment_id::text from near
  union select 'product', part_id::text from boxes
  union select 'service', part_id::text from services
)
select t.change_id, row_to_json(x)::text as item from (
  select c.* from things, lateral (
    select t.* from change t where t.customer_id = :customer and t.resource = things.resource
    and t.resource_id = things.id and t.recorded_at >= :since and t.recorded_at < :until
    and t.change_id <= :last{change} offset 0) c
  order by greatest(c.recorded_at - :place::timestamptz, :place - c.recorded_at), c.change_id limit :events
) t, lateral (select {members}) x"""
_BY_NEARNESS: LiteralString = (
    " order by greatest(t.recorded_at - :place::timestamptz, :place - t.recorded_at), t.change_id"
)
NEWEST: LiteralString = "c.began desc, c.stretch_id desc"
_NEAR: LiteralString = "with near as (select car_id, assignment_id from "
EVENTS_OF: dict[Thing, LiteralString] = {
    "car": _NEAR + _of("car", NEWEST) + " s), cars as (select :id::integer as car_id" + _EVENTS + _BY_NEARNESS,
    "user": _NEAR + _of("user", NEWEST) + " s), cars as (select distinct car_id from near" + _EVENTS + _BY_NEARNESS,
}


@cache
def _for_all(sql: LiteralString) -> NamedStatement:
    """The statement for a caller who sees the whole customer."""
    members: LiteralString = CHANGE.json_columns("t")
    return compile_statement(sql.replace(_PAIR, "").replace(_CHANGE, "").replace(_CHANGE_MEMBERS, members))


@cache
def _in_scope(sql: LiteralString) -> NamedStatement:
    """The statement for a group-limited caller.

    A period exists for this caller if its car and its user are in scope. The limits count only such periods.
    """
    assert CHANGE.group_scope is not None  # noqa: S101 - a constant of `changelog.schema`
    pair: LiteralString = in_scope_sql("car", "c.car_id") + " and " + in_scope_sql("user", "c.user_id") + " and "
    change: LiteralString = " and " + CHANGE.group_scope.scope.format(t="t")
    members: LiteralString = in_group_scope(CHANGE).json_columns("t")
    return compile_statement(sql.replace(_PAIR, pair).replace(_CHANGE, change).replace(_CHANGE_MEMBERS, members))


async def _fetch(statements: Statements, sql: LiteralString, scope: int | None, **values: object) -> list[Row]:
    statement = _for_all(sql) if scope is None else _in_scope(sql)
    return await statements.fetch(statement.sql, *statement.select({**values, "scope": scope}))


@dataclass(frozen=True, slots=True)
class HistoryExtent:
    """The extent of the access history at the time of a query."""

    since: datetime  # oldest available time; now, if there is no history yet
    at: datetime  # the time in question
    now: datetime
    last: int  # number of its newest change
    recorded: datetime  # when that change got its number
    waits: bool  # whether a change up to the time in question may be missing
    has: bool  # whether the customer has the car or user, or ever had it


async def history_extent(
    statements: Statements, customer: int, thing: Thing, id: int, at: datetime | None
) -> HistoryExtent:
    """The extent of the history, after the changes up to `at` have got their numbers.

    Without `at`, the time is now. If new changes keep coming, it is the time of the query. After `PATIENCE` seconds it
    waits no longer: then `waits` is true, and the history may lack changes up to that time.
    """
    begun = asyncio.get_running_loop().time()
    asked_about: datetime | None = None
    while True:
        (row,) = await statements.fetch(LOOK[thing], customer, id)
        now: datetime = row["now"]
        waiting: datetime | None = row["waiting"]
        took = asyncio.get_running_loop().time() - begun
        asked_about = asked_about or min(at or now, now)
        until = now if at is None and took < SOON else asked_about
        waits = row["since"] is None or (waiting is not None and waiting <= until)
        if not waits or took > PATIENCE:
            since = row["since"] or now
            has = row["known"] or await statements.fetchval(EVER, customer, thing, id)
            return HistoryExtent(since, until, now, row["last_id"], row["recorded_at"] or since, waits, has)
        await asyncio.sleep(PAUSE)


async def periods_at(
    statements: Statements,
    customer: int,
    scope: int | None,
    thing: Thing,
    id: int,
    since: datetime,
    until: datetime | None,
    most: int,
) -> list[Mapping[str, Any]]:
    """The first `most` periods at `since`, or from `since` to `until`.

    A group-limited caller gets those in its `scope`.
    """
    sql, end = (AT[thing], since + MOMENT) if until is None else (OVER[thing], until)
    rows = await _fetch(statements, sql, scope, customer=customer, id=id, since=since, until=end, most=most)
    return [dict(row) for row in rows] if until is None else join_periods(rows)


async def events(
    statements: Statements,
    customer: int,
    scope: int | None,
    thing: Thing,
    id: int,
    since: datetime,
    until: datetime | None,
    last: int,
) -> tuple[list[str], bool]:
    """The changes around `since`, or from `since` to `until`.

    They go up to the number `last`. Each is JSON, in the order of the numbers. The flag is true if there are more than
    `EVENTS`. Then these are the nearest to the time, or to the end.
    """
    place, begins, ends = (since, since - AROUND, since + AROUND) if until is None else (until, since, until)
    rows = await _fetch(
        statements, EVENTS_OF[thing], scope, customer=customer, id=id, since=begins, until=ends, most=NEAR,
        thing=thing, last=last, place=place, events=EVENTS + 1,
    )  # fmt: skip
    near = sorted(rows[:EVENTS], key=lambda row: row["change_id"])
    return [row["item"] for row in near], len(rows) > EVENTS


def join_periods(rows: Iterable[Mapping[str, Any] | Row]) -> list[Mapping[str, Any]]:
    """Join adjacent parts of a period that have the same box and service."""
    periods: list[Mapping[str, Any]] = []
    newest: dict[int, dict[str, Any]] = {}  # by period
    for row in map(dict[str, Any], rows):
        before = newest.get(row["stretch_id"])
        if before is not None and all(before[name] == row[name] for name in ("box_id", "service_id")):
            before["until"] = row["until"]
            continue
        newest[row["stretch_id"]] = row
        periods.append(row)
    return periods
