"""An `externalId` is unique among the users of a customer."""

from keyrack.db.migrations.frozen import concurrent_index

revision = "0077b"
down_revision = "0077a"


def upgrade() -> None:
    concurrent_index.index(
        "customer_user_external_id", "unique on customer_user (customer_id, external_id) where external_id is not null"
    )
