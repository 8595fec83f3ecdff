"""Housekeeping: when each step went well last; and since when a webhook is disabled."""

from alembic import op

revision = "0010"
down_revision = "0009"

# A step is held by one worker at a time, until `held_until` at the latest: a lease, and no lock, for a transaction that
# stays open as long as a step would keep vacuum from everything
STEPS = """
create table housekeeping (
  step text primary key,
  due_at timestamptz not null default now(),
  held_until timestamptz,
  last_good timestamptz,
  seconds double precision,
  last_error text,
  last_error_at timestamptz,
  failures integer not null default 0
)
"""
DISABLED = (
    "alter table webhook add column disabled_at timestamptz",
    "update webhook set disabled_at = now() where not is_enabled",
    """
    create function note_disabling() returns trigger language plpgsql as $$
    begin
      new.disabled_at := case when not new.is_enabled then coalesce(new.disabled_at, now()) end;
      return new;
    end $$
    """,
    "create trigger note_disabling before insert or update on webhook for each row execute function note_disabling()",
    "create index webhook_disabled on webhook (disabled_at) where not is_enabled",
)

# Up to `most` deliveries that wait for webhooks disabled for so long, and then so many of their lanes. These are locked
# first and read in the next statement, so what was published meanwhile keeps its lane.
GIVE_UP = """
create function give_up_disabled(wait double precision, most integer) returns bigint language plpgsql as $$
declare
  changed bigint;
  places tid[];
begin
  update delivery set state = 'Dead', error = 'The webhook was disabled for too long.', next_attempt_at = null
  where ctid = any(array(
    select d.ctid from webhook w join delivery d using (customer_id, webhook_id)
    where not w.is_enabled and w.disabled_at < now() - make_interval(secs => wait) and d.state = 'Waiting'
    limit most));
  get diagnostics changed = row_count;
  if changed < most then
    places := array(
      select l.ctid from webhook w join delivery_lane l using (customer_id, webhook_id)
      where not w.is_enabled and w.disabled_at < now() - make_interval(secs => wait)
        and (l.lease is null or l.lease < now())
      limit most - changed for update of l skip locked);
    delete from delivery_lane l where l.ctid = any(places) and not exists (
      select from delivery d where d.customer_id = l.customer_id and d.webhook_id = l.webhook_id and d.lane = l.lane
      and d.state = 'Waiting');
    changed := changed + cardinality(places);
  end if;
  return changed;
end $$
"""


def upgrade() -> None:
    for statement in (STEPS, *DISABLED, GIVE_UP):
        op.execute(statement)
