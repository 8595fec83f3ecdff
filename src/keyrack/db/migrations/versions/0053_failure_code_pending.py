"""Failed operations whose code housekeeping fills."""

from keyrack.db.migrations.frozen import concurrent_index

revision = "0053"
down_revision = "0052"


def upgrade() -> None:
    concurrent_index.index(
        "operation_code_pending", "on operation (customer_id) where state = 'Failed' and error_code is null"
    )
