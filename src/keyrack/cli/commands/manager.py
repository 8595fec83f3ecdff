"""Managers: their accounts, roles, customers and sign-in methods."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Annotated, LiteralString

import typer

from keyrack.api.permissions import Role
from keyrack.api.schema.request_body import format_timestamp
from keyrack.auth import address_proofs, invitations, owners, password_reset
from keyrack.auth.address_proofs import ProofSource
from keyrack.auth.password_hashing import SHORTEST, Passwords
from keyrack.auth.sign_in_methods import (
    APP,
    IDENTITY,
    PASSKEY,
    RECOVERY,
    SESSION,
    SignInMethod,
    remove_factors,
    sign_in_methods,
)
from keyrack.auth.usernames import MANAGERS, UNIQUE_USERNAME
from keyrack.cli import membership_options
from keyrack.cli.cell_choice import DefaultCell
from keyrack.cli.database_session import SHOWN_ONCE, DatabaseSession, command
from keyrack.cli.membership_options import Limits, OfRole, Ownerless, Whole
from keyrack.cli.name_lookup import ManagerName, reference
from keyrack.cli.options import mailbox, which, whose, words
from keyrack.cli.output import CommandFailed, CommandResult, ListResult
from keyrack.cli.server_address import note_on_link
from keyrack.core import secret_hashes
from keyrack.core.addresses import address_form, domain_form
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import Conflict, on_constraint

app = typer.Typer()

# An operator who adds a manager vouches for the address
INSERT: LiteralString = """
insert into manager (username, address_form, password_hash, proven_at, proven_by) values ($1, $2, $3, now(), 'operator')
returning manager_id
"""
UPDATE: LiteralString = """
update manager set password_hash = coalesce($2, password_hash), is_disabled = coalesce($3, is_disabled)
where manager_id = $1 returning username
"""
RENAME: LiteralString = """
update manager set username = $2, address_form = $3, has_address_conflict = false where manager_id = $1
"""
SIGN_OUT: LiteralString = """
update manager set sign_outs = sign_outs + 1 where manager_id = {id} returning manager_id as id, username
""".replace("{id}", MANAGERS.key_by_form("$1"))
DELETE: LiteralString = "delete from manager where manager_id = $1 returning username"
DISCONNECT: LiteralString = """
delete from manager_identity where manager_id = $1 and provider_id = $2 returning identity_id
"""
LIST: LiteralString = """
select manager_id as id, username, is_disabled as "isDisabled", created_at as "createdAt", proven_at as "provenAt",
  proven_by as "provenBy",
  array(select customer_id from manager_customer c where c.manager_id = m.manager_id order by 1) as customers,
  array(select coalesce(role, '-') from manager_customer c left join manager_role using (customer_id, manager_id)
    where c.manager_id = m.manager_id order by customer_id) as roles,
  array(select coalesce(array_to_string(groups, '+'), 'all') from manager_customer c
    left join manager_role using (customer_id, manager_id)
    where c.manager_id = m.manager_id order by customer_id) as groups
