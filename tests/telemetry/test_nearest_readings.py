"""The position and odometer reading nearest to a date, also of a standing car."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keyrack.telemetry.runs import packed, times_of
from tests.support.people import Person
from tests.telemetry.endpoints.test_ingest import Unit, unit_of

MIDNIGHT = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
NOON = MIDNIGHT - timedelta(days=2, hours=12)
PLACE = {"currentLatitude": 50, "currentLongitude": 8}


def stamp(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")


@pytest.fixture
def unit(alice: Person) -> Unit:
    return unit_of(alice)


def deliver(unit: Unit, *samples: tuple[datetime, dict[str, Any]]) -> dict[str, Any]:
    lines = [{"serialNumber": unit.serial, "carDataReadTime": stamp(at), **values} for at, values in samples]
    answer = unit.deliver(*lines)
    assert answer.status_code == 200, answer.text
    report = answer.json()
    assert (report["accepted"] + report["duplicates"], report["refused"]) == (len(samples), [])
    return report


def dates(unit: Unit, at: datetime) -> tuple[str, str]:
    found = unit.get(f"location/{stamp(at)}")
    return found["date"], found["odometerDate"]


def test_a_standing_car_returns_the_nearest_sent_reading(unit: Unit) -> None:
    """A5: readings at ten, eleven and twelve o'clock at one position; of two equally near ones the earlier."""
    ten, eleven, twelve = (NOON + timedelta(hours=hours) for hours in (-2, -1, 0))
    deliver(unit, *((at, PLACE | {"odometer": 7}) for at in (ten, eleven, twelve)))
    for at, nearest in (
        (eleven, eleven), (eleven + timedelta(minutes=5), eleven), (eleven + timedelta(minutes=30), eleven),
        (eleven + timedelta(minutes=30, microseconds=1), twelve), (ten - timedelta(days=9), ten),
        (twelve + timedelta(days=1), twelve),
    ):  # fmt: skip
        assert dates(unit, at) == (stamp(nearest),) * 2
    # also after the car has moved on, and after a late reading between them
    deliver(unit, (twelve + timedelta(hours=1), {"currentLatitude": 51, "currentLongitude": 8, "odometer": 8}))
    late = eleven + timedelta(minutes=20)
    assert deliver(unit, (late, PLACE))["accepted"] == 1
    assert deliver(unit, (late, PLACE), (eleven, PLACE | {"odometer": 7}))["duplicates"] == 2
    assert dates(unit, eleven + timedelta(minutes=25)) == (stamp(late), stamp(eleven))
    assert len(unit.positions()) == 5


def test_a_late_reading_of_another_position_splits_a_run(unit: Unit) -> None:
    times = [NOON + timedelta(minutes=n) for n in range(6)]
    deliver(unit, *((at, PLACE) for at in times))
    other = times[2] + timedelta(seconds=30)
    deliver(unit, (other, {"currentLatitude": 60, "currentLongitude": 9}))
    for at, nearest, latitude in (
        (other, other, "60"), (times[2], times[2], "50"), (times[3], times[3], "50"), (times[5], times[5], "50"),
    ):  # fmt: skip
        found = unit.get(f"location/{stamp(at)}")
        assert (found["date"], found["latitude"]) == (stamp(nearest), latitude)


def test_a_standing_car_needs_few_rows(unit: Unit) -> None:
    """A5: equal readings of one day are packed into the row of the first one."""
    times = [MIDNIGHT - timedelta(days=2) + timedelta(minutes=5 * n) for n in range(500)]
    for first in range(0, len(times), 50):
        deliver(unit, *((at, PLACE | {"odometer": 7}) for at in times[first : first + 50]))
    assert [row[0] for row in unit.positions()] == times
    for table in ("position", "odometer"):
        rows = unit.rows(table)
        assert len(rows) == 4, "the last one is the newest state's"
        assert all(len(row[-1]) <= 256 for row in rows)


def test_a_fast_clock_of_the_old_unit_does_no_harm(alice: Person, unit: Unit) -> None:
    """History then has later readings than the newest one of the new unit."""
    deliver(unit, (NOON + timedelta(hours=5), PLACE))
    swap(alice, unit)
    for hours in (1, 2):
        deliver(unit, (NOON + timedelta(hours=hours), PLACE))
    assert unit.get("location")["date"] == stamp(NOON + timedelta(hours=2))
    assert unit.get(f"location/{stamp(NOON + timedelta(hours=4))}")["date"] == stamp(NOON + timedelta(hours=5))
    deliver(unit, (NOON + timedelta(hours=6), PLACE))
    assert [row[0].hour for row in unit.positions()] == [13, 14, 17, 18]


def swap(person: Person, unit: Unit) -> None:
    """Replace the unit with another one, directly in the database for speed."""
    where = (person.customer, unit.car)
    person.sql.execute("update product set car_id = null where customer_id = $1 and car_id = $2", *where)
    product = person.product("IQ")
    person.sql.execute("update product set car_id = $2 where product_id = $1", product, unit.car)
    unit.serial = person.sql.value("select serial_number from product where product_id = $1", product)


