"""Today: figures with their lists, the map of all cars, and the table of those in view."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.console import axe
from tests.console.conftest import Desk
from tests.support.people import Person, Town
from tests.telemetry.endpoints.test_ingest import Unit, passed, unit_of
from tests.webhooks.receiver import Receiver

pytestmark = pytest.mark.cluster

HAMBURG = {"currentLatitude": 53.551, "currentLongitude": 9.993}
MUNICH = {"currentLatitude": 48.137, "currentLongitude": 11.575}
NO_WEBGL = """
const whole = HTMLCanvasElement.prototype.getContext;
HTMLCanvasElement.prototype.getContext = function (kind, ...more) {
  return kind.startsWith("webgl") ? null : whole.call(this, kind, ...more);
};
"""


@pytest.fixture(scope="module")
def fleet(town: Town) -> Iterator[Person]:
    """A person with the cars Alster in Hamburg, Isar in Munich, and Idle without a tracker."""
    person = town.person("fleet")
    person.car("Idle")
    yield person
    person.client.close()


def car_at(person: Person, name: str, place: dict[str, float], **told: Any) -> Unit:
    unit = unit_of(person)
    assert person.patch(f"/cars/{unit.car}", [{"op": "replace", "path": "/name", "value": name}]).status_code == 204
    unit.tell(2 - passed(), **place, **told)  # however long ago the run began
    return unit


@pytest.fixture(scope="module")
def alster(fleet: Person) -> Unit:
    return car_at(fleet, "Alster", HAMBURG, isDriving=True, ignition=True)


@pytest.fixture(scope="module")
def isar(fleet: Person) -> Unit:
    return car_at(fleet, "Isar", MUNICH)


def overview(page: Page, person: Person) -> None:
    """Open the overview, with its map drawn."""
    page.goto(f"/console/{person.customer}")
    expect(page.get_by_role("heading", level=1, name="Today")).to_be_visible()
    expect(page.get_by_role("button", name="Show all")).to_be_visible()


def table(page: Page) -> Locator:
    return page.get_by_role("table", name="Cars in view")


def row(page: Page, name: str) -> Locator:
    return table(page).get_by_role("row").filter(has=page.get_by_role("rowheader", name=name))


def figure(page: Page, name: str) -> Locator:
    return page.get_by_role("link", name=name)


def test_figures_say_what_they_count_and_lead_to_their_lists(carol: Person, desk: Desk) -> None:
    page = desk(carol)
    page.goto(f"/console/{carol.customer}")
    expected = {
        "Bookings now": "assignments/list?state=now",
        "Failed bookings": "operations?state=failed&within=week",
        "Failing webhooks": "webhooks?state=failing",
        "Boxes without a service": "boxes?type=box&service=none",
        "Contracts ending": "services?contract=soon",
        "Not reporting": "cars?seen=long",
    }
    for name, address in expected.items():
        expect(figure(page, name)).to_contain_text("0")
        assert figure(page, name).get_attribute("href") == f"/console/{carol.customer}/{address}"
    expect(figure(page, "Failed notifications")).to_have_count(0)
    carol.product("Box")
    page.goto(f"/console/{carol.customer}")
    expect(figure(page, "Boxes without a service")).to_contain_text("1")
    figure(page, "Boxes without a service").click()
    expect(page.get_by_role("table").get_by_role("row")).to_have_count(2)


def test_each_figure_counts_the_rows_of_its_list(town: Town) -> None:
    """Each kind has rows that count and one that does not."""
    person = town.person("figures")
    user, heard = person.user(), unit_of(person)
    heard.tell(2, **HAMBURG)
    for count, start in ((1, "2999-01-01T08:00:00Z"), (2, "2026-01-01T08:00:00Z")):
        for _ in range(count):
            person.assignment(person.car_with_box(), user, start)
    for _ in range(3):
        boxless = {"carId": person.car("Boxless"), "userId": user, "start": "2026-01-01T08:00:00Z"}
        assert person.put("/assignments", boxless).status_code == 204
    for kind in ["IQ", *["Box"] * 5]:
        person.product(kind)
    for _ in range(6):
        person.box_in(person.car("Unheard"), kind="IQ")
    for days in (-1, 31, *range(1, 8)):
        person.sql.execute(
            "insert into contract (customer_id, service_id, order_number, document_number, starts_at, ends_at)"
            " values ($1, $2, 'O', 'D', now(), now() + make_interval(days => $3))",
            person.customer, person.service(), days,
        )  # fmt: skip
    hook = person.put("/webhooks", {"url": "http://127.0.0.1:9/hook"}).json()["id"]
    tests = [person.post(f"/webhooks/{hook}/test").json()["id"] for _ in range(5)]
    person.sql.execute(
        "update delivery set state = 'Dead', error = 'refused', attempted_at = now() where delivery_id = any($1)",
        tests[1:],
    )
    with person.browser() as client:
        found = re.findall(
            r'class="tile \w*" href="/console([^"]+)".*?"figure">(\d+)',
            client.get(f"/{person.customer}").text,
            re.DOTALL,
        )
        counts = {path.partition(f"/{person.customer}/")[2]: int(figure) for path, figure in found}
        assert counts == {
            "assignments/list?state=now": 2, "operations?state=failed&amp;within=week": 3, "webhooks?state=failing": 1,
            "deliveries?state=dead": 4, "boxes?type=box&amp;service=none": 5, "services?contract=soon": 7,
            "cars?seen=long": 6,
        }  # fmt: skip
        for path, figure in found:
            assert client.get(unescape(path)).text.count('scope="row"') == int(figure), path
    person.client.close()


def test_a_webhook_that_fails_is_counted_until_it_works_again(carol: Person, desk: Desk) -> None:
    """A delivery that is retried is not dead for a day."""
    page = desk(carol)
    with Receiver() as receiver, Receiver() as other:
        receiver.answer = lambda _: (500, b"", {})
        hooks = [carol.put("/webhooks", {"url": each.url}).json()["id"] for each in (receiver, other)]
        page.goto(f"/console/{carol.customer}")
        expect(figure(page, "Failing webhooks")).to_contain_text("0")
        for hook in hooks:
            carol.post(f"/webhooks/{hook}/test")
        expect(figure(page, "Failing webhooks")).to_contain_text("1")
        figure(page, "Failing webhooks").click()
        rows = page.get_by_role("table", name="Webhooks").get_by_role("row")
        expect(rows).to_have_count(2)
        expect(rows.nth(1)).to_contain_text("Failing")
        receiver.answer = lambda _: (204, b"", {})
        carol.post(f"/webhooks/{hooks[0]}/test")
        expect(page.get_by_role("heading", name="No webhook is failing")).to_be_visible()
        page.get_by_role("link", name="Show all webhooks").click()
        expect(rows).to_have_count(3)
        page.goto(f"/console/{carol.customer}")
        expect(figure(page, "Failing webhooks")).to_contain_text("0")
        for hook in hooks:
            carol.delete(f"/webhooks/{hook}")


def test_a_figure_follows_what_happens(carol: Person, desk: Desk) -> None:
    page = desk(carol)
    car, user = carol.car("No box"), carol.user()
    page.goto(f"/console/{carol.customer}")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    asked = carol.put("/assignments", {"carId": car, "userId": user, "start": "2026-01-01T08:00:00Z"})
    assert asked.status_code == 204
    expect(figure(page, "Failed bookings")).to_contain_text("1")


def test_a_fleet_without_cars_is_told_the_first_step(carol: Person, desk: Desk) -> None:
    page = desk(carol)
    page.goto(f"/console/{carol.customer}")
    expect(page.get_by_role("heading", name="Add your first car")).to_be_visible()
    assert page.get_by_role("link", name="Add car").get_attribute("href") == f"/console/{carol.customer}/cars/new"
    expect(table(page)).to_have_count(0)


def test_the_table_says_what_the_map_shows(fleet: Person, alster: Unit, isar: Unit, desk: Desk) -> None:
    page = desk(fleet)
    overview(page, fleet)
    expect(page.get_by_text("2 cars in view. 1 car has no position yet.")).to_be_visible()
    for part in ("Driving", "minutes ago", "Hamburg"):
        expect(row(page, "Alster")).to_contain_text(part)
    for part in ("Parked", "Munich"):
        expect(row(page, "Isar")).to_contain_text(part)
    expect(row(page, "Idle")).to_have_count(0)
    link = table(page).get_by_role("link", name="Alster")
    assert link.get_attribute("href") == f"/console/{fleet.customer}/cars/{alster.car}"


def test_a_car_that_moves_is_followed_without_a_reload(fleet: Person, alster: Unit, desk: Desk) -> None:
    rhine = car_at(fleet, "Rhine", MUNICH)
    page = desk(fleet)
    overview(page, fleet)
    page.get_by_role("button", name="Show Alster on the map").click()
    expect(page.get_by_role("region", name="Alster").get_by_role("link", name="Go to car")).to_be_visible()
    expect(row(page, "Rhine")).to_have_count(0)
    # However long ago the run began: reports that are later than ten minutes appear when the page reads everything
    # again
    rhine.tell(1 - passed(), currentLatitude=53.556, currentLongitude=9.99, isDriving=True, ignition=True)
    expect(row(page, "Rhine")).to_contain_text("Driving")
    page.get_by_role("button", name="Show all").click()
    expect(row(page, "Rhine")).to_be_visible()


def test_what_a_car_does_is_stale_after_a_while(town: Town, desk: Desk) -> None:
    """After `KEYRACK_TELEMETRY_STALE_MINUTES`: in the server's page, in the script, and later without an update."""
    person = town.person("stale")
    driving = {"isDriving": True, "ignition": True}
    with contextlib.closing(person.client):
        for name, minutes, told in (
            ("Fresh", 13, driving), ("Drove", 16, driving), ("Idled", 60, {"ignition": True}), ("Stood", 600, {}),
        ):  # fmt: skip
            unit = unit_of(person)
            person.patch(f"/cars/{unit.car}", [{"op": "replace", "path": "/name", "value": name}])
            unit.tell(minutes - passed(), **HAMBURG, **told)
        states = {"Drove": "Was driving", "Idled": "Ignition was on", "Stood": "Was parked"}
        plain = desk(person, java_script_enabled=False)
        plain.goto(f"/console/{person.customer}")
        page = desk(person)
        page.clock.install()
        overview(page, person)
        for each in (plain, page):
            expect(each.get_by_text("No report for 15 minutes")).to_have_count(1)
            for name, state in states.items():
                expect(row(each, name)).to_contain_text(state)
            expect(row(each, "Fresh")).to_contain_text("Driving")
        page.clock.fast_forward(180_000)
        expect(row(page, "Fresh")).to_contain_text("Was driving")
        table(page).get_by_role("link", name="Fresh").click()
        expect(page.get_by_role("heading", name="Telemetry")).to_be_visible()
        expect(page.get_by_text("Out of date")).to_have_count(0)
        with page.expect_request(lambda request: "part=telemetry" in request.url):
            page.clock.fast_forward(1_000_000)
        page.goto(f"/console/{person.customer}/cars/{unit.car}")
        expect(page.get_by_text("Out of date")).to_be_visible()


