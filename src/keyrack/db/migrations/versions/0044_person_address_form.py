"""A unique index of persons by normal form, without marked conflicts."""

from keyrack.db.migrations.frozen import concurrent_index

revision = "0044"
down_revision = "0043"


def upgrade() -> None:
    concurrent_index.index("person_address_form", "unique on person (address_form) where not has_address_conflict")
