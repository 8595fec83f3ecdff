"""Cars in their natural order, and first those whose text for searches housekeeping fills."""

from keyrack.db.migrations.frozen import concurrent_index

revision = "0058"
down_revision = "0057"


def upgrade() -> None:
    concurrent_index.index("car_sort_key", "on car (customer_id, sort_key nulls first, car_id)")
