"""Each proof of an address names its source, in every row."""

from alembic import op

revision = "0047"
down_revision = "0046"


def upgrade() -> None:
    op.execute("alter table manager validate constraint manager_proof")
