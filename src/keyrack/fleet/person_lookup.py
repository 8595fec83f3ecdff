"""Persons by address: which person has the normal form of an address."""

from __future__ import annotations

from typing import LiteralString

from keyrack.db.address_lookup import key_by_form


def user_id_by_form(form: LiteralString) -> LiteralString:
    """SQL of the id of the person whose address has the normal form `form`; null if there is none."""
    return key_by_form("person", "user_id", "email_address", form)
