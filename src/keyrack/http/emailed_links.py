"""Links in mails: accept an invitation, or set a new password."""

from __future__ import annotations

from collections.abc import Collection

from keyrack.api.rate_limits import HOUR, RateLimit, network, per_network, take_each
from keyrack.auth import address_proofs, invitations, password_reset, sessions, sign_in_methods
from keyrack.auth.address_proofs import AddressUnproven
from keyrack.auth.invitations import AccountExists, InvitationPreview, LinkExpired
from keyrack.auth.login import check_code
from keyrack.auth.password_reset import PasswordLink
from keyrack.auth.sign_in_methods import SECOND_FACTORS, SESSION, SignInMethod
from keyrack.core.addresses import address_form
from keyrack.core.secret_hashes import digest
from keyrack.db.audit_context import Actor, acting
from keyrack.db.connection import Statements
from keyrack.http.page_router import Visit

__all__ = [
    "SECOND_FACTORS",
    "SESSION",
    "AccountExists",
    "AddressUnproven",
    "InvitationPreview",
    "LinkExpired",
    "PasswordLink",
    "SignInMethod",
    "accept",
    "forgot",
    "invitation",
    "mail_proof",
    "password_link",
    "set_password",
    "signed_in_as",
]


async def invitation(visit: Visit, code: str) -> InvitationPreview:
    """The invitation of the link. Raises `LinkExpired`."""
    return await invitations.find_pending(visit.server.services.system_db, digest(code))


async def signed_in_as(visit: Visit, name: str, statements: Statements | None = None) -> bool:
    """Whether the browser is signed in as the manager of this name.

    `statements` is the caller's transaction, if it has one.
    """
    statements = statements or visit.server.services.system_db
    session = await sessions.find(statements, visit.secret, visit.settings) if visit.secret else None
    return session is not None and address_form(session.username) == address_form(name)


async def accept(visit: Visit, code: str, password: str, time_zone: str | None) -> int:
    """Accept an invitation, and return its customer.

    The account is the one that the browser is signed in to, a new one with this password, or one whose address the link
    proves. `time_zone` is the browser's. Raises `LinkExpired`. Raises `AccountExists` if the account exists and is not
    signed in, and `AddressUnproven` if its address is not proven.
    """
    services = visit.server.services
    invited = await invitation(visit, code)
    signed_in = invited.manager if await signed_in_as(visit, invited.address) else None
    if signed_in is None and not invited.sets_way_in:
        raise AccountExists
    hash = None
    if invited.sets_way_in:
        hash = await services.authenticator.passwords.hash(password, ("address", network(visit.address)))
    acting.set(Actor("manager", invited.address, invited.manager, visit.address, visit.id))
    async with services.system_db.transaction() as connection:
        if signed_in is not None:  # another proof may end the session meanwhile
            await address_proofs.lock(connection, signed_in)
            signed_in = signed_in if await signed_in_as(visit, invited.address, connection) else None
        await invitations.accept(connection, digest(code), manager=signed_in, password_hash=hash)
    if invited.sets_way_in:
        await visit.begin_session(await visit.sign_in(invited.address, password), time_zone)
    return invited.customer


async def mail_proof(visit: Visit, code: str) -> bool:
    """Mail a link of the invitation to the address of the signed-in manager; False if the server sends no mail.

    Raises `LinkExpired`, `AccountExists` if the browser is not signed in with the address, and `TooManyRequests`.
    """
    invited = await invitation(visit, code)
    if not await signed_in_as(visit, invited.address):
        raise AccountExists
    await _take(visit, invited.address)
    if visit.settings.sends_mail:
        await invitations.request_mail(visit.server.services.system_db, visit.settings, invited)
    return visit.settings.sends_mail


async def forgot(visit: Visit, address: str) -> None:
    """Send a link if the address belongs to an account. Takes the same time if it does not.

    Raises `TooManyRequests`.
    """
    settings, own = visit.settings, visit.server.services.system_db
    await _take(visit, address)
    if settings.sends_mail:
        await password_reset.request_link(own, settings, address)


async def _take(visit: Visit, address: str) -> None:
    """Take from the rate limits of mails for this network and this address. Raises `TooManyRequests`."""
    settings = visit.settings
    limit = RateLimit(
        "forgot", settings.login_rate_per_username_and_address, settings.login_burst_per_username_and_address
    )
    rate, burst = settings.password_mails_per_hour_per_address, settings.password_mail_burst_per_address
    of_address = RateLimit("forgot", rate, burst, HOUR), digest(address_form(address)).hex()
    await take_each(visit.server.services.system_db, *per_network(limit, visit.address), of_address)


async def password_link(visit: Visit, code: str) -> tuple[PasswordLink, list[SignInMethod]]:
    """The open link with this code, and its manager's other sign-in methods. Raises `LinkExpired`."""
    own = visit.server.services.system_db
    link = await password_reset.find_link(own, code)
    return link, await sign_in_methods.sign_in_methods(own, link.manager)


async def set_password(visit: Visit, code: str, password: str, remove: Collection[str], factor_code: str) -> None:
    """Set the password by a link, and remove the sign-in methods with these keys.

    Every session and token of the account ends. Removing a second factor takes a code of the app or a recovery code,
    because a mailbox alone does not replace a second factor. Raises `LinkExpired`, `WrongCredentials` for a wrong code,
    and `TooManyRequests`.
    """
    services = visit.server.services
    link, methods = await password_link(visit, code)
    chosen = [method for method in methods if method.key in remove]
    if not link.is_first_proof and any(method.kind in SECOND_FACTORS for method in chosen):
        await check_code(
            services.system_db,
            services.authenticator,
            visit.settings,
            link.manager,
            link.username,
            factor_code,
            visit.address,
        )
    hash = await services.authenticator.passwords.hash(password, ("address", network(visit.address)))
    acting.set(Actor("manager", link.username, link.manager, visit.address, visit.id))
    async with services.system_db.transaction() as connection:
        await password_reset.reset_with_link(connection, code, hash, chosen)
