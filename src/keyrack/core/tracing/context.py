"""Trace contexts: W3C's `traceparent`, and the context of the running task."""

from __future__ import annotations

import re
from contextvars import ContextVar
from dataclasses import dataclass
from random import Random
from uuid import UUID

# W3C Trace Context, section 3.2: version, trace id, parent id, flags. A later version may append fields
_PARENT = re.compile(
    rb"(?:00(?=.{53}\Z)|(?!00|ff)[0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?"
).fullmatch
SAMPLED = 1  # bit of the flags
chance = Random()  # noqa: S311 - for ids and sampling, not for secrets; a separate instance, which no library seeds


@dataclass(slots=True)
class TraceContext:
    """A span of a trace as a parent of others. Ids are hexadecimal, as in `traceparent`."""

    trace: str  # 32 digits
    span: str  # 16 digits
    sampled: bool  # whether its spans are exported
    above: TraceContext | None = None
    state: str = ""  # `tracestate` as received
    statements: int = 0  # number of statements below it
    links: tuple[TraceContext, ...] = ()  # spans in which other requests did its work

    @property
    def traceparent(self) -> str:
        """W3C's header for a request below this span."""
        return f"00-{self.trace}-{self.span}-{'01' if self.sampled else '00'}"

    def of_operation(self, id: UUID) -> TraceContext:
        """The context of an operation below this one.

        It follows from the operation's id, so the delivery of its outcome finds it.
        """
        return TraceContext(self.trace, id.hex[16:] if self.sampled else self.span, self.sampled, self)


# The trace context of the running task. None if it is not traced.
here: ContextVar[TraceContext | None] = ContextVar("place", default=None)


def parsed(traceparent: bytes) -> TraceContext | None:
    """Parse a `traceparent`. Returns None if it is not valid."""
    match = _PARENT(traceparent)
    if match is None:
        return None
    return TraceContext(match[1].decode(), match[2].decode(), bool(int(match[3], 16) & SAMPLED))


def is_sampled(traceparent: str | None) -> TraceContext | None:
    """The trace context that is stored with an operation or a delivery."""
    return None if traceparent is None else parsed(traceparent.encode())


def new_span() -> str:
    """A new, random id of a span."""
    return f"{chance.getrandbits(64) or 1:016x}"
