"""The origin of a request, stored with its asynchronous work."""

from __future__ import annotations

import hashlib
from typing import NamedTuple


class RequestOrigin(NamedTuple):
    """The caller of an operation, and the origin of the call."""

    caller: int | None = None  # a manager or a client: one sequence numbers both
    address: str | None = None
    request: str | None = None  # id of the request
    traceparent: str | None = None  # its place in a trace, if traces are enabled


def checksum(body: bytes, method: str, path: str) -> str:
    """MD5 of the request's body, or of method, blank and path without a body.

    It is a fingerprint, not a protection.
    """
    content = body or f"{method} {path}".encode()
    return hashlib.md5(content, usedforsecurity=False).hexdigest().upper()
