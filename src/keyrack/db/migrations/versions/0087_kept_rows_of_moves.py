"""Keep the rows that a switch to another cell deletes in the source, until the move ends."""

from alembic import op

revision = "0087"
down_revision = "0086"

# A target that is restored to a time before the switch has lost the customer. Then the source needs these rows again
ROWS = """
create table cell_move_kept_row (
  move_id uuid not null,
  table_name text not null,
  content jsonb not null
)
"""


def upgrade() -> None:
    op.execute(ROWS.strip())
