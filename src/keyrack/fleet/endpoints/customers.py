"""Customers that the caller may access."""

from __future__ import annotations

from keyrack.api.auth_schemes import AccountAuth
from keyrack.api.endpoint import Doc, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import Request
from keyrack.api.services import ReadServices
from keyrack.fleet.schema import CUSTOMER

TAG = Tag("Customers", "The customers that the caller may act for. All other data belongs to one of them.")
endpoints = Endpoints[ReadServices](TAG, AccountAuth())


def _customers(request: Request) -> dict[str, object]:
    return {"customers": list(request.caller.grants) if request.caller else []}


endpoints.read(
    "/customers",
    CUSTOMER,
    Doc(
        "listCustomers",
        "List customers",
        "Returns the customers that the caller may act for. `id` is a string here; the header `Customer-ID` of other"
        " requests has the same value as a number.",
    ),
    tenant=_customers,
)
