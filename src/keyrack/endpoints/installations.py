"""Installations: which product is in which car. Taking a key box out ends the car's assignments."""

from __future__ import annotations

from typing import LiteralString

from keyrack.api.endpoint import NO_CONTENT, Answer, Endpoints, Request
from keyrack.assignments.operations import checksum, end_assignments_of_car, hold_lane
from keyrack.endpoints.cars import NO_CAR
from keyrack.errors import BadRequest, Conflict, NotFound, on_constraint
from keyrack.model.bodies import Body, Int32, Text, no_valid

endpoints = Endpoints("Installations")

NO_PRODUCT = "Unable to find a product for the given parameters which is assigned to the given customerId."
ALREADY = "The product is already installed into a car."
NO_SERVICE = "The product has no service assigned."
SAME_TYPE = "There is already installed a product of the same type in the car."
NOT_INSTALLED = "The product is already uninstalled."
OTHER_CAR = "The product is not assigned to the given car."
INSTALL = "install product"
UNINSTALL = "uninstall product"

# The locks keep what is checked as it is until the commit; the order of locks is always car, product
CAR: LiteralString = "select car_id from car where customer_id = $1 and car_id = $2 for key share"
PRODUCT: LiteralString = """
select p.product_id, p.kind, p.car_id,
  exists (select from service s where s.customer_id = p.customer_id and s.product_id = p.product_id) as served
from product p
where p.customer_id = $1 and ($2::integer is null or p.product_id = $2)
  and ($3::text is null or p.serial_number = $3) and ($4::text is null or p.unique_id = $4)
for no key update of p
"""
PUT_INTO: LiteralString = "update product set car_id = $3 where customer_id = $1 and product_id = $2"


class ProductRef(Body):
    """A product, named by any of three."""

    unique_id: Text | None = None
    serial_number: Text | None = None
    product_id: Int32 | None = None


class Installation(ProductRef):
    car_id: Int32


def product_given(ref: ProductRef, what: str) -> tuple[int | None, str | None, str | None]:
    """What the product is named by; several names must mean the same product. Raises `BadRequest` for none."""
    serial_number, unique_id = (ref.serial_number or "").strip() or None, (ref.unique_id or "").strip() or None
    if ref.product_id is None and serial_number is None and unique_id is None:
        raise BadRequest(no_product(what))
    return ref.product_id, serial_number, unique_id


def no_product(what: str) -> str:
    """The text of the refusal when nothing names a product."""
    return f"Couldn't {what}. No valid productId, serialNumber or uniqueId provided."


@endpoints.put(
    "/installations",
    "Install a product into a car",
    body=Installation,
    what=INSTALL,
    refuses={
        400: (no_valid(INSTALL, "carId"), no_product(INSTALL)),
        404: (NO_CAR, NO_PRODUCT),
        409: (ALREADY, NO_SERVICE, SAME_TYPE),
    },
)
async def install(request: Request, wanted: Installation) -> Answer:
    given = product_given(wanted, INSTALL)
    async with request.db.transaction() as connection:
        if await connection.fetchval(CAR, request.customer, wanted.car_id) is None:
            raise NotFound(NO_CAR)
        product = await connection.fetchrow(PRODUCT, request.customer, *given)
        if product is None:
            raise NotFound(NO_PRODUCT)
        if product["car_id"] is not None:
            raise Conflict(ALREADY)
        if not product["served"]:
            raise Conflict(NO_SERVICE)
        with on_constraint({"product_kind_in_car_key": (Conflict, SAME_TYPE)}):
            await connection.execute(PUT_INTO, request.customer, product["product_id"], wanted.car_id)
    return NO_CONTENT


@endpoints.delete(
    "/installations",
    "Take a product out of a car; with a key box the car's assignments end by webhook",
    body=Installation,
    what=UNINSTALL,
    refuses={
        400: (no_valid(UNINSTALL, "carId"), no_product(UNINSTALL)),
        404: (NO_CAR, NO_PRODUCT),
        409: (NOT_INSTALLED, OTHER_CAR),
    },
)
async def uninstall(request: Request, wanted: Installation) -> Answer:
    given = product_given(wanted, UNINSTALL)
    async with request.db.transaction() as connection:
        await hold_lane(connection, request.customer, wanted.car_id)
        if await connection.fetchval(CAR, request.customer, wanted.car_id) is None:
            raise NotFound(NO_CAR)
        product = await connection.fetchrow(PRODUCT, request.customer, *given)
        if product is None:
            raise NotFound(NO_PRODUCT)
        if product["car_id"] is None:
            raise Conflict(NOT_INSTALLED)
        if product["car_id"] != wanted.car_id:
            raise Conflict(OTHER_CAR)
        await connection.execute(PUT_INTO, request.customer, product["product_id"], None)
        if product["kind"] == "Box":
            fingerprint = checksum(request.body, request.method, request.path)
            await end_assignments_of_car(connection, request.customer, wanted.car_id, "Uninstallation", fingerprint)
    request.service.announce()
    return NO_CONTENT
