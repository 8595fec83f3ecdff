"""Customers that the caller may access."""

from __future__ import annotations

from keyrack.api.auth_schemes import AccountAuth
from keyrack.api.endpoint import Doc, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import Request
from keyrack.api.services import ReadServices
from keyrack.fleet.schema import CUSTOMER

TAG = Tag("Customers", "The tenants for which the caller may act: everything else belongs to one of them.")
endpoints = Endpoints[ReadServices](TAG, AccountAuth())


def _customers(request: Request) -> dict[str, object]:
    return {"customers": list(request.caller.grants) if request.caller else []}


endpoints.read(
    "/customers",
    CUSTOMER,
    Doc(
        "listCustomers",
        "The customers of the manager",
        "Those for which the caller may act. The `id` is text here; the header `Customer-ID` of the other calls takes"
        " the same number.",
    ),
    tenant=_customers,
)
