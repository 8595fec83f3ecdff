"""Application of operations: read the state, decide each in order, write all results.

The caller holds the lock of each customer (see `customer_lock`). No other transaction then changes the customer's
assignments or the rows that the rules read, so a transaction of many operations needs only a handful of statements.

Result, outcome, deliveries and the customer's applied numbers are written together. A crash leaves all of them or none.
"""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, LiteralString, TypeVar
from uuid import UUID

from keyrack.assignments.bookings import LISTED, NEVER, Booking, BookingPolicy, CarBookings, booking, of_assignment
from keyrack.assignments.failure_codes import GIVEN_UP, text_of
from keyrack.assignments.rules import (
    Assignment,
    Decision,
    Key,
    Operation,
    OperationState,
    creation,
    decide_all,
    fail_permanently,
)
from keyrack.core.metrics.catalog import OPERATION_SECONDS, OPERATIONS, OPERATIONS_OF
from keyrack.core.tracing.spans import TRACES
from keyrack.db.connection import Connection, Row
from keyrack.db.named_parameters import compile_statement
from keyrack.webhooks import outbox

Id = TypeVar("Id")
BATCH = 10_000  # operations of one batch, at most: far more than `KEYRACK_BATCH_ITEMS` allows
_COLUMNS: LiteralString = (
    "customer_id, operation_id, kind, cause, car_id, user_id, assignment_id, request, attempts, traceparent,"
    " is_limited, batch_id, seq,"
    " extract(epoch from clock_timestamp() - requested_at)::float8 as waited"
)
# The first pending operations, in the order in which they are applied. Ends that another change caused are part of that
# change, so they precede requests that were accepted meanwhile
PENDING: LiteralString = (
    "select "
    + _COLUMNS
    + " from operation where customer_id = $1 and state = 'Pending' order by cause = 'Request', seq limit $2"
)
NAMED: LiteralString = (
    "select "
    + _COLUMNS
    + " from operation where customer_id = $1 and operation_id = any($2::uuid[]) and state = 'Pending' order by seq"
)
FAILURES: LiteralString = """
select operation_id, error_code from operation where customer_id = $1 and operation_id = any($2::uuid[])
"""
# The same for several customers. Skips customers that another transaction has locked or that are not due; see the
# function
CLAIM: LiteralString = "select " + _COLUMNS + " from claim_operations($1, $2)"
# The pending operations of a batch that come after one of them
REST: LiteralString = (
    "select " + _COLUMNS + " from operation where customer_id = $1 and state = 'Pending' and seq > $2 and batch_id = $3"
    " order by seq limit $4"
)
ASSIGNMENTS: LiteralString = """
select customer_id, assignment_id, car_id, user_id, lifetime, renewable_after, is_exclusive, booking_gap,
  external_id, metadata,
  to_char(starts_at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as start, to_char(ends_at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as end
from unnest($1::integer[], $2::integer[]) k (customer_id, assignment_id)
join assignment using (customer_id, assignment_id)
"""
# Cars with the state of their key box and their policy of bookings, and users
GROUND: LiteralString = """
select c.customer_id, c.car_id, null as user_id,
  coalesce(c.bookings, o.bookings) = 'exclusive' as is_exclusive, coalesce(c.booking_gap, o.booking_gap) as booking_gap,
  case when p.product_id is null then 'none' when s.service_id is null then 'unserved'
       when s.is_terminated then 'terminated' else 'ready' end as box
from unnest($1::integer[], $2::integer[]) k (customer_id, car_id)
join car c on c.customer_id = k.customer_id and c.car_id = k.car_id
join customer o on o.customer_id = c.customer_id
left join product p on p.customer_id = c.customer_id and p.car_id = c.car_id and p.kind = 'Box'
left join service s on s.customer_id = p.customer_id and s.product_id = p.product_id
union all
select customer_id, null, user_id, null, null, null
from unnest($3::integer[], $4::integer[]) k (customer_id, user_id) join customer_user using (customer_id, user_id)
"""
EXTERNAL_IDS: LiteralString = """
select a.customer_id, a.external_id from unnest($1::integer[], $2::text[]) k (customer_id, external_id)
join assignment a on a.customer_id = k.customer_id and a.external_id = k.external_id where a.external_id is not null
"""
# The bookings of cars that overlap periods, but for those of the given assignments. Bookings of a car do not overlap,
# so only the last one that starts earlier can reach into a period
BOOKED: LiteralString = """
select distinct w.customer_id, b.car_id, b.assignment_id,
  to_char(b.starts_at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as start, to_char(a.ends_at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as end,
  a.booking_gap
from unnest($1::integer[], $2::integer[], $3::text[], $4::text[]) w (customer_id, car_id, start, until)
cross join lateral (
  (select * from booking e where e.customer_id = w.customer_id and e.car_id = w.car_id
     and e.starts_at < w.start::timestamptz
     and (e.customer_id, e.assignment_id) not in (select * from unnest($5::integer[], $6::integer[]))
   order by e.starts_at desc limit 1)
  union all
  (select * from booking l where l.customer_id = w.customer_id and l.car_id = w.car_id
     and l.starts_at >= w.start::timestamptz and l.starts_at < coalesce(w.until::timestamptz, 'infinity')
     and (l.customer_id, l.assignment_id) not in (select * from unnest($5::integer[], $6::integer[]))
   order by l.starts_at limit $7)
) b
join assignment a on a.customer_id = b.customer_id and a.assignment_id = b.assignment_id
where b.blocked_until > w.start::timestamptz
"""
# A violation then belongs to the operations that cause it, and not to the commit
CHECK_BOOKINGS: tuple[LiteralString, ...] = ("set constraints all immediate", "set constraints all deferred")
MOST_STATES = 64  # possible states of an assignment that several operations of one transaction change
# The change log attributes each change of an assignment to its operation. These statements set `keyrack.operations` for
# that: the triggers read it at the end of the statement
CREATE = compile_statement("""
with wanted as (
  select u.*, nextval(pg_get_serial_sequence('assignment', 'assignment_id')) as assignment_id
  from unnest(
    :customer_id::integer[], :car_id::integer[], :user_id::integer[], :start::text[], :end::text[],
    :lifetime::integer[], :renewable_after::integer[], :is_exclusive::boolean[], :booking_gap::integer[],
    :external_id::text[], :metadata::text[], :operation_id::uuid[]) with ordinality
    u (customer_id, car_id, user_id, start, "end", lifetime, renewable_after, is_exclusive, booking_gap, external_id,
       metadata, operation_id, place)
),
made as (
  insert into assignment (
    customer_id, assignment_id, car_id, user_id, starts_at, ends_at, lifetime, renewable_after, is_exclusive,
    booking_gap, external_id, metadata)
  select customer_id, assignment_id, car_id, user_id, start::timestamptz, "end"::timestamptz, lifetime, renewable_after,
    is_exclusive, booking_gap, external_id, metadata::jsonb
  from wanted order by place
)
select assignment_id, (select set_config('keyrack.operations',
  jsonb_object_agg(customer_id || '/' || assignment_id, operation_id)::text, true) from wanted)
from wanted order by place
""")
UPDATE = compile_statement("""
update assignment a set car_id = u.car_id, user_id = u.user_id, starts_at = u.start::timestamptz,
  ends_at = u."end"::timestamptz, lifetime = u.lifetime, renewable_after = u.renewable_after,
  is_exclusive = u.is_exclusive, booking_gap = u.booking_gap, external_id = u.external_id, metadata = u.metadata::jsonb
from unnest(
  :customer_id::integer[], :car_id::integer[], :user_id::integer[], :start::text[], :end::text[], :lifetime::integer[],
  :renewable_after::integer[], :is_exclusive::boolean[], :booking_gap::integer[], :external_id::text[],
  :metadata::text[], :assignment_id::integer[])
  u (customer_id, car_id, user_id, start, "end", lifetime, renewable_after, is_exclusive, booking_gap, external_id,
     metadata, assignment_id)
where a.customer_id = u.customer_id and a.assignment_id = u.assignment_id
returning (select set_config('keyrack.operations', :operations, true))
""")
# Before an update that gives one assignment the `externalId` of another: its index is checked row by row
RELEASE: LiteralString = """
update assignment a set external_id = null from unnest($1::integer[], $2::integer[]) u (customer_id, assignment_id)
where a.customer_id = u.customer_id and a.assignment_id = u.assignment_id
returning (select set_config('keyrack.operations', $3, true))
"""
DELETE: LiteralString = """
delete from assignment a using unnest($1::integer[], $2::integer[]) u (customer_id, assignment_id)
where a.customer_id = u.customer_id and a.assignment_id = u.assignment_id
returning (select set_config('keyrack.operations', $3, true))
"""


