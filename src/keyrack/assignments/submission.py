"""Submission of operations; a worker's `scheduler` applies them.

An operation is one row, written in the request's transaction. After a 204 it is in the database; a failed request
leaves nothing. Submission takes no lock that a worker holds.

A customer's operations are ordered by `seq`. A request sent after another one's 204 gets a higher `seq`. A reader that
sees the later row also sees the earlier one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, LiteralString
from uuid import UUID, uuid4

from keyrack.api.request_origin import RequestOrigin
from keyrack.assignments.booking_checks import LOOK, PENDING_REQUESTS
from keyrack.db.connection import Statements
from keyrack.db.named_parameters import NamedStatement, compile_statement

Kind = Literal["CreateAssignment", "UpdateAssignment", "DeleteAssignment"]
PIECE = 5_000  # ends that one statement submits, at most


@dataclass(frozen=True, slots=True)
class OperationRequest:
    """A requested operation.

    A creation names a car and a user, an end an assignment. A change names an assignment, and also a car or a user if
    it moves the assignment to another one.
    """

    kind: Kind
    assignment: int | None
    car: int | None
    user: int | None
    # of a creation: its members without the car and the user; of a change: the members that it names, and of metadata
    # the change (`text_maps.changes_of`)
    request: Mapping[str, Any]
    checksum: str
    asker: RequestOrigin
    # the caller is group-limited: valid only while the assignment has its current car and user
    is_limited: bool = False
    may_share: bool = True  # the caller may ask for a shared assignment where the customer enforces exclusive ones
    batch: UUID | None = None  # operations of one batch are decided together
    operation: UUID = field(default_factory=uuid4)
    external_id_pointer: str = "/externalId"  # its place in the request


@dataclass(frozen=True, slots=True)
class References:
    """Whether each referenced row exists, and what else rejects the request. Otherwise it was submitted."""

    assignment: bool
    car: bool
    user: bool
    holder: int | None = None  # the assignment that has the wanted `externalId`
    is_early: bool = False  # an exclusive booking while a process of an older release runs
    is_denied: bool = False  # a shared assignment where the customer enforces exclusive ones
    conflicts: Sequence[Mapping[str, Any]] = ()  # bookings that overlap an exclusive assignment

    @property
    def whole(self) -> bool:
        """Whether the operation was submitted."""
        is_free = self.holder is None and not (self.is_early or self.is_denied or self.conflicts)
        return self.assignment and self.car and self.user and is_free


# Several requests at once; those whose references all exist are submitted. A request that names no car or user refers
# to those of its assignment. An operation on an assignment stores its current car and user.
# The look at `externalId` only makes most refusals early: the rules decide when the operation is applied. A holder with
# a pending operation may release it until then
ASK = compile_statement(
    "with "
    + PENDING_REQUESTS
    + """,
