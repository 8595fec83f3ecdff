"""In charge of asking for asynchronous work on assignments; `lanes` does it.

The operation is written in the request's own transaction, and so is the lane of its car: what was answered with 204 is
in the database, and what failed left nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
from datetime import UTC, datetime
from typing import LiteralString

import asyncpg
import structlog

from keyrack.database.connection import UNREACHABLE, Database, Statements

log = structlog.get_logger("keyrack.operations")

LIFETIME = 604_800  # seconds: the default, and the bound that an explicit one must exceed (spec, "Limits")
LIFETIME_BOUND = 2_419_200  # seconds: an explicit lifetime is less
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


def lifetimes(lifetime: int | None, renewable_after: int | None) -> tuple[int, int]:
    """Seconds of both, with the defaults for what is None (spec, "Assignment rules", 4)."""
    lifetime = LIFETIME if lifetime is None else lifetime
    return lifetime, lifetime // 2 if renewable_after is None else renewable_after


def stamp(time: datetime) -> str:
    """yyyy-MM-ddTHH:mm:ssZ."""
    return time.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


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
