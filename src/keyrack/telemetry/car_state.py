"""In charge of what is known of a car, and of what one sample changes in it.

Everything here is plain values; `ingest` and `history` read and write the database.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from keyrack.telemetry.latest_values import LatestValues
from keyrack.telemetry.rollups import Quarters, RollupSample, quarter
from keyrack.telemetry.runs import Run, Value, extend_run
from keyrack.telemetry.samples import CheckedSample

Moment = tuple[int, datetime]  # a car, and when


@dataclass(slots=True)
class NewestReading:
    """The newest position, or the newest odometer reading, that the unit in a car has told.

    It is the last reading of `open_run`, which history does not have yet; all of the car's history lies
    before that. Without one it is in history already, which may go further, until `behind`: that has to be looked up.
    """

    value: Value | None = None
    at: datetime | None = None
    open_run: Run | None = None
    behind: datetime | None = None


@dataclass(slots=True)
class Changes:
    """What a batch adds to history: `ended_runs` lie after all that is stored of their car; where `late` readings
    belong has to be looked up."""

    ended_runs: list[tuple[int, Run]] = field(default_factory=list[Any])
    late: dict[Moment, Value] = field(default_factory=dict[Moment, Value])


@dataclass(slots=True)
class CarState:
    """What is known of one car, as told by the unit that is in it now."""

    unit: int  # its productId
    position: NewestReading = field(default_factory=NewestReading)
    odometer: NewestReading = field(default_factory=NewestReading)
    newest: LatestValues = field(default_factory=LatestValues)
    quarter: int | None = None  # the one of `newest`


def apply_sample(
    car: int, state: CarState, sample: CheckedSample, positions: Changes, odometers: Changes, quarters: Quarters
) -> tuple[bool, bool, bool, RollupSample | None]:
    """Let a sample change what is known, and say what history is to do with it.

    Whether it told anything new already; and whether the place of its position, of its odometer reading, and of its
    values, in history has to be looked up, which may show that they are new too.
    """
    late_values, number = None, quarter(sample.at)
    if number != state.quarter:
        if state.quarter is None or number > state.quarter:
            quarters.close(car, state.newest)
            state.quarter = number
        else:
            late_values = quarters.add(car, sample.at, sample.values)
    new = state.newest.merge(sample.at, sample.values)
    late_position = late_odometer = False
    if sample.position is not None:
        newest, late_position = _read(car, state.position, sample.at, sample.position, positions)
        new = new or newest
    if sample.odometer is not None:
        newest, late_odometer = _read(car, state.odometer, sample.at, (sample.odometer,), odometers)
        new = new or newest
    return new, late_position, late_odometer, late_values


def _read(car: int, track: NewestReading, at: datetime, value: Value, changes: Changes) -> tuple[bool, bool]:
    """Whether this is the newest reading, and whether its place in history has to be looked up."""
    newest, stretch = track.at is None or at > track.at, track.open_run
    if stretch is not None and at == track.at:
        return False, False
    if not newest or (stretch is None and track.behind is not None and at <= track.behind):
        late = (car, at) not in changes.late
        if late:
            changes.late[car, at] = value
        if newest:
            track.value, track.at = value, at
        return newest, late
    if stretch is None:
        track.open_run = Run(at, value)
    else:
        times = extend_run(stretch, track.at or at, at) if value == track.value else None
        if times is None:
            changes.ended_runs.append((car, stretch))
            track.open_run = Run(at, value)
        else:
            stretch.times = times
    track.value, track.at = value, at
    return True, False


def ended(car: int, track: NewestReading, changes: Changes) -> NewestReading:
    """The track of the next unit: what the one before told is history."""
    if track.open_run is None:
        return NewestReading()
    changes.ended_runs.append((car, track.open_run))
    return NewestReading(behind=track.at)
