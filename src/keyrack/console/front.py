"""The front door: signing in and out, and the way to the customer's pages."""

from __future__ import annotations

from urllib.parse import unquote

from keyrack.api.exchange import Answer
from keyrack.console.rendering import gettext, plain, redirect, root
from keyrack.console.settings import zones
from keyrack.errors import NotFound, Refusal, TooManyRequests, WrongCredentials
from keyrack.http import single_sign_on
from keyrack.http.pages import BELOW, Pages, Visit, customer_of, first_customer
from keyrack.reasons import Reason

pages = Pages()

NOBODYS = Reason(
    "no-customer-of-manager",
    "You act for no customer yet.",
    "Ask whoever runs this server to give you one: keyrack manager change --customer.",
)
LONGEST = 1_000  # characters of a user name or a password
NEXT = 2_000  # characters of where to go after signing in


@pages.get("")
async def front(visit: Visit) -> Answer:
    """Go on to a customer: the one that is asked for, else the first."""
    return redirect(f"{root(visit)}/{_customer(visit)}")


def _customer(visit: Visit) -> int:
    """Raises `NotFound`."""
    if asked := visit.asked("customer"):
        return customer_of(visit.person, asked)
    if not visit.person.manager.grants:
        raise NotFound(NOBODYS)
    return first_customer(visit.person)


@pages.get("/sign-in", open=True)
async def form(visit: Visit) -> Answer:
    return await _form(visit)


@pages.post("/sign-in", open=True)
async def sign_in(visit: Visit) -> Answer:
    username, password = visit.sent("username"), visit.form.get("password", [""])[-1]
    try:
        if not username or not password or len(username) > LONGEST or len(password) > LONGEST or "\0" in username:
            raise WrongCredentials
        signed_in = await visit.sign_in(username, password)
    except (WrongCredentials, TooManyRequests) as refusal:
        return await _form(visit, refusal)
    await visit.begin(signed_in, zone(visit.sent("time_zone")))
    return redirect(offer(visit, visit.sent("next")))


@pages.post("/sign-out", open=True)
async def sign_out(visit: Visit) -> Answer:
    if address := await single_sign_on.sign_out(visit):
        return onward(visit, address)
    return redirect(f"{root(visit)}/sign-in?out")


def onward(visit: Visit, address: str) -> Answer:
    """A page that goes on to a provider by itself. A redirect would not do: it counts as sent by the form, which the
    policy of the pages forbids wherever a provider leads on to (CSP 3, section 4.2.4)."""
    return plain(visit, "onward.html", address=address)


def zone(name: str) -> str | None:
    """The zone that the browser says it is in, if there is one of that name."""
    return name if name in dict(zones()) else None


async def _form(visit: Visit, refusal: Refusal | None = None) -> Answer:
    wrong = ""
    if isinstance(refusal, TooManyRequests):
        seconds = refusal.headers["Retry-After"]
        wrong = gettext(visit, "Too many wrong passwords. Try again in %(seconds)s seconds.", seconds=seconds)
    elif refusal is not None:
        wrong = gettext(visit, "The user name or the password is wrong.")
    next = visit.sent("next") or visit.asked("next")
    return plain(
        visit, "sign_in.html", status=refusal.status if refusal else 200, wrong=wrong, username=visit.sent("username"),
        next=next, signed_out="out" in visit.query, providers=await single_sign_on.offered(visit),
    )  # fmt: skip


def offer(visit: Visit, wanted: str) -> str:
    """Where to go after signing in: a page of the console, never elsewhere."""
    wanted = wanted.removeprefix(root(visit).removesuffix(BELOW))  # a browser knows what a proxy puts before it
    path = wanted.partition("?")[0].partition("#")[0]
    within = path == BELOW or path.startswith(BELOW + "/")
    leaves = not {".", ".."}.isdisjoint(unquote(path).split("/"))
    if not within or leaves or "\\" in wanted or path.startswith(f"{BELOW}/sign-"):
        return root(visit)
    return root(visit) + wanted[len(BELOW) :]
