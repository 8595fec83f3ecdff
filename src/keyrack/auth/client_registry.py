"""Machine clients in the database: creation, scopes, changes and secrets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

from keyrack.auth.client_authentication import new_secret
from keyrack.auth.declarations import CLIENTS, NewClient
from keyrack.core.secret_hashes import digest
from keyrack.db.connection import Statements

SECRETS = 2  # at a time: one in use, and its successor

# Creations for one customer are serialised, so that none exceeds the limit
LOCK: LiteralString = "select true from customer where customer_id = $1 for no key update"
COUNT: LiteralString = "select count(*) from client where managed_by = $1"
INSERT: LiteralString = (
    "insert into client (managed_by, " + CLIENTS.columns + ") values ($1, " + CLIENTS.parameters(2) + ")"
    " returning client_id, subject"
)  # fmt: skip
GIVE: LiteralString = """
insert into client_customer (customer_id, client_id, scopes) values ($1, $2, $3)
on conflict (customer_id, client_id) do update set scopes = excluded.scopes
where client_customer.scopes is distinct from excluded.scopes
"""
TAKE: LiteralString = "delete from client_customer where customer_id = $1 and client_id = $2 returning true"
# Secrets first: the change log records them in the customer of their client
REMOVE: LiteralString = "delete from client where client_id = $1 returning name"
WITHOUT_ANY: LiteralString = "delete from client_secret where client_id = $1"
OF_CUSTOMER: LiteralString = """
select c.managed_by as manages, c.name from client c join client_customer l using (client_id)
where l.customer_id = $1 and l.client_id = $2 for update of c
"""
ONE: LiteralString = "select managed_by as manages, name from client where client_id = $1 for update"
UPDATE: LiteralString = "update client set " + CLIENTS.assignments("$2") + " where client_id = $1 returning name"
HELD: LiteralString = "select count(*) from client_secret where client_id = $1"
ANOTHER: LiteralString = """
insert into client_secret (client_id, managed_by, hash) select client_id, managed_by, $2 from client
where client_id = $1 returning client_secret_id
"""
WITHOUT: LiteralString = """
delete from client_secret where client_id = $1 and client_secret_id = $2 returning true
"""


class CreatedClient(NamedTuple):
    """A new client. Its secret is shown once."""

    id: int
    subject: UUID
    secret: str


class Secret(NamedTuple):
    """A new secret. It is shown once."""

    id: int
    secret: str


async def add(connection: Statements, customer: int | None, client: NewClient, most: int) -> CreatedClient | None:
    """Create a client that the customer manages, or the operator (None).

    Returns None if the customer has `most` clients already.
    """
    if customer is not None:
        await connection.fetchval(LOCK, customer)
        if await connection.fetchval(COUNT, customer) >= most:
            return None
    row = await connection.fetchrow(INSERT, customer, *CLIENTS.values(client))
    assert row is not None  # noqa: S101 - an insert without a condition
    secret = await add_secret(connection, row["client_id"])
    assert secret is not None  # noqa: S101 - it is the first
    return CreatedClient(row["client_id"], row["subject"], secret.secret)


async def grant_role(connection: Statements, customer: int, client: int, scopes: Sequence[str]) -> None:
    """Set the scopes of the client in the customer."""
    await connection.execute(GIVE, customer, client, sorted(set(scopes)))


async def change(connection: Statements, client: int, changes: Mapping[str, Any]) -> str | None:
    """Change fields of the client, given by their JSON values.

    Returns its name, or None if there is no such client.
    """
    return await connection.fetchval(UPDATE, client, changes)


async def add_secret(connection: Statements, client: int) -> Secret | None:
    """Add a secret. Returns None if the client has two.

    Runs in the caller's transaction, which has the client's row locked.
    """
    if await connection.fetchval(HELD, client) >= SECRETS:
        return None
    secret = new_secret()
    return Secret(await connection.fetchval(ANOTHER, client, digest(secret)), secret)


async def remove(connection: Statements, client: int) -> str | None:
    """Delete the client, and so remove it from all of its customers.

    Returns its name, or None if there is no such client.
    """
    await connection.execute(WITHOUT_ANY, client)
    return await connection.fetchval(REMOVE, client)
