"""Products: key boxes and IQ units, their service and their car."""

from __future__ import annotations

from typing import Annotated, Any, Literal, LiteralString

from pydantic import TypeAdapter

from keyrack.api import conditional_requests
from keyrack.api.auth_schemes import CustomerAuth
from keyrack.api.endpoint import Concurrency, Doc, JsonBody, Responses, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import Request, Response
from keyrack.api.permissions import Permission
from keyrack.api.read_sql import Parent
from keyrack.api.reference_errors import EXTERNAL_ID, TAKEN, reference_errors
from keyrack.api.schema.declaration import patch_paths, patch_value
from keyrack.api.schema.references import NAMES
from keyrack.api.schema.request_body import Body, Patch, invalid_member
from keyrack.api.services import ReadServices
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import NotFound
from keyrack.fleet.declarations import PRODUCTS, ReferenceRow
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
ONE_PRODUCT = endpoints.read(
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

UPDATE: LiteralString = PRODUCTS.update + " returning " + PRODUCT.version_sql("product")
UPDATE_PRODUCT = "update product"


class ProductPatch(Body):
    op: Literal["remove", "replace"]
    path: Annotated[str, patch_paths(NAMES)]
    value: Annotated[Any, patch_value(ReferenceRow)] = None


@endpoints.patch(
    "/products/{productId}",
    Doc(
        "updateProduct",
        "Update the references of a product",
        "A JSON Patch (RFC 6902) with `remove` and `replace`, which is applied completely or not at all. It changes the"
        " `externalId` and the `metadata`. The operator of the server changes the other properties.",
        is_extension=True,
    ),
    auth=CustomerAuth(Permission.INSTALLATIONS_WRITE, is_group_scoped=True),
    body=JsonBody(TypeAdapter(Patch[ProductPatch]), UPDATE_PRODUCT),
    concurrency=Concurrency(if_match=PRODUCT),
    responses=Responses(
        errors={
            400: (invalid_member(UPDATE_PRODUCT, "externalId"), invalid_member(UPDATE_PRODUCT, "metadata")),
            404: (NO_PRODUCT,),
            409: (TAKEN,),
        },
        representation=ONE_PRODUCT,
    ),
    topics=frozenset(("products",)),
)
async def update(request: Request, patch: list[ProductPatch]) -> Response:
    changes = PRODUCTS.changes(patch, UPDATE_PRODUCT)
    async with (
        reference_errors(request, PRODUCTS, changes.get(EXTERNAL_ID), UPDATE_PRODUCT, patch),
        conditional_requests.with_if_match(request, PRODUCT, NO_PRODUCT) as statements,
    ):
        version = await statements.fetchval(UPDATE, request.customer, *request.ids, changes)
    if version is None:
        raise NotFound(NO_PRODUCT)
    return conditional_requests.changed(PRODUCT, version)
