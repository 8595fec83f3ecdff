"""An `externalId` is unique among the cars of a customer."""

from keyrack.db.migrations.frozen import concurrent_index

revision = "0077a"
down_revision = "0077"


def upgrade() -> None:
    concurrent_index.index("car_external_id", "unique on car (customer_id, external_id) where external_id is not null")
