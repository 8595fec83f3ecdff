"""Device keys, with which units and gateways deliver telemetry and events."""

from __future__ import annotations

from typing import Annotated, LiteralString

import typer

from keyrack.api.principals import Scope
from keyrack.cli.cell_choice import DefaultCell
from keyrack.cli.commands.customer import no_customer
from keyrack.cli.customer_keys import Name
from keyrack.cli.database_session import SHOWN_ONCE, DatabaseSession, command
from keyrack.cli.key_revocation import revocable
from keyrack.cli.options import Customer, OfCustomer, which, words
from keyrack.cli.output import CommandFailed, CommandResult, ListResult
from keyrack.core import secret_hashes
from keyrack.core.error_codes import NO_CUSTOMER
from keyrack.core.errors import NotFound, on_constraint

app = typer.Typer()

DeviceKey = Annotated[int, which("device_key")]

PRODUCT: LiteralString = "select product_id from product where customer_id = $1 and serial_number = $2"
INSERT: LiteralString = """
insert into device_key (customer_id, name, hash, product_id, is_gateway, scopes)
values ($1, $2, $3, $4::integer, $4::integer is null, $5::text[]) returning device_key_id
"""
FIND: LiteralString = "select customer_id, revoked_at from device_key where device_key_id = $1 for update"
UPDATE: LiteralString = """
update device_key set product_id = $2::integer, is_gateway = $2::integer is null, scopes = $3::text[]
where device_key_id = $1
"""
LIST: LiteralString = """
select device_key_id as id, k.customer_id as "customerId", name, is_gateway as "isGateway",
  serial_number as "serialNumber", scopes, created_at as "createdAt", revoked_at as "revokedAt",
  revoked_at is null as "isActive",
  case when is_gateway then 'all units' else coalesce(serial_number, 'none: see device-key change') end as opens
from device_key k left join product p using (customer_id, product_id)
where $1::integer is null or k.customer_id = $1 order by device_key_id
"""

SerialNumber = Annotated[
    str | None, typer.Option("--serial-number", callback=words, help="The only unit that the key is for.")
]
Gateway = Annotated[bool, typer.Option("--gateway", help="The key is for all units of the customer.")]
Scopes = Annotated[
    list[Scope] | None,
    typer.Option("--scope", help="Data that it may deliver. Repeatable. Default: telemetry."),
]


@command(app, "add")
async def add(
    session: DatabaseSession,
    customer: Customer,
    serial_number: SerialNumber = None,
    gateway: Gateway = False,
    scope: Scopes = None,
    name: Name = "default",
) -> CommandResult:
    """Add a key for one unit, or with --gateway for all units of the customer; it is shown once."""
    _check(serial_number, gateway)
    secret = secret_hashes.new_secret()
    product = await _product(session, customer, serial_number)
    with on_constraint({"device_key_customer_id_fkey": (NotFound, NO_CUSTOMER.with_text(str(no_customer(customer))))}):
        id = await session.sql.fetchval(INSERT, customer, name, secret_hashes.digest(secret), product, _scopes(scope))
    return CommandResult({"id": id, "deviceKey": secret}, f"device key {id} added: {secret}\n{SHOWN_ONCE}")


@command(app, "change")
async def change(
    session: DatabaseSession,
    id: DeviceKey,
    serial_number: SerialNumber = None,
    gateway: Gateway = False,
    scope: Scopes = None,
) -> CommandResult:
    """Change the unit and the scopes of a key; effective at once.

    A key from before keys had units and scopes delivers nothing until then.
    """
    _check(serial_number, gateway)
    row = await session.sql.fetchrow(FIND, id)
    if row is None or row["revoked_at"] is not None:
        raise CommandFailed(f"There is no device key {id}." if row is None else f"device key {id} is revoked.")
    product = await _product(session, row["customer_id"], serial_number)
    await session.sql.execute(UPDATE, id, product, _scopes(scope))
    return CommandResult({"id": id}, f"device key {id} changed.")


@command(app, "list", default=DefaultCell.ALL)
async def list_(session: DatabaseSession, customer: OfCustomer = None) -> ListResult:
    """List all device keys."""
    rows = await session.sql.fetch(LIST, customer)
    columns = {
        "ID": "id", "CUSTOMER": "customerId", "NAME": "name", "UNIT": "opens", "SCOPES": "scopes", "ACTIVE": "isActive",
        "SINCE": "createdAt", "REVOKED": "revokedAt",
    }  # fmt: skip
    return ListResult([dict(row) for row in rows], columns)


revocable(app, "device_key", "device key")


def _check(serial_number: str | None, gateway: bool) -> None:
    if gateway == (serial_number is not None):
        raise typer.BadParameter("Choose either --serial-number for one unit, or --gateway for all units.")


async def _product(session: DatabaseSession, customer: int, serial_number: str | None) -> int | None:
    if serial_number is None:
        return None
    product_id: int | None = await session.sql.fetchval(PRODUCT, customer, serial_number)
    if product_id is None:
        raise CommandFailed(f"Customer {customer} has no product with the serial number {serial_number}.")
    return product_id


def _scopes(scopes: list[Scope] | None) -> list[str]:
    return sorted(set(scopes or [Scope.TELEMETRY]))
