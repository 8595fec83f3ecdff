"""The day of a car: its track on a map, a time slider, and the same data as a table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import pytest
from playwright.sync_api import Page, expect

from tests.console.axe import faults
from tests.console.conftest import Desk
from tests.support.people import Person, Town
from tests.telemetry.endpoints.test_ingest import Unit, unit_of

TOLD = [("06:00:00", 53.551, 9.993), ("06:30:00", 53.866, 10.687), ("07:10:00", 54.323, 10.123)]


@pytest.fixture(scope="module")
def day() -> date:
    """The day of the track: the one before its first test, which may be two days before the last one."""
    return datetime.now(UTC).date() - timedelta(days=1)


@pytest.fixture(scope="module")
def driver(town: Town) -> Iterator[Person]:
    """A person with a car that went from Hamburg by Lübeck to Kiel on that day."""
    person = town.person("driver")
    yield person
    person.client.close()


@pytest.fixture(scope="module")
def unit(driver: Person, day: date) -> Unit:
    unit = unit_of(driver)
    samples = [
        {"serialNumber": unit.serial, "carDataReadTime": f"{day}T{time}Z", "currentLatitude": latitude,
         "currentLongitude": longitude, "odometer": 100 + number}
        for number, (time, latitude, longitude) in enumerate(TOLD)
    ]  # fmt: skip
    answer = unit.deliver(*samples)
    assert answer.status_code == 200 and answer.json()["accepted"] == 3, answer.text
    return unit


def track(page: Page, unit: Unit, query: str = "") -> None:
    page.goto(f"/console/{unit.person.customer}/cars/{unit.car}/track{query}")
    expect(page.get_by_role("heading", level=1, name="Track of")).to_be_visible()


def test_the_slider_says_where_the_car_was(driver: Person, unit: Unit, day: date, desk: Desk) -> None:
    """Without a day in the address, it is the last day with a position."""
    page = desk(driver)
    track(page, unit)
    expect(page.get_by_label("Day", exact=True)).to_have_value(str(day))
    slider = page.get_by_role("slider", name="Time")
    expect(slider).to_have_attribute("aria-valuetext", re.compile(r"^07:10, Kiel$"))
    slider.press("Home")
    expect(slider).to_have_attribute("aria-valuetext", re.compile(r"^06:00, Hamburg$"))
    for _ in range(3):
        slider.press("ArrowRight")
    expect(slider).to_have_attribute("aria-valuetext", re.compile(r"^06:03, Hamburg$"))
    expect(page.get_by_role("button", name="Show all")).to_be_visible()


def test_the_map_is_drawn_once_it_is_in_view(driver: Person, unit: Unit, desk: Desk) -> None:
    """It is far below the first screen of the car's page, and keeps the page busy for seconds without a GPU."""
    page = desk(driver)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"/console/{driver.customer}/cars/{unit.car}")
    table = page.get_by_role("table", name="Times and positions")
    expect(table.get_by_role("row").filter(has_text="Kiel")).to_have_count(1)  # by the script that draws the map
    page.get_by_role("button", name="Book", exact=True).first.click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert not [url for url in asked if "maplibre" in url]
    expect(page.get_by_role("button", name="Show all")).to_be_hidden()
    page.get_by_role("slider", name="Time").scroll_into_view_if_needed()
    expect(page.get_by_role("button", name="Show all")).to_be_visible()
    assert [url for url in asked if "maplibre" in url]


def test_the_table_says_the_same(driver: Person, unit: Unit, desk: Desk) -> None:
    page = desk(driver, viewport={"width": 320, "height": 800})
    track(page, unit)
    table = page.get_by_role("table", name="Times and positions")
    for place, number in (("Hamburg", "100 km"), ("Lübeck", "101 km"), ("Kiel", "102 km")):
        expect(table.get_by_role("row").filter(has_text=place)).to_contain_text(number)
    assert faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_another_day_is_chosen_without_a_script(driver: Person, unit: Unit, day: date, desk: Desk) -> None:
    page = desk(driver, java_script_enabled=False)
    track(page, unit)
    expect(page.get_by_role("table", name="Times and positions").get_by_role("row")).to_have_count(4)
    page.get_by_role("link", name="Previous day").click()
    expect(page.get_by_role("heading", name="No positions on this day")).to_be_visible()
    page.get_by_label("Day", exact=True).fill(str(day))
    page.get_by_role("button", name="Show day").click()
    expect(page.get_by_role("table", name="Times and positions")).to_be_visible()


@pytest.mark.parametrize("text", ["soon", "0001-01-01", "2026-02-30"])
def test_what_is_no_day_is_refused_in_words(driver: Person, unit: Unit, desk: Desk, text: str) -> None:
    page = desk(driver)
    answer = page.goto(f"/console/{driver.customer}/cars/{unit.car}/track?day={text}")
    assert answer is not None and answer.status == 400
    expect(page.get_by_text("Write the date in the address like 2026-11-22.")).to_be_visible()


def test_the_neighbour_sees_no_track(driver: Person, unit: Unit, bob: Person, desk: Desk) -> None:
    page = desk(bob)
    answer = page.goto(f"/console/{bob.customer}/cars/{unit.car}/track")
    assert answer is not None and answer.status == 404
