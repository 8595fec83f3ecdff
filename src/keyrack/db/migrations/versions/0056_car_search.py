"""Trigrams of what searches look for in cars, if the database has the extensions."""

from keyrack.db.migrations.frozen import concurrent_index

revision = "0056"
down_revision = "0055"


def upgrade() -> None:
    concurrent_index.index(
        "car_search",
        "on car using gin (customer_id, search_text gin_trgm_ops)",
        operator_classes=("gin_trgm_ops", "int4_ops"),
    )
