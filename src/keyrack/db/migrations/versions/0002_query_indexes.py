"""Query indexes: what fleets filter and sort by; and the functions that OData has and PostgreSQL has not."""

from alembic import op

from keyrack.db.migrations.frozen.statements import statements

revision = "0002"
down_revision = "0001"

# OData rounds half away from zero, PostgreSQL rounds a double half to even. The fraction is exact, so no sum is.
# `substring` counts from 0, and from the end if the start is negative; `substr` refuses a negative length (22011).
FUNCTIONS = """
create function odata_round(x double precision) returns double precision
language sql immutable strict parallel safe as $$
  select trunc(x) + case when abs(x - trunc(x)) >= 0.5 then sign(x) else 0 end
$$;

create function odata_substring(value text, start bigint, length bigint default 2147483647) returns text
language sql immutable strict parallel safe as $$
  select substr(
    value,
    (least(case when start < 0 then greatest(char_length(value) + start, 0) else start end, 2147483646) + 1)::int4,
    greatest(least(length, 2147483647), -1)::int4)
$$;
"""

# A nullable column ascends from its nulls, as OData wants it; read backwards, the same index descends to them.
INDEXES = """
create index car_name on car (customer_id, name, car_id);
create index car_license_plate on car (customer_id, license_plate nulls first, car_id);
create index car_vin on car (customer_id, vin nulls first, car_id);
create index service_name on service (customer_id, name, service_id);
create index assignment_start on assignment (customer_id, starts_at, assignment_id);
create index assignment_of_car_start on assignment (customer_id, car_id, starts_at, assignment_id);
create index event_time on event (customer_id, utc_at, event_id);
create index event_of_car_time on event (customer_id, car_id, utc_at, event_id);
create index event_of_user on event (customer_id, user_id, event_id);
"""


def upgrade() -> None:
    for script in (FUNCTIONS, INDEXES):
        for statement in statements(script):
            op.execute(statement)
