"""The customer's settings for its drivers."""

from __future__ import annotations

from collections.abc import Mapping

from keyrack.api.exchange import Response
from keyrack.api.permissions import Permission
from keyrack.console.form_errors import RIGHT, SHOWN, FormErrors, refused
from keyrack.console.rendering import base, gettext, page, redirect
from keyrack.core.text import N_
from keyrack.http.page_router import ConsolePages, Visit

pages = ConsolePages()

SECTION = "settings"
NO_PHONE = N_("Enter a phone number, for example +49 30 123456, or leave the field empty.")
NO_HOURS = N_("Enter a whole number of hours from 0 to 720.")
WORDS = {"/phone": ("phone", NO_PHONE), "/extensionHours": ("hours", NO_HOURS)}


@pages.get("/{customer}/settings/drivers", permission=Permission.CUSTOMER_READ)
async def driver_settings(visit: Visit) -> Response:
    known = (await visit.call("GET", "/driver-settings")).json
    shown = {"phone": known["phone"] or "", "place": known["showsPlace"], "hours": str(known["extensionHours"])}
    return await _form(visit, shown)


@pages.post("/{customer}/settings/drivers", permission=Permission.USERS_WRITE)
async def save(visit: Visit) -> Response:
    typed = {"phone": visit.form_value("phone"), "place": "place" in visit.form, "hours": visit.form_value("hours")}
    hours = str(typed["hours"])
    body = {
        "phone": typed["phone"] or None,
        "showsPlace": typed["place"],
        "extensionHours": int(hours) if hours.isascii() and hours.isdigit() and len(hours) < 5 else -1,
    }
    try:
        await visit.call("PUT", "/driver-settings", body=body)
    except SHOWN as refusal:
        words = {pointer: (field, gettext(visit, text)) for pointer, (field, text) in WORDS.items()}
        return await _form(visit, typed, refused(visit, refusal, words))
    return redirect(f"{base(visit)}/settings/drivers?saved")


async def _form(visit: Visit, typed: Mapping[str, object], wrong: FormErrors = RIGHT) -> Response:
    return await page(
        visit, "driver_settings.html", status=wrong.status, section=SECTION, typed=typed, wrong=wrong,
        saved="saved" in visit.query,
    )  # fmt: skip
