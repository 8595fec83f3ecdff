"""Time lines and erasing: what assignments and operations are found by; and whom a customer has erased."""

from alembic import op

revision = "0016"
down_revision = "0015"

# A board asks for what has not ended before a time: of the past, however long, nothing is read
ASSIGNMENTS = ("create index assignment_end on assignment (customer_id, ends_at, assignment_id)",)
# Lists begin with what was asked for last, of all or of one car or user. What failed is rare, and looked for often
OPERATIONS = (
    "create index operation_requested on operation (customer_id, requested_at, operation_id)",
    "create index operation_of_car on operation (customer_id, car_id, requested_at, operation_id)",
    "create index operation_of_user on operation (customer_id, user_id, requested_at, operation_id)",
    "create index operation_failed on operation (customer_id, requested_at, operation_id) where state = 'Failed'",
)


def upgrade() -> None:
    for statement in (*ASSIGNMENTS, *OPERATIONS):
        op.execute(statement)
