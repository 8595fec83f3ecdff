"""Requests in the console: the change before and after it is saved, and the requester."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

import httpx
import pytest
from playwright.sync_api import expect

from keyrack.api.permissions import Role
from keyrack.assignments.failure_codes import NO_BOX, NO_SERVICE, TERMINATED, TEXTS
from tests.auth.test_clients import Program
from tests.console.conftest import Desk
from tests.support.people import Person, Town
from tests.support.servers import eventually

LAST = "2031-11-25T12:00:00Z"


def person_named(person: Person, first: str) -> int:
    return person.user(userData={"firstName": first, "lastName": f"Lee {person.customer}"})


def words(page: str) -> str:
    """The text of a page, with single blanks."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", page)))


def saved(browser: httpx.Client, person: Person, assignment: int, **fields: object) -> tuple[str, str]:
    """The page of a change's operation once it is finished, and its address."""
    row = person.get(f"/assignments/{assignment}").json()
    form = {"car": row["carId"], "user": row["userId"], "start_exact": row["start"], "end_exact": row["end"]}
    address = f"/{person.customer}/assignments/{assignment}/change"
    shown = browser.get(address).text
    times = {name: re.findall(rf'name="{name}"[^>]*value="([^"]*)"', shown)[0] for name in ("start", "end")}
    answer = browser.post(address, data={**times, **{name: str(value) for name, value in (form | fields).items()}})
    assert answer.status_code == 303, words(answer.text)
    path = answer.headers["location"].removeprefix("/console")
    return eventually(lambda: "Pending" not in (page := browser.get(path).text) and page, "the outcome"), path


def test_a_hand_over_names_the_old_and_the_new(carol: Person) -> None:
    kim, ann = person_named(carol, "Kim"), person_named(carol, "Ann")
    old, new = carol.car_with_box("Bereitschaft"), carol.car_with_box("Pool Nord")
    id = carol.assignment(old, kim, "2026-01-01T08:00:00Z", end=LAST)
    with carol.browser() as browser:
        page, _ = saved(browser, carol, id, user=ann, car=new)
        assert "Succeeded" in page
        assert "Bereitschaft → becomes Pool Nord" in words(page)
        assert re.search(r"Kim Lee \d+ → becomes Ann Lee", words(page))
        listed = words(browser.get(f"/{carol.customer}/operations?kind=change").text)
        assert "Bereitschaft before Pool Nord after" in listed
        assert re.search(r"Kim Lee \d+ before Ann Lee \d+ after", listed)
        assert "Bereitschaft before, Pool Nord after" in browser.get(f"/{carol.customer}/operations.csv").text


def test_the_list_fits_beside_the_menu(carol: Person, desk: Desk) -> None:
    """Without a scrolling region, a wider table would cross the border of its card."""
    carol.assignment(carol.car_with_box("Bereitschaft"), person_named(carol, "Kim"), "2026-01-01T08:00:00Z", end=LAST)
    page = desk(carol, viewport={"width": 1440, "height": 900})
    page.goto(f"/console/{carol.customer}/operations")
    region = page.get_by_role("region", name="Requests")
    assert region.evaluate("region => region.scrollWidth - region.clientWidth") <= 0


def test_a_failed_hand_over_shows_what_was_tried_and_tries_it_again(carol: Person) -> None:
    kim, ann = person_named(carol, "Kim"), person_named(carol, "Ann")
    id = carol.assignment(carol.car_with_box("Pool"), kim, "2026-01-01T08:00:00Z", end=LAST)
    boxless = carol.car("Boxless")
    with carol.browser() as browser:
        page, path = saved(browser, carol, id, user=ann, car=boxless)
        assert "Failed" in page and "Pool → becomes Boxless" in words(page) and "→ becomes Ann Lee" in words(page)
        again = unescape(re.findall(r'href="/console([^"]+)" data-dialog>Change and try again', page)[0])
        assert f"car={boxless}" in again and f"user={ann}" in again
        assert "Put a key box into Boxless" in page
        together = words(browser.get(f"/{carol.customer}/operations/outcomes?ids={path.rpartition('/')[2]}").text)
        assert "Pool → becomes Boxless" in together


INSTALL, SERVICE = "Put a key box into Boxless", "Check the service of the key box"
HINTS = {NO_BOX: INSTALL, NO_SERVICE: SERVICE, TERMINATED: SERVICE}


def test_a_failure_of_each_code_leads_to_its_hint(carol: Person) -> None:
    body = {"carId": carol.car("Boxless"), "userId": carol.user(), "start": "2026-01-01T08:00:00Z"}
    id = carol.put("/assignments", body).headers["Operation-Id"]
    eventually(lambda: carol.get(f"/operations/{id}").json()["state"] == "Failed", "the outcome")
    fail = "update operation set error_code = $2, error_message = $3 where operation_id::text = $1"
    pages = [f"/{carol.customer}/operations/{id}", f"/{carol.customer}/operations/outcomes?ids={id}"]
    with carol.browser() as browser:
        for code, text in TEXTS.items():
            carol.sql.execute(fail, id, code, "Old words.")
            for page in pages:
                shown = words(browser.get(page).text)
                assert text in shown and "Old words." not in shown
                assert [hint for hint in (INSTALL, SERVICE) if hint in shown] == [*filter(None, [HINTS.get(code)])]
        carol.sql.execute(fail, id, "of-later", TEXTS[NO_BOX])
        for page in pages:
            shown = words(browser.get(page).text)
            assert TEXTS[NO_BOX] in shown and INSTALL not in shown, "a text decides nothing"


