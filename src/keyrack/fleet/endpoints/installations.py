"""Installations of products in cars. Removal of a key box ends the car's assignments."""

from __future__ import annotations

from typing import LiteralString

from pydantic import ConfigDict, TypeAdapter

from keyrack.api.auth_schemes import CustomerAuth
from keyrack.api.endpoint import Concurrency, Doc, JsonBody, Responses, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import NO_CONTENT, Request, Response
from keyrack.api.permissions import Permission
from keyrack.api.schema.request_body import Body, Id, Int32, Text, invalid_member
from keyrack.api.services import ReadServices
from keyrack.assignments.customer_lock import lock_and_flush
from keyrack.assignments.submission import submit_end_for_car
from keyrack.core.error_codes import ErrorCode, FieldError
from keyrack.core.errors import BadRequest, Conflict, NotFound, on_constraint
from keyrack.core.text import trimmed
from keyrack.db.connection import Row, Statements
from keyrack.fleet import group_scope_checks
from keyrack.fleet.endpoints.cars import NO_CAR, check_car

endpoints = Endpoints[ReadServices](
    Tag("Installations", "Products in cars.", frozenset(("cars", "products"))),
    CustomerAuth(Permission.INSTALLATIONS_WRITE, is_group_scoped=True),
)

NO_PRODUCT = ErrorCode(
    "named-product-not-found",
    "Unable to find a product for the given parameters which is assigned to the given customerId.",
    "Use values that `GET /products` returns; several names must identify the same product.",
)
ALREADY = ErrorCode(
    "product-already-installed",
    "The product is already installed into a car.",
    "Remove it from the other car first: `DELETE /installations`.",
)
NO_SERVICE = ErrorCode(
    "product-without-service",
    "The product has no service assigned.",
    "Pair it first with a service that is not terminated: `PUT /pairings`.",
)
SAME_TYPE = ErrorCode(
    "product-type-already-in-car",
    "There is already installed a product of the same type in the car.",
    "Remove the other product first: `DELETE /installations`.",
)
NOT_INSTALLED = ErrorCode(
    "product-not-installed", "The product is already uninstalled.", "Treat this as success: the product is in no car."
)
OTHER_CAR = ErrorCode(
    "product-in-other-car",
    "The product is not assigned to the given car.",
    "Use the car that `GET /products/{productId}/cars` returns.",
)
NO_NAME = ErrorCode(
    "no-product-named",
    "Couldn't {what}. No valid productId, serialNumber or uniqueId provided.",
    "Send `productId`, `serialNumber` or `uniqueId`.",
)
ONE_NEEDED = FieldError(
    "one-needed",
    "At least one of `productId`, `serialNumber` and `uniqueId` is required.",
    "",
    ("productId", "serialNumber", "uniqueId"),
)
INSTALL = "install product"
UNINSTALL = "uninstall product"

PRODUCT: LiteralString = """
select p.product_id, p.kind, p.car_id,
  exists (select from service s where s.customer_id = p.customer_id and s.product_id = p.product_id
          and not s.is_terminated) as served
from product p
where p.customer_id = $1 and ($2::integer is null or p.product_id = $2)
  and ($3::text is null or p.serial_number = $3) and ($4::text is null or p.unique_id = $4)
"""
PUT_INTO: LiteralString = "update product set car_id = $3 where customer_id = $1 and product_id = $2"


class ProductRef(Body):
    """A product, identified by any of three members."""

    unique_id: Text | None = None
    serial_number: Text | None = None
    product_id: Int32 | None = None


class InstallationBody(ProductRef):
    model_config = ConfigDict(title="Installation")

    car_id: Id


def product_given(ref: ProductRef, action: str) -> tuple[int | None, str | None, str | None]:
    """The identifiers of a product; several must identify the same one. Raises `BadRequest` without a valid one."""
    serial_number, unique_id = trimmed(ref.serial_number or "") or None, trimmed(ref.unique_id or "") or None
    if (ref.product_id or 0) < 1 and serial_number is None and unique_id is None:
        raise BadRequest(no_product(action), errors=[ONE_NEEDED])
    return ref.product_id, serial_number, unique_id


def no_product(action: str) -> ErrorCode:
    """The error for a request without a product identifier."""
    return NO_NAME.format(what=action)


