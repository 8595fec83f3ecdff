"""The fast path leaves exactly what the normal path leaves.

The fast path only stores cars with one sample in a batch. Sample by sample, a history takes the fast path; at once, it
takes the normal one. Both must leave the same.
"""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from keyrack.core.settings import Settings
from keyrack.db.connection import Database
from keyrack.db.group_commit import GroupCommitter
from keyrack.db.transaction_database import InTransaction
from keyrack.telemetry.ingest import Telemetry
from keyrack.telemetry.runs import Run, extend_run
from tests.support.people import Person
from tests.support.servers import eventually, patient_settings
from tests.telemetry.endpoints.test_ingest import Unit, unit_of
from tests.telemetry.test_nearest_readings import MIDNIGHT, NOON, STEPS, TIMES, deliver

FUEL, VOLTAGE = "fuelLevelPercent", "batteryVoltage"
# The server shows only the beginning of a statement
HELD: Any = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%json_to_recordset%'"

Told = tuple[datetime, dict[str, Any]]

VALUES = st.fixed_dictionaries(
    {},
    optional={
        "place": st.sampled_from([1, 2]), "odometer": st.sampled_from([3, 4]), FUEL: st.sampled_from([1, 2]),
        VOLTAGE: st.sampled_from([12, 13]), "fuelType": st.sampled_from(["Diesel", "Petrol"]),
    },
)  # fmt: skip
# In order: runs with one step, and gaps between them that end a quarter or a day
RUNS = st.tuples(st.sampled_from([*STEPS, timedelta(minutes=20)]), st.lists(VALUES, min_size=1, max_size=6))
IN_ORDER = st.lists(RUNS, min_size=1, max_size=4)


def in_order(runs: list[tuple[timedelta, list[dict[str, Any]]]]) -> list[Told]:
    at, found = MIDNIGHT - timedelta(days=2, hours=1), list[Told]()
    for step, values in runs:
        for value in values:
            at += step
            found.append((at, told(value)))
    return found


def told(values: dict[str, Any]) -> dict[str, Any]:
    place = values.get("place")
    other = {name: value for name, value in values.items() if name != "place"}
    return other if place is None else other | {"currentLatitude": place, "currentLongitude": 8}


def state(unit: Unit) -> list[Any]:
    """The newest state; times of values are parsed, because their text forms may differ."""
    [row] = unit.person.sql.rows(
        "select position_at, latitude, longitude, position_since, position_times, odometer_at, odometer,"
        " odometer_since, odometer_times, read_at, read_quarter, telemetry::text, told::text from car_state"
        " where customer_id = $1 and car_id = $2",
        unit.person.customer,
        unit.car,
    )
    return [*row[:-2], json.loads(row[-2]), times(row[-1])]


def quarters(unit: Unit) -> list[Any]:
    rows = unit.person.sql.rows(
        "select at, read_at, readings::text, told::text from telemetry where customer_id = $1 and car_id = $2"
        " order by at",
        unit.person.customer,
        unit.car,
    )
    return [(row[0], row[1], json.loads(row[2]), times(row[3])) for row in rows]


def times(text: str) -> dict[str, datetime]:
    return {name: datetime.fromisoformat(at) for name, at in json.loads(text).items()}


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(runs=IN_ORDER)
@example(runs=[(timedelta(minutes=20), [{"place": 1, FUEL: 1}, {VOLTAGE: 12}, {FUEL: 2}, {"fuelType": "Diesel"}])])
@example(runs=[(timedelta(seconds=1), [{"place": 1, "odometer": 3}] * 6), (timedelta(microseconds=3), [{"place": 1}])])
def test_the_fast_path_leaves_the_same_as_the_normal_one(alice: Person, runs: Any) -> None:
    history, one, other = in_order(runs), unit_of(alice), unit_of(alice)
    for sample in history:
        assert deliver(one, sample)["accepted"] == 1
    assert deliver(other, *history)["accepted"] == len(history)
    assert state(one) == state(other)
    assert quarters(one) == quarters(other)
    for table in ("position", "odometer"):
        assert one.rows(table) == other.rows(table)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=st.lists(st.tuples(TIMES, VALUES), min_size=1, max_size=12, unique_by=lambda sample: sample[0]))
