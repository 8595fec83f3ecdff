"""Drivers' requests about assignments, and their decision.

An early end is granted at once. An extension is granted by the customer's rule, or waits for a decision. A grant
submits an ordinary operation, whose later failure rejects the request by a trigger.

No statement here locks an assignment, so a request never waits for a worker. The operation checks the assignment again.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal, LiteralString, NamedTuple
from uuid import UUID

from keyrack.api.request_origin import RequestOrigin
from keyrack.api.schema.request_body import format_timestamp
from keyrack.assignments.booking_checks import CAR_BOOKED
from keyrack.assignments.submission import OperationRequest, submit
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import Conflict, NotFound
from keyrack.core.settings import Settings
from keyrack.db.connection import Connection, Database, Row
from keyrack.db.named_parameters import compile_statement
from keyrack.db.row_batches import run_in_batches

Kind = Literal["extend", "end"]
DecidedBy = Literal["manager", "client", "rule", "driver"]
LONGEST_COMMENT = 250
LONGEST_EXTENSION = timedelta(days=31)
RETENTION_DAYS = 90  # of a request, after its creation
MOST_READ = 100

NO_ASSIGNMENT = ErrorCode(
    "assignment-of-driver-not-found",
    "Unable to find an assignment for the given assignmentId which is the driver's and has not ended.",
    "Use an `assignmentId` that `GET /drive/api/cars` returns.",
)
NO_END = ErrorCode(
    "assignment-without-end",
    "The assignment has no end, so it cannot be extended.",
    "Keep the car; the assignment lasts until it is ended.",
)
END_NOT_LATER = ErrorCode(
    "extension-out-of-range",
    "`end` of an extension must be later than the assignment's end, by 31 days at most.",
    "Send an `end` within these limits.",
)
NO_REQUEST = ErrorCode(
    "assignment-request-not-found",
    "Unable to find a request for the given requestId which is assigned to the given customerId.",
    "Use an id that `GET /assignment-requests` returns.",
)
DECIDED = ErrorCode(
    "assignment-request-decided",
    "The request is no longer open.",
    "Read the request again; its `state` says what became of it.",
)

ASSIGNMENT: LiteralString = """
select car_id, ends_at from assignment
where customer_id = $1 and assignment_id = $2 and user_id = $3 and (ends_at is null or ends_at > now())
"""
# Another assignment of the car in the additional time; another one of the same user is no obstacle
IS_FREE: LiteralString = """
select not exists (
  select from assignment o where o.customer_id = $1 and o.car_id = $2 and o.assignment_id <> $3
    and o.starts_at < $5 and coalesce(o.ends_at, 'infinity') > $4 and o.user_id is distinct from $6)
"""
# The rule counts from the end before its first extension of the assignment
RULE: LiteralString = """
select c.driver_extension_hours as hours, (
  select min(r.end_before) from assignment_request r
  where r.customer_id = $1 and r.assignment_id = $2 and r.decided_by = 'rule' and r.state = 'granted') as first_end
from customer c where c.customer_id = $1
"""
# A request that is granted at once replaces the open one, too
WITHDRAW_OPEN: LiteralString = """
update assignment_request set state = 'withdrawn', decided_by = 'driver', decided_at = now()
where customer_id = $1 and assignment_id = $2 and state = 'open'
"""
PUT = compile_statement("""
insert into assignment_request (
  customer_id, user_id, assignment_id, car_id, kind, end_before, wanted_end, comment, state, operation_id, decided_by,
  decided_at)
values (
  :customer, :user, :assignment, :car, :kind, :end_before, :wanted_end, :comment, :state::text, :operation, :decided_by,
  case when :state::text <> 'open' then now() end)
on conflict (customer_id, assignment_id) where state = 'open' do update set
  kind = excluded.kind, end_before = excluded.end_before, wanted_end = excluded.wanted_end,
  comment = excluded.comment, state = excluded.state, operation_id = excluded.operation_id,
  decided_by = excluded.decided_by, decided_at = excluded.decided_at
returning request_id
""")
LOCK: LiteralString = """
select kind, user_id, assignment_id, car_id, wanted_end, state, operation_id from assignment_request
where customer_id = $1 and request_id = $2 for no key update
"""
DECIDE: LiteralString = """
update assignment_request set state = $3, decided_by = $4, decision_comment = $5, operation_id = $6, decided_at = now()
where customer_id = $1 and request_id = $2
"""
FORGET: LiteralString = """
with gone as (delete from assignment_request where (customer_id, request_id) in (
  select customer_id, request_id from assignment_request where created_at < now() - make_interval(days => $1) limit $2)
  returning true)
select count(*) from gone
"""
# An open request expires with its assignment, when this gets another car or user, and when it lasts long enough
STATE: LiteralString = (
    "case when {t}.state = 'open' and not exists ("
    "select from assignment {t}_a where {t}_a.customer_id = {t}.customer_id"
    " and {t}_a.assignment_id = {t}.assignment_id and {t}_a.user_id = {t}.user_id and {t}_a.car_id = {t}.car_id"
    " and {t}_a.ends_at > now() and {t}.wanted_end > {t}_a.ends_at) then 'expired' else {t}.state end"
)


class Wish(NamedTuple):
    """The content of a driver's request."""

    assignment: int
    kind: Kind
    end: datetime | None
    comment: str | None


