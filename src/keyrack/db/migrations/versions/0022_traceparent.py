"""Where in a trace an operation was asked for, and the outcome of which one a delivery is."""

from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    op.execute("alter table operation add column traceparent text")
    op.execute("alter table delivery add column traceparent text")
