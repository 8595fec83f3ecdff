"""Webhooks: targets of a customer's outcomes and changes, their deliveries and replay. An extension of the spec."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, LiteralString

from pydantic import ConfigDict, Field, TypeAdapter

from keyrack.api import conditional_requests
from keyrack.api.endpoint import Concurrency, Doc, JsonBody, OptionalBody, Responses, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import NO_CONTENT, Request, Response, answer
from keyrack.api.path_ids import path_number
from keyrack.api.rate_limits import RateLimit
from keyrack.api.read_sql import Parent
from keyrack.api.reference_errors import EXTERNAL_ID, TAKEN, reference_errors
from keyrack.api.schema import text_maps
from keyrack.api.schema.declaration import patch_paths
from keyrack.api.schema.request_body import (
    Body,
    Int32,
    Moment,
    Patch,
    apply_patch,
    format_timestamp,
    format_timestamp_exact,
    invalid_member,
    validate_body,
)
from keyrack.core.error_codes import EMPTY_RANGE, RATE_LIMITED, ErrorCode, FieldError
from keyrack.core.errors import BadRequest, Conflict, NotFound
from keyrack.core.settings import Settings
from keyrack.db.worker_wakeup import DELIVER
from keyrack.webhooks import example_messages, outbox, pull_queue, subscriptions
from keyrack.webhooks.declarations import WEBHOOKS, NewWebhook
from keyrack.webhooks.example_messages import TestMessage
from keyrack.webhooks.message_sql import members
from keyrack.webhooks.outcome_payload import DELIVERY, DELIVERY_LISTED, WEBHOOK
from keyrack.webhooks.services import WebhookServices

TAG = Tag(
    "Webhooks",
    "Receivers of outcomes and changes, and their deliveries.",
    frozenset(("webhooks", "deliveries")),
)
endpoints = Endpoints[WebhookServices](TAG, "webhooks", is_extension=True)

NO_WEBHOOK = ErrorCode(
    "webhook-not-found",
    "Unable to find a webhook for the given webhookId which is assigned to the given customerId.",
    "Use an id that `GET /webhooks` returns for this customer.",
)
NO_DELIVERY = ErrorCode(
    "delivery-not-found",
    "Unable to find a delivery for the given deliveryId which is assigned to the given webhookId.",
    "Use an id that `GET /webhooks/{webhookId}/deliveries` returns; old deliveries are deleted.",
)
DISABLED = ErrorCode(
    "webhook-disabled", "The webhook is disabled. Enable it first.", "Enable it: `PATCH /webhooks/{webhookId}`."
)
PULLED = ErrorCode(
    "webhook-is-pulled",
    "The webhook is pulled, so it cannot get a URL.",
    "Create another webhook with a `url`, and delete this one.",
)
IS_LIMITED = " Requests are limited per customer. Above the limit, the response is 429 with `Retry-After`."
CREATE = "create webhook"
UPDATE = "update webhook"
REPLAY = "replay deliveries"

_IN_WEBHOOK: LiteralString = "{t}.customer_id = {p}.customer_id and {t}.webhook_id = {p}.webhook_id"
A_WEBHOOK = Parent(WEBHOOK, _IN_WEBHOOK)


endpoints.read(
    "/webhooks",
    WEBHOOK,
    Doc(
        "listWebhooks",
        "List webhooks",
        "Returns the webhooks of the customer, with the numbers of waiting and dead deliveries.",
    ),
)
ONE_WEBHOOK = endpoints.read(
    "/webhooks/{webhookId}",
    WEBHOOK,
    Doc("getWebhook", "Get a webhook", "Returns one webhook, without its secrets."),
    is_single=True,
    missing_error=NO_WEBHOOK,
)
endpoints.read(
    "/webhooks/{webhookId}/deliveries",
    DELIVERY,
    Doc(
        "listDeliveriesOfWebhook",
        "List the deliveries of a webhook",
        "Returns deliveries with their attempts, the start of the last response, and the time of the next attempt.",
    ),
    parent=A_WEBHOOK,
    missing_error=NO_WEBHOOK,
    is_paged=True,
)
endpoints.read(
    "/deliveries",
    DELIVERY_LISTED,
    Doc(
        "listDeliveries",
        "List the deliveries of all webhooks",
        "Returns the deliveries of all webhooks of the customer. `$filter=state eq 'Dead'` finds those that were"
        " given up.",
    ),
    is_paged=True,
)


TOO_MANY = ErrorCode(
    "too-many-webhooks",
    "The customer has reached its limit of webhooks. Remove one first.",
    "Remove a webhook, or change one by `PATCH /webhooks/{webhookId}`.",
)


class WebhookCreated(Body):
    id: Int32
    signing_secret: str


FIXED = ("pull", "deleteUnusedAfterDays")  # members that only a new webhook can set
MEMBERS = tuple(name for name in members(NewWebhook) if name not in FIXED)
CHANGED = WEBHOOKS.partial(*MEMBERS)
METADATA_ALONE = WEBHOOKS.partial("metadata")


class WebhookPatch(Body):
    op: Literal["remove", "replace"]
    path: Annotated[str, patch_paths(MEMBERS)]
    value: Any = None


class SecretRotated(Body):
    signing_secret: str
    old_signing_secret_until: Moment


class TimeRange(Body):
    """The time range of outcomes and changes, from `from` up to, but not including, `to`."""

    since: Annotated[Moment, Field(alias="from")]
    to: Moment | None = None
    undelivered: bool = False


class ReplayResult(Body):
    model_config = ConfigDict(title="Replayed")

    count: Int32
    next: Moment | None


@endpoints.put(
    "/webhooks",
    Doc(
        "createWebhook",
        "Create a webhook",
        "Sends all future outcomes and changes of its `kinds` to the URL, signed as in Standard Webhooks. The"
        " response is the only one that contains the signing secret. The operator determines which addresses are"
        ' allowed. With `"pull": true` there is no URL: clients fetch the messages with `GET'
        " /webhooks/{webhookId}/messages`.",
    ),
    body=JsonBody(TypeAdapter(NewWebhook), CREATE),
    responses=Responses(
        201,
        WebhookCreated,
        errors={
            400: tuple(invalid_member(CREATE, name) for name in (*MEMBERS, FIXED[1]) if name != "enabled"),
            409: (TOO_MANY, TAKEN),
        },
        representation=ONE_WEBHOOK,
        has_secret=True,
    ),
)
async def create(request: Request, webhook: NewWebhook, services: WebhookServices) -> Response:
    async with (
        reference_errors(request, WEBHOOKS, webhook.external_id, CREATE),
        request.db.transaction() as connection,
    ):
        added = await subscriptions.add(
            connection, services.encryption, request.customer, webhook, services.settings.webhook_limit
        )
    if added is None:
        raise Conflict(TOO_MANY)
    id, signing_secret = added
    return answer({"id": id, "signingSecret": signing_secret}, 201, {"Cache-Control": "no-store"}, made=id)


@endpoints.patch(
    "/webhooks/{webhookId}",
    Doc(
        "updateWebhook",
        "Update a webhook",
        "A JSON Patch (RFC 6902) with `remove` and `replace`. `remove` restores the default; the URL cannot be"
        " removed. Enabling a disabled webhook sends its waiting deliveries. A pull webhook cannot get a URL, and a"
        " webhook with a URL cannot become a pull webhook.",
    ),
    body=JsonBody(TypeAdapter(Patch[WebhookPatch]), UPDATE),
    concurrency=Concurrency(if_match=WEBHOOK),
    responses=Responses(
        errors={
            400: tuple(invalid_member(UPDATE, name) for name in MEMBERS),
            404: (NO_WEBHOOK,),
            409: (PULLED, TAKEN),
        },
        representation=ONE_WEBHOOK,
    ),
)
async def update(request: Request, patch: list[WebhookPatch], services: WebhookServices) -> Response:
    # A removed member gets its default; only the URL has none
    values = apply_patch(patch, UPDATE, required=("url",))
    if "url" in values and values["url"] is None:
        number = next(number for number, step in enumerate(patch) if step.path == "/url")
        sentence = "`url` must be a string, but is null."
        raise BadRequest(invalid_member(UPDATE, "url"), errors=[FieldError("wrong-type", sentence, f"/{number}/value")])
    maps = text_maps.changes_of(values, patch, UPDATE, lambda: METADATA_ALONE)
    given = {name: value for name, value in values.items() if value is not None}
    whole = validate_body(CHANGED, json.dumps(given).encode(), UPDATE, patch=patch)
    changed: dict[str, Any] = whole.model_dump(by_alias=True, exclude_unset=True)
    changes = {name: changed.get(name, WEBHOOKS.by_name[name].default) for name in values} | maps
    async with (
        reference_errors(request, WEBHOOKS, changes.get(EXTERNAL_ID), UPDATE, patch),
        request.db.transaction() as connection,
    ):
        await conditional_requests.compare(connection, request, WEBHOOK, NO_WEBHOOK)
        if "url" in changes and await connection.fetchval(pull_queue.STATE, request.customer, request.ids[0]):
            raise Conflict(PULLED)
        version = await subscriptions.change(connection, services.encryption, request.customer, request.ids[0], changes)
        if version is None:
            raise NotFound(NO_WEBHOOK)
    request.announce(DELIVER)
    return conditional_requests.changed(WEBHOOK, version)


@endpoints.delete(
    "/webhooks/{webhookId}",
    Doc("deleteWebhook", "Delete a webhook and its deliveries", "Waiting deliveries are not sent."),
    concurrency=Concurrency(if_match=WEBHOOK),
    responses=Responses(errors={404: (NO_WEBHOOK,)}),
)
async def delete(request: Request) -> Response:
    async with conditional_requests.with_if_match(request, WEBHOOK, NO_WEBHOOK) as statements:
        if await statements.fetchval(subscriptions.DELETE, request.customer, *request.ids) is None:
            raise NotFound(NO_WEBHOOK)
    return NO_CONTENT


@endpoints.post(
    "/webhooks/{webhookId}/rotate-secret",
    Doc(
        "rotateWebhookSecret",
        "Rotate the signing secret of a webhook",
        "Creates a new signing secret. The response is the only one that contains it. Until the old secret expires,"
        " deliveries are signed with both, so receivers can switch without an interruption.",
    ),
    responses=Responses(200, SecretRotated, errors={404: (NO_WEBHOOK,)}, has_secret=True),
)
async def rotate_secret(request: Request, services: WebhookServices) -> Response:
    async with request.db.transaction() as connection:
        rotated = await subscriptions.rotate(
            connection,
            services.encryption,
            request.customer,
            request.ids[0],
            services.settings.webhook_secret_overlap_hours,
        )
    if rotated is None:
        raise NotFound(NO_WEBHOOK)
    secret, until = rotated
    body = {"signingSecret": secret, "oldSigningSecretUntil": format_timestamp(until)}
    return answer(body, headers={"Cache-Control": "no-store"})


@endpoints.post(
    "/webhooks/{webhookId}/test",
    Doc(
        "testWebhook",
        "Send a test to a webhook",
        "Sends a `webhook.test`, whatever the `kinds` of the webhook. Returns the id of the delivery. `GET"
        ' /webhooks/{webhookId}/deliveries` shows its result. With a body such as `{"type": "car.updated"}`, the'
        ' message is the example of that event type, with `"test": true` and an operation id of zeros. `set`'
        " replaces single properties of the example. Any other body is ignored." + IS_LIMITED,
    ),
    body=OptionalBody(example_messages.ADAPTER, example_messages.parse),
    responses=Responses(
        201,
        errors={
            400: (invalid_member(example_messages.ACTION, "type"), invalid_member(example_messages.ACTION, "set")),
            404: (NO_WEBHOOK,),
            409: (DISABLED,),
            429: (RATE_LIMITED,),
        },
    ),
)
async def test(request: Request, message: TestMessage | None, services: WebhookServices) -> Response:
    text = message and example_messages.message_text(
        message, services.documents.message_example(message.type), request.customer
    )
    headers = await _taken(request, services.settings)
    if text is None:
        id = await request.db.fetchval(outbox.SEND_TEST, request.customer, *request.ids)
    else:
        id = await request.db.fetchval(outbox.SEND_EXAMPLE, request.customer, *request.ids, text)
    if id is None:
        raise NotFound(NO_WEBHOOK)
    request.announce(DELIVER)
    return answer({"id": id}, 201, headers)


@endpoints.post(
    "/webhooks/{webhookId}/deliveries/{deliveryId}/replay",
    Doc(
        "replayDelivery",
        "Send a delivery again",
        "Sends the same body and `webhook-id` with a new timestamp and signature." + IS_LIMITED,
    ),
    responses=Responses(errors={404: (NO_WEBHOOK, NO_DELIVERY), 409: (DISABLED,), 429: (RATE_LIMITED,)}),
    converters={"deliveryId": path_number},
)
async def replay(request: Request, services: WebhookServices) -> Response:
    headers = await _taken(request, services.settings)
    if not await outbox.replay(request.db, request.customer, *request.ids):
        await _limit(services.settings).give_back(request.db, request.customer)
        raise NotFound(NO_DELIVERY)
    request.announce(DELIVER)
    return Response(204, headers=headers)


@endpoints.post(
    "/webhooks/{webhookId}/replay",
    Doc(
        "replayDeliveries",
        "Send the outcomes and changes of a time range again",
        "Sends all outcomes and changes of the webhook's `kinds` from `from` up to, but not including, `to`, oldest"
        " first. Checkpoints are not included. If one request cannot send all of them, `next` is the `from` of the"
        " next request." + IS_LIMITED,
    ),
    body=JsonBody(TypeAdapter(TimeRange), REPLAY),
    responses=Responses(
        200,
        ReplayResult,
        errors={
            400: (invalid_member(REPLAY, "from"), EMPTY_RANGE),
            404: (NO_WEBHOOK,),
            409: (DISABLED,),
            429: (RATE_LIMITED,),
        },
    ),
)
async def replay_range(request: Request, body: TimeRange, services: WebhookServices) -> Response:
    until = body.to or datetime.now(UTC)
    if until <= body.since:
        raise BadRequest(EMPTY_RANGE, errors=[FieldError("out-of-range", EMPTY_RANGE.text, "/to")])
    headers = await _taken(request, services.settings)
    count, following = await outbox.replay_range(
        request.db, request.customer, request.ids[0], body.since, until, undelivered=body.undelivered
    )
    request.announce(DELIVER)
    return answer({"count": count, "next": following and format_timestamp_exact(following)}, headers=headers)


async def _taken(request: Request, settings: Settings) -> dict[str, str]:
    """Take one from the rate limit and return its headers.

    Raises `Refusal`, also if the webhook is missing or disabled.
    """
    enabled = await request.db.fetchval(subscriptions.ENABLED, request.customer, request.ids[0])
    if enabled is None:
        raise NotFound(NO_WEBHOOK)
    if not enabled:
        raise Conflict(DISABLED)
    return await _limit(settings).take(request.db, request.customer)


def _limit(settings: Settings) -> RateLimit:
    return RateLimit("webhooks", settings.webhook_replay_rate, settings.webhook_replay_burst)
