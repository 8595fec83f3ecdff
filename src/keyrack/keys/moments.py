"""In charge of what o'clock it is for keys: seconds, as their messages have them."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    """The second that has begun. Whatever is decided by the time of keys asks here, and no statement asks by itself: so
    weeks can pass in a simulation."""
    return datetime.now(UTC).replace(microsecond=0)
