"""Single sign-on: to a provider and back, and the connected accounts."""

from __future__ import annotations

import time
from urllib.parse import quote

from keyrack.api.exchange import Response
from keyrack.console.pages.login import NEXT, offer, onward, zone
from keyrack.console.pages.settings import SECTION
from keyrack.console.rendering import base, gettext, page, plain, redirect, root, translate_error
from keyrack.core.errors import Conflict
from keyrack.core.text import N_
from keyrack.http import sso_pages
from keyrack.http.page_router import ConsolePages, Visit
from keyrack.http.sso_pages import SsoResult

pages = ConsolePages()

# Cause of a failed sign-in -> text. Unauthenticated callers get no further details
WORDS = {
    "provider": N_("The sign-in failed. Try again. If it fails again, contact the operator of this server."),
    "declined": N_("The sign-in was not finished. Nothing has changed."),
    "lapsed": N_("This sign-in has expired, or was started in another browser. Sign in again."),
    "unknown": N_("No account here belongs to this sign-in. Ask an owner at your company to invite you."),
    "connected": N_(
        "This account cannot be connected: it belongs to another person, or you have connected another one."
    ),
    "other": N_("You are no longer signed in with the account that started this. Sign in, then try again."),
    "invitation": N_("The invitation is no longer valid, or is for another person. Ask for a new one."),
    "unproven": N_(
        "This account does not prove that the invited address is yours. Sign in, then open the invitation again."
    ),
}


@pages.post("/sign-in/provider", is_public=True)
async def begin(visit: Visit) -> Response:
    name, next = visit.form_value("name"), visit.form_value("next")[:NEXT]
    return _onward(visit, await sso_pages.begin(visit, name, next, zone(visit.form_value("time_zone"))))


@pages.post("/invitation/provider", is_public=True)
async def accept(visit: Visit) -> Response:
    """Accept an invitation with an account of a provider."""
    name, code = visit.form_value("name"), visit.form_value("code")
    return _onward(visit, await sso_pages.begin(visit, name, "", zone(visit.form_value("time_zone")), code=code))


@pages.get("/sign-in/callback", is_public=True)
async def callback(visit: Visit) -> Response:
    """The address to which providers redirect."""
    outcome = await sso_pages.finish(visit)
    if outcome.reason:
        return _failed(visit, outcome)
    next = outcome.next if outcome.customer is None else f"{root(visit)}/{outcome.customer}"
    if outcome.needs_second_factor:  # from a page of this origin: the cookie is not sent from another one
        second = f"{root(visit)}/sign-in/second?next={quote(next, safe='')}"
        return onward(visit, second, gettext(visit, "Your account here also has a second factor."))
    if outcome.is_first_proof:
        target = next if outcome.customer is not None else offer(visit, outcome.next)
        return plain(visit, "proven.html", status=200, next=target, mails=visit.settings.sends_mail)
    if outcome.customer is not None:
        return redirect(next)
    return redirect(offer(visit, outcome.next) + ("?saved=connected" if outcome.is_connected else ""))


@pages.get("/{customer}/settings/accounts")
async def accounts(visit: Visit) -> Response:
    return await _accounts(visit)


async def _accounts(visit: Visit, wrong: str = "") -> Response:
    connected = (await visit.call("GET", "/me/identities", query={"$orderby": "label"})).json
    names = {account["provider"] for account in connected}
    others = [(name, label) for name, label in await sso_pages.offered(visit) if name not in names]
    return await page(
        visit, "accounts.html", status=409 if wrong else 200, section=SECTION, connected=connected,
        others=others, saved=visit.query_value("saved"), wrong=wrong,
    )  # fmt: skip


@pages.post("/{customer}/settings/accounts/connect")
async def connect(visit: Visit) -> Response:
    """Connect an account, only soon after signing in: a person at an unlocked browser cannot add an account of their
    own.
    """
    if visit.person.session.began + 60 * visit.settings.reauthentication_minutes < time.time():
        return await _accounts(visit, gettext(visit, "You signed in some time ago. Sign out and in again first."))
    next = f"{base(visit)}/settings/accounts"
    return _onward(visit, await sso_pages.begin(visit, visit.form_value("name"), next, None, connect=True))


@pages.post("/{customer}/settings/accounts/disconnect")
async def disconnect(visit: Visit) -> Response:
    try:
        await visit.call("DELETE", "/me/identities/{identityId}", visit.form_value("account"))
    except Conflict as refusal:
        return await _accounts(visit, translate_error(visit, refusal.reason))
    return redirect(f"{base(visit)}/settings/accounts?saved=disconnected")


def _onward(visit: Visit, outcome: SsoResult) -> Response:
    return _failed(visit, outcome) if outcome.reason else onward(visit, outcome.next)


def _failed(visit: Visit, outcome: SsoResult) -> Response:
    return plain(visit, "not_signed_in.html", status=403, said=gettext(visit, WORDS[outcome.reason]), back=root(visit))
