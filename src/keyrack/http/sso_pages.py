"""In charge of single sign-on as pages have it: the cookie that a sign-in is bound to, and what came of it."""

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
    """What came of a sign-in: where to go, or why nobody is signed in (`NotSignedIn.reason`)."""

    next: str = ""
    reason: str = ""
    is_connected: bool = False  # an account, in place of signing in
    customer: int | None = None  # of an invitation that was accepted
    needs_second_factor: bool = False  # for a second factor
    is_first_proof: bool = False  # of the address: every other way in was removed


async def offered(visit: Visit) -> list[tuple[str, str]]:
    """Name and label of each provider."""
    return await providers.as_json(visit.server.services.system_db)


async def begin(
    visit: Visit, name: str, next: str, time_zone: str | None, *, connect: bool = False, code: str | None = None
) -> SsoResult:
    """Where the browser is to go for signing in by a provider, for connecting its account with who is signed in, or
    for accepting the invitation with this code by it. Raises `TooManyRequests`, `Unavailable`."""
    services = visit.server.services
    services.authenticator.check()
    # As failed log-ins count: a success returns them
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
    """Sign in who has come back from a provider, or connect the account. Raises `Unavailable`."""
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
    """Only for who has begun it, and is still signed in. Raises `NotSignedIn`."""
    services = visit.server.services
    session = await sessions.find(services.system_db, visit.secret, visit.settings) if visit.secret else None
    signed_in = await services.authentication.manager(session) if session else None
    if signed_in is None or signed_in.id != manager:
        raise NotSignedIn("other", "whoever has begun to connect the account is not signed in any more")
    acting.set(Actor("manager", signed_in.name, signed_in.id, visit.address, visit.id))
    await accounts.connect(services.system_db, result.provider, result.account, manager, signed_in.sign_outs)


async def sign_out(visit: Visit) -> str | None:
    """End the session of the browser; where to sign out as well, if it was begun by a provider that has such a
    place."""
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
    """The value that the browser sent; of several cookies of the name none is trusted."""
    pairs = (pair.strip().partition("=") for pair in (visit.headers("Cookie") or "").split(";"))
    values = [value for name, _, value in pairs if name == _name(visit)]
    return values[0] if len(values) == 1 else None


def _new_cookie(visit: Visit, value: str) -> str:
    """The `Set-Cookie` of pending sign-ins.

    It comes back with a navigation from the provider's site, with which `Strict` would not be sent. `__Host-` admits no
    narrower path than `/` (RFC 6265bis, section 4.1.3.2); without it another host of the domain could set the cookie.
    """
    secure = "; Secure" if visit.settings.public_url.startswith("https:") else ""
    return f"{_name(visit)}={value}; Path=/; Max-Age={browser_state.SECONDS}; HttpOnly; SameSite=Lax{secure}"
