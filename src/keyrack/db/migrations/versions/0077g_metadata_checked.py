"""The checks of metadata, which 0077 adds without a scan of the tables."""

from alembic import op

revision = "0077g"
down_revision = "0077f"

TABLES = ("car", "customer_user", "product", "fleet_group", "assignment", "webhook")


def upgrade() -> None:
    for table in TABLES:
        op.execute(f"alter table {table} validate constraint {table}_metadata_check")
