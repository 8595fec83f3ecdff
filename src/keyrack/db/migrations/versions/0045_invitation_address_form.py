"""A customer has one open invitation of a normal form."""

from keyrack.db.migrations.frozen import concurrent_index

revision = "0045"
down_revision = "0044"


def upgrade() -> None:
    concurrent_index.index("invitation_address_form", "unique on invitation (customer_id, address_form)")
