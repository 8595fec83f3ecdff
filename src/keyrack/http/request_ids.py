"""Request ids and traces, from the client's headers if they are valid.

The id is in the response, in the log and in operations.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable

from keyrack.core.tracing.context import TraceContext, parsed

HEADER = b"x-request-id"
PARENT, STATE = b"traceparent", b"tracestate"

is_made = re.compile(r"(?!0{32})[0-9a-f]{32}").fullmatch  # whether an id has the form of a generated one
_OURS = re.compile(rb"[A-Za-z0-9._~+/=:@-]{1,128}").fullmatch


def request_id(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The id of the request with these headers, whose names are in lower case.

    It is the `X-Request-Id`, else the trace id of the `traceparent`, else 32 random hexadecimal digits. An invalid
    header counts as missing.
    """
    parent: bytes | None = None
    for name, value in headers:
        if name == HEADER and _OURS(value):
            return value.decode()
        if name == PARENT:
            parent = value if parent is None else b""  # two are ambiguous, so neither counts
    caller = parsed(parent) if parent else None
    return secrets.token_hex(16) if caller is None else caller.trace


def caller(headers: Iterable[tuple[bytes, bytes]]) -> TraceContext | None:
    """The caller's place in a trace; None without valid headers."""
    parents, states = list[bytes](), list[bytes]()
    for name, value in headers:
        if name == PARENT:
            parents.append(value)
        elif name == STATE:
            states.append(value)
    place = parsed(parents[0]) if len(parents) == 1 else None
    if place is not None and states:
        place.state = b",".join(states).decode("latin-1")
    return place
