"""An index of hand-overs by the new user, for exports and erasures."""

from keyrack.db.migrations.frozen import concurrent_index

revision = "0068"
down_revision = "0067"


def upgrade() -> None:
    concurrent_index.index(
        "operation_new_user",
        "on operation (customer_id, (request ->> 'userId'))"
        " where kind = 'UpdateAssignment' and request ->> 'userId' is not null",
    )
