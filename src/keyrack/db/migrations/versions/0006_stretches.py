"""Every reading is kept: those that repeat a value are packed into the row of the first. A unit owns its state."""

from alembic import op

revision = "0006"
down_revision = "0005"

# `times` are those of the readings that repeat the row's value, packed; null: there is none. The stretch that a car's
# newest reading belongs to stands in `car_state`, from `.._since` on, until it ends; without one, history has it.
# `product_id` is the unit that told: nothing of it is shown as another one's.
COLUMNS = (
    "alter table position add column times bytea",
    "alter table odometer add column times bytea",
    """
    alter table car_state
      add column product_id integer,
      add column position_since timestamptz,
      add column position_times bytea,
      add column odometer_since timestamptz,
      add column odometer_times bytea
    """,
    """
    update car_state s set
      product_id = (select product_id from product p
                    where p.customer_id = s.customer_id and p.car_id = s.car_id and p.kind = 'IQ'),
      position_since = case when not position_kept then position_at end,
      odometer_since = case when not odometer_kept then odometer_at end
    """,
    "alter table car_state drop column position_kept, drop column odometer_kept",
)

# A byte with the digits of a second's fraction (0, 3 or 6), then the steps in that unit as unsigned LEB128
PACKED_TIMES = """
create function packed_times(first timestamptz, packed bytea) returns setof timestamptz
language plpgsql immutable parallel safe as $$
declare
  unit bigint;
  byte integer;
  step bigint := 0;
  shift integer := 0;
  total bigint := 0;
begin
  if first is null then
    return;
  end if;
  return next first;
  if packed is null then
    return;
  end if;
  unit := 10 ^ (6 - get_byte(packed, 0));
  for place in 1 .. length(packed) - 1 loop
    byte := get_byte(packed, place);
    step := step | ((byte & 127)::bigint << shift);
    shift := shift + 7;
    if byte < 128 then
      total := total + step * unit;
      return next first + total * interval '1 microsecond';
      step := 0;
      shift := 0;
    end if;
  end loop;
end $$
"""


def upgrade() -> None:
    for statement in (*COLUMNS, PACKED_TIMES):
        op.execute(statement)
