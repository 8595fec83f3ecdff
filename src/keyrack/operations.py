"""In charge of asynchronous work on assignments: ask for it, claim it, apply it in order per car, write its outcome.

Asking writes the operation in the request's own transaction. A worker holds the row of the car's lane while it applies
the lane's operations; result, outcome and deliveries are committed together, so a crash leaves all or none.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, LiteralString, Protocol

import asyncpg
import structlog

from keyrack import webhooks
from keyrack.bodies import moment
from keyrack.db import UNREACHABLE, Connection, Database, Row, Statements

log = structlog.get_logger("keyrack.operations")

LIFETIME = 604_800  # seconds: the default, and the bound that an explicit one must exceed (spec, "Limits")
LIFETIME_BOUND = 2_419_200  # seconds: an explicit lifetime is less
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

_LANE: LiteralString = """
, lane as (
  insert into operation_lane (customer_id, car_id) select distinct customer_id, car_id from asked order by car_id
  on conflict (customer_id, car_id) do update set due_at = operation_lane.due_at
)
"""
ASK_CREATE: LiteralString = (
    """
with c as (select car_id from car where customer_id = $1 and car_id = $2),
u as (select user_id from customer_user where customer_id = $1 and user_id = $3),
asked as (
  insert into operation (customer_id, kind, car_id, user_id, request, checksum)
  select $1, 'CreateAssignment', c.car_id, u.user_id, $4, $5 from c, u
  returning operation_id, customer_id, car_id
)"""
    + _LANE
    + "select (select operation_id from asked) as operation_id,"
    ' exists (select from c) as car, exists (select from u) as "user"'
)
ASK_UPDATE: LiteralString = (
    """
with a as (select car_id, user_id from assignment where customer_id = $1 and assignment_id = $2),
c as (select true from car where customer_id = $1 and car_id = coalesce($3, (select car_id from a))),
u as (select true from customer_user where customer_id = $1 and user_id = coalesce($4, (select user_id from a))),
asked as (
  insert into operation (customer_id, kind, car_id, user_id, assignment_id, request, checksum)
  select $1, 'UpdateAssignment', a.car_id, a.user_id, $2, $5, $6 from a, c, u
  returning operation_id, customer_id, car_id
)"""
    + _LANE
    + "select (select operation_id from asked) as operation_id, exists (select from a) as assignment,"
    ' exists (select from c) as car, exists (select from u) as "user"'
)
ASK_DELETE: LiteralString = (
    """
with asked as (
  insert into operation (customer_id, kind, car_id, user_id, assignment_id, request, checksum)
  select $1, 'DeleteAssignment', a.car_id, a.user_id, $2, '{}', $3
  from assignment a where a.customer_id = $1 and a.assignment_id = $2
  returning operation_id, customer_id, car_id
)"""
    + _LANE
    + "select operation_id from asked"
)
# A cascade keeps the assignment as it was: by the time the operation is applied the row may be gone with its car
_ASK_ENDS: LiteralString = """
with asked as (
  insert into operation (customer_id, kind, cause, car_id, user_id, assignment_id, request, checksum)
  select a.customer_id, 'DeleteAssignment', $3, a.car_id, a.user_id, a.assignment_id,
         jsonb_build_object('start', to_char(a.starts_at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
                            'end', to_char(a.ends_at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
                            'lifetime', a.lifetime, 'renewableAfter', a.renewable_after), $4
  from assignment a where a.customer_id = $1 and a.{column} = $2 order by a.assignment_id
  returning operation_id, customer_id, car_id
)"""
ASK_ENDS_OF_CAR: LiteralString = _ASK_ENDS.replace("{column}", "car_id") + _LANE + "select count(*) from asked"
ASK_ENDS_OF_USER: LiteralString = _ASK_ENDS.replace("{column}", "user_id") + _LANE + "select count(*) from asked"

# The lane's row is locked before anything else that belongs to the car, here as in the requests that lock the car
HOLD_LANE: LiteralString = """
insert into operation_lane (customer_id, car_id) values ($1, $2)
on conflict (customer_id, car_id) do update set due_at = operation_lane.due_at
"""
HOLD_LANES_OF_USER: LiteralString = """
insert into operation_lane (customer_id, car_id)
select distinct customer_id, car_id from assignment where customer_id = $1 and user_id = $2 order by car_id
on conflict (customer_id, car_id) do update set due_at = operation_lane.due_at
"""
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


class Announce(Protocol):
    """What tells the workers that there is work."""

    def __call__(self) -> None: ...


class Failure(Exception):
    """Why an operation came to nothing: the outcome's errorMessage."""


def checksum(body: bytes, method: str, path: str) -> str:
    """MD5 of the request's body, or of method, blank and path where there is none: a fingerprint, not a protection."""
    told = body or f"{method} {path}".encode()
    return hashlib.md5(told, usedforsecurity=False).hexdigest().upper()


async def end_assignments_of_car(statements: Statements, customer: int, car: int, cause: str, checksum: str) -> None:
    """Ask for the end of every assignment of a car, in the caller's transaction."""
    await statements.execute(ASK_ENDS_OF_CAR, customer, car, cause, checksum)


async def end_assignments_of_user(statements: Statements, customer: int, user: int, cause: str, checksum: str) -> None:
    """Ask for the end of every assignment of a user within the customer, in the caller's transaction."""
    await statements.execute(ASK_ENDS_OF_USER, customer, user, cause, checksum)


async def hold_lane(statements: Statements, customer: int, car: int) -> None:
    """Keep workers from the car until the caller's transaction ends. To be called before the car itself is locked."""
    await statements.execute(HOLD_LANE, customer, car)


async def hold_lanes_of_user(statements: Statements, customer: int, user: int) -> None:
    """The same for every car that the user has an assignment of."""
    await statements.execute(HOLD_LANES_OF_USER, customer, user)


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
            webhooks.FINISH, *(list(column) for column in zip(*outcomes, strict=True))
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


def lifetimes(lifetime: int | None, renewable_after: int | None) -> tuple[int, int]:
    """Seconds of both, with the defaults for what is None (spec, "Assignment rules", 4)."""
    lifetime = LIFETIME if lifetime is None else lifetime
    return lifetime, lifetime // 2 if renewable_after is None else renewable_after


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


def stamp(time: datetime) -> str:
    """yyyy-MM-ddTHH:mm:ssZ."""
    return time.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _moment_or_none(text: str | None) -> datetime | None:
    return None if text is None else moment(text)


class Announcer:
    """Tells the workers that there is work, after the commit and never in it: a notice in a transaction makes commits
    queue up behind one another. Many announcements become one; a lost one costs a worker's poll, never the work."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._asked = asyncio.Event()

    def __call__(self) -> None:
        self._asked.set()

    async def run(self) -> None:
        """Announce until cancelled."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            try:
                await self._db.execute("notify keyrack_work")
            except (*UNREACHABLE, asyncpg.PostgresError):
                log.warning("workers not told; they will find the work themselves")
