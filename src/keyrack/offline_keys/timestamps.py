"""In charge of what o'clock it is for keys: seconds, as their messages have them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime

Clock = Callable[[], datetime]


def _real() -> datetime:
    return datetime.now(UTC)


_clocks: list[Clock] = [_real]  # the last one is looked at


def now() -> datetime:
    """The second that has begun. Whatever is decided by the time of keys asks here, and no statement asks by itself: so
    weeks can pass in a simulation."""
    return _clocks[-1]().replace(microsecond=0)


@contextmanager
def shown(clock: Clock) -> Generator[None]:
    """Go by this clock within the block, in all of the process."""
    _clocks.append(clock)
    try:
        yield
    finally:
        _clocks.remove(clock)