from manager m order by manager_id
"""
FIND: LiteralString = "select " + MANAGERS.key_by_form("$1")
PROOF: LiteralString = """
select manager_id as id, username, proven_at as "provenAt", proven_by as "provenBy" from manager where manager_id = $1
"""
NAMES = {
    PASSKEY: "passkey",
    APP: "app for codes",
    RECOVERY: "recovery codes left:",
    IDENTITY: "connected account:",
    SESSION: "session:",
}


def user_name(value: str | None) -> str | None:
    """A user name; if it is an address, its domain is valid."""
    name = words(value)
    if name is not None and "@" in name:
        try:
            domain_form(name.rpartition("@")[2])
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None
    return name


def password(value: str | None) -> str | None:
    """A password; `-` prompts for it or reads standard input, so that the process list does not show it."""
    if value == "-":
        value = getpass.getpass("Password: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")
    if value is not None and len(value) < SHORTEST:
        raise typer.BadParameter(f"has fewer than {SHORTEST} characters")
    return value


Password = Annotated[
    str | None,
    typer.Option(
        "--password",
        callback=password,
        help="The password, visible in the process list; or - to be asked for it or to pass it by standard input. It "
        "is never printed. Default: generated.",
    ),
]


def known_name(value: str) -> ManagerName:
    """The user name of a manager, which leads to the cell."""
    return ManagerName(words(value))


Manager = Annotated[int, which("manager")]
Username = Annotated[str, typer.Argument(metavar="USERNAME", callback=known_name)]


@command(app, "add")
async def add(
    session: DatabaseSession,
    username: Annotated[str, typer.Argument(metavar="USERNAME", callback=user_name)],
    customer: Annotated[list[int], whose("A customer to act for (id or name). Repeatable.")],
    role: Annotated[Role, OfRole],
    more: Annotated[list[int] | None, typer.Argument(parser=reference("customer"), hidden=True)] = None,
    group: Limits = None,
    password: Password = None,
    has_password: Annotated[
        bool, typer.Option("--with-password/--no-password", help="Allow sign-in with a password.")
    ] = True,
) -> CommandResult:
    """Add a manager for one or more customers, in a role."""
    if password and not has_password:
        raise typer.BadParameter("--password and --no-password are mutually exclusive.")
    secret = password or secret_hashes.new_secret()
    hash = await Passwords().hash(secret) if has_password else None
    with _unique(username):
        id = await session.sql.fetchval(INSERT, username, address_form(username), hash)
    customers = [*customer, *(more or [])]
    await membership_options.join(
        session, id, customers, role, await membership_options.limits(session, customers, group)
    )
    password_text = "" if password or not has_password else f"\nPassword: {secret}\n{SHOWN_ONCE}"
    shown = {} if password or not has_password else {"password": secret}
    return CommandResult({"id": id, "username": username} | shown, f"Manager {id} added: {username}.{password_text}")


@command(app, "list", default=DefaultCell.ALL)
async def list_(session: DatabaseSession) -> ListResult:
    """List all managers."""
    rows = await session.sql.fetch(LIST)
    columns = {
        "ID": "id",
        "USER NAME": "username",
        "CUSTOMERS": "customers",
        "ROLES": "roles",
        "GROUPS": "groups",
        "DISABLED": "isDisabled",
        "PROVEN BY": "provenBy",
    }
    return ListResult([dict(row) for row in rows], columns)


@command(app, "change")
async def change(
    session: DatabaseSession,
    id: Manager,
    username: Annotated[str | None, typer.Option("--username", callback=user_name, help="New user name.")] = None,
    password: Password = None,
    new_password: Annotated[bool, typer.Option("--new-password", help="Generate a new password.")] = False,
    customer: Annotated[list[int] | None, whose("A customer to act for, in the role of --role.")] = None,
    role: Annotated[Role | None, OfRole] = None,
    group: Limits = None,
    whole_fleet: Whole = False,
    remove_customer: Annotated[list[int] | None, whose("A customer to no longer act for.", "--remove-customer")] = None,
    enable: Annotated[bool | None, typer.Option("--enable/--disable", help="Allow or block sign-in and calls.")] = None,
    ownerless: Ownerless = False,
) -> CommandResult:
    """Change a manager's user name, password, customers, roles or permission to act; effective at once.

    A new password, and --disable, also end the manager's sessions.
    """
    secret = secret_hashes.new_secret() if new_password else password
    if not (username or secret or customer or remove_customer) and enable is None and role is None:
        raise typer.BadParameter("Nothing to change. --help lists the options.")
    if bool(customer) != (role is not None):
        raise typer.BadParameter("--role and --customer need each other.")
    if (group or whole_fleet) and (role is None or (group and whole_fleet)):
        raise typer.BadParameter("--group and --whole-fleet need --role, and are mutually exclusive.")
    hash = None if secret is None else await Passwords().hash(secret)
    owned = await membership_options.owned(session, id)
    if username is not None:
        with _unique(username):
            await session.sql.execute(RENAME, id, username, address_form(username))
        await password_reset.end_link(session.sql, id)  # a link mailed to the old address must not prove the new one
    username = await session.sql.fetchval(UPDATE, id, hash, None if enable is None else not enable)
    if username is None:
        raise _no_manager(id)
    if missing := await session.sql.fetch(membership_options.HELD, id, remove_customer or []):
        raise CommandFailed(f"Manager {id} does not act for customer {missing[0]['id']}.")
    await session.sql.execute(membership_options.LEAVE, id, remove_customer or [])
    if role is not None:
        groups = await membership_options.limits(session, customer or [], group)
        await membership_options.join(session, id, customer or [], role, groups, whole=whole_fleet)
    await membership_options.check_owners(session, owned, ownerless=ownerless)
    password_text = f"\nPassword: {secret}\n{SHOWN_ONCE}" if new_password else ""
    value = {"id": id, "username": username} | ({"password": secret} if new_password else {})
    return CommandResult(value, f"Manager {id} changed.{password_text}")


@command(app, "sign-out")
async def sign_out(session: DatabaseSession, username: Username) -> CommandResult:
    """Reject all tokens that a manager has got so far; the manager may log in again."""
    row = await session.sql.fetchrow(SIGN_OUT, address_form(username))
    if row is None:
        raise CommandFailed(f"There is no manager called {username}.")
    text = f"Manager {row['id']} is signed out: {row['username']}. Every token issued until now is rejected."
    return CommandResult(dict(row), text)


@command(app, "reset-factors")
async def reset_factors(session: DatabaseSession, username: Username) -> CommandResult:
    """Remove all passkeys, apps and recovery codes of a manager, and sign the manager out everywhere.

    The manager signs in with only the password again.
    """
    row = await session.sql.fetchrow(SIGN_OUT, address_form(username))
    if row is None:
        raise CommandFailed(f"There is no manager called {username}.")
    await remove_factors(session.sql, row["id"])
    text = f"The second factors of manager {row['id']} are removed, and the manager is signed out: {row['username']}."
    return CommandResult(dict(row), text)


@command(app, "remove")
async def remove(session: DatabaseSession, id: Manager, ownerless: Ownerless = False) -> CommandResult:
    """Remove a manager; the manager's tokens are rejected at once."""
    owned = await membership_options.owned(session, id)
    username = await session.sql.fetchval(DELETE, id)
    if username is None:
        raise _no_manager(id)
    await membership_options.check_owners(session, owned, ownerless=ownerless)
    return CommandResult({"id": id}, f"Manager {id} removed: {username}.")


