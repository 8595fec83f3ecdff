"""Forms in closed dialogs keep their entries."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.console import axe
from tests.console.conftest import Desk
from tests.console.test_assignment_forms import MONDAY, WEDNESDAY, choose
from tests.support.people import Person

pytestmark = pytest.mark.cluster

# A page, its button, and a field of the dialog
DIALOGS = [
    ("cars", "Add car", "Name"),
    ("users", "Add person", "E-mail address"),
    ("groups", "Add group", "Name"),
    ("webhooks", "Add webhook", "Address"),
    ("settings/managers", "Invite a person", "E-mail address"),
]
BACK = "Your earlier entries are restored."


def leave(page: Page, way: str) -> None:
    if way == "back":
        page.go_back()
    elif way == "Escape":
        page.keyboard.press("Escape")
    else:
        page.get_by_role("dialog").get_by_role("button", name=way).or_(
            page.get_by_role("dialog").get_by_role("link", name=way)
        ).click()
    expect(page.get_by_role("dialog")).to_have_count(0)


@pytest.mark.parametrize(("path", "button", "field"), DIALOGS, ids=[path for path, _, _ in DIALOGS])
def test_a_closed_form_is_there_again_until_it_is_cancelled(
    carol: Person, desk: Desk, path: str, button: str, field: str
) -> None:
    page = desk(carol)
    page.goto(f"/console/{carol.customer}/{path}")
    opener = page.get_by_role("button", name=button, exact=True).first
    box = page.get_by_role("dialog").get_by_label(field, exact=True)
    opener.click()
    box.fill("half of it")
    for way in ("Escape", "back", "Close"):
        leave(page, way)
        opener.click()
        expect(box).to_have_value("half of it")
        expect(page.get_by_role("dialog").get_by_text(BACK)).to_be_visible()
    assert axe.faults(page) == []
    leave(page, "Cancel")
    opener.click()
    expect(box).to_have_value("")
    expect(page.get_by_text(BACK)).to_have_count(0)


def test_an_assignment_is_filled_in_again_with_what_was_chosen(carol: Person, desk: Desk) -> None:
    """The entries return for the same car only: the form of another car is empty."""
    kim = carol.user(userData={"firstName": "Kim", "lastName": "Lee"})
    address = carol.get(f"/users/{kim}").json()["emailAddress"]
    car, other = carol.car_with_box("Pool car"), carol.car_with_box("Another")
    page = desk(carol)
    page.goto(f"/console/{carol.customer}/cars/{car}")
    page.get_by_role("button", name="Book", exact=True).first.click()
    choose(page, "Person", "Kim")
    page.get_by_label("Start").fill(MONDAY)
    page.get_by_label("End", exact=True).fill(WEDNESDAY)
    leave(page, "Escape")
    page.goto(f"/console/{carol.customer}/cars/{other}")
    page.get_by_role("button", name="Book", exact=True).first.click()
    expect(page.get_by_label("End", exact=True)).to_have_value("")
    leave(page, "Escape")
    page.goto(f"/console/{carol.customer}/cars/{car}")
    page.get_by_role("button", name="Book", exact=True).first.click()
    expect(page.get_by_text(BACK)).to_be_visible()
    expect(page.get_by_role("combobox", name="Person")).to_have_value(f"Kim Lee, {address}")
    expect(page.get_by_label("Start")).to_have_value(MONDAY)
    expect(page.get_by_label("End", exact=True)).to_have_value(WEDNESDAY)
    page.get_by_role("dialog").get_by_role("button", name="Book").click()
    expect(page.get_by_text("Done")).to_be_visible()
    page.get_by_role("dialog").get_by_role("link", name="OK", exact=True).click()
    page.get_by_role("button", name="Book", exact=True).first.click()
    expect(page.get_by_label("End", exact=True)).to_have_value("")
    expect(page.get_by_text(BACK)).to_have_count(0)


def test_what_was_refused_is_kept_too(carol: Person, desk: Desk) -> None:
    page = desk(carol)
    page.goto(f"/console/{carol.customer}/users")
    page.get_by_role("button", name="Add person", exact=True).first.click()
    box = page.get_by_role("dialog").get_by_label("E-mail address", exact=True)
    box.fill("not an address")
    page.get_by_role("dialog").get_by_role("button", name="Add person").click()
    expect(page.get_by_role("alert", name="There is a problem")).to_be_visible()
    leave(page, "Escape")
    page.get_by_role("button", name="Add person", exact=True).first.click()
    expect(box).to_have_value("not an address")
