"""The dialog that approves or undoes an unconfirmed enrolment of a car's box."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keyrack.api.exchange import Response
from keyrack.api.permissions import Permission
from keyrack.console.form_errors import RIGHT, SHOWN, FormErrors, refused
from keyrack.console.pages.car import SECTION, gone_on
from keyrack.console.rendering import base, page
from keyrack.core.error_codes import NOTHING_HERE
from keyrack.core.errors import Forbidden, NotFound
from keyrack.http.page_router import ConsolePages, NotPermitted, Visit

pages = ConsolePages()

ROW = "/boxes/{productId}/enrolment"
PAGE = "/{customer}/cars/{carId}/boxes/{productId}/enrolment"


@pages.get(PAGE, permission=Permission.BOXES_WRITE)
async def look(visit: Visit) -> Response:
    return await _dialog(visit)


@pages.post(PAGE + "/undo", permission=Permission.BOXES_WRITE)
async def undo(visit: Visit) -> Response:
    thumbprint = visit.form_value("thumbprint")
    try:
        await visit.call("DELETE", ROW, visit.ids["productId"], query={"thumbprint": thumbprint} if thumbprint else {})
    except SHOWN as refusal:
        return await _dialog(visit, refused(visit, refusal))
    return gone_on(visit, _car(visit))


@pages.post(PAGE + "/approve", permission=Permission.BOXES_WRITE)
async def approve(visit: Visit) -> Response:
    body = {"thumbprint": visit.form_value("thumbprint")}
    try:
        await visit.call("POST", f"{ROW}/approval", visit.ids["productId"], body=body)
    except NotPermitted:
        raise
    except (*SHOWN, Forbidden) as refusal:
        return await _dialog(visit, refused(visit, refusal))
    return gone_on(visit, _car(visit))


async def _dialog(visit: Visit, wrong: FormErrors = RIGHT) -> Response:
    """The unconfirmed enrolment with its actions. Raises `NotFound`."""
    state: Mapping[str, Any] = (await visit.call("GET", ROW, visit.ids["productId"])).json
    car = (await visit.call("GET", "/cars/{carId}", visit.ids["carId"])).json
    if state["pending"] is None and wrong is RIGHT:
        raise NotFound(NOTHING_HERE)
    return await page(
        visit, "box_enrolment.html", status=wrong.status, section=SECTION, back=_car(visit), car=car,
        product=state["productId"], pending=state["pending"], wrong=wrong,
    )  # fmt: skip


def _car(visit: Visit) -> str:
    return f"{base(visit)}/cars/{visit.ids['carId']}"
