"""SDK keys, with which a customer's app gets tokens for its users."""

from __future__ import annotations

from typing import LiteralString

import typer

from keyrack.cli.cell_choice import DefaultCell
from keyrack.cli.commands.customer import no_customer
from keyrack.cli.customer_keys import Name
from keyrack.cli.database_session import SHOWN_ONCE, DatabaseSession, command
from keyrack.cli.key_revocation import revocable
from keyrack.cli.options import Customer, OfCustomer
from keyrack.cli.output import CommandResult, ListResult
from keyrack.core import secret_hashes
from keyrack.core.error_codes import NO_CUSTOMER
from keyrack.core.errors import NotFound, on_constraint

app = typer.Typer()

INSERT: LiteralString = "insert into sdk_key (customer_id, name, hash) values ($1, $2, $3) returning sdk_key_id"
LIST: LiteralString = """
select sdk_key_id as id, customer_id as "customerId", name, created_at as "createdAt", revoked_at as "revokedAt",
  revoked_at is null as "isActive"
from sdk_key where $1::integer is null or customer_id = $1 order by sdk_key_id
"""


@command(app, "add")
async def add(session: DatabaseSession, customer: Customer, name: Name = "default") -> CommandResult:
    """Add an SDK key; it is shown once."""
    secret = secret_hashes.new_secret()
    with on_constraint({"sdk_key_customer_id_fkey": (NotFound, NO_CUSTOMER.with_text(str(no_customer(customer))))}):
        id = await session.sql.fetchval(INSERT, customer, name, secret_hashes.digest(secret))
    return CommandResult({"id": id, "sdkKey": secret}, f"SDK key {id} added: {secret}\n{SHOWN_ONCE}")


@command(app, "list", default=DefaultCell.ALL)
async def list_(session: DatabaseSession, customer: OfCustomer = None) -> ListResult:
    """List all SDK keys."""
    rows = await session.sql.fetch(LIST, customer)
    columns = {
        "ID": "id", "CUSTOMER": "customerId", "NAME": "name", "ACTIVE": "isActive", "SINCE": "createdAt",
        "REVOKED": "revokedAt",
    }  # fmt: skip
    return ListResult([dict(row) for row in rows], columns)


revocable(app, "sdk_key", "SDK key")
