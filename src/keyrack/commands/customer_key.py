"""In charge of the keys that belong to a customer: SDK keys and device keys are added, listed and revoked alike."""

from __future__ import annotations

from typing import Annotated, LiteralString

import typer

from keyrack.access import auth
from keyrack.commands.customer import no_customer
from keyrack.commands.options import Customer, Id, OfCustomer, words
from keyrack.commands.session import SHOWN_ONCE, Failed, Listed, Said, Session, command
from keyrack.errors import NotFound, on_constraint

INSERT: LiteralString = "insert into {table} (customer_id, name, hash) values ($1, $2, $3) returning {table}_id"
LIST: LiteralString = """
select {table}_id as id, customer_id as "customerId", name, created_at as "createdAt", revoked_at as "revokedAt",
  revoked_at is null as "isActive"
from {table} where $1::integer is null or customer_id = $1 order by {table}_id
"""
REVOKE: LiteralString = """
with k as (select revoked_at from {table} where {table}_id = $1 for update),
u as (update {table} set revoked_at = now() where {table}_id = $1 and revoked_at is null)
select revoked_at from k
"""


Name = Annotated[str, typer.Option("--name", callback=words, help="Who uses it.")]


def commands(table: LiteralString, member: str, what: str) -> typer.Typer:
    """`add`, `list` and `revoke` for the keys in `table`; `member` is the new key's name in JSON, `what` in words."""
    app = typer.Typer()
    insert: LiteralString = INSERT.replace("{table}", table)
    select: LiteralString = LIST.replace("{table}", table)
    revoked: LiteralString = REVOKE.replace("{table}", table)

    # Typer holds the functions; the type checker sees nobody call them
    @command(app, "add")
    async def add(session: Session, customer: Customer, name: Name = "default") -> Said:  # pyright: ignore[reportUnusedFunction]
        """Add a key."""
        secret = auth.new_secret()
        with on_constraint({f"{table}_customer_id_fkey": (NotFound, str(no_customer(customer)))}):
            id = await session.sql.fetchval(insert, customer, name, auth.digest(secret))
        return Said({"id": id, member: secret}, f"{what} {id} added: {secret}\n{SHOWN_ONCE}")

    @command(app, "list")
    async def list_(session: Session, customer: OfCustomer = None) -> Listed:  # pyright: ignore[reportUnusedFunction]
        """List all keys."""
        rows = await session.sql.fetch(select, customer)
        columns = {
            "ID": "id", "CUSTOMER": "customerId", "NAME": "name", "ACTIVE": "isActive", "SINCE": "createdAt",
            "REVOKED": "revokedAt",
        }  # fmt: skip
        return Listed([dict(row) for row in rows], columns)

    @command(app, "revoke")
    async def revoke(session: Session, id: Id) -> Said:  # pyright: ignore[reportUnusedFunction]
        """Revoke a key."""
        row = await session.sql.fetchrow(revoked, id)
        if row is None:
            raise Failed(f"There is no {what} {id}.")
        if row["revoked_at"] is not None:
            raise Failed(f"{what} {id} is revoked already, since {row['revoked_at']:%Y-%m-%d %H:%M} UTC.")
        return Said({"id": id}, f"{what} {id} revoked.")

    return app
