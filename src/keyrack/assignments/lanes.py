"""In charge of doing asynchronous work on assignments: claim cars' lanes, apply in order, write the outcomes.

A worker holds the row of a car's lane while it applies the lane's operations; result, outcome and deliveries are
committed together, so a crash leaves all or none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString

import asyncpg
import structlog

from keyrack.assignments.operations import lifetimes, stamp
from keyrack.database.connection import UNREACHABLE, Connection, Database, Row
from keyrack.model.bodies import moment
from keyrack.webhooks import publishing

log = structlog.get_logger("keyrack.lanes")

LANES = 20  # cars whose operations one transaction applies, at most
PER_LANE = 20  # operations of one car that it applies, at most
ATTEMPTS = 5  # of an operation that fails for no reason of its own, before it is given up


NO_CAR = "The car does not exist or is not assigned to the customer."
NO_USER = "The user does not exist or is not assigned to the customer."
NO_BOX = "There is no key box installed in the car."
NO_SERVICE = "The key box in the car has no service assigned."
TERMINATED = "The service of the key box in the car is terminated."
GONE = "The assignment does not exist any more."
END_BEFORE_START = "The end lies before the start."
RENEWABLE_TOO_LATE = "renewableAfter must be less than lifetime."
GIVEN_UP = "The operation could not be carried out for an internal reason."

CLAIM: LiteralString = """
select customer_id, car_id from operation_lane where due_at <= now() order by due_at limit $1 for update skip locked
"""
CLAIM_ONE: LiteralString = """
select customer_id, car_id from operation_lane where customer_id = $1 and car_id = $2 for update skip locked
"""
PENDING: LiteralString = """
select o.* from unnest($1::integer[], $2::integer[]) with ordinality l (customer_id, car_id, place)
cross join lateral (
  select o.customer_id, o.operation_id, o.kind, o.cause, o.car_id, o.user_id, o.assignment_id, o.request, o.attempts,
         o.seq
  from operation o where o.customer_id = l.customer_id and o.car_id = l.car_id and o.state = 'Pending'
  order by o.seq limit $3
) o
order by l.place, o.seq
"""
TRY_LATER: LiteralString = """
with o as (update operation set attempts = attempts + 1 where customer_id = $1 and operation_id = $2)
update operation_lane set due_at = now() + make_interval(secs => $4) where customer_id = $1 and car_id = $3
"""
LEAVE_LANES: LiteralString = """
with held as (
  select l.customer_id, l.car_id, exists (
    select from operation o where o.customer_id = l.customer_id and o.car_id = l.car_id and o.state = 'Pending') as more
  from unnest($1::integer[], $2::integer[]) l (customer_id, car_id)
),
gone as (
  delete from operation_lane l using held h
  where l.customer_id = h.customer_id and l.car_id = h.car_id and not h.more
)
update operation_lane l set due_at = clock_timestamp()
from held h where l.customer_id = h.customer_id and l.car_id = h.car_id and h.more
"""

# The lock on the box makes an uninstallation wait, and see the new assignment
BOX: LiteralString = """
select s.service_id is not null as served, coalesce(s.is_terminated, false) as terminated
from product p left join service s on s.customer_id = p.customer_id and s.product_id = p.product_id
where p.customer_id = $1 and p.car_id = $2 and p.kind = 'Box' for share of p
"""
# All is checked and written at once: a create that goes well is one statement
CREATE: LiteralString = (
    "with box as materialized ("
    + BOX
    + """),
member as materialized (
  select user_id from customer_user where customer_id = $1 and user_id = $3 for key share
),
made as (
  insert into assignment (customer_id, car_id, user_id, starts_at, ends_at, lifetime, renewable_after)
  select $1, $2, $3, $4, $5, $6, $7 from box, member where box.served and not box.terminated returning *
)
select exists (select from member) as member, exists (select from box) as box,
  (select served from box) as served, (select terminated from box) as terminated, made.*
