"""Public keys: COSE_Key (RFC 9052) on P-256, in one form."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from keyrack.offline_keys.cbor import CborError, Key, Value, encode

KTY, CRV, X, Y = 1, -1, -2, -3  # labels of RFC 9052, section 7.1, and RFC 9053, section 7.1.1
EC2, P256 = 2, 1
COORDINATE = 32  # bytes
# P-256 (SEC 2, section 2.4.2): y² = x³ - 3x + b modulo p
MODULUS = 0xFFFFFFFF00000001000000000000000000000000FFFFFFFFFFFFFFFFFFFFFFFF
CURVE_B = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # n, of the group of its points
EXAMPLE_THUMBPRINT = "u4V8Zc1qFzYwW9kU0m2Yp7dTn5oS3aRxLqEhJgPiCk0"  # in the API reference


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A point of the curve, by its coordinates, big-endian. `from_map` validates it."""

    x: bytes  # 32 bytes
    y: bytes  # 32 bytes

    @classmethod
    def from_map(cls, value: Value) -> PublicKey:
        """The key of this COSE_Key.

        Raises `CborError`, also if the coordinates are no point of the curve.
        """
        if isinstance(value, dict):
            x, y = value.get(X), value.get(Y)
            if isinstance(x, bytes) and isinstance(y, bytes) and len(x) == len(y) == COORDINATE:
                key = cls(x, y)
                if value == key.map and key.is_point:
                    return key
        raise CborError("this is no public key")

    @property
    def is_point(self) -> bool:
        x, y = int.from_bytes(self.x, "big"), int.from_bytes(self.y, "big")
        return x < MODULUS and y < MODULUS and (x * (x * x - 3) + CURVE_B - y * y) % MODULUS == 0

    @property
    def map(self) -> dict[Key, Value]:
        return {KTY: EC2, CRV: P256, X: self.x, Y: self.y}

    @property
    def encoded(self) -> bytes:
        """The map in CBOR, which has constant bytes around the coordinates."""
        return _BEFORE_X + self.x + _BEFORE_Y + self.y

    @property
    def thumbprint(self) -> bytes:
        """The id of a phone or a box (RFC 9679), 32 bytes."""
        return hashlib.sha256(self.encoded).digest()

    @property
    def kid(self) -> bytes:
        """The id of the signer in a signed message, 8 bytes."""
        return self.thumbprint[:8]


_BEFORE_X, _BEFORE_Y, _ = encode(PublicKey(bytes(COORDINATE), bytes(COORDINATE)).map).split(bytes(COORDINATE))
