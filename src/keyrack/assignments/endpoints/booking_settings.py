"""Booking settings of a customer and of its cars. Extensions of the spec.

The settings give new assignments their defaults. Existing assignments keep what they have: a change of the settings
breaks no booking, so it has nothing to reject.
"""

from __future__ import annotations

from typing import Annotated, Literal, LiteralString

from pydantic import ConfigDict, TypeAdapter, WithJsonSchema

from keyrack.api.auth_schemes import CustomerAuth
from keyrack.api.endpoint import Concurrency, Doc, JsonBody, Responses
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import NO_CONTENT, Request, Response, answer
from keyrack.api.permissions import Permission
from keyrack.api.schema.request_body import WHOLE_NUMBER, StrictBody, int32_from
from keyrack.api.services import ReadServices
from keyrack.assignments.booking_checks import IS_OLD_PROCESS_RUNNING, OLD_WORKER
from keyrack.assignments.bookings import LONGEST_GAP
from keyrack.assignments.customer_lock import lock_and_flush
from keyrack.core.error_codes import NO_CUSTOMER
from keyrack.core.errors import Conflict, NotFound
from keyrack.db.connection import Row, Statements
from keyrack.fleet.endpoints.cars import NO_CAR, check_car
from keyrack.fleet.endpoints.customers import TAG

endpoints = Endpoints[ReadServices](
    TAG, CustomerAuth(Permission.ASSIGNMENTS_READ, is_group_scoped=True), is_extension=True, is_preview=True
)

READ: LiteralString = "select bookings, bookings_enforced, booking_gap from customer where customer_id = $1"
WRITE: LiteralString = """
update customer set bookings = $2, bookings_enforced = $3, booking_gap = $4 where customer_id = $1 returning true
"""
READ_OF_CAR: LiteralString = "select bookings, booking_gap from car where customer_id = $1 and car_id = $2"
WRITE_OF_CAR: LiteralString = """
update car set bookings = $3, booking_gap = $4 where customer_id = $1 and car_id = $2 returning true
"""
IS_OLD_RUNNING: LiteralString = "select " + IS_OLD_PROCESS_RUNNING

Kind = Literal["shared", "exclusive"]
Gap = Annotated[int, int32_from(0, LONGEST_GAP), WHOLE_NUMBER]


class BookingSettings(StrictBody):
    """The booking settings of a customer."""

    bookings: Kind
    bookings_enforced: bool
    booking_gap: Gap


class CarBookingSettings(StrictBody):
    """The booking settings of a car; null for those of the customer."""

    model_config = ConfigDict(title="CarBookingSettings")

    bookings: Annotated[
        Kind | None, WithJsonSchema({"type": ["string", "null"], "enum": ["shared", "exclusive", None]})
    ]
    booking_gap: Gap | None


async def _check_processes(
    statements: Statements, _request: Request, body: BookingSettings | CarBookingSettings
) -> None:
    """Raises `Conflict` for the setting `exclusive` while an older release runs."""
    if body.bookings == "exclusive" and await statements.fetchval(IS_OLD_RUNNING):
        raise Conflict(OLD_WORKER)


@endpoints.get(
    "/booking-settings",
    Doc(
        "getBookingSettings",
        "Get the booking settings",
        "Returns whether new assignments are exclusive unless they say otherwise, and the gap after each of them.",
    ),
    responses=Responses(200, BookingSettings, errors={404: (NO_CUSTOMER,)}),
)
async def settings(request: Request) -> Response:
    row = await request.db.fetchrow(READ, request.customer)
    if row is None:  # removed after the authorisation check
        raise NotFound(NO_CUSTOMER)
    return answer(_members(row) | {"bookingsEnforced": row["bookings_enforced"]})


@endpoints.put(
    "/booking-settings",
    Doc(
        "setBookingSettings",
        "Set the booking settings",
        "New assignments are exclusive if `bookings` is `exclusive`, unless their car or their request says otherwise."
        " With `bookingsEnforced`, a shared assignment of an exclusive car requires `assignments:share`. After an"
        " exclusive assignment, the car stays blocked for `bookingGap` seconds. Existing assignments do not change.",
    ),
    auth=CustomerAuth(Permission.ASSIGNMENTS_SHARE),
    body=JsonBody(TypeAdapter(BookingSettings), "set the booking settings"),
    concurrency=Concurrency(serialized="always", precheck=_check_processes),
    responses=Responses(errors={404: (NO_CUSTOMER,), 409: (OLD_WORKER,)}),
)
async def set_settings(request: Request, body: BookingSettings) -> Response:
    async with request.db.transaction() as connection:
        await lock_and_flush(connection, request.customer)
        await _check_processes(connection, request, body)
        values = body.bookings, body.bookings_enforced, body.booking_gap
        if not await connection.fetchval(WRITE, request.customer, *values):
            raise NotFound(NO_CUSTOMER)
    return NO_CONTENT


@endpoints.get(
    "/cars/{carId}/booking-settings",
    Doc(
        "getCarBookingSettings",
        "Get the booking settings of a car",
        "Returns the settings of the car itself. Null stands for those of the customer.",
    ),
    responses=Responses(200, CarBookingSettings, errors={404: (NO_CAR,)}),
)
async def settings_of_car(request: Request) -> Response:
    row = await request.db.fetchrow(READ_OF_CAR, request.customer, *request.ids)
    if row is None:
        raise NotFound(NO_CAR)
    return answer(_members(row))


async def _check_car(statements: Statements, request: Request, body: CarBookingSettings) -> None:
    """Raises `NotFound` for an unknown car, and `Conflict` as `_check_processes`."""
    await check_car(statements, request.customer, *request.ids)
    await _check_processes(statements, request, body)


@endpoints.put(
    "/cars/{carId}/booking-settings",
    Doc(
        "setCarBookingSettings",
        "Set the booking settings of a car",
        "Null stands for the setting of the customer. Existing assignments do not change.",
    ),
    auth=CustomerAuth(Permission.ASSIGNMENTS_SHARE, is_group_scoped=True),
    body=JsonBody(TypeAdapter(CarBookingSettings), "set the booking settings"),
    concurrency=Concurrency(serialized="always", precheck=_check_car),
    responses=Responses(errors={404: (NO_CAR,), 409: (OLD_WORKER,)}),
)
async def set_settings_of_car(request: Request, body: CarBookingSettings) -> Response:
    async with request.db.transaction() as connection:
        await lock_and_flush(connection, request.customer)
        await _check_processes(connection, request, body)
        values = body.bookings, body.booking_gap
        if not await connection.fetchval(WRITE_OF_CAR, request.customer, *request.ids, *values):
            raise NotFound(NO_CAR)
    return NO_CONTENT


def _members(row: Row) -> dict[str, object]:
    return {"bookings": row["bookings"], "bookingGap": row["booking_gap"]}