from (select) one left join made on true
"""
)
CAR_EXISTS: LiteralString = "select exists (select from car where customer_id = $1 and car_id = $2)"
SELECT: LiteralString = "select * from assignment where customer_id = $1 and assignment_id = $2 for update"
UPDATE: LiteralString = """
update assignment set car_id = $3, user_id = $4, starts_at = $5, ends_at = $6, lifetime = $7, renewable_after = $8
where customer_id = $1 and assignment_id = $2 returning *
"""
DELETE: LiteralString = "delete from assignment where customer_id = $1 and assignment_id = $2 returning *"

INTERRUPTED = (*UNREACHABLE, asyncpg.SerializationError, asyncpg.DeadlockDetectedError)


class Failure(Exception):
    """Why an operation came to nothing: the outcome's errorMessage."""


@dataclass(frozen=True, slots=True)
class Done:
    """What one transaction of a worker came to."""

    operations: int
    deliveries: int


async def run_lanes(db: Database) -> Done | None:
    """Apply what waits for some cars, in order for each. Returns None when no car has work that is due."""
    lanes: list[Row] = []
    try:
        async with db.transaction() as connection:
            lanes = await connection.fetch(CLAIM, LANES)
            return await _apply(connection, lanes) if lanes else None
    except Exception as error:
        if _is_interruption(error):
            raise  # the whole claim is undone and comes again
        log.warning("operations undone; each is now applied by itself", error=repr(error))
    total = Done(0, 0)
    for lane in lanes:
        async with db.transaction() as connection:
            one = await connection.fetch(CLAIM_ONE, lane["customer_id"], lane["car_id"])
            done = await _apply(connection, one, guarded=True)
            total = Done(total.operations + done.operations, total.deliveries + done.deliveries)
    return total


async def _apply(connection: Connection, lanes: Sequence[Row], *, guarded: bool = False) -> Done:
    """Apply the operations of these lanes; outcomes and deliveries are written with them."""
    outcomes: list[tuple[Any, ...]] = []
    waiting: set[tuple[int, int]] = set()
    for operation in await connection.fetch(PENDING, *_columns(lanes, "customer_id", "car_id"), PER_LANE):
        lane = (operation["customer_id"], operation["car_id"])
        if lane in waiting:
            continue
        outcome = await _guarded(connection, operation) if guarded else await _outcome(connection, operation)
        if outcome is None:
            waiting.add(lane)
        else:
            state, message, result = outcome
            shown = result or _asked_for(operation)
            outcomes.append((operation["customer_id"], operation["operation_id"], state, message, shown))
    deliveries = 0
    if outcomes:
        deliveries = await connection.fetchval(
            publishing.FINISH, *(list(column) for column in zip(*outcomes, strict=True))
        )
    left = [lane for lane in lanes if (lane["customer_id"], lane["car_id"]) not in waiting]
    await connection.execute(LEAVE_LANES, *_columns(left, "customer_id", "car_id"))
    return Done(len(outcomes), deliveries)


def _columns(rows: Sequence[Row], *names: str) -> list[list[Any]]:
    return [[row[name] for row in rows] for name in names]


Outcome = tuple[str, str | None, dict[str, Any] | None]  # state, message, result


async def _outcome(connection: Connection, operation: Row) -> Outcome:
    """Apply one operation. What the database refuses undoes the transaction."""
    try:
        return "Succeeded", None, await APPLY[operation["kind"]](connection, operation)
    except Failure as failure:
        return "Failed", str(failure), None


def _is_interruption(error: Exception) -> bool:
    """Whether the cause lies outside; a value that cannot even be sent is an `InterfaceError` too, but no accident."""
    return isinstance(error, INTERRUPTED) and not isinstance(error, ValueError)


async def _guarded(connection: Connection, operation: Row) -> Outcome | None:
    """The same, undone alone if it fails; None when it is to be tried again later, and its lane must wait."""
    try:
        async with connection.transaction():
            return await _outcome(connection, operation)
    except asyncpg.ForeignKeyViolationError as violation:
        return "Failed", NO_CAR if violation.constraint_name == "assignment_car_fkey" else NO_USER, None
    except Exception as error:
        if _is_interruption(error):
            raise
        log.exception("operation failed", operation=str(operation["operation_id"]), error=str(error))
    if operation["attempts"] + 1 >= ATTEMPTS:
        return "Failed", GIVEN_UP, None
    wait = 2.0 ** operation["attempts"]
    await connection.execute(TRY_LATER, operation["customer_id"], operation["operation_id"], operation["car_id"], wait)
    return None


