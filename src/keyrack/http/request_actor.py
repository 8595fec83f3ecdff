"""In charge of who a request's changes are recorded of."""

from __future__ import annotations

from dataclasses import dataclass

import falcon.asgi

from keyrack.api.principals import AppUser, Caller, Device
from keyrack.db.audit_context import Actor
from keyrack.http.request_ids import REQUEST_ID


@dataclass(frozen=True, slots=True)
class RequestIdentity:
    """Who calls, and for which customer, 0 for none: at most one of the three."""

    caller: Caller | None
    device: Device | None
    app: AppUser | None
    customer: int


def actor(http: falcon.asgi.Request, known: RequestIdentity) -> Actor:
    """Who acts: a manager or a machine client, a device by its key, a user by an app, or a program that has shown no
    more than the installation's key."""
    address, request, caller, device = http.remote_addr, http.scope[REQUEST_ID], known.caller, known.device
    if caller is not None:
        return Actor(caller.kind.value, caller.name, caller.id, address, request, caller.grant(known.customer).scope)
    if device is not None:
        return Actor(device.kind.value, device.name, device.key, address, request)
    if (app := known.app) is not None:  # a pairwise subject: other customers do not know it
        return Actor(app.kind.value, str(app.subject), None, address, request)
    return Actor("client", None, None, address, request)
