"""Products: key boxes and IQ units, their service and their car."""

from __future__ import annotations

from keyrack.api.auth_schemes import CustomerAuth
from keyrack.api.endpoint import Doc, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.permissions import Permission
from keyrack.api.read_sql import Parent
from keyrack.api.services import ReadServices
from keyrack.core.error_codes import ErrorCode
from keyrack.fleet.schema import CAR, PRODUCT, PRODUCT_LISTED, SERVICE_OF_PRODUCT

endpoints = Endpoints[ReadServices](
    Tag("Products", "Key boxes, which contain a car's key, and IQ units, which send telemetry and location."),
    "products",
)

NO_PRODUCT = ErrorCode(
    "product-not-found",
    "Unable to find a product for the given productId which is assigned to the given customerId.",
    "Use an id that `GET /products` returns for this customer.",
)
NO_SERVICE_ASSIGNED = ErrorCode(
    "no-service-of-product",
    "Unable to find a service which is assigned to the given productId.",
    "Pair it with a service first: `PUT /pairings`.",
)
NO_CAR_ASSIGNED = ErrorCode(
    "no-car-of-product",
    "Unable to find a car which is assigned to the given productId.",
    "Install it first: `PUT /installations`.",
)

endpoints.read(
    "/products",
    PRODUCT_LISTED,
    Doc(
        "listProducts",
        "List products",
        "Returns the key boxes and IQ units of the customer. The operator of the server adds products.",
    ),
)
endpoints.read(
    "/products/{productId}",
    PRODUCT,
    Doc("getProduct", "Get a product", "Returns one product, including the time at which its dongle was terminated."),
    is_single=True,
    missing_error=NO_PRODUCT,
)
endpoints.read(
    "/products/{productId}/services",
    SERVICE_OF_PRODUCT,
    Doc("getServiceOfProduct", "Get the service of a product", "Returns the service that is paired with the product."),
    auth=CustomerAuth(Permission.SERVICES_READ),
    parent=Parent(PRODUCT, PRODUCT.relations["service"].link),
    is_single=True,
    missing_error=NO_PRODUCT,
    empty_error=NO_SERVICE_ASSIGNED,
)
endpoints.read(
    "/products/{productId}/cars",
    CAR,
    Doc("getCarOfProduct", "Get the car of a product", "Returns the car in which the product is installed."),
    auth=CustomerAuth(Permission.CARS_READ),
    parent=Parent(PRODUCT, PRODUCT.relations["car"].link),
    is_single=True,
    missing_error=NO_PRODUCT,
    empty_error=NO_CAR_ASSIGNED,
)
