"""Error pages: what is wrong, and a remedy.

The text is the error's own, translated. The error's remedy is for programs. Pages show it only for errors that no
program gets.
"""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import quote, urlsplit

from keyrack.api.exchange import Response
from keyrack.console.forbidden import ASK_PART, lacking
from keyrack.console.rendering import gettext, plain, redirect, root, translate_error
from keyrack.core.error_codes import NO_CUSTOMER, NOTHING_HERE, SIGNED_OUT
from keyrack.core.errors import NotFound, Refusal, Unauthorized
from keyrack.core.text import N_
from keyrack.http.page_router import BELOW, FactorNeeded, NotPermitted, Visit, first_customer

# Status -> title and remedy
WORDS = {
    400: (N_("The request was not valid"), N_("Go back. Check the address and your entries.")),
    401: (N_("You are signed out"), N_("Sign in again.")),
    403: (N_("You do not have permission"), N_("Ask the operator of this server for permission.")),
    404: (N_("Not found"), N_("Go back to the list. It may have been deleted in the meantime.")),
    405: (N_("This page cannot be opened directly"), N_("Go back, and open it from there.")),
    409: (N_("This is not possible in the current state"), N_("Go back and check the current state.")),
    412: (N_("Another person was faster"), N_("Go back, check the current state, and decide again.")),
    429: (N_("Too many requests at once"), N_("Wait a moment, then try again.")),
    503: (N_("This is not possible at the moment"), N_("Nothing was changed. Try again in a moment.")),
}
NO_ADDRESS = (NOTHING_HERE, NO_CUSTOMER)  # errors of an address that may only lack its customer
OTHER = (
    N_("An error occurred"),
    N_("Try again. If the error stays, give the operator of this server the number below."),
)
# Codes with a remedy for people: no program gets them
OF_PAGES = {
    "no-customer-of-manager", "file-not-found", "file-of-another-version", "signed-out", "other-origin", "invalid-day",
    "list-address-not-understood", "tiles-not-found", "range-missing", "range-not-satisfiable", "range-too-long",
}  # fmt: skip


async def refused(visit: Visit, refusal: Refusal) -> Response:
    """The error page, or a part of one, for an error that the page did not handle."""
    reads = visit.method in ("GET", "HEAD")
    if isinstance(refusal, Unauthorized) and refusal.reason == SIGNED_OUT and not _by_script(visit):
        there = _address(visit) if reads else _of_form(visit)
        return redirect(f"{root(visit)}/sign-in?next={quote(there, safe='')}")
    if isinstance(refusal, NotFound) and refusal.reason in NO_ADDRESS and reads and (there := _of_customer(visit)):
        return redirect(there)
    if isinstance(refusal, FactorNeeded) and visit.customer and reads and not _by_script(visit):
        return redirect(f"{root(visit)}/{visit.customer}/settings/factors")
    if isinstance(refusal, NotPermitted) and visit.customer and not visit.is_partial:
        return await lacking(visit, refusal)
    template = "refused_part.html" if visit.is_partial else "refused.html"
    title, remedy = WORDS.get(refusal.status, OTHER)
    if refusal.reason.code in OF_PAGES:
        remedy = refusal.reason.remedy
    elif isinstance(refusal, NotPermitted):
        remedy = ASK_PART
    answer = plain(
        visit, template, status=refusal.status, title=gettext(visit, title),
        text=translate_error(visit, refusal.reason), remedy=gettext(visit, remedy), id=visit.id,
    )  # fmt: skip
    return Response(answer.status, answer.body, refusal.headers, answer.media_type)


def _of_customer(visit: Visit) -> str:
    """The requested address with the person's first customer, if it lacks one; otherwise ""."""
    first, _, _ = visit.path.removeprefix(BELOW + "/").partition("/")
    if visit.visitor is None or not visit.visitor.manager.grants or not first or first.isdigit():
        return ""
    return f"{root(visit)}/{first_customer(visit.visitor)}{_address(visit).removeprefix(BELOW)}"


def _by_script(visit: Visit) -> bool:
    """Whether a script puts the answer into a page. A sign-in page would be lost there."""
    return visit.is_partial or bool(visit.headers("HX-Request") and not visit.headers("HX-History-Restore-Request"))


def _of_form(visit: Visit) -> str:
    """The address of the page that sent the form; "" if the browser does not send it."""
    with suppress(ValueError):
        page = urlsplit(visit.headers("Referer") or "")
        return page.path + (f"?{page.query}" if page.query else "")
    return ""


def _address(visit: Visit) -> str:
    """The requested address. Decoded characters of the path, for example a question mark, are encoded again."""
    return quote(visit.path) + (f"?{visit.query_string}" if visit.query_string else "")
