"""The check of extensions, which 0072 adds without a scan of the table."""

from alembic import op

revision = "0074"
down_revision = "0073"


def upgrade() -> None:
    op.execute("alter table customer validate constraint customer_driver_extension_hours_check")
