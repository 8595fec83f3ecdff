"""Webhooks: endpoints, deliveries and their lanes, and idempotency keys."""

from alembic import op

from keyrack.migrations import statements

revision = "0003"
down_revision = "0002"

SCRIPT = """
"""


def upgrade() -> None:
    for statement in statements(SCRIPT):
        op.execute(statement)
