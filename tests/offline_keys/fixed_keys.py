"""Fixed keys of tests and vectors, by their names."""

from __future__ import annotations

import base64
import functools
import hashlib
from dataclasses import dataclass

from keyrack.offline_keys import p256
from keyrack.offline_keys.p256 import PrivateKey
from keyrack.offline_keys.public_key import ORDER, PublicKey

NAMES = (
    "root",
    "issuing-1",
    "issuing-2",
    "issuing-3",
    "service-1",
    "service-2",
    "service-3",
    "next-root",
    "last-root",
    "other-root",
    "phone-1",
    "phone-2",
    "box",
    "other-box",
    "stranger",
)


def scalar(name: str) -> bytes:
    """32 bytes, less than the order of the curve."""
    return hashlib.sha256(f"keyrack vectors: {name}".encode()).digest()


@functools.cache
def signer(name: str) -> PrivateKey:
    assert name in NAMES
    return PrivateKey.from_text(base64.b64encode(scalar(name)).decode())


@functools.cache
def public(name: str) -> PublicKey:
    return signer(name).public


@dataclass(frozen=True)
class Own:
    """The cryptography of a box with its own key. It records verified messages."""

    name: str = "box"
    verified: list[bytes] | None = None

    def sign(self, message: bytes) -> bytes:
        return signer(self.name).sign(message)

    def verify(self, public: PublicKey, message: bytes, signature: bytes) -> bool:
        if self.verified is not None:
            self.verified.append(message)
        return _verify(public, message, signature)


@functools.lru_cache(1 << 14)
def _verify(public: PublicKey, message: bytes, signature: bytes) -> bool:
    return p256.verify(public, message, signature)


def high(signature: bytes) -> bytes:
    """The signature with the higher of s and n - s."""
    s = int.from_bytes(signature[32:], "big")
    return signature[:32] + max(s, ORDER - s).to_bytes(32, "big")


def with_high_s(message: bytes) -> bytes:
    """A signed message with a high s, as a carrier can make it.

    The signature is its last element.
    """
    return message[:-64] + high(message[-64:])
