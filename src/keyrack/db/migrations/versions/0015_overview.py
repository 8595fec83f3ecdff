"""Overviews: the assignments of a car by their ends, so that those in force are found past all that have ended; and the
deliveries of all webhooks in their order."""

from alembic import op

revision = "0015"
down_revision = "0014"

INDEXES = (
    "create index assignment_of_car_end on assignment (customer_id, car_id, coalesce(ends_at, 'infinity'))",
    "create index delivery_of_customer on delivery (customer_id, delivery_id)",
)


def upgrade() -> None:
    for statement in INDEXES:
        op.execute(statement)
