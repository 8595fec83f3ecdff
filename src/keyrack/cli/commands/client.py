"""Machine clients: programs that call the API with their own credentials, and their scopes by customer."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, LiteralString, cast

import typer

from keyrack.api.permissions import PROGRAMS
from keyrack.api.request_mode import RequestMode
from keyrack.auth import client_registry
from keyrack.auth.declarations import Mode, NewClient
from keyrack.cli.cell_choice import DefaultCell
from keyrack.cli.commands.api_key import end_of_day, last_day
from keyrack.cli.database_session import SHOWN_ONCE, DatabaseSession, command
from keyrack.cli.options import OfCustomer, which, whose, words
from keyrack.cli.output import CommandFailed, CommandResult, ListResult
from keyrack.core.error_codes import NO_CUSTOMER
from keyrack.core.errors import NotFound, on_constraint

app = typer.Typer()

LIST: LiteralString = """
select c.client_id as id, c.name, c.subject::text as "clientId", c.managed_by as "managedBy",
  not c.is_disabled as enabled, c.expires_at as expires, c.mode,
  (select max(used_at) from client_secret s where s.client_id = c.client_id) as "lastUsed",
  array(select customer_id from client_customer l where l.client_id = c.client_id order by 1) as customers,
  coalesce((select jsonb_object_agg(customer_id, to_jsonb(scopes)) from client_customer l
    where l.client_id = c.client_id), '{}') as scopes,
  array(select client_secret_id from client_secret s where s.client_id = c.client_id order by 1) as secrets
from client c
where $1::integer is null or exists (
  select from client_customer l where l.client_id = c.client_id and l.customer_id = $1)
