"""Device keys: the units and data that each one opens."""

from __future__ import annotations

from typing import LiteralString

from keyrack.api.principals import Device
from keyrack.db.connection import Statements

DEVICE: LiteralString = """
select k.customer_id, k.scopes, k.device_key_id, k.name, k.product_id, p.serial_number, p.unique_id
from device_key k left join product p using (customer_id, product_id)
where k.hash = $1 and k.revoked_at is null
"""


async def find(statements: Statements, hashed: bytes) -> Device | None:
    """The device of a key; None if it is unknown or revoked."""
    row = await statements.fetchrow(DEVICE, hashed)
    if row is None:
        return None
    customer, scopes, product = row["customer_id"], frozenset(row["scopes"]), row["product_id"]
    if product is None:
        return Device(customer, scopes, row["device_key_id"], row["name"])
    names = frozenset({("serialNumber", row["serial_number"]), ("uniqueId", row["unique_id"])})
    return Device(customer, scopes, row["device_key_id"], row["name"], product, names)
