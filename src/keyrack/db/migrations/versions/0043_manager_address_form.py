"""A unique index of user names by their normal form, without marked conflicts.

The index on `lower()` stays: the release before uses it, and it is unique until every row has its form.
"""

from keyrack.db.migrations.frozen import concurrent_index

revision = "0043"
down_revision = "0042"


def upgrade() -> None:
    concurrent_index.index("manager_address_form", "unique on manager (address_form) where not has_address_conflict")