def test_samples_in_any_order_leave_the_same(alice: Person, history: list[Any]) -> None:
    """Includes late samples, which only the normal path can insert."""
    one, other = unit_of(alice), unit_of(alice)
    for at, values in history:
        deliver(one, (at, told(values)))
    deliver(other, *((at, told(values)) for at, values in history))
    assert quarters(one) == quarters(other)
    assert one.positions() == other.positions()
    assert one.odometers() == other.odometers()
    for name in (FUEL, VOLTAGE):
        assert one.told(name) == other.told(name)


STEP = st.one_of(st.integers(1, 10**6), st.integers(1, 86_400).map(lambda n: n * 10**6), st.integers(1, 10**11))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEP, min_size=1, max_size=4), st.integers(0, 255))
def test_the_database_extends_runs_like_python(alice: Person, steps: list[int], more: int) -> None:
    stretch, last = Run(MIDNIGHT - timedelta(days=2), (1.0,)), MIDNIGHT - timedelta(days=2)
    for step in [*steps, *([steps[-1] // 1_000_000 * 1_000_000 or 1] * more)]:
        at = last + timedelta(microseconds=step)
        found = alice.sql.value("select continued_times($1, $2, $3, $4)", stretch.times, stretch.at, last, at)
        assert found == extend_run(stretch, last, at)
        if found is None:
            break
        stretch.times, last = found, at


def test_parallel_deliveries_of_a_unit_are_serialised(alice: Person, dsn: str) -> None:
    """The second delivery waits for the first one's commit, and continues from its result."""
    unit = unit_of(alice)
    place = {"currentLatitude": 50, "currentLongitude": 8, "odometer": 7, FUEL: 60}
    deliver(unit, (NOON, place))
    minutes = [NOON + timedelta(minutes=n) for n in range(1, 4)]
    samples = [
        {"serialNumber": unit.serial, "carDataReadTime": at.isoformat(), **place, "odometer": 7 + n}
        for n, at in enumerate(minutes)
    ]
    lines = [json.dumps(sample).encode() for sample in samples]

    async def both() -> list[int]:
        database = await Database.connect(dsn, patient_settings())
        try:
            async with database.transaction() as connection:
                # the latest sample first: a delivery that waits for it is late when it continues
                first = Telemetry(GroupCommitter(InTransaction(connection)), Settings())
                reports = [await first.ingest(alice.customer, lines[1])]
                waiting = [
                    asyncio.create_task(Telemetry(GroupCommitter(database), Settings()).ingest(alice.customer, line))
                    for line in (lines[0], lines[2])
                ]
                await asyncio.to_thread(eventually, lambda: alice.sql.value(HELD) == 2, "both to wait")
            return [report.accepted for report in [*reports, *await asyncio.gather(*waiting)]]
        finally:
            await database.close()

    assert asyncio.run(both()) == [1, 1, 1]
    assert [row[0] for row in unit.positions()] == [NOON, *minutes]
    assert unit.odometers() == [7, 7, 8, 9]
    assert state(unit)[9] == minutes[2]


@pytest.mark.parametrize("kind", ["serialNumber", "uniqueId"])
def test_units_of_a_batch_are_found_by_either_number(alice: Person, kind: str) -> None:
    units = [unit_of(alice) for _ in range(4)]
    names = [unit.serial if kind == "serialNumber" else f"unique-{unit.serial}" for unit in units]
    for n in range(3):
        at = (NOON + timedelta(seconds=n)).isoformat()
        samples = [{kind: name, "carDataReadTime": at, "odometer": n} for name in [*names, "nobody's"]]
        report = units[0].deliver(*samples).json()
        assert (report["accepted"], [refused["line"] for refused in report["refused"]]) == (4, [5])
    assert [unit.odometers() for unit in units] == [[0, 1, 2]] * 4


def test_two_samples_of_a_unit_under_both_numbers_are_stored(alice: Person) -> None:
    unit = unit_of(alice)
    deliver(unit, (NOON, {"odometer": 1}))
    at = [(NOON + timedelta(seconds=n)).isoformat() for n in (1, 2)]
    samples = [
        {"uniqueId": f"unique-{unit.serial}", "carDataReadTime": at[1], "odometer": 3},
        {"serialNumber": unit.serial, "carDataReadTime": at[0], "odometer": 2},
    ]
    assert unit.deliver(*samples).json()["accepted"] == 2
    assert unit.odometers() == [1, 2, 3]
