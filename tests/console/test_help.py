"""Help: the API reference with calls to try, and the first steps."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.console import axe
from tests.console.conftest import Desk
from tests.support.people import Person
from tests.support.servers import DEADLINE, eventually

expect.set_options(timeout=DEADLINE * 1000)


def reference(page: Page, person: Person) -> None:
    """Open the reference, with the calls of cars."""
    page.goto(f"/console/{person.customer}/help/reference")
    expect(page.get_by_role("heading", level=1)).to_have_text("API reference")
    page.get_by_role("heading", name=re.compile("^Cars .* Expand operation$")).click()


def call(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def test_a_read_and_a_write_are_tried(alice: Person, desk: Desk) -> None:
    alice.car("Pool car of the reference")
    page = desk(alice)
    reference(page, alice)
    call(page, "GET /cars List cars")
    page.get_by_role("button", name="Try it out").click()
    page.get_by_role("button", name="Execute").click()
    expect(page.get_by_role("region", name="Calls")).to_contain_text("Pool car of the reference")
    call(page, "GET /cars List cars")

    call(page, "PUT /cars Create a car")
    page.get_by_role("button", name="Try it out").click()
    page.get_by_role("region", name="Calls").get_by_role("textbox").last.fill('{"name": "Made in the reference"}')
    page.get_by_role("button", name="Execute").click()
    eventually(lambda: "Made in the reference" in {row["name"] for row in alice.get("/cars").json()}, "the car")
    assert not axe.LONG or axe.faults(page) == []  # it takes ten seconds for all calls of the API


@axe.each_look
def test_the_pages_are_for_everybody(alice: Person, desk: Desk, theme: str, width: int) -> None:
    page = desk(alice, color_scheme=theme, viewport={"width": width, "height": 800})
    page.goto(f"/console/{alice.customer}/help")
    expect(page.get_by_role("heading", level=1)).to_have_text("Help")
    assert axe.faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    reference(page, alice)
    call(page, "GET /cars List cars")
    expect(page.get_by_role("button", name="Try it out")).to_be_visible()
    assert axe.faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
