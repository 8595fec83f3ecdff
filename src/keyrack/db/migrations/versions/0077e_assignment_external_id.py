"""An `externalId` is unique among the assignments of a customer."""

from keyrack.db.migrations.frozen import concurrent_index

revision = "0077e"
down_revision = "0077d"


def upgrade() -> None:
    concurrent_index.index(
        "assignment_external_id", "unique on assignment (customer_id, external_id) where external_id is not null"
    )
