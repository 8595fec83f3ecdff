"""Booking in the console: Kim gets the pool car from Monday to Wednesday, and the result appears by itself."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager, ExitStack
from datetime import datetime, timedelta
from html import unescape
from urllib.parse import quote
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Page, Route, expect

from tests.console.conftest import Desk
from tests.support.event_stream import watching
from tests.support.people import PASSWORD, Person, Town, done, nobody_works
from tests.support.servers import eventually

pytestmark = pytest.mark.cluster

MONDAY, WEDNESDAY = "2031-11-24T08:00", "2031-11-26T18:00"


@pytest.fixture
def kim(carol: Person) -> int:
    return carol.user(userData={"firstName": "Kim", "lastName": f"Lee {carol.customer}"})


def choose(page: Page, field: str, text: str, option: str | None = None) -> None:
    """Type into a search, and choose the result."""
    box = page.get_by_role("combobox", name=field)
    box.fill(text)
    page.get_by_role("option", name=option or text).click()


def checked(page: Page) -> AbstractContextManager[object]:
    """Within the block, the form checks its values. A later check would carry out pending work."""
    return page.expect_response(lambda answer: "/check?" in answer.url and f"end={quote(WEDNESDAY)}" in answer.url)


def begin(page: Page, person: Person) -> None:
    page.goto(f"/console/{person.customer}/assignments/board")
    page.get_by_role("button", name="Book", exact=True).click()
    expect(page.get_by_role("dialog", name="New booking")).to_be_visible()


def fill(page: Page, car: str, start: str = MONDAY, end: str = WEDNESDAY) -> None:
    choose(page, "Car", car)
    choose(page, "Person", "Kim")
    page.get_by_label("Start").fill(start)
    page.get_by_label("End", exact=True).fill(end)


def test_kim_gets_the_pool_car(carol: Person, kim: int, desk: Desk) -> None:
    car = carol.car_with_box("Pool car")
    page = desk(carol)
    page.goto(f"/console/{carol.customer}/assignments/new")
    choose(page, "Car", "Pool")
    choose(page, "Person", "Kim")
    page.get_by_label("Start").fill(MONDAY)
    with checked(page):
        page.get_by_label("End", exact=True).fill(WEDNESDAY)
    with nobody_works(carol):
        page.get_by_role("button", name="Book").click()
        expect(page.get_by_text("Being processed")).to_be_visible()
    expect(page.get_by_text("Done")).to_be_visible()
    (row,) = carol.get(f"/cars/{car}/assignments").json()
    assert (row["userId"], row["start"], row["end"]) == (kim, "2031-11-24T08:00:00Z", "2031-11-26T18:00:00Z")


UNHURRIED = """
globalThis.told = new Promise((done) => document.addEventListener("keyrack:changed-assignments", done, { once: true }));
const real = globalThis.setTimeout;
globalThis.setTimeout = (act, ms, ...more) => ms >= 1000 ? 0 : real(act, ms, ...more);
"""


@pytest.mark.parametrize("where", ["board", "page"])
def test_an_outcome_that_was_quicker_than_the_page_is_not_waited_for(
    carol: Person, kim: int, desk: Desk, where: str
) -> None:
    """The page does not poll: it has the result from the live update, or not at all."""
    car = carol.car_with_box("Pool car")
    page = desk(carol)
    page.context.add_init_script(UNHURRIED)
    with ExitStack() as worker:
        worker.enter_context(nobody_works(carol))
        asked = {"carId": car, "userId": kim, "start": f"{MONDAY}:00Z", "end": f"{WEDNESDAY}:00Z"}
        operation = carol.put("/assignments", asked).headers["Operation-Id"]
        if where == "board":
            page.goto(f"/console/{carol.customer}/assignments/board?from=2031-11-24")

        def late(route: Route) -> None:
            """Returns that it is pending, after the result was announced."""
            answer = route.fetch()
            with watching(carol, "?topics=assignments") as news:
                worker.close()
                news.hears("assignments")
            if where == "board":
                page.evaluate("told.then(() => true)")
            route.fulfill(response=answer)

        page.route("**/operations/*", late, times=1)
        if where == "board":
            page.get_by_role("button", name=re.compile("Kim Lee.*, Being processed")).click()
        else:
            page.goto(f"/console/{carol.customer}/operations/{operation}")
        expect(page.get_by_text("Done")).to_be_visible()


def test_a_page_of_its_own_hears_of_the_outcome(carol: Person, kim: int, desk: Desk) -> None:
    car = carol.car_with_box("Pool car")
    page = desk(carol)
    page.context.add_init_script(UNHURRIED)
    with checked(page):
        page.goto(f"/console/{carol.customer}/assignments/new?car={car}&user={kim}&start={MONDAY}&end={WEDNESDAY}")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    with nobody_works(carol):
        page.get_by_role("button", name="Book").click()
        expect(page.get_by_text("Being processed")).to_be_visible()
    expect(page.get_by_text("Done")).to_be_visible()


def test_times_that_are_over_are_said_to_be(carol: Person, kim: int) -> None:
    """A wrong year would succeed, and give access to no person."""
    car, over = (
        carol.car_with_box("Pool car"),
        "These times are in the past, so the booking opens no car.",
    )
    with carol.browser() as browser:
        address = f"/{carol.customer}/assignments/new/check?car={car}&user={kim}"
        assert over in browser.get(f"{address}&start=2025-11-24T08:00&end=2025-11-25T08:00").text
        for times in ("start=2025-11-24T08:00&end=2099-11-25T08:00", "start=2025-11-24T08:00&no_end=true"):
            assert over not in browser.get(f"{address}&{times}").text


def test_an_overlap_with_oneself_has_no_others(carol: Person, kim: int) -> None:
    car, ann = carol.car_with_box("Pool car"), carol.user(userData={"firstName": "Ann", "lastName": "Lee"})
    carol.assignment(car, kim, "2031-11-24T08:00:00Z", end="2031-11-26T18:00:00Z")
    with carol.browser() as browser:
        address = f"/{carol.customer}/assignments/new/check?car={car}&start=2031-11-25T08:00&end=2031-11-27T08:00"
        own = browser.get(f"{address}&user={kim}").text
        assert (
            f"Kim Lee {carol.customer} has a booking of the car at that time already." in own
            and "and the others" not in own
        )
        assert "Ann Lee and the others can open it" in browser.get(f"{address}&user={ann}").text
        carol.assignment(car, ann, "2031-11-24T08:00:00Z", end="2031-11-26T18:00:00Z")
        assert f"Kim Lee {carol.customer} and the others can open it" in browser.get(f"{address}&user={kim}").text


def test_a_failure_says_why_and_how_to_mend_it(carol: Person, kim: int, desk: Desk) -> None:
    car = carol.car("Boxless")
    page = desk(carol)
    page.goto(f"/console/{carol.customer}/assignments/new?car={car}&user={kim}&start={MONDAY}&end={WEDNESDAY}")
    expect(page.get_by_text("There is no key box installed in the car.")).to_be_visible()
    page.get_by_role("button", name="Book").click()
    expect(page.get_by_text("Failed")).to_be_visible()
    expect(page.get_by_text("There is no key box installed in the car.")).to_be_visible()
    mend = page.get_by_role("link", name="Put a key box into Boxless")
    expect(mend).to_have_attribute("href", f"/console/{carol.customer}/cars/{car}")
    carol.box_in(car)
    page.get_by_role("link", name="Change and try again").click()
    expect(page.get_by_label("Start")).to_have_value(MONDAY)
    expect(page.get_by_role("combobox", name="Car")).to_have_value("Boxless")
    page.get_by_role("button", name="Book").click()
    expect(page.get_by_text("Done")).to_be_visible()


def test_overlaps_are_shown_before_one_asks(carol: Person, kim: int, desk: Desk) -> None:
    car, other = carol.car_with_box("Pool car"), carol.user(userData={"firstName": "Ada", "lastName": "Byron"})
    carol.assignment(car, other, "2031-11-25T10:00:00Z", end="2031-11-25T12:00:00Z")
    page = desk(carol)
    page.goto(f"/console/{carol.customer}/assignments/new?car={car}&user={kim}&start={MONDAY}")
    expect(page.get_by_text("Double booking: Pool car is booked at that time.")).not_to_be_visible()
    page.get_by_label("End", exact=True).fill(WEDNESDAY)
    page.get_by_label("End", exact=True).blur()
    expect(page.get_by_text("Double booking: Pool car is booked at that time.")).to_be_visible()
    expect(page.get_by_role("listitem").filter(has_text="Ada Byron: Tue, 25 Nov 2031")).to_be_visible()
    page.get_by_role("button", name="Book").click()
    expect(page.get_by_role("alert").filter(has_text="There is a problem")).to_be_focused()
    expect(page.get_by_role("listitem").filter(has_text="Ada Byron")).to_be_visible()
    assert len(carol.get(f"/cars/{car}/assignments").json()) == 1
    page.get_by_label("Book anyway").check()
    page.get_by_role("button", name="Book").click()
    expect(page.get_by_text("Done")).to_be_visible()
    assert len(carol.get(f"/cars/{car}/assignments").json()) == 2


def test_dates_first_then_what_is_free(carol: Person, kim: int, desk: Desk) -> None:
    taken, _free = carol.car_with_box("Pool A"), carol.car_with_box("Pool B")
    carol.assignment(taken, kim, "2031-11-25T10:00:00Z", end="2031-11-25T12:00:00Z")
    page = desk(carol)
    page.goto(f"/console/{carol.customer}/assignments/new?start={MONDAY}&end={WEDNESDAY}")
    page.get_by_label("Only free cars").check()
    page.get_by_role("combobox", name="Car").fill("Pool")
    expect(page.get_by_role("option")).to_have_text(["Pool B"])
    page.keyboard.press("Escape")
    page.get_by_label("Only free cars").uncheck()
    page.get_by_role("combobox", name="Car").fill("Pool ")
    expect(page.get_by_role("option")).to_have_text(["Pool A", "Pool B"])


def test_cars_and_users_are_found_by_all_that_is_known(carol: Person, desk: Desk) -> None:
    golf = carol.car("Golf", licensePlate="B-KR 99", vin="WVWZZZ1KZAW000001", brand="Volkswagen")
    uma = carol.user("uma.byte@example.org", userData={"firstName": "Uma", "lastName": "Byte"})
    with carol.browser() as client:
        root = f"/{carol.customer}/choices"
        for text in ("gol", "kr 99", "zzz1kz", "volks", 'golf "99'):
            found = client.get(f"{root}/cars", params={"q": text}).json()
            assert [option["value"] for option in found["options"]] == [golf], text
        for text in ("bkr99", "B-KR99", "Vólks"):
            found = client.get(f"{root}/cars", params={"q": text}).json()
            assert [option["value"] for option in found["options"]] == [golf], text
        for text in ("uma", "byte", "uma.byte@example", "byte uma", "ÜMA"):
            found = client.get(f"{root}/users", params={"q": text}).json()
            assert [option["value"] for option in found["options"]] == [uma], text
        vans = [carol.car(f"Van {number}") for number in range(20)]
        found = client.get(f"{root}/cars", params={"q": ""}).json()
        assert (len(found["options"]), found["total"]) == (20, 21)
        other, quoted = carol.car("Van 0", licensePlate="Van 1"), carol.car("O'Van {typed}")
        for text, first in (("VAN  1", [other, vans[1]]), ("van 19", [vans[19]]), ("o'van", [quoted])):
            found = client.get(f"{root}/cars", params={"q": text}).json()
            assert [option["value"] for option in found["options"]][: len(first)] == first, text


def test_neighbours_cars_and_users_are_not_there(carol: Person, bob: Person, kim: int) -> None:
    car, theirs, them = carol.car_with_box(), bob.car_with_box("Bob's"), bob.user("bobs@example.org")
    with carol.browser() as client:
        root = f"/{carol.customer}"
        assert client.get(f"{root}/choices/cars", params={"q": "Bob"}).json() == {"options": [], "total": 0}
        assert client.get(f"{root}/choices/users", params={"q": "bobs"}).json() == {"options": [], "total": 0}
        for fields in ({"car": theirs, "user": kim}, {"car": car, "user": them}, {"car": 0, "user": "x"}):
            answer = client.post(f"{root}/assignments/new", data={**fields, "start": MONDAY, "end": WEDNESDAY})
            assert answer.status_code == 422
            assert "This no longer exists. Choose another one." in answer.text
            assert "Bob" not in answer.text and "bobs" not in answer.text
        there = bob.assignment(theirs, them)
        for page in ("", "/change", "/change/check", "/end"):
            assert client.get(f"{root}/assignments/{there}{page}").status_code == 404
        assert client.post(f"{root}/assignments/{there}/end", data={"key": "x"}).status_code == 404
        assert client.get(f"/{bob.customer}/choices/cars").status_code == 404
    assert len(bob.get(f"/cars/{theirs}/assignments").json()) == 1


def test_what_is_sent_twice_is_asked_for_once(carol: Person, kim: int) -> None:
    car = carol.car_with_box()
    fields = {"car": car, "user": kim, "start": MONDAY, "end": WEDNESDAY, "key": "8f7d1c1e-5a59-4c35-9ad0-2c3b8a1f0e11"}
    with carol.browser() as client, nobody_works(carol):
        first, second = (client.post(f"/{carol.customer}/assignments/new", data=fields) for _ in range(2))
        assert (first.status_code, second.status_code) == (303, 303)
        assert first.headers["location"] == second.headers["location"]


def test_by_keyboard_alone(carol: Person, kim: int, desk: Desk) -> None:
    carol.car_with_box("Pool car")
    page = desk(carol)
    begin(page, carol)
    expect(page.get_by_role("combobox", name="Car")).to_be_focused()
    for text, name in (("pool", "Pool car"), ("kim", "Kim Lee")):
        page.keyboard.type(text)
        expect(page.get_by_role("option")).to_have_count(1)
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect(page.locator(":focus")).to_have_value(re.compile(name))
        page.keyboard.press("Tab")
        if name == "Pool car":  # Only free cars
            page.keyboard.press("Tab")
    expect(page.get_by_label("Start")).to_be_focused()
    for _ in range(20):  # the number of stops of a date depends on the browser
        page.keyboard.press("Tab")
        if page.get_by_label("Without end").evaluate("box => box === document.activeElement"):
            break
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog").get_by_text("Done")).to_be_visible()
    expect(page.get_by_role("link", name="OK", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("button", name="Book", exact=True)).to_be_focused()


@pytest.mark.parametrize("key", ["Enter", "Tab"])
def test_the_only_match_needs_no_arrow_key(town: Town, desk: Desk, key: str) -> None:
    carol = town.person("match")
    carol.car("Fleet car", licensePlate="K-FC 1469")
    carol.car("Fleet van")
    page = desk(carol)
    begin(page, carol)
    box = page.get_by_role("combobox", name="Car")
    box.press_sequentially("kfc1469")
    expect(page.get_by_role("option")).to_have_count(1)
    page.keyboard.press(key)
    expect(box).to_have_value("Fleet car (K-FC 1469)")
    box.fill("fleet")  # two matches, so none is chosen
    expect(page.get_by_role("option")).to_have_count(2)
    page.keyboard.press("Tab")
    expect(box).to_have_value("Fleet car (K-FC 1469)")
    box.fill("fleet")
    expect(page.get_by_role("option")).to_have_count(2)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    expect(box).to_have_value("Fleet van")


def test_on_a_phone_the_outcome_stays_in_view(carol: Person, kim: int, desk: Desk) -> None:
    car = carol.car_with_box("Pool car")
    page = desk(carol, viewport={"width": 320, "height": 480})
    page.goto(f"/console/{carol.customer}/assignments/new?car={car}&user={kim}&start={MONDAY}&end={WEDNESDAY}")
    page.get_by_role("button", name="Book", exact=True).click()
    outcome = page.get_by_text("Done", exact=True)
    expect(outcome).to_be_visible()
    seen = """outcome => { const { x, y } = outcome.getBoundingClientRect();
        return outcome.contains(document.elementFromPoint(x + 5, y + 5)); }"""
    page.wait_for_function(seen, arg=outcome.element_handle())
    expect(page.get_by_role("link", name="OK", exact=True)).to_be_focused()


def test_on_a_phone_the_buttons_stay_in_view(carol: Person, kim: int, desk: Desk) -> None:
    car = carol.car_with_box("Pool car")
    for year in (2031, 2032, 2033):
        carol.assignment(car, kim, f"{year}-11-25T08:00:00Z", end=f"{year}-11-26T18:00:00Z")
    page = desk(carol, viewport={"width": 390, "height": 700})
    page.goto(f"/console/{carol.customer}/cars/{car}")
    page.get_by_role("button", name="Book", exact=True).click()
    dialog = page.get_by_role("dialog", name="New booking")
    choose(page, "Person", "Kim")
    dialog.get_by_label("Without end").check()
    expect(dialog.get_by_text("Double booking: Pool car is booked at that time.")).to_be_visible()
    expect(dialog.get_by_role("button", name="Book", exact=True)).to_be_in_viewport(ratio=1)
    dialog.get_by_label("Book anyway").focus()
    expect(dialog.get_by_label("Book anyway")).to_be_in_viewport(ratio=1)
    dialog.get_by_role("button", name="Book", exact=True).click()
    expect(dialog.get_by_role("button", name="Book", exact=True)).to_be_in_viewport(ratio=1)


def test_a_lapsed_session_keeps_what_was_filled_in(carol: Person, kim: int, desk: Desk) -> None:
    carol.car_with_box("Pool car")
    page = desk(carol)
    begin(page, carol)
    fill(page, "Pool car")
    page.context.clear_cookies()
    page.get_by_role("dialog").get_by_role("button", name="Book").click()
    page.get_by_role("link", name="Sign in again").click()
    page.get_by_label("User name").fill(carol.username)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("heading", level=1, name="New booking")).to_be_visible()
    expect(page.get_by_role("combobox", name="Car")).to_have_value("Pool car")
    expect(page.get_by_role("combobox", name="Person")).to_have_value(re.compile("Kim"))
    expect(page.get_by_label("End", exact=True)).to_have_value(WEDNESDAY)
    page.get_by_role("button", name="Book").click()
    expect(page.get_by_text("Done")).to_be_visible()


def test_without_a_script(carol: Person, kim: int, desk: Desk) -> None:
    carol.car_with_box("Pool car")
    page = desk(carol, java_script_enabled=False)
    begin_at = f"/console/{carol.customer}/assignments/new"
    page.goto(begin_at)
    for field, text in (("Car", "Pool"), ("Person", "Kim")):
        page.get_by_role("searchbox", name=f"Search: {field}").fill(text)
        page.get_by_role("button", name="Find").nth(0 if field == "Car" else 1).click()
        select = page.get_by_role("combobox", name=field)
        select.select_option(index=1)
    page.get_by_label("Start").fill(MONDAY)
    page.get_by_label("End", exact=True).fill(WEDNESDAY)
    with nobody_works(carol):
        page.get_by_role("button", name="Book").click()
        expect(page.get_by_text("Being processed")).to_be_visible()

    def arrived() -> bool:
        page.reload()
        return page.get_by_text("Done").is_visible()

    eventually(arrived)


@pytest.mark.parametrize("start, told", [
    ("2031-03-30T02:30", "This time does not exist in Europe/Berlin: the clocks are put forward over it."),
    (
        "2031-10-26T02:30",
        "The start occurs twice in Europe/Berlin, because the clocks are put back. The first one is used.",
    ),
])  # fmt: skip
def test_the_hours_at_which_the_clocks_change(carol: Person, kim: int, desk: Desk, start: str, told: str) -> None:
    car = carol.car_with_box()
    done(carol.put("/me/preferences", {"language": None, "timeZone": "Europe/Berlin", "theme": None}))
    page = desk(carol)
    page.goto(f"/console/{carol.customer}/assignments/new?car={car}&user={kim}")
    expect(page.get_by_text("Times in Europe/Berlin")).to_be_visible()
    page.get_by_label("Start").fill(start)
    page.get_by_label("End", exact=True).fill("2031-12-26T18:00")
    page.get_by_label("Without end").focus()
    expect(page.get_by_role("status").filter(has_text=told)).to_be_visible()
    page.get_by_role("button", name="Book").click()
    if told.startswith("This time"):
        expect(page.get_by_label("Start")).to_have_attribute("aria-invalid", "true")
        return
    expect(page.get_by_text("Done")).to_be_visible()
    (row,) = carol.get(f"/cars/{car}/assignments").json()
    assert row["start"] == "2031-10-26T00:30:00Z"


@pytest.mark.parametrize("fields, told", [
    ({"lifetime": "6"}, "Enter at least 7 and less than 28 days."),
    ({"lifetime": "28"}, "Enter at least 7 and less than 28 days."),
    ({"lifetime": "soon"}, "Enter a number of days, for example 10 or 7.5."),
    ({"renewable_after": "7"}, "Enter less than “Key valid offline for”."),
    ({"lifetime": "10", "renewable_after": "10"}, "Enter less than “Key valid offline for”."),
    ({"end": MONDAY}, "The end must be later than the start."),
    ({"end": ""}, "Enter the end, or tick Without end."),
    ({"start": ""}, "Enter the start."),
    ({"start": "yesterday"}, "Enter a date and a time."),
    ({"user": ""}, "Choose a person."),
    ({"car": ""}, "Choose a car."),
])  # fmt: skip
def test_what_is_wrong_is_said_at_its_field(carol: Person, kim: int, fields: dict[str, str], told: str) -> None:
    good = {"car": carol.car_with_box(), "user": kim, "start": MONDAY, "end": WEDNESDAY}
    with carol.browser() as client:
        answer = client.post(f"/{carol.customer}/assignments/new", data=good | fields)
        assert (answer.status_code, answer.text.count(told)) == (422, 2)


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "Asia/Kathmandu", "Europe/Berlin"])
def test_a_new_one_begins_with_the_next_full_hour_of_the_persons_clock(carol: Person, zone: str) -> None:
    done(carol.put("/me/preferences", {"language": None, "timeZone": zone, "theme": None}))
    with carol.browser() as browser:
        before = datetime.now(ZoneInfo(zone)).replace(tzinfo=None)
        form = browser.get(f"/{carol.customer}/assignments/new").text
        after = datetime.now(ZoneInfo(zone)).replace(tzinfo=None)
    (shown,) = re.findall(r'<input[^>]* name="start"[^>]* value="([^"]*)"', form)
    start = datetime.fromisoformat(shown)
    assert start.minute == 0
    assert before < start <= after + timedelta(hours=1)


def test_lifetimes_are_filled_in_as_days(carol: Person, kim: int) -> None:
    car = carol.car_with_box()
    with carol.browser() as client:
        good = {"car": car, "user": kim, "start": MONDAY, "end": WEDNESDAY, "lifetime": "7,5", "renewable_after": "1"}
        client.post(f"/{carol.customer}/assignments/new", data=good)
        row = eventually(lambda: carol.get("/assignments").json())[0]
        assert (row["lifetime"], row["renewableAfter"]) == (648_000, 86_400)
        form = client.get(f"/{carol.customer}/assignments/{row['id']}/change").text
        assert 'value="7.5"' in form and 'value="1"' in form


def test_an_assignment_is_changed_and_ends(carol: Person, kim: int, desk: Desk) -> None:
    car = carol.car_with_box("Pool car")
    id = carol.assignment(car, kim, "2026-01-01T08:00:00Z", end="2031-11-25T12:00:00Z")
    page = desk(carol)
    page.goto(f"/console/{carol.customer}/assignments/{id}")
    expect(page.get_by_text("Now", exact=True)).to_be_visible()
    page.get_by_role("button", name="Change").click()
    shown = page.get_by_role("dialog", name="Change booking")
    shown.get_by_label("Without end").check()
    shown.get_by_role("button", name="Save").click()
    expect(shown.get_by_text("Done")).to_be_visible()
    assert carol.get(f"/assignments/{id}").json()["end"] is None
    page.goto(f"/console/{carol.customer}/assignments/{id}")
    page.get_by_role("button", name="End now").click()
    shown = page.get_by_role("dialog", name="End booking")
    shown.get_by_role("button", name="End now").click()
    expect(shown.get_by_text("Done")).to_be_visible()
    assert carol.get(f"/assignments/{id}").json()["end"] is not None  # it is among the past ones
    page.goto(f"/console/{carol.customer}/assignments/{id}")
    expect(page.get_by_text("Past")).to_be_visible()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog", name="Delete booking").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("dialog").get_by_text("Done")).to_be_visible()
    assert carol.get(f"/assignments/{id}").status_code == 404


def test_two_who_change_the_same_are_told(carol: Person, kim: int, desk: Desk) -> None:
    car = carol.car_with_box("Pool car")
    id = carol.assignment(car, kim, "2031-11-24T08:00:00Z", end="2031-11-25T12:00:00Z")
    page = desk(carol)
    page.goto(f"/console/{carol.customer}/assignments/{id}/change")
    carol.patch(f"/assignments/{id}", [{"op": "replace", "path": "/end", "value": "2031-11-29T12:00:00Z"}])
    eventually(lambda: "11-29" in carol.get(f"/assignments/{id}").json()["end"])
    page.get_by_label("Start").fill("2031-11-24T10:00")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Another person changed the booking in the meantime.")).to_be_visible()
    expect(page.get_by_text("29 Nov 2031, 12:00").first).to_be_visible()
    expect(page.get_by_label("Start")).to_have_value("2031-11-24T10:00")
    page.get_by_label("End", exact=True).fill("2031-11-29T12:00")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Done")).to_be_visible()
    row = carol.get(f"/assignments/{id}").json()
    assert (row["start"], row["end"]) == ("2031-11-24T10:00:00Z", "2031-11-29T12:00:00Z")
    with carol.browser() as client:
        stale = {"tag": '"0"', "key": "3b0c8d5e-1111-4222-8333-944455566677"}
        assert client.post(f"/{carol.customer}/assignments/{id}/end", data=stale).status_code == 412
    assert carol.get(f"/assignments/{id}").status_code == 200


def test_the_outcome_comes_in_while_live_updates_are_cut(carol: Person, kim: int, desk: Desk) -> None:
    car = carol.car_with_box("Pool car")
    page = desk(carol)
    page.route("**/api/v3/live*", lambda route: route.abort())
    with checked(page):
        page.goto(f"/console/{carol.customer}/assignments/new?car={car}&user={kim}&start={MONDAY}&end={WEDNESDAY}")
    with nobody_works(carol):
        page.get_by_role("button", name="Book").click()
        expect(page.get_by_text("Being processed")).to_be_visible()
    expect(page.get_by_text("Done")).to_be_visible()


def test_a_form_that_is_shown_again_is_still_the_one_that_was_drawn(carol: Person, kim: int) -> None:
    """A question about an overlap does not overwrite a change that another person made in between."""
    car, lee = carol.car_with_box(), carol.user()
    id = carol.assignment(car, kim, "2031-11-24T08:00:00Z", end="2031-11-24T12:00:00Z")
    carol.assignment(car, lee, "2031-11-25T08:00:00Z", end="2031-11-25T12:00:00Z")
    path = f"/{carol.customer}/assignments/{id}/change"
    with carol.browser() as client:
        tag = _value(client.get(path).text, "tag")
        done(carol.patch(f"/assignments/{id}", [{"op": "replace", "path": "/lifetime", "value": 700_000}]))
        eventually(lambda: carol.get(f"/assignments/{id}").json()["lifetime"] == 700_000)
        filled = {"car": car, "user": kim, "start": "2031-11-24T08:00", "end": "2031-11-25T10:00", "tag": tag}
        asked = client.post(path, data=filled)
        assert (asked.status_code, _value(asked.text, "tag")) == (409, tag)
        told = client.post(path, data={**filled, "anyway": _value(asked.text, "anyway")})
        assert told.status_code == 412 and _value(told.text, "tag") != tag
        assert carol.get(f"/assignments/{id}").json()["lifetime"] == 700_000


def _value(page: str, name: str) -> str:
    """The value of a field."""
    found = re.search(rf'name="{name}"[^>]* value="([^"]*)"', page)
    assert found
    return unescape(found[1])


def test_two_people_of_one_name_differ_once_chosen(carol: Person, desk: Desk) -> None:
    addresses = [f"{name}{carol.customer}@example.org" for name in ("one", "two")]
    for address in addresses:
        carol.user(address, userData={"firstName": "Jürgen", "lastName": "Müller"})
    for vin in ("WVWZZZ1JZXW000001", "WVWZZZ1JZXW000002"):
        carol.car("Pool", vin=vin)
    page = desk(carol)
    page.goto(f"/console/{carol.customer}/assignments/new")
    for address in addresses:
        choose(page, "Person", "Jürgen", f"Jürgen Müller {address}")
        expect(page.get_by_role("combobox", name="Person")).to_have_value(f"Jürgen Müller, {address}")
    for vin in ("WVWZZZ1JZXW000001", "WVWZZZ1JZXW000002"):
        choose(page, "Car", "Pool", f"Pool {vin}")
        expect(page.get_by_role("combobox", name="Car")).to_have_value(f"Pool, {vin}")
    page.get_by_label("Start").fill("")
    page.get_by_role("button", name="Book").click()  # refused: the server names them alike
    expect(page.get_by_role("alert", name="There is a problem")).to_be_visible()
    expect(page.get_by_role("combobox", name="Person")).to_have_value(f"Jürgen Müller, {addresses[1]}")
    expect(page.get_by_role("combobox", name="Car")).to_have_value("Pool, WVWZZZ1JZXW000002")
