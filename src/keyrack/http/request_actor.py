"""The actor of a request, which the change log records for its writes."""

from __future__ import annotations

import falcon.asgi

from keyrack.api.principals import AppUser, Caller, Device, Driver
from keyrack.db.audit_context import Actor


def actor(
    http: falcon.asgi.Request,
    request: str,
    customer: int,
    caller: Caller | None,
    device: Device | None = None,
    app: AppUser | None = None,
    driver: Driver | None = None,
) -> Actor:
    """The principal of the request, as the change log names it.

    It is the manager or machine client, the device, the user of an app, or the driver. Otherwise it is a program that
    has at most an API key. `request` is the request id.
    """
    address = http.remote_addr
    if caller is not None:
        return Actor(caller.kind.value, caller.name, caller.id, address, request, caller.grant(customer).scope)
    if device is not None:
        return Actor(device.kind.value, device.name, device.key, address, request)
    if app is not None:  # a pairwise subject: other customers do not know it
        return Actor(app.kind.value, str(app.subject), None, address, request)
    if driver is not None:
        return Actor(driver.kind.value, None, driver.user, address, request)
    return Actor("client", None, None, address, request)
