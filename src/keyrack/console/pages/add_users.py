"""Pages that add people: new ones, or existing ones by their address."""

from __future__ import annotations

from collections.abc import Mapping

from keyrack.api.exchange import Response
from keyrack.api.permissions import Permission
from keyrack.console.form_errors import RIGHT, SHOWN, FormErrors, invalid, key, refused, went
from keyrack.console.lists.filters import quoted
from keyrack.console.rendering import base, gettext, page
from keyrack.core.addresses import address_form
from keyrack.core.errors import Refusal
from keyrack.http.page_router import ConsolePages, Visit

pages = ConsolePages()

SECTION = "users"
FIELDS = ("first_name", "last_name", "address", "type")
TYPES = ("Anonymous", "Normal")  # without and with a password
# Error codes (docs/errors.md)
TAKEN, ALREADY, NOBODY, NO_ADDRESS = (
    "email-address-taken", "user-already-in-customer", "named-user-not-found", "invalid-user-parameters",
)  # fmt: skip


@pages.get("/{customer}/users/new", permission=Permission.USERS_WRITE)
async def new(visit: Visit) -> Response:
    return await _form(visit)


@pages.post("/{customer}/users/new", has_secret=True, permission=Permission.USERS_WRITE)
async def create(visit: Visit) -> Response:
    """Add a person. The page shows the generated password once."""
    typed = {name: visit.form_value(name) for name in FIELDS}
    wrong = invalid(_missing(visit, typed))
    if wrong.texts:
        return await _form(visit, wrong)
    names = {"firstName": typed["first_name"], "lastName": typed["last_name"]}
    body = {"emailAddress": typed["address"], "userData": names, "type": typed["type"]}
    try:
        made = (await visit.call("PUT", "/users", body=body, key=visit.form_value("key") or None)).json
    except SHOWN as refusal:
        return await _form(visit, refused(visit, refusal, _words(visit)), refusal)
    if made["password"] is None:
        return went(visit, f"{base(visit)}/users/{made['id']}?added")
    name = f"{typed['first_name']} {typed['last_name']}"
    return await page(
        visit, "user_added.html", section=SECTION, back=f"{base(visit)}/users", id=made["id"], name=name,
        address=typed["address"], password=made["password"],
    )  # fmt: skip


def _missing(visit: Visit, typed: Mapping[str, str]) -> list[tuple[str, str]]:
    """The errors of empty fields."""
    words = {
        "first_name": gettext(visit, "Enter the first name."),
        "last_name": gettext(visit, "Enter the last name."),
        "address": gettext(visit, "Enter the e-mail address."),
    }
    missing = [(field, text) for field, text in words.items() if not typed[field]]
    if typed["type"] not in TYPES:
        missing.append(("type", gettext(visit, "Choose whether the person gets a password.")))
    return missing


def _words(visit: Visit) -> dict[str, tuple[str, str]]:
    return {
        "/emailAddress": ("address", gettext(visit, "This is not an e-mail address. Enter one like kim@example.org.")),
        "/userData/firstName": ("first_name", gettext(visit, "A first name has at most 250 characters.")),
        "/userData/lastName": ("last_name", gettext(visit, "A last name has at most 250 characters.")),
        TAKEN: (
            "address",
            gettext(visit, "A person with this address already exists, here or with another customer."),
        ),
    }


async def _form(visit: Visit, wrong: FormErrors = RIGHT, refusal: Refusal | None = None) -> Response:
    typed = {name: visit.form_value(name) or visit.query_value(name) for name in FIELDS}
    return await page(
        visit, "user_form.html", status=wrong.status, section=SECTION, back=f"{base(visit)}/users", typed=typed,
        wrong=wrong, key=key(visit, refusal),
        taken=refusal is not None and refusal.reason.code == TAKEN,
    )  # fmt: skip


@pages.get("/{customer}/users/link", permission=Permission.USERS_WRITE)
async def link_form(visit: Visit) -> Response:
    return await _link_form(visit)


@pages.post("/{customer}/users/link", permission=Permission.USERS_WRITE)
async def link(visit: Visit) -> Response:
    """Add a person with an account at another customer."""
    address = visit.form_value("address")
    wrong = invalid([("address", "" if address else gettext(visit, "Enter the e-mail address."))])
    if wrong.texts:
        return await _link_form(visit, wrong)
    try:
        await visit.call("PUT", "/users/assignments/customers", body={"emailAddress": address})
    except SHOWN as refusal:
        existing_user = await _numbered(visit, address) if refusal.reason.code == ALREADY else None
        return await _link_form(visit, refused(visit, refusal, _link_words(visit)), refusal, existing_user)
    user_id = await _numbered(visit, address)
    return went(visit, f"{base(visit)}/users/{user_id}?linked" if user_id else f"{base(visit)}/users")


async def _numbered(visit: Visit, address: str) -> int | None:
    """The customer's user with this address."""
    query = {"$search": quoted(address), "$select": "id,emailAddress", "$top": "10"}
    rows = (await visit.call("GET", "/users", query=query)).json
    form = address_form(address)
    return next((row["id"] for row in rows if address_form(row["emailAddress"]) == form), None)


def _link_words(visit: Visit) -> dict[str, tuple[str, str]]:
    no_address = gettext(visit, "This is not an e-mail address. Enter one like kim@example.org.")
    return {
        NO_ADDRESS: ("address", no_address),
        NOBODY: ("address", gettext(visit, "No person has this address. Check it, or add a new person with it.")),
        ALREADY: ("address", gettext(visit, "The person with this address is already one of your people.")),
    }


async def _link_form(
    visit: Visit, wrong: FormErrors = RIGHT, refusal: Refusal | None = None, existing_user: int | None = None
) -> Response:
    return await page(
        visit, "user_link.html", status=wrong.status, section=SECTION, back=f"{base(visit)}/users", wrong=wrong,
        address=visit.form_value("address") or visit.query_value("address"), known=existing_user,
        nobody=refusal is not None and refusal.reason.code == NOBODY,
    )  # fmt: skip
