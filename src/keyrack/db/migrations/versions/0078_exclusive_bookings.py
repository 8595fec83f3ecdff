"""Exclusive bookings: assignments of a car that do not overlap one another, and the policies that ask for them.

`booking` has the exclusive assignments alone: shared ones cost nothing, and no lock of `assignment` is needed for the
constraint. A trigger writes it, whatever wrote the assignment. A booking of no length blocks nothing and has no row.

The constraint needs `btree_gist`. Without that extension the migration continues without it. The operator adds the
constraint later by `select create_booking_constraint()`.

Each process reports its revision, because a process of an older release would apply operations without the rule.
"""

from dataclasses import replace

from alembic import op

from keyrack.db.migrations import module
from keyrack.db.migrations.frozen.audit_triggers_v1 import AuditedTable

revision = "0078"
down_revision = "0077g"

COLUMNS = (
    # The gap is a copy: a later change of the policy breaks no booking
    "alter table assignment add column is_exclusive boolean not null default false,"
    " add column booking_gap integer not null default 0",
    "alter table customer add column bookings text not null default 'shared',"
    " add column bookings_enforced boolean not null default false, add column booking_gap integer not null default 0",
    # Null: that of the customer
    "alter table car add column bookings text, add column booking_gap integer",
    # The bookings that a failed operation conflicted with, and the batch whose operations are decided together
    "alter table operation add column conflicts jsonb, add column batch_id uuid",
    "alter table heartbeat add column revision text",
)
CHECKS = (
    "alter table assignment add constraint assignment_booking_gap_check check (booking_gap between 0 and 86400)"
    " not valid",
    "alter table customer add constraint customer_bookings_check check (bookings in ('shared', 'exclusive')) not valid",
    "alter table customer add constraint customer_booking_gap_check check (booking_gap between 0 and 86400) not valid",
    "alter table car add constraint car_bookings_check check (bookings in ('shared', 'exclusive')) not valid",
    "alter table car add constraint car_booking_gap_check check (booking_gap between 0 and 86400) not valid",
)
# `blocked_until` is the end and the gap; a booking without an end blocks until `infinity`
TABLE = """
create table booking (
  customer_id integer not null,
  assignment_id integer not null,
  car_id integer not null,
  starts_at timestamptz not null,
  blocked_until timestamptz not null,
  constraint booking_pkey primary key (customer_id, assignment_id),
  constraint booking_times_check check (starts_at < blocked_until)
)
"""
INDEX = "create index booking_of_car on booking (customer_id, car_id, starts_at)"
_BLOCKS = "n.is_exclusive and (n.ends_at is null or n.ends_at > n.starts_at)"
KEEP = f"""
create function keep_bookings() returns trigger language plpgsql as $$
begin
  if tg_op <> 'INSERT' then
    delete from booking b using old_rows o
    where o.is_exclusive and b.customer_id = o.customer_id and b.assignment_id = o.assignment_id;
  end if;
  if tg_op <> 'DELETE' then
    insert into booking (customer_id, assignment_id, car_id, starts_at, blocked_until)
    select n.customer_id, n.assignment_id, n.car_id, n.starts_at,
      coalesce(n.ends_at + make_interval(secs => n.booking_gap), 'infinity')
    from new_rows n where {_BLOCKS};
  end if;
  return null;
end $$
"""
OLD, NEW = "old table as old_rows", "new table as new_rows"
TRIGGERS = tuple(
    f"create trigger keep_bookings_{event} after {event} on assignment referencing {rows} for each statement"
    " execute function keep_bookings()"
    for event, rows in (("insert", NEW), ("update", f"{OLD} {NEW}"), ("delete", OLD))
)
# Deferred, so that one statement or transaction may swap two bookings
CONSTRAINT = """
create function create_booking_constraint() returns boolean language plpgsql as $$
begin
  if exists (select from pg_constraint where conname = 'booking_overlap' and conrelid = 'booking'::regclass) then
    return true;
  end if;
  if not exists (select from pg_extension where extname = 'btree_gist') then
    if not exists (select from pg_available_extensions where name = 'btree_gist') then
      return false;
    end if;
    create extension btree_gist;
  end if;
  alter table booking add constraint booking_overlap exclude using gist (
    customer_id with =, car_id with =, tstzrange(starts_at, blocked_until) with &&) deferrable initially deferred;
  return true;
exception when insufficient_privilege then
  raise notice 'btree_gist is not created: no constraint rejects overlapping bookings';
  return false;
end $$
"""
# New members by table. Members that are null are not recorded, so older rows equal their older changes
MEMBERS: dict[str, dict[str, str]] = {
    "assignment": {
        "exclusive": "case when {r}.is_exclusive then true end",
        "bookingGap": "nullif({r}.booking_gap, 0)",
    },
    "customer": {
        "bookings": "nullif({r}.bookings, 'shared')",
        "bookingsEnforced": "case when {r}.bookings_enforced then true end",
        "bookingGap": "nullif({r}.booking_gap, 0)",
    },
    "car": {"bookings": "{r}.bookings", "bookingGap": "{r}.booking_gap"},
}


def tables() -> list[AuditedTable]:
    """The audited tables, as the view `recorded_state` compares them with the change log."""
    return [
        replace(table, members={**table.members, **MEMBERS.get(table.table, {})}) for table in module("0077").tables()
    ]


def upgrade() -> None:
    for statement in (*COLUMNS, *CHECKS, TABLE, INDEX, KEEP, *TRIGGERS, CONSTRAINT):
        op.execute(statement.strip())
    op.execute("select create_booking_constraint()")
    for table in tables():
        if table.table in MEMBERS:
            op.execute(table.statements[0].replace("create function", "create or replace function", 1))
    op.execute("create or replace view recorded_state as " + " union all ".join(table.state for table in tables()))
