"""The address to which the newest link of an invitation was mailed.

Null means the invited address: no manager had it when the mail was written.
"""

from alembic import op

revision = "0048"
down_revision = "0047"


def upgrade() -> None:
    op.execute("alter table invitation add column mailed_to text")
