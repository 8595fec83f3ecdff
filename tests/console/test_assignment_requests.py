"""Drivers' requests in the console, and their decision."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from keyrack.api.permissions import Role
from tests.auth.group_scope import limited, put
from tests.console import axe
from tests.console.conftest import Desk
from tests.support.drivers import Booking, SignedInDriver, at, signed_in_driver
from tests.support.people import Person, Town
from tests.support.servers import eventually

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def fleet(town: Town) -> Iterator[Person]:
    person = town.person("asked")
    yield person
    person.client.close()


@pytest.fixture(scope="module")
def driver(fleet: Person) -> SignedInDriver:
    user = fleet.user("dora@example.org", type="Normal", userData={"firstName": "Dora", "lastName": "Diehl"})
    return signed_in_driver(fleet, user)


def card(page: Page, car: str) -> Locator:
    return page.get_by_role("region", name="Requests of drivers").get_by_role("listitem").filter(has_text=car)


def booked(fleet: Person, driver: SignedInDriver, car: str) -> Booking:
    return Booking(fleet, driver, car=fleet.car_with_box(car))


def state_of(fleet: Person, id: int) -> tuple[str, str | None]:
    row = fleet.get(f"/assignment-requests/{id}").json()
    return row["state"], row["decisionComment"]


def test_a_request_is_granted_on_today_in_two_taps(fleet: Person, driver: SignedInDriver, desk: Desk) -> None:
    booking = booked(fleet, driver, "Elbe")
    page = desk(fleet)
    page.goto(f"/console/{fleet.customer}")
    expect(page.get_by_role("region", name="Requests of drivers")).to_have_count(0)
    id = booking.ask(kind="extend", end=at(6), comment="The train is late").json()["id"]
    expect(card(page, "Elbe")).to_contain_text("The train is late")  # it appears by itself
    expect(card(page, "Elbe")).to_contain_text("No later booking of the car")
    assert axe.faults(page) == []
    card(page, "Elbe").get_by_role("button", name="Decide the request of Dora Diehl").click()
    dialog = page.get_by_role("dialog")
    assert axe.faults(page) == []
    dialog.get_by_role("button", name="Grant").click()
    expect(page.get_by_role("status").filter(has_text="The request is granted.")).to_be_visible()
    expect(card(page, "Elbe")).to_have_count(0)
    eventually(lambda: booking.end == at(6), "the extension")
    assert state_of(fleet, id) == ("granted", None)


def test_a_rejection_has_an_answer_and_stands_on_the_booking(fleet: Person, driver: SignedInDriver, desk: Desk) -> None:
    booking = booked(fleet, driver, "Weser")
    id = booking.ask(kind="extend", end=at(6)).json()["id"]
    page = desk(fleet)
    page.goto(f"/console/{fleet.customer}/requests/{id}")
    page.get_by_label("Answer to the driver").fill("Needed at six")
    page.get_by_role("button", name="Reject").click()
    expect(page.get_by_role("status").filter(has_text="The request is rejected.")).to_be_visible()
    assert state_of(fleet, id) == ("rejected", "Needed at six")
    page.goto(f"/console/{fleet.customer}/assignments/{booking.id}")
    requests = page.get_by_role("region", name="Requests of the driver")
    expect(requests.get_by_role("listitem")).to_contain_text("Rejected")
    requests.get_by_role("link").click()
    expect(page.get_by_role("dialog")).to_contain_text("Answer: Needed at six")
    expect(page.get_by_role("dialog").get_by_role("button", name="Grant")).to_have_count(0)


def test_the_next_booking_is_shown_before_the_decision(fleet: Person, driver: SignedInDriver, desk: Desk) -> None:
    later, overlapping = booked(fleet, driver, "Havel"), booked(fleet, driver, "Spree")
    hugo = fleet.user("hugo@example.org")
    fleet.assignment(later.car, hugo, at(8), end=at(9))
    fleet.assignment(overlapping.car, hugo, at(5), end=at(9))
    for booking in (later, overlapping):
        booking.ask(kind="extend", end=at(6))
    page = desk(fleet)
    page.goto(f"/console/{fleet.customer}")
    expect(card(page, "Havel")).to_contain_text(re.compile(r"Next booking: Uma User"))
    expect(card(page, "Spree")).to_contain_text(re.compile(r"Double booking with Uma User"))


def test_a_decision_that_comes_too_late_says_so(fleet: Person, driver: SignedInDriver, desk: Desk) -> None:
    booking = booked(fleet, driver, "Oder")
    id = booking.ask(kind="extend", end=at(6)).json()["id"]
    page = desk(fleet)
    page.goto(f"/console/{fleet.customer}/requests/{id}")
    fleet.put(f"/assignment-requests/{id}/decision", {"decision": "reject"})
    page.get_by_role("button", name="Grant").click()
    expect(page.get_by_role("alert").filter(has_text="The request is no longer open.")).to_be_visible()
    assert state_of(fleet, id) == ("rejected", None)


def test_viewers_and_group_limited_people_see_what_is_theirs(town: Town, fleet: Person, driver: SignedInDriver) -> None:
    booking, hidden = booked(fleet, driver, "Lahn"), booked(fleet, driver, "Mosel")
    group = fleet.group()
    put(fleet, group, "carId", booking.car)
    put(fleet, group, "userId", driver.user)
    ids = [one.ask(kind="extend", end=at(6)).json()["id"] for one in (booking, hidden)]
    viewer, gina = town.colleague(fleet, "vera", Role.VIEWER), limited(town, fleet, "greta", [group], Role.DISPATCHER)
    with viewer.browser() as browser:
        assert browser.post(f"/{fleet.customer}/requests/{ids[0]}", data={"decision": "grant"}).status_code == 403
    with gina.browser() as browser:
        today = browser.get(f"/{fleet.customer}").text
        assert "Lahn" in today and "Mosel" not in today.partition('id="requests"')[2].partition("</section>")[0]
        assert browser.get(f"/{fleet.customer}/requests/{ids[1]}").status_code == 404
        assert browser.post(f"/{fleet.customer}/requests/{ids[1]}", data={"decision": "grant"}).status_code == 404
    for person in (viewer, gina):
        person.client.close()
