"""Pairings of services with products."""

from __future__ import annotations

from typing import LiteralString

from pydantic import ConfigDict, TypeAdapter

from keyrack.api.auth_schemes import CustomerAuth
from keyrack.api.endpoint import Concurrency, Doc, JsonBody, Responses, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import NO_CONTENT, Request, Response
from keyrack.api.permissions import Permission
from keyrack.api.schema.request_body import Id, invalid_member
from keyrack.api.services import ReadServices
from keyrack.assignments.customer_lock import lock_and_flush
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import Conflict, NotFound, on_constraint
from keyrack.db.connection import Row, Statements
from keyrack.fleet.endpoints.installations import NO_PRODUCT, ProductRef, find_product, no_product, product_given
from keyrack.fleet.endpoints.services import NO_SERVICE

endpoints = Endpoints[ReadServices](
    Tag("Pairings", "Services of products.", frozenset(("products", "services"))),
    CustomerAuth(Permission.PAIRINGS_WRITE, is_group_scoped=True),
)

ALREADY = ErrorCode(
    "service-already-paired", "The service is already paired with a product.", "Unlink it first: `DELETE /pairings`."
)
PRODUCT_TAKEN = ErrorCode(
    "product-already-paired",
    "The product is already paired with a service.",
    "Unlink its service first: `DELETE /pairings`.",
)
NOT_PAIRED = ErrorCode(
    "service-not-paired",
    "The service is not paired with the given product.",
    "Use the product that `GET /services/{serviceId}/products` returns.",
)
PAIR = "pair service with product"
UNPAIR = "unlink service from product"

SERVICE: LiteralString = "select service_id, product_id from service where customer_id = $1 and service_id = $2"
SET: LiteralString = "update service set product_id = $3 where customer_id = $1 and service_id = $2"


class PairingBody(ProductRef):
    model_config = ConfigDict(title="Pairing")

    service_id: Id


async def _both(statements: Statements, request: Request, body: PairingBody, action: str) -> tuple[Row, Row]:
    """The service and the product. Raises `BadRequest`, `NotFound`."""
    product_given(body, action)
    service = await statements.fetchrow(SERVICE, request.customer, body.service_id)
    if service is None:
        raise NotFound(NO_SERVICE)
    return service, await find_product(statements, request, body, action)


async def _pairable(statements: Statements, request: Request, body: PairingBody) -> tuple[Row, Row]:
    """The service, which has no product, and the product. Raises `BadRequest`, `NotFound`, `Conflict`."""
    service, product = await _both(statements, request, body, PAIR)
    if service["product_id"] is not None:
        raise Conflict(ALREADY)
    return service, product


async def _paired(statements: Statements, request: Request, body: PairingBody) -> tuple[Row, Row]:
    """The service and its product. Raises `BadRequest`, `NotFound`, `Conflict`."""
    service, product = await _both(statements, request, body, UNPAIR)
    if service["product_id"] != product["product_id"]:
        raise Conflict(NOT_PAIRED)
    return service, product


@endpoints.put(
    "/pairings",
    Doc(
        "pairService",
        "Pair a service with a product",
        "Identify the product by one or more of `productId`, `serialNumber` and `uniqueId`. A product needs a service"
        " that is not terminated before it can be installed and its car can be assigned.",
    ),
    body=JsonBody(TypeAdapter(PairingBody), PAIR, scoped_members=("productId", "serviceId")),
    concurrency=Concurrency(serialized="always", precheck=_pairable),
    responses=Responses(
        errors={
            400: (invalid_member(PAIR, "serviceId"), no_product(PAIR)),
            404: (NO_SERVICE, NO_PRODUCT),
            409: (ALREADY, PRODUCT_TAKEN),
        }
    ),
)
async def pair(request: Request, body: PairingBody) -> Response:
    async with request.db.transaction() as connection:
        await lock_and_flush(connection, request.customer)
        service, product = await _pairable(connection, request, body)
        with on_constraint({"service_product_key": (Conflict, PRODUCT_TAKEN)}):
            await connection.execute(SET, request.customer, service["service_id"], product["product_id"])
    return NO_CONTENT


@endpoints.delete(
    "/pairings",
    Doc("unpairService", "Unpair a service from its product", "Removes the pairing of a service and a product."),
    body=JsonBody(TypeAdapter(PairingBody), UNPAIR, scoped_members=("productId", "serviceId")),
    concurrency=Concurrency(serialized="always", precheck=_paired),
    responses=Responses(
        errors={
            400: (invalid_member(UNPAIR, "serviceId"), no_product(UNPAIR)),
            404: (NO_SERVICE, NO_PRODUCT),
            409: (NOT_PAIRED,),
        }
    ),
)
async def unpair(request: Request, body: PairingBody) -> Response:
    async with request.db.transaction() as connection:
        await lock_and_flush(connection, request.customer)
        service, _ = await _paired(connection, request, body)
        await connection.execute(SET, request.customer, service["service_id"], None)
    return NO_CONTENT
