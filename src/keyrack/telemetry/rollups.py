"""In charge of the series of telemetry: of each quarter of an hour the newest value of each member that is a number.

The quarter that has not ended is the newest state itself, which costs nothing. It is written when a later reading ends
it; what comes late is put into the quarter where it belongs, and stays there if nothing newer is. So a quarter depends
on which readings were told, not on their order, nor on how often they were sent: of two of the same time the first one
counts. Whoever writes here has the state of the cars locked.
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
# The quarter in which the time lies too: what it has of before is put back
CUT: LiteralString = """
delete from telemetry where customer_id = $1 and car_id = $2 and at >= $3
returning car_id, at, read_at, readings::text, told::text
"""


@dataclass(slots=True)
class RollupSample:
    """Values of one time, and whether one of them was new to its quarter: that is known once they are written."""

    at: datetime
    values: Json
    new: bool = False


@dataclass(slots=True)
class Quarters:
    """What a batch adds to series: by car and quarter."""

    samples: dict[tuple[int, int], list[RollupSample]] = field(default_factory=dict[Any, Any])

    def add(self, car: int, at: datetime, values: Mapping[str, Any]) -> RollupSample | None:
        """Readings of a quarter that has ended; None where no member is kept."""
        kept = {name: value for name, value in values.items() if name in KEPT}
        if not kept:
            return None
        sample = RollupSample(at, kept)
        self.samples.setdefault((car, quarter(at)), []).append(sample)
        return sample

    def close(self, car: int, newest: LatestValues, before: datetime | None = None) -> None:
        """The quarter of a newest state ends, with what was told in it, or in it and before a time."""
        if newest.read_at is None:
            return
        number = quarter(newest.read_at)
        for at, values in newest.by_time().items():
            if quarter(at) == number and (before is None or at < before):
                self.add(car, at, values)

    @property
    def months(self) -> set[date]:
        """Those whose partitions are needed."""
        return {month(_begin(number)) for _, number in self.samples}

    async def write(self, connection: Connection, customer: int) -> None:
        """Put all into the series, and find out what was new."""
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
    """Throw away the readings of a car from `since` on, and keep those of its newest state that are older."""
    kept = Quarters()
    for row in await connection.fetch(CUT, customer, car, _begin(quarter(since))):
        kept.close(car, _newest(row), since)
    kept.close(car, newest, since)
    await kept.write(connection, customer)


def quarter(at: datetime) -> int:
    """The number of the quarter of an hour in which a time lies, in UTC."""
    return int(at.timestamp()) // SECONDS


def _begin(number: int) -> datetime:
    return datetime.fromtimestamp(number * SECONDS, UTC)


def _newest(row: Row) -> LatestValues:
    return LatestValues(row["read_at"], from_json(row["readings"]), from_json(row["told"]))
