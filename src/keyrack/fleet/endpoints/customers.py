"""Customers: those for which the caller may act."""

from __future__ import annotations

from keyrack.api.endpoint import Endpoints
from keyrack.api.exchange import Request
from keyrack.api.permissions import Free
from keyrack.fleet.schema import CUSTOMER

endpoints = Endpoints("Customers", Free.CALLER)


def _caller(request: Request) -> int:
    return request.caller.id if request.caller else 0


endpoints.get("/customers", CUSTOMER, "The customers of the manager", tenant=_caller, customer=False)
