"""Persons whose normal form housekeeping fills, or whose conflict it looks at again."""

from keyrack.db.migrations.frozen import concurrent_index

revision = "0046"
down_revision = "0045"


def upgrade() -> None:
    concurrent_index.index(
        "person_address_pending", "on person (user_id) where address_form is null or has_address_conflict"
    )