def test_a_car_is_found_by_typing_and_shown(fleet: Person, alster: Unit, isar: Unit, desk: Desk) -> None:
    page = desk(fleet)
    overview(page, fleet)
    find = page.get_by_role("combobox", name="Find a car")
    find.fill("isa")
    expect(page.get_by_role("option")).to_have_count(1)
    find.press("ArrowDown")
    find.press("Enter")
    card = page.get_by_role("region", name="Isar")
    expect(card).to_contain_text("Munich")
    expect(row(page, "Alster")).to_have_count(0)
    card.get_by_role("button", name="Close").click()
    expect(card).to_have_count(0)
    expect(page.get_by_role("button", name="Show Isar on the map")).to_be_focused()


def test_without_webgl_the_page_says_so_and_the_table_has_all(
    fleet: Person, alster: Unit, isar: Unit, desk: Desk
) -> None:
    page = desk(fleet)
    page.add_init_script(NO_WEBGL)
    page.goto(f"/console/{fleet.customer}")
    expect(page.get_by_text("This browser cannot show the map: WebGL 2")).to_be_visible()
    expect(row(page, "Alster")).to_contain_text("Hamburg")
    expect(row(page, "Isar")).to_be_visible()
    expect(page.get_by_role("button", name="Show all")).to_have_count(0)


