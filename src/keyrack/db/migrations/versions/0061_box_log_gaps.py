"""Numbers that boxes gave up, who brought forged entries, limits of keys by default, and keys that no longer count.

The check on `kind` stays, since the release before writes beside this one. `fault` has the kinds that it does not know.
`kind` then has the nearest one that it knows.
"""

from dataclasses import replace

from alembic import op

from keyrack.db.migrations import module
from keyrack.db.migrations.frozen.audit_triggers_v1 import AuditedTable

revision = "0061"
down_revision = "0060"

# Numbers up to `up_to` without an entry, to which the release before adds none; and the key set that the box claims
EPOCH = """
alter table box_epoch add column gaps int4multirange not null default '{}', add column held_sequence integer
"""
# The user whose app brought the first of `times` forged entries; entries beyond the bound have no rows of their own
REPORT = (
    "alter table box_report add column fault text, add column user_id integer,"
    " add column times integer not null default 1",
    "alter table box_report add constraint box_report_fault_check check (fault in ('Late', 'UnknownList')) not valid",
)
# Whether a key counts against the bound of its assignment: a manager may free the places of removed phones
KEY = "alter table box_key add column is_counted boolean not null default true"
# 72 hours for authorities from now on; those that exist keep what they have
LIMIT = "alter table key_authority alter column freshness set default 259200"


# Table -> members of its changes that are other or further ones
MEMBERS = {
    "box_report": {"kind": "coalesce({r}.fault, {r}.kind)"},
    "box_key": {"isCounted": "nullif({r}.is_counted, true)"},
}


def tables() -> list[AuditedTable]:
    """The audited tables, as the view `recorded_state` compares them with the change log."""
    return [
        replace(table, members={**table.members, **MEMBERS.get(table.table, {})}) for table in module("0060").tables()
    ]


def upgrade() -> None:
    for statement in (EPOCH, *REPORT, KEY, LIMIT):
        op.execute(statement.strip())
    for table in tables():
        if table.table in MEMBERS:
            op.execute(table.statements[0].replace("create function", "create or replace function", 1))
    op.execute("create or replace view recorded_state as " + " union all ".join(table.state for table in tables()))
