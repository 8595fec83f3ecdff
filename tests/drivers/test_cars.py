"""The driver's cars."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.offline_keys.offline_world import driver as phone_of
from tests.offline_keys.offline_world import garage
from tests.support.drivers import SignedInDriver, signed_in_driver
from tests.support.people import Person

PLACE = """
insert into car_state (customer_id, car_id, product_id, latitude, longitude, position_at, position_since, read_at)
values ($1, $2, $3, 48.1, 11.5, now(), now(), now())
"""


def at(hours: float) -> str:
    return (datetime.now(UTC) + timedelta(hours=hours)).isoformat(timespec="seconds").replace("+00:00", "Z")


def cars(driver: SignedInDriver) -> list[dict[str, Any]]:
    answer = driver.call("GET", "/cars")
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "no-store"
    return answer.json()


def names(driver: SignedInDriver) -> list[str]:
    return [car["name"] for car in cars(driver)]


def test_running_assignments_come_first_and_past_ones_not(alice: Person) -> None:
    driver = signed_in_driver(alice)
    assert cars(driver) == []
    later, soon, running, past = (alice.car_with_box(name) for name in ("Later", "Soon", "Running", "Past"))
    alice.assignment(later, driver.user, at(48))
    alice.assignment(soon, driver.user, at(24), end=at(30))
    assignment = alice.assignment(running, driver.user, end=at(4))
    alice.assignment(past, driver.user, at(-5), end=at(-1))
    rows = cars(driver)
    assert [(car["name"], car["state"]) for car in rows] == [("Running", "now"), ("Soon", "next"), ("Later", "next")]
    product = alice.get(f"/cars/{running}/products").json()[0]["id"]
    assert rows[0] | {"end": ""} == {
        "assignmentId": assignment, "customerId": alice.customer, "carId": running, "name": "Running",
        "licensePlate": None, "brand": None, "model": None, "start": "2026-01-01T08:00:00Z", "end": "",
        "state": "now", "isTaken": False, "takenUntil": None, "place": None, "productId": product, "boxName": None,
        "opensUntil": None, "fleetPhone": None,
    }  # fmt: skip
    assert rows[2]["end"] is None


def test_a_driver_sees_no_car_of_others_and_of_other_customers(alice: Person, bob: Person) -> None:
    driver = signed_in_driver(alice)
    alice.assignment(alice.car_with_box("Other driver"), alice.user())
    alice.assignment(alice.car_with_box("Own"), driver.user)
    assert bob.put("/users/assignments/customers", {"emailAddress": driver.address}).status_code == 204
    bob.assignment(bob.car_with_box("Of a customer that gave no access"), driver.user)
    assert names(driver) == ["Own"]


def test_a_taken_car_shows_until_when_and_no_person(alice: Person) -> None:
    driver = signed_in_driver(alice)
    other = alice.user("taker@example.org", userData={"firstName": "Otto", "lastName": "Other"})
    until = at(3)
    car = alice.car_with_box()
    alice.assignment(car, other, end=until)
    alice.assignment(car, driver.user, at(4))
    (row,) = cars(driver)
    assert (row["state"], row["isTaken"], row["takenUntil"]) == ("next", True, until)
    assert "Otto" not in str(row) and "taker" not in str(row)
    endless = alice.car_with_box("Endless")
    alice.assignment(endless, other)
    alice.assignment(endless, driver.user, at(5))
    assert [(car["isTaken"], car["takenUntil"]) for car in cars(driver)] == [(True, until), (True, None)]


def test_the_place_is_shown_if_the_customer_allows_it(alice: Person) -> None:
    driver = signed_in_driver(alice)
    now, next = alice.car_with_box("Now"), alice.car_with_box("Next")
    for car in (now, next):
        alice.sql.execute(PLACE, alice.customer, car, alice.box_in(car, "IQ"))
    alice.assignment(now, driver.user, end=at(5))
    alice.assignment(next, driver.user, at(1))
    assert [car["place"] for car in cars(driver)] == [None, None]
    settings = {"phone": "+49 30 1234", "showsPlace": True, "extensionHours": 0}
    assert alice.put("/driver-settings", settings).status_code == 204
    first, second = cars(driver)
    assert first["place"] | {"time": ""} == {"latitude": 48.1, "longitude": 11.5, "time": ""}
    assert second["place"] is None
    assert first["fleetPhone"] == "+49 30 1234"
    # If another driver has the car as well, its place is that driver's place
    alice.assignment(now, alice.user(), end=at(2))
    assert cars(driver)[0]["place"] is None


def test_a_car_with_a_key_shows_the_box_and_its_last_moment(alice: Person) -> None:
    driver = signed_in_driver(alice)
    car, box = garage(alice)
    alice.assignment(car, driver.user)
    phone = phone_of(alice, driver.user)
    (row,) = cars(driver)
    assert (row["productId"], row["boxName"], row["opensUntil"]) == (box.product, box.challenge().name, None)
    phone.fetch()
    (key,) = alice.get(f"/cars/{car}/keys").json()
    assert cars(driver)[0]["opensUntil"] == key["opensUntil"].partition(".")[0].rstrip("Z") + "Z"
    assert alice.delete(f"/users/{driver.user}/devices/{phone.id}").status_code == 204
    assert cars(driver)[0]["opensUntil"] is None  # no phone of the driver opens it


def test_the_list_needs_a_session_of_a_driver(alice: Person) -> None:
    assert alice.client.get(alice.client.base_url.join("/drive/api/cars")).status_code == 401
    assert alice.client.get(alice.client.base_url.join("/drive/api/cars"), headers=alice.headers).status_code == 401
