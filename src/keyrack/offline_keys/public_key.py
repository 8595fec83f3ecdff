"""In charge of public keys: COSE_Key (RFC 9052) on P-256 in one form, and what names one."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from keyrack.offline_keys.cbor import CborError, Key, Value, encode

KTY, CRV, X, Y = 1, -1, -2, -3  # labels of RFC 9052, section 7.1, and RFC 9053, section 7.1.1
EC2, P256 = 2, 1
COORDINATE = 32  # bytes
EXAMPLE_THUMBPRINT = "u4V8Zc1qFzYwW9kU0m2Yp7dTn5oS3aRxLqEhJgPiCk0"  # in the API reference


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A point by its coordinates, big-endian. Whether it lies on the curve turns out at the first signature."""

    x: bytes  # 32 bytes
    y: bytes  # 32 bytes

    @classmethod
    def from_map(cls, value: Value) -> PublicKey:
        """The key that is said so. Raises `CborError`."""
        if isinstance(value, dict):
            x, y = value.get(X), value.get(Y)
            if isinstance(x, bytes) and isinstance(y, bytes) and len(x) == len(y) == COORDINATE:
                key = cls(x, y)
                if value == key.map:
                    return key
        raise CborError("this is no public key")

    @property
    def map(self) -> dict[Key, Value]:
        return {KTY: EC2, CRV: P256, X: self.x, Y: self.y}

    @property
    def encoded(self) -> bytes:
        return encode(self.map)

    @property
    def thumbprint(self) -> bytes:
        """RFC 9679, 32 bytes: by what a phone or a box is known."""
        return hashlib.sha256(self.encoded).digest()

    @property
    def kid(self) -> bytes:
        """By what a signed message names its signer, 8 bytes."""
        return self.thumbprint[:8]
