"""Secrets that Keyrack generates, and their stored form."""

from __future__ import annotations

import hashlib
import secrets


def digest(secret: str) -> bytes:
    """The stored form of a generated secret (128 bits and more): SHA-256.

    Passwords of people are hashed by `Passwords`.
    """
    return hashlib.sha256(secret.encode()).digest()


def new_secret() -> str:
    """A secret to show once: 256 random bits."""
    return secrets.token_urlsafe(32)
