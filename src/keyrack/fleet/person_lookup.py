"""Persons by address: the person with a normal form, and pairs with the same one."""

from __future__ import annotations

from typing import LiteralString

from keyrack.core.error_codes import ErrorCode
from keyrack.db.address_forms import AddressTable

SAME_ADDRESS = ErrorCode(
    "email-address-taken",
    "A user with the same emailAddress already exists.",
    "Assign the existing user to the customer: `PUT /users/assignments/customers`.",
)
# The second index belongs to the previous release: it folds letters such as U+0130
UNIQUE_ADDRESS = ("person_address_form", "person_email_address_key")
PERSONS = AddressTable("person", "user_id", "email_address")
# The address exactly as sent comes first: a stored address may no longer be valid input
BY_ADDRESS: LiteralString = "select coalesce(" + PERSONS.key_by_form("$1") + ", " + PERSONS.key_by_form("$2") + ")"
