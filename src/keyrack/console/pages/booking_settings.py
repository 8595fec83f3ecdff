"""The booking policies: of the customer, and of one car."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keyrack.api.exchange import Response
from keyrack.api.permissions import Permission
from keyrack.console.booking_policies import (
    EXCLUSIVE,
    CustomerPolicy,
    car_policy,
    customer_policy,
    may_set_customer_policy,
    minutes,
)
from keyrack.console.choices import of_car
from keyrack.console.form_errors import RIGHT, SHOWN, FormErrors, invalid, refused, went
from keyrack.console.rendering import base, gettext, page, redirect
from keyrack.core.text import N_
from keyrack.http.page_router import ConsolePages, Visit

pages = ConsolePages()

SECTION = "settings"
LONGEST_GAP = 1_440  # minutes
NO_GAP = N_("Enter a number of minutes from 0 to 1440.")
SHARED = "shared"
OF_CUSTOMER = "customer"  # the choice of a car without a policy of its own


@pages.get("/{customer}/settings/bookings", permission=Permission.ASSIGNMENTS_READ)
async def booking_settings(visit: Visit) -> Response:
    policy = await customer_policy(visit)
    return await _settings(visit, _shown(policy))


@pages.post("/{customer}/settings/bookings", permission=Permission.ASSIGNMENTS_SHARE)
async def save(visit: Visit) -> Response:
    typed: dict[str, Any] = {
        "bookings": EXCLUSIVE if visit.form_value("bookings") == EXCLUSIVE else SHARED,
        "enforced": "enforced" in visit.form,
        "gap": visit.form_value("gap"),
    }
    gap = _seconds(typed["gap"])
    if gap is None:
        return await _settings(visit, typed, invalid([("gap", gettext(visit, NO_GAP))]))
    body = {"bookings": typed["bookings"], "bookingGap": gap, "bookingsEnforced": typed["enforced"]}
    try:
        await visit.call("PUT", "/booking-settings", body=body)
    except SHOWN as refusal:
        return await _settings(visit, typed, refused(visit, refusal))
    return redirect(f"{base(visit)}/settings/bookings?saved")


async def _settings(visit: Visit, typed: Mapping[str, Any], wrong: FormErrors = RIGHT) -> Response:
    return await page(
        visit, "booking_settings.html", status=wrong.status, section=SECTION, typed=typed, wrong=wrong,
        saved="saved" in visit.query, may_change=may_set_customer_policy(visit),
    )  # fmt: skip


def _shown(policy: CustomerPolicy) -> dict[str, Any]:
    return {
        "bookings": EXCLUSIVE if policy.is_exclusive else SHARED,
        "enforced": policy.is_enforced,
        "gap": minutes(policy.gap),
    }


@pages.get("/{customer}/cars/{carId}/bookings", permission=Permission.ASSIGNMENTS_SHARE)
async def of_one_car(visit: Visit) -> Response:
    policy = await car_policy(visit, visit.ids["carId"])
    kind = OF_CUSTOMER if policy.is_exclusive is None else EXCLUSIVE if policy.is_exclusive else SHARED
    return await _of_car(visit, {"bookings": kind, "gap": minutes(policy.gap)})


@pages.post("/{customer}/cars/{carId}/bookings", permission=Permission.ASSIGNMENTS_SHARE)
async def save_of_car(visit: Visit) -> Response:
    typed = {"bookings": visit.form_value("bookings"), "gap": visit.form_value("gap")}
    gap = _seconds(typed["gap"])
    if typed["gap"] and gap is None:
        return await _of_car(visit, typed, invalid([("gap", gettext(visit, NO_GAP))]))
    body = {"bookings": typed["bookings"] if typed["bookings"] in (EXCLUSIVE, SHARED) else None, "bookingGap": gap}
    try:
        await visit.call("PUT", "/cars/{carId}/booking-settings", visit.ids["carId"], body=body)
    except SHOWN as refusal:
        return await _of_car(visit, typed, refused(visit, refusal))
    return went(visit, _car_page(visit))


async def _of_car(visit: Visit, typed: Mapping[str, Any], wrong: FormErrors = RIGHT) -> Response:
    car = (await visit.call("GET", "/cars/{carId}", visit.ids["carId"])).json
    policy = await customer_policy(visit)
    return await page(
        visit, "car_bookings.html", status=wrong.status, section="cars", back=_car_page(visit), car=of_car(car),
        typed=typed, wrong=wrong, policy=policy, minutes=minutes(policy.gap),
    )  # fmt: skip


def _seconds(text: str) -> int | None:
    """Minutes as whole seconds. None if the text is not a valid number of minutes."""
    try:
        number = float(text.replace(",", "."))
    except ValueError:
        return None
    return round(number * 60) if 0 <= number <= LONGEST_GAP else None


def _car_page(visit: Visit) -> str:
    return f"{base(visit)}/cars/{visit.ids['carId']}"
