"""Device keys: with one, a customer's units and boxes, or whoever forwards their data, deliver telemetry and events."""

from __future__ import annotations

from typing import Annotated, LiteralString

import typer

from keyrack import auth
from keyrack.commands.customer import no_customer
from keyrack.commands.options import Customer, Id, OfCustomer, words
from keyrack.commands.session import SHOWN_ONCE, Failed, Listed, Said, Session, command
from keyrack.errors import NotFound, on_constraint

app = typer.Typer()

INSERT: LiteralString = "insert into device_key (customer_id, name, hash) values ($1, $2, $3) returning device_key_id"
LIST: LiteralString = """
select device_key_id as id, customer_id as "customerId", name, created_at as "createdAt", revoked_at as "revokedAt",
  revoked_at is null as "isActive"
from device_key where $1::integer is null or customer_id = $1 order by device_key_id
"""
REVOKE: LiteralString = """
with k as (select revoked_at from device_key where device_key_id = $1 for update),
u as (update device_key set revoked_at = now() where device_key_id = $1 and revoked_at is null)
select revoked_at from k
"""


@command(app, "add")
async def add(
    session: Session,
    customer: Customer,
    name: Annotated[str, typer.Option("--name", callback=words, help="Which units or forwarder use it.")] = "Units",
) -> Said:
    """Add a device key, for all units of a customer."""
    secret = auth.new_secret()
    with on_constraint({"device_key_customer_id_fkey": (NotFound, str(no_customer(customer)))}):
        id = await session.sql.fetchval(INSERT, customer, name, auth.digest(secret))
    return Said({"id": id, "deviceKey": secret}, f"Device key {id} added: {secret}\n{SHOWN_ONCE}")


@command(app, "list")
async def list_(session: Session, customer: OfCustomer = None) -> Listed:
    """List all device keys."""
    rows = await session.sql.fetch(LIST, customer)
    columns = {
        "ID": "id", "CUSTOMER": "customerId", "NAME": "name", "ACTIVE": "isActive", "SINCE": "createdAt",
        "REVOKED": "revokedAt",
    }  # fmt: skip
    return Listed([dict(row) for row in rows], columns)


@command(app, "revoke")
async def revoke(session: Session, id: Id) -> Said:
    """Revoke a device key."""
    row = await session.sql.fetchrow(REVOKE, id)
    if row is None:
        raise Failed(f"There is no device key {id}.")
    if row["revoked_at"] is not None:
        raise Failed(f"Device key {id} is revoked already, since {row['revoked_at']:%Y-%m-%d %H:%M} UTC.")
    return Said({"id": id}, f"Device key {id} revoked.")
