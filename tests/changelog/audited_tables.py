"""The recorded tables, as the newest migration that records declares them."""

from __future__ import annotations

from keyrack.db.migrations import module, revisions
from keyrack.db.migrations.frozen.audit_triggers_v1 import AuditedTable


def recorded() -> list[AuditedTable]:
    """Each recorded table, and how its rows form a resource."""
    newest = next(one for one in reversed(revisions()) if hasattr(module(one), "tables"))
    return [*module(newest).tables(), module("0026").OF_PERSON]
