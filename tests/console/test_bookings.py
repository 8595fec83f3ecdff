"""Exclusive bookings in the console: forms, conflicts, badges and settings."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import Desk
from tests.support.people import Person, Town, done
from tests.support.servers import eventually

pytestmark = pytest.mark.cluster

MORNING, EVENING = "2031-11-24T08:00", "2031-11-24T18:00"
START, END = f"{MORNING}:00Z", f"{EVENING}:00Z"
IN_THE_WAY = "has an exclusive booking at that time."


@pytest.fixture
def kim(carol: Person) -> int:
    return carol.user(userData={"firstName": "Kim", "lastName": f"Lee {carol.customer}"})


@pytest.fixture
def ada(carol: Person) -> int:
    return carol.user(userData={"firstName": "Ada", "lastName": "Byron"})


def form(person: Person, **fields: Any) -> str:
    query = "&".join(f"{name}={value}" for name, value in fields.items())
    return f"/console/{person.customer}/assignments/new?{query}"


def set_settings(person: Person, kind: str, *, gap: int = 0, enforced: bool = False) -> None:
    done(person.put("/booking-settings", {"bookings": kind, "bookingGap": gap, "bookingsEnforced": enforced}))


def rows(person: Person, car: int) -> list[dict[str, Any]]:
    query = f"$filter=carId eq {car}&$select=userId,start,end,exclusive&$orderby=start"
    return person.get(f"/assignments?{query}").json()


def book(page: Page) -> None:
    page.get_by_role("button", name="Book", exact=True).click()


def test_a_ticked_booking_is_exclusive(carol: Person, kim: int, desk: Desk) -> None:
    car = carol.car_with_box("Pool car")
    page = desk(carol)
    page.goto(form(carol, car=car, user=kim, start=MORNING, end=EVENING))
    expect(page.get_by_label("Exclusive")).not_to_be_checked()
    page.get_by_label("Exclusive").check()
    book(page)
    expect(page.get_by_text("Done")).to_be_visible()
    assert rows(carol, car) == [{"userId": kim, "start": START, "end": END, "exclusive": True}]


def test_the_box_shows_the_default_of_the_chosen_car(carol: Person, kim: int, desk: Desk) -> None:
    shared, exclusive = carol.car_with_box("Pool A"), carol.car_with_box("Pool B")
    done(carol.put(f"/cars/{exclusive}/booking-settings", {"bookings": "exclusive", "bookingGap": None}))
    page = desk(carol)
    page.goto(form(carol, user=kim, start=MORNING, end=EVENING))
    box = page.get_by_label("Exclusive")
    for label, is_exclusive in (("Pool B", True), ("Pool A", False), ("Pool B", True)):
        page.get_by_role("combobox", name="Car").fill(label)
        page.get_by_role("option", name=label).click()
        expect(box).to_be_checked(checked=is_exclusive)
    box.uncheck()
    page.get_by_label("End", exact=True).fill("2031-11-24T17:00")
    page.get_by_label("End", exact=True).blur()
    expect(box).not_to_be_checked()  # the person decided otherwise for this car
    book(page)
    expect(page.get_by_text("Done")).to_be_visible()
    assert [row["exclusive"] for row in rows(carol, exclusive)] == [False]
    page.goto(form(carol, car=exclusive, user=kim, start="2031-11-25T08:00", end="2031-11-25T18:00"))
    expect(box).to_be_checked()
    page.goto(form(carol, car=shared, user=kim))
    expect(box).not_to_be_checked()


def test_an_exclusive_booking_in_the_way_is_named_and_a_free_car_offered(
    carol: Person, kim: int, ada: int, desk: Desk
) -> None:
    taken, _ = carol.car_with_box("Pool A"), carol.car_with_box("Pool B")
    other = carol.assignment(taken, ada, START, end=END, exclusive=True)
    page = desk(carol)
    page.goto(form(carol, car=taken, user=kim, start=MORNING, end=EVENING, exclusive="true"))
    expect(page.get_by_text(f"Pool A {IN_THE_WAY}")).to_be_visible()
    link = page.get_by_role("listitem").filter(has_text="Ada Byron").get_by_role("link")
    expect(link).to_have_attribute("href", f"/console/{carol.customer}/assignments/{other}")
    expect(page.get_by_label("Book anyway")).to_have_count(0)
    book(page)
    expect(page.get_by_role("alert").filter(has_text="There is a problem")).to_be_visible()
    assert len(rows(carol, taken)) == 1
    page.get_by_role("link", name="Book a free car instead").first.click()
    expect(page.get_by_label("Only free cars")).to_be_checked()
    expect(page.get_by_label("Exclusive")).to_be_checked()
    expect(page.get_by_label("Start")).to_have_value(MORNING)
    page.get_by_role("combobox", name="Car").fill("Pool")
    expect(page.get_by_role("option")).to_have_text(["Pool B"])


def test_a_standing_shared_booking_needs_no_confirmation(carol: Person, kim: int, ada: int) -> None:
    car = carol.car_with_box("Pool car")
    carol.assignment(car, ada, "2031-01-01T08:00:00Z", exclusive=False)
    with carol.browser() as browser:
        address = f"/{carol.customer}/assignments/new"
        check = f"{address}/check?car={car}&user={kim}&start={MORNING}&end={EVENING}&exclusive_for={car}"
        assert "Double booking" in browser.get(check).text
        assert "Double booking" not in browser.get(f"{check}&exclusive=true").text
        fields = {"car": car, "user": kim, "start": MORNING, "end": EVENING, "exclusive": "true"}
        assert browser.post(address, data=fields).status_code == 303
        free = f"/{carol.customer}/choices/cars?q=Pool&free=true&start=2031-11-25T08:00&end=2031-11-25T18:00"
        assert browser.get(free).json()["options"] == []
        assert [option["value"] for option in browser.get(f"{free}&exclusive=true").json()["options"]] == [car]


def test_an_exclusive_booking_without_end_has_a_warning(carol: Person, kim: int) -> None:
    car, warning = carol.car_with_box("Pool car"), "An exclusive booking without end blocks the car"
    with carol.browser() as browser:
        check = f"/{carol.customer}/assignments/new/check?car={car}&user={kim}&start={MORNING}&exclusive_for={car}"
        assert warning in browser.get(f"{check}&no_end=true&exclusive=true").text
        assert warning not in browser.get(f"{check}&no_end=true").text
        assert warning not in browser.get(f"{check}&end={EVENING}&exclusive=true").text


def test_a_failed_request_names_the_bookings_in_the_way(carol: Person, kim: int, ada: int) -> None:
    """The other booking was faster than the request."""
    car = carol.car_with_box("Pool car")
    carol.assignment(car, ada, START, end=END, exclusive=True)
    operation = carol.sql.value(
        "insert into operation (customer_id, kind, car_id, user_id, request, checksum) values ($1, 'CreateAssignment',"
        " $2, $3, jsonb_build_object('start', $4::text, 'end', $5::text, 'lifetime', null, 'renewableAfter', null,"
        " 'exclusive', true), '') returning operation_id::text",
        carol.customer, car, kim, START, END,
    )  # fmt: skip
    path = f"/operations/{operation}"
    eventually(lambda: carol.get(path).json()["state"] == "Failed", "the outcome")
    with carol.browser() as browser:
        page = browser.get(f"/{carol.customer}{path}").text
    assert "The car has another exclusive assignment in this time range." in page
    assert "Ada Byron" in page
    assert "Book a free car instead" in page


def test_lists_and_plan_mark_exclusive_bookings(carol: Person, kim: int, desk: Desk) -> None:
    car = carol.car_with_box("Pool car")
    carol.assignment(car, kim, START, end=END, exclusive=True)
    shared = carol.car_with_box("Other car")
    carol.assignment(shared, kim, START, end=END)
    page = desk(carol)
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(f"/console/{carol.customer}/assignments/list")
    for label, count in (("Pool car", 1), ("Other car", 0)):
        row = page.get_by_role("row").filter(has_text=label)
        expect(row.get_by_text("Exclusive", exact=True)).to_have_count(count)
    page.goto(f"/console/{carol.customer}/assignments/list?use=exclusive")
    expect(page.get_by_role("row").filter(has_text="Other car")).to_have_count(0)
    page.goto(f"/console/{carol.customer}/assignments/board?from=2031-11-24")
    expect(page.get_by_role("button", name="Upcoming, Exclusive")).to_have_count(1)
    page.goto(f"/console/{carol.customer}/cars/{car}?from=2031-11-20")
    expect(page.locator("#timeline").get_by_text("Exclusive", exact=True)).to_be_visible()


def test_a_change_keeps_what_it_does_not_name(carol: Person, kim: int, desk: Desk) -> None:
    car = carol.car_with_box("Pool car")
    assignment = carol.assignment(car, kim, START, end=END, exclusive=True)
    page = desk(carol)
    page.goto(f"/console/{carol.customer}/assignments/{assignment}/change")
    expect(page.get_by_label("Exclusive")).to_be_checked()
    page.get_by_label("End", exact=True).fill("2031-11-24T19:00")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Done")).to_be_visible()
    assert rows(carol, car) == [{"userId": kim, "start": START, "end": "2031-11-24T19:00:00Z", "exclusive": True}]
    page.goto(f"/console/{carol.customer}/assignments/{assignment}/change")
    page.get_by_label("Exclusive").uncheck()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Done")).to_be_visible()
    assert [row["exclusive"] for row in rows(carol, car)] == [False]


def test_the_settings_of_the_customer_and_of_a_car(carol: Person, desk: Desk) -> None:
    car = carol.car_with_box("Pool car")
    page = desk(carol)
    page.goto(f"/console/{carol.customer}/settings/bookings")
    page.get_by_label("New bookings are").select_option("exclusive")
    page.get_by_label("Time between two bookings, in minutes").fill("1500")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Enter a number of minutes from 0 to 1440.").first).to_be_visible()
    page.get_by_label("Time between two bookings, in minutes").fill("30")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("The settings for bookings are saved.")).to_be_visible()
    assert carol.get("/booking-settings").json() == {
        "bookings": "exclusive", "bookingGap": 1_800, "bookingsEnforced": False,
    }  # fmt: skip
    page.goto(f"/console/{carol.customer}/cars/{car}")
    settings = page.locator("#bookings")
    expect(settings).to_contain_text("Exclusive")
    expect(settings).to_contain_text("30 minutes")
    settings.get_by_role("button", name="Change").click()
    page.get_by_label("New bookings are").select_option("shared")
    page.get_by_label("Time between two bookings, in minutes").fill("7.5")
    page.get_by_role("button", name="Save").click()
    expect(settings).to_contain_text("Shared")
    expect(settings).to_contain_text("7.5 minutes")
    assert carol.get(f"/cars/{car}/booking-settings").json() == {"bookings": "shared", "bookingGap": 450}


def test_enforced_settings_bind_dispatchers(carol: Person, town: Town, kim: int) -> None:
    car = carol.car_with_box("Pool car")
    set_settings(carol, "exclusive", enforced=True)
    dana = town.colleague(carol, "dana", "Dispatcher")
    fields = {"car": car, "user": kim, "start": MORNING, "end": EVENING}
    with dana.browser() as browser:
        answer = browser.post(f"/{carol.customer}/assignments/new", data=fields)
        assert answer.status_code == 422
        assert "Your role cannot book this car as shared." in answer.text
        settings = browser.get(f"/{carol.customer}/settings/bookings").text
        assert "Your role cannot change these settings." in settings
        assert browser.get(f"/{carol.customer}/cars/{car}/bookings").status_code == 403
        answer = browser.post(f"/{carol.customer}/assignments/new", data={**fields, "exclusive": "true"})
        assert answer.status_code == 303
