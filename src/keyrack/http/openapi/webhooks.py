"""The OpenAPI section `webhooks`: messages of Keyrack, with examples that have valid signatures."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

from pydantic import TypeAdapter

from keyrack.api.schema.event_types import CHECKPOINT, EVENTS, OUTCOMES, TAKEN, TEST
from keyrack.core.errors import JSON
from keyrack.http.openapi.descriptions.fleet import OPERATION_ID, meaning
from keyrack.http.openapi.examples import schemas_example
from keyrack.http.openapi.member_schemas import Json
from keyrack.http.openapi.schemas import model
from keyrack.webhooks.change_payload import ChangePayload, CheckpointPayload
from keyrack.webhooks.dialects import DEFAULT, DIALECTS
from keyrack.webhooks.event_payload import EVENT_TYPES, EventPayload
from keyrack.webhooks.outcome_payload import OutcomePayload

SENT_HEADERS = {
    "webhook-id": (
        "The id of the message. It is the same in every attempt and replay, so receivers can skip duplicates."
    ),
    "webhook-timestamp": "The time of this attempt, in seconds since 1970.",
    "webhook-signature": (
        "`v1,` and the base64 HMAC-SHA256 of id, timestamp and body, joined by dots. During a rotation, two"
        " signatures separated by a blank, one for each secret (Standard Webhooks)."
    ),
    "secret": "The static secret of the webhook, if it has one. Only in the dialect `keyrack`.",
}


RECEIVING = (
    "Sent to every webhook of the customer with this event type, signed as in Standard Webhooks. A message can arrive"
    " more than once, with the same `webhook-id`. It is sent again, for three days, unless the response is a 2xx or"
    " 410. `Retry-After` delays the next attempt. The examples are signed with the example secret of `PUT /webhooks`,"
    f" the body as compact JSON. Headers and body are those of the dialect `{DEFAULT}`. A webhook can have another"
    " `dialect`: " + " ".join(f"`{name}`: {dialect.hint}" for name, dialect in DIALECTS.items() if name != DEFAULT)
)


SENT_AT = "1777622400"
EVENT_OF = {kind: type for type, kind in EVENT_TYPES.items()}  # the `type` of an event, by event type


# Messages by name: the type of the body, and the summary
OUTCOME, CHANGE, LOG_PROVEN = TypeAdapter(OutcomePayload), TypeAdapter(ChangePayload), TypeAdapter(CheckpointPayload)
EVENT = TypeAdapter(EventPayload)
SENT: dict[str, tuple[TypeAdapter[Any], str]] = {
    **{name: (OUTCOME, TAKEN[name].meaning.removesuffix(".")) for name in OUTCOMES},
    **{name: (EVENT, TAKEN[name].meaning.partition(".")[0]) for name in EVENTS},
    "change": (CHANGE, "A change of another event type, named by `type`"),
    CHECKPOINT: (LOG_PROVEN, TAKEN[CHECKPOINT].meaning.removesuffix(".")),
    TEST: (OUTCOME, "A test of the webhook"),
}


def webhooks(schemas: dict[str, Json]) -> dict[str, Json]:
    """The webhook operations."""
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
            "410": {"description": "No longer wanted. Disables the webhook"},
            "429": {"description": "Retry after the time in `Retry-After`"},
            "503": {"description": "Retry after the time in `Retry-After`"},
            "default": {"description": "Not received. It is sent again"},
        },
    }


def _example(name: str, schemas: dict[str, Json]) -> Json:
    """An example message of this type. A test has no assignment."""
    if name == "change":
        return schemas_example("ChangeTold", schemas) | {"data": schemas_example("Change", schemas)}
    if name == CHECKPOINT:
        return schemas_example("CheckpointTold", schemas) | {"type": name, "data": {}}
    if name in EVENTS:
        event = schemas_example("EventTold", schemas)
        return event | {"type": name, "data": event["data"] | {"type": EVENT_OF[name]}}
    outcome: Json = schemas_example("Outcome", schemas) | {"type": name}
    if name != TEST:
        return outcome
    return {
        key: value if key in ("type", "customerId", "operationSucceeded") else None for key, value in outcome.items()
    }


def message_example(document: Json, type: str) -> Json:
    """The example message of an event type, as the document has it.

    Changes share one example, which gets the type and its resource.
    """
    sent = document["webhooks"]
    example: Json = sent.get(type, sent["change"])["post"]["requestBody"]["content"][JSON]["example"]
    if type in sent:
        return example
    data = example["data"] | {"kind": type, "resource": TAKEN[type].resource}
    return example | {"type": type, "data": data}


def _headers(body: Any) -> list[Json]:
    """The headers with examples. The signature is valid for the body as compact JSON."""
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