async def find_product(statements: Statements, request: Request, ref: ProductRef, action: str) -> Row:
    """The identified product. Raises `BadRequest`, `NotFound`."""
    product = await _product(statements, request, ref, action)
    if product is None:
        raise NotFound(NO_PRODUCT)
    return product


async def _product(statements: Statements, request: Request, ref: ProductRef, action: str) -> Row | None:
    """The identified product; None if it is missing or out of the caller's scope. Raises `BadRequest`."""
    product = await statements.fetchrow(PRODUCT, request.customer, *product_given(ref, action))
    if product is None or await group_scope_checks.is_out_of_scope(
        request, "productId", product["product_id"], statements
    ):
        return None
    return product


async def _product_and_car(statements: Statements, request: Request, body: InstallationBody, action: str) -> Row:
    """The product, if the car exists as well. Raises `BadRequest`, `NotFound`.

    The product is read before the car, but a missing car is reported first. The id of a deleted car is never used
    again, so the car existed when the product was read.
    """
    product = await _product(statements, request, body, action)
    await check_car(statements, request.customer, body.car_id)
    if product is None:
        raise NotFound(NO_PRODUCT)
    return product


async def _installable(statements: Statements, request: Request, body: InstallationBody) -> Row:
    """The product, which can be installed. Raises `BadRequest`, `NotFound`, `Conflict`."""
    product = await _product_and_car(statements, request, body, INSTALL)
    if product["car_id"] is not None:
        raise Conflict(ALREADY)
    if not product["served"]:
        raise Conflict(NO_SERVICE)
    return product


async def _removable(statements: Statements, request: Request, body: InstallationBody) -> Row:
    """The product, which is in the car. Raises `BadRequest`, `NotFound`, `Conflict`."""
    product = await _product_and_car(statements, request, body, UNINSTALL)
    if product["car_id"] is None:
        raise Conflict(NOT_INSTALLED)
    if product["car_id"] != body.car_id:
        raise Conflict(OTHER_CAR)
    return product


@endpoints.put(
    "/installations",
    Doc(
        "installProduct",
        "Install a product in a car",
        "Identify the product by one or more of `productId`, `serialNumber` and `uniqueId`. The product needs a"
        " service and must not be installed in another car. A car can have one product of each type.",
    ),
    body=JsonBody(TypeAdapter(InstallationBody), INSTALL, scoped_members=("productId", "carId")),
    concurrency=Concurrency(serialized="always", precheck=_installable),
    responses=Responses(
        errors={
            400: (invalid_member(INSTALL, "carId"), no_product(INSTALL)),
            404: (NO_CAR, NO_PRODUCT),
            409: (ALREADY, NO_SERVICE, SAME_TYPE),
        }
    ),
)
async def install(request: Request, body: InstallationBody) -> Response:
    async with request.db.transaction() as connection:
        await lock_and_flush(connection, request.customer)
        product = await _installable(connection, request, body)
        with on_constraint({"product_kind_in_car_key": (Conflict, SAME_TYPE)}):
            await connection.execute(PUT_INTO, request.customer, product["product_id"], body.car_id)
    return NO_CONTENT


@endpoints.delete(
    "/installations",
    Doc(
        "uninstallProduct",
        "Uninstall a product from a car",
        "Identify the product by one or more of `productId`, `serialNumber` and `uniqueId`. If the product is a key"
        " box, all assignments of the car end asynchronously, each with its own operation and webhook.",
    ),
    body=JsonBody(TypeAdapter(InstallationBody), UNINSTALL, scoped_members=("productId", "carId")),
    concurrency=Concurrency(serialized="always", precheck=_removable),
    responses=Responses(
        errors={
            400: (invalid_member(UNINSTALL, "carId"), no_product(UNINSTALL)),
            404: (NO_CAR, NO_PRODUCT),
            409: (NOT_INSTALLED, OTHER_CAR),
        }
    ),
)
async def uninstall(request: Request, body: InstallationBody) -> Response:
    async with request.db.transaction() as connection:
        await lock_and_flush(connection, request.customer)
        product = await _removable(connection, request, body)
        await connection.execute(PUT_INTO, request.customer, product["product_id"], None)
        if product["kind"] == "Box":
            await submit_end_for_car(
                connection, request.customer, body.car_id, "Uninstallation", request.checksum, request.asker
            )
    return NO_CONTENT
