"""Accounts of single sign-on, identified by the provider's subject.

An account is connected with a manager in one of three ways:

- at the first sign-in, by a verified address in a domain of the provider;
- by a signed-in manager;
- with an invitation.

After that only the subject counts. An address alone is never enough.
"""

from __future__ import annotations

from dataclasses import replace
from typing import LiteralString

from keyrack.auth import address_proofs, invitations, login_challenges
from keyrack.auth.address_proofs import AddressUnproven, ProofSource
from keyrack.auth.authenticator import AuthenticatedManager
from keyrack.auth.invitations import AccountExists, LinkExpired, OtherAddress
from keyrack.auth.sso.errors import NotSignedIn
from keyrack.auth.sso.id_tokens import ProviderAccount
from keyrack.auth.sso.providers import Provider
from keyrack.auth.usernames import MANAGERS
from keyrack.core.addresses import address_form
from keyrack.db.audit_context import Actor, acting
from keyrack.db.connection import Connection, Database, Row, Statements

KNOWN: LiteralString = """
select m.manager_id, m.subject, m.sign_outs, m.username, m.is_disabled
from manager_identity i join manager m using (manager_id) where i.provider_id = $1 and i.subject = $2
"""
# Locked, so that two concurrent accounts are not both connected
BY_ADDRESS: LiteralString = """
select m.manager_id, m.username, m.is_disabled, m.proven_at is not null as is_proven,
  i.identity_id is not null as has_identity, i.address as identity_address
from manager m left join manager_identity i on i.manager_id = m.manager_id and i.provider_id = $1
where m.manager_id = {id}
  and exists (select from provider_domain where provider_id = $1 and domain = $3)
for update of m
""".replace("{id}", MANAGERS.key_by_form("$2"))
BY_ID: LiteralString = """
select manager_id, subject, sign_outs, username, is_disabled from manager where manager_id = $1 for update
"""
CONNECT: LiteralString = """
insert into manager_identity (provider_id, subject, manager_id, address) values ($1, $2, $3, $4)
on conflict do nothing returning identity_id
"""
OWN: LiteralString = "select true from manager_identity where provider_id = $1 and subject = $2 and manager_id = $3"
IS_LISTED: LiteralString = "select exists (select from provider_domain where provider_id = $1 and domain = $2)"
OF_SESSION: LiteralString = "select provider_id from session where hash = $1"


async def find_manager(
    db: Database, provider: Provider, account: ProviderAccount, actor: Actor
) -> AuthenticatedManager:
    """The manager of an account, connected now if the address allows it.

    The change log records `actor` for such a connection. Raises `NotSignedIn`.
    """
    row = await db.fetchrow(KNOWN, provider.id, account.subject)
    is_first_proof = False
    if row is None:
        acting.set(actor)
        async with db.transaction() as connection:
            row, is_first_proof = await _by_address(connection, provider, account)
    if row["is_disabled"]:
        raise NotSignedIn("unknown", "the manager is disabled")
    amr = ("fed", "mfa") if account.has_mfa else ("fed",)
    return AuthenticatedManager(
        row["manager_id"], row["subject"], row["sign_outs"], amr, provider=provider.id, is_first_proof=is_first_proof
    )


async def _by_address(connection: Connection, provider: Provider, account: ProviderAccount) -> tuple[Row, bool]:
    """Connect the account with the manager of its verified address.

    Returns the manager, and whether that was the first proof of the address. After a first proof the account is the
    only sign-in method. Raises `NotSignedIn`.
    """
    if account.email is None:
        raise NotSignedIn("unknown", "no manager is connected with the account, and it has no verified address")
    form = address_form(account.email)
    row = await connection.fetchrow(BY_ADDRESS, provider.id, form, form.rpartition("@")[2])
    if row is None or row["is_disabled"]:
        raise NotSignedIn("unknown", "no manager is connected with the account, and its address finds no enabled one")
    # An identity with the manager's address stays, perhaps that of a colleague who had the address before. A first
    # proof removes one with another address
    is_first_proof = not row["is_proven"] and not _has_own_identity(row)
    if is_first_proof:
        await address_proofs.prove(connection, row["manager_id"], ProofSource.PROVIDER)
    if not await _connected(connection, provider, account, row["manager_id"]):
        raise NotSignedIn("unknown", "the manager with this address is connected with another account")
    connected = await connection.fetchrow(BY_ID, row["manager_id"])
    assert connected is not None  # noqa: S101 - it is locked
    return connected, is_first_proof


def _has_own_identity(row: Row) -> bool:
    """Whether the manager has an identity of the provider with this address.

    An unknown address counts as the same.
    """
    address = row["identity_address"]
    is_own = address is None or address_form(address) == address_form(row["username"])
    return row["has_identity"] and is_own


