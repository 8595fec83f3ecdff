"""The track of a car: every reported position, in order, up to a limit."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

import pytest

from keyrack.core.error_codes import EMPTY_RANGE
from keyrack.core.settings import Settings
from keyrack.fleet.endpoints.cars import NO_CAR
from tests.support.invalid_timestamps import NO_MOMENTS
from tests.support.people import Person, refused
from tests.telemetry.endpoints.test_ingest import Unit, unit_of
from tests.telemetry.test_nearest_readings import NOON, PLACE, deliver, stamp

HOUR = timedelta(hours=1)
DAY = {"from": stamp(NOON - 12 * HOUR), "to": stamp(NOON + 12 * HOUR)}


@pytest.fixture
def unit(alice: Person) -> Unit:
    return unit_of(alice)


def track(unit: Unit, **options: Any) -> dict[str, Any]:
    answer = unit.person.get(f"/cars/{unit.car}/track", params=options)
    assert answer.status_code == 200, answer.text
    return answer.json()


def at(latitude: float, **more: Any) -> dict[str, Any]:
    return {"currentLatitude": latitude, "currentLongitude": 8, **more}


def drive(unit: Unit, readings: int) -> None:
    """One reading a minute from noon on, each at another position."""
    deliver(unit, *((NOON + timedelta(minutes=n), at(n / 100)) for n in range(readings)))


def test_a_drive_is_shown_in_order_with_its_odometer(unit: Unit) -> None:
    assert track(unit, **DAY) == {
        "carId": unit.car, **DAY, "count": 0, "thinned": False, "points": [],
    }  # fmt: skip
    deliver(unit, (NOON, at(50, odometer=7)), (NOON + 2 * HOUR, at(52)), (NOON + 3 * HOUR, at(53, odometer=9.5)))
    deliver(unit, (NOON + HOUR, at(51)))  # late
    found = track(unit, **DAY)
    assert (found["count"], found["thinned"]) == (4, False)
    assert found["points"] == [
        {"utcDateTime": stamp(NOON + n * HOUR), "until": stamp(NOON + n * HOUR), "latitude": 50 + n, "longitude": 8,
         "odometer": odometer}
        for n, odometer in enumerate([7, 7, 7, 9.5])
    ]  # fmt: skip


def test_a_stop_is_one_point_with_its_end(unit: Unit) -> None:
    deliver(unit, *((NOON + n * HOUR, PLACE) for n in range(4)))  # the newest one is not in history yet
    (stop,) = track(unit, **DAY)["points"]
    assert (stop["utcDateTime"], stop["until"]) == (stamp(NOON), stamp(NOON + 3 * HOUR))
    deliver(unit, (NOON + 4 * HOUR, at(60)))
    stop, _ = track(unit, **DAY)["points"]
    assert (stop["utcDateTime"], stop["until"]) == (stamp(NOON), stamp(NOON + 3 * HOUR))
    within = {"from": stamp(NOON + HOUR / 2), "to": stamp(NOON + 3 * HOUR)}
    (stop,) = track(unit, **within)["points"]
    assert (stop["utcDateTime"], stop["until"]) == (stamp(NOON + HOUR), stamp(NOON + 2 * HOUR))
    assert track(unit, **{"from": stamp(NOON + HOUR / 2), "to": stamp(NOON + HOUR)})["points"] == []


def test_a_time_range_includes_its_start_and_not_its_end(unit: Unit) -> None:
    drive(unit, 4)
    found = track(unit, **{"from": stamp(NOON + HOUR / 60), "to": stamp(NOON + HOUR / 20)})
    assert [point["latitude"] for point in found["points"]] == [0.01, 0.02]


@pytest.mark.parametrize("points", [1, 2, 3, 10, 99, 100])
def test_too_many_points_are_thinned_evenly(unit: Unit, points: int) -> None:
    drive(unit, 100)
    found = track(unit, **DAY, points=points)
    assert (found["count"], found["thinned"], len(found["points"])) == (100, points < 100, points)
    numbers = [round(point["latitude"] * 100) for point in found["points"]]
    assert numbers[0] == 0 and (points == 1 or numbers[-1] == 99)
    steps = [after - before for before, after in itertools.pairwise(numbers)]
    assert not steps or (max(steps) - min(steps) <= 1 and min(steps) > 0)


def test_without_points_the_setting_limits_them(unit: Unit) -> None:
    most = Settings().track_points
    unit.person.sql.execute("select make_history($1::date)", NOON.date())
    unit.person.sql.execute(
        "insert into position (customer_id, car_id, at, latitude, longitude)"
        " select $1, $2, $3::timestamptz + n * interval '1 second', 50, n / 1000.0 from generate_series(0, $4) n",
        unit.person.customer, unit.car, NOON, most,
    )  # fmt: skip
    found = track(unit, **DAY)
    assert (found["count"], found["thinned"], len(found["points"])) == (most + 1, True, most)


def test_a_missing_end_of_the_range_is_a_day_from_the_other(unit: Unit) -> None:
    for given in ({"from": DAY["from"]}, {"to": DAY["to"]}):
        found = track(unit, **given)
        assert {name: found[name] for name in DAY} == DAY
    unit.tell(1, **PLACE)
    assert len(track(unit)["points"]) == 1, "the day until now"


def test_a_track_remains_after_its_unit_was_removed(unit: Unit) -> None:
    drive(unit, 2)
    (product,) = [row["id"] for row in unit.person.get(f"/cars/{unit.car}/products").json()]
    assert unit.person.delete("/installations", {"carId": unit.car, "productId": product}).status_code == 204
    assert len(track(unit, **DAY)["points"]) == 2


def test_a_track_has_an_etag(unit: Unit) -> None:
    drive(unit, 2)
    path = f"/cars/{unit.car}/track"
    first = unit.person.get(path, params=DAY)
    assert unit.person.get(path, params=DAY, headers={"If-None-Match": first.headers["etag"]}).status_code == 304
    deliver(unit, (NOON + HOUR, at(60)))
    again = unit.person.get(path, params=DAY, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, len(again.json()["points"])) == (200, 3)


# Errors


@pytest.mark.parametrize("text", NO_MOMENTS)
def test_an_invalid_time_in_the_query_is_rejected(alice: Person, text: str) -> None:
    for name in ("from", "to"):
        answer = alice.get("/cars/1/track", params={name: text})
        assert answer.status_code == 400
        assert answer.text.startswith(
            f"The query parameter {name} is not valid. A time must have the format of RFC 3339"
        )


def faults(person: Person, query: str) -> list[dict[str, Any]]:
    answer = person.get(f"/cars/1/track?{query}", headers={"Accept": "application/problem+json"})
    assert answer.status_code == 400
    assert answer.json()["code"] == "invalid-query-parameter", answer.text
    return answer.json()["errors"]


def test_unknown_repeated_and_invalid_parameters_are_rejected(alice: Person) -> None:
    (fault,) = faults(alice, "form=2026-01-01T00:00:00Z")
    assert (fault["parameter"], fault["code"], fault["valid"]) == ("form", "unknown", ["from", "to", "points"])
    (fault,) = faults(alice, "points=2&points=3")
    assert (fault["parameter"], fault["code"]) == ("points", "repeated")
    for value in ("", "0", "-1", "1.5", "many", "9" * 10, "%00", "%ff", "%"):
        assert [fault["code"] for fault in faults(alice, f"points={value}")] == ["wrong-form"], value
    (fault,) = faults(alice, f"points={Settings().track_points + 1}")
    assert (fault["parameter"], fault["code"]) == ("points", "out-of-range")


def test_an_empty_or_too_long_range_is_rejected(alice: Person) -> None:
    for since, to in ((NOON, NOON), (NOON, NOON - HOUR), ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z")):
        params = {name: at if isinstance(at, str) else stamp(at) for name, at in (("from", since), ("to", to))}
        refused(alice.get("/cars/1/track", params=params), 400, EMPTY_RANGE)
    refused(alice.get("/cars/1/track", params={"to": "0001-01-01T00:00:00Z"}), 400, EMPTY_RANGE)
    days = Settings().track_days
    text = f"The time between `from` and `to` is longer than {days} days."
    params = {"from": stamp(NOON - timedelta(days=days)), "to": stamp(NOON + timedelta(microseconds=1))}
    refused(alice.get("/cars/1/track", params=params), 400, text)
    params["to"] = stamp(NOON)
    refused(alice.get("/cars/2147483647/track", params=params), 404, NO_CAR)
    for edge in ("from=9999-12-31T23:59:59Z", "from=9999-01-01T00:00:00Z", "to=0001-01-02T00:00:00Z"):
        answer = alice.get(f"/cars/2147483647/track?{edge}")
        refused(answer, 404, NO_CAR)


def test_a_car_of_another_customer_gets_404(bob: Person, unit: Unit) -> None:
    drive(unit, 2)
    refused(bob.get(f"/cars/{unit.car}/track", params=DAY), 404, NO_CAR)
    refused(bob.get("/cars/2147483647/track", params=DAY), 404, NO_CAR)
