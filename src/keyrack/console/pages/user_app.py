"""A person's access to the app, and lost phones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import segno

from keyrack.api.exchange import Response
from keyrack.api.permissions import Permission
from keyrack.console.choices import of_user
from keyrack.console.form_errors import RIGHT, SHOWN, FormErrors, invalid, refused, went
from keyrack.console.pages.user_devices import SECTION, phones_of
from keyrack.console.rendering import base, gettext, page
from keyrack.http.page_router import ConsolePages, Visit

pages = ConsolePages()

MAIL = "mail"  # value of the form: only the person's mailbox gets the link


async def app_of(visit: Visit, user: int) -> dict[str, Any]:
    """The state of the person's access. Raises `NotFound`."""
    return (await visit.call("GET", "/users/{userId}/app-access", user)).json


@pages.get("/{customer}/users/{user}/app/invite", permission=Permission.USERS_WRITE)
async def invite_form(visit: Visit) -> Response:
    return await _invite_form(visit)


@pages.post("/{customer}/users/{user}/app/invite", has_secret=True, permission=Permission.USERS_WRITE)
async def invite(visit: Visit) -> Response:
    """Invite the person. A link for another way than mail is shown once."""
    user = await _user(visit)
    is_mailed = visit.form_value("way") == MAIL
    try:
        made = (await visit.call("POST", "/users/{userId}/app-invitation", user["id"], body={"mail": is_mailed})).json
    except SHOWN as refusal:
        return await _invite_form(visit, refused(visit, refusal))
    if is_mailed:
        return went(visit, f"{_page(visit)}?invited")
    qr = segno.make(made["link"], micro=False).svg_data_uri(scale=5, border=4, light="#fff", dark="#000")
    return await page(
        visit, "user_app_link.html", section=SECTION, back=_page(visit), name=of_user(user).label, qr=qr, **made
    )


async def _invite_form(visit: Visit, wrong: FormErrors = RIGHT) -> Response:
    user = await _user(visit)
    return await page(
        visit, "user_app_invite.html", status=wrong.status, section=SECTION, back=_page(visit), user=user,
        name=of_user(user).label, app=await app_of(visit, user["id"]), mails=visit.settings.sends_mail, wrong=wrong,
    )  # fmt: skip


@pages.get("/{customer}/users/{user}/app/withdraw", permission=Permission.USERS_WRITE)
async def withdraw_form(visit: Visit) -> Response:
    return await _withdraw_form(visit)


@pages.post("/{customer}/users/{user}/app/withdraw", permission=Permission.USERS_WRITE)
async def withdraw(visit: Visit) -> Response:
    try:
        await visit.call("DELETE", "/users/{userId}/app-access", visit.ids["user"])
    except SHOWN as refusal:
        return await _withdraw_form(visit, refused(visit, refusal))
    return went(visit, f"{_page(visit)}?app-withdrawn")


async def _withdraw_form(visit: Visit, wrong: FormErrors = RIGHT) -> Response:
    user = await _user(visit)
    phones = await phones_of(visit, user["id"])
    return await page(
        visit, "user_app_withdraw.html", status=wrong.status, section=SECTION, back=_page(visit), user=user,
        name=of_user(user).label, phones=len(phones), wrong=wrong,
    )  # fmt: skip


@pages.get("/{customer}/users/{user}/lost", permission=Permission.USERS_WRITE)
async def lost_form(visit: Visit) -> Response:
    return await _lost_form(visit)


@pages.post("/{customer}/users/{user}/lost", permission=Permission.USERS_WRITE)
async def lost(visit: Visit) -> Response:
    """Remove the chosen phones. Show the cars that they may open."""
    user = await _user(visit)
    phones = visit.form.get("phone", [])
    if not phones and await phones_of(visit, user["id"]):
        return await _lost_form(visit, invalid([("phones", gettext(visit, "Choose the lost phone."))]))
    body = {"phones": phones, "endSessions": "sessions" in visit.form}
    try:
        cars = (await visit.call("POST", "/users/{userId}/lost-phones", user["id"], body=body)).json["cars"]
    except SHOWN as refusal:
        return await _lost_form(visit, refused(visit, refusal))
    return await page(
        visit, "user_lost_cars.html", section=SECTION, back=_page(visit), name=of_user(user).label, cars=cars,
        phones=len(phones), ended=body["endSessions"],
    )  # fmt: skip


async def _lost_form(visit: Visit, wrong: FormErrors = RIGHT) -> Response:
    user = await _user(visit)
    chosen = visit.form.get("phone", [])
    phones = await phones_of(visit, user["id"])
    return await page(
        visit, "user_lost.html", status=wrong.status, section=SECTION, back=_page(visit), user=user,
        name=of_user(user).label, phones=phones, wrong=wrong,
        chosen=chosen if chosen or len(phones) > 1 else [phone["id"] for phone in phones],
    )  # fmt: skip


async def _user(visit: Visit) -> Mapping[str, Any]:
    """Raises `NotFound`."""
    return (await visit.call("GET", "/users/{userId}", visit.ids["user"])).json


def _page(visit: Visit) -> str:
    return f"{base(visit)}/users/{visit.ids['user']}"
