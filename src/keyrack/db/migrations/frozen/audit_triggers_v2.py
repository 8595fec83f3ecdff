"""Audit triggers that also record the groups of each car and user."""

from __future__ import annotations

from dataclasses import dataclass

from keyrack.db.migrations.frozen.audit_triggers_v1 import AuditedTable

ITEMS = ("car", "user")
PLACEHOLDER = "{group_sets}"


@dataclass(frozen=True)
class AuditedPair(AuditedTable):
    """A table whose rows have a car and a user: a change records the groups of each.

    `change_inbox.group_sets` is a JSON array with one array of group ids (as texts) for each car and user that the
    change names. An update that gives a row another car or user has the groups of the old ones as well.
    """

    @property
    def replacement(self) -> str:
        """The trigger function in place of the one that the table has. Its triggers stay."""
        return self.statements[0].replace("create function", "create or replace function", 1)

    def _into(self, row: str) -> str:
        columns = super()._into(row).replace("groups, before, after)", "groups, group_sets, before, after)")
        return f"{columns}{PLACEHOLDER}, "

    def _whole(self, row: str, rows: str, word: str, *, is_after: bool) -> str:
        sets = f"jsonb_build_array({', '.join(_groups(item, row) for item in ITEMS)})"
        return super()._whole(row, rows, word, is_after=is_after).replace(PLACEHOLDER, sets)

    def _updated(self) -> str:
        sets = f"jsonb_build_array({', '.join(_groups(item, 'n') for item in ITEMS)})" + "".join(
            f"\n      || case when o.{item}_id <> n.{item}_id then jsonb_build_array({_groups(item, 'o')})"
            " else '[]' end"
            for item in ITEMS
        )
        return super()._updated().replace(PLACEHOLDER, sets)


def _groups(item: str, row: str) -> str:
    return (
        f"to_jsonb(array(select g.group_id::text from group_{item} g where g.customer_id = {row}.customer_id"
        f" and g.{item}_id = {row}.{item}_id))"
    )
