"""Web Push messages: their encryption and the server's signature."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from keyrack.drivers.push_messages import BrowserKeys, are_valid, authorization, encrypt
from tests.drivers.push_service import P256, b64, point, raw

# RFC 8291, section 5
TEXT = b"When I grow up, I want to be a watermelon"
AUTH = raw("BTBZMqHH6r4Tts7J_aSIgg")
BROWSER = raw("BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4")
SERVER = raw("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw")
SALT = raw("DGv6ra1nlYgDCS1FRnbzlw")
BODY = (
    "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl9"
    "5bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
)


def test_the_example_of_rfc_8291() -> None:
    own = ec.derive_private_key(int.from_bytes(SERVER, "big"), P256)
    assert b64(encrypt(TEXT, BrowserKeys(BROWSER, AUTH), own, SALT)) == BODY


def test_no_two_messages_are_alike() -> None:
    keys = BrowserKeys(BROWSER, AUTH)
    assert encrypt(TEXT, keys)[:86] != encrypt(TEXT, keys)[:86]  # salt and key


@pytest.mark.parametrize(
    ("p256dh", "auth"),
    [
        (BROWSER[:-1], AUTH),
        (BROWSER[:-1] + b"\0", AUTH),  # no point of the curve
        (b"\x02" + BROWSER[1:33], AUTH),  # compressed
        (BROWSER, AUTH[:-1]),
        (b"", AUTH),
    ],
)
def test_invalid_keys_of_a_browser(p256dh: bytes, auth: bytes) -> None:
    assert not are_valid(BrowserKeys(p256dh, auth))
    assert are_valid(BrowserKeys(BROWSER, AUTH))


def test_a_service_verifies_the_servers_signature() -> None:
    """RFC 8292, sections 2 and 3."""
    key, now = ec.generate_private_key(P256), datetime(2026, 5, 1, tzinfo=UTC)
    header = authorization("https://push.example.com:8443/one?two", "mailto:operator@example.com", key, now)
    scheme, _, fields = header.partition(" ")
    values = dict(field.strip().split("=", 1) for field in fields.split(","))
    assert (scheme, raw(values["k"])) == ("vapid", point(key))
    head, claims, signature = values["t"].split(".")
    assert json.loads(raw(head)) == {"typ": "JWT", "alg": "ES256"}
    told = json.loads(raw(claims))
    assert told["aud"] == "https://push.example.com:8443"
    assert told["sub"] == "mailto:operator@example.com"
    assert 0 < told["exp"] - now.timestamp() <= 24 * 3_600
    r, s = (int.from_bytes(raw(signature)[part : part + 32], "big") for part in (0, 32))
    key.public_key().verify(encode_dss_signature(r, s), f"{head}.{claims}".encode(), ec.ECDSA(SHA256()))
    with pytest.raises(InvalidSignature):
        key.public_key().verify(encode_dss_signature(r, s), f"{head}.{claims}x".encode(), ec.ECDSA(SHA256()))
