"""Pages of mailed links: accept an invitation, set a new password, and request a link."""

from __future__ import annotations

from collections import Counter

from keyrack.api.exchange import Response
from keyrack.console.forbidden import NAMES
from keyrack.console.pages.login import zone
from keyrack.console.pages.settings import browser_name
from keyrack.console.rendering import gettext, plain, redirect, root, translate_error
from keyrack.core.errors import Refusal, TooManyRequests, WrongCredentials
from keyrack.core.text import N_
from keyrack.http import emailed_links, sso_pages
from keyrack.http.emailed_links import (
    SECOND_FACTORS,
    SESSION,
    AccountExists,
    AddressUnproven,
    InvitationPreview,
    LinkExpired,
)
from keyrack.http.page_router import ConsolePages, Visit

pages = ConsolePages()

SHORTEST, LONGEST = 8, 1_000  # characters of a password
OVER = N_("The link is no longer valid: it was used, withdrawn or replaced, or has expired. Ask for a new one.")
SIGN_IN = N_("An account with this name already exists. Sign in with it, then open the link again.")
WRONG_LENGTH = N_("The new password must have 8 to 1,000 characters.")
UNPROVEN = N_("Your account works for no further customer until its address is verified.")
WRONG_CODE = N_("The code is wrong. To remove a second factor, enter a code of the app or a recovery code.")


@pages.get("/invitation", is_public=True)
async def invitation(visit: Visit) -> Response:
    """The form for the code of the link. A script fills it in."""
    return plain(visit, "invitation_code.html", status=200, wrong="")


@pages.post("/invitation", is_public=True)
async def invited(visit: Visit) -> Response:
    return await _invited(visit)


async def _invited(visit: Visit, wrong: str = "", status: int = 200, *, is_mailed: bool = False) -> Response:
    """The page of an invitation. `is_mailed` means that a link was just mailed.

    The page of a shown link is the same whether the address has an account or not.
    """
    code = visit.form_value("code")
    try:
        pending_invitation = await emailed_links.invitation(visit, code)
    except LinkExpired:
        return plain(visit, "invitation_code.html", status=404, wrong=gettext(visit, OVER))
    is_here = await emailed_links.signed_in_as(visit, pending_invitation.address)
    return plain(
        visit, "invitation.html", status=status, invitation=pending_invitation, code=code, wrong=wrong,
        step=_step(pending_invitation, is_here=is_here), role=gettext(visit, NAMES[pending_invitation.role]),
        providers=await sso_pages.offered(visit), mails=visit.settings.sends_mail, is_mailed=is_mailed,
    )  # fmt: skip


def _step(pending_invitation: InvitationPreview, *, is_here: bool) -> str:
    """The next step: "set" a password, "sign-in", "either", "accept", or "prove" the address."""
    if pending_invitation.is_mailed:
        return "set" if pending_invitation.sets_way_in else "accept" if is_here else "sign-in"
    if not is_here:
        return "either"
    return "accept" if pending_invitation.is_proven else "prove"


@pages.post("/invitation/accept", is_public=True)
async def accept(visit: Visit) -> Response:
    password = visit.form.get("new_password", [""])[-1]
    try:
        pending_invitation = await emailed_links.invitation(visit, visit.form_value("code"))
        step = _step(pending_invitation, is_here=await emailed_links.signed_in_as(visit, pending_invitation.address))
        if step in ("set", "either") and not SHORTEST <= len(password) <= LONGEST:
            return await _invited(visit, gettext(visit, WRONG_LENGTH), 422)
        there = zone(visit.form_value("time_zone"))
        customer = await emailed_links.accept(visit, visit.form_value("code"), password, there)
    except LinkExpired:
        return await _invited(visit)
    except AccountExists:
        return await _invited(visit, gettext(visit, SIGN_IN), 409)
    except AddressUnproven:
        return await _invited(visit, gettext(visit, UNPROVEN), 409)
    return redirect(f"{root(visit)}/{customer}")


@pages.post("/invitation/mail", is_public=True)
async def mail(visit: Visit) -> Response:
    """Mail a link that proves the address of the signed-in account."""
    try:
        is_mailed = await emailed_links.mail_proof(visit, visit.form_value("code"))
    except LinkExpired:
        return await _invited(visit)
    except AccountExists:
        return await _invited(visit, gettext(visit, SIGN_IN), 409)
    except TooManyRequests as refusal:
        return await _invited(visit, translate_error(visit, refusal.reason), refusal.status)
    return await _invited(visit, is_mailed=is_mailed)


@pages.get("/forgot", is_public=True)
async def forgot(visit: Visit) -> Response:
    return _forgot(visit)


@pages.post("/forgot", is_public=True)
async def ask(visit: Visit) -> Response:
    """Request a link. The answer is the same for every address."""
    address = visit.form_value("address")
    try:
        if 0 < len(address) <= LONGEST and "\0" not in address:
            await emailed_links.forgot(visit, address)
    except TooManyRequests as refusal:
        return _forgot(visit, refusal)
    return plain(visit, "forgot.html", status=200, asked=True, mails=visit.settings.sends_mail, wrong="")


def _forgot(visit: Visit, refusal: Refusal | None = None) -> Response:
    wrong = translate_error(visit, refusal.reason) if refusal else ""
    status = refusal.status if refusal else 200
    return plain(visit, "forgot.html", status=status, asked=False, mails=visit.settings.sends_mail, wrong=wrong)


@pages.get("/password", is_public=True)
async def password(visit: Visit) -> Response:
    """The form for the code of the link. A script fills it in."""
    return plain(visit, "password_code.html", status=200, wrong="")


@pages.post("/password", is_public=True)
async def choose(visit: Visit) -> Response:
    return await _choose(visit)


async def _choose(visit: Visit, wrong: str = "", status: int = 200) -> Response:
    """The form for a new password, with the other ways to sign in to the account."""
    code = visit.form_value("code")
    try:
        link, methods = await emailed_links.password_link(visit, code)
    except LinkExpired:
        return plain(visit, "password_code.html", status=404, wrong=gettext(visit, OVER))
    browsers = Counter(browser_name(visit, method.label) for method in methods if method.kind == SESSION)
    sessions = ", ".join(name if count == 1 else f"{name} ({count})" for name, count in browsers.items())
    others = [method for method in methods if method.kind != SESSION]
    has_codes = any(method.kind in ("app", "recovery") for method in others)
    return plain(
        visit, "password.html", status=status, code=code, wrong=wrong, link=link, methods=others, sessions=sessions,
        factors=SECOND_FACTORS, has_codes=has_codes, chosen=visit.form.get("remove", []),
    )  # fmt: skip


@pages.post("/password/set", is_public=True)
async def set_password(visit: Visit) -> Response:
    new = visit.form.get("new_password", [""])[-1]
    if not SHORTEST <= len(new) <= LONGEST:
        return await _choose(visit, gettext(visit, WRONG_LENGTH), 422)
    code, remove = visit.form_value("code"), visit.form.get("remove", [])
    try:
        await emailed_links.set_password(visit, code, new, remove, visit.form_value("factor_code"))
    except LinkExpired:
        return await _choose(visit)
    except WrongCredentials:
        return await _choose(visit, gettext(visit, WRONG_CODE), 422)
    except TooManyRequests as refusal:
        return await _choose(visit, translate_error(visit, refusal.reason), refusal.status)
    return redirect(f"{root(visit)}/sign-in?set")
