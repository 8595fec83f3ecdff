"""In charge of single sign-on as pages have it: the cookie that a sign-in is bound to, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from keyrack.api.rate_limits import RateLimit, network, shown
from keyrack.auth import sessions
from keyrack.auth.sso import accounts, providers
from keyrack.auth.sso.errors import NotSignedIn
from keyrack.auth.sso.login_flow import SignInResult
from keyrack.auth.sso.login_states import SECONDS, LoginStart
from keyrack.core.errors import TooManyRequests
from keyrack.core.metrics.catalog import LOGINS
from keyrack.core.secret_hashes import digest, new_secret
from keyrack.db.audit_context import Actor, acting
from keyrack.http.page_router import Visit

log = structlog.get_logger("keyrack.logins")

SECRET = 43  # characters of the cookie


@dataclass(frozen=True, slots=True)
class SsoResult:
    """What came of a sign-in: where to go, or why nobody is signed in (`NotSignedIn.why`)."""

    next: str = ""
    why: str = ""
    connected: bool = False  # an account, in place of signing in
    customer: int | None = None  # of an invitation that was accepted
    waits: bool = False  # for a second factor


async def offered(visit: Visit) -> list[tuple[str, str]]:
    """Name and label of each provider."""
    return await providers.as_json(visit.server.process.own)


async def begin(
    visit: Visit, name: str, next: str, time_zone: str | None, *, connect: bool = False, code: str | None = None
) -> SsoResult:
    """Where the browser is to go for signing in by a provider, for connecting its account with who is signed in, or
    for accepting the invitation with this code by it. Raises `TooManyRequests`, `Unavailable`."""
    process = visit.server.process
    process.access.check()
    limit, whose = _limit(visit)
    try:
        await limit.take(process.own, whose)
    except TooManyRequests:
        LOGINS.add("limited")
        raise
    browser = _browser(visit) or new_secret()
    invitation = None if code is None else digest(code)
    login_start = LoginStart(next, time_zone, visit.person.manager.id if connect else None, invitation)
    try:
        address = await process.sign_on.begin(name, browser, login_start)
    except NotSignedIn as trouble:
        return _failed(visit, trouble)
    visit.told["Set-Cookie"] = _cookie(visit, browser)
    return SsoResult(address)


async def finish(visit: Visit) -> SsoResult:
    """Sign in who has come back from a provider, or connect the account. Raises `Unavailable`."""
    process = visit.server.process
    proven, customer, waits = process.access.check(), None, False
    try:
        came = await process.sign_on.finish(visit.query, _browser(visit))
        if came.asked.manager is not None:
            await _connect(visit, came, came.asked.manager)
        else:
            who = Actor("client", came.provider.name, None, visit.address, visit.id)
            if came.asked.invitation is None:
                signed_in = await accounts.find_manager(process.own, came.provider, came.account, who)
            else:
                signed_in, customer = await accounts.invited(
                    process.own, came.provider, came.account, who, came.asked.invitation
                )
            process.access.hold(proven)
            waits = await accounts.wants_factor(process.own, signed_in)
            await (visit.wait if waits else visit.begin)(signed_in, came.asked.time_zone)
    except NotSignedIn as trouble:
        return _failed(visit, trouble)
    limit, whose = _limit(visit)
    await limit.give_back(process.own, whose)
    LOGINS.add("accepted")
    return SsoResult(came.asked.next, connected=came.asked.manager is not None, customer=customer, waits=waits)


async def _connect(visit: Visit, came: SignInResult, manager: int) -> None:
    """Only for who has begun it, and is still signed in. Raises `NotSignedIn`."""
    process = visit.server.process
    session = await sessions.find(process.own, visit.secret, visit.settings) if visit.secret else None
    who = await process.access.acting(session.subject, session.amr, session.began) if session else None
    if who is None or who.id != manager:
        raise NotSignedIn("other", "whoever has begun to connect the account is not signed in any more")
    acting.set(Actor("manager", who.name, who.id, visit.address, visit.id))
    await accounts.connect(process.own, came.provider, came.account, manager)


async def sign_out(visit: Visit) -> str | None:
    """End the session of the browser; where to sign out as well, if it was begun by a provider that has such a
    place."""
    process = visit.server.process
    provider = await accounts.provider_of(process.own, digest(visit.secret)) if visit.secret else None
    await visit.sign_out()
    return None if provider is None else await process.sign_on.end(provider)


def _failed(visit: Visit, trouble: NotSignedIn) -> SsoResult:
    LOGINS.add("wrong")
    log.warning("single sign-on failed", address=shown(visit.address), code=trouble.why, reason=str(trouble))
    return SsoResult(why=trouble.why)


def _limit(visit: Visit) -> tuple[RateLimit, str]:
    """How many may be begun from an address: what failed log-ins take from as well, given back by who comes in."""
    settings = visit.settings
    return RateLimit("address", settings.login_rate_per_address, settings.login_burst_per_address), network(
        visit.address
    )


def _name(visit: Visit) -> str:
    return "__Host-keyrack-sign-in" if visit.settings.public_url.startswith("https:") else "keyrack-sign-in"


def _browser(visit: Visit) -> str | None:
    """The secret that the browser sent; of several cookies of the name none is trusted."""
    pairs = (pair.strip().partition("=") for pair in (visit.headers("Cookie") or "").split(";"))
    values = [value for name, _, value in pairs if name == _name(visit)]
    return values[0] if len(values) == 1 and len(values[0]) == SECRET else None


def _cookie(visit: Visit, secret: str) -> str:
    """It comes back from the provider: a navigation from another site, with which `Strict` would not be sent."""
    secure = "; Secure" if visit.settings.public_url.startswith("https:") else ""
    return f"{_name(visit)}={secret}; Path=/; Max-Age={SECONDS}; HttpOnly; SameSite=Lax{secure}"