async def _create(connection: Connection, operation: Row) -> dict[str, Any]:
    wanted: Mapping[str, Any] = operation["request"]
    customer, car = operation["customer_id"], operation["car_id"]
    row = await connection.fetchrow(
        CREATE, customer, car, operation["user_id"], moment(wanted["start"]), _moment_or_none(wanted["end"]),
        *lifetimes(wanted["lifetime"], wanted["renewableAfter"]),
    )  # fmt: skip
    assert row is not None  # noqa: S101 - one row by its form
    if not row["box"]:
        raise Failure(NO_BOX if await connection.fetchval(CAR_EXISTS, customer, car) else NO_CAR)
    _check_service(row)
    if not row["member"]:
        raise Failure(NO_USER)
    return _shown(row)


async def _update(connection: Connection, operation: Row) -> dict[str, Any]:
    row = await connection.fetchrow(SELECT, operation["customer_id"], operation["assignment_id"])
    if row is None:
        raise Failure(GONE)
    values = _shown(row) | operation["request"]
    if values["carId"] != row["car_id"]:
        await _check_box(connection, operation["customer_id"], values["carId"])
    start, end = moment(values["start"]), _moment_or_none(values["end"])
    if end is not None and end < start:
        raise Failure(END_BEFORE_START)
    lifetime, renewable_after = lifetimes(values["lifetime"], values["renewableAfter"])
    if renewable_after >= lifetime:
        raise Failure(RENEWABLE_TOO_LATE)
    wanted = (values["carId"], values["userId"], start, end, lifetime, renewable_after)
    written = await connection.fetchrow(UPDATE, operation["customer_id"], operation["assignment_id"], *wanted)
    if written is None:
        raise Failure(GONE)
    return _shown(written)


async def _delete(connection: Connection, operation: Row) -> dict[str, Any]:
    row = await connection.fetchrow(DELETE, operation["customer_id"], operation["assignment_id"])
    if row is not None:
        return _shown(row)
    if operation["cause"] == "Request":
        raise Failure(GONE)
    return _asked_for(operation)  # it ended together with its car or user, and this is how that is told


APPLY: Mapping[str, Callable[[Connection, Row], Awaitable[dict[str, Any]]]] = {
    "CreateAssignment": _create,
    "UpdateAssignment": _update,
    "DeleteAssignment": _delete,
}


async def _check_box(connection: Connection, customer: int, car: int) -> None:
    box = await connection.fetchrow(BOX, customer, car)
    if box is None:
        raise Failure(NO_BOX if await connection.fetchval(CAR_EXISTS, customer, car) else NO_CAR)
    _check_service(box)


def _check_service(box: Row) -> None:
    if not box["served"]:
        raise Failure(NO_SERVICE)
    if box["terminated"]:
        raise Failure(TERMINATED)


def _shown(row: Row) -> dict[str, Any]:
    """An assignment as outcomes tell it."""
    return {
        "assignmentId": row["assignment_id"],
        "carId": row["car_id"],
        "userId": row["user_id"],
        "start": stamp(row["starts_at"]),
        "end": row["ends_at"] and stamp(row["ends_at"]),
        "lifetime": row["lifetime"],
        "renewableAfter": row["renewable_after"],
    }


def _asked_for(operation: Row) -> dict[str, Any]:
    """The outcome's values where no assignment was written: what the request said, None for what it did not."""
    names = ("start", "end", "lifetime", "renewableAfter")
    told: Mapping[str, Any] = {}
    if isinstance(operation["request"], dict):
        told = operation["request"]
    return {
        "assignmentId": operation["assignment_id"],
        "carId": operation["car_id"],
        "userId": operation["user_id"],
        **{name: told.get(name) for name in names},
    }


def _moment_or_none(text: str | None) -> datetime | None:
    return None if text is None else moment(text)