@command(app, "invite")
async def invite(
    session: DatabaseSession,
    address: Annotated[str, typer.Argument(metavar="ADDRESS", callback=mailbox)],
    customer: Annotated[int, whose("The customer to act for (id or name).")],
    role: Annotated[Role, OfRole],
    group: Limits = None,
    mail: Annotated[bool, typer.Option("--mail", help="Also mail the link to the address.")] = False,
) -> CommandResult:
    """Invite a person to act for a customer, and print a link that works once."""
    if mail and not session.settings.sends_mail:
        raise CommandFailed("Mail is not configured. Set KEYRACK_MAIL_HOST and KEYRACK_MAIL_FROM.")
    await owners.lock_roles(session.sql, customer)
    if await session.sql.fetch(membership_options.UNKNOWN, [customer]):
        raise CommandFailed(f"There is no customer {customer}.")
    by = session.settings.brand
    try:
        groups = await membership_options.limits(session, [customer], group)
        made = await invitations.invite(session.sql, session.settings, customer, address, role, groups, by, mail=mail)
    except Conflict as refusal:
        raise CommandFailed(refusal.text) from None
    value = {"id": made.id, "link": made.link, "expires": format_timestamp(made.expires), "mailed": mail}
    return CommandResult(
        value,
        f"{address} is invited. The link is valid until {made.expires:%Y-%m-%d %H:%M} UTC:\n{made.link}\n{SHOWN_ONCE}"
        + note_on_link(session.settings),
    )


