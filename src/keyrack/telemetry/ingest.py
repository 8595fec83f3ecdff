"""Ingest of telemetry: units and their cars, the newest state, and history.

The rows of `car_state` of a batch stay locked until its commit, in the order of their keys. Batches therefore decide
one after another which reading is the newest, and one transaction at a time writes a car's history.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime, timedelta
from time import monotonic
from typing import LiteralString

import asyncpg
from pydantic_core import from_json, to_json

from keyrack.core.metrics.catalog import SAMPLES, SAMPLES_OF
from keyrack.core.settings import Settings
from keyrack.db import partitions
from keyrack.db.change_notifier import DRIVEN, Notify, discard
from keyrack.db.connection import Connection, Database, Row
from keyrack.db.group_commit import GroupCommitter
from keyrack.db.named_parameters import compile_statement
from keyrack.db.partitions import month
from keyrack.telemetry import fast_path
from keyrack.telemetry.car_state import CarState, Changes, Moment, NewestReading, apply_sample, ended
from keyrack.telemetry.history import ODOMETERS, POSITIONS
from keyrack.telemetry.json_lines import InvalidLine, Report
from keyrack.telemetry.latest_values import LatestValues
from keyrack.telemetry.rollups import Quarters, RollupSample, quarter
from keyrack.telemetry.runs import Run, Value
from keyrack.telemetry.samples import CheckedSample, readings

AT_ONCE = 2  # batches of one customer at the same time; those that share a car wait for each other
AT_A_TIME = 0.01  # seconds of reading lines before other tasks run
PER_BATCH = 1_000  # lines that are stored together, and that block the event loop at most

UNKNOWN_UNIT = "No IQ product with this number is installed in a car."
TOO_EARLY = "`carDataReadTime` is older than the retained history."
TOO_LATE = "`carDataReadTime` is in the future."

LOCK: LiteralString = """
with unit as (
  select p.serial_number, p.unique_id, p.product_id as unit_id, p.car_id, c.history_days, c.keeps_positions
  from product p join customer c using (customer_id)
  where p.customer_id = $1 and p.kind = 'IQ' and p.car_id is not null
    and (p.serial_number = any($2) or p.unique_id = any($3))
), state as (
  select * from car_state where customer_id = $1 and car_id in (select car_id from unit)
  order by car_id for no key update
)
select unit.*, customer_id, product_id, position_at, latitude, longitude, position_since, position_times,
  odometer_at, odometer, odometer_since, odometer_times,
  read_at, telemetry::text, nullif(told::text, '{}') as told
from unit left join state using (car_id)
"""
FIRST: LiteralString = """
insert into car_state (customer_id, car_id)
select customer_id, car_id from car where customer_id = $1 and car_id = any($2) order by car_id for key share
on conflict do nothing
"""
UPDATE = compile_statement("""
update car_state s set
  product_id = n.product_id,
  position_at = n.position_at, latitude = n.latitude, longitude = n.longitude,
  position_since = n.position_since, position_times = n.position_times,
  odometer_at = n.odometer_at, odometer = n.odometer,
  odometer_since = n.odometer_since, odometer_times = n.odometer_times,
  read_at = n.read_at, telemetry = n.telemetry::jsonb, told = n.told::jsonb
from unnest(
  :car_id::integer[], :product_id::integer[], :position_at::timestamptz[], :latitude::float8[], :longitude::float8[],
  :position_since::timestamptz[], :position_times::bytea[], :odometer_at::timestamptz[], :odometer::float8[],
  :odometer_since::timestamptz[], :odometer_times::bytea[], :read_at::timestamptz[], :telemetry::text[], :told::text[])
  as n (car_id, product_id, position_at, latitude, longitude, position_since, position_times, odometer_at, odometer,
        odometer_since, odometer_times, read_at, telemetry, told)
