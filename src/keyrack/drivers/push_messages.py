"""Web Push messages: encryption (RFC 8291) and signature (RFC 8292)."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from keyrack.core.base64url import base64url

CURVE = ec.SECP256R1()
SALT, AUTH = 16, 16  # bytes
RECORD_SIZE = 4096
LAST_RECORD = b"\x02"  # ends the text of the last record (RFC 8188, section 2)
COORDINATE = 32  # bytes of each number of a signature (RFC 7518, section 3.4)
VALIDITY = timedelta(hours=12)  # of a signature; RFC 8292 allows 24 hours


class BrowserKeys(NamedTuple):
    """The keys of a subscription, as `PushSubscription.getKey` returns them."""

    p256dh: bytes
    auth: bytes


def public_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    """The public key as an uncompressed point."""
    return key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def are_valid(keys: BrowserKeys) -> bool:
    """Whether a message can be encrypted for these keys."""
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(CURVE, keys.p256dh)
    except ValueError:
        return False
    return len(keys.p256dh) == 2 * COORDINATE + 1 and len(keys.auth) == AUTH


def encrypt(
    text: bytes, keys: BrowserKeys, own: ec.EllipticCurvePrivateKey | None = None, salt: bytes | None = None
) -> bytes:
    """The body of a message: one record of `aes128gcm`. `own` and `salt` are random, except in test vectors."""
    own, salt = own or ec.generate_private_key(CURVE), salt or os.urandom(SALT)
    public = public_bytes(own)
    secret = own.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(CURVE, keys.p256dh))
    input_key = _derived(secret, keys.auth, b"WebPush: info\0" + keys.p256dh + public, 32)
    key = _derived(input_key, salt, b"Content-Encoding: aes128gcm\0", 16)
    nonce = _derived(input_key, salt, b"Content-Encoding: nonce\0", 12)
    head = salt + RECORD_SIZE.to_bytes(4, "big") + bytes([len(public)]) + public
    return head + AESGCM(key).encrypt(nonce, text + LAST_RECORD, None)


def authorization(endpoint: str, contact: str, key: ec.EllipticCurvePrivateKey, now: datetime | None = None) -> str:
    """The `Authorization` header for a push service."""
    url = urlsplit(endpoint)
    expires = (now or datetime.now(UTC)) + VALIDITY
    claims = {"aud": f"{url.scheme}://{url.netloc}", "exp": int(expires.timestamp()), "sub": contact}
    signed = ".".join(
        base64url(json.dumps(part, separators=(",", ":")).encode()) for part in ({"typ": "JWT", "alg": "ES256"}, claims)
    )
    numbers = decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(SHA256())))
    signature = b"".join(number.to_bytes(COORDINATE, "big") for number in numbers)
    return f"vapid t={signed}.{base64url(signature)}, k={base64url(public_bytes(key))}"


def _derived(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(SHA256(), length, salt, info).derive(secret)
