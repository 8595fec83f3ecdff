"""The phones of a person that get keys: approval, and removal in a dialog."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keyrack.api.exchange import Response
from keyrack.api.permissions import Permission
from keyrack.console.choices import of_user
from keyrack.console.form_errors import RIGHT, SHOWN, FormErrors, refused, went
from keyrack.console.rendering import base, page
from keyrack.core.error_codes import NOTHING_HERE
from keyrack.core.errors import NotFound
from keyrack.http.page_router import ConsolePages, Visit

pages = ConsolePages()

SECTION = "users"
ROWS, ROW = "/users/{userId}/devices", "/users/{userId}/devices/{deviceId}"


async def phones_of(visit: Visit, user: int) -> list[dict[str, Any]]:
    """The phones, the oldest first, with `isReplaced`. A person has at most `KEYRACK_SDK_DEVICES`.

    A phone that lost its key registers again under the same name. So an older phone of that name may be replaced.

    Raises `NotFound`.
    """
    phones: list[dict[str, Any]] = (await visit.call("GET", ROWS, user, query={"$orderby": "registered"})).json
    newest = {phone["name"]: phone["id"] for phone in phones}
    return [phone | {"isReplaced": newest[phone["name"]] != phone["id"]} for phone in phones]


@pages.post("/{customer}/users/{user}/phones/{device}/approve", permission=Permission.USERS_WRITE)
async def approve(visit: Visit) -> Response:
    await visit.call("PUT", f"{ROW}/approval", visit.ids["user"], visit.ids["device"])
    return went(visit, f"{_page(visit)}?phone-approved")


@pages.get("/{customer}/users/{user}/phones/{device}/remove", permission=Permission.USERS_WRITE)
async def remove_form(visit: Visit) -> Response:
    return await _remove_form(visit)


@pages.post("/{customer}/users/{user}/phones/{device}/remove", permission=Permission.USERS_WRITE)
async def remove(visit: Visit) -> Response:
    try:
        await visit.call("DELETE", ROW, visit.ids["user"], visit.ids["device"])
    except NotFound:  # another person was faster: the result is the same
        await _user(visit)
    except SHOWN as refusal:
        return await _remove_form(visit, refused(visit, refusal))
    return went(visit, f"{_page(visit)}?phone-removed")


async def _remove_form(visit: Visit, wrong: FormErrors = RIGHT) -> Response:
    """The confirmation, with the effect on the phone's keys."""
    user = await _user(visit)
    phones = await phones_of(visit, user["id"])
    phone = next((device for device in phones if device["id"] == visit.ids["device"]), None)
    if phone is None:
        raise NotFound(NOTHING_HERE)
    return await page(
        visit, "phone_remove.html", status=wrong.status, section=SECTION, back=_page(visit), user=user,
        name=of_user(user).label, phone=phone, others=len(phones) - 1, wrong=wrong,
    )  # fmt: skip


async def _user(visit: Visit) -> Mapping[str, Any]:
    """Raises `NotFound`."""
    return (await visit.call("GET", "/users/{userId}", visit.ids["user"])).json


def _page(visit: Visit) -> str:
    return f"{base(visit)}/users/{visit.ids['user']}"