def test_without_a_script_the_table_is_there(fleet: Person, alster: Unit, desk: Desk) -> None:
    page = desk(fleet, java_script_enabled=False)
    page.goto(f"/console/{fleet.customer}")
    expect(row(page, "Alster")).to_contain_text("Driving")
    expect(page.get_by_role("searchbox", name="Find a car")).to_be_visible()


def test_the_neighbour_sees_nothing_of_it(fleet: Person, alster: Unit, bob: Person, desk: Desk) -> None:
    bob.car("Bob's car")
    page = desk(bob)
    overview(page, bob)
    expect(page.get_by_text("No car in view")).to_be_visible()
    expect(page.get_by_text("Alster")).to_have_count(0)
    find = page.get_by_role("combobox", name="Find a car")
    find.fill("Alster")
    expect(page.get_by_text("Nothing found").first).to_be_visible()
    answer = page.goto(f"/console/{fleet.customer}")
    assert answer is not None and answer.status == 404


def test_many_cars_at_one_place_are_listed(town: Town, desk: Desk) -> None:
    """A cluster that no zoom can separate."""
    person = town.person("depot")
    with contextlib.closing(person.client):
        depot(person, 220)
        page = desk(person)
        overview(page, person)
        expect(page.get_by_text("50 of 220 cars in view")).to_be_visible()
        box = page.get_by_role("region", name="Map of all cars").bounding_box()
        assert box is not None
        card = page.get_by_role("region", name="220 cars at this place")
        # One click: the card covers the middle of a narrow map, so a second click could choose a listed car
        expect(page.locator("[data-fleet]")).to_have_attribute("data-idle", "")
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        expect(card).to_be_visible()
        expect(card.get_by_role("listitem")).to_have_count(50)
        card.get_by_role("button", name="Car 1", exact=True).click()
        expect(page.get_by_role("region", name="Car 1", exact=True)).to_be_visible()