wanted as (
  select w.*, a.car_id as its_car, a.user_id as its_user, a.starts_at as its_start, a.ends_at as its_end,
    a.is_exclusive as its_exclusive, a.booking_gap as its_gap,
    w.assignment_id is null or a.car_id is not null as there,
    exists (select from car c where c.customer_id = :customer and c.car_id = coalesce(w.car_id, a.car_id)) as car,
    exists (select from customer_user u where u.customer_id = :customer and u.user_id = coalesce(w.user_id, a.user_id))
      as "user",
    (select h.assignment_id from assignment h
     where h.customer_id = :customer and h.external_id = w.request->>'externalId'
       and h.assignment_id is distinct from w.assignment_id
       and not exists (select from operation o where o.customer_id = :customer and o.assignment_id = h.assignment_id
         and o.state = 'Pending')) as holder
  from unnest(
    :operation_id::uuid[], :kind::text[], :assignment_id::integer[], :car_id::integer[], :user_id::integer[],
    :request::text[]::jsonb[], :checksum::text[], :asked_by::integer[], :asked_from::text[], :request_id::text[],
    :traceparent::text[], :is_limited::boolean[], :may_share::boolean[], :batch_id::uuid[]) with ordinality
    w (operation_id, kind, assignment_id, car_id, user_id, request, checksum, asked_by, asked_from, request_id,
       traceparent, is_limited, may_share, batch_id, place)
  left join lateral (
    select car_id, user_id, starts_at, ends_at, is_exclusive, booking_gap from assignment
    where customer_id = :customer and assignment_id = w.assignment_id limit 1
  ) a on true
),
checked as (
  select w.*, coalesce(l.is_early, false) as is_early, coalesce(l.is_denied, false) as is_denied, l.conflicts
  from wanted w left join lateral ("""
    + LOOK
    + """) l on true
),
asked as (
  insert into operation
    (customer_id, operation_id, kind, car_id, user_id, assignment_id, request, checksum, asked_by, asked_from,
     request_id, traceparent, is_limited, batch_id)
  select :customer, operation_id, kind, coalesce(its_car, car_id), coalesce(its_user, user_id), assignment_id, request,
    checksum, asked_by, asked_from, request_id, traceparent, is_limited, batch_id
  from checked
  where there and car and "user" and holder is null and not is_early and not is_denied and conflicts is null
  order by place
)
select there, car, "user", holder, is_early, is_denied, conflicts from checked order by place
"""
)
TAKE_BACK: LiteralString = "delete from operation where customer_id = $1 and operation_id = any($2::uuid[])"
# Each end stores a copy of the assignment, whose row may be gone with its car or user before the end is applied
_ENDS: LiteralString = """
with asked as (
  insert into operation
    (customer_id, kind, cause, car_id, user_id, assignment_id, request, checksum, asked_by, asked_from, request_id,
     traceparent)
  select a.customer_id, 'DeleteAssignment', :cause, a.car_id, a.user_id, a.assignment_id,
         jsonb_build_object('start', to_char(a.starts_at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
                            'end', to_char(a.ends_at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), 'lifetime', a.lifetime,
                            'renewableAfter', coalesce(a.renewable_after, a.lifetime / 2),
                            'exclusive', a.is_exclusive,
                            'externalId', case when :has_references::boolean then a.external_id end,
                            'metadata', case when :has_references::boolean then a.metadata end),
         :checksum, :caller, :address, :request, :traceparent
  from assignment a where a.customer_id = :customer and a.{column} = :id and a.assignment_id > :last
  order by a.assignment_id limit :most
  returning assignment_id
)
select max(assignment_id) as last, count(*) as count from asked
"""
ENDS_OF_CAR = compile_statement(_ENDS.replace("{column}", "car_id"))
ENDS_OF_USER = compile_statement(_ENDS.replace("{column}", "user_id"))


async def submit(statements: Statements, customer: int, requests: Sequence[OperationRequest]) -> list[References]:
    """Submit these operations, in this order; return for each what rejects it."""
    arguments = ASK.arguments(
        customer=customer,
        operation_id=[w.operation for w in requests],
        kind=[w.kind for w in requests],
        assignment_id=[w.assignment for w in requests],
        car_id=[w.car for w in requests],
        user_id=[w.user for w in requests],
        request=[json.dumps(w.request) for w in requests],
        checksum=[w.checksum for w in requests],
        asked_by=[w.asker.caller for w in requests],
        asked_from=[w.asker.address for w in requests],
        request_id=[w.asker.request for w in requests],
        traceparent=[w.asker.traceparent for w in requests],
        is_limited=[w.is_limited for w in requests],
        may_share=[w.may_share for w in requests],
        batch_id=[w.batch for w in requests],
    )
    rows = await statements.fetch(ASK.sql, *arguments)
    return [
        References(
            row["there"],
            row["car"],
            row["user"],
            row["holder"],
            row["is_early"],
            row["is_denied"],
            tuple(row["conflicts"] or ()),
        )
        for row in rows
    ]


async def cancel(statements: Statements, customer: int, operations: Sequence[UUID]) -> None:
    """Delete operations in the transaction that submitted them."""
    await statements.execute(TAKE_BACK, customer, operations)


async def submit_end_for_car(
    statements: Statements, customer: int, car: int, cause: str, checksum: str, asker: RequestOrigin
) -> None:
    """Submit the end of every assignment of a car. The caller's transaction has locked the customer."""
    await _end_all(statements, ENDS_OF_CAR, customer, car, cause, checksum, asker, has_references=True)


async def end_all_of_user(
    statements: Statements,
    customer: int,
    user: int,
    checksum: str,
    asker: RequestOrigin,
    *,
    has_references: bool = True,
) -> None:
    """Submit the end of every assignment of a user. The caller's transaction has locked the customer.

    Without `has_references`, the outcomes have no `externalId` and no `metadata`: the user is erased.
    """
    await _end_all(
        statements, ENDS_OF_USER, customer, user, "UserRemoved", checksum, asker, has_references=has_references
    )


async def _end_all(
    statements: Statements,
    ends: NamedStatement,
    customer: int,
    of: int,
    cause: str,
    checksum: str,
    asker: RequestOrigin,
    *,
    has_references: bool,
) -> None:
    last, count = 0, PIECE
    while count == PIECE:
        arguments = ends.arguments(
            customer=customer,
            id=of,
            last=last,
            cause=cause,
            checksum=checksum,
            most=PIECE,
            has_references=has_references,
            **asker._asdict(),
        )
        row = await statements.fetchrow(ends.sql, *arguments)
        assert row is not None  # noqa: S101 - an aggregate returns one row
        last, count = row["last"], row["count"]
