"""Facts about events for webhooks: when an event was recorded, and the assignment that its box named.

Both are null in older events, in imported ones, and in those that the release before records. Webhooks do not get
such events.
"""

from alembic import op

revision = "0079"
down_revision = "0078a"

EVENT = "alter table event add column recorded_at timestamptz, add column assignment_id integer"


def upgrade() -> None:
    op.execute(EVENT)
