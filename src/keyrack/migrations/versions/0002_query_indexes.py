"""Query indexes: what fleets filter and sort by."""

from alembic import op

from keyrack.migrations import statements

revision = "0002"
down_revision = "0001"

SCRIPT = """
"""


def upgrade() -> None:
    for statement in statements(SCRIPT):
        op.execute(statement)
