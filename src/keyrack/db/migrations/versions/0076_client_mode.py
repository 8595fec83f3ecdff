"""The mode of a machine client: `spec`, or `strict` for clients that this release creates.

Clients that exist keep the behaviour that they were written for, and so do those of a running older release. There is
no check of the names: a name of a later release is `spec` here.
"""

from dataclasses import replace

from alembic import op

from keyrack.db.migrations import module
from keyrack.db.migrations.frozen.audit_triggers_v1 import AuditedTable

revision = "0076"
down_revision = "0075"

MODE = "alter table client add column mode text not null default 'spec'"
# Null is not recorded, so older rows equal their older changes
MEMBER = {"mode": "nullif({r}.mode, 'spec')"}
# The mode is cached with the client's access
NOTE = (
    "create or replace trigger note_access after insert or delete or update of name, is_disabled, expires_at, mode"
    " on client for each statement execute function note_access()"
)


def tables() -> list[AuditedTable]:
    """The audited tables, as the view `recorded_state` compares them with the change log."""
    return [
        replace(table, members={**table.members, **MEMBER}) if table.table == "client" else table
        for table in module("0075").tables()
    ]


def upgrade() -> None:
    op.execute(MODE)
    op.execute(NOTE)
    for table in tables():
        if table.table == "client":
            op.execute(table.statements[0].replace("create function", "create or replace function", 1))
    op.execute("create or replace view recorded_state as " + " union all ".join(table.state for table in tables()))
