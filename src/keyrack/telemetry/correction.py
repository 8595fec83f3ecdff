"""Removal of bad telemetry that a wrong clock or a hostile key has caused."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from pydantic_core import from_json

from keyrack.db import partitions
from keyrack.db.connection import Connection
from keyrack.telemetry import rollups
from keyrack.telemetry.history import ODOMETERS, POSITIONS, HistoryTable
from keyrack.telemetry.latest_values import LatestValues
from keyrack.telemetry.runs import Run, packed, times_of

# Every transaction that stores readings of the car locks this row first, so none runs in between
FIRST: LiteralString = "insert into car_state (customer_id, car_id) values ($1, $2) on conflict do nothing"
STATE: LiteralString = """
delete from car_state where customer_id = $1 and car_id = $2
returning position_since, latitude, longitude, position_times, odometer_since, odometer, odometer_times,
  read_at, telemetry::text, told::text, coalesce(position_at, odometer_at, read_at) is not null as is_told
"""


@dataclass(frozen=True, slots=True)
class DiscardCounts:
    """Whether a newest state was removed, and how many position and odometer readings."""

    state: bool
    readings: int


async def discard(connection: Connection, customer: int, car: int, since: datetime) -> DiscardCounts:
    """Delete the newest state of a car and all its readings from `since` on.

    The caller's transaction commits. The next sample then becomes the newest state. History cannot replace that state,
    because another unit may have reported it.
    """
    await connection.execute(FIRST, customer, car)
    row = await connection.fetchrow(STATE, customer, car)
    assert row is not None  # noqa: S101 - the statement before inserts it if it is missing
    readings = 0
    if row["position_since"] is not None:
        place = Run(row["position_since"], (row["latitude"], row["longitude"]), row["position_times"])
        readings += await _keep(connection, customer, car, POSITIONS, place, since)
    if row["odometer_since"] is not None:
        distance = Run(row["odometer_since"], (row["odometer"],), row["odometer_times"])
        readings += await _keep(connection, customer, car, ODOMETERS, distance, since)
    newest = LatestValues(row["read_at"], from_json(row["telemetry"]), from_json(row["told"]))
    await rollups.discard(connection, customer, car, newest, since)
    for history in (POSITIONS, ODOMETERS):
        readings += await history.discard(connection, customer, car, since)
    return DiscardCounts(row["is_told"], readings)


async def _keep(
    connection: Connection, customer: int, car: int, history: HistoryTable, open: Run, since: datetime
) -> int:
    """Move the open run's readings before `since` to history; return the number of the others."""
    times = times_of(open)
    kept = [(at, open.value) for at in times if at < since]
    if kept:
        await partitions.make(connection, {partitions.month(open.at)})
        await history.add(connection, customer, [(car, stretch) for stretch, _ in packed(kept)])
    return len(times) - len(kept)
