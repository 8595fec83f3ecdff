"""An `externalId` is unique among the products of a customer."""

from keyrack.db.migrations.frozen import concurrent_index

revision = "0077c"
down_revision = "0077b"


def upgrade() -> None:
    concurrent_index.index(
        "product_external_id", "unique on product (customer_id, external_id) where external_id is not null"
    )