def test_a_change_of_times_alone_moves_nobody(carol: Person) -> None:
    id = carol.assignment(carol.car_with_box("Pool"), person_named(carol, "Kim"), "2026-01-01T08:00:00Z", end=LAST)
    with carol.browser() as browser:
        page, _ = saved(browser, carol, id, end="2031-11-26T12:00", end_exact="")
        assert "becomes" not in page and "26 Nov 2031" in page


def test_who_asked_is_named_on_the_page_and_in_the_list(carol: Person, bob: Person) -> None:
    car, user = carol.car_with_box("Pool"), carol.user()
    program = replace(carol, headers=carol.headers | Program(carol, "assignments:write").headers())
    body = {"carId": car, "userId": user, "start": "2026-01-01T08:00:00Z"}
    ids = {
        carol.username: carol.put("/assignments", body).headers["Operation-Id"],
        "Booking": program.put("/assignments", body).headers["Operation-Id"],
    }
    with carol.browser() as browser, bob.browser() as stranger:
        for name, id in ids.items():
            assert f"Requested by {name}" in words(browser.get(f"/{carol.customer}/operations/{id}").text)
            assert stranger.get(f"/{bob.customer}/operations/{id}").status_code == 404
        listed = words(browser.get(f"/{carol.customer}/operations").text)
        assert "Requested by" in listed and all(name in listed for name in ids)


def test_saving_unchanged_says_so(carol: Person, desk: Desk) -> None:
    id = carol.assignment(carol.car_with_box("Pool"), carol.user(), "2026-01-01T08:00:00Z", end=LAST)
    page = desk(carol)
    page.goto(f"/console/{carol.customer}/assignments/{id}")
    page.get_by_role("button", name="Change").click()
    dialog = page.get_by_role("dialog", name="Change booking")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_text("No changes to save.")).to_be_visible()
    expect(dialog.get_by_role("button", name="Save")).to_be_visible()
    assert carol.get("/operations?$filter=kind eq 'UpdateAssignment'").json() == []


MOVES = {
    "to tomorrow": ({"start": "2031-11-20T08:00", "start_exact": ""}, True),
    "to another car": ({"car": "{other}"}, True),
    "to another user": ({"user": "{ann}"}, True),
    "to an end in the past": ({"end": "2026-01-02T08:00", "end_exact": ""}, True),
    "to a later end": ({"end": "2031-11-30T08:00", "end_exact": ""}, False),
    "to an earlier start": ({"start": "2025-12-31T08:00", "start_exact": ""}, False),
}


@pytest.mark.parametrize(("fields", "is_loss"), MOVES.values(), ids=MOVES.keys())
def test_a_move_of_an_assignment_in_force_says_what_it_takes_away(
    carol: Person, fields: dict[str, str], is_loss: bool
) -> None:
    kim, ann = person_named(carol, "Kim"), person_named(carol, "Ann")
    car, other = carol.car_with_box("Pool"), carol.car_with_box("Other")
    id = carol.assignment(car, kim, "2026-01-01T08:00:00Z", end=LAST)
    known = {"other": other, "ann": ann}
    query = {name: value.format(**known) for name, value in fields.items()}
    with carol.browser() as browser:
        for shown in (
            browser.get(f"/{carol.customer}/assignments/{id}/change", params=query),
            browser.get(
                f"/{carol.customer}/assignments/{id}/change/check",
                params={"car": car, "user": kim, "start": "2026-01-01T08:00", "start_exact": "2026-01-01T08:00:00Z",
                        "end": "2031-11-25T12:00", "end_exact": LAST, **query},
            ),
        ):  # fmt: skip
            text = words(shown.text)
            assert shown.status_code == 200 and "Changes:" in text and "becomes" in text
            assert ("loses it when you save" in text) == is_loss
            assert ("It can be opened again from Thu, 20 Nov 2031" in text) == ("2031-11-20" in str(fields))


def test_a_move_of_an_assignment_to_come_takes_nothing_away(carol: Person) -> None:
    id = carol.assignment(carol.car_with_box("Pool"), carol.user(), "2031-01-01T08:00:00Z", end=LAST)
    with carol.browser() as browser:
        page = browser.get(f"/{carol.customer}/assignments/{id}/change", params={"start": "2031-02-01T08:00"}).text
        assert "Changes:" in page and "loses it" not in page
        same = browser.get(f"/{carol.customer}/assignments/{id}/change").text
        assert "Changes:" not in same


def test_a_viewer_sees_what_it_asked_for_before(town: Town, carol: Person) -> None:
    """A withdrawn role does not hide earlier requests."""
    dispatcher = town.colleague(carol, "was a dispatcher", Role.DISPATCHER)
    body = {"carId": carol.car_with_box("Pool"), "userId": carol.user(), "start": "2026-01-01T08:00:00Z"}
    id = dispatcher.put("/assignments", body).headers["Operation-Id"]
    number = carol.sql.value("select manager_id from manager where username = $1", dispatcher.username)
    steps = [{"op": "replace", "path": "/role", "value": "Viewer"}]
    assert carol.patch(f"/managers/{number}", steps).status_code == 204
    eventually(lambda: dispatcher.get("/operations").status_code == 403, "the role")
    with dispatcher.browser() as browser:
        eventually(lambda: "Succeeded" in browser.get(f"/{carol.customer}/operations/{id}").text, "the outcome")
    dispatcher.client.close()
