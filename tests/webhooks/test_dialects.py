"""Dialects of webhooks: exact bodies and headers of each, by vectors, and signatures that other code verifies."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import datetime
from pathlib import Path
from typing import Any

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
def test_the_signatures_are_those_of_the_bytes_that_are_sent(dialect: str, message: str) -> None:
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
