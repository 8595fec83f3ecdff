"""In charge of a request's id, which is in the answer, in the log and in operations, and of its caller's trace: both as
the client sends them, if it does."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable

from keyrack.core.tracing.context import TraceContext, parsed

HEADER = b"x-request-id"
PARENT, STATE = b"traceparent", b"tracestate"

is_made = re.compile(r"(?!0{32})[0-9a-f]{32}").fullmatch  # of an id: whether it has the form of those that are made
_OURS = re.compile(rb"[A-Za-z0-9._~+/=:@-]{1,128}").fullmatch


def request_id(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The id of the request with these headers, whose names are in lower case: its `X-Request-Id`, else the trace id of
    its `traceparent`, else 32 hexadecimal digits. What is not of their form counts as absent."""
    parent: bytes | None = None
    for name, value in headers:
        if name == HEADER and _OURS(value):
            return value.decode()
        if name == PARENT:
            parent = value if parent is None else b""  # of two neither is meant
    caller = parsed(parent) if parent else None
    return secrets.token_hex(16) if caller is None else caller.trace


def caller(headers: Iterable[tuple[bytes, bytes]]) -> TraceContext | None:
    """Where in a trace the request comes from; None where it says nothing valid about it."""
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
