"""Customers: those for which the caller may act."""

from __future__ import annotations

from keyrack.api.endpoint import Endpoints
from keyrack.api.exchange import Request
from keyrack.api.permissions import Free
from keyrack.fleet.schema import CUSTOMER

endpoints = Endpoints("Customers", Free.CALLER)


def _customers(request: Request) -> dict[str, object]:
    return {"customers": list(request.caller.grants) if request.caller else []}


endpoints.get("/customers", CUSTOMER, "The customers of the manager", tenant=_customers, customer=False)
