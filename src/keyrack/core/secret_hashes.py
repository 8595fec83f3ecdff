"""In charge of secrets that Keyrack makes itself: how they are made, and as what they are kept."""

from __future__ import annotations

import hashlib
import secrets


def digest(secret: str) -> bytes:
    """How a generated secret (128 bits and more) is stored: SHA-256. Passwords of people are hashed by `Passwords`."""
    return hashlib.sha256(secret.encode()).digest()


def new_secret() -> str:
    """A secret to hand out once: 256 random bits."""
    return secrets.token_urlsafe(32)
