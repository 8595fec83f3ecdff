"""In charge of a request's id: taken from the client, else made. It is in the answer, in the log and in operations."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable

ID = "keyrack.id"  # of a scope: the request's id
HEADER = b"x-request-id"

_OURS = re.compile(rb"[A-Za-z0-9._~+/=:@-]{1,128}").fullmatch
# W3C Trace Context, section 3.2: version, trace id, parent id, flags; a later version may say more behind them
_PARENT = re.compile(
    rb"(?:00(?=.{53}\Z)|(?!00|ff)[0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?"
).fullmatch


def request_id(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The id of the request with these headers, whose names are in lower case: its `X-Request-Id`, else the trace id of
    its `traceparent`, else 32 hexadecimal digits. What is not of their form counts as absent."""
    parent = b""
    for name, value in headers:
        if name == HEADER and _OURS(value):
            return value.decode()
        if name == b"traceparent":
            parent = value
    return _trace(parent) if parent else secrets.token_hex(16)


def _trace(parent: bytes) -> str:
    """The trace id of a `traceparent`; a new id where it is not valid."""
    found = _PARENT(parent)
    return found[1].decode() if found else secrets.token_hex(16)
