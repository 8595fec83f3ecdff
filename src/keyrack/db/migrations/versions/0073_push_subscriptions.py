"""Web Push: the subscriptions of drivers' sessions, the server's key, and a queue of changes.

A change adds a row to the queue and locks no subscription, so that it never waits for a worker or for a change of
another customer. Only drivers with a subscription get a row.
"""

from alembic import op

revision = "0073"
down_revision = "0072"

# The public key is in each subscription, so a new key ends all subscriptions
KEY = """
create table push_key (
  push_key_id integer not null default 1 constraint push_key_only check (push_key_id = 1),
  public_key bytea not null,
  private_key bytea not null,
  created_at timestamptz not null default now(),
  constraint push_key_pkey primary key (push_key_id)
)
"""
# `changes` counts the changes of the driver's keys, and `due_at` is null while a message has followed the newest one
SUBSCRIPTION = """
create table driver_push (
  session_id bigint not null references driver_session on delete cascade,
  user_id integer not null,
  endpoint text not null,
  p256dh bytea not null,
  auth bytea not null,
  changes bigint not null default 0,
  attempts integer not null default 0,
  due_at timestamptz,
  sent_at timestamptz,
  created_at timestamptz not null default now(),
  constraint driver_push_pkey primary key (session_id),
  constraint driver_push_endpoint_key unique (endpoint)
)
"""
CHANGE = """
create table driver_push_change (
  push_change_id bigint not null generated always as identity,
  customer_id integer not null,
  user_id integer not null,
  created_at timestamptz not null default now(),
  constraint driver_push_change_pkey primary key (customer_id, push_change_id)
)
"""
INDEXES = (
    "create index driver_push_user on driver_push (user_id)",
    "create index driver_push_due on driver_push (due_at, session_id) where due_at is not null",
    "create index driver_push_change_created_at on driver_push_change (created_at)",
)
ADD = (
    "insert into driver_push_change (customer_id, user_id) select distinct c.customer_id, c.user_id from ({}) c"
    " where exists (select from driver_push p where p.user_id = c.user_id)"
)
OF_ASSIGNMENTS = f"""
create function queue_push_of_assignments() returns trigger language plpgsql as $$
begin
  if not exists (select from driver_push) then
    return null;
  end if;
  if tg_op <> 'INSERT' then
    {ADD.format("select customer_id, user_id from old_rows")};
  end if;
  if tg_op <> 'DELETE' then
    {ADD.format("select customer_id, user_id from new_rows")};
  end if;
  return null;
end $$
"""
# A revocation also changes the status list of the box, which each driver with a key of the box has to bring to it
OF_KEYS = f"""
create function queue_push_of_keys() returns trigger language plpgsql as $$
begin
  if not exists (select from driver_push) then
    return null;
  end if;
  {
    ADD.format(
        "select k.customer_id, k.user_id from box_key k where k.is_placed and k.expires_at > now()"
        " and (k.customer_id, k.product_id, k.epoch) in ("
        "select n.customer_id, n.product_id, n.epoch from new_rows n join old_rows o using (customer_id, key_id)"
        " where n.revoked_at is not null and o.revoked_at is null)"
    )
};
  return null;
end $$
"""
OF_REQUESTS = f"""
create function queue_push_of_requests() returns trigger language plpgsql as $$
begin
  {
    ADD.format(
        "select n.customer_id, n.user_id from new_rows n join old_rows o using (customer_id, request_id)"
        " where n.state <> o.state and n.decided_by is distinct from 'driver'"
    )
};
  return null;
end $$
"""
OLD, NEW = "old table as old_rows", "new table as new_rows"
TRIGGERS = tuple(
    f"create trigger {function}_{event} after {event} on {table} referencing {rows} for each statement"
    f" execute function {function}()"
    for function, table, event, rows in (
        ("queue_push_of_assignments", "assignment", "insert", NEW),
        ("queue_push_of_assignments", "assignment", "update", f"{OLD} {NEW}"),
        ("queue_push_of_assignments", "assignment", "delete", OLD),
        ("queue_push_of_keys", "box_key", "update", f"{OLD} {NEW}"),
        ("queue_push_of_requests", "assignment_request", "update", f"{OLD} {NEW}"),
    )
)


def upgrade() -> None:
    for statement in (KEY, SUBSCRIPTION, CHANGE, *INDEXES, OF_ASSIGNMENTS, OF_KEYS, OF_REQUESTS, *TRIGGERS):
        op.execute(statement)
