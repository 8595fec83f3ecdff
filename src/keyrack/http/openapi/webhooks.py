"""In charge of OpenAPI's section `webhooks`: what Keyrack itself sends, with examples whose signatures are right."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

from pydantic import TypeAdapter

from keyrack.api.schema.event_types import CHECKPOINT, OUTCOMES, TAKEN, TEST
from keyrack.core.errors import JSON
from keyrack.http.openapi.descriptions.fleet import OPERATION_ID, meaning
from keyrack.http.openapi.examples import schemas_example
from keyrack.http.openapi.member_schemas import Json
from keyrack.http.openapi.schemas import model
from keyrack.webhooks.change_payload import ChangePayload, CheckpointPayload
from keyrack.webhooks.dialects import DEFAULT, DIALECTS
from keyrack.webhooks.outcome_payload import OutcomePayload

SENT_HEADERS = {
    "webhook-id": "The same in every attempt, and when it is sent again: what was seen before can be passed over.",
    "webhook-timestamp": "Seconds since 1970 of this attempt.",
    "webhook-signature": "`v1,` and the base64 HMAC-SHA256 of id, timestamp and body, joined by dots; during a "
    "rotation one for each of two secrets, with a blank between them (Standard Webhooks).",
    "secret": "The webhook's static secret, where it has one. Only in the dialect `keyrack`.",
}


RECEIVING = (
    "Sent to every webhook of the customer that wants it, signed as Standard Webhooks says. It may come more than once:"
    " `webhook-id` tells. Whatever answer but a 2xx, 410 or one with `Retry-After` has it sent again, for three days."
    " The examples are signed with the secret that `PUT /webhooks` shows as its example, the body as compact JSON."
    f" Headers and body are those of the dialect `{DEFAULT}`. A webhook may choose another `dialect`: "
    + " ".join(f"`{name}`: {dialect.hint}" for name, dialect in DIALECTS.items() if name != DEFAULT)
)


SENT_AT = "1777622400"


# What a webhook may be told, by name: the type of its body, or of each of them, and when it is sent
OUTCOME, CHANGE, LOG_PROVEN = TypeAdapter(OutcomePayload), TypeAdapter(ChangePayload), TypeAdapter(CheckpointPayload)
SENT: dict[str, tuple[TypeAdapter[Any], str]] = {
    **{name: (OUTCOME, TAKEN[name].meaning.removesuffix(".")) for name in OUTCOMES},
    "change": (CHANGE, "Something else has changed: `type` says what"),
    CHECKPOINT: (LOG_PROVEN, TAKEN[CHECKPOINT].meaning.removesuffix(".")),
    TEST: (OUTCOME, "Somebody tests the webhook"),
}


def webhooks(schemas: dict[str, Json]) -> dict[str, Json]:
    """What Keyrack itself sends."""
    return {name: {"post": _sent(name, body, summary, schemas)} for name, (body, summary) in SENT.items()}


def _sent(name: str, body: TypeAdapter[Any], summary: str, schemas: dict[str, Json]) -> Json:
    reference, example = model(body, schemas), _example(name, schemas)
    return {
        "operationId": "on" + "".join(word.capitalize() for word in name.split(".")),
        "description": RECEIVING,
        "security": [],
        "tags": ["Webhooks"],
        "summary": summary,
        "parameters": _headers(example),
        "requestBody": {"required": True, "content": {JSON: {"schema": reference, "example": example}}},
        "responses": {
            "2XX": {"description": "Received"},
            "410": {"description": "Not wanted any more: the webhook is disabled"},
            "429": {"description": "Later, as `Retry-After` says"},
            "503": {"description": "Later, as `Retry-After` says"},
            "default": {"description": "Not received: it is sent again"},
        },
    }


def _example(name: str, schemas: dict[str, Json]) -> Json:
    """What is sent of this type; a test is about no assignment."""
    if name == "change":
        return schemas_example("ChangeTold", schemas) | {"data": schemas_example("Change", schemas)}
    if name == CHECKPOINT:
        return schemas_example("CheckpointTold", schemas) | {"type": name, "data": {}}
    outcome: Json = schemas_example("Outcome", schemas) | {"type": name}
    if name != TEST:
        return outcome
    return {
        key: value if key in ("type", "customerId", "operationSucceeded") else None for key, value in outcome.items()
    }


def _headers(body: Any) -> list[Json]:
    """The headers, with examples whose signature is that of the body as compact JSON."""
    secret = meaning("Webhook", "signingSecret")
    assert secret is not None  # noqa: S101 - the table has it
    signed = f"{OPERATION_ID}.{SENT_AT}.{json.dumps(body, separators=(',', ':'))}"
    key = base64.b64decode(secret.example.removeprefix("whsec_"))
    signature = base64.b64encode(hmac.new(key, signed.encode(), hashlib.sha256).digest()).decode()
    sent = {"webhook-id": OPERATION_ID, "webhook-timestamp": SENT_AT, "webhook-signature": f"v1,{signature}"}
    return [
        {
            "name": name,
            "in": "header",
            "required": name != "secret",
            "description": words,
            "schema": {"type": "string"},
            "example": sent.get(name, "optional-static-text"),
        }
        for name, words in SENT_HEADERS.items()
    ]
