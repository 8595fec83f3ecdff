"""Single sign-on for pages: the cookie of a pending sign-in, and its result."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from keyrack.api.rate_limits import give_back_each, loggable_address
from keyrack.auth import browser_state, sessions
from keyrack.auth.login_throttle import address_limits, take_limits
from keyrack.auth.sso import accounts, providers
from keyrack.auth.sso.errors import NotSignedIn
from keyrack.auth.sso.login_flow import SignInResult
from keyrack.auth.sso.login_states import LoginStart
from keyrack.core.metrics.catalog import LOGINS
from keyrack.core.secret_hashes import digest
from keyrack.db.audit_context import Actor, acting
from keyrack.http.page_router import Visit

log = structlog.get_logger("keyrack.logins")


@dataclass(frozen=True, slots=True)
class SsoResult:
    """The result of a sign-in: the next address, or the reason of the failure (`NotSignedIn.reason`)."""

    next: str = ""
    reason: str = ""
    is_connected: bool = False  # an account was connected instead of signing in
    customer: int | None = None  # of an accepted invitation
    needs_second_factor: bool = False  # a second factor is pending
    is_first_proof: bool = False  # of the address: all other sign-in methods were removed


async def offered(visit: Visit) -> list[tuple[str, str]]:
    """Name and label of each provider."""
    return await providers.as_json(visit.server.services.system_db)


async def begin(
    visit: Visit, name: str, next: str, time_zone: str | None, *, connect: bool = False, code: str | None = None
) -> SsoResult:
    """The provider's address for signing in, connecting an account, or accepting an invitation.

    `connect` connects the account with the signed-in manager. `code` is that of an invitation. Raises
    `TooManyRequests`, `Unavailable`.
    """
    services = visit.server.services
    services.authenticator.check()
    # Counts like a failed sign-in; a success returns it
    await take_limits(services.system_db, *address_limits(visit.settings, visit.address))
    invitation = None if code is None else digest(code)
    login_start = LoginStart(next, time_zone, visit.person.manager.id if connect else None, invitation)
    try:
        address, cookie = await services.sign_on.begin(name, _cookie(visit), login_start)
    except NotSignedIn as trouble:
        return _failed(visit, trouble)
    visit.response_headers["Set-Cookie"] = _new_cookie(visit, cookie)
    return SsoResult(address)


async def finish(visit: Visit) -> SsoResult:
    """Sign in the manager who returns from a provider, or connect the account. Raises `Unavailable`."""
    services = visit.server.services
    proven, customer, waits, is_first_proof = services.authenticator.check(), None, False, False
    try:
        result = await services.sign_on.finish(visit.query, _cookie(visit))
        if result.start.manager is not None:
            await _connect(visit, result, result.start.manager)
        else:
            actor = Actor("client", result.provider.name, None, visit.address, visit.id)
            if result.start.invitation is None:
                signed_in = await accounts.find_manager(services.system_db, result.provider, result.account, actor)
            else:
                signed_in, customer = await accounts.invited(
                    services.system_db, result.provider, result.account, actor, result.start.invitation
                )
            services.authenticator.assert_current(proven)
            is_first_proof = signed_in.is_first_proof
            waits = await accounts.wants_factor(services.system_db, signed_in)
            await (visit.begin_second_factor if waits else visit.begin_session)(signed_in, result.start.time_zone)
    except NotSignedIn as trouble:
        return _failed(visit, trouble)
    await give_back_each(services.system_db, *address_limits(visit.settings, visit.address))
    LOGINS.add("accepted")
    return SsoResult(
        result.start.next, is_connected=result.start.manager is not None, customer=customer, needs_second_factor=waits,
        is_first_proof=is_first_proof,
    )  # fmt: skip


async def _connect(visit: Visit, result: SignInResult, manager: int) -> None:
    """Connect the account, only for the manager who began it and is still signed in. Raises `NotSignedIn`."""
    services = visit.server.services
    session = await sessions.find(services.system_db, visit.secret, visit.settings) if visit.secret else None
    signed_in = await services.authentication.manager(session) if session else None
    if signed_in is None or signed_in.id != manager:
        raise NotSignedIn("other", "the manager who began to connect the account is not signed in any more")
    acting.set(Actor("manager", signed_in.name, signed_in.id, visit.address, visit.id))
    await accounts.connect(services.system_db, result.provider, result.account, manager, signed_in.sign_outs)


async def sign_out(visit: Visit) -> str | None:
    """End the browser's session. Returns the provider's sign-out address, if it has one."""
    services = visit.server.services
    provider = await accounts.provider_of(services.system_db, digest(visit.secret)) if visit.secret else None
    await visit.sign_out()
    return None if provider is None else await services.sign_on.end(provider)


def _failed(visit: Visit, trouble: NotSignedIn) -> SsoResult:
    LOGINS.add("wrong")
    log.warning(
        "single sign-on failed", address=loggable_address(visit.address), code=trouble.reason, reason=str(trouble)
    )
    return SsoResult(reason=trouble.reason)


def _name(visit: Visit) -> str:
    return "__Host-keyrack-sign-in" if visit.settings.public_url.startswith("https:") else "keyrack-sign-in"


def _cookie(visit: Visit) -> str | None:
    """The value that the browser sent; None if the cookie is repeated."""
    pairs = (pair.strip().partition("=") for pair in (visit.headers("Cookie") or "").split(";"))
    values = [value for name, _, value in pairs if name == _name(visit)]
    return values[0] if len(values) == 1 else None


def _new_cookie(visit: Visit, value: str) -> str:
    """The `Set-Cookie` of pending sign-ins.

    It must be sent with a navigation from the provider's site, which `Strict` would prevent. `__Host-` requires the
    path `/` (RFC 6265bis, section 4.1.3.2). Without that prefix, another host of the domain could set the cookie.
    """
    secure = "; Secure" if visit.settings.public_url.startswith("https:") else ""
    return f"{_name(visit)}={value}; Path=/; Max-Age={browser_state.SECONDS}; HttpOnly; SameSite=Lax{secure}"
