"""Sign-in, sign-out, and the redirect to the customer's pages."""

from __future__ import annotations

from urllib.parse import quote, unquote

from keyrack.api.exchange import Response, answer
from keyrack.console.pages.settings import zones
from keyrack.console.rendering import gettext, plain, redirect, root
from keyrack.core.error_codes import NOTHING_HERE, ErrorCode
from keyrack.core.errors import NotFound, Refusal, TooManyRequests, WrongCredentials
from keyrack.core.text import N_
from keyrack.http import sso_pages
from keyrack.http.page_router import BELOW, ConsolePages, Visit, customer_of, first_customer

pages = ConsolePages()

NOBODYS = ErrorCode(
    "no-customer-of-manager",
    "You do not belong to a customer yet.",
    "Ask the operator of this server to add you: keyrack manager change --customer.",
)
TOO_MANY_PASSWORDS = N_("Too many wrong passwords. Try again in %(seconds)s seconds.")
TOO_MANY_CODES = N_("Too many wrong codes. Try again in %(seconds)s seconds, or use a passkey or a recovery code.")
LONGEST_CODE = 100  # characters of a code
LONGEST = 1_000  # characters of a user name or a password
NEXT = 2_000  # characters of the address after signing in


@pages.get("")
async def front(visit: Visit) -> Response:
    """Redirect to a customer: the requested one, else the first."""
    return redirect(f"{root(visit)}/{_customer(visit)}")


def _customer(visit: Visit) -> int:
    """Raises `NotFound`."""
    if customer_id := visit.query_value("customer"):
        return customer_of(visit.person, customer_id)
    if not visit.person.manager.grants:
        raise NotFound(NOBODYS)
    return first_customer(visit.person)


@pages.get("/sign-in", is_public=True)
async def form(visit: Visit) -> Response:
    return await _form(visit)


@pages.post("/sign-in", is_public=True)
async def sign_in(visit: Visit) -> Response:
    username, password = visit.form_value("username"), visit.form.get("password", [""])[-1]
    try:
        if not username or not password or len(username) > LONGEST or len(password) > LONGEST or "\0" in username:
            raise WrongCredentials
        signed_in = await visit.sign_in(username, password)
    except (WrongCredentials, TooManyRequests) as refusal:
        return await _form(visit, refusal)
    there, next = zone(visit.form_value("time_zone")), visit.form_value("next")
    if signed_in.has_factor:
        await visit.begin_second_factor(signed_in, there)
        return redirect(f"{root(visit)}/sign-in/second?next={quote(next, safe='')}")
    await visit.begin_session(signed_in, there)
    return redirect(offer(visit, next))


@pages.get("/sign-in/second", is_public=True)
async def second(visit: Visit) -> Response:
    """The page for the second factor, after the password."""
    return await _second(visit)


@pages.post("/sign-in/second", is_public=True)
async def show_code(visit: Visit) -> Response:
    code = visit.form_value("code")
    try:
        if not code or len(code) > LONGEST_CODE:
            raise WrongCredentials
        shown = await visit.verify_code(code)
    except (WrongCredentials, TooManyRequests) as refusal:
        return await _second(visit, refusal)
    if shown is None:
        return _again(visit)
    await visit.begin_session(*shown)
    return redirect(offer(visit, visit.form_value("next")))


@pages.post("/sign-in/challenge", is_public=True)
async def challenge(visit: Visit) -> Response:
    """The options for a passkey, as JSON. The error of too many requests is JSON as well."""
    try:
        options = await visit.challenge()
    except TooManyRequests as refusal:
        return Response(refusal.status, refusal.body(visit.id), refusal.headers, refusal.media_type)
    if options is None:
        raise NotFound(NOTHING_HERE)
    return answer({"publicKey": options})


@pages.post("/sign-in/passkey", is_public=True)
async def show_passkey(visit: Visit) -> Response:
    try:
        signed_in = await visit.verify_passkey(visit.form_value("credential"))
    except (WrongCredentials, TooManyRequests) as refusal:
        return await _form(visit, refusal, by_passkey=True)
    await visit.begin_session(signed_in, zone(visit.form_value("time_zone")))
    return redirect(offer(visit, visit.form_value("next")))


async def _second(visit: Visit, refusal: Refusal | None = None) -> Response:
    step = await visit.pending_login()
    if step is None:
        return _again(visit)
    wrong = "" if refusal is None else gettext(visit, "The code is wrong, or was already used.")
    if isinstance(refusal, TooManyRequests):
        wrong = _too_many(visit, refusal, TOO_MANY_CODES)
    return plain(
        visit, "sign_in_second.html", status=refusal.status if refusal else 200, wrong=wrong, step=step,
        next=visit.form_value("next") or visit.query_value("next"), passkeys=visit.passkey_host,
    )  # fmt: skip


def _again(visit: Visit) -> Response:
    """Back to the first page: the pending sign-in has expired."""
    next = visit.form_value("next") or visit.query_value("next")
    return redirect(f"{root(visit)}/sign-in?over&next={quote(next, safe='')}")


def _too_many(visit: Visit, refusal: Refusal, text: str = TOO_MANY_PASSWORDS) -> str:
    seconds = visit.response_headers["Retry-After"] = refusal.headers["Retry-After"]
    return gettext(visit, text, seconds=seconds)


@pages.post("/sign-out", is_public=True)
async def sign_out(visit: Visit) -> Response:
    if address := await sso_pages.sign_out(visit):
        return onward(visit, address)
    return redirect(f"{root(visit)}/sign-in?out")


def onward(visit: Visit, address: str, said: str = "") -> Response:
    """A page that leads to a provider by itself.

    A redirect does not work: it counts as sent by the form, and the policy of the pages forbids the provider's further
    redirects (CSP 3, section 4.2.4).
    """
    text = said or gettext(visit, "You are being redirected to your provider.")
    return plain(visit, "onward.html", address=address, said=text)


def zone(name: str) -> str | None:
    """The zone that the browser sent, if it exists."""
    return name if name in dict(zones()) else None


async def _form(visit: Visit, refusal: Refusal | None = None, *, by_passkey: bool = False) -> Response:
    wrong = gettext(visit, "The sign-in took too long. Sign in again.") if "over" in visit.query else ""
    if isinstance(refusal, TooManyRequests):
        wrong = _too_many(visit, refusal)
    elif refusal is not None and by_passkey:
        wrong = gettext(visit, "The passkey was not accepted. Try again, or sign in with your password.")
    elif refusal is not None:
        wrong = gettext(visit, "The user name or the password is wrong.")
    next = visit.form_value("next") or visit.query_value("next")
    return plain(
        visit, "sign_in.html", status=refusal.status if refusal else 200, wrong=wrong,
        username=visit.form_value("username"), next=next, signed_out="out" in visit.query,
        is_set="set" in visit.query, passkeys=visit.passkey_host,
        providers=await sso_pages.offered(visit),
    )  # fmt: skip


def offer(visit: Visit, wanted: str) -> str:
    """The address after signing in: always a page of the console."""
    wanted = wanted.removeprefix(root(visit).removesuffix(BELOW))  # browsers send the prefix of a proxy
    path = wanted.partition("?")[0].partition("#")[0]
    within = path == BELOW or path.startswith(BELOW + "/")
    leaves = not {".", ".."}.isdisjoint(unquote(path).split("/"))
    if not within or leaves or "\\" in wanted or path.startswith(f"{BELOW}/sign-"):
        return root(visit)
    return root(visit) + wanted[len(BELOW) :]
