"""The booking policies: of the customer, and of one car."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keyrack.api.exchange import Response
from keyrack.api.permissions import Permission
from keyrack.console.booking_policies import (
    EXCLUSIVE,
    CustomerPolicy,
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
OVERLAPS = N_("Bookings of this car overlap. Change or end them, then set the car to exclusive.")
SHARED = "shared"
OF_CUSTOMER = "customer"  # the choice of a car without a policy of its own


@pages.get("/{customer}/settings/bookings", permission=Permission.CUSTOMER_READ)
async def booking_settings(visit: Visit) -> Response:
    policy = await customer_policy(visit)
    return await _settings(visit, _shown(policy))


@pages.post("/{customer}/settings/bookings", permission=Permission.CARS_WRITE)
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
        return await _settings(visit, typed, refused(visit, refusal, _words(visit)))
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


@pages.get("/{customer}/cars/{carId}/bookings", permission=Permission.CARS_WRITE)
async def of_one_car(visit: Visit) -> Response:
    car = await visit.call("GET", "/cars/{carId}", visit.ids["carId"])
    typed = {"bookings": car.json["bookings"] or OF_CUSTOMER, "gap": minutes(car.json["bookingGap"])}
    return await _of_car(visit, car.json, typed, car.tag)


@pages.post("/{customer}/cars/{carId}/bookings", permission=Permission.CARS_WRITE)
async def save_of_car(visit: Visit) -> Response:
    typed = {"bookings": visit.form_value("bookings"), "gap": visit.form_value("gap")}
    car = (await visit.call("GET", "/cars/{carId}", visit.ids["carId"])).json
    tag = visit.form_value("tag")
    gap = _seconds(typed["gap"])
    if typed["gap"] and gap is None:
        return await _of_car(visit, car, typed, tag, invalid([("gap", gettext(visit, NO_GAP))]))
    bookings = typed["bookings"] if typed["bookings"] in (EXCLUSIVE, SHARED) else None
    values = {"bookings": bookings, "bookingGap": gap}
    patch = [_step(name, value) for name, value in values.items()]
    try:
        await visit.call("PATCH", "/cars/{carId}", visit.ids["carId"], body=patch, if_match=tag or None)
    except SHOWN as refusal:
        return await _of_car(visit, car, typed, tag, refused(visit, refusal, _words(visit)))
    return went(visit, _car_page(visit))


async def _of_car(
    visit: Visit, car: Mapping[str, Any], typed: Mapping[str, Any], tag: str, wrong: FormErrors = RIGHT
) -> Response:
    return await page(
        visit, "car_bookings.html", status=wrong.status, section="cars", back=_car_page(visit), car=of_car(car),
        typed=typed, tag=tag, wrong=wrong, policy=(policy := await customer_policy(visit)),
        minutes=minutes(policy.gap),
    )  # fmt: skip


def _step(name: str, value: object) -> dict[str, Any]:
    path = f"/{name}"
    return {"op": "remove", "path": path} if value is None else {"op": "replace", "path": path, "value": value}


def _seconds(text: str) -> int | None:
    """Minutes as whole seconds. None if the text is not a valid number of minutes."""
    try:
        number = float(text.replace(",", "."))
    except ValueError:
        return None
    return round(number * 60) if 0 <= number <= LONGEST_GAP else None


def _words(visit: Visit) -> dict[str, tuple[str, str]]:
    return {
        "/bookingGap": ("gap", gettext(visit, NO_GAP)), "bookings-overlap": ("bookings", gettext(visit, OVERLAPS)),
    }  # fmt: skip


def _car_page(visit: Visit) -> str:
    return f"{base(visit)}/cars/{visit.ids['carId']}"
