"""Persons whose text for searches housekeeping fills."""

from keyrack.db.migrations.frozen import concurrent_index

revision = "0059"
down_revision = "0058"


def upgrade() -> None:
    concurrent_index.index("person_search_pending", "on person (user_id) where search_text is null")
