"""Protection of the last owner of a customer."""

from __future__ import annotations

from typing import LiteralString

from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import Conflict
from keyrack.db.connection import Statements

LAST_OWNER = ErrorCode(
    "last-owner",
    "The customer would have no owner left who can sign in.",
    "Make another manager an owner first, and wait until the invitation is accepted.",
)
OWNER_LIMITED = ErrorCode(
    "owner-not-limited",
    "An owner manages the permissions of the whole customer and cannot be limited to groups.",
    "Choose another role, or remove the groups in the same change.",
)
# Serialises role changes per customer, so that two owners cannot remove each other
LOCK: LiteralString = "select true from customer where customer_id = any($1) order by customer_id for no key update"
WITHOUT: LiteralString = """
select c as customer_id from unnest($1::integer[]) c where not exists (
  select from manager_role r join manager m using (manager_id)
  where r.customer_id = c and r.role = 'Owner' and not r.is_limited and not m.is_disabled)
"""


async def lock_roles(connection: Statements, *customers: int) -> None:
    """Lock the roles in these customers until the caller's transaction ends."""
    await connection.execute(LOCK, sorted(customers))


async def find_customers_without_owner(connection: Statements, *customers: int) -> list[int]:
    """The customers among these that have no owner who may sign in."""
    return [row["customer_id"] for row in await connection.fetch(WITHOUT, sorted(customers))]


async def ensure_owner_remains(connection: Statements, customer: int) -> None:
    """Raise `Conflict` if the customer has no owner who may sign in."""
    if await find_customers_without_owner(connection, customer):
        raise Conflict(LAST_OWNER)