@dataclass(frozen=True, slots=True)
class AppliedBatch:
    """The result of one transaction."""

    operations: int = 0
    deliveries: int = 0
    customers: frozenset[int] = frozenset()
    failed: frozenset[UUID] = frozenset()  # their operation ids
    started_at: int = 0  # nanoseconds since 1970

    def __add__(self, other: AppliedBatch) -> AppliedBatch:
        customers, failed = self.customers | other.customers, self.failed | other.failed
        return AppliedBatch(self.operations + other.operations, self.deliveries + other.deliveries, customers, failed)


async def pending(connection: Connection, customer: int, most: int) -> list[Row]:
    """The first `most` pending operations of a locked customer, in the order of application.

    There are more if the last ones belong to a batch.
    """
    return await _with_rest(connection, await connection.fetch(PENDING, customer, most), most)


async def named(connection: Connection, customer: int, operations: Sequence[UUID]) -> list[Row]:
    """The pending operations among these, by `seq`. The caller has locked the customer."""
    return await connection.fetch(NAMED, customer, operations)


async def failures(connection: Connection, customer: int, operations: Sequence[UUID]) -> dict[UUID, str | None]:
    """The error text of each operation; None for one without an error."""
    rows = await connection.fetch(FAILURES, customer, operations)
    return {row["operation_id"]: text_of(row["error_code"]) for row in rows}


