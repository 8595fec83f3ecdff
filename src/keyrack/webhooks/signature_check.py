"""Diagnosis of webhook signatures that do not verify: finds the usual mistakes."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

TOLERANCE = 300  # seconds that a timestamp may differ (Standard Webhooks)
LATEST = 10**11  # seconds since 1970, in the year 5138: a larger timestamp has another unit
LONGEST_TIMESTAMP = 19  # digits
UNITS = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
NEEDED = ("webhook-id", "webhook-timestamp", "webhook-signature")


@dataclass(frozen=True, slots=True)
class SignatureVerdict:
    """Whether a request is genuine, and the reasons if it is not."""

    genuine: bool
    reasons: tuple[str, ...]


def diagnose_signature(headers: Mapping[str, str], body: bytes, secret: str, now: datetime) -> SignatureVerdict:
    """Verify a request as a receiver should; if that fails, look for the mistake."""
    given = {name.lower(): value.strip() for name, value in headers.items()}
    missing = [name for name in NEEDED if not given.get(name)]
    if missing:
        return SignatureVerdict(False, (f"The header {missing[0]} is missing.",))
    problems = [*_timestamp(given["webhook-timestamp"], now)]
    key, wrong = _key(secret)
    if key is None:
        return SignatureVerdict(False, (*problems, wrong))
    signatures, unreadable = _signatures(given["webhook-signature"])
    if not signatures:
        return SignatureVerdict(False, (*problems, unreadable))
    id, timestamp = given["webhook-id"], _in_seconds(given["webhook-timestamp"])[0]
    if not _fits(signatures, key, id, timestamp, body):
        problems.extend(_mistakes(signatures, key, secret, id, timestamp, body))
    return SignatureVerdict(not problems, tuple(problems))


def _timestamp(text: str, now: datetime) -> Generator[str]:
    if not _is_number(text):
        yield f"The webhook-timestamp {text[:LONGEST_TIMESTAMP]!r} is not a number of seconds since 1970."
        return
    seconds, unit = _in_seconds(text)
    if unit != "seconds":
        yield f"The webhook-timestamp {text} is in {unit}. It must be in seconds since 1970, as it was sent."
    off = int(now.astimezone(UTC).timestamp()) - int(seconds)
    if off > TOLERANCE:
        yield (
            f"The webhook-timestamp is {off} seconds old, and {TOLERANCE} are allowed. "
            "The request was replayed, or your clock is ahead."
        )
    elif off < -TOLERANCE:
        yield f"The webhook-timestamp lies {-off} seconds ahead, and {TOLERANCE} are allowed. Your clock is behind."


def _in_seconds(text: str) -> tuple[str, str]:
    """The timestamp in seconds, and its unit. Returns a text that is not a number unchanged."""
    if _is_number(text):
        for unit, parts in UNITS.items():
            if int(text) // parts < LATEST:
                return str(int(text) // parts) if parts > 1 else text, unit
    return text, "seconds"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= LONGEST_TIMESTAMP


def _key(secret: str) -> tuple[bytes | None, str]:
    text = secret.strip().removeprefix("whsec_")
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None, (
            "The secret is not base64. It must be the signing secret, whsec_..., and not the webhook's static secret."
        )
    return (key, "") if key else (None, "The secret is empty.")


def _signatures(text: str) -> tuple[list[bytes], str]:
    signatures: list[bytes] = []
    for part in text.split():
        version, comma, signature = part.partition(",")
        if not comma:
            return [], f"The webhook-signature {part[:20]!r} has no version. Its form is v1,<base64>."
        if version == "v1":
            try:
                signatures.append(base64.b64decode(signature, validate=True))
            except (binascii.Error, ValueError):
                return [], "The webhook-signature is not base64 after its version. It was cut off or changed."
    return signatures, "The webhook-signature has no signature of version v1."


def _fits(signatures: list[bytes], key: bytes, id: str, timestamp: str, body: bytes) -> bool:
    expected = hmac.new(key, f"{id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return any(hmac.compare_digest(expected, signature) for signature in signatures)


def _mistakes(signatures: list[bytes], key: bytes, secret: str, id: str, timestamp: str, body: bytes) -> Generator[str]:
    changed = [(variant, how) for variant, how in _variants(body) if _fits(signatures, key, id, timestamp, variant)]
    if changed:
        yield f"The signature fits {changed[0][1]}. Verify the bytes as they came, before anything reads them as JSON."
        return
    for raw in (secret.encode(), secret.removeprefix("whsec_").encode()):
        if _fits(signatures, raw, id, timestamp, body):
            yield "The signature was made with the secret as text. It must be decoded from base64 first."
            return
    if len(signatures) == 1:
        yield (
            "No signature fits. Another secret signed it, or the body or the webhook-id was changed. "
            "Check for a rotation, and for the secret of another webhook."
        )
    else:
        yield (
            f"None of the {len(signatures)} signatures fits. The secret is older than the last rotation or that of "
            "another webhook, or the body or the webhook-id was changed."
        )


def _variants(body: bytes) -> Generator[tuple[bytes, str]]:
    yield body.rstrip(b"\r\n"), "the body without the line break at its end"
    yield body + b"\n", "the body with a line break at its end"
    yield body.replace(b"\r\n", b"\n"), "the body with other line breaks"
    yield body.removeprefix(b"\xef\xbb\xbf"), "the body without the byte order mark"
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return
    for separators in ((" : ", ", "), (": ", ", "), (":", ",")):
        for ascii in (True, False):
            text = json.dumps(value, separators=(separators[1], separators[0]), ensure_ascii=ascii)
            yield text.encode(), "the body as it was before it was read as JSON and written again"
