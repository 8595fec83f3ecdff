"""The time for keys, in whole seconds as in their messages."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime

Clock = Callable[[], datetime]


def _real() -> datetime:
    return datetime.now(UTC)


_clocks: list[Clock] = [_real]  # the last one is in use


def now() -> datetime:
    """The present second.

    All decisions by the time of keys use it, and statements get it as a parameter. So weeks can pass in a simulation.
    """
    return _clocks[-1]().replace(microsecond=0)


@contextmanager
def shown(clock: Clock) -> Generator[None]:
    """Use this clock within the block, in all of the process."""
    _clocks.append(clock)
    try:
        yield
    finally:
        _clocks.remove(clock)
