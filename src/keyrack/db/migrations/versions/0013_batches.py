"""Batches: they may take more from a bucket than it has, and what they owe is paid before the next one."""

from alembic import op

revision = "0013"
down_revision = "0012"

# `owed` is how many were taken beyond what the bucket had: so far ahead of the clock `full_at` may be, beside the
# bucket itself, without the clock having been set back.
OWED = "alter table rate_limit add column owed integer not null default 0"

# With `beyond` all that is wanted is taken where at least one is left; without it, as many as there are
TAKE = (
    "drop function take(text, integer, integer, integer)",
    """
    create function take(bucket text, rate integer, burst integer, wanted integer, beyond boolean default false,
                         out allowed integer, out remaining integer, out wait double precision,
                         out reset double precision)
    language plpgsql as $$
    declare
      t timestamptz;
      step interval := interval '1 minute' / rate;
      stored timestamptz;
      debt integer;
      was timestamptz;
    begin
      loop
        select full_at, owed into stored, debt from rate_limit where key = bucket for update;
        exit when found;
        insert into rate_limit (key, full_at) values (bucket, clock_timestamp()) on conflict (key) do nothing;
      end loop;
      t := clock_timestamp();
      was := case when stored > t + step * (burst + debt) + interval '1 second' then t + step * (burst - 1)
                  else greatest(stored, t) end;
      remaining := greatest(
        floor(extract(epoch from step * burst - (was - t)) / extract(epoch from step) + 1e-6), 0);
      allowed := case when beyond and remaining > 0 then wanted else least(wanted, remaining) end;
      was := was + step * allowed;
      update rate_limit set full_at = was, owed = greatest(allowed - remaining, 0) where key = bucket and allowed > 0;
      remaining := greatest(remaining - allowed, 0);
      wait := case when allowed = wanted then 0 else extract(epoch from was + step - step * burst - t) end;
      reset := extract(epoch from was - t);
    end $$
    """,
)


def upgrade() -> None:
    for statement in (OWED, *TAKE):
        op.execute(statement)
