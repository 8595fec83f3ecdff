"""Pending enrolments of boxes, and removed and waiting phones."""

from dataclasses import replace

from alembic import op

from keyrack.db.migrations import module
from keyrack.db.migrations.frozen.audit_triggers_v1 import AuditedTable
from keyrack.db.migrations.frozen.statements import statements

revision = "0064"
down_revision = "0063"

# A new epoch is pending until an entry that its key has signed has arrived (`proven_at`) and, if the customer wants
# that, a second manager has approved it. `enrolled_by` and `approved_by` are the kind and the number of a caller:
# `manager:12`. Epochs of older releases are in force
EPOCHS = """
alter table box_epoch
  add column is_pending boolean not null default false,
  add column enrolled_by text,
  add column proven_at timestamptz,
  add column approved_at timestamptz,
  add column approved_by text
"""
POLICY = """
alter table key_authority
  add column needs_second_person boolean not null default false,
  add column approves_phones boolean not null default false
"""
APPROVED = "alter table app_device add column is_approved boolean not null default true"
# The user whose new phone a mail reports, of the customer `invited_to`: the address is read when the mail is sent
MAIL = "alter table mail add column user_id integer"
# A removed phone stays removed for as long as its user is the customer's. A registration needs a nonce of the server
PHONES = """
create table registration_nonce (
  customer_id integer not null,
  user_id integer not null,
  nonce bytea not null,
  expires_at timestamptz not null,
  constraint registration_nonce_pkey primary key (customer_id, user_id),
  constraint registration_nonce_of_user foreign key (customer_id, user_id) references customer_user on delete cascade
);
create table removed_device (
  customer_id integer not null,
  device_id bytea not null,
  user_id integer not null,
  removed_at timestamptz not null,
  constraint removed_device_pkey primary key (customer_id, device_id),
  constraint removed_device_of_user foreign key (customer_id, user_id) references customer_user on delete cascade
);
create index removed_device_user on removed_device (customer_id, user_id, removed_at);
"""
# The table has the newest 1,000 removals of each user. A cascade deletes the phones of a user that leaves the customer,
# and they are not in the table
REMEMBER = """
create function remember_removed_devices() returns trigger language plpgsql as $$
begin
  insert into removed_device (customer_id, device_id, user_id, removed_at)
  select o.customer_id, o.device_id, o.user_id, clock_timestamp()
  from old_rows o join customer_user u using (customer_id, user_id) order by o.customer_id, o.device_id
  on conflict (customer_id, device_id) do update set user_id = excluded.user_id, removed_at = excluded.removed_at;
  delete from removed_device r using (
    select customer_id, device_id, row_number() over (
      partition by customer_id, user_id order by removed_at desc, device_id) as place
    from removed_device where (customer_id, user_id) in (select customer_id, user_id from old_rows)) p
  where r.customer_id = p.customer_id and r.device_id = p.device_id and p.place > 1000;
  return null;
end $$
"""
TRIGGER = """
create trigger remember_removed_devices_delete after delete on app_device referencing old table as old_rows
  for each statement execute function remember_removed_devices()
"""

# New members and event types by table. Members that are null are not recorded, so older rows equal their older changes
CHANGED: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "app_device": (
        {"isApproved": "case when not {r}.is_approved then false end"},
        {"device.approved": "not o.is_approved and n.is_approved"},
    ),
    "box_epoch": (
        {
            "isPending": "case when {r}.is_pending then true end",
            "isApproved": "case when {r}.approved_at is not null then true end",
        },
        {"enrolment.confirmed": "o.is_pending and not n.is_pending"},
    ),
    "key_authority": (
        {
            "needsSecondPerson": "case when {r}.needs_second_person then true end",
            "approvesPhones": "case when {r}.approves_phones then true end",
        },
        {},
    ),
}


def _with_members(table: AuditedTable) -> AuditedTable:
    members, kinds = CHANGED.get(table.table, ({}, {}))
    return replace(table, members={**table.members, **members}, kinds={**table.kinds, **kinds})


def tables() -> list[AuditedTable]:
    """The audited tables, as the view `recorded_state` compares them with the change log."""
    return [_with_members(table) for table in module("0061").tables()]


def upgrade() -> None:
    for statement in (EPOCHS, POLICY, APPROVED, MAIL, *statements(PHONES), REMEMBER, TRIGGER):
        op.execute(statement.strip())
    for table in tables():
        if table.table in CHANGED:
            op.execute(table.statements[0].replace("create function", "create or replace function", 1))
    op.execute("create or replace view recorded_state as " + " union all ".join(table.state for table in tables()))
