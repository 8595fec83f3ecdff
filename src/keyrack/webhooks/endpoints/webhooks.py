"""Webhooks: where a customer's outcomes and changes are sent, what was sent, and sending it again. Ours, beside the
spec."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, LiteralString

from pydantic import AfterValidator, ConfigDict, Field, GetPydanticSchema, TypeAdapter
from pydantic_core import PydanticCustomError, core_schema

from keyrack.api import conditional_requests
from keyrack.api.endpoint import Endpoints, Parent
from keyrack.api.exchange import NO_CONTENT, Request, Response, answer
from keyrack.api.path_ids import path_number
from keyrack.api.rate_limits import RateLimit
from keyrack.api.schema import event_types
from keyrack.api.schema.request_body import (
    Body,
    Int32,
    Kind,
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
from keyrack.db.encryption.cipher import Encryption
from keyrack.db.worker_wakeup import DELIVER
from keyrack.webhooks import outbox, subscriptions
from keyrack.webhooks.dialects import DEFAULT, DIALECTS
from keyrack.webhooks.outcome_payload import DELIVERY, DELIVERY_LISTED, WEBHOOK

endpoints = Endpoints("Webhooks", "webhooks")

NO_WEBHOOK = ErrorCode(
    "webhook-not-found",
    "Unable to find a webhook for the given webhookId which is assigned to the given customerId.",
    "Use an id that GET /webhooks returns for this customer.",
)
NO_DELIVERY = ErrorCode(
    "delivery-not-found",
    "Unable to find a delivery for the given deliveryId which is assigned to the given webhookId.",
    "Use an id that GET /webhooks/{webhookId}/deliveries returns; old ones are forgotten.",
)
DISABLED = ErrorCode(
    "webhook-disabled", "The webhook is disabled. Enable it first.", "Enable it: PATCH /webhooks/{webhookId}."
)
CREATE = "create webhook"
UPDATE = "update webhook"
REPLAY = "replay deliveries"

_IN_WEBHOOK: LiteralString = "{t}.customer_id = {p}.customer_id and {t}.webhook_id = {p}.webhook_id"
A_WEBHOOK = Parent(WEBHOOK, _IN_WEBHOOK)


endpoints.get("/webhooks", WEBHOOK, "All webhooks", ours=True)
ONE_WEBHOOK = endpoints.get("/webhooks/{webhookId}", WEBHOOK, "One webhook", one=True, missing=NO_WEBHOOK, ours=True)
endpoints.get(
    "/webhooks/{webhookId}/deliveries",
    DELIVERY,
    "The log of a webhook's deliveries",
    of=A_WEBHOOK,
    missing=NO_WEBHOOK,
    paged=True,
    ours=True,
)
endpoints.get("/deliveries", DELIVERY_LISTED, "The log of the deliveries of all webhooks", paged=True, ours=True)


def checked_url(url: str) -> str:
    """The address of a webhook. Raises `PydanticCustomError`, whose reason the refusal shows."""
    try:
        subscriptions.check_url(url)
    except ValueError as error:
        raise PydanticCustomError("url", "String {fault}", {"fault": str(error)}) from None
    return url


Url = Annotated[str, Field(max_length=2_000), AfterValidator(checked_url)]
TOO_MANY = ErrorCode(
    "too-many-webhooks",
    "The customer has as many webhooks as it may have. Remove one first.",
    "Remove one, or change it: PATCH /webhooks/{webhookId}.",
)

Secret = Annotated[str, Field(max_length=250, pattern=r"^[!-~]([ -~]*[!-~])?$")]
Kinds = Annotated[list[Kind], Field(min_length=1, max_length=len(event_types.TAKEN))]


DialectName = Annotated[str, GetPydanticSchema(lambda _type, _handler: core_schema.literal_schema([*DIALECTS]))]


class NewWebhook(Body):
    url: Url
    dialect: DialectName | None = None
    secret: Secret | None = None
    kinds: Kinds | None = None
    enabled: bool = True


class WebhookCreated(Body):
    id: Int32
    signing_secret: str


class WebhookPatch(Body):
    op: Literal["remove", "replace"]
    path: Literal["/url", "/dialect", "/secret", "/kinds", "/enabled"]
    value: Any = None


class SecretRotated(Body):
    signing_secret: str
    old_signing_secret_until: Moment


class TimeRange(Body):
    """Outcomes and changes of the time from `from` up to, and without, `to`."""

    since: Annotated[Moment, Field(alias="from")]
    to: Moment | None = None
    undelivered: bool = False


class ReplayResult(Body):
    model_config = ConfigDict(title="Replayed")

    count: Int32
    next: Moment | None


class PatchedWebhook(Body):
    """What a patch may leave behind: each member checked as in a new webhook, with its default where it is removed."""

    url: Url = ""
    dialect: DialectName = DEFAULT
    secret: Secret | None = None
    kinds: Kinds = Field(default_factory=lambda: list(event_types.OUTCOMES))
    enabled: bool = True


CHANGED = TypeAdapter(PatchedWebhook)


@endpoints.put(
    "/webhooks",
    "Register a webhook; its signing secret is shown only here",
    body=NewWebhook,
    what=CREATE,
    status=201,
    answers=WebhookCreated,
    shows=ONE_WEBHOOK,
    secret=True,
    refuses={
        400: tuple(invalid_member(CREATE, name) for name in ("url", "dialect", "secret", "kinds")),
        409: (TOO_MANY,),
    },
    ours=True,
)
async def create(request: Request, webhook: NewWebhook, settings: Settings, vault: Encryption) -> Response:
    async with request.db.transaction() as connection:
        added = await subscriptions.add(
            connection, vault, request.customer, webhook.url, webhook.secret,
            webhook.kinds or event_types.OUTCOMES, webhook.enabled, settings.webhook_limit,
            webhook.dialect or DEFAULT,
        )  # fmt: skip
    if added is None:
        raise Conflict(TOO_MANY)
    id, signing_secret = added
    return answer({"id": id, "signingSecret": signing_secret}, 201, {"Cache-Control": "no-store"}, made=id)


@endpoints.patch(
    "/webhooks/{webhookId}",
    "Change a webhook",
    body=Patch[WebhookPatch],
    what=UPDATE,
    shows=ONE_WEBHOOK,
    compares=WEBHOOK,
    refuses={
        400: tuple(invalid_member(UPDATE, name) for name in ("url", "dialect", "secret", "kinds", "enabled")),
        404: (NO_WEBHOOK,),
    },
    ours=True,
)
async def update(request: Request, patch: list[WebhookPatch], vault: Encryption) -> Response:
    # A member that is removed gets its default; only the url has none
    given = {name: value for name, value in apply_patch(patch, UPDATE).items() if value is not None or name == "url"}
    whole: dict[str, Any] = validate_body(CHANGED, json.dumps(given).encode(), UPDATE, patch=patch).model_dump()
    changes = {step.path[1:]: whole[step.path[1:]] for step in patch}
    async with request.db.transaction() as connection:
        await conditional_requests.compare(connection, request, WEBHOOK, NO_WEBHOOK)
        version = await subscriptions.change(connection, vault, request.customer, request.ids[0], changes)
        if version is None:
            raise NotFound(NO_WEBHOOK)
    request.announce(DELIVER)
    return conditional_requests.changed(WEBHOOK, version)


@endpoints.delete(
    "/webhooks/{webhookId}",
    "Remove a webhook and the log of its deliveries",
    compares=WEBHOOK,
    refuses={404: (NO_WEBHOOK,)},
    ours=True,
)
async def delete(request: Request) -> Response:
    async with conditional_requests.with_if_match(request, WEBHOOK, NO_WEBHOOK) as statements:
        if await statements.fetchval(subscriptions.DELETE, request.customer, *request.ids) is None:
            raise NotFound(NO_WEBHOOK)
    return NO_CONTENT


@endpoints.post(
    "/webhooks/{webhookId}/rotate-secret",
    "Make a new signing secret; the old one signs too for a while",
    status=200,
    answers=SecretRotated,
    secret=True,
    refuses={404: (NO_WEBHOOK,)},
    ours=True,
)
async def rotate_secret(request: Request, settings: Settings, vault: Encryption) -> Response:
    async with request.db.transaction() as connection:
        rotated = await subscriptions.rotate(
            connection, vault, request.customer, request.ids[0], settings.webhook_secret_overlap_hours
        )
    if rotated is None:
        raise NotFound(NO_WEBHOOK)
    secret, until = rotated
    body = {"signingSecret": secret, "oldSigningSecretUntil": format_timestamp(until)}
    return answer(body, headers={"Cache-Control": "no-store"})


@endpoints.post(
    "/webhooks/{webhookId}/test",
    "Send a test to a webhook; the answer is the id of its delivery",
    status=201,
    refuses={404: (NO_WEBHOOK,), 409: (DISABLED,), 429: (RATE_LIMITED,)},
    ours=True,
)
async def test(request: Request, settings: Settings) -> Response:
    headers = await _taken(request, settings)
    id = await request.db.fetchval(outbox.SEND_TEST, request.customer, *request.ids)
    if id is None:
        raise NotFound(NO_WEBHOOK)
    request.announce(DELIVER)
    return answer({"id": id}, 201, headers)


@endpoints.post(
    "/webhooks/{webhookId}/deliveries/{deliveryId}/replay",
    "Send a delivery again",
    refuses={404: (NO_WEBHOOK, NO_DELIVERY), 409: (DISABLED,), 429: (RATE_LIMITED,)},
    convert={"deliveryId": path_number},
    ours=True,
)
async def replay(request: Request, settings: Settings) -> Response:
    headers = await _taken(request, settings)
    if not await outbox.replay(request.db, request.customer, *request.ids):
        await _limit(settings).give_back(request.db, request.customer)
        raise NotFound(NO_DELIVERY)
    request.announce(DELIVER)
    return Response(204, headers=headers)


@endpoints.post(
    "/webhooks/{webhookId}/replay",
    "Send the outcomes and changes of a time again, oldest first",
    body=TimeRange,
    what=REPLAY,
    status=200,
    answers=ReplayResult,
    refuses={
        400: (invalid_member(REPLAY, "from"), EMPTY_RANGE),
        404: (NO_WEBHOOK,),
        409: (DISABLED,),
        429: (RATE_LIMITED,),
    },
    ours=True,
)
async def replay_range(request: Request, wanted: TimeRange, settings: Settings) -> Response:
    until = wanted.to or datetime.now(UTC)
    if until <= wanted.since:
        raise BadRequest(EMPTY_RANGE, errors=[FieldError("out-of-range", EMPTY_RANGE.text, "/to")])
    headers = await _taken(request, settings)
    count, following = await outbox.replay_range(
        request.db, request.customer, request.ids[0], wanted.since, until, undelivered=wanted.undelivered
    )
    request.announce(DELIVER)
    return answer({"count": count, "next": following and format_timestamp_exact(following)}, headers=headers)


async def _taken(request: Request, settings: Settings) -> dict[str, str]:
    """The headers of the limit, of which one is taken if the webhook is there and enabled. Raises `Refusal`."""
    enabled = await request.db.fetchval(subscriptions.ENABLED, request.customer, request.ids[0])
    if enabled is None:
        raise NotFound(NO_WEBHOOK)
    if not enabled:
        raise Conflict(DISABLED)
    return await _limit(settings).take(request.db, request.customer)


def _limit(settings: Settings) -> RateLimit:
    return RateLimit("webhooks", settings.webhook_replay_rate, settings.webhook_replay_burst)
