"""In charge of what a device key opens: one unit or all of a customer, and which of its data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import LiteralString

from keyrack.db.connection import Statements

DEVICE: LiteralString = """
select k.customer_id, k.scopes, k.device_key_id, k.name, k.product_id, p.serial_number, p.unique_id
from device_key k left join product p using (customer_id, product_id)
where k.hash = $1 and k.revoked_at is null
"""


class Scope(StrEnum):
    """What may be delivered."""

    TELEMETRY = "telemetry"
    EVENTS = "events"


@dataclass(frozen=True, slots=True)
class Device:
    """Who delivers: the unit `product`, or, where that is None, a gateway, which forwards the data of all."""

    customer: int
    scopes: frozenset[str]
    key: int  # the id of the key
    name: str | None
    product: int | None = None
    names: frozenset[tuple[str, str]] | None = None  # by which the unit may call itself: member of a line, and value


async def find(statements: Statements, hashed: bytes) -> Device | None:
    """Whose key this is; None if nobody has it any more."""
    row = await statements.fetchrow(DEVICE, hashed)
    if row is None:
        return None
    customer, scopes, product = row["customer_id"], frozenset(row["scopes"]), row["product_id"]
    if product is None:
        return Device(customer, scopes, row["device_key_id"], row["name"])
    names = frozenset({("serialNumber", row["serial_number"]), ("uniqueId", row["unique_id"])})
    return Device(customer, scopes, row["device_key_id"], row["name"], product, names)
