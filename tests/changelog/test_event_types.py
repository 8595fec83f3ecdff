"""The table of event types has exactly those that the triggers write."""

from __future__ import annotations

import re

from keyrack.api.schema.event_types import INSTALLATION, RECORDED, TAKEN
from keyrack.changelog.audited_tables import RECORDED as TABLES
from keyrack.db.migrations.frozen.audit_triggers_v1 import AuditedTable
from tests.changelog.audited_tables import recorded
from tests.support.servers import Sql

WRITTEN = "select prosrc from pg_proc where proname = 'record_' || $1"
KIND = re.compile(r"'([a-zA-Z]+\.[a-zA-Z]+)'")


def written(sql: Sql, table: AuditedTable) -> set[str]:
    """The event types in a table's trigger function, without updates that cannot occur.

    A table whose only columns are its key has no updates.
    """
    found = set(KIND.findall(sql.value(WRITTEN, table.table)))
    own = {name for told in (table.members | table.secrets).values() for name in re.findall(r"\{r\}\.(\w+)", told)}
    events = {"insert": table.created, "delete": table.deleted, "update": "updated"}
    never = {event for event in events if event not in table.events}
    if not own - {*table.key} and table.table != "person":
        never.add("update")
    return found - {f"{table.resource}.{events[event]}" for event in never}


def test_the_table_has_exactly_the_recorded_event_types(sql: Sql) -> None:
    tables = recorded()
    assert {table.table for table in tables} == {*TABLES}, "a migration of its own records more: name it here"
    of_customers: dict[str, set[str]] = {}
    of_installation: dict[str, set[str]] = {}
    for table in tables:
        kinds = of_installation if table.customer == "0" else of_customers
        kinds.setdefault(table.resource, set()).update(written(sql, table))
    of_customers["permission"] = {"permission.refused"}  # the processes write these themselves
    of_installation["totp"].add("totp.wrongCodes")  # likewise
    assert {resource: {*kinds} for resource, kinds in RECORDED.items()} == of_customers
    assert {resource: {*kinds} for resource, kinds in INSTALLATION.items()} == of_installation


def test_no_wildcard_is_left_out_and_none_is_empty() -> None:
    exact = {name for name, kind in TAKEN.items() if not kind.takes}
    for name, kind in TAKEN.items():
        assert kind.meaning.endswith(".") and kind.resource
        assert name in exact or (name.endswith(".*") and exact.issuperset(kind.takes))
    assert {f"{name.partition('.')[0]}.*" for name in exact} == TAKEN.keys() - exact
    assert {kind.resource for kind in TAKEN.values()} == {*RECORDED, "event", "changes"}
