"""Messages of pull webhooks: clients fetch and acknowledge them. An extension of the spec."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Annotated

from pydantic import Field, TypeAdapter

from keyrack.api.auth_schemes import CustomerAuth
from keyrack.api.endpoint import Doc, JsonBody, Responses
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.event_stream import FULL, FULL_OF_CALLER, FULL_OF_CUSTOMER, GAP
from keyrack.api.exchange import Request, Response, answer
from keyrack.api.permissions import Permission
from keyrack.api.query_parameters import INVALID, QueryParameter, parse_parameters
from keyrack.api.schema.request_body import INT64_MAX, WHOLE_NUMBER, Body, Int32, StrictBody, invalid_member
from keyrack.api.subscriptions import Name, Subscription
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import Conflict, NotFound
from keyrack.db.connection import Row
from keyrack.webhooks import pull_queue
from keyrack.webhooks.endpoints.webhooks import DISABLED, NO_WEBHOOK, TAG
from keyrack.webhooks.services import WebhookServices

endpoints = Endpoints[WebhookServices](TAG, CustomerAuth(Permission.WEBHOOKS_WRITE), is_extension=True)

PUSHED = ErrorCode(
    "webhook-is-pushed",
    "The messages of the webhook are sent to its URL, so they cannot be fetched.",
    "Create a webhook with `pull`: `PUT /webhooks`.",
)
ACKNOWLEDGE = "acknowledge messages"
LONGEST = 60  # maximum seconds that a request may wait
USUAL, MOST = 100, 500  # messages of one response
POLL = 10.0  # seconds after which a waiting request looks without a notification
DIGITS = 18  # of a number in the query string, so that it fits into 64 bits


def _number(text: str) -> int:
    """The number of a message. Raises `ValueError`."""
    if not (text.isascii() and text.isdigit() and len(text) <= DIGITS):
        raise ValueError("The value must be the `number` of a message, or 0.")
    return int(text)


def _seconds(text: str) -> int:
    """Seconds to wait. Raises `ValueError`."""
    if not (text.isascii() and text.isdigit() and len(text) <= 2 and int(text) <= LONGEST):
        raise ValueError(f"The value must be an integer of seconds from 0 to {LONGEST}.")
    return int(text)


def _top(text: str) -> int:
    """A number of messages. Raises `ValueError`."""
    if not (text.isascii() and text.isdigit() and len(text) <= 3 and 1 <= int(text) <= MOST):
        raise ValueError(f"The value must be an integer from 1 to {MOST}.")
    return int(text)


AFTER = QueryParameter(
    "after",
    _number,
    "Returns only messages with a greater number. Without it, all messages that are not acknowledged.",
    {"type": "integer", "format": "int64", "minimum": 0},
)
WAIT = QueryParameter(
    "wait",
    _seconds,
    "The seconds for which an empty list waits for a message before it is returned.",
    {"type": "integer", "minimum": 0, "maximum": LONGEST},
)
TOP = QueryParameter(
    "top",
    _top,
    f"The maximum number of messages. Without it, {USUAL}.",
    {"type": "integer", "minimum": 1, "maximum": MOST},
)
OPTIONS = (AFTER, WAIT, TOP)


class WaitingMessage(Body):
    """A waiting message: its headers, with the static secret, and its body."""

    number: Annotated[int, Field(json_schema_extra={"format": "int64"})]
    type: str
    headers: dict[str, str]
    body: str


class Acknowledgement(StrictBody):
    """The number up to which a client has processed the messages."""

    upto: Annotated[int, Field(ge=0, le=INT64_MAX, json_schema_extra={"format": "int64"}), WHOLE_NUMBER]


class Acknowledged(Body):
    count: Int32


# Messages about events are written with the events
WAKING = frozenset(("deliveries", "events", GAP))


class MessageWaiter(Subscription):
    """A request that waits for a message."""

    def notify(self, topics: Iterable[Name], number: int) -> None:
        if not WAKING.isdisjoint(topics):
            self.wake()

    async def wait(self, until: float) -> bool:
        """Wait for a notification, but at most `POLL` seconds.

        `until` is a time of the loop's clock. Returns False if the request must not wait any longer.
        """
        clock = asyncio.get_running_loop()
        begun = time.monotonic()
        with suppress(TimeoutError):
            async with asyncio.timeout_at(min(until, clock.time() + POLL)):
                await self._wake.wait()
        self._wake.clear()
        self.wait_seconds += time.monotonic() - begun
        return not self._ended and clock.time() < until


@endpoints.get(
    "/webhooks/{webhookId}/messages",
    Doc(
        "listMessagesOfWebhook",
        "Fetch the messages of a pull webhook",
        "Returns the messages that are not acknowledged, in the order of their numbers. Each has the headers and the"
        " body that a webhook with a URL would get. Pass `body` on unchanged, because the signature covers its bytes."
        " The signature is made when the message is fetched. A message is returned until `POST"
        " /webhooks/{webhookId}/messages/ack` acknowledges it, so it can arrive more than once. With `wait`, an empty"
        " list waits for a message. It needs the permission to change webhooks, because the headers contain the"
        " static secret.",
    ),
    responses=Responses(
        200,
        list[WaitingMessage],
        errors={
            400: (INVALID,),
            404: (NO_WEBHOOK,),
            409: (PUSHED, DISABLED),
            429: (FULL_OF_CUSTOMER, FULL_OF_CALLER),
            503: (FULL,),
        },
        has_secret=True,
    ),
    query_parameters=OPTIONS,
    is_primary_only=True,
    has_long_poll=True,
)
async def messages(request: Request, services: WebhookServices) -> Response:
    options = parse_parameters(request.query, OPTIONS)
    after, most = options.get(AFTER.name, 0), options.get(TOP.name, USUAL)
    webhook = await _pull_webhook(request)
    if webhook["is_use_unrecorded"]:
        await pull_queue.record_use(request.db, request.customer, request.ids[0])
    rows = await pull_queue.fetch(request.db, request.customer, request.ids[0], after, most)
    seconds: int = options.get(WAIT.name, 0)
    if seconds and not rows and request.method != "HEAD":
        rows = await _awaited(request, services, after, most, seconds)
        webhook = await _pull_webhook(request)  # it may have been changed meanwhile
    signed = await pull_queue.signed(
        services.encryption, request.customer, request.ids[0], webhook, rows, services.settings.public_url
    )
    return answer([message.json() for message in signed], headers={"Cache-Control": "no-store"})


async def _pull_webhook(request: Request) -> Row:
    """The webhook's row. Raises `NotFound`, and `Conflict` unless it is an enabled pull webhook."""
    webhook = await request.db.fetchrow(pull_queue.WEBHOOK, request.customer, request.ids[0])
    if webhook is None:
        raise NotFound(NO_WEBHOOK)
    if not webhook["is_pull"]:
        raise Conflict(PUSHED)
    if not webhook["is_enabled"]:
        raise Conflict(DISABLED)
    return webhook


