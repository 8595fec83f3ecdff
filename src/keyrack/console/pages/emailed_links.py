"""The pages that links lead to: accepting an invitation, setting a password anew, and asking for the link to do so."""

from __future__ import annotations

from keyrack.api.exchange import Response
from keyrack.console.forbidden import NAMES
from keyrack.console.languages import N_
from keyrack.console.rendering import gettext, plain, redirect, root, why
from keyrack.core.errors import Refusal, TooManyRequests
from keyrack.http import emailed_links, sso_pages
from keyrack.http.emailed_links import AccountExists, LinkExpired
from keyrack.http.page_router import ConsolePages, Visit

pages = ConsolePages()

SHORTEST, LONGEST = 8, 1_000  # characters of a password
OVER = N_(
    "The link is not good any more: it was used, withdrawn or replaced, or its time is over. Ask for another one."
)
SIGN_IN = N_("There is an account of this name already. Sign in with it, then open the link again.")
WRONG_LENGTH = N_("The new password must have 8 to 1,000 characters.")


@pages.get("/invitation", open=True)
async def invitation(visit: Visit) -> Response:
    """The form that takes the code of the link, which a script fills in."""
    return plain(visit, "invitation_code.html", status=200, wrong="")


@pages.post("/invitation", open=True)
async def invited(visit: Visit) -> Response:
    return await _invited(visit)


async def _invited(visit: Visit, wrong: str = "", status: int = 200) -> Response:
    """What the invitation is to, and what it takes to accept it."""
    code = visit.sent("code")
    try:
        pending_invitation = await emailed_links.invitation(visit, code)
    except LinkExpired:
        return plain(visit, "invitation_code.html", status=404, wrong=gettext(visit, OVER))
    return plain(
        visit, "invitation.html", status=status, invitation=pending_invitation, code=code, wrong=wrong,
        role=gettext(visit, NAMES[pending_invitation.role]), providers=await sso_pages.offered(visit),
        is_here=await emailed_links.signed_in_as(visit, pending_invitation.address),
    )  # fmt: skip


@pages.post("/invitation/accept", open=True)
async def accept(visit: Visit) -> Response:
    password = visit.form.get("new_password", [""])[-1]
    if visit.sent("new") and not SHORTEST <= len(password) <= LONGEST:
        return await _invited(visit, gettext(visit, WRONG_LENGTH), 422)
    try:
        customer = await emailed_links.accept(visit, visit.sent("code"), password)
    except LinkExpired:
        return await _invited(visit)
    except AccountExists:
        return await _invited(visit, gettext(visit, SIGN_IN), 409)
    return redirect(f"{root(visit)}/{customer}")


@pages.get("/forgot", open=True)
async def forgot(visit: Visit) -> Response:
    return _forgot(visit)


@pages.post("/forgot", open=True)
async def ask(visit: Visit) -> Response:
    """The answer is the same for every address."""
    address = visit.sent("address")
    try:
        if 0 < len(address) <= LONGEST and "\0" not in address:
            await emailed_links.forgot(visit, address)
    except TooManyRequests as refusal:
        return _forgot(visit, refusal)
    return plain(visit, "forgot.html", status=200, asked=True, mails=visit.settings.sends_mail, wrong="")


def _forgot(visit: Visit, refusal: Refusal | None = None) -> Response:
    wrong = why(visit, refusal.reason) if refusal else ""
    status = refusal.status if refusal else 200
    return plain(visit, "forgot.html", status=status, asked=False, mails=visit.settings.sends_mail, wrong=wrong)


@pages.get("/password", open=True)
async def password(visit: Visit) -> Response:
    """The form that takes the code of the link, which a script fills in."""
    return plain(visit, "password_code.html", status=200, wrong="")


@pages.post("/password", open=True)
async def choose(visit: Visit) -> Response:
    return await _choose(visit)


async def _choose(visit: Visit, wrong: str = "", status: int = 200) -> Response:
    code = visit.sent("code")
    try:
        await emailed_links.check_password_link(visit, code)
    except LinkExpired:
        return plain(visit, "password_code.html", status=404, wrong=gettext(visit, OVER))
    return plain(visit, "password.html", status=status, code=code, wrong=wrong)


@pages.post("/password/set", open=True)
async def set_password(visit: Visit) -> Response:
    new = visit.form.get("new_password", [""])[-1]
    if not SHORTEST <= len(new) <= LONGEST:
        return await _choose(visit, gettext(visit, WRONG_LENGTH), 422)
    try:
        await emailed_links.set_password(visit, visit.sent("code"), new)
    except LinkExpired:
        return await _choose(visit)
    return redirect(f"{root(visit)}/sign-in?set")
