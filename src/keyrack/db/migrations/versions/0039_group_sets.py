"""Groups of the car and of the user of a change; notifications of SDK keys.

`groups` of a change of an assignment or an offline key has the groups of both in one set. One set does not
show whether a group-limited caller sees both. `group_sets` is null in a row that an older worker has numbered, and
in every older row. Readers then hide the change from group-limited callers.
"""

from dataclasses import fields

from alembic import op

from keyrack.db.migrations import module
from keyrack.db.migrations.frozen.audit_triggers_v1 import AuditedTable
from keyrack.db.migrations.frozen.audit_triggers_v2 import AuditedPair

revision = "0039"
down_revision = "0038"

COLUMNS = (
    "alter table change_inbox add column group_sets jsonb",
    "alter table change add column group_sets jsonb",
)
# A process that has cached an id token of the key hears of the revocation
NOTE = (
    "create trigger note_access after insert or update or delete on sdk_key"
    " for each statement execute function note_access()"
)
PAIRS = ("assignment", "box_key")


def tables() -> list[AuditedTable]:
    """The audited tables: a newer form of those in `PAIRS`."""
    return [_pair(table) if table.table in PAIRS else table for table in module("0038").tables()]


def _pair(table: AuditedTable) -> AuditedPair:
    return AuditedPair(**{field.name: getattr(table, field.name) for field in fields(AuditedTable)})


def upgrade() -> None:
    for statement in (*COLUMNS, NOTE):
        op.execute(statement)
    for table in tables():
        if isinstance(table, AuditedPair):
            op.execute(table.replacement)
