"""In charge of whose an account is: a manager is known by the provider's subject, and by nothing else once it is known.

The first time a verified address of a domain that is the provider's finds its manager; so does connecting an account
while signed in, and accepting an invitation by it. An address alone never does.
"""

from __future__ import annotations

from typing import LiteralString

from keyrack.auth import invitations, login_challenges
from keyrack.auth.authenticator import AuthenticatedManager
from keyrack.auth.invitations import AccountExists, LinkExpired
from keyrack.auth.sso.errors import NotSignedIn
from keyrack.auth.sso.id_tokens import ProviderAccount
from keyrack.auth.sso.providers import Provider
from keyrack.auth.usernames import manager_id_by_form
from keyrack.core.addresses import address_form
from keyrack.db.audit_context import Actor, acting
from keyrack.db.connection import Connection, Database, Row, Statements

KNOWN: LiteralString = """
select m.manager_id, m.subject, m.sign_outs, m.username, m.is_disabled
from manager_identity i join manager m using (manager_id) where i.provider_id = $1 and i.subject = $2
"""
# Locked, so that two who come at once are not both connected
BY_ADDRESS: LiteralString = """
select m.manager_id, m.subject, m.sign_outs, m.username, m.is_disabled from manager m
where m.manager_id = {id}
  and exists (select from provider_domain where provider_id = $1 and domain = $3)
for update
""".replace("{id}", manager_id_by_form("$2"))
BY_ID: LiteralString = """
select manager_id, subject, sign_outs, username, is_disabled from manager where manager_id = $1 for update
"""
CONNECT: LiteralString = """
insert into manager_identity (provider_id, subject, manager_id) values ($1, $2, $3) on conflict do nothing
returning identity_id
"""
OWN: LiteralString = "select true from manager_identity where provider_id = $1 and subject = $2 and manager_id = $3"
OF_SESSION: LiteralString = "select provider_id from session where hash = $1"


async def find_manager(db: Database, provider: Provider, account: ProviderAccount, who: Actor) -> AuthenticatedManager:
    """The manager whose account it is, who may be connected with it by that: `who` acts then, in its name. Raises
    `NotSignedIn`."""
    row = await db.fetchrow(KNOWN, provider.id, account.subject)
    if row is None:
        row = await _by_address(db, provider, account, who)
    if row["is_disabled"]:
        raise NotSignedIn("unknown", "the manager is disabled")
    amr = ("fed", "mfa") if account.has_mfa else ("fed",)
    return AuthenticatedManager(row["manager_id"], row["subject"], row["sign_outs"], amr, provider=provider.id)


async def _by_address(db: Database, provider: Provider, account: ProviderAccount, who: Actor) -> Row:
    if account.email is None:
        raise NotSignedIn("unknown", "nobody is connected with the account, and it has no verified address")
    form = address_form(account.email)
    domain = form.rpartition("@")[2]
    acting.set(who)
    async with db.transaction() as connection:
        row = await connection.fetchrow(BY_ADDRESS, provider.id, form, domain)
        if row is None or row["is_disabled"]:
            raise NotSignedIn("unknown", "nobody is connected with the account, or known by its address")
        if not await _connected(connection, provider, account, row["manager_id"]):
            raise NotSignedIn("unknown", "whoever has the address is connected with another account")
    return row


async def invited(
    db: Database, provider: Provider, account: ProviderAccount, who: Actor, invitation: bytes
) -> tuple[AuthenticatedManager, int]:
    """Who accepts an invitation by an account, and the customer: its manager, or somebody new, who is connected with
    the account from then on. An account does not make its holder the manager who has the invited address already.
    Raises `NotSignedIn`."""
    try:
        pending_invitation = await invitations.find_pending(db, invitation)
        if pending_invitation.manager is not None or await db.fetchrow(KNOWN, provider.id, account.subject):
            signed = await find_manager(db, provider, account, who)
            if signed.manager != pending_invitation.manager:
                raise NotSignedIn("invitation", "the invitation is to another address than that of the manager")
            acting.set(who)
            async with db.transaction() as connection:
                await invitations.accept(connection, invitation, manager=signed.manager)
            return signed, pending_invitation.customer
        acting.set(who)
        async with db.transaction() as connection:
            manager = await invitations.accept(connection, invitation, manager=None)
            if not await _connected(connection, provider, account, manager):
                raise NotSignedIn("connected", "the account was connected with somebody else meanwhile")
    except (LinkExpired, AccountExists):
        raise NotSignedIn("invitation", "the invitation is not good any more") from None
    return await find_manager(db, provider, account, who), pending_invitation.customer


async def connect(db: Database, provider: Provider, account: ProviderAccount, manager: int) -> None:
    """Connect an account with a manager who is signed in. Raises `NotSignedIn` where it is another one's, or where the
    manager has one of this provider already."""
    async with db.transaction() as connection:
        row = await connection.fetchrow(BY_ID, manager)
        if row is None or row["is_disabled"]:
            raise NotSignedIn("other", "the manager is not there any more")
        if not await _connected(connection, provider, account, manager):
            raise NotSignedIn("connected", "the account is somebody else's, or the manager has another one")


async def _connected(connection: Connection, provider: Provider, account: ProviderAccount, manager: int) -> bool:
    """Whether the account is the manager's, now or since before."""
    if await connection.fetchval(CONNECT, provider.id, account.subject, manager) is not None:
        return True
    return bool(await connection.fetchval(OWN, provider.id, account.subject, manager))


async def wants_factor(statements: Statements, signed_in: AuthenticatedManager) -> bool:
    """Whether somebody has a second factor here, and has shown none at the provider."""
    return "mfa" not in signed_in.amr and await login_challenges.has_factor(statements, signed_in.manager)


async def provider_of(statements: Statements, session: bytes) -> int | None:
    """By which provider a session was begun, of which this is the digest of its secret; None for none."""
    provider_id: int | None = await statements.fetchval(OF_SESSION, session)
    return provider_id
