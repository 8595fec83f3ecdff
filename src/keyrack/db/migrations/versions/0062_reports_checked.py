"""Every report on the log of a box has a kind that is known."""

from alembic import op

revision = "0062"
down_revision = "0061"


def upgrade() -> None:
    op.execute("alter table box_report validate constraint box_report_fault_check")
