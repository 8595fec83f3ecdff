"""One order of work per customer: holds instead of lanes, applied numbers; and access is watched without notices."""

from alembic import op

revision = "0005"
down_revision = "0004"

# Whoever holds a customer's row applies its operations, or changes what they stand on. `applied` is the number of the
# last operation that was applied; until `due_at` the customer's operations wait for another try of the first one.
HOLD = """
create table customer_hold (
  customer_id integer primary key references customer on delete cascade,
  applied bigint not null default 0,
  due_at timestamptz
) with (fillfactor = 50)
"""
BEGIN = """
create function begin_customer() returns trigger language plpgsql as $$
begin
  insert into event_counter (customer_id) values (new.customer_id);
  insert into customer_hold (customer_id) values (new.customer_id);
  return null;
end $$
"""

# Ends that somebody's change brought about come before what was asked for meanwhile; the others in the order of `seq`.
# The partial index is where work is looked for, so its dead entries must go soon.
OPERATIONS = (
    HOLD,
    "insert into customer_hold (customer_id) select customer_id from customer",
    "drop trigger count_events on customer",
    "drop function count_events()",
    BEGIN,
    "create trigger begin_customer after insert on customer for each row execute function begin_customer()",
    "drop table operation_lane",
    """
    alter table operation
      add column applied bigint,
      add column asked_by integer,
      add column asked_from text,
      add column request_id text
    """,
    "drop index operation_pending",
    "create index operation_pending on operation (customer_id, (cause = 'Request'), seq) where state = 'Pending'",
    "alter table operation set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000)",
)

# The pending operations of those customers whose holds are free, with their holds. Lock first, read in the next
# statement: it sees what was committed before the lock was ours
CLAIM = (
    """
    create function claim_operations(customers integer[], each integer) returns setof operation language plpgsql as $$
    declare
      held integer[] := array(
        select customer_id from customer_hold
        where customer_id = any(customers) and (due_at is null or due_at <= now())
        order by customer_id for update skip locked);
    begin
      return query select o.* from unnest(held) with ordinality h (customer_id, place)
      cross join lateral (
        select * from operation p where p.customer_id = h.customer_id and p.state = 'Pending'
        order by p.cause = 'Request', p.seq limit each) o
      order by h.place, o.cause = 'Request', o.seq;
    end $$
    """,
)

# null: never chosen, so half of the lifetime, whatever that becomes
ASSIGNMENTS = (
    "alter table assignment alter column renewable_after drop not null",
    "update assignment set renewable_after = null where renewable_after = lifetime / 2",
)

# A lane's deliveries go out by the number under which their operation was applied: no clock has a say in it. Those that
# wait already keep their order, before all that is to come.
DELIVERIES = (
    "alter table delivery add column applied bigint not null default 0",
    """
    update delivery d set applied = w.place
    from (
      select customer_id, webhook_id, delivery_id,
        row_number() over (partition by customer_id, webhook_id order by created_at, delivery_id)
        - count(*) over (partition by customer_id, webhook_id) as place
      from delivery where state = 'Waiting'
    ) w
    where d.customer_id = w.customer_id and d.webhook_id = w.webhook_id and d.delivery_id = w.delivery_id
    """,
    "drop index delivery_waiting",
    """
    create index delivery_waiting on delivery (customer_id, webhook_id, lane, applied, delivery_id)
      where state = 'Waiting'
    """,
)

# How many of `wanted` the bucket has left, taken at once; the rest of the row says how it stands afterwards.
TAKE = (
    "drop function take(text, integer, integer)",
    """
    create function take(bucket text, rate integer, burst integer, wanted integer, out allowed integer,
                         out remaining integer, out wait double precision, out reset double precision)
    language plpgsql as $$
    declare
      t timestamptz := clock_timestamp();
      step interval := interval '1 minute' / rate;
      was timestamptz;
    begin
      insert into rate_limit (key, full_at) values (bucket, t) on conflict (key) do nothing;
      select full_at into was from rate_limit where key = bucket for update;
      was := greatest(was, t);
      remaining := floor(extract(epoch from step * burst - (was - t)) / extract(epoch from step) + 1e-6);
      allowed := least(wanted, greatest(remaining, 0));
      was := was + step * allowed;
      update rate_limit set full_at = was where key = bucket and allowed > 0;
      remaining := greatest(remaining - allowed, 0);
      wait := case when allowed = wanted then 0 else extract(epoch from was + step - step * burst - t) end;
      reset := extract(epoch from was - t);
    end $$
    """,
)

# Every change of who may call leaves a row; each process looks for new ones all the time, so that a notice is only
# quicker, and no transaction has to carry one.
ACCESS = (
    "create table access_change (access_change_id bigint generated always as identity primary key,"
    " at timestamptz not null default now())",
    """
    create function note_access() returns trigger language plpgsql as $$
    begin
      insert into access_change default values;
      return null;
    end $$
    """,
    *(
        statement.format(table=table)
        for table in ("api_key", "manager", "manager_customer", "signing_key", "customer", "device_key")
        for statement in (
            "drop trigger announce_access on {table}",
            "create trigger note_access after insert or update or delete on {table}"
            " for each statement execute function note_access()",
        )
    ),
    "drop function announce_access()",
)


def upgrade() -> None:
    for statement in (*OPERATIONS, *CLAIM, *ASSIGNMENTS, *DELIVERIES, *TAKE, *ACCESS):
        op.execute(statement)
