"""User names of managers: which manager has the normal form of a name."""

from __future__ import annotations

from typing import LiteralString

from keyrack.db.address_lookup import key_by_form


def manager_id_by_form(form: LiteralString) -> LiteralString:
    """SQL of the id of the manager whose user name has the normal form `form`; null if there is none."""
    return key_by_form("manager", "manager_id", "username", form)
