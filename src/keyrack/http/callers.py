"""In charge of who a request's changes are recorded of."""

from __future__ import annotations

import falcon.asgi

from keyrack.access.auth import Manager
from keyrack.access.devices import Device
from keyrack.database.acting import Actor
from keyrack.http.trace import ID


def actor(http: falcon.asgi.Request, manager: Manager | None, device: Device | None) -> Actor:
    """Who acts: a manager, a device by its key, or a program that has shown no more than the installation's key."""
    address, request = http.remote_addr, http.scope[ID]
    if manager is not None:
        return Actor("manager", manager.username, manager.id, address, request)
    if device is not None:
        return Actor("device", device.name, device.key, address, request)
    return Actor("client", None, None, address, request)
