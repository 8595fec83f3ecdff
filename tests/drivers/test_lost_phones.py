"""Reports of lost phones, by drivers and managers."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import httpx

from keyrack.offline_keys.endpoints.user_devices import NO_DEVICE
from tests.auth.group_scope import limited, put
from tests.offline_keys.offline_world import Phone, garage
from tests.offline_keys.offline_world import driver as phone_of
from tests.support.drivers import SignedInDriver, signed_in_driver
from tests.support.people import Person, Town, refused
from tests.support.servers import eventually

NO_USER = "Unable to find a user for the given userId which is assigned to the given customerId."


def with_key(person: Person, driver: SignedInDriver) -> tuple[int, Phone]:
    """A car of the driver, and a phone with its key."""
    car, _ = garage(person)
    person.assignment(car, driver.user)
    phone = phone_of(person, driver.user)
    assert phone.fetch()["keys"]
    return car, phone


def report(driver: SignedInDriver, *phones: Phone, customer: int | None = None, end: bool = False) -> httpx.Response:
    lost = [{"customerId": customer or driver.customer, "id": phone.id} for phone in phones]
    return driver.call("POST", "/lost", {"phones": lost, "endSessions": end})


def report_for(manager: Person, user: int, **body: Any) -> httpx.Response:
    return manager.post(f"/users/{user}/lost-phones", body)


def seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def test_a_driver_sees_the_own_phones(alice: Person, bob: Person) -> None:
    driver = signed_in_driver(alice)
    phone = phone_of(alice, driver.user)
    phone_of(alice)
    (row,) = driver.call("GET", "/phones").json()
    registered = alice.get(f"/users/{driver.user}/devices").json()[0]["registered"]
    assert row | {"registered": ""} == {
        "id": phone.id, "customerId": alice.customer, "name": "Phone", "registered": "", "isApproved": True,
    }  # fmt: skip
    assert row["registered"][:19] == registered[:19]
    assert signed_in_driver(bob).call("GET", "/phones").json() == []


def test_a_lost_phone_is_removed_and_its_cars_are_listed(alice: Person) -> None:
    driver = signed_in_driver(alice)
    car, phone = with_key(alice, driver)
    kept = phone_of(alice, driver.user)
    answer = report(driver, phone)
    assert answer.status_code == 200, answer.text
    (key,) = [key for key in alice.get(f"/cars/{car}/keys").json() if key["deviceId"] == phone.id]
    (row,) = answer.json()["cars"]
    assert row | {"opensUntil": ""} == {
        "customerId": alice.customer, "carId": car, "name": alice.get(f"/cars/{car}").json()["name"],
        "opensUntil": "", "canPowerLossExtend": False,
    }  # fmt: skip
    assert key["revoked"] and int(seconds(key["opensUntil"])) == seconds(row["opensUntil"])
    assert [one["id"] for one in driver.call("GET", "/phones").json()] == [kept.id]
    # The response may be lost, so the same report is answered again
    assert report(driver, phone).json() == answer.json()


def test_a_loss_ends_the_other_sessions_if_the_driver_wants_that(alice: Person) -> None:
    driver = signed_in_driver(alice)
    thief = signed_in_driver(alice, driver.user)
    phone = phone_of(alice, driver.user)
    assert report(driver, phone).json() == {"cars": []}
    assert thief.is_in
    assert report(driver, end=True).json() == {"cars": []}
    assert not thief.is_in
    assert driver.is_in


def test_phones_of_others_and_of_other_customers_are_not_found(alice: Person, bob: Person) -> None:
    driver = signed_in_driver(alice)
    others, his, own = phone_of(alice), phone_of(bob), phone_of(alice, driver.user)
    for answer in (report(driver, own, others), report(driver, own, his), report(driver, his, customer=bob.customer)):
        assert (answer.status_code, NO_DEVICE.text in answer.text) == (404, True)
    assert [one["id"] for one in driver.call("GET", "/phones").json()] == [own.id]  # nothing is removed in part
    assert alice.get(f"/users/{others.user}/devices").json() and bob.get(f"/users/{his.user}/devices").json()
    too_many = [{"customerId": alice.customer, "id": own.id}] * 101
    assert driver.call("POST", "/lost", {"phones": too_many}).status_code == 400


def test_a_loss_is_recorded_with_its_reporter(alice: Person) -> None:
    driver = signed_in_driver(alice)
    phone = phone_of(alice, driver.user)
    assert report(driver, phone).status_code == 200
    query = {"$filter": f"resource eq 'device' and resourceId eq '{phone.id}'", "$orderby": "id"}

    def recorded() -> list[dict[str, Any]]:
        rows = alice.get("/changes", params=query).json()
        return rows if [row["kind"] for row in rows][-1:] == ["device.deleted"] else []

    created, lost, removed = eventually(recorded, "the changes of the phone")
    assert [row["kind"] for row in (created, lost, removed)] == ["device.created", "device.lost", "device.deleted"]
    for change in (lost, removed):
        assert (change["actor"]["type"], change["actor"]["id"]) == ("user", str(driver.user))


def test_a_manager_reports_all_phones_or_chosen_ones(alice: Person) -> None:
    driver = signed_in_driver(alice)
    (first_car, first), (second_car, second) = with_key(alice, driver), with_key(alice, driver)
    answer = report_for(alice, driver.user, phones=[first.id], endSessions=False)
    assert answer.status_code == 200, answer.text
    # Both phones had keys to the first car, and the first phone had none to the second
    assert [car["carId"] for car in answer.json()["cars"]] == [first_car]
    assert [one["id"] for one in alice.get(f"/users/{driver.user}/devices").json()] == [second.id]
    assert driver.is_in
    answer = report_for(alice, driver.user)
    assert {car["carId"] for car in answer.json()["cars"]} == {first_car, second_car}
    assert alice.get(f"/users/{driver.user}/devices").json() == []
    assert not driver.is_in
    assert driver.sign_in(driver.address).status_code == 201


def test_a_manager_of_another_customer_ends_nothing(alice: Person, bob: Person) -> None:
    driver = signed_in_driver(alice)
    phone = phone_of(alice, driver.user)
    refused(report_for(bob, driver.user), 404, NO_USER)
    assert bob.put("/users/assignments/customers", {"emailAddress": driver.address}).status_code == 204
    refused(report_for(bob, driver.user, phones=[phone.id]), 404, NO_DEVICE)
    assert report_for(bob, driver.user).json() == {"cars": []}
    assert driver.is_in  # which does not see his customer
    assert [one["id"] for one in driver.call("GET", "/phones").json()] == [phone.id]


def test_a_group_limited_manager_sees_cars_of_the_groups(alice: Person, town: Town) -> None:
    driver = signed_in_driver(alice)
    (seen, _), _ = with_key(alice, driver), with_key(alice, driver)
    group = alice.group()
    put(alice, group, "carId", seen)
    manager = limited(town, alice, "limited", [group])
    refused(report_for(manager, driver.user), 404, NO_USER)
    put(alice, group, "userId", driver.user)
    eventually(lambda: manager.get(f"/users/{driver.user}").status_code == 200, "the user in the group")
    assert [car["carId"] for car in report_for(manager, driver.user).json()["cars"]] == [seen]


def test_the_report_needs_the_permission_to_change_users(alice: Person, town: Town) -> None:
    driver = signed_in_driver(alice)
    phone = phone_of(alice, driver.user)
    viewer = town.colleague(alice, "viewer", "Viewer")
    assert report_for(viewer, driver.user).status_code == 403
    assert [one["id"] for one in alice.get(f"/users/{driver.user}/devices").json()] == [phone.id]
