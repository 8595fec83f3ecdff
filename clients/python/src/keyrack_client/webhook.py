"""Verification of webhook messages, as Standard Webhooks describes it."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import re
import time
from collections.abc import Mapping
from typing import Any

from ._errors import InvalidSignature

TOLERANCE = 300  # seconds between the clocks of sender and receiver


def verify(
    headers: Mapping[str, str], body: bytes, *secrets: str, tolerance: int = TOLERANCE, now: float | None = None
) -> Any:
    """Return the payload of a message that is authentic. Raises `InvalidSignature` otherwise.

    `body` is the request body as it arrived: bytes, before any parser. Several secrets are valid at the same time
    during a rotation. A message older or newer than `tolerance` seconds is rejected.
    """
    if not isinstance(body, (bytes, bytearray, memoryview)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            f"body must be the bytes of the request, got {type(body).__name__}. The signature is over these bytes:"
            " another text of the same JSON has another signature."
        )
    if not secrets:
        raise ValueError("Give the signing secret of the webhook.")
    keys = [decode_secret(secret) for secret in secrets]
    given = {name.lower(): value for name, value in headers.items()}
    id, timestamp = given.get("webhook-id", ""), given.get("webhook-timestamp", "")
    if not id or not re.fullmatch(r"[0-9]{1,15}", timestamp):
        raise InvalidSignature("The headers webhook-id and webhook-timestamp are missing or not valid.")
    if abs((time.time() if now is None else now) - int(timestamp)) > tolerance:
        raise InvalidSignature(f"The timestamp {timestamp} is more than {tolerance} seconds from now.")
    signed = f"{id}.{timestamp}.".encode(errors="replace") + bytes(body)
    signatures = [part.encode(errors="replace") for part in given.get("webhook-signature", "").split()]
    for key in keys:
        expected = b"v1," + base64.b64encode(hmac.digest(key, signed, "sha256"))
        if any(hmac.compare_digest(expected, signature) for signature in signatures):
            return json.loads(bytes(body))
    raise InvalidSignature("No signature matches: another secret, or another body than the one that was sent.")


def decode_secret(secret: str) -> bytes:
    """The key of a secret `whsec_...`. Raises `ValueError`, without the secret."""
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (ValueError, binascii.Error):
        key = b""
    if not key:  # anyone can sign with an empty key
        raise ValueError("A signing secret is 'whsec_' and base64.")
    return key
