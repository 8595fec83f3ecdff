"""An `externalId` is unique among the groups of a customer."""

from keyrack.db.migrations.frozen import concurrent_index

revision = "0077d"
down_revision = "0077c"


def upgrade() -> None:
    concurrent_index.index(
        "fleet_group_external_id", "unique on fleet_group (customer_id, external_id) where external_id is not null"
    )
