"""Services: the contracts of boxes."""

from __future__ import annotations

from keyrack.api.endpoint import Endpoints
from keyrack.api.permissions import Permission
from keyrack.api.read_sql import Parent
from keyrack.core.error_codes import ErrorCode
from keyrack.fleet.schema import CONTRACT, PRODUCT, SERVICE

endpoints = Endpoints("Services", "services")

NO_SERVICE = ErrorCode(
    "service-not-found",
    "Unable to find a service for the given serviceId which is assigned to the given customerId.",
    "Use an id that GET /services returns for this customer.",
)
NO_PRODUCT_ASSIGNED = ErrorCode(
    "no-product-of-service",
    "Unable to find a product which is assigned to the given serviceId.",
    "Pair it with a product first: PUT /pairings.",
)
NO_CONTRACT = ErrorCode(
    "no-contract-of-service",
    "Unable to find a contract which is assigned to the given serviceId.",
    "Ask the operator: contracts come with the service.",
)

endpoints.get("/services", SERVICE, "All services")
endpoints.get("/services/{serviceId}", SERVICE, "One service", one=True, missing=NO_SERVICE)
endpoints.get(
    "/services/{serviceId}/products",
    PRODUCT,
    "The product of a service",
    permission=Permission.PRODUCTS_READ,
    of=Parent(SERVICE, SERVICE.relations["product"].link),
    one=True,
    missing=NO_SERVICE,
    empty=NO_PRODUCT_ASSIGNED,
)
endpoints.get(
    "/services/{serviceId}/contracts",
    CONTRACT,
    "The contract of a service",
    of=Parent(SERVICE, SERVICE.relations["contract"].link),
    one=True,
    missing=NO_SERVICE,
    empty=NO_CONTRACT,
)