async def invited(
    db: Database, provider: Provider, account: ProviderAccount, actor: Actor, invitation: bytes
) -> tuple[AuthenticatedManager, int]:
    """The manager who accepts an invitation by an account, and the customer.

    The manager is the account's, or a new one, and connected with the account from then on. An account gives no access
    to an existing manager of the invited address, unless the link was mailed and proves the address. Raises
    `NotSignedIn`.
    """
    try:
        acting.set(actor)
        async with db.transaction() as connection:
            pending_invitation = await invitations.find_pending(connection, invitation)
            manager_row = await _locked(connection, provider, account)
            if manager_row is None and not pending_invitation.sets_way_in:
                manager_row, _ = await _by_address(connection, provider, account)
            if manager_row is not None and manager_row["manager_id"] != pending_invitation.manager:
                raise NotSignedIn("invitation", "the invitation is for another address than the manager's")
            proof, other = await _compare(connection, provider, account, pending_invitation.address)
            manager = await invitations.accept(
                connection,
                invitation,
                manager=None if manager_row is None else pending_invitation.manager,
                proof=proof,
                other=other,
            )
            if not await _connected(connection, provider, account, manager):
                raise NotSignedIn("connected", "the account is another manager's, or the manager has another account")
    except LinkExpired:
        raise NotSignedIn("invitation", "the invitation is no longer valid") from None
    except AccountExists:
        raise NotSignedIn(
            "unknown", "an account of the invited address was created meanwhile, or is disabled"
        ) from None
    except AddressUnproven:
        raise NotSignedIn("unproven", "the address of the invited manager is not proven") from None
    signed_in = await find_manager(db, provider, account, actor)
    is_first_proof = pending_invitation.manager is not None and not pending_invitation.is_proven
    return replace(signed_in, is_first_proof=is_first_proof), pending_invitation.customer


async def _locked(connection: Connection, provider: Provider, account: ProviderAccount) -> Row | None:
    """Lock the manager connected with the account; None without one.

    Raises `NotSignedIn` if a concurrent proof has removed the account.
    """
    manager_row = await connection.fetchrow(KNOWN, provider.id, account.subject)
    if manager_row is None:
        return None
    await address_proofs.lock(connection, manager_row["manager_id"])
    if not await connection.fetchval(OWN, provider.id, account.subject, manager_row["manager_id"]):
        raise NotSignedIn("unknown", "the account is no longer connected with a manager")
    return manager_row


async def _compare(
    connection: Connection, provider: Provider, account: ProviderAccount, address: str
) -> tuple[ProofSource | None, OtherAddress | None]:
    """The proof of the invited address, or the note about another address."""
    form = address_form(address)
    if account.email is None or address_form(account.email) != form:
        return None, OtherAddress(provider.name, account.email)
    is_listed = await connection.fetchval(IS_LISTED, provider.id, form.rpartition("@")[2])
    return (ProofSource.PROVIDER if is_listed else None), None


async def connect(db: Database, provider: Provider, account: ProviderAccount, manager: int, sign_outs: int) -> None:
    """Connect an account with a manager.

    `sign_outs` counts the manager's sign-outs before the sign-in. Raises `NotSignedIn` if the manager was signed out
    since, if the account is another manager's, or if the manager has an account of this provider already.
    """
    async with db.transaction() as connection:
        row = await connection.fetchrow(BY_ID, manager)
        if row is None or row["is_disabled"] or row["sign_outs"] != sign_outs:
            raise NotSignedIn("other", "the manager was removed, disabled or signed out")
        if not await _connected(connection, provider, account, manager):
            raise NotSignedIn("connected", "the account is another manager's, or the manager has another account")


async def _connected(connection: Connection, provider: Provider, account: ProviderAccount, manager: int) -> bool:
    """Connect the account if it is free. Returns whether it is the manager's."""
    if await connection.fetchval(CONNECT, provider.id, account.subject, manager, account.email or "") is not None:
        return True
    return bool(await connection.fetchval(OWN, provider.id, account.subject, manager))


async def wants_factor(statements: Statements, signed_in: AuthenticatedManager) -> bool:
    """Whether the manager has a second factor here, and used none there."""
    return "mfa" not in signed_in.amr and await login_challenges.has_factor(statements, signed_in.manager)


async def provider_of(statements: Statements, session: bytes) -> int | None:
    """The provider's id by which a session was begun, or None.

    `session` is the digest of the session's secret.
    """
    provider_id: int | None = await statements.fetchval(OF_SESSION, session)
    return provider_id
