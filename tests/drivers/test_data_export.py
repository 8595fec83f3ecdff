"""The export of a driver's own data."""

from __future__ import annotations

from typing import Any

import pytest

from keyrack.drivers import data_export
from tests.drivers.test_leaving import driver_of_both
from tests.support.drivers import SignedInDriver, driver_browser, signed_in_driver
from tests.support.people import Person

PHONE = """
insert into app_device (customer_id, device_id, user_id, public_key, name, protection)
values ($1, sha256(gen_random_uuid()::text::bytea), $2, '\\x00', $3, 'Software')
"""

REQUEST = """
insert into assignment_request (customer_id, user_id, assignment_id, car_id, kind, wanted_end, comment)
select customer_id, user_id, assignment_id, car_id, 'extend', now() + interval '1 day', $4 from assignment
where customer_id = $1 and user_id = $2 and car_id = $3
"""


def used(person: Person, user: int, phone: str, events: int = 1) -> int:
    """Give the user a car and a phone, and open the car. Returns the car's id."""
    car = person.car_with_box()
    person.assignment(car, user)
    person.sql.execute(PHONE, person.customer, user, phone)
    person.sql.execute(REQUEST, person.customer, user, car, f"Longer with {phone}")
    for _ in range(events):
        person.event(car, user, latitude=52.5, longitude=13.4, userAgent=f"App on {phone}")
    return car


def exported(driver: SignedInDriver) -> dict[str, Any]:
    response = driver.get("/export")
    assert response.status_code == 200, response.text
    assert response.headers["Cache-Control"] == "no-store"
    assert response.headers["Content-Disposition"].startswith("attachment")
    return response.json()


def test_the_export_has_the_account_and_its_use_in_each_customer(alice: Person, bob: Person) -> None:
    driver = driver_of_both(alice, bob)
    cars = {person.customer: used(person, driver.user, f"Phone {person.customer}") for person in (alice, bob)}
    document = exported(driver)
    account = document["account"]
    assert (account["id"], account["emailAddress"]) == (driver.user, driver.address)
    assert account["hasProvenMailbox"] and account["hasPassword"] and account["created"].endswith("Z")
    assert [(row["device"], row["isCurrent"]) for row in document["sessions"]] == [("Chromium, Linux", True)]
    assert [row["name"] for row in document["passkeys"]] == ["Security key"]
    assert [row["id"] for row in document["customers"]] == sorted(cars)
    for customer in document["customers"]:
        car, phone = cars[customer["id"]], f"Phone {customer['id']}"
        assert [row["name"] for row in customer["phones"]] == [phone]
        assert [row["carId"] for row in customer["assignments"]] == [car]
        assert [(row["carId"], row["userAgent"], row["latitude"]) for row in customer["events"]] == [
            (car, f"App on {phone}", 52.5)
        ]
        assert [(row["carId"], row["comment"]) for row in customer["requests"]] == [(car, f"Longer with {phone}")]
        assert customer["granted"] is not None


def test_the_export_has_nothing_of_others(alice: Person, bob: Person) -> None:
    """The export lacks other drivers and hidden customers."""
    driver, other = signed_in_driver(alice), signed_in_driver(alice)
    assert bob.put("/users/assignments/customers", {"emailAddress": driver.address}).is_success
    used(bob, driver.user, "Hidden phone")
    car = used(alice, driver.user, "Own phone")
    alice.sql.execute("delete from assignment where customer_id = $1 and car_id = $2", alice.customer, car)
    alice.assignment(car, other.user)
    alice.event(car, other.user, userAgent="App of the other")
    document = exported(driver)
    assert [row["id"] for row in document["customers"]] == [alice.customer]
    text = str(document)
    assert "Own phone" in text
    for hidden in ("Hidden phone", "App of the other", other.address, driver.cookie, "argon2"):
        assert str(hidden) not in text, hidden


def test_long_lists_are_complete(alice: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = signed_in_driver(alice)
    used(alice, driver.user, "Phone", events=5)
    for size in (2, 5):
        monkeypatch.setattr(data_export, "CHUNK", size)
        events = exported(driver)["customers"][0]["events"]
        assert len({row["id"] for row in events}) == len(events) == 5


def test_the_export_needs_a_session(alice: Person) -> None:
    assert driver_browser(alice).get("/export").status_code == 401
    assert alice.client.get("/drive/api/export").status_code in (401, 404)
