"""In charge of telemetry on its way into the database: which unit is in which car, the newest state, and history.

The rows of `car_state` that a batch is about stay locked until its commit, in the order of their keys: what is newest
is decided one batch after another, and whatever lies after the newest cannot be in history yet, so COPY may write it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, LiteralString

import asyncpg
from pydantic_core import from_json, to_json

from keyrack.database import partitions
from keyrack.database.batching import Batches
from keyrack.database.connection import Connection, Database, Row
from keyrack.database.partitions import month
from keyrack.settings import Settings
from keyrack.telemetry.lines import Invalid, Report
from keyrack.telemetry.samples import Changes, Known, Reading, readings, take

AT_ONCE = 2  # batches of one customer under way; those that share a car wait for each other
AT_A_TIME = 200  # lines that are read before others are served
PER_BATCH = 1_000  # lines that are stored, and held in the event loop, at once

UNKNOWN_UNIT = "There is no IQ product with this number that is installed in a car."
TOO_EARLY = "carDataReadTime lies further back than history is kept."
TOO_LATE = "carDataReadTime lies in the future."

LOCK: LiteralString = """
with unit as (
  select p.serial_number, p.unique_id, p.car_id, c.history_days, c.keeps_positions
  from product p join customer c using (customer_id)
  where p.customer_id = $1 and p.kind = 'IQ' and p.car_id is not null
    and (p.serial_number = any($2) or p.unique_id = any($3))
), state as (
  select * from car_state where customer_id = $1 and car_id in (select car_id from unit)
  order by car_id for no key update
)
select unit.*, customer_id, position_kept, odometer_kept, position_at, latitude, longitude, odometer_at, odometer,
  read_at, telemetry::text, nullif(told::text, '{}') as told
from unit left join state using (car_id)
"""
FIRST: LiteralString = """
insert into car_state (customer_id, car_id)
select customer_id, car_id from car where customer_id = $1 and car_id = any($2) order by car_id for key share
on conflict do nothing
"""
UPDATE: LiteralString = """
update car_state s set
  position_kept = n.position_kept, odometer_kept = n.odometer_kept,
  position_at = n.position_at, latitude = n.latitude, longitude = n.longitude,
  odometer_at = n.odometer_at, odometer = n.odometer,
  read_at = n.read_at, telemetry = n.telemetry::jsonb, told = n.told::jsonb
from unnest($2::integer[], $3::boolean[], $4::boolean[], $5::timestamptz[], $6::float8[], $7::float8[],
            $8::timestamptz[], $9::float8[], $10::timestamptz[], $11::text[], $12::text[])
  as n (car_id, position_kept, odometer_kept, position_at, latitude, longitude, odometer_at, odometer, read_at,
        telemetry, told)
where s.customer_id = $1 and s.car_id = n.car_id
"""
# What lies between two equal readings tells nothing; the newest state counts as one, for history may not have it
LATE_POSITIONS: LiteralString = """
insert into position (customer_id, car_id, at, latitude, longitude)
select $1, n.car_id, n.at, n.latitude, n.longitude
from unnest($2::integer[], $3::timestamptz[], $4::float8[], $5::float8[]) as n (car_id, at, latitude, longitude)
left join lateral (
  select h.latitude, h.longitude from position h
  where h.customer_id = $1 and h.car_id = n.car_id and h.at < n.at order by h.at desc limit 1) b on true
left join lateral (
  select * from (
    (select h.at, h.latitude, h.longitude from position h
     where h.customer_id = $1 and h.car_id = n.car_id and h.at > n.at order by h.at limit 1)
    union all select s.position_at, s.latitude, s.longitude from car_state s
    where s.customer_id = $1 and s.car_id = n.car_id and s.position_at > n.at) u order by u.at limit 1) a on true
where (b.latitude, b.longitude, a.latitude, a.longitude)
      is distinct from (n.latitude, n.longitude, n.latitude, n.longitude)
