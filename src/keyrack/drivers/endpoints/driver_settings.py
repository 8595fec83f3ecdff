"""A customer's settings for its drivers. Extensions of the spec."""

from __future__ import annotations

from typing import Annotated, LiteralString

from pydantic import Field, TypeAdapter

from keyrack.api.auth_schemes import CustomerAuth
from keyrack.api.endpoint import Doc, JsonBody, Responses
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import NO_CONTENT, Request, Response, answer
from keyrack.api.permissions import Permission
from keyrack.api.schema.request_body import WHOLE_NUMBER, StrictBody, int32_from
from keyrack.core.error_codes import NO_CUSTOMER
from keyrack.core.errors import NotFound
from keyrack.drivers.services import DriverServices
from keyrack.fleet.endpoints.customers import TAG

endpoints = Endpoints[DriverServices](
    TAG, CustomerAuth(Permission.CUSTOMER_READ, is_group_scoped=True), is_extension=True, is_preview=True
)

MAX_EXTENSION_HOURS = 720  # as the constraint of migration 0072
PHONE_NUMBER = r"^\+?[0-9][0-9 ()/.-]{1,38}[0-9]$"  # an app dials it, so it is no free text

READ: LiteralString = """
select driver_phone, driver_shows_place, driver_extension_hours from customer where customer_id = $1
"""
WRITE: LiteralString = """
update customer set driver_phone = $2, driver_shows_place = $3, driver_extension_hours = $4 where customer_id = $1
returning true
"""
ExtensionHours = Annotated[int, int32_from(0, MAX_EXTENSION_HOURS), WHOLE_NUMBER]


class DriverSettings(StrictBody):
    """The settings of a customer for its drivers."""

    phone: Annotated[str, Field(max_length=40, pattern=PHONE_NUMBER)] | None
    shows_place: bool
    extension_hours: ExtensionHours


@endpoints.get(
    "/driver-settings",
    Doc(
        "getDriverSettings",
        "Get the settings for drivers",
        "Returns the phone number for help, whether the app shows the place of a car, and the rule for extensions.",
    ),
    responses=Responses(200, DriverSettings, errors={404: (NO_CUSTOMER,)}),
)
async def settings(request: Request) -> Response:
    row = await request.db.fetchrow(READ, request.customer)
    if row is None:  # removed after the authorisation check
        raise NotFound(NO_CUSTOMER)
    return answer(
        {
            "phone": row["driver_phone"],
            "showsPlace": row["driver_shows_place"],
            "extensionHours": row["driver_extension_hours"],
        }
    )


@endpoints.put(
    "/driver-settings",
    Doc(
        "setDriverSettings",
        "Set the settings for drivers",
        "`phone` is the number that the app dials for help. With `showsPlace`, a driver sees where the car stands while"
        " the assignment runs. A driver's request to extend an assignment by at most `extensionHours` is granted if"
        " nobody else has the car; with 0, a manager decides each request.",
    ),
    auth=CustomerAuth(Permission.USERS_WRITE),
    body=JsonBody(TypeAdapter(DriverSettings), "set the settings for drivers"),
    responses=Responses(errors={404: (NO_CUSTOMER,)}),
)
async def set_settings(request: Request, body: DriverSettings) -> Response:
    values = body.phone, body.shows_place, body.extension_hours
    if not await request.db.fetchval(WRITE, request.customer, *values):
        raise NotFound(NO_CUSTOMER)
    return NO_CONTENT
