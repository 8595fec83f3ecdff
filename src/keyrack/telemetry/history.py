"""History: stored runs of readings, and the insertion of late readings.

Every writer has locked the state of the cars. The runs of a car never overlap: between the starts of two successive
runs lie only readings of the earlier one. A look-up of a time therefore finds its run in one step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, LiteralString

from keyrack.db.connection import Connection, Row
from keyrack.telemetry.car_state import Changes, Moment, NewestReading
from keyrack.telemetry.runs import Run, Value, packed, times_of

# The last run that starts at or before each moment, if any
BEFORE: LiteralString = """
select n.car_id, n.at as moment, h.at, {columns}, h.times
from unnest($2::integer[], $3::timestamptz[]) as n (car_id, at)
left join lateral (
  select * from {table} h where h.customer_id = $1 and h.car_id = n.car_id and h.at <= n.at order by h.at desc limit 1
) h on true
"""
LAST: LiteralString = """
select n.car_id, h.at, {columns}, h.times
from unnest($2::integer[]) as n (car_id)
cross join lateral (
  select * from {table} h where h.customer_id = $1 and h.car_id = n.car_id order by h.at desc limit 1
) h
"""
REMOVE: LiteralString = """
delete from {table} h using unnest($2::integer[], $3::timestamptz[]) as n (car_id, at)
where h.customer_id = $1 and h.car_id = n.car_id and h.at = n.at
"""
# Returns the number of deleted readings
CUT: LiteralString = """
with gone as (delete from {table} h where customer_id = $1 and car_id = $2 and at >= $3 returning h.at, h.times)
select count(*)::integer from gone, packed_times(gone.at, gone.times)
"""


@dataclass(frozen=True, slots=True)
class HistoryTable:
    """The history of one kind of reading: its table, and the columns of a value."""

    table: str
    columns: tuple[str, ...]
    before: LiteralString
    last: LiteralString
    remove: LiteralString
    cut: LiteralString

    async def look_behind(self, connection: Connection, customer: int, tracks: Mapping[int, NewestReading]) -> None:
        """Read how far the history of these cars extends. They have no open run."""
        if tracks:
            for row in await connection.fetch(self.last, customer, list(tracks)):
                track = tracks[row["car_id"]]
                times = [track.behind, *times_of(self._stretch(row))]
                track.behind = max(at for at in times if at is not None)

    async def write(
        self, connection: Connection, customer: int, tracks: Mapping[int, NewestReading], changes: Changes
    ) -> set[Moment]:
        """Write a batch's additions; return the late readings that history did not have.

        Changes the open runs of `tracks` if a late reading belongs there.
        """
        await self.add(connection, customer, changes.ended_runs)
        if not changes.late:
            return set()
        outcome = LateReadingResult()
        groups = await self._before(connection, customer, tracks, changes.late)
        for (car, _), (stretch, late) in groups.items():
            await asyncio.sleep(0)  # let other tasks run
            outcome.insert(car, tracks[car], stretch, late)
        if outcome.removed:
            await connection.execute(self.remove, customer, *_columns(outcome.removed))
        await self.add(connection, customer, outcome.added)
        return outcome.new

    async def discard(self, connection: Connection, customer: int, car: int, since: datetime) -> int:
        """Delete the readings of a car from `since` on; return their number."""
        discarded: int = await connection.fetchval(self.cut, customer, car, since)
        row = await connection.fetchrow(self.before, customer, [car], [since])
        if row is None or row["at"] is None:
            return discarded
        stretch = self._stretch(row)
        times = times_of(stretch)
        kept = [(at, stretch.value) for at in times if at < since]
        if len(kept) < len(times):
            await connection.execute(self.remove, customer, [car], [stretch.at])
            await self.add(connection, customer, [(car, part) for part, _ in packed(kept)])
        return discarded + len(times) - len(kept)

    async def add(self, connection: Connection, customer: int, stretches: Sequence[tuple[int, Run]]) -> None:
        """Insert runs, each with its car. They overlap no stored run."""
        if stretches:
            columns = ("customer_id", "car_id", "at", *self.columns, "times")
            rows = [(customer, car, stretch.at, *stretch.value, stretch.times) for car, stretch in stretches]
            await connection.copy(self.table, columns, rows)

    async def _before(
        self, connection: Connection, customer: int, tracks: Mapping[int, NewestReading], late: Mapping[Moment, Value]
    ) -> dict[tuple[int, datetime | None], tuple[Run | None, list[tuple[datetime, Value]]]]:
        """The late readings, grouped by the run that they belong to; None for a place before all runs."""
        groups: dict[Any, Any] = {}
        elsewhere: list[Moment] = []
        for car, at in late:
            stretch = tracks[car].open_run
            if stretch is None or at < stretch.at:
                elsewhere.append((car, at))
            else:
                groups.setdefault((car, stretch.at), (stretch, []))[1].append((at, late[car, at]))
        rows = await connection.fetch(self.before, customer, *_columns(elsewhere)) if elsewhere else []
        for row in rows:
            car, at = row["car_id"], row["moment"]
            stretch = None if row["at"] is None else self._stretch(row)
            groups.setdefault((car, row["at"]), (stretch, []))[1].append((at, late[car, at]))
        return groups

    def _stretch(self, row: Row) -> Run:
        return Run(row["at"], tuple(row[column] for column in self.columns), row["times"])


@dataclass(slots=True)
class LateReadingResult:
    """The changes of history that late readings cause."""

    new: set[Moment] = field(default_factory=set[Moment])
    removed: list[Moment] = field(default_factory=list[Moment])  # runs, by their first times
    added: list[tuple[int, Run]] = field(default_factory=list[Any])

    def insert(
        self,
        car: int,
        track: NewestReading,
        stretch: Run | None,
        late: Sequence[tuple[datetime, Value]],
    ) -> None:
        """Insert readings into their run, or before all runs. The run may be split."""
        readings = {} if stretch is None else dict.fromkeys(times_of(stretch), stretch.value)
        reading_count = len(readings)
        for at, value in late:
            if at not in readings:  # the first of two with the same time remains
                readings[at] = value
                self.new.add((car, at))
        if len(readings) == reading_count:
            return
        stretches = packed(sorted(readings.items()))
        if stretch is not None and stretch is track.open_run:
            track.open_run = stretches.pop()[0]
        elif stretch is not None:
            self.removed.append((car, stretch.at))
        self.added += [(car, run) for run, _ in stretches]


def _columns(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _history(table: LiteralString, columns: tuple[LiteralString, ...]) -> HistoryTable:
    def of(sql: LiteralString) -> LiteralString:
        return sql.replace("{table}", table).replace("{columns}", ", ".join(["h." + column for column in columns]))

    return HistoryTable(table, columns, of(BEFORE), of(LAST), of(REMOVE), of(CUT))


POSITIONS = _history("position", ("latitude", "longitude"))
ODOMETERS = _history("odometer", ("odometer",))
