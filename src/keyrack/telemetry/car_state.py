"""The in-memory state of a car, and the effect of one sample on it.

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

Moment = tuple[int, datetime]  # a car, and a time


@dataclass(slots=True)
class NewestReading:
    """The newest position or odometer reading from the car's current unit.

    With an `open_run`, this is the run's last reading. History does not contain that run, and all of the car's history
    lies before it. Without one, the reading is in history already. History may then extend further, to `behind`, which
    `HistoryTable.look_behind` reads.
    """

    value: Value | None = None
    at: datetime | None = None
    open_run: Run | None = None
    behind: datetime | None = None


@dataclass(slots=True)
class Changes:
    """The additions of a batch to history.

    `ended_runs` lie after everything that is stored of their car. The run that a `late` reading belongs to must be
    looked up.
    """

    ended_runs: list[tuple[int, Run]] = field(default_factory=list[Any])
    late: dict[Moment, Value] = field(default_factory=dict[Moment, Value])


@dataclass(slots=True)
class CarState:
    """The state of one car, as reported by its current unit."""

    unit: int  # its `productId`
    position: NewestReading = field(default_factory=NewestReading)
    odometer: NewestReading = field(default_factory=NewestReading)
    newest: LatestValues = field(default_factory=LatestValues)
    quarter: int | None = None  # the quarter of `newest`


def apply_sample(
    car: int, state: CarState, sample: CheckedSample, positions: Changes, odometers: Changes, quarters: Quarters
) -> tuple[bool, bool, bool, RollupSample | None]:
    """Apply a sample to the state, and collect its additions to history.

    Returns whether the sample added anything new so far. Then, for its position, odometer reading and values: whether
    their place in history must be looked up, which may find that they are new as well.
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
    """Apply one reading; return whether it is the newest, and whether its place in history must be looked up."""
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
    """End the open run of a former unit; return the track of the next one."""
    if track.open_run is None:
        return NewestReading()
    changes.ended_runs.append((car, track.open_run))
    return NewestReading(behind=track.at)
