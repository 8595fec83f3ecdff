"""Telemetry series: the last reading of each quarter of an hour, in whatever order and however often sent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keyrack.db import partitions
from keyrack.db.connection import Database
from tests.cli.test_operator_commands import Operator
from tests.support.people import Person
from tests.support.servers import patient_settings
from tests.telemetry.endpoints.test_ingest import Unit, unit_of
from tests.telemetry.test_nearest_readings import MIDNIGHT, NOON, TIMES, deliver, stamp, swap

QUARTER = timedelta(minutes=15)
MINUTE = timedelta(minutes=1)
FUEL, VOLTAGE = "fuelLevelPercent", "batteryVoltage"
SINCE, UNTIL = MIDNIGHT - timedelta(days=3), MIDNIGHT - timedelta(days=1)  # includes all of TIMES
Series = dict[str, dict[datetime, float]]


@pytest.fixture
def unit(alice: Person) -> Unit:
    return unit_of(alice)


def series(unit: Unit, *names: str, since: datetime = SINCE, until: datetime = UNTIL) -> Series:
    """The values of the quarters in a time range, by the start of each."""
    options = {
        "from": stamp(since),
        "to": stamp(until),
        "points": (until - since) // QUARTER,
        "fields": ",".join(names),
    }
    answer = unit.person.get(f"/cars/{unit.car}/samples", params=options)
    assert answer.status_code == 200, answer.text
    told = answer.json()["series"]
    assert list(told) == list(names)
    for bucket in (bucket for buckets in told.values() for bucket in buckets):
        assert bucket["count"] == 1
        assert bucket["min"] == bucket["max"] == bucket["average"] == bucket["last"]
    return {
        name: {datetime.fromisoformat(bucket["utcDateTime"]): bucket["last"] for bucket in buckets}
        for name, buckets in told.items()
    }


@pytest.fixture
def operator(dsn: str) -> Operator:
    return Operator(dsn)


class Model:
    """The newest reading of each quarter and member; the first one sent of two with the same time."""

    def __init__(self) -> None:
        self.newest: dict[tuple[str, datetime], tuple[datetime, float]] = {}

    def tell(self, at: datetime, values: dict[str, Any]) -> None:
        begin = at - (at - MIDNIGHT) % QUARTER
        for name, value in values.items():
            known = self.newest.get((name, begin))
            if value is not None and (known is None or at > known[0]):
                self.newest[name, begin] = (at, value)

    def series(self, *names: str) -> Series:
        found: Series = {name: {} for name in names}
        for (name, begin), (_, value) in sorted(self.newest.items()):
            found[name][begin] = value
        return found


def test_the_last_reading_of_each_quarter_is_stored(unit: Unit) -> None:
    told = ((0, 50), (7, 48), (14, 49), (15, 40), (44, 39), (47, 38))
    deliver(unit, *((NOON + n * MINUTE, {FUEL: value}) for n, value in told))
    quarters = {NOON: 49, NOON + QUARTER: 40, NOON + 2 * QUARTER: 39, NOON + 3 * QUARTER: 38}
    assert series(unit, FUEL) == {FUEL: quarters}
    assert [row[0] for row in unit.rows("telemetry")] == list(quarters)[:-1], "the last one is the newest state's"
    # a late reading newer than the stored one counts; an older one is nothing new, nor is a repeated one
    assert deliver(unit, (NOON + 29 * MINUTE, {FUEL: 41}))["accepted"] == 1
    assert deliver(unit, (NOON + 29 * MINUTE, {FUEL: 41}), (NOON + 28 * MINUTE, {FUEL: 9}))["duplicates"] == 2
    assert series(unit, FUEL) == {FUEL: quarters | {NOON + QUARTER: 41}}
    whole = unit.person.get(
        f"/cars/{unit.car}/samples",
        params={"from": stamp(NOON), "to": stamp(NOON + timedelta(hours=1)), "points": 1, "fields": FUEL},
    ).json()["series"][FUEL]
    assert whole == [{"utcDateTime": stamp(NOON), "count": 4, "min": 38, "max": 49, "average": 41.75, "last": 38,
                      "lastDateTime": stamp(NOON + 47 * MINUTE)}]  # fmt: skip


def test_each_member_has_its_own_last_reading(unit: Unit) -> None:
    deliver(unit, (NOON, {FUEL: 50, VOLTAGE: 12.1, "rpm": 900}), (NOON + MINUTE, {FUEL: 49, "ignition": True}))
    deliver(unit, (NOON + QUARTER, {VOLTAGE: 12.6, "fuelType": "Diesel"}))
    deliver(unit, (NOON + 2 * QUARTER, {"isDriving": True}))
    assert series(unit, FUEL, VOLTAGE, "rpm", "oilLevel") == {
        FUEL: {NOON: 49}, VOLTAGE: {NOON: 12.1, NOON + QUARTER: 12.6}, "rpm": {NOON: 900}, "oilLevel": {},
    }  # fmt: skip
    # a reading counts by its exact time, to the microsecond, and not by its quarter
    cut = {"since": NOON + MINUTE, "until": NOON + MINUTE + QUARTER}
    assert series(unit, FUEL, VOLTAGE, **cut) == {FUEL: {NOON + MINUTE: 49}, VOLTAGE: {NOON + MINUTE: 12.6}}


SAMPLES = st.tuples(
    TIMES, st.fixed_dictionaries({name: st.sampled_from([None, 1, 2, 3]) for name in (FUEL, VOLTAGE, "rpm")})
)
BATCHES = st.lists(SAMPLES, min_size=1, max_size=12)
HISTORIES = st.lists(st.one_of(BATCHES, BATCHES, BATCHES, st.just("swap"), st.just("again")), min_size=1, max_size=9)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=HISTORIES)
def test_series_of_random_histories_match_a_model(alice: Person, history: list[Any]) -> None:
    """Late and repeated readings, in any order and batches, from several units."""
    unit, model = unit_of(alice), Model()
    sent: list[Sequence[tuple[datetime, dict[str, Any]]]] = []
    for batch in history:
        if batch == "swap":
            swap(alice, unit)
            sent = []
        elif batch == "again":
            for before in sent:
                assert deliver(unit, *before)["accepted"] == 0
        else:
            sent.append(batch)
            deliver(unit, *batch)
            for at, values in sorted(batch, key=lambda sample: sample[0]):
                model.tell(at, values)
        assert series(unit, FUEL, VOLTAGE, "rpm") == model.series(FUEL, VOLTAGE, "rpm")


def test_parallel_repeated_deliveries_store_each_reading_once(unit: Unit) -> None:
    model, random = Model(), Random(18)
    told = [(NOON + n * timedelta(minutes=4), {FUEL: n, VOLTAGE: n if n % 3 else None}) for n in range(60)]
    for sample in told:
        model.tell(*sample)
    batches = [random.sample(told, 20) for _ in range(12)] + [told[n : n + 20] for n in (40, 0, 20)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda batch: deliver(unit, *batch), batches))
    assert series(unit, FUEL, VOLTAGE) == model.series(FUEL, VOLTAGE)


def test_series_are_deleted_with_their_car(alice: Person, unit: Unit) -> None:
    deliver(unit, *((NOON + n * QUARTER, {FUEL: n}) for n in range(5)))
    assert len(unit.rows("telemetry")) == 4
    assert alice.delete(f"/cars/{unit.car}").status_code == 204
    assert unit.rows("telemetry") == []


def test_discarded_readings_are_removed_from_the_series(operator: Operator, unit: Unit, bob: Person) -> None:
    told = ((-1, {FUEL: 50}), (2, {FUEL: 49, VOLTAGE: 12.1}), (8, {FUEL: 48}), (20, {FUEL: 99}), (31, {FUEL: 98}))
    theirs = unit_of(bob)
    for each in (unit, theirs):
        deliver(each, *((NOON + n * MINUTE, values) for n, values in told))
    whose = ("--customer", unit.person.customer, "--serial-number", unit.serial)
    discard = ("telemetry", "discard", "--yes", *whose, "--from")
    operator.value(*discard, stamp(NOON + 5 * MINUTE))
    before = {FUEL: {NOON - QUARTER: 50}, VOLTAGE: {NOON: 12.1}}
    assert series(unit, FUEL, VOLTAGE) == before
    # also from the newest state, which is not a row yet
    deliver(unit, (NOON + 16 * MINUTE, {VOLTAGE: 12.3}), (NOON + 18 * MINUTE, {FUEL: 47}))
    operator.value(*discard, stamp(NOON + 17 * MINUTE))
    assert series(unit, FUEL, VOLTAGE) == before | {VOLTAGE: {NOON: 12.1, NOON + QUARTER: 12.3}}
    assert len(series(theirs, FUEL)[FUEL]) == 4


def test_series_have_the_retention_of_history(alice: Person, unit: Unit, dsn: str) -> None:
    deliver(unit, *((NOON + timedelta(days=n), {FUEL: 9}) for n in (-3, -2, -1, 0)))

    async def forget() -> None:
        database = await Database.connect(dsn, patient_settings())
        try:
            await partitions.forget(database, alice.customer, NOON - timedelta(days=2))
        finally:
            await database.close()

    asyncio.run(forget())
    assert [row[0] for row in unit.rows("telemetry")] == [NOON - timedelta(days=2), NOON - timedelta(days=1)]
