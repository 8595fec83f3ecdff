"""Nothing moves while a page loads, pages work without live updates, and the back button works."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.console.conftest import Desk
from tests.console.test_overview import depot
from tests.support.people import Person

WATCH = """
window.moved = [];
new PerformanceObserver((list) => {
  for (const one of list.getEntries())
    if (!one.hadRecentInput)
      moved.push([one.value, one.sources.map(({node}) => (node?.outerHTML ?? node?.data)?.slice(0, 80))]);
}).observe({type: "layout-shift", buffered: true});
"""
WEEK = "/assignments/board?from=2031-11-24&days=7"


@pytest.fixture
def fleet(carol: Person) -> Person:
    """Carol, with 60 cars with positions, and one that can be booked."""
    depot(carol, 60)
    return carol


def go(page: Page, person: Person, path: str) -> None:
    page.goto(f"/console/{person.customer}{path}")


def steady(page: Page) -> None:
    """The live updates are disconnected, and nothing has moved since the page started."""
    expect(page.get_by_text("Reconnecting since")).to_be_visible()
    moved = page.evaluate("moved")
    assert sum(value for value, _ in moved) < 0.02, (page.url, moved)


def test_pages_work_while_live_updates_are_cut_and_nothing_moves(fleet: Person, desk: Desk) -> None:
    car = fleet.car_with_box("Alpha")
    webhook = fleet.put("/webhooks", {"url": "http://127.0.0.1:9/hook"}).json()["id"]
    page = desk(fleet, viewport={"width": 1280, "height": 900})
    page.add_init_script(WATCH)
    page.route("**/api/v3/live*", lambda route: route.abort())
    go(page, fleet, "")
    expect(page.get_by_role("button", name="Show all")).to_be_visible()
    expect(page.get_by_role("table", name="Cars in view").get_by_role("row")).to_have_count(51)
    steady(page)
    go(page, fleet, "/cars")
    steady(page)
    page.get_by_role("searchbox", name="Search cars").fill("alph")
    expect(page.get_by_role("table").get_by_role("row")).to_have_count(2)
    go(page, fleet, f"/cars/{car}")
    steady(page)
    page.get_by_role("link", name="Change License plate").click()
    page.get_by_role("textbox", name="License plate", exact=True).fill("HH-KR 1")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="Change License plate")).to_be_focused()
    assert fleet.get(f"/cars/{car}").json()["licensePlate"] == "HH-KR 1"
    go(page, fleet, WEEK + "&q=alpha")
    steady(page)
    page.get_by_role("row", name=re.compile("Alpha")).get_by_role("gridcell").first.press("Enter")
    expect(page.get_by_role("gridcell", selected=True)).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="New booking").get_by_label("Start")).to_have_value("2031-11-24T00:00")
    go(page, fleet, f"/webhooks/{webhook}")
    steady(page)
    page.get_by_role("button", name="Send test").click()
    page.wait_for_url(re.compile(r"/webhooks/\d+\?test=\d+"))
    expect(page.get_by_role("heading", level=1)).to_be_visible()


# Begins a swap of another region while the one of the fact runs
SECOND_SWAP = """
document.addEventListener("htmx:before:swap", () => {
  const ctx = { target: document.querySelector("h1") };
  document.dispatchEvent(new CustomEvent("htmx:before:swap", { detail: { ctx } }));
}, { once: true });
"""


def test_an_update_during_a_swap_takes_no_focus(fleet: Person, desk: Desk) -> None:
    page = desk(fleet)
    go(page, fleet, f"/cars/{fleet.car('Focused')}")
    page.get_by_role("link", name="Change Brand").click()
    page.get_by_role("textbox", name="Brand", exact=True).fill("Seat")
    page.evaluate(SECOND_SWAP)
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="Change Brand")).to_be_focused()


def test_the_way_back_leads_back(fleet: Person, desk: Desk) -> None:
    """From page 2, from another order, from a dialog, and after a changed fact."""
    page = desk(fleet)
    go(page, fleet, "/cars")
    first = page.get_by_role("table").get_by_role("row").nth(1)
    name = first.get_by_role("rowheader").inner_text()
    page.get_by_role("link", name="Next").click()
    expect(page.get_by_role("table").get_by_role("row")).to_have_count(11)
    page.get_by_role("button", name="Add car").click()
    expect(page.get_by_role("dialog", name="Add car")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("table").get_by_role("row")).to_have_count(11)  # still on page 2
    assert page.url.endswith("/cars?page=2")
    page.get_by_role("table").get_by_role("rowheader").get_by_role("link").first.click()
    page.get_by_role("link", name="Change Brand").click()
    page.get_by_role("textbox", name="Brand", exact=True).fill("Seat")
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="Change Brand")).to_be_focused()
    page.go_back()
    expect(page.get_by_role("table").get_by_role("row")).to_have_count(11)
    expect(page.get_by_role("table").get_by_text("Seat")).to_be_visible()
    page.go_back()
    expect(first.get_by_role("rowheader")).to_have_text(name)
    page.get_by_role("searchbox", name="Search cars").fill("Car 1")
    expect(page.get_by_role("table").get_by_role("row")).not_to_have_count(51)
    page.get_by_role("table").get_by_role("rowheader").get_by_role("link").first.click()
    expect(page.get_by_role("link", name="Change Brand")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("searchbox", name="Search cars")).to_have_value("Car 1")
    expect(page.get_by_role("table").get_by_role("row")).not_to_have_count(51)
