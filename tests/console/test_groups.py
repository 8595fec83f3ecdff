"""A group in the console: renaming, its members, deleting."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.console import axe
from tests.console.conftest import Desk
from tests.support.people import Person
from tests.support.servers import DEADLINE

expect.set_options(timeout=DEADLINE * 1000)


def test_a_group_is_renamed_where_its_name_stands(carol: Person, desk: Desk) -> None:
    group = carol.group("Airport")
    carol.group("Pool")
    page = desk(carol)
    page.goto(f"/console/{carol.customer}/groups/{group}")
    page.get_by_role("button", name="Rename").press("Enter")
    name = page.get_by_label("Name", exact=True)
    expect(name).to_be_focused()
    name.fill("Pool")
    name.press("Enter")
    expect(page.get_by_role("alert", name="There is a problem")).to_contain_text("Another group has this name already.")
    expect(name).to_have_value("Pool")
    assert axe.faults(page) == []
    name.fill("Harbour")
    name.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Harbour")
    expect(page.get_by_role("button", name="Rename")).to_be_focused()
    assert carol.get(f"/groups/{group}").json()["name"] == "Harbour"


def test_two_who_rename_a_group_are_told(carol: Person, desk: Desk) -> None:
    group = carol.group("Airport")
    page = desk(carol)
    page.goto(f"/console/{carol.customer}/groups/{group}?rename")
    carol.patch(f"/groups/{group}", [{"op": "replace", "path": "/name", "value": "Terminal 1"}])
    name = page.get_by_label("Name", exact=True)
    name.fill("Terminal 2")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert", name="There is a problem")).to_contain_text("Another person renamed the group")
    expect(page.get_by_text("The new name of the group is Terminal 1.")).to_be_visible()
    expect(name).to_have_value("Terminal 2")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Terminal 2")


def test_several_are_put_in_at_once_and_taken_out(carol: Person, desk: Desk) -> None:
    group = carol.group("Airport")
    cars = {name: carol.car(name) for name in ("Pool car 1", "Pool car 2", "Van 1", "Van 2")}
    carol.put(f"/groups/{group}/cars", {"carId": cars["Van 2"]})
    page = desk(carol)
    page.goto(f"/console/{carol.customer}/groups/{group}")
    page.get_by_role("button", name="Add cars").press("Enter")
    dialog = page.get_by_role("dialog", name="Add cars")
    boxes = dialog.get_by_role("checkbox")
    expect(boxes).to_have_count(3)  # Van 2 is in it already
    dialog.get_by_role("checkbox", name="Van 1").press("Space")
    search = dialog.get_by_role("searchbox", name="Search cars")
    search.fill("pool")
    expect(dialog.get_by_role("status").filter(has_text="3 found")).to_be_visible()
    expect(dialog.get_by_role("checkbox", name="Van 1")).to_be_checked()  # what is ticked stays
    search.fill("car 1")
    search.press("Enter")  # which searches, and adds nothing
    expect(boxes).to_have_count(2)
    dialog.get_by_role("checkbox", name="Pool car 1").check()
    assert axe.faults(page) == []
    dialog.get_by_role("button", name="Add to group").click()
    table = page.get_by_role("table", name="Cars")
    expect(table.get_by_role("row")).to_have_text(["Name", "Pool car 1", "Van 1", "Van 2"])
    # And out again, by keyboard
    bar = page.get_by_role("group", name="Selected: Cars")
    expect(bar).to_be_hidden()
    table.get_by_label("Select Van 1").press("Space")
    table.get_by_label("Select Van 2").press("Space")
    expect(bar).to_contain_text("2 selected")
    bar.get_by_role("button", name="Remove from the group").press("Enter")
    expect(table.get_by_role("row")).to_have_text(["Name", "Pool car 1"])
    assert [car["name"] for car in carol.get(f"/groups/{group}/cars").json()] == ["Pool car 1"]
    assert len(carol.get("/cars").json()) == 4


@pytest.mark.parametrize("what, rows", [("people", "users"), ("key boxes", "products"), ("services", "services")])
def test_each_kind_of_members_is_put_in(carol: Person, desk: Desk, what: str, rows: str) -> None:
    group = carol.group("Airport")
    carol.user()
    carol.service(carol.product(), "Box")
    page = desk(carol)
    page.goto(f"/console/{carol.customer}/groups/{group}")
    page.get_by_role("button", name=f"Add {what}").click()
    page.get_by_role("dialog", name=f"Add {what}").get_by_role("checkbox").check()
    page.get_by_role("button", name="Add to group").click()
    expect(page.get_by_role("table", name=what.capitalize()).get_by_role("row")).to_have_count(2)
    assert len(carol.get(f"/groups/{group}/{rows}").json()) == 1


def test_what_is_refused_is_told_row_by_row(carol: Person) -> None:
    group, van, pool = carol.group("Airport"), carol.car("Van"), carol.car("Pool car")
    carol.put(f"/groups/{group}/cars", {"carId": van})
    with carol.browser() as browser:
        answer = browser.post(f"/{carol.customer}/groups/{group}/add/cars", data={"id": [van, pool]})
        assert "1 done, 1 rejected." in answer.text
        assert re.search(r"Van</th>.*The car is already assigned to the group\.", answer.text, re.S)
        assert len(carol.get(f"/groups/{group}/cars").json()) == 2
        assert browser.post(f"/{carol.customer}/groups/{group}/add/cars").status_code == 422
        assert browser.post(f"/{carol.customer}/groups/{group}/remove/cars").status_code == 422
        many = {"id": list(range(1, 202))}
        assert "At most 200" in browser.post(f"/{carol.customer}/groups/{group}/remove/cars", data=many).text
        assert browser.get(f"/{carol.customer}/groups/{group}/add/keys").status_code == 404


def test_only_an_empty_group_is_deleted(carol: Person, desk: Desk) -> None:
    group = carol.group("Airport")
    carol.put(f"/groups/{group}/cars", {"carId": carol.car("Van")})
    carol.put(f"/groups/{group}/users", {"userId": carol.user()})
    page = desk(carol)
    page.goto(f"/console/{carol.customer}/groups/{group}")
    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog", name="Delete Airport")
    expect(dialog).to_contain_text("Only an empty group can be deleted.")
    expect(dialog.get_by_role("listitem")).to_have_text(["Cars: 1", "People: 1"])
    assert axe.faults(page) == []
    dialog.get_by_role("button", name="Remove all members").click()
    expect(dialog).to_contain_text("The group is empty now.")
    dialog.get_by_role("button", name="Delete").click()
    page.wait_for_url(f"**/console/{carol.customer}/groups")
    assert (carol.get("/groups").json(), len(carol.get("/cars").json())) == ([], 1)


def test_many_members_come_in_pages(carol: Person, desk: Desk) -> None:
    group = carol.group("Airport")
    for number in range(51):
        carol.put(f"/groups/{group}/cars", {"carId": carol.car(f"Car {number:02}")})
    page = desk(carol)
    page.goto(f"/console/{carol.customer}/groups/{group}")
    expect(page.get_by_text("1 to 50 of 51")).to_be_visible()
    page.get_by_role("link", name="Next").click()
    expect(page.get_by_role("table", name="Cars").get_by_role("row")).to_have_text(["Name", "Car 50"])
    page.goto(f"/console/{carol.customer}/groups/{group}?cars=99")
    page.get_by_role("link", name="Show the first page").click()
    expect(page.get_by_text("1 to 50 of 51")).to_be_visible()


def test_a_neighbours_group_is_nobodys(alice: Person, bob: Person) -> None:
    group, car = alice.group("Hers"), bob.car("His")
    with bob.browser() as browser:
        for part in ("", "/delete", "/add/cars"):
            assert browser.get(f"/{bob.customer}/groups/{group}{part}").status_code == 404
        assert browser.post(f"/{bob.customer}/groups/{group}", data={"name": "His"}).status_code == 404
        for part in ("delete", "empty", "add/cars", "remove/cars"):
            assert browser.post(f"/{bob.customer}/groups/{group}/{part}", data={"id": car}).status_code == 404, part
    assert alice.get(f"/groups/{group}").json()["name"] == "Hers"


@axe.each_look
def test_axe_finds_nothing(alice: Person, desk: Desk, theme: str, width: int) -> None:
    group, empty = alice.group(), alice.group()
    for kind, member, id in (("cars", "carId", alice.car()), ("users", "userId", alice.user())):
        alice.put(f"/groups/{group}/{kind}", {member: id})
    page = desk(alice, color_scheme=theme, viewport={"width": width, "height": 900})
    for path in (f"{group}", f"{group}?rename", f"{group}/add/cars", f"{group}/delete", f"{empty}/delete"):
        page.goto(f"/console/{alice.customer}/groups/{path}")
        assert (path, axe.faults(page)) == (path, [])
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
