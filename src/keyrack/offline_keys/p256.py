"""Signing keys: ECDSA on P-256 with SHA-256, 64 bytes per signature."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

from keyrack.offline_keys.public_key import COORDINATE, PublicKey

CURVE = ec.SECP256R1()


@dataclass(frozen=True, slots=True)
class PrivateKey:
    """A private key. Its text is a secret, and must be sealed."""

    key: ec.EllipticCurvePrivateKey
    public: PublicKey = field(init=False)  # computed once, because each signed message names it

    def __post_init__(self) -> None:
        numbers = self.key.public_key().public_numbers()
        object.__setattr__(self, "public", PublicKey(_bytes(numbers.x), _bytes(numbers.y)))

    @classmethod
    def generate(cls) -> PrivateKey:
        return cls(ec.generate_private_key(CURVE))

    @classmethod
    def from_text(cls, text: str) -> PrivateKey:
        """The key that `to_text` wrote: the scalar of 32 bytes in base64. Raises `ValueError`."""
        scalar = base64.b64decode(text, validate=True)
        if len(scalar) != COORDINATE:
            raise ValueError(f"a private key has {COORDINATE} bytes, not {len(scalar)}")
        return cls(ec.derive_private_key(_number(scalar), CURVE))

    def to_text(self) -> str:
        return base64.b64encode(_bytes(self.key.private_numbers().private_value)).decode()

    def sign(self, message: bytes) -> bytes:
        """r and s, 32 bytes each. Equal messages have equal signatures (RFC 6979)."""
        r, s = decode_dss_signature(self.key.sign(message, ec.ECDSA(SHA256(), deterministic_signing=True)))
        return _bytes(r) + _bytes(s)


def verify(public: PublicKey, message: bytes, signature: bytes) -> bool:
    """Whether the key has signed the message, with low or high s.

    The result is False for a key that is no point of the curve.
    """
    if len(signature) != 2 * COORDINATE:
        return False
    try:
        key = ec.EllipticCurvePublicNumbers(_number(public.x), _number(public.y), CURVE).public_key()
        dss = encode_dss_signature(_number(signature[:COORDINATE]), _number(signature[COORDINATE:]))
        key.verify(dss, message, ec.ECDSA(SHA256()))
    except (ValueError, InvalidSignature):
        return False
    return True


def _number(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _bytes(number: int) -> bytes:
    return number.to_bytes(COORDINATE, "big")
