"""The plan: by keyboard, by pointer, and live."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.console.conftest import Desk
from tests.support.people import Person, nobody_works

WEEK = "from=2031-11-24&days=7"  # Monday to Sunday


@pytest.fixture
def kim(carol: Person) -> int:
    return carol.user(userData={"firstName": "Kim", "lastName": "Lee"})


def board(desk: Desk, person: Person, query: str = WEEK, **options: object) -> Page:
    page = desk(person, **options)
    page.goto(f"/console/{person.customer}/assignments/board?{query}")
    return page


def cell(page: Page, car: str, day: int) -> Locator:
    """The cell of a car on a day of the window, from 0."""
    return page.get_by_role("row", name=re.compile(car)).get_by_role("gridcell").nth(day)


def dialog(page: Page, name: str, **fields: str) -> None:
    """The dialog is open, with these values in its fields."""
    shown = page.get_by_role("dialog", name=name)
    expect(shown).to_be_visible()
    for field, value in fields.items():
        expect(shown.get_by_label(field, exact=True)).to_have_value(value)


def test_who_has_what_and_when(carol: Person, kim: int, desk: Desk) -> None:
    alpha, beta = carol.car_with_box("Alpha"), carol.car_with_box("Beta")
    carol.assignment(alpha, kim, "2031-11-25T08:00:00Z", end="2031-11-27T18:00:00Z")
    carol.assignment(beta, kim, "2031-01-01T08:00:00Z", end="2031-11-23T18:00:00Z")
    page = board(desk, carol)
    expect(page.get_by_role("heading", level=1, name="Bookings")).to_be_visible()
    expect(page.get_by_role("grid", name="Plan")).to_be_visible()
    expect(page.get_by_role("columnheader")).to_have_text(
        ["Car", "Mon 24", "Tue 25", "Wed 26", "Thu 27", "Fri 28", "Sat 29", "Sun 30"]
    )
    bar = cell(page, "Alpha", 1).get_by_role(
        "button", name="Kim Lee, Upcoming, Tue, 25 Nov 2031, 08:00 to Thu, 27 Nov 2031, 18:00"
    )
    expect(bar).to_be_visible()
    box, first, last = bar.bounding_box(), cell(page, "Alpha", 1).bounding_box(), cell(page, "Alpha", 3).bounding_box()
    assert box and first and last
    assert first["x"] + first["width"] / 4 < box["x"] < first["x"] + first["width"] / 2
    assert last["x"] + last["width"] / 2 < box["x"] + box["width"] < last["x"] + last["width"]
    expect(page.get_by_role("row", name=re.compile("Beta")).get_by_role("button")).to_have_count(0)
    page.get_by_role("searchbox", name="Search cars").fill("bet")
    expect(page.get_by_role("row")).to_have_count(2)


def test_the_address_holds_the_days(carol: Person, desk: Desk) -> None:
    carol.car("Alpha")
    page = board(desk, carol)
    page.get_by_role("link", name="Later").click()
    expect(page.get_by_role("columnheader").nth(1)).to_have_text("Mon 1")
    assert "from=2031-12-01" in page.url
    page.get_by_role("link", name="Month").click()
    expect(page.get_by_role("columnheader")).to_have_count(32)
    page.go_back()
    page.get_by_role("link", name="Earlier").click()
    expect(page.get_by_role("columnheader").nth(1)).to_have_text("Mon 24")
    before = datetime.now(UTC).date()
    page.get_by_role("main").get_by_role("link", name="Today").click()
    today = page.get_by_role("columnheader").and_(page.locator("[aria-current=date]"))
    expect(today).to_have_attribute("data-day", re.compile("-"))
    assert before <= date.fromisoformat(today.get_attribute("data-day") or "") <= datetime.now(UTC).date()


def test_an_assignment_by_keyboard(carol: Person, kim: int, desk: Desk) -> None:
    carol.car_with_box("Alpha")
    carol.car_with_box("Beta")
    page = board(desk, carol)
    page.get_by_role("grid").get_by_role("gridcell").first.focus()
    page.keyboard.press("End")
    expect(cell(page, "Alpha", 6)).to_be_focused()
    page.keyboard.press("Home")
    expect(page.get_by_role("rowheader").get_by_role("link", name="Alpha")).to_be_focused()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    expect(cell(page, "Beta", 1)).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("gridcell", selected=True)).to_have_count(2)
    page.keyboard.press("Escape")
    expect(page.get_by_role("gridcell", selected=True)).to_have_count(0)
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    dialog(page, "New booking", Car="Beta", Start="2031-11-24T00:00", End="2031-11-26T23:59")
    page.get_by_role("combobox", name="Person").fill("kim")
    expect(page.get_by_role("option")).to_have_count(1)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Book").press("Enter")
    expect(page.get_by_role("dialog").get_by_text("Done")).to_be_visible()
    expect(page.get_by_role("link", name="OK", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(cell(page, "Beta", 0).get_by_role("button", name=re.compile("Kim Lee, Upcoming"))).to_be_visible()
    expect(cell(page, "Beta", 0)).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("button", name=re.compile("Kim Lee, Upcoming"))).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Booking")).to_be_visible()


def test_a_bar_is_moved_by_keyboard(carol: Person, kim: int, desk: Desk) -> None:
    alpha, beta = carol.car_with_box("Alpha"), carol.car_with_box("Beta")
    id = carol.assignment(alpha, kim, "2031-11-25T08:00:00Z", end="2031-11-26T18:00:00Z")
    page = board(desk, carol)
    page.get_by_role("button", name=re.compile("Kim Lee, Upcoming")).focus()
    page.keyboard.press("Shift+ArrowRight")
    expect(page.get_by_role("gridcell", selected=True)).to_have_count(2)
    expect(cell(page, "Alpha", 3)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Escape")
    expect(page.get_by_role("gridcell", selected=True)).to_have_count(0)
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+ArrowDown")
    expect(cell(page, "Beta", 2)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    dialog(page, "Change booking", Car="Beta", Start="2031-11-26T08:00", End="2031-11-27T18:00")
    assert carol.get(f"/assignments/{id}").json()["carId"] == alpha  # nothing changes without a word
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog").get_by_text("Done")).to_be_visible()
    row = carol.get(f"/assignments/{id}").json()
    assert (row["carId"], row["start"], row["end"]) == (beta, "2031-11-26T08:00:00Z", "2031-11-27T18:00:00Z")


def test_the_menu_move(carol: Person, kim: int, desk: Desk) -> None:
    car = carol.car_with_box("Alpha")
    carol.assignment(car, kim, "2031-11-25T08:00:00Z", end="2031-11-26T18:00:00Z")
    page = board(desk, carol)
    page.get_by_role("button", name=re.compile("Kim Lee, Upcoming")).focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("button", name="Move Kim Lee")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("End")
    expect(page.get_by_role("menuitem", name="Change the end")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("gridcell", selected=True)).to_have_count(4)
    page.keyboard.press("Enter")
    dialog(page, "Change booking", Start="2031-11-25T08:00", End="2031-11-28T18:00")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Move Kim Lee").click()
    page.get_by_role("menuitem", name="Move", exact=True).click()
    cell(page, "Alpha", 4).click()  # where it is to begin
    dialog(page, "Change booking", Start="2031-11-28T08:00", End="2031-11-29T18:00")


def test_start_and_end_are_clicked(carol: Person, desk: Desk) -> None:
    carol.car("Alpha")
    carol.car("Beta")
    page = board(desk, carol)
    cell(page, "Alpha", 0).click()
    cell(page, "Beta", 4).click()  # another car: it starts again
    cell(page, "Beta", 2).click()
    dialog(page, "New booking", Car="Beta", Start="2031-11-26T00:00", End="2031-11-28T23:59")


def test_dragging_makes_the_same(carol: Person, kim: int, desk: Desk) -> None:
    alpha = carol.car_with_box("Alpha")
    carol.car_with_box("Beta")
    carol.assignment(alpha, kim, "2031-11-25T08:00:00Z", end="2031-11-26T18:00:00Z")
    page = board(desk, carol)
    cell(page, "Beta", 1).hover()
    page.mouse.down()
    cell(page, "Beta", 3).hover()
    page.mouse.up()
    dialog(page, "New booking", Car="Beta", Start="2031-11-25T00:00", End="2031-11-27T23:59")
    page.keyboard.press("Escape")
    page.get_by_role("button", name=re.compile("Kim Lee, Upcoming")).hover(position={"x": 40, "y": 10})
    page.mouse.down()
    cell(page, "Beta", 3).hover()
    page.mouse.up()
    dialog(page, "Change booking", Car="Beta", Start="2031-11-27T08:00", End="2031-11-28T18:00")


def test_what_others_do_comes_in(carol: Person, kim: int, desk: Desk) -> None:
    car = carol.car_with_box("Alpha")
    page = board(desk, carol)
    expect(page.get_by_text("Live")).to_be_visible()
    with nobody_works(carol):
        carol.put("/assignments", {"carId": car, "userId": kim, "start": "2031-11-25T08:00:00Z"})
        expect(page.get_by_role("button", name=re.compile("Kim Lee, Being processed"))).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("Kim Lee, Upcoming"))).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("Kim Lee, Being processed"))).to_have_count(0)


def test_what_failed_today_is_shown(carol: Person, kim: int, desk: Desk) -> None:
    car = carol.car("Boxless")
    carol.put("/assignments", {"carId": car, "userId": kim, "start": "2031-11-25T08:00:00Z"})
    page = board(desk, carol)
    page.get_by_role("button", name=re.compile("Kim Lee, Failed")).press("Enter")
    expect(page.get_by_role("dialog").get_by_text("There is no key box installed in the car.")).to_be_visible()


def test_on_a_phone_it_is_a_list_of_one_day(carol: Person, kim: int, desk: Desk) -> None:
    alpha = carol.car_with_box("Alpha")
    carol.car_with_box("Beta")
    carol.assignment(alpha, kim, "2031-11-25T08:00:00Z", end="2031-11-26T18:00:00Z")
    page = board(desk, carol, WEEK + "&day=2031-11-26", viewport={"width": 320, "height": 700})
    expect(page.get_by_role("heading", name="Wed, 26 Nov")).to_be_visible()
    expect(page.get_by_role("grid")).not_to_be_visible()
    expect(page.get_by_role("listitem").filter(has_text="Alpha").get_by_text("Kim Lee", exact=True)).to_be_visible()
    expect(page.get_by_role("listitem").filter(has_text="Beta").get_by_text("Free")).to_be_visible()
    expect(page.get_by_role("main").get_by_role("link", name="Today")).to_have_count(1)  # beside the day
    page.get_by_role("link", name="Next day").click()
    expect(page.get_by_role("listitem").filter(has_text="Alpha").get_by_text("Free")).to_be_visible()
    page.get_by_role("button", name="Book Beta").click()
    dialog(page, "New booking", Car="Beta", Start="2031-11-27T00:00", End="2031-11-27T23:59")


def test_a_neighbours_board_is_their_own(carol: Person, bob: Person) -> None:
    car = bob.car_with_box("Bobs own")
    bob.assignment(car, bob.user(userData={"firstName": "Bobs", "lastName": "Friend"}), "2031-11-25T08:00:00Z")
    with carol.browser() as client:
        assert "Bobs" not in client.get(f"/{carol.customer}/assignments/board?{WEEK}").text
        assert client.get(f"/{bob.customer}/assignments/board?{WEEK}").status_code == 404


@pytest.mark.parametrize("query", [
    "from=soon", "days=9999", "page=0", "page=99999999999", "rows=all", "day=2031-13-01", "from=0001-01-01",
    "from=9999-12-31", "q=%22%27(", "from=2031-11-24&from=x",
])  # fmt: skip
def test_no_address_breaks_it(carol: Person, query: str) -> None:
    with carol.browser() as client:
        assert client.get(f"/{carol.customer}/assignments/board?{query}").status_code == 200
