"""In charge of what o'clock it is for keys: seconds, as their messages have them."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    """The second that has begun."""
    return datetime.now(UTC).replace(microsecond=0)
