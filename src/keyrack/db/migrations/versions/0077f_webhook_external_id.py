"""An `externalId` is unique among the webhooks of a customer."""

from keyrack.db.migrations.frozen import concurrent_index

revision = "0077f"
down_revision = "0077e"


def upgrade() -> None:
    concurrent_index.index(
        "webhook_external_id", "unique on webhook (customer_id, external_id) where external_id is not null"
    )