order by c.client_id
"""
NO_SUCH_CUSTOMER = {
    "client_customer_of_customer": (NotFound, NO_CUSTOMER.with_text("There is no such customer.")),
    "client_managed_by_fkey": (NotFound, NO_CUSTOMER.with_text("There is no such customer.")),
}


def scopes_of(values: list[str] | None) -> list[str] | None:
    """The scopes of the options; one option may name several, separated by spaces or commas."""
    if values is None:
        return None
    named = [name for value in values for name in value.replace(",", " ").split()]
    if unknown := [name for name in named if name not in PROGRAMS]:
        raise typer.BadParameter(f"{unknown[0]!r} is not a scope of clients; `keyrack roles` lists the permissions")
    return named


Client = Annotated[int, which("client")]
Scopes = typer.Option(
    "--scope", metavar="SCOPE", callback=scopes_of,
    help="A permission in the given customers, such as cars:read. Repeatable.",
)  # fmt: skip
ModeOption = Annotated[
    RequestMode | None,
    typer.Option("--mode", help="How its requests are handled: by the spec alone, or with strict checks and errors."),
]
Expires = typer.Option("--expires", metavar="YYYY-MM-DD", callback=last_day, help="Last day of validity (UTC).")


@command(app, "add")
async def add(
    session: DatabaseSession,
    name: Annotated[str, typer.Argument(metavar="NAME", callback=words, help="The program and its purpose.")],
    customer: Annotated[list[int], whose("A customer to act for (id or name). Repeatable.")],
    scope: Annotated[list[str], Scopes],
    expires: Annotated[str | None, Expires] = None,
    managed_by: Annotated[
        int | None, whose("The customer whose owners also manage it. Default: only the operator.", "--managed-by")
    ] = None,
    mode: ModeOption = None,
) -> CommandResult:
    """Add a machine client for one or more customers, with its scopes there; the secret is shown once."""
    with on_constraint(NO_SUCH_CUSTOMER):
        # Checked by the options
        client = NewClient.model_construct(
            name=name, scopes=scope, expires=_end(expires), mode=cast("Mode", str(mode or RequestMode.STRICT))
        )
        made = await client_registry.add(session.sql, managed_by, client, session.settings.client_limit)
        if made is None:
            raise CommandFailed(f"Customer {managed_by} has reached its limit of clients (KEYRACK_CLIENT_LIMIT).")
        for customer_id in customer:
            await client_registry.grant_role(session.sql, customer_id, made.id, scope)
    value = {"id": made.id, "clientId": str(made.subject), "clientSecret": made.secret}
    text = f"Client {made.id} added: {name}.\nClient id: {made.subject}\nClient secret: {made.secret}\n{SHOWN_ONCE}"
    return CommandResult(value, text)


@command(app, "list", default=DefaultCell.ALL)
async def list_(session: DatabaseSession, customer: OfCustomer = None) -> ListResult:
    """List machine clients, with their customers and last use."""
    rows = await session.sql.fetch(LIST, customer)
    columns = {
        "ID": "id", "NAME": "name", "CLIENT ID": "clientId", "CUSTOMERS": "customers", "ENABLED": "enabled",
        "EXPIRES": "expires", "MODE": "mode", "LAST USED": "lastUsed", "SECRETS": "secrets",
    }  # fmt: skip
    return ListResult([dict(row) for row in rows], columns)


@command(app, "change")
async def change(
    session: DatabaseSession,
    id: Client,
    name: Annotated[str | None, typer.Option("--name", callback=words, help="New name.")] = None,
    customer: Annotated[list[int] | None, whose("A customer to act for, with exactly the given scopes.")] = None,
    scope: Annotated[list[str] | None, Scopes] = None,
    remove_customer: Annotated[list[int] | None, whose("A customer to no longer act for.", "--remove-customer")] = None,
    expires: Annotated[str | None, Expires] = None,
    never: Annotated[bool, typer.Option("--never-expires", help="Remove the expiry date.")] = False,
    enable: Annotated[bool | None, typer.Option("--enable/--disable", help="Allow or block its calls.")] = None,
    mode: ModeOption = None,
) -> CommandResult:
    """Change a machine client: name, scopes, expiry, mode or permission to call. The change is effective at once."""
    if not (name or customer or remove_customer or expires or never or enable is not None or scope or mode):
        raise typer.BadParameter("Nothing to change. --help lists the options.")
    if bool(customer) != bool(scope):
        raise typer.BadParameter("--scope and --customer need each other.")
    if expires and never:
        raise typer.BadParameter("--expires and --never-expires are mutually exclusive.")
    end = _end(expires)
    given = {"name": name, "enabled": enable, "expires": end and end.isoformat(), "mode": mode and str(mode)}
    changes = {member: value for member, value in given.items() if value is not None or (never and member == "expires")}
    current_name = await client_registry.change(session.sql, id, changes)
    if current_name is None:
        raise _no_client(id)
    for customer_id in remove_customer or []:
        if not await session.sql.fetchval(client_registry.TAKE, customer_id, id):
            raise CommandFailed(f"Client {id} does not act for customer {customer_id}.")
    with on_constraint(NO_SUCH_CUSTOMER):
        for customer_id in customer or []:
            await client_registry.grant_role(session.sql, customer_id, id, scope or [])
    return CommandResult({"id": id, "name": current_name}, f"Client {id} changed.")


@command(app, "new-secret")
async def new_secret(session: DatabaseSession, id: Client) -> CommandResult:
    """Add a second secret to a machine client; the old one stays valid until it is removed."""
    if await session.sql.fetchrow(client_registry.ONE, id) is None:
        raise _no_client(id)
    added = await client_registry.add_secret(session.sql, id)
    if added is None:
        raise CommandFailed(f"Client {id} already has two secrets. Remove the unused one first.")
    text = f"Secret {added.id} of client {id} added: {added.secret}\n{SHOWN_ONCE}"
    return CommandResult({"id": id, "secretId": added.id, "clientSecret": added.secret}, text)


@command(app, "remove-secret")
async def remove_secret(
    session: DatabaseSession,
    id: Client,
    secret: Annotated[int, typer.Argument(min=1, metavar="SECRET", help="Number of the secret, from `client list`.")],
) -> CommandResult:
    """Remove a secret of a machine client; the secret and the tokens issued for it are rejected at once."""
    if not await session.sql.fetchval(client_registry.WITHOUT, id, secret):
        raise CommandFailed(f"Client {id} has no secret {secret}.")
    return CommandResult({"id": id, "secretId": secret}, f"Secret {secret} of client {id} removed.")


@command(app, "remove")
async def remove(session: DatabaseSession, id: Client) -> CommandResult:
    """Remove a machine client; its tokens are rejected at once."""
    name = await client_registry.remove(session.sql, id)
    if name is None:
        raise _no_client(id)
    return CommandResult({"id": id}, f"Client {id} removed: {name}.")


def _end(day: str | None) -> datetime | None:
    return None if day is None else end_of_day(day)


def _no_client(id: int) -> CommandFailed:
    return CommandFailed(f"There is no client {id}.")
