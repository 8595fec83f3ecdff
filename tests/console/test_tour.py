"""The tour of Today: at the first visit, beside the page, and not again after it was closed."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.console.axe import faults
from tests.console.conftest import Desk
from tests.support.people import Person


def tour(page: Page) -> Locator:
    return page.get_by_role("region", name="First steps")


def marked(page: Page) -> Locator:
    return page.locator(".toured")


def shown(page: Page, name: str, place: str) -> None:
    expect(tour(page).get_by_role("heading", level=3)).to_have_text(name)
    expect(tour(page)).to_contain_text(place)


@pytest.fixture
def driver(carol: Person) -> Person:
    """Carol, with one car."""
    carol.car("Alster")
    return carol


def test_a_newcomer_is_shown_the_first_steps_once(driver: Person, desk: Desk) -> None:
    page = desk(driver, newcomer=True)
    page.goto(f"/console/{driver.customer}")
    shown(page, "Find the car", "1 of 3")
    expect(page.get_by_role("status").filter(has_text="First steps. 1 of 3. Find the car. Type a part")).to_have_count(
        1
    )
    expect(marked(page)).to_have_attribute("id", "find-on-map")
    assert page.evaluate("document.activeElement === document.body")  # typing is not interrupted
    assert faults(page) == []
    page.get_by_role("combobox", name="Find a car").fill("als")  # the page works during the tour
    expect(page.get_by_role("option", name="Alster")).to_be_visible()
    next = tour(page).get_by_role("button", name="Next")
    expect(tour(page).get_by_role("button", name="Back")).to_have_count(0)
    next.press("Enter")
    shown(page, "Book it", "2 of 3")
    expect(page.get_by_role("button", name="Book", exact=True)).to_have_class("button primary toured")
    expect(page.get_by_role("status").filter(has_text="2 of 3. Book it")).to_have_count(1)
    page.reload()  # a person who returns sees the same step
    shown(page, "Book it", "2 of 3")
    page.set_viewport_size({"width": 320, "height": 640})
    page.emulate_media(color_scheme="dark")
    next.press("Enter")
    shown(page, "See the result", "3 of 3")
    expect(page.get_by_role("button", name="Menu", exact=True)).to_have_class("button bare square nav-open toured")
    assert faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    page.get_by_role("contentinfo").get_by_role("link").focus()  # the end of the page is not below it
    under = "[...document.querySelectorAll('.foot a')].pop().getBoundingClientRect().bottom"
    assert page.evaluate(f"{under} <= document.getElementById('tour').getBoundingClientRect().top")
    tour(page).get_by_role("button", name="Back").press("Enter")
    tour(page).get_by_role("button", name="Back").press("Enter")
    shown(page, "Find the car", "1 of 3")
    expect(next).to_be_focused()  # the button that was pressed is gone
    next.press("Escape")
    expect(tour(page)).to_have_count(0)
    expect(marked(page)).to_have_count(0)
    expect(page.get_by_role("main")).to_be_focused()
    page.reload()
    expect(page.get_by_role("heading", level=1, name="Today")).to_be_visible()
    expect(tour(page)).to_have_count(0)


def test_help_shows_them_again(driver: Person, desk: Desk) -> None:
    page = desk(driver, locale="de-DE")
    page.goto(f"/console/{driver.customer}/help")
    page.get_by_role("link", name="Auf „Heute“ zeigen").click()
    again = page.get_by_role("region", name="Erste Schritte")
    expect(again.get_by_role("heading", name="Erste Schritte")).to_be_focused()
    assert "#" not in page.url
    for _ in range(2):
        again.get_by_role("button", name="Weiter").click()
    again.get_by_role("button", name="Erledigt").click()
    expect(again).to_have_count(0)
    assert page.evaluate("Object.keys(localStorage)") == [f"keyrack-tour:{driver.username}"]


def test_without_a_script_or_a_car_there_is_none(carol: Person) -> None:
    with carol.browser() as browser:
        for cars, how in ((0, "asked-for"), (1, "at-once")):
            page = browser.get(f"/{carol.customer}").text
            assert f'data-tour="{how}"' in page
            assert next(line for line in page.splitlines() if 'id="tour"' in line).endswith(" hidden>")
            if not cars:
                assert 'role="button" aria-haspopup="dialog"' not in page  # there is nothing to be assigned yet
                carol.car()
