"""Requests of drivers: to extend an assignment, or to end it early.

A request survives its assignment, so that the driver still reads what became of it. An assignment has one open request.
The change log has no comments, because people write anything in them. A failed operation rejects its request, which
keeps the error code, because operations may be deleted earlier.
"""

from alembic import op

from keyrack.db.migrations import module
from keyrack.db.migrations.frozen.audit_triggers_v1 import AuditedTable

revision = "0071"
down_revision = "0070"

TABLE = """
create table assignment_request (
  customer_id integer not null,
  request_id integer generated always as identity,
  user_id integer not null,
  assignment_id integer not null,
  car_id integer not null,
  kind text not null constraint assignment_request_kind_check check (kind in ('extend', 'end')),
  end_before timestamptz,
  wanted_end timestamptz,
  comment text constraint assignment_request_comment_check check (length(comment) <= 250),
  state text not null default 'open' constraint assignment_request_state_check check (
    state in ('open', 'granted', 'rejected', 'withdrawn')),
  operation_id uuid,
  decided_by text constraint assignment_request_decided_by_check check (
    decided_by in ('manager', 'client', 'rule', 'driver')),
  error_code text,
  decision_comment text constraint assignment_request_decision_comment_check check (length(decision_comment) <= 250),
  created_at timestamptz not null default now(),
  decided_at timestamptz,
  constraint assignment_request_pkey primary key (customer_id, request_id),
  constraint assignment_request_of_user foreign key (customer_id, user_id) references customer_user on delete cascade
)
"""
INDEXES = (
    "create unique index assignment_request_open on assignment_request (customer_id, assignment_id)"
    " where state = 'open'",
    "create index assignment_request_of_assignment on assignment_request (customer_id, assignment_id)",
    "create index assignment_request_user on assignment_request (user_id, request_id)",
    "create index assignment_request_created_at on assignment_request (created_at)",
    "create index assignment_request_operation on assignment_request (customer_id, operation_id)"
    " where operation_id is not null",
)
REJECT = """
create function reject_assignment_request() returns trigger language plpgsql as $$
begin
  update assignment_request set state = 'rejected', error_code = new.error_code, decided_at = now()
  where customer_id = new.customer_id and operation_id = new.operation_id and state = 'granted';
  return null;
end $$
"""
REJECT_TRIGGER = """
create trigger reject_assignment_request after update of state on operation for each row
when (new.state = 'Failed' and old.state <> 'Failed') execute function reject_assignment_request()
"""


def _time(column: str) -> str:
    return f"to_char({{r}}.{column} at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')"


RECORDED = AuditedTable(
    "assignment_request", "assignmentRequest", "{r}.request_id::text", ("customer_id", "request_id"),
    {
        "userId": "{r}.user_id", "assignmentId": "{r}.assignment_id", "carId": "{r}.car_id", "kind": "{r}.kind",
        "end": _time("wanted_end"), "state": "{r}.state", "decidedBy": "{r}.decided_by",
    },
    groups="array(select group_id from group_car where customer_id = {r}.customer_id and car_id = {r}.car_id"
    " union select group_id from group_user where customer_id = {r}.customer_id and user_id = {r}.user_id order by 1)",
    kinds={
        f"assignmentRequest.{state}": f"o.state <> '{state}' and n.state = '{state}'"
        for state in ("granted", "rejected", "withdrawn")
    },
)  # fmt: skip


def tables() -> list[AuditedTable]:
    """The audited tables, as the view `recorded_state` compares them with the change log."""
    return [*module("0069").tables(), RECORDED]


def upgrade() -> None:
    for statement in (TABLE, *INDEXES, REJECT, REJECT_TRIGGER, *RECORDED.statements):
        op.execute(statement)
    op.execute("create or replace view recorded_state as " + " union all ".join(table.state for table in tables()))
