"""The rows that change while a move between cells compares both sides."""

from alembic import op

revision = "0086"
down_revision = "0085"

# Unlogged: after a crash of the server, the move compares all rows again
ROWS = """
create unlogged table cell_move_changed_row (
  move_id uuid not null,
  table_name text not null,
  key jsonb not null
)
"""
# A move adds triggers with this function to the tables of both sides. They run for replicated rows too, and the process
# that applies these has an empty `search_path`. Arguments: the move, the table, and the columns of its primary key.
# An update records the key before and after it.
RECORD = """
create function record_changed_row() returns trigger language plpgsql set search_path from current as $$
begin
  insert into cell_move_changed_row (move_id, table_name, key)
  select tg_argv[0]::uuid, tg_argv[1], (select jsonb_object_agg(name, changed -> name) from unnest(tg_argv[2:]) name)
  from unnest(array[to_jsonb(old), to_jsonb(new)]) changed where changed is not null;
  return null;
end $$
"""


def upgrade() -> None:
    op.execute(ROWS.strip())
    op.execute(RECORD.strip())
