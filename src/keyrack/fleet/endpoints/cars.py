"""Cars, and the sub-resources of one car: products, assignments, telemetry, location, events."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, LiteralString

from pydantic import TypeAdapter

from keyrack.api import conditional_requests
from keyrack.api.auth_schemes import CustomerAuth
from keyrack.api.endpoint import Concurrency, Doc, JsonBody, Responses, Tag
from keyrack.api.endpoint_registry import Endpoints
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
from keyrack.api.services import ReadServices
from keyrack.assignments.customer_lock import lock_and_flush
from keyrack.assignments.submission import submit_end_for_car
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import BadRequest, NotFound
from keyrack.db.connection import Statements
from keyrack.fleet.declarations import CARS, NewCar
from keyrack.fleet.schema import ASSIGNMENT_OF_CAR, CAR, EVENT, PRODUCT
from keyrack.telemetry.schema import LOCATION, LOCATION_AT, TELEMETRY

endpoints = Endpoints[ReadServices](
    Tag(
        "Cars",
        "Cars, and what is asked of one car: products, assignments, telemetry, location and events.",
        frozenset(("cars",)),
    ),
    "cars",
)

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
    """The date in the path. Raises `BadRequest`."""
    try:
        return moment(text)
    except ValueError:
        raise BadRequest(INVALID_DATE) from None


_IN_CAR: LiteralString = "{t}.customer_id = {p}.customer_id and {t}.car_id = {p}.car_id"
A_CAR = Parent(CAR, _IN_CAR)

endpoints.read(
    "/cars",
    CAR,
    Doc(
        "listCars",
        "All cars",
        "Every car of the customer, by id unless `$orderby` says otherwise. `$expand` adds products, assignments and"
        " groups.",
    ),
)
ONE_CAR = endpoints.read(
    "/cars/{carId}",
    CAR,
    Doc("getCar", "One car", "The master data of one car; `$expand` adds what belongs to it."),
    is_single=True,
    missing_error=NO_CAR,
)
endpoints.read(
    "/cars/{carId}/products",
    PRODUCT,
    Doc(
        "listProductsOfCar",
        "The products of a car",
        "What is installed in the car: at most one key box and one IQ unit. 404 if nothing is.",
    ),
    auth=CustomerAuth(Permission.PRODUCTS_READ),
    parent=A_CAR,
    missing_error=NO_CAR,
    empty_error=NO_PRODUCTS,
)
endpoints.read(
    "/cars/{carId}/telemetry",
    TELEMETRY,
    Doc(
        "getCarTelemetry",
        "The newest telemetry of a car",
        "The newest value that the IQ unit in the car has told of each member, whenever that was."
        " `carDataReadTime` is the time of the newest reading. 404 until the unit has told something.",
    ),
    auth=CustomerAuth(Permission.POSITIONS_READ),
    parent=A_CAR,
    is_single=True,
    missing_error=NO_CAR,
    empty_error=NO_IQ,
    reporter=LOCATION,
    unreported_error=NO_TELEMETRY,
)
endpoints.read(
    "/cars/{carId}/location",
    LOCATION,
    Doc(
        "getCarLocation",
        "The newest location of a car",
        "Where the IQ unit in the car said that it is, and the odometer. All members are null until it has told them.",
    ),
    auth=CustomerAuth(Permission.POSITIONS_READ),
    parent=A_CAR,
    is_single=True,
    missing_error=NO_CAR,
    empty_error=NO_IQ,
)
endpoints.read(
    "/cars/{carId}/location/{searchDate}",
    LOCATION_AT,
    Doc(
        "getCarLocationAt",
        "The location and the odometer nearest to a date",
        "The position and the odometer reading that lie nearest to the date, before or after it, each with its own"
        " time. They reach as far back as history is kept: `GET /retention` says how far.",
    ),
    auth=CustomerAuth(Permission.POSITIONS_READ),
    parent=A_CAR,
    is_single=True,
    missing_error=NO_CAR,
    empty_error=NO_IQ,
    errors={400: (INVALID_DATE,)},
    converters={"searchDate": search_date},
)
endpoints.read(
    "/cars/{carId}/assignments",
    ASSIGNMENT_OF_CAR,
    Doc(
        "listAssignmentsOfCar",
        "The assignments of a car",
        "Past, in force and to come; `$filter=end eq null or end gt now()` leaves out those that are over.",
    ),
    auth=CustomerAuth(Permission.ASSIGNMENTS_READ),
    parent=A_CAR,
    missing_error=NO_CAR,
)
endpoints.read(
    "/cars/{carId}/events",
    EVENT,
    Doc(
        "listEventsOfCar",
        "The events of a car",
        "When the car was opened and closed, by whom. There may be many, so limit them, as with `$top`: a list that is"
        " too long comes in pages, and the header `Link` leads to the next one.",
    ),
    auth=CustomerAuth(Permission.EVENTS_READ),
    parent=A_CAR,
    missing_error=NO_CAR,
    is_paged=True,
)

UPDATE: LiteralString = CARS.update + " returning " + CAR.version_sql("car")
EXISTS: LiteralString = "select exists (select from car where customer_id = $1 and car_id = $2)"
DELETE: LiteralString = "delete from car where customer_id = $1 and car_id = $2"


class CarPatch(Body):
    op: Literal["remove", "replace"]
    path: Annotated[str, patch_paths(CARS.by_name)]
    value: Annotated[Any, patch_value(NewCar)] = None


CREATE_CAR = "create car"
UPDATE_CAR = "update car"


@endpoints.put(
    "/cars",
    Doc("createCar", "Create a car", "A new car of the customer. Only its name is needed, which need not be unique."),
    auth=CustomerAuth(Permission.CARS_WRITE, is_group_scoped=True),
    body=JsonBody(TypeAdapter(NewCar), CREATE_CAR),
    responses=Responses(201, errors={400: (invalid_member(CREATE_CAR, "name"),)}, representation=ONE_CAR),
)
async def create(request: Request, car: NewCar) -> Response:
    return created(await request.db.fetchval(CARS.insert, request.customer, *CARS.values(car)))


@endpoints.patch(
    "/cars/{carId}",
    Doc(
        "updateCar",
        "Change a car",
        "A JSON Patch (RFC 6902) of `remove` and `replace`, applied whole or not at all. What is removed is null"
        " afterwards; the name cannot be removed.",
    ),
    auth=CustomerAuth(Permission.CARS_WRITE, is_group_scoped=True),
    body=JsonBody(TypeAdapter(Patch[CarPatch]), UPDATE_CAR),
    concurrency=Concurrency(if_match=CAR),
    responses=Responses(errors={400: (invalid_member(UPDATE_CAR, "name"),), 404: (NO_CAR,)}, representation=ONE_CAR),
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
    Doc(
        "deleteCar",
        "Delete a car; its assignments end by webhook",
        "Its products are uninstalled, and its links to groups go. Its events stay readable by id."
        " Its assignments end asynchronously, each with an outcome of its own.",
    ),
    auth=CustomerAuth(Permission.CARS_WRITE, is_group_scoped=True),
    concurrency=Concurrency(if_match=CAR, serialized="always", precheck=_deletable),
    responses=Responses(errors={404: (NO_CAR,)}),
    topics=frozenset(("cars", "products", "groups")),
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
