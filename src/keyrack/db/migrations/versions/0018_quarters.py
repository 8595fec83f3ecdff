"""Series of telemetry: what was read last in each quarter of an hour."""

from alembic import op

from keyrack.db.migrations.frozen.statements import statements

revision = "0018"
down_revision = "0017"

# A row is a quarter of an hour, which begins at `at`, and has the form of a newest state: `readings` by the members'
# names as they were told at `read_at`, and in `told` the times of those that are older
TELEMETRY = """
create table telemetry (
  customer_id integer not null,
  car_id integer not null,
  at timestamptz not null,
  read_at timestamptz not null,
  readings jsonb not null,
  told jsonb not null default '{}',
  primary key (customer_id, car_id, at)
) partition by range (at)
"""
# No foreign key: with one, to make or drop a month would lock all cars
FORGET = """
create function forget_telemetry() returns trigger language plpgsql as $$
begin
  delete from telemetry where customer_id = old.customer_id and car_id = old.car_id;
  return null;
end $$;
create trigger forget_telemetry after delete on car for each row execute function forget_telemetry()
"""
MONTHS = """
create or replace function make_history(month date) returns void language plpgsql as $$
declare
  first date := date_trunc('month', month);
  parent text;
  part text;
begin
  foreach parent in array array['position', 'odometer', 'telemetry'] loop
    part := parent || to_char(first, '_YYYYMM');
    if to_regclass(part) is null then
      perform pg_advisory_xact_lock(7260916);
      -- by a snapshot: the cache of names may not have heard yet of what was committed while we waited
      if not exists (select from pg_class c join pg_class p using (relnamespace)
                     where c.relname = part and p.oid = parent::regclass) then
        -- attached afterwards: that takes a lock which lets readers and writers of the other partitions go on
        execute format('create table %I (like %I including defaults including constraints)', part, parent);
        execute format('alter table %I attach partition %I for values from (%L) to (%L)', parent, part,
                       first::timestamp at time zone 'UTC', (first + interval '1 month') at time zone 'UTC');
      end if;
    end if;
  end loop;
end $$;

create or replace function drop_history(before date) returns setof text language plpgsql as $$
declare
  part text;
begin
  for part in
    -- first the partitions, then their months: no other relation's name ends with one
    with history as materialized (
      select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
      where i.inhparent in ('position'::regclass, 'odometer'::regclass, 'telemetry'::regclass)
    )
    select relname from history where to_date(right(relname, 6), 'YYYYMM') + interval '1 month' <= before
    order by relname
  loop
    execute format('drop table %I', part);
    return next part;
  end loop;
end $$
"""


def upgrade() -> None:
    for script in (TELEMETRY, FORGET, MONTHS):
        for statement in statements(script):
            op.execute(statement)