async def claim(connection: Connection, customers: Sequence[int], each: int) -> list[Row]:
    """Lock the customers that are due and not locked by others; return the first `each` operations of each.

    There are more if the last ones belong to a batch.
    """
    return await _with_rest(connection, await connection.fetch(CLAIM, customers, each), each)


async def _with_rest(connection: Connection, rows: list[Row], most: int) -> list[Row]:
    """The operations, with each batch at the place of its first one.

    A batch may swap bookings, so its operations are decided together. Operations between two of a batch belong to
    requests at the same time, so either order is correct.
    """
    counts = Counter(row["customer_id"] for row in rows)
    for customer, row in {row["customer_id"]: row for row in rows}.items():
        if counts[customer] >= most and row["batch_id"] is not None:
            rows = rows + await connection.fetch(REST, customer, row["seq"], row["batch_id"], BATCH)
    if all(row["batch_id"] is None for row in rows):
        return rows
    places: dict[UUID, int] = {}
    for place, row in enumerate(rows):
        places.setdefault(row["batch_id"] or row["operation_id"], place)
    return sorted(rows, key=lambda row: places[row["batch_id"] or row["operation_id"]])


async def apply(connection: Connection, rows: Sequence[Row]) -> AppliedBatch:
    """Apply these pending operations, in this order. The caller has locked their customers."""
    begun = time.time_ns()
    if TRACES.on:
        TRACES.at(rows)
    operations = [_operation(row) for row in rows]
    ground = await _ground(connection, operations)
    decisions, ground = decide_all(operations, ground)
    ids = await _write(connection, ground, _last(rows, operations, decisions))
    if ground.has_booked:
        for statement in CHECK_BOOKINGS:
            await connection.execute(statement)
    shown = [
        decision.assignment
        if decision.created is None
        else decision.assignment | {"assignmentId": ids[decision.created]}
        for decision in decisions
    ]
    return await _finish(connection, rows, decisions, shown, [_listed(one, ids) for one in decisions], begun)


async def give_up(connection: Connection, row: Row) -> AppliedBatch:
    """Mark an operation as failed permanently, without applying it."""
    shown = fail_permanently(_operation(row))
    return await _finish(connection, [row], [Decision(shown, GIVEN_UP)], [shown], [None], time.time_ns())


def _operation(row: Row) -> Operation:
    return Operation(
        row["customer_id"], row["kind"], row["cause"], row["car_id"], row["user_id"], row["assignment_id"],
        row["request"], row["is_limited"], row["batch_id"],
    )  # fmt: skip


async def present(connection: Connection, keys: Iterable[Key]) -> dict[Key, Assignment]:
    """The assignments among these that exist."""
    return {
        (row["customer_id"], row["assignment_id"]): Assignment(
            row["assignment_id"], row["car_id"], row["user_id"], row["start"], row["end"], row["lifetime"],
            row["renewable_after"], is_exclusive=row["is_exclusive"], gap=row["booking_gap"],
            external_id=row["external_id"], metadata=row["metadata"],
        )
        for row in await connection.fetch(ASSIGNMENTS, *_columns(keys))
    }  # fmt: skip


