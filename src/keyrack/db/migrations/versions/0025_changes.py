"""The log of changes: what has happened and has no number yet, what has one, and how far each customer's log is."""

from alembic import op

from keyrack.db.migrations.frozen.statements import statements

revision = "0025"
down_revision = "0024"

# The default of `seq` draws the transaction's own id first: who has a number has one of those, which the fence of
# `changes/numbering` stands on. By `seq` first, so that a look begins behind all that was numbered and deleted before,
# which vacuum may not have taken away yet. A log is read from a number on, whatever the classes and the months of what
# follows: its partitions are merged by the key, and never sorted
TABLES = """
create sequence change_seq cache 1;
create table change_inbox (
  seq bigint not null default nextval(case when pg_current_xact_id() is not null then 'change_seq'::regclass end),
  customer_id integer not null,
  at timestamptz not null default clock_timestamp(),
  kind text not null,
  resource text not null,
  resource_id text not null,
  who jsonb not null,
  groups integer[] not null default '{}',
  before jsonb,
  after jsonb,
  constraint change_inbox_pkey primary key (seq, customer_id)
) with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);
create table change (
  class smallint not null,
  customer_id integer not null,
  change_id bigint not null,
  recorded_at timestamptz not null,
  at timestamptz not null,
  kind text not null,
  resource text not null,
  resource_id text not null,
  who jsonb,
  groups integer[] not null,
  before jsonb,
  after jsonb,
  person jsonb,
  who_salt bytea,
  content_salt bytea,
  person_salt bytea,
  record bytea not null,
  constraint change_pkey primary key (customer_id, change_id, class, recorded_at)
) partition by list (class);
create table change_1 partition of change for values in (1) partition by range (recorded_at);
create table change_2 partition of change for values in (2) partition by range (recorded_at);
create table change_3 partition of change for values in (3) partition by range (recorded_at);
create table change_4 partition of change for values in (4) partition by range (recorded_at);
create index change_resource on change (customer_id, resource, resource_id, change_id);
create index change_user_before on change (customer_id, (before ->> 'userId'))
  where resource in ('assignment', 'group') and before ->> 'userId' is not null;
create index change_user_after on change (customer_id, (after ->> 'userId'))
  where resource in ('assignment', 'group') and after ->> 'userId' is not null;
create table change_log (
  customer_id integer constraint change_log_pkey primary key,
  epoch uuid not null default gen_random_uuid(),
  class smallint not null default 2 constraint change_log_class_check check (class between 1 and 4),
  last_id bigint not null default 0,
  last_recorded_at timestamptz,
  oldest_id bigint not null default 1,
  hash bytea,
  tree bytea not null default ''
)
"""
# The same as for history: made beside the others, which go on being read and written
MONTHS = """
create function make_changes(month date) returns void language plpgsql as $$
declare
  first date := date_trunc('month', month);
  parent text;
  part text;
begin
  foreach parent in array array['change_1', 'change_2', 'change_3', 'change_4'] loop
    part := parent || to_char(first, '_YYYYMM');
    if to_regclass(part) is null then
      perform pg_advisory_xact_lock(7260916);
      if not exists (select from pg_class c join pg_class p using (relnamespace)
                     where c.relname = part and p.oid = parent::regclass) then
        execute format('create table %I (like %I including defaults including constraints)', part, parent);
        execute format('alter table %I attach partition %I for values from (%L) to (%L)', parent, part,
                       first::timestamp at time zone 'UTC', (first + interval '1 month') at time zone 'UTC');
      end if;
    end if;
  end loop;
end $$;

create function drop_changes(dropped smallint, before date) returns setof text language plpgsql as $$
declare
  part text;
begin
  for part in
    -- first the partitions, then their months: no other relation's name ends with one
    with months as materialized (
      select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid
      where i.inhparent = ('change_' || dropped)::regclass
    )
    select relname from months where to_date(right(relname, 6), 'YYYYMM') + interval '1 month' <= before
    order by relname
  loop
    -- a log is told from behind the last one that is not there any more: one look into the index for each customer
    execute format(
      'update change_log l set oldest_id = d.next from ('
      '  select o.customer_id, ('
      '    select max(c.change_id) + 1 from %I c where c.class = $1 and c.customer_id = o.customer_id) as next'
      '  from change_log o) d '
      'where l.customer_id = d.customer_id and d.next > l.oldest_id', part) using dropped;
    execute format('drop table %I', part);
    return next part;
  end loop;
end $$
"""


def upgrade() -> None:
    for script in (TABLES, MONTHS):
        for statement in statements(script):
            op.execute(statement)