@command(app, "reset-password")
async def reset_password(session: DatabaseSession, username: Username) -> CommandResult:
    """Print a link to set a new password; it works once, and the old password stays valid until then.

    The output also lists all other sign-in methods, which stay: passkeys, the app for codes, recovery codes, accounts.
    """
    made = await password_reset.create_link(session.sql, session.settings, username)
    if made is None:
        raise CommandFailed(f"There is no enabled manager called {username}.")
    minutes = session.settings.password_link_minutes
    methods = await sign_in_methods(session.sql, made.manager)
    others = _described([method for method in methods if method.kind != SESSION])
    note = note_on_link(session.settings)
    text = f"{username} can set a password within {minutes} minutes at:\n{made.link}\n{SHOWN_ONCE}{note}"
    if others:
        text += f"\nThese also sign {username} in, and stay:{others}\nThe page of the link offers to remove them."
    return CommandResult({"link": made.link, "signInMethods": [_as_json(method) for method in methods]}, text)


@command(app, "prove")
async def prove(session: DatabaseSession, username: Username) -> CommandResult:
    """Prove a manager's address, and print a link to set a new password.

    Check first that the account belongs to the owner of the address, and give the link to that person. The command
    removes all previous sign-in methods: the password, passkeys, the app for codes, recovery codes, connected accounts,
    sessions and tokens. It changes nothing if the address is already proven.
    """
    id = await session.sql.fetchval(FIND, address_form(username))
    if id is None:
        raise CommandFailed(f"There is no manager called {username}.")
    before = await sign_in_methods(session.sql, id)
    changed = await address_proofs.prove(session.sql, id, ProofSource.OPERATOR)
    link = await password_reset.create_link(session.sql, session.settings, username) if changed else None
    row = await session.sql.fetchrow(PROOF, id)
    assert row is not None  # noqa: S101 - the row is locked
    removed = [_as_json(method) for method in before] if changed else []
    value = dict(row) | {"changed": changed, "link": link and link.link, "removed": removed}
    if not changed:
        since = f"since {row['provenAt']:%Y-%m-%d}, by {row['provenBy']}"
        return CommandResult(
            value, f"The address of {row['username']} is already proven, {since}. Nothing was changed."
        )
    text = f"The address of manager {id} is proven: {row['username']}. The password was removed"
    text += f", and so were:{_described(before)}" if before else "."
    if link is None:
        return CommandResult(value, f"{text}\nThe manager is disabled, so there is no link to set a password.")
    minutes = session.settings.password_link_minutes
    return CommandResult(
        value,
        f"{text}\n{username} can set a password within {minutes} minutes at:\n{link.link}\n{SHOWN_ONCE}"
        + note_on_link(session.settings),
    )


@command(app, "disconnect")
async def disconnect(
    session: DatabaseSession,
    id: Manager,
    provider: Annotated[
        int, typer.Option(parser=reference("provider"), metavar="ID|NAME", help="The provider of the account.")
    ],
) -> CommandResult:
    """Disconnect a manager from a provider's account, and end the sessions that used it."""
    if await session.sql.fetchval(DISCONNECT, id, provider) is None:
        raise CommandFailed(f"Manager {id} has no account of provider {provider}.")
    return CommandResult({"id": id}, f"Manager {id} is disconnected from its account of provider {provider}.")


def _as_json(method: SignInMethod) -> dict[str, object]:
    return {"kind": method.kind, "label": method.label, "address": method.address, "createdAt": method.created}


def _described(methods: Sequence[SignInMethod]) -> str:
    """A line for each method."""
    lines = (f"{NAMES[method.kind]} {method.label} {method.address or ''}".rstrip() for method in methods)
    return "".join(f"\n  {line}" for line in lines)


def _unique(username: str) -> AbstractContextManager[None]:
    """Within the block, a statement with another manager's user name raises `Conflict`."""
    error = ErrorCode("manager-exists", f"There is already a manager called {username}.")
    return on_constraint(dict.fromkeys(UNIQUE_USERNAME, (Conflict, error)))


def _no_manager(id: int) -> CommandFailed:
    return CommandFailed(f"There is no manager {id}.")