on conflict do nothing returning car_id, at
"""
LATE_ODOMETERS: LiteralString = """
insert into odometer (customer_id, car_id, at, odometer)
select $1, n.car_id, n.at, n.odometer
from unnest($2::integer[], $3::timestamptz[], $4::float8[]) as n (car_id, at, odometer)
left join lateral (
  select h.odometer from odometer h
  where h.customer_id = $1 and h.car_id = n.car_id and h.at < n.at order by h.at desc limit 1) b on true
left join lateral (
  select * from (
    (select h.at, h.odometer from odometer h
     where h.customer_id = $1 and h.car_id = n.car_id and h.at > n.at order by h.at limit 1)
    union all select s.odometer_at, s.odometer from car_state s
    where s.customer_id = $1 and s.car_id = n.car_id and s.odometer_at > n.at) u order by u.at limit 1) a on true
where (b.odometer, a.odometer) is distinct from (n.odometer, n.odometer)
on conflict do nothing returning car_id, at
"""
POSITION = ("customer_id", "car_id", "at", "latitude", "longitude")
ODOMETER = ("customer_id", "car_id", "at", "odometer")


class Telemetry:
    """Takes samples in, for one process."""

    def __init__(self, batches: Batches, settings: Settings) -> None:
        self._batches = batches
        self._settings = settings
        self._months: frozenset[date] = frozenset()  # whose partitions exist

    async def ingest(self, customer: int, body: bytes, unit: str | None = None) -> Report:
        """Store the samples of a body, JSON lines or an array; the report once all is committed.

        `unit` is the serial number of the one unit that may speak here, where it is known. What was stored before a
        failure is harmless when the delivery is repeated. Raises `NotALine`.
        """
        report, part = Report(), list[Reading]()
        for count, (line, found) in enumerate(readings(body, unit), 1):
            if count % AT_A_TIME == 0:
                await asyncio.sleep(0)  # others want to be served too
            if isinstance(found, Invalid):
                report.refuse(line, str(found))
                continue
            part.append(found)
            if len(part) >= PER_BATCH:
                report.add(await self.store(customer, part))
                part = []
        if part:
            report.add(await self.store(customer, part))
        report.refused.sort()
        return report

    async def store(self, customer: int, part: list[Reading]) -> Report:
        """Store these samples; the report once they are committed."""
        return await self._batches.put(self._store, customer, part, at_once=AT_ONCE)

    async def _store(self, db: Database, customer: int, parts: Sequence[Sequence[Reading]]) -> list[Report]:
        careful = False
        for _ in range(2):
            try:
                async with db.transaction() as connection:
                    reports, months = await self._write(connection, customer, parts, careful)
                self._months |= months
                return reports
            except asyncpg.CheckViolationError:  # a partition was dropped meanwhile
                self._months = frozenset()
            except asyncpg.UniqueViolationError:  # history knows more than the newest state, which was thrown away
                careful = True
        async with db.transaction() as connection:
            return (await self._write(connection, customer, parts, careful=True))[0]

    async def _write(
        self, connection: Connection, customer: int, parts: Sequence[Sequence[Reading]], careful: bool
    ) -> tuple[list[Report], frozenset[date]]:
        rows = await _locked(connection, customer, parts)
        cars: dict[tuple[str, str], Row] = {}
        for row in rows:
            cars["serialNumber", row["serial_number"]] = cars["uniqueId", row["unique_id"]] = row
        reports = [Report() for _ in parts]
        taken = self._judged(parts, cars, reports)
        known: dict[int, Known] = {}
        changes = Changes()
        seen: set[tuple[int, datetime]] = set()
        pending: list[tuple[Report, tuple[int, datetime]]] = []
        for sample, row, report in taken:
            car = row["car_id"]
            if car not in known:
                known[car] = _known(row)
            if not row["keeps_positions"]:
                sample.position = None
            moment = (car, sample.at)
            if moment in seen:
                report.duplicates += 1
                continue
            seen.add(moment)
            if take(car, known[car], sample, changes):
                report.accepted += 1
            else:
                pending.append((report, moment))
        months = await self._make(connection, changes)
        if known:
            await _update(connection, customer, known)
        stored = await _write_history(connection, customer, changes, careful)
        for report, moment in pending:
            if moment in stored:
                report.accepted += 1
            else:
                report.duplicates += 1
        return reports, months

    def _judged(
        self, parts: Sequence[Sequence[Reading]], cars: dict[tuple[str, str], Row], reports: list[Report]
    ) -> list[tuple[Reading, Row, Report]]:
        """The samples that can be taken, in the order of their times; the others are refused."""
        now = datetime.now(UTC)
        latest = now + timedelta(seconds=self._settings.clock_skew)
        taken: list[tuple[Reading, Row, Report]] = []
        for part, report in zip(parts, reports, strict=True):
            for sample in part:
                row = cars.get(sample.unit)
                if row is None:
                    report.refuse(sample.line, UNKNOWN_UNIT)
                elif sample.at > latest:
                    report.refuse(sample.line, TOO_LATE)
                elif sample.at < now - timedelta(days=row["history_days"] or self._settings.history_days):
                    report.refuse(sample.line, TOO_EARLY)
                else:
                    taken.append((sample, row, report))
        taken.sort(key=lambda item: item[0].at)
        return taken

    async def _make(self, connection: Connection, changes: Changes) -> frozenset[date]:
        """Make the partitions that history needs now; the months, to be remembered once they are committed."""
        times = {
            at
            for rows in (changes.new_positions, changes.late_positions, changes.new_odometers, changes.late_odometers)
            for _, at, *_ in rows
        }
        missing = frozenset(month(at) for at in times) - self._months
        if missing:
            await partitions.make(connection, missing)
        return missing


async def _locked(connection: Connection, customer: int, parts: Sequence[Sequence[Reading]]) -> list[Row]:
    """The cars of the units that the samples name, each with its newest state, locked."""
    serials = list({s.unit[1] for part in parts for s in part if s.unit[0] == "serialNumber"})
    uniques = list({s.unit[1] for part in parts for s in part if s.unit[0] == "uniqueId"})
    rows = await connection.fetch(LOCK, customer, serials, uniques)
    new = sorted({row["car_id"] for row in rows if row["customer_id"] is None})
    if new:
        await connection.execute(FIRST, customer, new)
        rows = await connection.fetch(LOCK, customer, serials, uniques)
    return [row for row in rows if row["customer_id"] is not None]


def _known(row: Row) -> Known:
    return Known(
        None if row["position_at"] is None else (row["latitude"], row["longitude"]), row["position_at"],
        row["position_kept"], row["odometer"], row["odometer_at"], row["odometer_kept"], row["read_at"],
        from_json(row["telemetry"]), {} if row["told"] is None else from_json(row["told"]),
    )  # fmt: skip


async def _update(connection: Connection, customer: int, known: dict[int, Known]) -> None:
    rows = [
        (
            car, k.position_kept, k.odometer_kept, k.position_at, *(k.position or (None, None)), k.odometer_at,
            k.odometer, k.read_at, to_json(k.telemetry).decode(), to_json(k.told).decode() if k.told else "{}",
        )
        for car, k in known.items()
    ]  # fmt: skip
    await connection.execute(UPDATE, customer, *_columns(rows))


async def _write_history(
    connection: Connection, customer: int, changes: Changes, careful: bool
) -> set[tuple[int, datetime]]:
    """Write history; of the late rows, the car and time of those that it did not have."""
    late_positions, late_odometers = changes.late_positions, changes.late_odometers
    if careful:
        late_positions, late_odometers = changes.new_positions + late_positions, changes.new_odometers + late_odometers
    else:
        if changes.new_positions:
            await connection.copy("position", POSITION, [(customer, *row) for row in changes.new_positions])
        if changes.new_odometers:
            await connection.copy("odometer", ODOMETER, [(customer, *row) for row in changes.new_odometers])
    stored: list[Row] = []
    if late_positions:
        stored += await connection.fetch(LATE_POSITIONS, customer, *_columns(late_positions))
    if late_odometers:
        stored += await connection.fetch(LATE_ODOMETERS, customer, *_columns(late_odometers))
    return {(row["car_id"], row["at"]) for row in stored}


def _columns(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]
