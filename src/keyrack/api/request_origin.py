"""The origin of a request: kept with the asynchronous work that it asks for."""

from __future__ import annotations

import hashlib
from typing import NamedTuple


class RequestOrigin(NamedTuple):
    """The caller of an operation, and how the call arrived."""

    manager: int | None = None
    address: str | None = None
    request: str | None = None  # id of the request
    traceparent: str | None = None  # its place in a trace, where traces are on


def checksum(body: bytes, method: str, path: str) -> str:
    """MD5 of the request's body, or of method, blank and path where there is none: a fingerprint, not a protection."""
    content = body or f"{method} {path}".encode()
    return hashlib.md5(content, usedforsecurity=False).hexdigest().upper()
