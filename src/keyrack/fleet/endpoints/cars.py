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
from keyrack.api.query_parameters import TOO_LONG_RANGE
from keyrack.api.read_sql import Parent
from keyrack.api.reference_errors import EXTERNAL_ID, TAKEN, reference_errors
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
from keyrack.core.error_codes import EMPTY_RANGE, ErrorCode
from keyrack.core.errors import BadRequest, NotFound
from keyrack.db.connection import Statements
from keyrack.fleet.availability import AVAILABLE_CAR, PERIOD, period_values
from keyrack.fleet.declarations import CARS, NewCar
from keyrack.fleet.schema import ASSIGNMENT_OF_CAR, CAR, EVENT, PRODUCT
from keyrack.telemetry.schema import LOCATION, LOCATION_AT, TELEMETRY

endpoints = Endpoints[ReadServices](
    Tag(
        "Cars",
        "Cars, and the products, assignments, telemetry, location and events of one car.",
        frozenset(("cars",)),
    ),
    "cars",
)

NO_CAR = ErrorCode(
    "car-not-found",
    "Unable to find a car for the given carId which is assigned to the given customerId.",
    "Use an id that `GET /cars` returns for this customer.",
)
NO_PRODUCTS = ErrorCode(
    "no-products-in-car",
    "Unable to find any products which are assigned to the given carId.",
    "Install a product first: `PUT /installations`.",
)
NO_IQ = ErrorCode(
    "no-iq-in-car",
    "Unable to find an IQ product which is assigned to the given carId.",
    "Install an IQ unit into the car first: `PUT /installations`.",
)
NO_TELEMETRY = ErrorCode(
    "no-telemetry-yet",
    "There is no telemetry yet for the given carId.",
    "Retry after the unit in the car has reported.",
)
INVALID_DATE = ErrorCode(
    "invalid-search-date",
    f"Invalid searchDate provided. {INVALID_MOMENT}",
    "Send a time of RFC 3339 with `Z` or an offset, percent-encoded.",
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
        "List cars",
        "Returns every car of the customer, ordered by id unless `$orderby` sets another order. `$expand` adds"
        " products, assignments and groups.",
    ),
)
endpoints.read(
    "/cars/available",
    AVAILABLE_CAR,
    Doc(
        "listAvailableCars",
        "List the cars that are free within a period",
        "Returns the cars whose exclusive bookings leave the time from `from` to `to` free, including the gap between"
        " two bookings. Requests that are not applied yet count as bookings. Shared assignments do not count."
        " `freeFrom` and `freeUntil` say when the previous booking ends and the next one starts; null if there is"
        " none. The list is a suggestion: a booking is decided when it is applied. A list of more than 1,000 cars has"
        " several pages: the header `Link` has the address of the next one.",
        is_extension=True,
    ),
    auth=CustomerAuth(Permission.ASSIGNMENTS_READ),
    errors={400: (EMPTY_RANGE, TOO_LONG_RANGE)},
    query_parameters=PERIOD,
    own_values=period_values,
    is_paged=True,
)
ONE_CAR = endpoints.read(
    "/cars/{carId}",
    CAR,
    Doc("getCar", "Get a car", "Returns the master data of one car. `$expand` adds related resources."),
    is_single=True,
    missing_error=NO_CAR,
)
endpoints.read(
    "/cars/{carId}/products",
    PRODUCT,
    Doc(
        "listProductsOfCar",
        "List the products of a car",
        "Returns the installed products: at most one key box and one IQ unit. The response is 404 if no product is"
        " installed.",
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
        "Get the newest telemetry of a car",
        "Returns the newest value of each property that the IQ unit in the car has sent, of whatever age."
        " `carDataReadTime` is the time of the newest reading. The response is 404 until the unit has sent a reading.",
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
        "Get the newest location of a car",
        "Returns the newest position and odometer reading of the IQ unit in the car. All properties are null until"
        " the unit has sent them.",
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
        "Get the location of a car at a date",
        "Returns the position and the odometer reading that are nearest to the date, before or after it, each with"
        " its own time. `GET /retention` returns how far the history reaches back.",
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
        "List the assignments of a car",
        "Returns past, current and future assignments. `$filter=end eq null or end gt now()` excludes past ones.",
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
        "List the events of a car",
        "Returns when the car was opened and closed, and by whom. Limit long lists, for example with `$top`. A list"
        " that is too long has several pages: the header `Link` has the address of the next one.",
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
    Doc("createCar", "Create a car", "Only the name is required. It need not be unique."),
    auth=CustomerAuth(Permission.CARS_WRITE, is_group_scoped=True),
    body=JsonBody(TypeAdapter(NewCar), CREATE_CAR),
    responses=Responses(
        201, errors={400: (invalid_member(CREATE_CAR, "name"),), 409: (TAKEN,)}, representation=ONE_CAR
    ),
)
async def create(request: Request, car: NewCar) -> Response:
    async with reference_errors(request, CARS, car.external_id, CREATE_CAR):
        return created(await request.db.fetchval(CARS.insert, request.customer, *CARS.values(car)))


@endpoints.patch(
    "/cars/{carId}",
    Doc(
        "updateCar",
        "Update a car",
        "A JSON Patch (RFC 6902) with `remove` and `replace`, which is applied completely or not at all. A removed"
        " property becomes null. The name cannot be removed.",
    ),
    auth=CustomerAuth(Permission.CARS_WRITE, is_group_scoped=True),
    body=JsonBody(TypeAdapter(Patch[CarPatch]), UPDATE_CAR),
    concurrency=Concurrency(if_match=CAR),
    responses=Responses(
        errors={400: (invalid_member(UPDATE_CAR, "name"),), 404: (NO_CAR,), 409: (TAKEN,)}, representation=ONE_CAR
    ),
)
async def update(request: Request, patch: list[CarPatch]) -> Response:
    changes = CARS.changes(patch, UPDATE_CAR)
    async with (
        reference_errors(request, CARS, changes.get(EXTERNAL_ID), UPDATE_CAR, patch),
        conditional_requests.with_if_match(request, CAR, NO_CAR) as statements,
    ):
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
        "Delete a car",
        "Uninstalls its products and removes it from its groups. Its events stay readable by id. Its assignments end"
        " asynchronously, each with its own operation and webhook.",
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
