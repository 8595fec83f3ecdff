"""Cars, and what is asked of one car: products, assignments, telemetry, location, events."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, LiteralString

from keyrack.api import conditional_requests
from keyrack.api.endpoint import Endpoints
from keyrack.api.exchange import NO_CONTENT, Request, Response, created
from keyrack.api.permissions import Permission
from keyrack.api.read_sql import Parent
from keyrack.api.schema.declaration import patch_paths, patch_value
from keyrack.api.schema.request_body import (
    INVALID_MOMENT,
    Body,
    Patch,
    invalid_member,
    moment,
)
from keyrack.assignments.customer_lock import lock_and_flush
from keyrack.assignments.submission import submit_end_for_car
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import BadRequest, NotFound
from keyrack.db.connection import Statements
from keyrack.fleet.declarations import CARS, NewCar
from keyrack.fleet.schema import ASSIGNMENT_OF_CAR, CAR, EVENT, PRODUCT
from keyrack.telemetry.schema import LOCATION, LOCATION_AT, TELEMETRY

endpoints = Endpoints("Cars", "cars")

NO_CAR = ErrorCode(
    "car-not-found",
    "Unable to find a car for the given carId which is assigned to the given customerId.",
    "Use an id that GET /cars returns for this customer.",
)
NO_PRODUCTS = ErrorCode(
    "no-products-in-car",
    "Unable to find any products which are assigned to the given carId.",
    "Install a product first: PUT /installations.",
)
NO_IQ = ErrorCode(
    "no-iq-in-car",
    "Unable to find an IQ product which is assigned to the given carId.",
    "Install an IQ unit into the car first: PUT /installations.",
)
NO_TELEMETRY = ErrorCode(
    "no-telemetry-yet",
    "There is no telemetry yet for the given carId.",
    "Ask again when the unit in the car has reported.",
)
INVALID_DATE = ErrorCode(
    "invalid-search-date",
    f"Invalid searchDate provided. {INVALID_MOMENT}.",
    "Send a time of RFC 3339 with Z or an offset, percent-encoded.",
)


def search_date(text: str) -> datetime:
    """The date of the path. Raises `BadRequest`."""
    try:
        return moment(text)
    except ValueError:
        raise BadRequest(INVALID_DATE) from None


_IN_CAR: LiteralString = "{t}.customer_id = {p}.customer_id and {t}.car_id = {p}.car_id"
A_CAR = Parent(CAR, _IN_CAR)

endpoints.get("/cars", CAR, "All cars")
ONE_CAR = endpoints.get("/cars/{carId}", CAR, "One car", one=True, missing=NO_CAR)
endpoints.get(
    "/cars/{carId}/products",
    PRODUCT,
    "The products of a car",
    of=A_CAR,
    permission=Permission.PRODUCTS_READ,
    missing=NO_CAR,
    empty=NO_PRODUCTS,
)
endpoints.get(
    "/cars/{carId}/telemetry",
    TELEMETRY,
    "The newest telemetry of a car",
    permission=Permission.POSITIONS_READ,
    of=A_CAR,
    one=True,
    missing=NO_CAR,
    empty=NO_IQ,
    teller=LOCATION,
    silent=NO_TELEMETRY,
)
endpoints.get(
    "/cars/{carId}/location",
    LOCATION,
    "The newest location of a car",
    permission=Permission.POSITIONS_READ,
    of=A_CAR,
    one=True,
    missing=NO_CAR,
    empty=NO_IQ,
)
endpoints.get(
    "/cars/{carId}/location/{searchDate}",
    LOCATION_AT,
    "The location and the odometer nearest to a date",
    permission=Permission.POSITIONS_READ,
    of=A_CAR,
    one=True,
    missing=NO_CAR,
    empty=NO_IQ,
    convert={"searchDate": search_date},
    refuses={400: (INVALID_DATE,)},
)
endpoints.get(
    "/cars/{carId}/assignments",
    ASSIGNMENT_OF_CAR,
    "The assignments of a car",
    permission=Permission.ASSIGNMENTS_READ,
    of=A_CAR,
    missing=NO_CAR,
)
endpoints.get(
    "/cars/{carId}/events",
    EVENT,
    "The events of a car",
    permission=Permission.EVENTS_READ,
    of=A_CAR,
    missing=NO_CAR,
    paged=True,
)

UPDATE: LiteralString = CARS.update + " returning " + CAR.version("car")
EXISTS: LiteralString = "select exists (select from car where customer_id = $1 and car_id = $2)"
DELETE: LiteralString = "delete from car where customer_id = $1 and car_id = $2"


class CarPatch(Body):
    op: Literal["remove", "replace"]
    path: Annotated[str, patch_paths(NewCar)]
    value: Annotated[Any, patch_value(NewCar)] = None


CREATE_CAR = "create car"
UPDATE_CAR = "update car"


@endpoints.put(
    "/cars",
    "Create a car",
    limited=(),
    body=NewCar,
    what=CREATE_CAR,
    status=201,
    shows=ONE_CAR,
    refuses={400: (invalid_member(CREATE_CAR, "name"),)},
)
async def create(request: Request, car: NewCar) -> Response:
    return created(await request.db.fetchval(CARS.insert, request.customer, *CARS.values(car)))


@endpoints.patch(
    "/cars/{carId}",
    "Change a car",
    limited=(),
    body=Patch[CarPatch],
    what=UPDATE_CAR,
    shows=ONE_CAR,
    compares=CAR,
    refuses={400: (invalid_member(UPDATE_CAR, "name"),), 404: (NO_CAR,)},
)
async def update(request: Request, patch: list[CarPatch]) -> Response:
    changes = CARS.changes(patch, UPDATE_CAR)
    async with conditional_requests.with_if_match(request, CAR, NO_CAR) as statements:
        version = await statements.fetchval(UPDATE, request.customer, *request.ids, changes)
    if version is None:
        raise NotFound(NO_CAR)
    return conditional_requests.changed(CAR, version)


async def check_car(statements: Statements, customer: int, car: int) -> None:
    """Raises `NotFound` unless the customer has this car."""
    if not await statements.fetchval(EXISTS, customer, car):
        raise NotFound(NO_CAR)


async def _deletable(statements: Statements, request: Request, _body: None = None) -> None:
    await check_car(statements, request.customer, *request.ids)


@endpoints.delete(
    "/cars/{carId}",
    "Delete a car; its assignments end by webhook",
    limited=(),
    ground=_deletable,
    compares=CAR,
    refuses={404: (NO_CAR,)},
)
async def delete(request: Request) -> Response:
    (car,) = request.ids
    async with request.db.transaction() as connection:
        await lock_and_flush(connection, request.customer)
        await _deletable(connection, request)
        await conditional_requests.compare(connection, request, CAR, NO_CAR)
        await submit_end_for_car(connection, request.customer, car, "CarDeleted", request.checksum, request.asker)
        await connection.execute(DELETE, request.customer, car)
    return NO_CONTENT
