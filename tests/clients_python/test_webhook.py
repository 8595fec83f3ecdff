"""`verify` against the library of Standard Webhooks, in both directions."""

from __future__ import annotations

import base64
import hmac
import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from keyrack_client import InvalidSignature, verify
from standardwebhooks import Webhook

KEY = b"the signing key of the tests"
SECRET = "whsec_" + base64.b64encode(KEY).decode()
OTHER = "whsec_" + base64.b64encode(b"another key of the same tests").decode()
BODY = json.dumps({"type": "assignment.created", "carId": 7, "umlaut": "Ü"}, ensure_ascii=False).encode()


def signed(secret: str = SECRET, body: bytes = BODY, at: datetime | None = None) -> dict[str, str]:
    """The headers that the library makes."""
    moment = at or datetime.now(UTC)
    return {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(moment.timestamp())),
        "webhook-signature": Webhook(secret).sign("msg_1", moment, body.decode()),
    }


def test_a_message_of_the_library_is_accepted() -> None:
    assert verify(signed(), BODY, SECRET) == json.loads(BODY)
    assert verify({name.title(): value for name, value in signed().items()}, bytearray(BODY), SECRET)["carId"] == 7
    assert verify(signed(), memoryview(BODY).toreadonly(), SECRET)["carId"] == 7  # type: ignore[arg-type]


def test_the_library_decides_the_same() -> None:
    """Both reject the message for every changed byte."""
    headers = signed()
    for place in range(len(BODY)):
        changed = BODY[:place] + bytes([BODY[place] ^ 1]) + BODY[place + 1 :]
        with pytest.raises(InvalidSignature):
            verify(headers, changed, SECRET)
        with pytest.raises(Exception, match=r"signature|utf-8"):
            Webhook(SECRET).verify(changed, headers)


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
@pytest.mark.parametrize("value", ["", "x", "v1,", "v1,AAAA", "1", "-1", "٣", "1e9", "\udcff", "99999999999999999999"])
def test_a_changed_header_is_rejected(name: str, value: str) -> None:
    with pytest.raises(InvalidSignature):
        verify(signed() | {name: value}, BODY, SECRET)
    with pytest.raises(InvalidSignature):
        verify({key: text for key, text in signed().items() if key != name}, BODY, SECRET)


def test_several_secrets_and_signatures_are_valid_during_a_rotation() -> None:
    assert verify(signed(), BODY, OTHER, SECRET)
    assert verify(signed(), BODY, SECRET, OTHER)
    headers = signed()
    headers["webhook-signature"] = f"v1a,AAAA v1,AAAA {headers['webhook-signature']}"
    assert verify(headers, BODY, SECRET)
    with pytest.raises(InvalidSignature, match="No signature matches"):
        verify(signed(), BODY, OTHER)


def test_an_old_message_is_rejected() -> None:
    now = time.time()
    for seconds, is_valid in ((-299, True), (299, True), (-302, False), (302, False)):
        headers = signed(at=datetime.now(UTC) + timedelta(seconds=seconds))
        if is_valid:
            assert verify(headers, BODY, SECRET, now=now)
        else:
            with pytest.raises(InvalidSignature, match="more than 300 seconds"):
                verify(headers, BODY, SECRET, now=now)
    assert verify(signed(at=datetime.now(UTC) - timedelta(hours=1)), BODY, SECRET, tolerance=3_700)


@pytest.mark.parametrize("body", [BODY.decode(), json.loads(BODY), None])
def test_only_bytes_are_verified(body: Any) -> None:
    """A parsed body has lost the bytes that were signed."""
    with pytest.raises(TypeError, match="must be the bytes of the request"):
        verify(signed(), body, SECRET)


def test_a_missing_secret_is_an_error() -> None:
    with pytest.raises(ValueError, match="signing secret"):
        verify(signed(), BODY)
    for empty in ("", "whsec_"):  # anyone can sign with an empty key
        with pytest.raises(ValueError, match="whsec_"):
            verify(signed(), BODY, empty)
    with pytest.raises(ValueError, match="base64") as error:
        verify(signed(), BODY, "whsec_not base64!")
    assert "not base64!" not in str(error.value)


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_===="])
def test_an_empty_secret_accepts_nothing(secret: str) -> None:
    """Everyone can sign with the empty key."""
    timestamp = str(int(time.time()))
    signature = base64.b64encode(hmac.digest(b"", f"msg_1.{timestamp}.".encode() + BODY, "sha256")).decode()
    forged = {"webhook-id": "msg_1", "webhook-timestamp": timestamp, "webhook-signature": f"v1,{signature}"}
    with pytest.raises(ValueError, match="must not be empty"):
        verify(forged, BODY, secret)
    with pytest.raises(ValueError, match="must not be empty"):
        verify(signed(), BODY, SECRET, secret)
