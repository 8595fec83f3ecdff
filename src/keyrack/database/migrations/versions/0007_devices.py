"""Device keys open one unit or all, with scopes; an event's wall clock is compared as it was read."""

from alembic import op

revision = "0007"
down_revision = "0006"

# `local_at` is what the wall clock showed, as if it were UTC, whatever offset was sent with it. The text was checked
# when it came; of its fraction, microseconds count.
WALL_CLOCKS = """
update event set local_at = left(regexp_replace(upper(local_text), '(Z|[+-][0-9:]{5})$', ''), 26)::timestamp
  at time zone 'UTC'
where local_text ~ '[+-][0-9]{2}:[0-9]{2}$'
"""


def upgrade() -> None:
    op.execute(WALL_CLOCKS)
