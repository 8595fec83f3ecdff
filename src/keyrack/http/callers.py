"""In charge of who a request's changes are recorded of."""

from __future__ import annotations

import falcon.asgi

from keyrack.access.caller import Caller
from keyrack.access.devices import Device
from keyrack.database.acting import Actor
from keyrack.http.trace import ID


def actor(http: falcon.asgi.Request, caller: Caller | None, device: Device | None, customer: int) -> Actor:
    """Who acts: a manager or a machine client, a device by its key, or a program that has shown no more than the
    installation's key."""
    address, request = http.remote_addr, http.scope[ID]
    if caller is not None:
        is_what = "client" if caller.is_client else "manager"
        return Actor(is_what, caller.name, caller.id, address, request, caller.grant(customer).scope)
    if device is not None:
        return Actor("device", device.name, device.key, address, request)
    return Actor("client", None, None, address, request)