async def put(
    connection: Connection, customer: int, user: int, wish: Wish, checksum: str, asker: RequestOrigin
) -> tuple[int, bool]:
    """Store a request, which replaces the open one of the assignment.

    Returns its id, and whether an operation was submitted. Runs in the caller's transaction. Raises `NotFound`,
    `Conflict`.
    """
    row = await connection.fetchrow(ASSIGNMENT, customer, wish.assignment, user)
    if row is None:
        raise NotFound(NO_ASSIGNMENT)
    decided_by = await _decided_by(connection, customer, user, wish, row)
    operation = None
    if decided_by is not None:
        await connection.execute(WITHDRAW_OPEN, customer, wish.assignment)
        try:
            operation = await _submit(
                connection, customer, wish.kind, wish.assignment, wish.end, checksum, asker, is_limited=False
            )
        except Conflict:  # the gap of an exclusive booking counts too; a manager may move the next one
            decided_by = None
    arguments = PUT.arguments(
        customer=customer, user=user, assignment=wish.assignment, car=row["car_id"], kind=wish.kind,
        end_before=row["ends_at"], wanted_end=wish.end, comment=wish.comment,
        state="open" if decided_by is None else "granted", operation=operation and operation.operation,
        decided_by=decided_by,
    )  # fmt: skip
    id = await connection.fetchval(PUT.sql, *arguments)
    return id, operation is not None


async def _decided_by(
    connection: Connection, customer: int, user: int, wish: Wish, assignment: Row
) -> Literal["rule", "driver"] | None:
    """The authority that grants the request at once.

    None if the request waits for a decision. Raises `Conflict`.
    """
    if wish.kind == "end":
        return "driver"
    end = assignment["ends_at"]
    if end is None:
        raise Conflict(NO_END)
    if wish.end is None or not end < wish.end <= end + LONGEST_EXTENSION:
        raise Conflict(END_NOT_LATER)
    rule = await connection.fetchrow(RULE, customer, wish.assignment)
    assert rule is not None  # noqa: S101 - the customer of the session
    if wish.end - (rule["first_end"] or end) > timedelta(hours=rule["hours"]):
        return None
    is_free = await connection.fetchval(IS_FREE, customer, assignment["car_id"], wish.assignment, end, wish.end, user)
    return "rule" if is_free else None


async def decide(
    connection: Connection,
    customer: int,
    request: int,
    *,
    is_granted: bool,
    by: Literal["manager", "client"],
    comment: str | None,
    checksum: str,
    asker: RequestOrigin,
    is_limited: bool,
) -> UUID | None:
    """Decide about an open request. Returns the operation of a grant.

    The same decision again changes nothing. `is_limited` is that of the operation. Runs in the caller's transaction.
    Raises `NotFound`, and `Conflict` if the request is no longer open.
    """
    row = await connection.fetchrow(LOCK, customer, request)
    if row is None:
        raise NotFound(NO_REQUEST)
    wanted = "granted" if is_granted else "rejected"
    if row["state"] == wanted:
        return row["operation_id"]
    if row["state"] != "open":
        raise Conflict(DECIDED)
    operation = None
    if is_granted:
        current = await connection.fetchrow(ASSIGNMENT, customer, row["assignment_id"], row["user_id"])
        if current is None or not _is_current(row, current):
            raise Conflict(DECIDED)
        operation = await _submit(
            connection, customer, row["kind"], row["assignment_id"], row["wanted_end"], checksum, asker,
            is_limited=is_limited,
        )  # fmt: skip
    id = None if operation is None else operation.operation
    await connection.execute(DECIDE, customer, request, wanted, by, comment, id)
    return id


def _is_current(request: Row, assignment: Row) -> bool:
    """Whether an open request has not expired, as `STATE` says it."""
    end = assignment["ends_at"]
    return request["car_id"] == assignment["car_id"] and end is not None and end < request["wanted_end"]


async def withdraw(connection: Connection, customer: int, request: int, user: int) -> None:
    """Withdraw an open request of the driver. Raises `NotFound`, `Conflict`."""
    row = await connection.fetchrow(LOCK, customer, request)
    if row is None or row["user_id"] != user:
        raise NotFound(NO_REQUEST)
    if row["state"] == "withdrawn":
        return
    if row["state"] != "open":
        raise Conflict(DECIDED)
    await connection.execute(DECIDE, customer, request, "withdrawn", "driver", None, None)


async def forget(db: Database, settings: Settings) -> None:
    """Delete old requests. A step of housekeeping."""
    await run_in_batches(db, settings.housekeeping_rows, FORGET, RETENTION_DAYS)


async def _submit(
    connection: Connection,
    customer: int,
    kind: Kind,
    assignment: int,
    end: datetime | None,
    checksum: str,
    asker: RequestOrigin,
    *,
    is_limited: bool,
) -> OperationRequest:
    """Submit the operation of a granted request.

    Raises `NotFound` if the assignment has ended meanwhile, and `Conflict` if another booking has the time.
    """
    if kind == "end":
        operation = OperationRequest("DeleteAssignment", assignment, None, None, {}, checksum, asker, is_limited)
    else:
        values = {"end": None if end is None else format_timestamp(end)}
        operation = OperationRequest("UpdateAssignment", assignment, None, None, values, checksum, asker, is_limited)
    (references,) = await submit(connection, customer, [operation])
    if references.conflicts:
        raise Conflict(CAR_BOOKED)
    if not references.whole:
        raise NotFound(NO_ASSIGNMENT)
    return operation
