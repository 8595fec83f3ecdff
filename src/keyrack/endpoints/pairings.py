"""Pairings: which service belongs to which product."""

from __future__ import annotations

from typing import LiteralString

from keyrack.api.endpoint import NO_CONTENT, Answer, Endpoints, Request
from keyrack.database.connection import Connection, Row
from keyrack.endpoints.installations import NO_PRODUCT, PRODUCT, ProductRef, no_product, product_given
from keyrack.endpoints.services import NO_SERVICE
from keyrack.errors import Conflict, NotFound, on_constraint
from keyrack.model.bodies import Int32, no_valid

endpoints = Endpoints("Pairings")

ALREADY = "The service is already paired with a product."
PRODUCT_TAKEN = "The product is already paired with a service."
NOT_PAIRED = "The service is not paired with the given product."
PAIR = "pair service with product"
UNPAIR = "unlink service from product"

SERVICE: LiteralString = """
select service_id, product_id from service where customer_id = $1 and service_id = $2 for no key update
"""
SET: LiteralString = "update service set product_id = $3 where customer_id = $1 and service_id = $2"


class Pairing(ProductRef):
    service_id: Int32


async def _both(connection: Connection, request: Request, wanted: Pairing, what: str) -> tuple[Row, Row]:
    """The service and the product, locked. Raises `NotFound`."""
    given = product_given(wanted, what)
    service = await connection.fetchrow(SERVICE, request.customer, wanted.service_id)
    if service is None:
        raise NotFound(NO_SERVICE)
    product = await connection.fetchrow(PRODUCT, request.customer, *given)
    if product is None:
        raise NotFound(NO_PRODUCT)
    return service, product


@endpoints.put(
    "/pairings",
    "Pair a service with a product",
    body=Pairing,
    what=PAIR,
    refuses={
        400: (no_valid(PAIR, "serviceId"), no_product(PAIR)),
        404: (NO_SERVICE, NO_PRODUCT),
        409: (ALREADY, PRODUCT_TAKEN),
    },
)
async def pair(request: Request, wanted: Pairing) -> Answer:
    async with request.db.transaction() as connection:
        service, product = await _both(connection, request, wanted, PAIR)
        if service["product_id"] is not None:
            raise Conflict(ALREADY)
        with on_constraint({"service_product_key": (Conflict, PRODUCT_TAKEN)}):
            await connection.execute(SET, request.customer, service["service_id"], product["product_id"])
    return NO_CONTENT


@endpoints.delete(
    "/pairings",
    "Unlink a service from its product",
    body=Pairing,
    what=UNPAIR,
    refuses={
        400: (no_valid(UNPAIR, "serviceId"), no_product(UNPAIR)),
        404: (NO_SERVICE, NO_PRODUCT),
        409: (NOT_PAIRED,),
    },
)
async def unpair(request: Request, wanted: Pairing) -> Answer:
    async with request.db.transaction() as connection:
        service, product = await _both(connection, request, wanted, UNPAIR)
        if service["product_id"] != product["product_id"]:
            raise Conflict(NOT_PAIRED)
        await connection.execute(SET, request.customer, service["service_id"], None)
    return NO_CONTENT
