"""People in the console: adding, adding existing ones, one person's page, removing and deleting personal data."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.console import axe
from tests.console.conftest import Desk
from tests.support.people import Person, Town, web
from tests.support.servers import DEADLINE, RunningServer, eventually

expect.set_options(timeout=DEADLINE * 1000)


def kim(person: Person, **members: object) -> int:
    """A user whose name is Kim Lee."""
    return person.user(userData={"firstName": "Kim", "lastName": "Lee"}, **members)


def address_of(person: Person, user: int) -> str:
    return person.get(f"/users/{user}").json()["emailAddress"]


def fill(page: Page, first: str, last: str, address: str) -> None:
    page.get_by_label("First name").fill(first)
    page.get_by_label("Last name").fill(last)
    page.get_by_label("E-mail address").fill(address)


def test_a_user_is_added_and_assigned_next(carol: Person, desk: Desk) -> None:
    page = desk(carol)
    page.goto(f"/console/{carol.customer}/users/new")
    expect(page.get_by_role("heading", level=1)).to_have_text("Add person")
    fill(page, "Robin", "Berg", f"robin.{carol.customer}@example.org")
    page.get_by_role("button", name="Add person").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Robin Berg")
    expect(page.get_by_role("status").filter(has_text="Robin Berg is added.")).to_be_visible()
    (user,) = carol.get("/users").json()
    assert page.url.endswith(f"/console/{carol.customer}/users/{user['id']}?added")
    assign = page.get_by_role("button", name="Book", exact=True)
    assert (assign.get_attribute("href") or "").endswith(f"/assignments/new?user={user['id']}")


def test_first_names_are_ordered_as_people_do(town: Town) -> None:
    person = town.person("order")
    for first in ("Zoë", "Özlem", "Uwe", "Łukasz"):
        person.user(userData={"firstName": first, "lastName": "Becker"})
    with person.browser() as browser:
        page = browser.get(f"/{person.customer}/users").text
    assert re.findall(r"Becker, (\w+)", re.sub(r' aria-label="[^"]*"', "", page)) == ["Łukasz", "Özlem", "Uwe", "Zoë"]
    person.client.close()


def test_a_password_is_shown_once_and_copied(carol: Person, desk: Desk, server: RunningServer) -> None:
    page = desk(carol)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"/console/{carol.customer}/users/new")
    address = f"normal.{carol.customer}@example.org"
    fill(page, "Nora", "Maal", address)
    page.get_by_label("Type").select_option(label="With a password: signs in to the app")
    with page.expect_response("**/users/new") as answered:
        page.get_by_role("button", name="Add person").click()
    assert "content-encoding" not in answered.value.headers
    expect(page.get_by_role("status").filter(has_text="Nora Maal is added.")).to_be_visible()
    page.get_by_role("button", name="Copy password").click()
    expect(page.get_by_text("Copied", exact=True)).to_have_count(1)
    password = page.evaluate("navigator.clipboard.readText()")
    assert len(password) >= 16
    expect(page.get_by_text(password, exact=True)).to_be_visible()
    assert axe.faults(page) == []
    page.get_by_role("link", name="Show Nora Maal").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Nora Maal")
    assert password not in page.content()


def test_what_is_wrong_is_said_at_the_form(carol: Person, alice: Person, desk: Desk) -> None:
    taken = address_of(alice, alice.user())
    page = desk(carol)
    page.goto(f"/console/{carol.customer}/users/new")
    page.get_by_role("button", name="Add person").click()
    problem = page.get_by_role("alert", name="There is a problem")
    expect(problem.get_by_role("link")).to_have_text(
        ["Enter the first name.", "Enter the last name.", "Enter the e-mail address."]
    )
    expect(problem).to_be_focused()
    assert axe.faults(page) == []
    fill(page, "Kim", "Lee", "not an address")
    page.get_by_role("button", name="Add person").click()
    expect(problem).to_contain_text("This is not an e-mail address.")
    expect(page.get_by_label("E-mail address")).to_have_value("not an address")
    expect(page.get_by_label("E-mail address")).to_have_accessible_description(
        re.compile("This is not an e-mail address")
    )
    page.get_by_label("E-mail address").fill(taken)
    page.get_by_role("button", name="Add person").click()
    expect(problem).to_contain_text("A person with this address already exists")
    assert carol.get("/users").json() == []
    # An existing person is not added again, but linked
    page.get_by_role("link", name="Add the person with this address").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Add an existing person")
    expect(page.get_by_label("E-mail address")).to_have_value(taken)
    page.get_by_role("button", name="Add this person").click()
    expect(page.get_by_role("status").filter(has_text="Uma User is now one of your people.")).to_be_visible()
    assert [user["emailAddress"] for user in carol.get("/users").json()] == [taken]


def test_linking_says_what_is_wrong(carol: Person, desk: Desk) -> None:
    known = kim(carol)
    page = desk(carol)
    page.goto(f"/console/{carol.customer}/users")
    page.get_by_role("button", name="Add an existing person").click()
    address = page.get_by_role("dialog", name="Add an existing person").get_by_label("E-mail address")
    expect(address).to_be_focused()
    problem = page.get_by_role("alert", name="There is a problem")
    for typed, said in (
        ("", "Enter the e-mail address."),
        ("nonsense", "This is not an e-mail address."),
        ("nobody-at-all@example.org", "No person has this address."),
        (address_of(carol, known).upper(), "already one of your people"),
    ):
        address.fill(typed)
        page.get_by_role("button", name="Add this person").click()
        expect(problem).to_contain_text(said)
    assert axe.faults(page) == []
    page.get_by_role("link", name="Show this person").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Kim Lee")


def test_forms_work_without_a_script_and_keep_the_status(carol: Person) -> None:
    with carol.browser() as browser:
        form = {"first_name": "Kim", "last_name": "Lee", "type": "Anonymous"}
        answer = browser.post(f"/{carol.customer}/users/new", data=form)
        assert answer.status_code == 422
        form["address"] = f"plain.{carol.customer}@example.org"
        answer = browser.post(f"/{carol.customer}/users/new", data=form)
        (user,) = carol.get("/users").json()
        assert (answer.status_code, answer.headers["location"]) == (
            303, f"/console/{carol.customer}/users/{user['id']}?added",
        )  # fmt: skip
        assert browser.post(f"/{carol.customer}/users/new", data=form).status_code == 409
        nobody = {"address": "nobody-at-all@example.org"}
        assert browser.post(f"/{carol.customer}/users/link", data=nobody).status_code == 404


def test_a_users_page_tells_what_is_and_was(carol: Person, desk: Desk) -> None:
    user, van, pool = kim(carol), carol.car_with_box("Van"), carol.car_with_box("Pool car")
    carol.assignment(van, user, "2026-01-01T08:00:00Z", end="2026-01-02T08:00:00Z")
    carol.assignment(van, user, "2026-01-03T08:00:00Z")
    carol.assignment(pool, user, "2126-01-01T08:00:00Z", end="2126-01-02T08:00:00Z")
    carol.event(van, user)
    group = carol.group("Night shift")
    carol.put(f"/groups/{group}/users", {"userId": user})
    page = desk(carol)
    page.goto(f"/console/{carol.customer}/users/{user}")
    rows = page.get_by_role("table", name="Bookings").get_by_role("row")
    expect(rows).to_have_text([re.compile("Car.*State"), re.compile("Van.*Now.*Without end", re.S),
                               re.compile("Pool car.*Upcoming", re.S), re.compile("Van.*Past", re.S)])  # fmt: skip
    expect(page.get_by_role("table", name="Openings").get_by_role("row")).to_have_count(2)
    expect(page.get_by_role("link", name="Night shift")).to_be_visible()
    expect(page.get_by_text(address_of(carol, user))).to_be_visible()
    # Changes meanwhile appear by themselves
    carol.put("/assignments", {"carId": carol.car("Boxless"), "userId": user, "start": "2126-02-01T08:00:00Z"})
    asked = page.get_by_role("list", name="Open and failed requests")
    expect(asked).to_contain_text("Boxless")
    expect(asked).to_contain_text("Failed")
    assert axe.faults(page) == []


def test_a_user_is_removed_and_what_ends_is_said_before(carol: Person, desk: Desk) -> None:
    user, car = kim(carol), carol.car_with_box("Pool car")
    carol.assignment(car, user, "2026-01-01T08:00:00Z")
    page = desk(carol)
    page.goto(f"/console/{carol.customer}/users/{user}")
    page.get_by_role("button", name="Remove", exact=True).click()
    dialog = page.get_by_role("dialog", name="Remove Kim Lee")
    expect(dialog).to_contain_text("1 booking ends")
    expect(dialog).to_contain_text("Pool car")
    assert axe.faults(page) == []
    dialog.get_by_role("button", name="Remove", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("The person is removed")
    assert carol.get("/users").json() == []
    eventually(lambda: carol.get(f"/cars/{car}/assignments").json() == [], "the end of the assignment")


def test_a_person_is_erased_after_the_name_was_typed(carol: Person, desk: Desk) -> None:
    user, car = kim(carol), carol.car_with_box("Pool car")
    carol.assignment(car, user, "2026-01-01T08:00:00Z")
    for year in (2024, 2025):
        carol.assignment(car, user, f"{year}-01-01T08:00:00Z", end=f"{year}-01-02T08:00:00Z")
    carol.event(car, user)
    page = desk(carol)
    page.goto(f"/console/{carol.customer}/users/{user}")
    page.get_by_role("button", name="Remove", exact=True).click()
    dialog = page.get_by_role("dialog", name="Remove Kim Lee")
    expect(dialog).to_contain_text("1 booking ends")
    expect(dialog).to_contain_text("2 past bookings are deleted as well")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Delete personal data").click()
    dialog = page.get_by_role("dialog", name="Delete personal data of Kim Lee")
    goes = dialog.get_by_role("table", name="Deleted data").get_by_role("row")
    expect(goes.filter(has_text="upcoming")).to_have_text(
        "Current and upcoming bookingsended at once; webhooks are notified1"
    )
    expect(goes.filter(has_text="Past")).to_have_text("Past bookingsremoved at once; webhooks are notified2")
    expect(goes.filter(has_text="Openings")).to_have_count(0)
    stays = dialog.get_by_role("table", name="Kept without the person").get_by_role("row")
    expect(stays.filter(has_text="Openings")).to_have_text("Openings1")
    expect(stays.filter(has_text="at once")).to_have_count(0)
    expect(dialog.get_by_role("region", name="Kept data, and the reason")).to_contain_text("kept for another customer")
    assert axe.faults(page) == []
    dialog.get_by_label("Name or e-mail address").fill("Kim")
    dialog.get_by_role("button", name="Delete personal data").click()
    expect(dialog.get_by_role("alert", name="There is a problem")).to_contain_text("Nothing was deleted.")
    assert carol.get(f"/users/{user}").status_code == 200
    dialog.get_by_label("Name or e-mail address").fill(" kim  LEE ")
    dialog.get_by_role("button", name="Delete personal data").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("The personal data is deleted")
    assert carol.get(f"/users/{user}").status_code == 404
    eventually(lambda: carol.get(f"/cars/{car}/assignments").json() == [], "the end of the assignment")


def test_a_neighbours_user_is_nobody(alice: Person, bob: Person) -> None:
    user = alice.user()
    with bob.browser() as browser:
        for part in ("", "/remove", "/erase"):
            theirs = browser.get(f"/{bob.customer}/users/{user}{part}")
            nobodys = browser.get(f"/{bob.customer}/users/2147483647{part}")
            assert (theirs.status_code, nobodys.status_code) == (404, 404)
            said = [answer.text.replace(answer.headers["x-request-id"], "") for answer in (theirs, nobodys)]
            assert said[0] == said[1]
            assert browser.get(f"/{alice.customer}/users/{user}{part}").status_code == 404
        for part in ("remove", "erase"):
            form = {"name": address_of(alice, user)}
            assert browser.post(f"/{bob.customer}/users/{user}/{part}", data=form).status_code == 404
    assert alice.get(f"/users/{user}").status_code == 200


@axe.each_look
def test_axe_finds_nothing(alice: Person, desk: Desk, theme: str, width: int) -> None:
    user = kim(alice)
    page = desk(alice, color_scheme=theme, viewport={"width": width, "height": 900})
    for path in ("new", "link", f"{user}", f"{user}/remove", f"{user}/erase", "removed", "erased"):
        page.goto(f"/console/{alice.customer}/users/{path}")
        assert (path, axe.faults(page)) == (path, [])
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path


def test_pages_with_passwords_are_told_to_nobody_else(alice: Person, server: RunningServer) -> None:
    answer = web().get(f"{server.url}/console/{alice.customer}/users/new")
    assert answer.status_code == 303
    assert "/console/sign-in" in answer.headers["location"]
