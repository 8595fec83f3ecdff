"""In charge of what somebody does by a link that they were sent: accept an invitation, or set a password anew."""

from __future__ import annotations

from keyrack.api.rate_limits import RateLimit, network, take_each
from keyrack.auth import invitations, password_reset, sessions
from keyrack.auth.invitations import AccountExists, InvitationPreview, LinkExpired
from keyrack.core.addresses import address_form
from keyrack.core.secret_hashes import digest
from keyrack.db.audit_context import Actor, acting
from keyrack.http.page_router import Visit

__all__ = [
    "AccountExists",
    "LinkExpired",
    "accept",
    "check_password_link",
    "forgot",
    "invitation",
    "set_password",
    "signed_in_as",
]


async def invitation(visit: Visit, code: str) -> InvitationPreview:
    """What the link is good for. Raises `LinkOver`."""
    return await invitations.find_pending(visit.server.process.own, digest(code))


async def signed_in_as(visit: Visit, name: str) -> bool:
    """Whether the browser is signed in as the manager of this name."""
    process = visit.server.process
    session = await sessions.find(process.own, visit.secret, visit.settings) if visit.secret else None
    return session is not None and address_form(session.username) == address_form(name)


async def accept(visit: Visit, code: str, password: str) -> int:
    """Accept an invitation: with the account that the browser is signed in to, or as somebody new, with this password.
    The customer. Raises `LinkOver`, and `AccountThere` where there is one of that name that is not signed in."""
    process = visit.server.process
    invited = await invitation(visit, code)
    if invited.manager is not None and not await signed_in_as(visit, invited.address):
        raise AccountExists
    is_new = invited.manager is None
    hash = await process.access.passwords.hash(password, ("address", network(visit.address))) if is_new else None
    acting.set(Actor("manager", invited.address, invited.manager, visit.address, visit.id))
    async with process.own.transaction() as connection:
        await invitations.accept(connection, digest(code), manager=invited.manager, password_hash=hash)
    if is_new:
        await visit.begin(await visit.sign_in(invited.address, password), None)
    return invited.customer


async def forgot(visit: Visit, address: str) -> None:
    """Have a link sent, if the address is somebody's; it takes the same time if it is nobody's. Raises
    `TooManyRequests`."""
    settings, own = visit.settings, visit.server.process.own
    limit = RateLimit(
        "forgot", settings.login_rate_per_username_and_address, settings.login_burst_per_username_and_address
    )
    await take_each(own, (limit, network(visit.address)), (limit, digest(address_form(address)).hex()))
    if settings.sends_mail:
        await password_reset.request_link(own, settings, address)


async def check_password_link(visit: Visit, code: str) -> None:
    """Raises `LinkOver`."""
    await password_reset.check(visit.server.process.own, code)


async def set_password(visit: Visit, code: str, password: str) -> None:
    """Set the password of whose link it is. Every session and token of the account is over. Raises `LinkOver`."""
    process = visit.server.process
    await check_password_link(visit, code)
    hash = await process.access.passwords.hash(password, ("address", network(visit.address)))
    acting.set(Actor("manager", None, None, visit.address, visit.id))
    async with process.own.transaction() as connection:
        await password_reset.reset_with_link(connection, code, hash)
