"""The packed times of a stretch with one more: the database continues the newest state by itself."""

from alembic import op

from keyrack.db.migrations.frozen.statements import statements

revision = "0024"
down_revision = "0023"

# What `packed_times` reads; null where the reading has to begin a stretch of its own. `last` is the last time so far
CONTINUED = """
create function continued_times(packed bytea, first timestamptz, last timestamptz, at timestamptz) returns bytea
language plpgsql immutable parallel safe as $$
declare
  step bigint := extract(epoch from at - last) * 1000000;
  unit bigint;
begin
  if packed is null then
    packed := case when step % 1000 <> 0 then '\\x06' when step % 1000000 <> 0 then '\\x03' else '\\x00' end;
  end if;
  unit := 10 ^ (6 - get_byte(packed, 0));
  if step % unit <> 0 or length(packed) > 248
    or (at at time zone 'UTC')::date <> (first at time zone 'UTC')::date
  then
    return null;
  end if;
  step := step / unit;
  while step >= 128 loop
    packed := packed || set_byte('\\x00', 0, (step & 127 | 128)::integer);
    step := step >> 7;
  end loop;
  return packed || set_byte('\\x00', 0, step::integer);
end $$
"""


def upgrade() -> None:
    for statement in statements(CONTINUED):
        op.execute(statement)
