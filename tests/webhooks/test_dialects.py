"""Dialects of webhooks: exact bodies and headers by vectors, and independently verified signatures."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from standardwebhooks import Webhook

from keyrack.api.schema.event_types import OUTCOMES, TEST
from keyrack.webhooks.dialects import DEFAULT, DIALECTS, WebhookMessage
from keyrack.webhooks.sender import DeliveryRequest
from keyrack.webhooks.signature_check import diagnose_signature

VECTORS = Path(__file__).parent / "vectors"
GIVEN: dict[str, Any] = json.loads((VECTORS / "messages.json").read_text())
NOW = datetime.fromisoformat(GIVEN["now"])
SECRETS: list[str] = GIVEN["signingSecrets"]
MESSAGES: dict[str, WebhookMessage] = {
    name: WebhookMessage(message["id"], message["text"], message["createdAt"], GIVEN["server"])
    for name, message in GIVEN["messages"].items()
}
CASES = [(dialect, message) for dialect in DIALECTS for message in MESSAGES]


def sent(dialect: str, message: str) -> tuple[str, dict[str, str]]:
    request = DeliveryRequest("", DIALECTS[dialect], MESSAGES[message], SECRETS, GIVEN["staticSecret"])
    return request.body_and_headers(NOW)


def test_each_dialect_has_its_vectors() -> None:
    assert {file.stem for file in VECTORS.glob("*.json")} == {"messages", *DIALECTS}


@pytest.mark.parametrize(("dialect", "message"), CASES)
def test_a_message_has_this_body_and_these_headers(dialect: str, message: str) -> None:
    vectors = json.loads((VECTORS / f"{dialect}.json").read_text())
    assert vectors.keys() == MESSAGES.keys()
    body, headers = sent(dialect, message)
    assert body == vectors[message]["body"]
    assert headers == vectors[message]["headers"]


@pytest.mark.parametrize(("dialect", "message"), CASES)
def test_signatures_cover_the_sent_bytes(dialect: str, message: str) -> None:
    body, headers = sent(dialect, message)
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body.encode()
    for secret, signature in zip(SECRETS, headers["webhook-signature"].split(), strict=True):
        key = base64.b64decode(secret.removeprefix("whsec_"))
        assert signature == "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        assert Webhook(secret).sign(MESSAGES[message].id, NOW, body) == signature
        assert diagnose_signature(headers, body.encode(), secret, NOW).genuine


@pytest.mark.parametrize("dialect", DIALECTS)
def test_only_keyracks_own_dialect_sends_the_static_secret(dialect: str) -> None:
    assert (sent(dialect, "created")[1].get("secret") == GIVEN["staticSecret"]) is (dialect == DEFAULT)


@pytest.mark.parametrize("message", MESSAGES)
def test_an_envelope_of_standard_webhooks_has_all_members_of_the_message(message: str) -> None:
    body = json.loads(sent("standard-webhooks", message)[0])
    stored = json.loads(MESSAGES[message].text)
    assert list(body) == ["type", "timestamp", "data"]
    assert body["type"] == stored["type"]
    if body["type"] in (*OUTCOMES, TEST):
        assert body["timestamp"] == MESSAGES[message].created_at
        assert body["data"] == {name: value for name, value in stored.items() if name != "type"}
    else:
        own = stored.pop("data")
        assert body["timestamp"] == stored["timestamp"]
        assert body["data"] == {name: stored[name] for name in stored if name not in ("type", "timestamp")} | own


# The attributes of CloudEvents 1.0, with the rules of its JSON Schema: all are non-empty texts
ATTRIBUTES = {"id", "source", "specversion", "type", "datacontenttype", "dataschema", "subject", "time"}
REQUIRED = {"id", "source", "specversion", "type"}
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")  # RFC 3339
URI = re.compile(r"[A-Za-z0-9:/?#\[\]@!$&'()*+,;=._~%-]+")  # the characters of RFC 3986
MEDIA_TYPE = re.compile(r"[a-z]+/[a-z0-9.+-]+")  # RFC 2046
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")  # characters that texts of attributes must not have


@pytest.mark.parametrize("message", MESSAGES)
def test_a_cloud_event_follows_its_schema(message: str) -> None:
    body, headers = sent("cloudevents", message)
    event = json.loads(body)
    assert headers["Content-Type"] == "application/cloudevents+json; charset=utf-8"
    assert event.keys() >= REQUIRED
    assert event.keys() - {"data"} <= ATTRIBUTES  # no extension
    for name in event.keys() - {"data"}:
        assert isinstance(event[name], str) and event[name] and not CONTROL.search(event[name]), name
    assert event["specversion"] == "1.0"
    assert URI.fullmatch(event["source"]) and urlsplit(event["source"]).scheme
    assert TIMESTAMP.fullmatch(event["time"]) and datetime.fromisoformat(event["time"]).tzinfo
    assert MEDIA_TYPE.fullmatch(event["datacontenttype"])
    assert isinstance(event["data"], dict)


def test_cloud_events_have_subject_source_and_type() -> None:
    events = {message: json.loads(sent("cloudevents", message)[0]) for message in MESSAGES}
    assert {message: event.get("subject") for message, event in events.items()} == {
        "created": "assignment/17", "failed": "operation/0d3c7c0e-2f0e-4d1a-8d53-6a1f6d9c8b21", "test": None,
        "change": "car/4", "checkpoint": None,
    }  # fmt: skip
    assert {event["source"] for event in events.values()} == {"https://keyrack.example.com/customers/1"}
    assert {message: event["type"] for message, event in events.items()} == {
        "created": "keyrack.assignment.created", "failed": "keyrack.assignment.created", "test": "keyrack.webhook.test",
        "change": "keyrack.car.updated", "checkpoint": "keyrack.changes.checkpoint",
    }  # fmt: skip
    for message, event in events.items():
        assert event["id"] == MESSAGES[message].id
        assert event["data"] == json.loads(sent("standard-webhooks", message)[0])["data"]