async def _ground(connection: Connection, operations: Sequence[Operation]) -> OperationState:
    ground = OperationState()
    wanted = {(o.customer, o.assignment) for o in operations if o.assignment is not None}
    if wanted:
        ground.assignments = await present(connection, wanted)
    changes = [operation for operation in operations if operation.kind != "DeleteAssignment"]
    external_ids = {(o.customer, id) for o in changes if (id := o.request.get("externalId")) is not None}
    if external_ids:
        rows = await connection.fetch(EXTERNAL_IDS, *_columns(external_ids))
        ground.external_ids = {(row["customer_id"], row["external_id"]) for row in rows}
    cars: set[Key] = set()
    users: set[Key] = set()
    for operation in operations:
        customer, request = operation.customer, operation.request
        if operation.kind == "CreateAssignment":
            cars.add((customer, operation.car))
            users.add((customer, operation.user or 0))
        elif operation.kind == "UpdateAssignment" and (customer, operation.assignment or 0) in ground.assignments:
            before = ground.assignments[customer, operation.assignment or 0]
            cars |= {(customer, before.car), (customer, request.get("carId", before.car))}
            users |= {(customer, before.user), (customer, request.get("userId", before.user))}
    if cars:
        for row in await connection.fetch(GROUND, *_columns(cars), *_columns(users)):
            if row["car_id"] is None:
                ground.members.add((row["customer_id"], row["user_id"]))
            else:
                key = row["customer_id"], row["car_id"]
                ground.boxes[key] = row["box"]
                ground.policies[key] = BookingPolicy(row["is_exclusive"], row["booking_gap"])
    await _read_bookings(connection, operations, ground)
    return ground


async def _read_bookings(connection: Connection, operations: Sequence[Operation], ground: OperationState) -> None:
    """Read the bookings that the operations may conflict with."""
    wanted = possible_bookings(operations, ground)
    if not wanted:
        return
    own = {
        (customer, id): assignment
        for (customer, id), assignment in ground.assignments.items()
        if assignment.is_exclusive
    }
    rows = await connection.fetch(
        BOOKED,
        [customer for customer, _, _ in wanted],
        [car for _, car, _ in wanted],
        [one.start for _, _, one in wanted],
        [None if one.until == NEVER else one.until for _, _, one in wanted],
        *_columns(own),
        LISTED,
    )
    bookings: defaultdict[Key, list[Booking]] = defaultdict(list)
    for row in rows:
        booked = booking(of_assignment(row["assignment_id"]), row["start"], row["end"], row["booking_gap"])
        bookings[row["customer_id"], row["car_id"]].append(booked)
    for (customer, id), assignment in own.items():
        if (booked := assignment.booking(of_assignment(id))) is not None:
            bookings[customer, assignment.car].append(booked)
    ground.bookings = {key: CarBookings(booked) for key, booked in bookings.items()}


def _blocked(assignment: Assignment) -> object:
    """The values that decide which time of a car is blocked."""
    return assignment.car, assignment.start, assignment.end, assignment.is_exclusive, assignment.gap


def possible_bookings(operations: Sequence[Operation], ground: OperationState) -> set[tuple[int, int, Booking]]:
    """The bookings that the operations may make, with customer and car.

    Any of the operations may fail.

    Raises `RuntimeError` if operations change one assignment too often; one by one, they can be applied.
    """
    states: dict[Key, dict[object, Assignment]] = {}
    made: list[tuple[int, Assignment]] = []
    for operation in operations:
        if operation.kind == "CreateAssignment":
            made.append((operation.customer, creation(operation, ground)))
        elif operation.kind == "UpdateAssignment" and (before := ground.assignments.get(operation.key)) is not None:
            known = states.setdefault(operation.key, {_blocked(before): before})
            after = [ground.resulting(operation.customer, state, operation.request) for state in known.values()]
            known |= {_blocked(state): state for state in after}
            if len(known) > MOST_STATES:
                raise RuntimeError("too many changes of one assignment in one transaction")
    changed = [(customer, state) for (customer, _), known in states.items() for state in known.values()]
    bookings = ((customer, one.car, one.booking(of_assignment(one.id or 0))) for customer, one in made + changed)
    return {(customer, car, one) for customer, car, one in bookings if one is not None and not one.is_empty}


@dataclass(slots=True)
class LastOperations:
    """The last operation on each changed or ended assignment, and the creating operations in order."""

    by_assignment: dict[Key, UUID] = field(default_factory=dict[Key, UUID])
    created: list[UUID] = field(default_factory=list[UUID])

    def as_json(self, keys: Iterable[Key]) -> str:
        """The operation of each assignment by `customer/assignment`, for `keyrack.operations`."""
        return json.dumps({f"{customer}/{id}": str(self.by_assignment[customer, id]) for customer, id in keys})


def _last(rows: Sequence[Row], operations: Sequence[Operation], decisions: Sequence[Decision]) -> LastOperations:
    last = LastOperations()
    for row, operation, decision in zip(rows, operations, decisions, strict=True):
        if decision.created is not None:
            last.created.append(row["operation_id"])
        elif decision.failure is None and operation.assignment is not None:
            last.by_assignment[operation.customer, operation.assignment] = row["operation_id"]
    return last