where s.customer_id = :customer and s.car_id = n.car_id
""")


class Telemetry:
    """Stores samples, for one process."""

    def __init__(self, batches: GroupCommitter, settings: Settings, notify: Notify = discard) -> None:
        self._batches = batches
        self._notify = notify
        self._settings = settings
        self._months: frozenset[date] = frozenset()  # months whose partitions exist

    async def ingest(self, customer: int, body: bytes, only: Collection[tuple[str, str]] | None = None) -> Report:
        """Store the samples of a body (JSON lines or an array); return the report after the commit.

        `only` has the names of the single unit that may report here; None allows all units. Another unit counts as
        unknown. After a failure, a repeated delivery is harmless: samples that were stored before are duplicates.
        Raises `NotALine`, and `ContentTooLarge` for too many lines.
        """
        report, part = Report(self._settings.ingest_max_reported_rejections), list[CheckedSample]()
        began = monotonic()
        for line, reading in readings(body, self._settings):
            if monotonic() - began > AT_A_TIME:
                await asyncio.sleep(0)  # let other tasks run
                began = monotonic()
            if isinstance(reading, InvalidLine) or (only is not None and reading.unit not in only):
                report.refuse(line, str(reading) if isinstance(reading, InvalidLine) else UNKNOWN_UNIT)
                _count(customer, "refused", 1)
                continue
            part.append(reading)
            if len(part) >= PER_BATCH:
                report.add(await self.store(customer, part))
                part = []
        if part:
            report.add(await self.store(customer, part))
        return report

    async def store(self, customer: int, part: list[CheckedSample]) -> Report:
        """Store these samples; return the report after the commit.

        The fast path and the remaining samples have separate transactions. In a single one, the cars of both could not
        be locked in the order of their keys.
        """
        left = await self._batches.put(self._ahead, customer, part, at_once=AT_ONCE)
        report = Report(self._settings.ingest_max_reported_rejections)
        if left:
            report = await self._batches.put(self._store, customer, left, at_once=AT_ONCE)
        report.accepted += len(part) - len(left)
        _count(customer, "accepted", report.accepted)
        _count(customer, "duplicate", report.duplicates)
        _count(customer, "refused", report.refusals)
        if report.accepted:
            self._notify(customer, DRIVEN)
        return report

    async def _ahead(
        self, db: Database, customer: int, parts: Sequence[Sequence[CheckedSample]]
    ) -> list[list[CheckedSample]]:
        latest = datetime.now(UTC) + timedelta(seconds=self._settings.max_clock_skew_seconds)
        return await fast_path.ingest_newer(db, customer, parts, latest, self._settings.telemetry_retention_days)

    async def _store(self, db: Database, customer: int, parts: Sequence[Sequence[CheckedSample]]) -> list[Report]:
        for _ in range(2):
            try:
                async with db.transaction() as connection:
                    reports, months = await self._write(connection, customer, parts)
                self._months |= months
                return reports
            except asyncpg.CheckViolationError:  # a partition was dropped meanwhile
                self._months = frozenset()
        async with db.transaction() as connection:
            return (await self._write(connection, customer, parts))[0]

    async def _write(
        self, connection: Connection, customer: int, parts: Sequence[Sequence[CheckedSample]]
    ) -> tuple[list[Report], frozenset[date]]:
        rows = await _locked(connection, customer, parts)
        cars: dict[tuple[str, str], Row] = {}
        for row in rows:
            cars["serialNumber", row["serial_number"]] = cars["uniqueId", row["unique_id"]] = row
        reports = [Report(self._settings.ingest_max_reported_rejections) for _ in parts]
        states_by_car: dict[int, CarState] = {}
        positions, odometers, quarters = Changes(), Changes(), Quarters()
        pending: list[tuple[Report, Moment, bool, bool, RollupSample | None]] = []
        taken = self._acceptable(parts, cars, reports)
        for sample, row, _ in taken:
            if row["car_id"] not in states_by_car:
                states_by_car[row["car_id"]] = _known(row, positions, odometers, quarters)
            if not row["keeps_positions"]:
                sample.position = None
        await _look_behind(connection, customer, states_by_car, taken)
        for sample, row, report in taken:
            car = row["car_id"]
            new, late_position, late_odometer, late_values = apply_sample(
                car, states_by_car[car], sample, positions, odometers, quarters
            )
            if new:
                report.accepted += 1
            else:
                pending.append((report, (car, sample.at), late_position, late_odometer, late_values))
        months = await self._make(connection, quarters.months, positions, odometers)
        places = {car: state.position for car, state in states_by_car.items()}
        added_positions = await POSITIONS.write(connection, customer, places, positions)
        distances = {car: state.odometer for car, state in states_by_car.items()}
        added_odometers = await ODOMETERS.write(connection, customer, distances, odometers)
        await quarters.write(connection, customer)
        if states_by_car:
            await _update(connection, customer, states_by_car)
        for report, moment, late_position, late_odometer, late_values in pending:
            if (
                (late_position and moment in added_positions)
                or (late_odometer and moment in added_odometers)
                or (late_values is not None and late_values.new)
            ):
                report.accepted += 1
            else:
                report.duplicates += 1
        return reports, months

    def _acceptable(
        self, parts: Sequence[Sequence[CheckedSample]], cars: dict[tuple[str, str], Row], reports: list[Report]
    ) -> list[tuple[CheckedSample, Row, Report]]:
        """The acceptable samples in the order of their times. Rejects the others."""
        now = datetime.now(UTC)
        latest = now + timedelta(seconds=self._settings.max_clock_skew_seconds)
        taken: list[tuple[CheckedSample, Row, Report]] = []
        for part, report in zip(parts, reports, strict=True):
            for sample in part:
                row = cars.get(sample.unit)
                if row is None:
                    report.refuse(sample.line, UNKNOWN_UNIT)
                elif sample.at > latest:
                    report.refuse(sample.line, TOO_LATE)
                elif sample.at < now - timedelta(days=row["history_days"] or self._settings.telemetry_retention_days):
                    report.refuse(sample.line, TOO_EARLY)
                else:
                    taken.append((sample, row, report))
        taken.sort(key=lambda item: item[0].at)
        return taken

    async def _make(self, connection: Connection, months: set[date], *changes: Changes) -> frozenset[date]:
        """Create the partitions that history needs; return their months, which are valid after the commit."""
        needed = months | {month(stretch.at) for change in changes for _, stretch in change.ended_runs}
        needed |= {month(at) for change in changes for _, at in change.late}
        missing = needed - self._months
        if missing:
            await partitions.make(connection, missing)
        return frozenset(missing)


def _count(customer: int, result: str, samples: int) -> None:
    SAMPLES.add(result, by=samples)
    SAMPLES_OF.count(customer, result, by=samples)


async def _locked(connection: Connection, customer: int, parts: Sequence[Sequence[CheckedSample]]) -> list[Row]:
    """The cars of the units in these samples, with their newest state, locked."""
    serials = list({s.unit[1] for part in parts for s in part if s.unit[0] == "serialNumber"})
    uniques = list({s.unit[1] for part in parts for s in part if s.unit[0] == "uniqueId"})
    rows = await connection.fetch(LOCK, customer, serials, uniques)
    new = sorted({row["car_id"] for row in rows if row["customer_id"] is None})
    if new:
        await connection.execute(FIRST, customer, new)
        rows = await connection.fetch(LOCK, customer, serials, uniques)
    return [row for row in rows if row["customer_id"] is not None]


def _known(row: Row, positions: Changes, odometers: Changes, quarters: Quarters) -> CarState:
    """The state of a car. A state that another unit reported becomes history."""
    place = None if row["position_at"] is None else (row["latitude"], row["longitude"])
    position = _track(place, row["position_at"], row["position_since"], row["position_times"])
    distance = None if row["odometer_at"] is None else (row["odometer"],)
    odometer = _track(distance, row["odometer_at"], row["odometer_since"], row["odometer_times"])
    value_times: dict[str, str] = {} if row["told"] is None else from_json(row["told"])
    newest = LatestValues(row["read_at"], from_json(row["telemetry"]), value_times)
    if row["product_id"] != row["unit_id"]:
        car = row["car_id"]
        quarters.close(car, newest)
        return CarState(row["unit_id"], ended(car, position, positions), ended(car, odometer, odometers))
    reached = None if newest.read_at is None else quarter(newest.read_at)
    return CarState(row["unit_id"], position, odometer, newest, reached)


def _track(value: Value | None, at: datetime | None, since: datetime | None, times: bytes | None) -> NewestReading:
    return NewestReading(value, at, None if value is None or since is None else Run(since, value, times))


async def _look_behind(
    connection: Connection,
    customer: int,
    states_by_car: dict[int, CarState],
    taken: Sequence[tuple[CheckedSample, Row, Report]],
) -> None:
    cars = {row["car_id"] for sample, row, _ in taken if sample.position is not None}
    places = {car: states_by_car[car].position for car in cars if states_by_car[car].position.open_run is None}
    await POSITIONS.look_behind(connection, customer, places)
    cars = {row["car_id"] for sample, row, _ in taken if sample.odometer is not None}
    distances = {car: states_by_car[car].odometer for car in cars if states_by_car[car].odometer.open_run is None}
    await ODOMETERS.look_behind(connection, customer, distances)


async def _update(connection: Connection, customer: int, states_by_car: dict[int, CarState]) -> None:
    states = states_by_car.values()
    places = [state.position.value or (None, None) for state in states]
    distances = [state.odometer.value or (None,) for state in states]
    arguments = UPDATE.arguments(
        customer=customer,
        car_id=list(states_by_car),
        product_id=[state.unit for state in states],
        position_at=[state.position.at for state in states],
        latitude=[place[0] for place in places],
        longitude=[place[1] for place in places],
        position_since=[state.position.open_run and state.position.open_run.at for state in states],
        position_times=[state.position.open_run and state.position.open_run.times for state in states],
        odometer_at=[state.odometer.at for state in states],
        odometer=[distance[0] for distance in distances],
        odometer_since=[state.odometer.open_run and state.odometer.open_run.at for state in states],
        odometer_times=[state.odometer.open_run and state.odometer.open_run.times for state in states],
        read_at=[state.newest.read_at for state in states],
        telemetry=[to_json(state.newest.values).decode() for state in states],
        told=[to_json(state.newest.older_times).decode() if state.newest.older_times else "{}" for state in states],
    )
    await connection.execute(UPDATE.sql, *arguments)
