"""Every discarded or returned enrolment of a box is pending."""

from alembic import op

revision = "0067"
down_revision = "0066"


def upgrade() -> None:
    op.execute("alter table box_epoch validate constraint box_epoch_discarded_check")
