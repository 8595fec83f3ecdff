"""Telemetry series: the newest value of each numeric member in each quarter of an hour.

The current quarter is the newest state itself, at no extra cost. It is written when a later reading ends it. A late
reading goes into the quarter of its time, and stays there unless that has a newer one.

A quarter therefore depends only on the set of readings: not on their order, and not on repetition. The first of two
readings with the same time counts. Every writer has locked the state of the cars.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any, LiteralString

from pydantic_core import from_json, to_json

from keyrack.db.connection import Connection, Row
from keyrack.db.partitions import month
from keyrack.telemetry.latest_values import LatestValues
from keyrack.telemetry.samples import Json
from keyrack.telemetry.schema import MEASURES

SECONDS = 900
KEPT = frozenset(MEASURES)

FIND: LiteralString = """
select h.car_id, h.at, h.read_at, h.readings::text, h.told::text
from unnest($2::integer[], $3::timestamptz[]) as n (car_id, at)
cross join lateral (
  select * from telemetry h where h.customer_id = $1 and h.car_id = n.car_id and h.at = n.at limit 1
) h
"""
WRITE: LiteralString = """
insert into telemetry (customer_id, car_id, at, read_at, readings, told)
select $1, car_id, at, read_at, readings::jsonb, told::jsonb
from unnest($2::integer[], $3::timestamptz[], $4::timestamptz[], $5::text[], $6::text[])
  as n (car_id, at, read_at, readings, told)
on conflict (customer_id, car_id, at) do update
set read_at = excluded.read_at, readings = excluded.readings, told = excluded.told
"""
# Includes the quarter that contains the time; its earlier values are written again
CUT: LiteralString = """
delete from telemetry where customer_id = $1 and car_id = $2 and at >= $3
returning car_id, at, read_at, readings::text, told::text
"""


@dataclass(slots=True)
class RollupSample:
    """Values of one time. `new` is whether one of them was new to its quarter, set by `write`."""

    at: datetime
    values: Json
    new: bool = False


@dataclass(slots=True)
class Quarters:
    """A batch's additions to series, by car and quarter."""

    samples: dict[tuple[int, int], list[RollupSample]] = field(default_factory=dict[Any, Any])

    def add(self, car: int, at: datetime, values: Mapping[str, Any]) -> RollupSample | None:
        """Add readings of a quarter that has ended. Returns None if no member of them is stored."""
        kept = {name: value for name, value in values.items() if name in KEPT}
        if not kept:
            return None
        sample = RollupSample(at, kept)
        self.samples.setdefault((car, quarter(at)), []).append(sample)
        return sample

    def close(self, car: int, newest: LatestValues, before: datetime | None = None) -> None:
        """End the quarter of a newest state. Adds its readings, or only those before a time."""
        if newest.read_at is None:
            return
        number = quarter(newest.read_at)
        for at, values in newest.by_time().items():
            if quarter(at) == number and (before is None or at < before):
                self.add(car, at, values)

    @property
    def months(self) -> set[date]:
        """The months whose partitions are needed."""
        return {month(_begin(number)) for _, number in self.samples}

    async def write(self, connection: Connection, customer: int) -> None:
        """Write everything to the series, and set which samples were new."""
        if not self.samples:
            return
        cars, begins = zip(*((car, _begin(number)) for car, number in self.samples), strict=True)
        stored_rows = await connection.fetch(FIND, customer, list(cars), list(begins))
        stored_readings = {(row["car_id"], row["at"]): _newest(row) for row in stored_rows}
        rows: list[tuple[Any, ...]] = []
        for (car, number), readings in self.samples.items():
            begin = _begin(number)
            newest = stored_readings.get((car, begin)) or LatestValues()
            for sample in readings:
                sample.new = newest.merge(sample.at, sample.values)
            if any(sample.new for sample in readings):
                rows.append(
                    (car, begin, newest.read_at, to_json(newest.values).decode(), to_json(newest.older_times).decode())
                )
        if rows:
            await connection.execute(WRITE, customer, *(list(column) for column in zip(*rows, strict=True)))


async def discard(connection: Connection, customer: int, car: int, newest: LatestValues, since: datetime) -> None:
    """Delete the readings of a car from `since` on; keep the older ones of its newest state."""
    kept = Quarters()
    for row in await connection.fetch(CUT, customer, car, _begin(quarter(since))):
        kept.close(car, _newest(row), since)
    kept.close(car, newest, since)
    await kept.write(connection, customer)


def quarter(at: datetime) -> int:
    """The number of the quarter of an hour, in UTC, that contains a time."""
    return int(at.timestamp()) // SECONDS


def _begin(number: int) -> datetime:
    return datetime.fromtimestamp(number * SECONDS, UTC)


def _newest(row: Row) -> LatestValues:
    return LatestValues(row["read_at"], from_json(row["readings"]), from_json(row["told"]))
