"""Web Push of a session of the app. Extensions of the spec."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, TypeAdapter

from keyrack.api.auth_schemes import DriverAuth
from keyrack.api.endpoint import Doc, JsonBody, Responses
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import NO_CONTENT, Request, Response, driver_of
from keyrack.api.schema.request_body import ExactText, StrictBody
from keyrack.core.base64url import Octets
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import BadRequest, Conflict
from keyrack.core.settings.push_services import is_allowed
from keyrack.drivers import push_subscriptions
from keyrack.drivers.endpoints.session import TAG
from keyrack.drivers.push_messages import BrowserKeys, are_valid
from keyrack.drivers.push_subscriptions import MAX_ENDPOINT
from keyrack.drivers.services import DriverServices

endpoints = Endpoints[DriverServices](TAG, DriverAuth(), is_extension=True, is_preview=True)

NO_PUSH = ErrorCode(
    "push-disabled",
    "This server sends no push messages.",
    "Subscribe only if `pushKey` of `GET /drive/api/settings` is not null.",
)
OTHER_SERVICE = ErrorCode(
    "push-service-not-allowed",
    "The endpoint is not an https address of an allowed push service. Allowed hosts: {hosts}.",
    "Send `endpoint` of the browser's subscription, or ask the operator to add its host to `KEYRACK_PUSH_SERVICES`.",
)
WRONG_KEYS = ErrorCode(
    "push-keys-invalid",
    "`p256dh` must be a point of P-256 with 65 bytes, and `auth` must have 16 bytes.",
    "Send the values of `PushSubscription.toJSON().keys`.",
)


class PushSubscription(StrictBody):
    """A subscription, as the browser's `pushManager.subscribe()` returns it."""

    endpoint: Annotated[ExactText, Field(max_length=MAX_ENDPOINT)]
    p256dh: Annotated[Octets, Field(alias="p256dh")]
    auth: Octets


@endpoints.put(
    "/drive/api/push",
    Doc(
        "subscribeDriver",
        "Subscribe the session to push messages",
        "Each message has the same text, without a name, a car or a place. The subscription ends with the session, or"
        " when the push service no longer knows it.",
    ),
    body=JsonBody(TypeAdapter(PushSubscription), "subscribe"),
    responses=Responses(errors={400: (OTHER_SERVICE, WRONG_KEYS), 409: (NO_PUSH,)}),
    is_idempotent=False,
)
async def subscribe(request: Request, body: PushSubscription, services: DriverServices) -> Response:
    settings = services.settings
    if not settings.push:
        raise Conflict(NO_PUSH)
    if not is_allowed(body.endpoint, settings.push_hosts):
        raise BadRequest(OTHER_SERVICE.format(hosts=settings.push_services))
    keys = BrowserKeys(body.p256dh, body.auth)
    if not are_valid(keys):
        raise BadRequest(WRONG_KEYS)
    async with request.db.transaction() as connection:
        await push_subscriptions.subscribe(connection, driver_of(request), body.endpoint, keys)
    return NO_CONTENT


@endpoints.delete(
    "/drive/api/push",
    Doc("unsubscribeDriver", "End the push messages of the session", "Succeeds also without a subscription."),
    is_idempotent=False,
)
async def unsubscribe(request: Request) -> Response:
    await push_subscriptions.end(request.db, driver_of(request))
    return NO_CONTENT
