"""Whoever is limited names groups, and is no owner, in every row."""

from alembic import op

revision = "0037"
down_revision = "0036"

CONSTRAINTS = ("manager_role_limited", "manager_role_owner", "manager_role_scope")


def upgrade() -> None:
    for name in CONSTRAINTS:
        op.execute(f"alter table manager_role validate constraint {name}")
