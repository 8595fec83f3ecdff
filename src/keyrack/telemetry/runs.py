"""Runs: successive readings of one value, stored as the value, the first time, and the other times.

The times after the first one are packed. A byte has the number of digits of the fraction of a second (0, 3 or 6). Then
follows the step from each time to the next in that unit, as unsigned LEB128. The SQL function `packed_times` reads it
too.

A run lies within one UTC day, so that retention can delete whole runs. Its packed times have at most `LONGEST` bytes,
because each further reading rewrites them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

Value = tuple[float, ...]  # latitude and longitude, or an odometer reading

LONGEST = 256  # bytes of packed times
MICROSECOND = timedelta(microseconds=1)
UNITS = {0: 1_000_000, 3: 1_000, 6: 1}  # digits of the fraction -> microseconds


@dataclass(slots=True)
class Run:
    """Readings of one value: the first time, and the packed times of the others."""

    at: datetime
    value: Value
    times: bytes | None = None


def extend_run(stretch: Run, last: datetime, at: datetime) -> bytes | None:
    """The packed times with one more, `at` after `last`; None if a new run must begin."""
    step, times = (at - last) // MICROSECOND, stretch.times
    if times is None:
        digits = 6 if step % 1_000 else 3 if step % 1_000_000 else 0
        times = bytes((digits,))
    step, rest = divmod(step, UNITS[times[0]])
    if rest or len(times) > LONGEST - 8 or at.astimezone(UTC).date() != stretch.at.astimezone(UTC).date():
        return None
    return times + (bytes((step,)) if step < 128 else _number(step))


def _number(step: int) -> bytes:
    digits = bytearray()
    while step >= 128:
        digits.append(step & 127 | 128)
        step >>= 7
    digits.append(step)
    return bytes(digits)


def times_of(stretch: Run) -> list[datetime]:
    """The times of all readings of a run."""
    moments, times = [stretch.at], stretch.times
    if times is None:
        return moments
    unit, step, shift, total = UNITS[times[0]], 0, 0, 0
    for byte in times[1:]:
        step |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            total += step
            moments.append(stretch.at + timedelta(microseconds=total * unit))
            step = shift = 0
    return moments


def packed(readings: Iterable[tuple[datetime, Value]]) -> list[tuple[Run, datetime]]:
    """Readings in the order of their times as runs, each with its last time."""
    runs: list[tuple[Run, datetime]] = []
    for at, value in readings:
        if runs and runs[-1][0].value == value:
            stretch, last = runs[-1]
            times = extend_run(stretch, last, at)
            if times is not None:
                stretch.times = times
                runs[-1] = (stretch, at)
                continue
        runs.append((Run(at, value), at))
    return runs
