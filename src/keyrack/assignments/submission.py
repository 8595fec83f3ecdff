"""In charge of asking for asynchronous work on assignments; a worker's `scheduler` does it.

An operation is one row, written in the request's own transaction: what was answered with 204 is in the database, and
what failed left nothing. Asking locks nothing that a worker holds. The order of a customer's work is that of `seq`: who
asks after somebody's 204 has a higher one, and whoever sees the later row sees the earlier one too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, LiteralString
from uuid import UUID, uuid4

from keyrack.api.request_origin import RequestOrigin
from keyrack.db.connection import Statements
from keyrack.db.named_parameters import NamedStatement, compile_statement

Kind = Literal["CreateAssignment", "UpdateAssignment", "DeleteAssignment"]
PIECE = 5_000  # ends that one statement asks for


@dataclass(frozen=True, slots=True)
class OperationRequest:
    """What somebody asks for: a creation names car and user, an end an assignment, a change both if it moves it."""

    kind: Kind
    assignment: int | None
    car: int | None
    user: int | None
    request: Mapping[str, Any]  # start, end, lifetime, renewableAfter of a creation; the members that a change names
    checksum: str
    asker: RequestOrigin
    is_limited: bool = False  # who asks is limited to groups: it is about the assignment's car and user of now alone
    operation: UUID = field(default_factory=uuid4)


@dataclass(frozen=True, slots=True)
class References:
    """Whether what is named is there; if all of it is, it has been asked for."""

    assignment: bool
    car: bool
    user: bool

    @property
    def whole(self) -> bool:
        return self.assignment and self.car and self.user


# Several at once; each of which everything is there is asked for. What does not name a car or a user is about those of
# its assignment, and the operation keeps those as they are
ASK = compile_statement("""
with wanted as (
  select w.*, a.car_id as its_car, a.user_id as its_user,
    w.assignment_id is null or a.car_id is not null as there,
    exists (select from car c where c.customer_id = :customer and c.car_id = coalesce(w.car_id, a.car_id)) as car,
    exists (select from customer_user u where u.customer_id = :customer and u.user_id = coalesce(w.user_id, a.user_id))
      as "user"
  from unnest(
    :operation_id::uuid[], :kind::text[], :assignment_id::integer[], :car_id::integer[], :user_id::integer[],
    :request::text[]::jsonb[], :checksum::text[], :asked_by::integer[], :asked_from::text[], :request_id::text[],
    :traceparent::text[], :is_limited::boolean[]) with ordinality
    w (operation_id, kind, assignment_id, car_id, user_id, request, checksum, asked_by, asked_from, request_id,
       traceparent, is_limited, place)
  left join lateral (
    select car_id, user_id from assignment where customer_id = :customer and assignment_id = w.assignment_id limit 1
  ) a on true
),
asked as (
  insert into operation
    (customer_id, operation_id, kind, car_id, user_id, assignment_id, request, checksum, asked_by, asked_from,
     request_id, traceparent, is_limited)
  select :customer, operation_id, kind, coalesce(its_car, car_id), coalesce(its_user, user_id), assignment_id, request,
    checksum, asked_by, asked_from, request_id, traceparent, is_limited
  from wanted where there and car and "user" order by place
)
select there, car, "user" from wanted order by place
""")
TAKE_BACK: LiteralString = "delete from operation where customer_id = $1 and operation_id = any($2::uuid[])"
# Each end keeps the assignment as it is: by the time it is applied, the row may be gone with its car or user
_ENDS: LiteralString = """
with asked as (
  insert into operation
    (customer_id, kind, cause, car_id, user_id, assignment_id, request, checksum, asked_by, asked_from, request_id,
     traceparent)
  select a.customer_id, 'DeleteAssignment', :cause, a.car_id, a.user_id, a.assignment_id,
         jsonb_build_object('start', to_char(a.starts_at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
                            'end', to_char(a.ends_at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), 'lifetime', a.lifetime,
                            'renewableAfter', coalesce(a.renewable_after, a.lifetime / 2)),
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
    """Ask for these, in this order; for each, whether what it names is there."""
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
    )
    rows = await statements.fetch(ASK.sql, *arguments)
    return [References(row["there"], row["car"], row["user"]) for row in rows]


async def cancel(statements: Statements, customer: int, operations: Sequence[UUID]) -> None:
    """Let it not have been asked for, in the transaction in which it was."""
    await statements.execute(TAKE_BACK, customer, operations)


async def submit_end_for_car(
    statements: Statements, customer: int, car: int, cause: str, checksum: str, asker: RequestOrigin
) -> None:
    """Ask for the end of every assignment of a car, in the caller's transaction, which holds the customer."""
    await _end_all(statements, ENDS_OF_CAR, customer, car, cause, checksum, asker)


async def end_all_of_user(
    statements: Statements, customer: int, user: int, checksum: str, asker: RequestOrigin
) -> None:
    """Ask for the end of every assignment of a user within the customer, in the same way."""
    await _end_all(statements, ENDS_OF_USER, customer, user, "UserRemoved", checksum, asker)


async def _end_all(
    statements: Statements,
    ends: NamedStatement,
    customer: int,
    of: int,
    cause: str,
    checksum: str,
    asker: RequestOrigin,
) -> None:
    last, count = 0, PIECE
    while count == PIECE:
        arguments = ends.arguments(
            customer=customer, id=of, last=last, cause=cause, checksum=checksum, most=PIECE, **asker._asdict()
        )
        row = await statements.fetchrow(ends.sql, *arguments)
        assert row is not None  # noqa: S101 - one row by its form
        last, count = row["last"], row["count"]