# Random histories, compared with a model that keeps every reading. There are few distinct times, so that they collide:
# seconds, milliseconds and microseconds around a midnight, up to 28 hours after it, which must not lie in the future.
# There are few distinct values, so that a car stands still

STEPS = [timedelta(seconds=1), timedelta(minutes=7), timedelta(milliseconds=250), timedelta(microseconds=3)]
TIMES = st.builds(
    lambda steps, step: MIDNIGHT - timedelta(days=2) + steps * step, st.integers(-150, 150), st.sampled_from(STEPS)
)
SAMPLES = st.tuples(TIMES, st.sampled_from([None, 1, 2]), st.sampled_from([None, 3]))
RUNS = st.builds(
    lambda start, step, count, place, odometer: [(start + n * step, place, odometer) for n in range(count)],
    TIMES, st.sampled_from(STEPS), st.integers(2, 90), st.sampled_from([1, 2]), st.sampled_from([None, 3, 4]),
)  # fmt: skip
BATCHES = st.one_of(st.lists(SAMPLES, min_size=1, max_size=8), RUNS, RUNS.map(lambda run: run[::-1]))
HISTORIES = st.lists(st.one_of(BATCHES, BATCHES, BATCHES, st.just("swap"), st.just("again")), min_size=1, max_size=9)


class Model:
    """Every reading by its time; the first one sent of two with the same time.

    `newest` has the readings of the current unit.
    """

    def __init__(self) -> None:
        self.positions: dict[datetime, int] = {}
        self.odometers: dict[datetime, int] = {}
        self.newest: dict[str, tuple[datetime, int]] = {}

    def tell(self, at: datetime, place: int | None, odometer: int | None) -> None:
        for name, value, readings in (("p", place, self.positions), ("o", odometer, self.odometers)):
            if value is None:
                continue
            readings.setdefault(at, value)
            if name not in self.newest or at > self.newest[name][0]:
                self.newest[name] = (at, value)

    @staticmethod
    def nearest(readings: dict[datetime, int], date: datetime) -> tuple[datetime, int] | None:
        return min(readings.items(), key=lambda item: (abs(item[0] - date), item[0]), default=None)


def shown(date: str | None, value: str | None) -> tuple[datetime, int] | None:
    return None if date is None or value is None else (datetime.fromisoformat(date), int(value))


def body(samples: Sequence[tuple[datetime, int | None, int | None]]) -> list[tuple[datetime, dict[str, Any]]]:
    found: list[tuple[datetime, dict[str, Any]]] = []
    for at, place, odometer in samples:
        values = {} if place is None else {"currentLatitude": place, "currentLongitude": 0}
        found.append((at, values | {"odometer": odometer}))
    return found


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=HISTORIES, dates=st.lists(TIMES, min_size=4, max_size=4), data=st.data())
def test_nearest_readings_of_random_histories_match_a_model(
    alice: Person, history: list[Any], dates: list[datetime], data: st.DataObject
) -> None:
    """A5: late and repeated readings, in any order, over midnight, from several units."""
    unit, model = unit_of(alice), Model()
    sent: list[Any] = []
    for batch in history:
        if batch == "swap":
            swap(alice, unit)
            model.newest = {}
            sent = []
        elif batch == "again":
            for before in sent:
                assert deliver(unit, *body(before))["accepted"] == 0
        else:
            sent.append(batch)
            deliver(unit, *body(batch))
            for sample in batch:
                model.tell(*sample)
    assert [(at, latitude) for at, latitude, _ in unit.positions()] == sorted(model.positions.items())
    assert [(at, value) for at, value in unit.readings("odometer", "odometer")] == sorted(model.odometers.items())
    told = sorted(model.positions | model.odometers)
    for date in [*dates, *(data.draw(st.lists(st.sampled_from(told), max_size=4)) if told else [])]:
        found = unit.get(f"location/{stamp(date)}")
        assert shown(found["date"], found["latitude"]) == model.nearest(model.positions, date)
        assert shown(found["odometerDate"], found["odometer"]) == model.nearest(model.odometers, date)
    found = unit.get("location")
    assert shown(found["date"], found["latitude"]) == model.newest.get("p")
    assert shown(found["odometerDate"], found["odometer"]) == model.newest.get("o")


@given(st.lists(st.tuples(st.integers(0, 10**12), st.sampled_from([1, 1_000, 1_000_000])), min_size=1, max_size=400))
def test_packed_times_are_unpacked_unchanged(steps: list[tuple[int, int]]) -> None:
    times = sorted({NOON + timedelta(microseconds=step % (86_400_000_000 * 2) // unit * unit) for step, unit in steps})
    stretches = [stretch for stretch, _ in packed((at, (1.0,)) for at in times)]
    assert [at for stretch in stretches for at in times_of(stretch)] == times
    assert all(len(stretch.times or b"") <= 256 for stretch in stretches)


def test_the_database_unpacks_times_like_python(alice: Person) -> None:
    times = [NOON + timedelta(microseconds=n**5) for n in range(1, 60)]
    for stretch, last in packed((at, (1.0,)) for at in times):
        rows = alice.sql.rows("select * from packed_times($1, $2) at", stretch.at, stretch.times)
        assert [row["at"] for row in rows] == times_of(stretch)
        assert rows[-1]["at"] == last
