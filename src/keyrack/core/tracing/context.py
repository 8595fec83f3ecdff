"""In charge of places in traces: W3C's `traceparent`, and the place of what is worked on just now."""

from __future__ import annotations

import re
from contextvars import ContextVar
from dataclasses import dataclass
from random import Random
from uuid import UUID

# W3C Trace Context, section 3.2: version, trace id, parent id, flags; a later version may say more behind them
_PARENT = re.compile(
    rb"(?:00(?=.{53}\Z)|(?!00|ff)[0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?"
).fullmatch
SAMPLED = 1  # of the flags
chance = Random()  # noqa: S311 - ids and a share, no secrets; nobody else's, who might seed it


@dataclass(slots=True)
class TraceContext:
    """One span of a trace, which others may lie below: the ids are hexadecimal, as `traceparent` has them."""

    trace: str  # 32 digits
    span: str  # 16 digits
    sampled: bool  # whether anything of it is told to the collector
    above: TraceContext | None = None
    state: str = ""  # `tracestate`, as it came
    statements: int = 0  # that were told below it
    links: tuple[TraceContext, ...] = ()  # where others have done what it waited for

    @property
    def traceparent(self) -> str:
        """W3C's header, for who is told to go on from here."""
        return f"00-{self.trace}-{self.span}-{'01' if self.sampled else '00'}"

    def of_operation(self, id: UUID) -> TraceContext:
        """The place below this one of an operation, known from its id alone: whoever tells of its outcome finds it."""
        return TraceContext(self.trace, id.hex[16:] if self.sampled else self.span, self.sampled, self)


# The place of the running task in a trace. None while nothing is traced.
here: ContextVar[TraceContext | None] = ContextVar("place", default=None)


def parsed(traceparent: bytes) -> TraceContext | None:
    """The place that a `traceparent` names, None where it is not valid."""
    match = _PARENT(traceparent)
    if match is None:
        return None
    return TraceContext(match[1].decode(), match[2].decode(), bool(int(match[3], 16) & SAMPLED))


def is_sampled(traceparent: str | None) -> TraceContext | None:
    """The place that was kept with an operation or a delivery."""
    return None if traceparent is None else parsed(traceparent.encode())


def new_span() -> str:
    """An id of a span that nobody has."""
    return f"{chance.getrandbits(64) or 1:016x}"
