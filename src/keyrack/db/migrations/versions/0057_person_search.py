"""Trigrams of what searches look for in persons, if the database has the extension."""

from keyrack.db.migrations.frozen import concurrent_index

revision = "0057"
down_revision = "0056"


def upgrade() -> None:
    concurrent_index.index(
        "person_search", "on person using gin (search_text gin_trgm_ops)", operator_classes=("gin_trgm_ops",)
    )
