"""The dialect of a webhook: the form in which its messages are sent.

There is no check of the names: a release that adds a dialect then needs no migration. The release before knows no
dialects, and sends each message in the default one.
"""

from dataclasses import replace

from alembic import op

from keyrack.db.migrations import module
from keyrack.db.migrations.frozen.audit_triggers_v1 import AuditedTable

revision = "0069"
down_revision = "0068"

DIALECT = "alter table webhook add column dialect text not null default 'keyrack'"
# Null is not recorded, so older rows equal their older changes
MEMBER = {"dialect": "nullif({r}.dialect, 'keyrack')"}


def tables() -> list[AuditedTable]:
    """The audited tables, as the view `recorded_state` compares them with the change log."""
    return [
        replace(table, members={**table.members, **MEMBER}) if table.table == "webhook" else table
        for table in module("0066").tables()
    ]


def upgrade() -> None:
    op.execute(DIALECT)
    for table in tables():
        if table.table == "webhook":
            op.execute(table.statements[0].replace("create function", "create or replace function", 1))
    op.execute("create or replace view recorded_state as " + " union all ".join(table.state for table in tables()))
