"""The cryptography that a box needs, apart from SHA-256."""

from __future__ import annotations

from typing import Protocol

from keyrack.offline_keys.public_key import PublicKey


class Crypto(Protocol):
    """ECDSA on P-256 with SHA-256, with signatures of 64 bytes."""

    def verify(self, public: PublicKey, message: bytes, signature: bytes, /) -> bool:
        """Whether the key has signed the message, with low or high s."""
        ...

    def sign(self, message: bytes, /) -> bytes:
        """Sign with the box's own key."""
        ...
