"""The cars by when they were seen last: found by the quarter of an hour of the newest reading."""

from alembic import op

from keyrack.db.migrations.frozen.statements import statements

revision = "0019"
down_revision = "0018"

# Every reading changes `read_at`, and an index on it would have each of them write all indexes of the row (no HOT
# update any more). The quarter changes once in a quarter; within it the rows are sorted. Made by the database: a
# process of the version before writes it as well. What the index leaves out keeps it from being taken for another
# statement's look at one car, which without statistics seems as good by it as by the primary key
NEWEST = """
alter table car_state add column read_quarter timestamptz
  generated always as (date_bin('15 minutes', read_at, '2000-01-01 00:00:00+00'::timestamptz)) stored;
create index car_state_read_quarter on car_state (customer_id, read_quarter) where read_quarter is not null
"""


def upgrade() -> None:
    for statement in statements(NEWEST):
        op.execute(statement)
