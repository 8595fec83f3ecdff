"""Cars whose exclusive bookings leave a period free.

An exclusive booking occupies its car from its start to its end and the gap after it. Bookings of a car do not overlap.
So the last one that starts before the requested period ends decides whether the car is free, and one index entry per
car is enough. Operations that are not applied yet are few. One pass over them finds the cars that they occupy.

The result is a suggestion. A booking is decided when its operation is applied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, LiteralString

from keyrack.api.exchange import Request
from keyrack.api.query_parameters import MOMENT, QueryParameter, a_time, parse_parameters, time_range
from keyrack.api.schema.fields import date_time
from keyrack.fleet.schema import CAR

LONGEST = 366  # days between `from` and `to`
LONGEST_GAP = 86_400  # seconds
BOXES = ("ready", "any")


def _seconds(text: str) -> int:
    """The gap in seconds. Raises `ValueError`."""
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= LONGEST_GAP):
        raise ValueError(f"The value must be an integer from 0 to {LONGEST_GAP}.")
    return int(text)


def _box(text: str) -> str:
    """The required state of the key box. Raises `ValueError`."""
    if text not in BOXES:
        raise ValueError(f"The valid values are {', '.join(BOXES)}.")
    return text


PERIOD = (
    QueryParameter(
        "from", a_time, "The start of the period.", {**MOMENT, "examples": ["2026-05-01T08:00:00Z"]}, is_required=True
    ),
    QueryParameter(
        "to", a_time, f"The end of the period, exclusive: at most {LONGEST} days after `from`.",
        {**MOMENT, "examples": ["2026-05-01T18:00:00Z"]}, is_required=True,
    ),
    QueryParameter(
        "gap", _seconds,
        "The seconds that must be free before and after the period. Default: the `bookingGap` of the car, or else of"
        " the customer. A smaller value has no effect.",
        {"type": "integer", "minimum": 0, "maximum": LONGEST_GAP},
    ),
    QueryParameter(
        "box", _box,
        "The key box of the car. `ready`: it can take a key, which a booking needs. `any`: cars without such a box as"
        " well. Default: `ready`.",
        {"type": "string", "enum": list(BOXES)}, BOXES,
    ),
)  # fmt: skip


def period_values(request: Request) -> Mapping[str, Any]:
    """The parameters of the SQL. Raises `BadRequest`."""
    values = parse_parameters(request.query, PERIOD, allows_others=True)
    since, until = time_range(values, LONGEST)
    return {"since": since, "until": until, "gap": values.get("gap", 0), "any_box": values.get("box") == "any"}


# The gap of a car, at least the requested one
_GAP: LiteralString = (
    "make_interval(secs => greatest(:gap::int8, coalesce({t}.booking_gap,"
    " (select f.booking_gap from customer f where f.customer_id = :customer))))"
)
_UNTIL: LiteralString = ":until::timestamptz"
_SINCE: LiteralString = ":since::timestamptz"

# By car: whether a pending operation occupies it, the next start and the previous end. A property that the
# operation lacks has the value of its assignment. The default of `exclusive` is the policy of the car
_PENDING: LiteralString = (
    "(select jsonb_object_agg(w.car_id, jsonb_build_object('taken', w.taken, 'next', w.next, 'previous', w.previous))"
    " from (select r.car_id,"
    " bool_or(r.starts_at < " + _UNTIL + " + make_interval(secs => greatest(:gap::int8, r.car_gap))"
    " and coalesce(r.ends_at + make_interval(secs => greatest(:gap::int8, r.gap)), 'infinity') > " + _SINCE + ")"
    " as taken,"
    " min(r.starts_at) filter (where r.starts_at >= " + _UNTIL + ") as next,"
    " max(r.ends_at) filter (where r.ends_at <= " + _SINCE + ") as previous"
    " from (select c.car_id, p.gap as car_gap, case when a.is_exclusive then a.booking_gap else p.gap end as gap,"
    " coalesce((o.request->>'start')::timestamptz, a.starts_at) as starts_at,"
    " case when o.request ? 'end' then (o.request->>'end')::timestamptz else a.ends_at end as ends_at"
    " from operation o left join assignment a on o.kind = 'UpdateAssignment'"
    " and a.customer_id = o.customer_id and a.assignment_id = o.assignment_id"
    " join car c on c.customer_id = o.customer_id and c.car_id = coalesce((o.request->>'carId')::integer, o.car_id)"
    " join customer f on f.customer_id = o.customer_id cross join lateral (select"
    " coalesce(c.bookings, f.bookings) = 'exclusive' as is_exclusive, coalesce(c.booking_gap, f.booking_gap) as gap) p"
    " where o.customer_id = :customer and o.state = 'Pending' and o.kind in ('CreateAssignment', 'UpdateAssignment')"
    " and coalesce((o.request->>'exclusive')::boolean, case when o.request ? 'exclusive' then p.is_exclusive"
    " else coalesce(a.is_exclusive, p.is_exclusive) end)"
    ") r where r.starts_at < coalesce(r.ends_at, 'infinity') group by r.car_id) w)"
)  # fmt: skip
_OF_CAR: LiteralString = " from booking b where b.customer_id = {t}.customer_id and b.car_id = {t}.car_id"
# A query that needs none of `{t}_held`, `{t}_next` and their fields does not read them: PostgreSQL removes such joins
_TABLE: LiteralString = (
    CAR.table
    + " left join lateral (select b.assignment_id, b.blocked_until" + _OF_CAR
    + " and b.starts_at < " + _UNTIL + " + " + _GAP
    + " order by b.starts_at desc limit 1) {t}_previous on true"
    " left join assignment {t}_held on {t}_held.customer_id = {t}.customer_id"
    " and {t}_held.assignment_id = {t}_previous.assignment_id"
    " left join lateral (select min(b.starts_at) as starts_at" + _OF_CAR
    + " and b.starts_at >= " + _UNTIL + ") {t}_next on true"
    " cross join lateral (select " + _PENDING + "->({t}.car_id::text) as pending offset 0) {t}_asked"
)  # fmt: skip
# One key box per car at most. An index finds it: no plan reads all boxes for a few cars
_HAS_READY_BOX: LiteralString = (
    "(select not s.is_terminated from product p"
    " join service s on s.customer_id = p.customer_id and s.product_id = p.product_id"
    " where p.customer_id = {t}.customer_id and p.car_id = {t}.car_id and p.kind = 'Box' limit 1)"
)
_KEEPS_REQUESTED_GAP: LiteralString = (
    "(select a.ends_at + make_interval(secs => :gap::int8) <= " + _SINCE + " from assignment a"
    " where a.customer_id = {t}.customer_id and a.assignment_id = {t}_previous.assignment_id)"
)
# In the order of their costs
_IS_FREE: LiteralString = (
    "case when {t}_previous.blocked_until > " + _SINCE + " or ({t}_asked.pending->>'taken')::boolean then false"
    " when :gap::int8 > 0 and not " + _KEEPS_REQUESTED_GAP + " then false"
    " when :any_box::boolean then true else coalesce(" + _HAS_READY_BOX + ", false) end"
)  # fmt: skip

AVAILABLE_CAR = replace(
    CAR,
    name="AvailableCar",
    table=_TABLE,
    scope=CAR.scope + " and " + _IS_FREE,
    fields={
        **CAR.fields,
        "freeFrom": date_time(
            "greatest({t}_held.ends_at, ({t}_asked.pending->>'previous')::timestamptz)", nullable=True
        ),
        "freeUntil": date_time("least({t}_next.starts_at, ({t}_asked.pending->>'next')::timestamptz)", nullable=True),
    },
)