async def _write(connection: Connection, ground: OperationState, last: LastOperations) -> list[int]:
    """Write the changed assignments; return the ids of the created ones."""
    if ground.ended:
        ended = sorted(ground.ended)
        await connection.execute(DELETE, *_columns(ended), last.as_json(ended))
    if ground.changed:
        keys = sorted(ground.changed)
        if released := _released(ground, keys):
            await connection.execute(RELEASE, *_columns(released), last.as_json(released))
        changed = [(key[0], ground.assignments[key]) for key in keys]
        ids = [assignment.id for _, assignment in changed]
        arguments = UPDATE.arguments(**_values(changed), assignment_id=ids, operations=last.as_json(keys))
        await connection.execute(UPDATE.sql, *arguments)
    return await _create(connection, ground, last)


async def _create(connection: Connection, ground: OperationState, last: LastOperations) -> list[int]:
    if not ground.created:
        return []
    arguments = CREATE.arguments(**_values(ground.created), operation_id=last.created)
    rows = await connection.fetch(CREATE.sql, *arguments)
    return [row["assignment_id"] for row in rows]


def _released(ground: OperationState, keys: Sequence[Key]) -> list[Key]:
    """The changed assignments whose former `externalId` another changed assignment gets."""
    holders = {(customer, ground.assignments[customer, id].external_id): (customer, id) for customer, id in keys}
    return [
        key
        for key in keys
        if (former := ground.former_external_ids.get(key)) is not None and holders.get((key[0], former), key) != key
    ]


def _listed(decision: Decision, ids: Sequence[int]) -> str | None:
    """The JSON of the bookings that an operation conflicts with, or None. `ids` are those of created assignments."""
    if not decision.conflicts:
        return None
    entries: list[dict[str, Any]] = []
    for one in decision.conflicts[:LISTED]:
        kind, number = one.reference
        id = ids[number] if kind == "created" else number
        entries.append({"assignmentId": id, "start": one.start, "end": one.end})
    return json.dumps(entries)


def _values(assignments: Sequence[tuple[int, Assignment]]) -> dict[str, list[Any]]:
    """The values that `CREATE` and `UPDATE` share, by the names of their parameters."""
    return {
        "customer_id": [customer for customer, _ in assignments],
        "car_id": [a.car for _, a in assignments],
        "user_id": [a.user for _, a in assignments],
        "start": [a.start for _, a in assignments],
        "end": [a.end for _, a in assignments],
        "lifetime": [a.lifetime for _, a in assignments],
        "renewable_after": [a.renewable_after for _, a in assignments],
        "external_id": [a.external_id for _, a in assignments],
        "metadata": [None if a.metadata is None else json.dumps(a.metadata) for _, a in assignments],
        "is_exclusive": [a.is_exclusive for _, a in assignments],
        "booking_gap": [a.gap for _, a in assignments],
    }


async def _finish(
    connection: Connection,
    rows: Sequence[Row],
    decisions: Sequence[Decision],
    shown: Sequence[Mapping[str, Any]],
    conflicts: Sequence[str | None],
    begun: int,
) -> AppliedBatch:
    deliveries = await connection.fetchval(
        outbox.FINISH,
        [row["customer_id"] for row in rows],
        [row["operation_id"] for row in rows],
        ["Succeeded" if decision.failure is None else "Failed" for decision in decisions],
        [decision.failure for decision in decisions],
        [text_of(decision.failure) for decision in decisions],
        [json.dumps(result) for result in shown],
        conflicts,
    )
    each = zip(rows, decisions, strict=True)
    failed = frozenset([row["operation_id"] for row, decision in each if decision.failure is not None])
    return AppliedBatch(len(rows), deliveries, frozenset([row["customer_id"] for row in rows]), failed, begun)


def count(rows: Sequence[Row], done: AppliedBatch) -> None:
    """Count applied operations and their waiting times. Call it after the commit, or just before it."""
    OPERATIONS.add("succeeded", by=done.operations - len(done.failed))
    OPERATIONS.add("failed", by=len(done.failed))
    if TRACES.on:
        TRACES.applied(rows, done.failed, done.started_at)
    for row in rows:
        OPERATION_SECONDS.observe(row["waited"])
        OPERATIONS_OF.count(row["customer_id"])


def _columns(keys: Iterable[tuple[int, Id]]) -> tuple[list[int], list[Id]]:
    listed = list(keys)
    return [customer for customer, _ in listed], [id for _, id in listed]
