"""Series for charts: every reading of a time range, in equal buckets."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from keyrack.core.error_codes import EMPTY_RANGE
from keyrack.core.settings import Settings
from keyrack.fleet.endpoints.cars import NO_CAR
from keyrack.telemetry.schema import MEASURES
from tests.support.people import Person, refused
from tests.telemetry.endpoints.test_ingest import Unit, unit_of
from tests.telemetry.test_nearest_readings import NOON, deliver, stamp

HOUR = timedelta(hours=1)
DAY = {"from": stamp(NOON - 12 * HOUR), "to": stamp(NOON + 12 * HOUR)}


@pytest.fixture
def unit(alice: Person) -> Unit:
    return unit_of(alice)


def samples(unit: Unit, **options: Any) -> dict[str, Any]:
    answer = unit.person.get(f"/cars/{unit.car}/samples", params=options)
    assert answer.status_code == 200, answer.text
    return answer.json()


def buckets(unit: Unit, **options: Any) -> list[dict[str, Any]]:
    return samples(unit, **options)["series"]["odometer"]


def bucket(at: Any, count: int, least: float, most: float, average: float, last: float, last_at: Any) -> dict[str, Any]:
    told = {"count": count, "min": least, "max": most, "average": average, "last": last}
    return {"utcDateTime": stamp(at), **told, "lastDateTime": stamp(last_at)}


def test_readings_are_in_the_bucket_of_their_time(unit: Unit) -> None:
    found = samples(unit, **DAY, points=24, fields="odometer")
    assert found == {"carId": unit.car, **DAY, "seconds": 3600, "series": {"odometer": []}}
    minute = HOUR / 60
    told = ((0, 10.0), (20, 16.0), (59, 13.0), (60, 20.0), (300, 50.0))
    deliver(unit, *((NOON + n * minute, {"odometer": value}) for n, value in told))
    assert buckets(unit, **DAY, points=24) == [
        bucket(NOON, 3, 10, 16, 13, 13, NOON + 59 * minute), bucket(NOON + HOUR, 1, 20, 20, 20, 20, NOON + HOUR),
        bucket(NOON + 5 * HOUR, 1, 50, 50, 50, 50, NOON + 5 * HOUR),
    ]  # fmt: skip
    (whole,) = buckets(unit, **DAY, points=1)
    assert whole == bucket(NOON - 12 * HOUR, 5, 10, 50, 109 / 5, 50, NOON + 5 * HOUR)


def test_each_reading_of_a_standing_car_counts(unit: Unit) -> None:
    # the newest ones are not in history yet
    deliver(unit, *((NOON + n * HOUR / 4, {"odometer": 7}) for n in range(10)))
    counts = [row["count"] for row in buckets(unit, **DAY, points=24)]
    assert counts == [4, 4, 2]
    deliver(unit, (NOON + 3 * HOUR, {"odometer": 8}))
    assert [row["count"] for row in buckets(unit, **DAY, points=24)] == [4, 4, 2, 1]
    within = {"from": stamp(NOON + HOUR / 4), "to": stamp(NOON + HOUR)}
    assert [row["count"] for row in buckets(unit, **within, points=1)] == [3]


def test_no_reading_is_lost_with_any_number_of_buckets(unit: Unit) -> None:
    seconds = [n * n for n in range(200)]
    deliver(unit, *((NOON + timedelta(seconds=n), {"odometer": n}) for n in seconds))
    for points in (1, 3, 7, 60, 999, 1_000):
        found = buckets(unit, **DAY, points=points)
        assert len(found) <= points
        assert sum(row["count"] for row in found) == len(seconds)
        assert (found[0]["min"], found[-1]["last"]) == (0, seconds[-1])
    assert len(buckets(unit, **DAY)) <= Settings().sample_points


def test_without_fields_all_stored_members_are_returned(unit: Unit) -> None:
    deliver(unit, (NOON, {"odometer": 7, "fuelLevelPercent": 50, "tirePressureRearLeft": 220, "ignition": True}))
    found = samples(unit, **DAY)["series"]
    assert list(found) == ["odometer", *MEASURES]
    assert {name: rows[0]["last"] for name, rows in found.items() if rows} == {
        "odometer": 7, "fuelLevelPercent": 50, "tirePressureRearLeft": 220,
    }  # fmt: skip
    assert list(samples(unit, **DAY, fields="rpm,odometer,rpm")["series"]) == ["rpm", "odometer"]


def test_a_reading_at_the_end_of_the_range_is_in_the_last_bucket(unit: Unit) -> None:
    deliver(unit, (NOON + 12 * HOUR - timedelta(microseconds=1), {"odometer": 3}))
    for points in (1, 7, 1_000):
        (row,) = buckets(unit, **DAY, points=points)
        assert row["count"] == 1


def test_samples_have_an_etag(unit: Unit) -> None:
    first = unit.person.get(f"/cars/{unit.car}/samples", params=DAY)
    tag = {"If-None-Match": first.headers["etag"]}
    assert unit.person.get(f"/cars/{unit.car}/samples", params=DAY, headers=tag).status_code == 304
    deliver(unit, (NOON, {"odometer": 7}))
    assert unit.person.get(f"/cars/{unit.car}/samples", params=DAY, headers=tag).status_code == 200


def test_members_without_stored_readings_are_rejected(alice: Person) -> None:
    text = (
        f"The query parameter fields is not valid. Of these members readings are kept: odometer, {', '.join(MEASURES)}."
    )
    for fields in ("ignition", "odometer,fuelType", "dtc", "currentLatitude", "", "odometer,", "Odometer"):
        refused(alice.get("/cars/1/samples", params={"fields": fields}), 400, text)
    most = Settings().sample_points
    text = f"The query parameter points is not valid. It is {most} at most."
    refused(alice.get("/cars/1/samples", params={"points": most + 1}), 400, text)
    refused(alice.get("/cars/1/samples", params={"from": DAY["to"], "to": DAY["from"]}), 400, EMPTY_RANGE)
    long = {"from": "2020-01-01T00:00:00Z", "to": "2026-01-01T00:00:00Z"}
    text = f"The time between `from` and `to` is longer than {Settings().track_days} days."
    refused(alice.get("/cars/1/samples", params=long), 400, text)


def test_a_car_of_another_customer_gets_404(bob: Person, unit: Unit) -> None:
    deliver(unit, (NOON, {"odometer": 7}))
    refused(bob.get(f"/cars/{unit.car}/samples", params=DAY), 404, NO_CAR)
    refused(bob.get("/cars/2147483647/samples", params=DAY), 404, NO_CAR)
