"""Persons by address: which person has the normal form of an address, and which two have the same one."""

from __future__ import annotations

from typing import LiteralString

from keyrack.core.error_codes import ErrorCode
from keyrack.core.settings import Settings
from keyrack.db import address_forms
from keyrack.db.address_forms import AddressTable
from keyrack.db.connection import Database, Row, Statements

SAME_ADDRESS = ErrorCode(
    "email-address-taken",
    "A user with the same emailAddress already exists.",
    "Assign the user that there is to the customer: PUT /users/assignments/customers.",
)
# The second index is that of the release before: it folds letters such as U+0130
UNIQUE_ADDRESS = ("person_address_form", "person_email_address_key")
PERSONS = AddressTable("person", "user_id", "email_address")


def user_id_by_form(form: LiteralString) -> LiteralString:
    """SQL of the id of the person with the normal form `form`, or null."""
    return PERSONS.key_by_form(form)


async def fill(db: Database, settings: Settings) -> None:
    """Fill the normal forms that addresses of persons lack. A housekeeping step."""
    await address_forms.fill(db, PERSONS, settings.housekeeping_rows)


async def conflicts(statements: Statements, limit: int) -> list[Row]:
    """The persons that share a form with an earlier one: id, address, holder, holder_address."""
    return await address_forms.conflicts(statements, PERSONS, limit)
