"""Discarded enrolments of boxes, and since when a user is a customer's.

A discarded row stays pending. During an upgrade the release before takes it for a pending one, and deletes it with that
one. It cannot put the row into force, nor one that came back and has no approval: the check fails then, since only a
manager may do that after a discard.
"""

from dataclasses import dataclass

from alembic import op

from keyrack.db.migrations import module
from keyrack.db.migrations.frozen.audit_triggers_v1 import AuditedTable

revision = "0066"
down_revision = "0065"

# A pending epoch that was undone or replaced stays, since a box may be in use under it. An entry of that box brings it
# back (`returned_at`). `heard_at`: such an entry arrived, but the pending epoch was in use as well
EPOCHS = """
alter table box_epoch
  add column discarded_at timestamptz,
  add column returned_at timestamptz,
  add column heard_at timestamptz
"""
STAYS_PENDING = """
alter table box_epoch add constraint box_epoch_discarded_check
  check (is_pending or discarded_at is null and (returned_at is null or approved_at is not null)) not valid
"""
# Null for those who were the customer's before: their id tokens are good as they were
JOINED = (
    "alter table customer_user add column joined_at timestamptz",
    "alter table customer_user alter column joined_at set default clock_timestamp()",
)
# Null is not recorded, so older rows equal their older changes
MEMBERS = {"hasReturned": "case when {r}.returned_at is not null then true end"}

_BOTH = "from old_rows o join new_rows n using ({key})"
_DISCARDED = f"(select o.* {_BOTH} where o.discarded_at is null and n.discarded_at is not null)"
_RETURNED = f"(select n.* {_BOTH} where o.discarded_at is not null and n.discarded_at is null)"


@dataclass(frozen=True)
class DiscardableTable(AuditedTable):
    """A table whose discarded rows are no resource.

    The change log has a deletion of a row that is discarded, and a creation of one that comes back.
    """

    @property
    def statements(self) -> list[str]:
        key = ", ".join(self.key)
        discarded = self._whole("o", _DISCARDED.format(key=key), self.deleted, is_after=False)
        returned = self._whole("n", _RETURNED.format(key=key), self.created, is_after=True)
        updated = self._updated().replace(
            "where d.before is not null",
            "where d.before is not null and o.discarded_at is null and n.discarded_at is null",
        )
        function = (
            f"create function record_{self.table}() returns trigger language plpgsql as $$\nbegin\n"
            f"  if tg_op = 'INSERT' then\n{self._whole('n', 'new_rows', self.created, is_after=True)}"
            "  elsif tg_op = 'DELETE' then\n"
            f"{self._whole('o', '(select old.* where old.discarded_at is null)', self.deleted, is_after=False)}"
            f"  else\n{updated}{discarded}{returned}  end if;\n  return null;\nend $$"
        )
        return [function, *super().statements[1:]]

    @property
    def state(self) -> str:
        return f"{super().state} where r.discarded_at is null"


def _discardable(table: AuditedTable) -> AuditedTable:
    if table.table != "box_epoch":
        return table
    members = {**table.members, **MEMBERS}
    return DiscardableTable(
        table.table, table.resource, table.id, table.key, members, groups=table.groups, kinds=table.kinds
    )


def tables() -> list[AuditedTable]:
    """The audited tables, as the view `recorded_state` compares them with the change log."""
    return [_discardable(table) for table in module(down_revision).tables()]


def upgrade() -> None:
    for statement in (EPOCHS, STAYS_PENDING, *JOINED):
        op.execute(statement.strip())
    for table in tables():
        if table.table == "box_epoch":
            op.execute(table.statements[0].replace("create function", "create or replace function", 1))
    op.execute("create or replace view recorded_state as " + " union all ".join(table.state for table in tables()))
