"""Signed messages of boxes and phones, as `docs/keys.md` describes them."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

TYPE = "application/vnd.keyrack.{}-2+cwt"
ZEROS = bytes(32)


def encode_base64url(data: bytes) -> str:
    """Encode bytes as base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode_base64url(text: str) -> bytes:
    """Decode base64url without padding."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def encode_cbor(value: Any) -> bytes:
    """Encode a value in the core deterministic encoding of CBOR (RFC 8949)."""
    match value:
        case int():
            return _head(0, value) if value >= 0 else _head(1, -1 - value)
        case bytes():
            return _head(2, len(value)) + value
        case str():
            return _head(3, len(value.encode())) + value.encode()
        case list():
            return _head(4, len(value)) + b"".join(map(encode_cbor, value))
        case dict():
            members = sorted((encode_cbor(key), encode_cbor(member)) for key, member in value.items())
            return _head(5, len(members)) + b"".join(key + member for key, member in members)
        case _:
            raise TypeError(f"{value!r} has no encoding here.")


def _head(major: int, number: int) -> bytes:
    if number < 24:
        return bytes([major << 5 | number])
    size = next(size for size in (1, 2, 4, 8) if number < 1 << 8 * size)
    return bytes([major << 5 | 23 + size.bit_length()]) + number.to_bytes(size, "big")


@dataclass(frozen=True)
class Signer:
    """A P-256 key pair, derived from a number and equal in every run."""

    number: int
    _key: ec.EllipticCurvePrivateKey = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_key", ec.derive_private_key(self.number + 1, ec.SECP256R1()))

    @property
    def public(self) -> dict[int, Any]:
        """The public key as a COSE_Key."""
        point = self._key.public_key().public_numbers()
        return {1: 2, -1: 1, -2: point.x.to_bytes(32, "big"), -3: point.y.to_bytes(32, "big")}

    @property
    def thumbprint(self) -> bytes:
        """The 32 bytes that identify the key."""
        return hashlib.sha256(encode_cbor(self.public)).digest()

    @property
    def id(self) -> str:
        """The thumbprint in the form of the API."""
        return encode_base64url(self.thumbprint)

    def sign(self, name: str, claims: dict[int, Any]) -> str:
        """A signed message with these claims, in the form of the API."""
        protected = encode_cbor({1: -7, 4: self.thumbprint[:8], 16: TYPE.format(name)})
        payload = encode_cbor(claims)
        signed = encode_cbor(["Signature1", protected, b"", payload])
        r, s = decode_dss_signature(self._key.sign(signed, ec.ECDSA(hashes.SHA256())))
        signature = r.to_bytes(32, "big") + s.to_bytes(32, "big")
        return encode_base64url(_head(6, 18) + encode_cbor([protected, {}, payload, signature]))

    def registration(self, subject: str, nonce: str) -> str:
        """The message that a phone signs for its registration."""
        return self.sign("registration", {2: subject, 8: {1: self.public}, 10: decode_base64url(nonce)})

    def enrolment(self, nonce: str) -> str:
        """The message that a box signs for its enrolment."""
        return self.sign("enrolment", {8: {1: self.public}, 10: decode_base64url(nonce)})

    def entry(self, box: str, number: int, previous: bytes = ZEROS, *, seconds: int) -> str:
        """An entry of a box's log about its start."""
        claims = {
            3: box,
            6: seconds,
            7: b"",
            -65540: 0,
            -65541: 0,
            -65550: number,
            -65551: previous,
            -65552: 1,
            -65553: 4,
            -65554: 0,
            -65555: 1,
            -65556: b"",
            -65557: [1, 1, seconds],
            -65558: [0, 0],
            -65563: 0,
            -65564: bytes(8),  # a root that no recorded server has
        }
        return self.sign("entry", claims)
