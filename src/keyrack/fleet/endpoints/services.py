"""Services of products, and their contracts."""

from __future__ import annotations

from keyrack.api.auth_schemes import CustomerAuth
from keyrack.api.endpoint import Doc, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.permissions import Permission
from keyrack.api.read_sql import Parent
from keyrack.api.services import ReadServices
from keyrack.core.error_codes import ErrorCode
from keyrack.fleet.schema import CONTRACT, PRODUCT, SERVICE

endpoints = Endpoints[ReadServices](Tag("Services", "The services of products, and their contracts."), "services")

NO_SERVICE = ErrorCode(
    "service-not-found",
    "Unable to find a service for the given serviceId which is assigned to the given customerId.",
    "Use an id that `GET /services` returns for this customer.",
)
NO_PRODUCT_ASSIGNED = ErrorCode(
    "no-product-of-service",
    "Unable to find a product which is assigned to the given serviceId.",
    "Pair it with a product first: `PUT /pairings`.",
)
NO_CONTRACT = ErrorCode(
    "no-contract-of-service",
    "Unable to find a contract which is assigned to the given serviceId.",
    "Ask the operator to add a contract to the service.",
)

endpoints.read(
    "/services",
    SERVICE,
    Doc(
        "listServices",
        "List services",
        "Returns the services of the customer's products, each with the paired product. The operator of the server"
        " adds services.",
    ),
)
endpoints.read(
    "/services/{serviceId}",
    SERVICE,
    Doc("getService", "Get a service", "Returns one service. `$expand` adds its product, contract and groups."),
    is_single=True,
    missing_error=NO_SERVICE,
)
endpoints.read(
    "/services/{serviceId}/products",
    PRODUCT,
    Doc("getProductOfService", "Get the product of a service", "Returns the product that is paired with the service."),
    auth=CustomerAuth(Permission.PRODUCTS_READ),
    parent=Parent(SERVICE, SERVICE.relations["product"].link),
    is_single=True,
    missing_error=NO_SERVICE,
    empty_error=NO_PRODUCT_ASSIGNED,
)
endpoints.read(
    "/services/{serviceId}/contracts",
    CONTRACT,
    Doc("getContractOfService", "Get the contract of a service", "Returns order, term and notice period."),
    parent=Parent(SERVICE, SERVICE.relations["contract"].link),
    is_single=True,
    missing_error=NO_SERVICE,
    empty_error=NO_CONTRACT,
)
