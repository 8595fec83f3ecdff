"""The number and the name of the cell that the database is."""

from alembic import op

revision = "0081"
down_revision = "0080"

# An existing database is cell 0. `keyrack cells add` numbers an empty one
CELL = """
create table cell (
  cell_id integer not null default 1 constraint cell_only check (cell_id = 1),
  number integer not null default 0 constraint cell_number check (number between 0 and 63),
  name text not null default 'main',
  constraint cell_pkey primary key (cell_id)
)
"""
# Sequences whose ids no two cells may share; `client` draws from that of `manager`. All other keys contain a customer
BOUNDS = """
create function bound_cell_ids(lowest bigint, highest bigint) returns void language plpgsql as $$
declare
  sequence regclass;
begin
  foreach sequence in array
    array['customer_customer_id_seq', 'manager_manager_id_seq', 'person_user_id_seq']::regclass[]
  loop
    execute format('alter sequence %s maxvalue %s', sequence, highest);
    perform setval(sequence, lowest, false) where coalesce(pg_sequence_last_value(sequence), 0) < lowest;
  end loop;
end $$
"""


def upgrade() -> None:
    op.execute(CELL.strip())
    op.execute("insert into cell default values")
    op.execute(BOUNDS.strip())