async def _awaited(request: Request, services: WebhookServices, after: int, most: int, seconds: int) -> Sequence[Row]:
    """The rows of messages once there are any, or none after `seconds`. It holds no connection while it waits."""
    follow, hub = request.follow, services.event_hub
    if follow is None or request.caller is None:  # a page of the console does not wait
        return ()
    until = asyncio.get_running_loop().time() + seconds
    waiter = MessageWaiter(request.customer, request.caller.key, await follow.recheck(), follow.recheck)
    hub.check(waiter.customer, waiter.caller)
    follow.register(waiter)
    hub.add(waiter)
    waiter.begin()
    try:
        while True:
            rows = await pull_queue.fetch(request.db, request.customer, request.ids[0], after, most)
            if rows or not await waiter.wait(until):
                break
    finally:
        hub.remove(waiter)
        waiter.release()
    await follow.recheck()  # the caller may have lost its access meanwhile
    return rows


@endpoints.post(
    "/webhooks/{webhookId}/messages/ack",
    Doc(
        "acknowledgeMessagesOfWebhook",
        "Acknowledge messages of a pull webhook",
        "Removes the messages up to and including the number `upto`. Messages that no client has fetched yet have no"
        " number, so they stay. Returns the number of removed messages. A repeated acknowledgement removes nothing.",
    ),
    body=JsonBody(TypeAdapter(Acknowledgement), ACKNOWLEDGE),
    responses=Responses(
        200,
        Acknowledged,
        errors={400: (invalid_member(ACKNOWLEDGE, "upto"),), 404: (NO_WEBHOOK,), 409: (PUSHED,)},
    ),
)
async def acknowledge(request: Request, body: Acknowledgement, services: WebhookServices) -> Response:
    is_pull = await request.db.fetchval(pull_queue.STATE, request.customer, request.ids[0])
    if is_pull is None:
        raise NotFound(NO_WEBHOOK)
    if not is_pull:
        raise Conflict(PUSHED)
    return answer({"count": await pull_queue.acknowledge(request.db, request.customer, request.ids[0], body.upto)})
