"""User names of managers: which manager has the normal form of a name, and which two have the same one."""

from __future__ import annotations

from typing import LiteralString

from keyrack.core.settings import Settings
from keyrack.db import address_forms
from keyrack.db.address_forms import AddressTable
from keyrack.db.connection import Database, Row, Statements

# The second index is that of the release before: it folds letters such as U+0130
UNIQUE_USERNAME = ("manager_address_form", "manager_username_key")
# A process of the release before knows no conflict, so the manager is disabled as well
MANAGERS = AddressTable("manager", "manager_id", "username", is_disabled_by_conflict=True)


def manager_id_by_form(form: LiteralString) -> LiteralString:
    """SQL of the id of the manager with the normal form `form`, or null."""
    return MANAGERS.key_by_form(form)


async def fill(db: Database, settings: Settings) -> None:
    """Fill the normal forms that user names lack. A housekeeping step."""
    await address_forms.fill(db, MANAGERS, settings.housekeeping_rows)


async def conflicts(statements: Statements, limit: int) -> list[Row]:
    """The managers that share a form with an earlier one: id, address, holder, holder_address."""
    return await address_forms.conflicts(statements, MANAGERS, limit)
