"""Products: key boxes and IQ units, their service and the car that holds them."""

from __future__ import annotations

from keyrack.api.endpoint import Endpoints
from keyrack.api.permissions import Permission
from keyrack.api.read_sql import Parent
from keyrack.core.error_codes import ErrorCode
from keyrack.fleet.schema import CAR, PRODUCT, PRODUCT_LISTED, SERVICE_OF_PRODUCT

endpoints = Endpoints("Products", "products")

NO_PRODUCT = ErrorCode(
    "product-not-found",
    "Unable to find a product for the given productId which is assigned to the given customerId.",
    "Use an id that GET /products returns for this customer.",
)
NO_SERVICE_ASSIGNED = ErrorCode(
    "no-service-of-product",
    "Unable to find a service which is assigned to the given productId.",
    "Pair it with a service first: PUT /pairings.",
)
NO_CAR_ASSIGNED = ErrorCode(
    "no-car-of-product",
    "Unable to find a car which is assigned to the given productId.",
    "Install it first: PUT /installations.",
)

endpoints.get("/products", PRODUCT_LISTED, "All products")
endpoints.get("/products/{productId}", PRODUCT, "One product", one=True, missing=NO_PRODUCT)
endpoints.get(
    "/products/{productId}/services",
    SERVICE_OF_PRODUCT,
    "The service of a product",
    permission=Permission.SERVICES_READ,
    of=Parent(PRODUCT, PRODUCT.relations["service"].link),
    one=True,
    missing=NO_PRODUCT,
    empty=NO_SERVICE_ASSIGNED,
)
endpoints.get(
    "/products/{productId}/cars",
    CAR,
    "The car of a product",
    permission=Permission.CARS_READ,
    of=Parent(PRODUCT, PRODUCT.relations["car"].link),
    one=True,
    missing=NO_PRODUCT,
    empty=NO_CAR_ASSIGNED,
)
