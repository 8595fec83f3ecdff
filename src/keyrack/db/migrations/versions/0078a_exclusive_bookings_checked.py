"""The checks of exclusive bookings, which 0078 adds without a scan of the tables."""

from alembic import op

revision = "0078a"
down_revision = "0078"

CHECKS = (
    ("assignment", "assignment_booking_gap_check"),
    ("customer", "customer_bookings_check"),
    ("customer", "customer_booking_gap_check"),
    ("car", "car_bookings_check"),
    ("car", "car_booking_gap_check"),
)


def upgrade() -> None:
    for table, name in CHECKS:
        op.execute(f"alter table {table} validate constraint {name}")