def depot(person: Person, cars: int) -> None:
    """So many cars, all at one place."""
    person.sql.execute(
        "with c as (insert into car (customer_id, name) select $1, 'Car ' || n from generate_series(1, $2) n"
        " returning car_id),"
        " p as (insert into product (customer_id, unique_id, serial_number, sap_number, kind, car_id)"
        " select $1, 'depot' || car_id, 'depot' || car_id, 'S', 'IQ', car_id from c returning car_id, product_id)"
        " insert into car_state (customer_id, car_id, product_id, latitude, longitude, position_at, read_at, telemetry)"
        " select $1, car_id, product_id, 53.55, 9.99, now(), now(), '{}' from p",
        person.customer,
        cars,
    )


@axe.each_look
def test_axe_finds_nothing(fleet: Person, alster: Unit, desk: Desk, theme: str, width: int) -> None:
    page = desk(fleet, color_scheme=theme, viewport={"width": width, "height": 900})
    overview(page, fleet)
    assert axe.faults(page) == []
    page.get_by_role("button", name="Show Alster on the map").click()
    expect(page.get_by_role("region", name="Alster")).to_be_visible()
    assert axe.faults(page) == []
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= width


def test_the_map_is_fetched_where_there_is_one_alone(fleet: Person, desk: Desk) -> None:
    page = desk(fleet)
    fetched: list[str] = []
    page.on("response", lambda response: fetched.append(response.url))
    page.goto(f"/console/{fleet.customer}/settings")
    expect(
        page.get_by_text("Live", exact=True).or_(page.get_by_role("heading", name="Settings", level=1)).first
    ).to_be_visible()
    assert fetched and not [url for url in fetched if "map" in url]


ORDER = ("Älpler", "City 2", "City 10", "Zoo")


def cars_of(page: str) -> list[str]:
    return re.findall("|".join(ORDER), re.sub(r"<[^>]+>", " ", page))


def test_cars_are_in_the_order_of_people(town: Town) -> None:
    person, technician = town.person("order"), town.person("order", "Technician")
    names = ["City 10", "Zoo", "City 2", "Älpler"]
    for name in names:
        car_at(person, name, HAMBURG)
    technician.execute_unrecorded("insert into car (customer_id, name) select $1, unnest($2::text[])", names)
    for one in (person, technician):  # with the map, and without it
        with one.browser() as browser:
            assert cars_of(browser.get(f"/{one.customer}").text) == [*ORDER]
        one.client.close()
