"""The pages of access history: at a time and over a period, with the changes around it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html import unescape
from zoneinfo import ZoneInfo

import httpx
import pytest
from playwright.sync_api import expect

from tests.console.conftest import Desk
from tests.console.test_changes import GERMAN, plain
from tests.support.people import Person, Town
from tests.support.servers import eventually

LONG_AGO = "2000-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def fleet(town: Town) -> Iterator[Person]:
    person = town.person("custody")
    yield person
    person.client.close()


@pytest.fixture(scope="module")
def held(fleet: Person) -> tuple[int, int, datetime]:
    """A car, a user with access, and a time of the access."""
    car, user = fleet.car_with_box("Golf 7"), fleet.user(userData={"firstName": "Kim", "lastName": "Doe"})
    fleet.assignment(car, user, "2026-01-01T08:00:00Z")
    begun = fleet.sql.value("select clock_timestamp()")
    eventually(lambda: fleet.get(f"/cars/{car}/access").json()["assigned"], "the stretch")
    return car, user, begun


def utc(time: datetime) -> str:
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def part(answer: httpx.Response, id: str) -> str:
    """The words of one section of the page."""
    assert answer.status_code == 200, answer.text
    found = re.search(rf'<section class="section" aria-labelledby="{id}">(.*?)</section>', answer.text, re.DOTALL)
    assert found, answer.text
    return plain(found[1])


def test_who_could_open_a_car_now(fleet: Person, visitor: httpx.Client, held: tuple[int, int, datetime]) -> None:
    car, user, _ = held
    answer = visitor.get(f"/{fleet.customer}/cars/{car}/access")
    serial = fleet.get(f"/cars/{car}/products").json()[0]["serialNumber"]
    assert "Kim Doe" in (shown := part(answer, "stretches")) and f"Key box {serial}" in shown and "Without end" in shown
    assert f'<a href="/console/{fleet.customer}/users/{user}">Kim Doe</a>' in answer.text
    assert f"put Key box {serial} into Golf 7" in part(answer, "around")
    assert "State of knowledge: change" in answer.text
    german = visitor.get(f"/{fleet.customer}/cars/{car}/access", headers=GERMAN)
    assert "Zugang zu dieser Zeit" in part(german, "stretches")


def test_which_cars_a_user_could_open(fleet: Person, visitor: httpx.Client, held: tuple[int, int, datetime]) -> None:
    car, user, _ = held
    answer = visitor.get(f"/{fleet.customer}/users/{user}/access")
    assert "Golf 7" in part(answer, "stretches")
    assert f'<a href="/console/{fleet.customer}/cars/{car}">Golf 7</a>' in answer.text


def test_over_a_time_as_a_time_line(fleet: Person, visitor: httpx.Client, held: tuple[int, int, datetime]) -> None:
    car, user, begun = held
    since = utc(begun + timedelta(seconds=1))
    eventually(lambda: datetime.now(UTC) > begun + timedelta(seconds=2), "a time that has been")
    for path in (f"cars/{car}", f"users/{user}"):
        answer = visitor.get(f"/{fleet.customer}/{path}/access?from={since}&to=2099-01-01T00:00:00Z")
        shown = part(answer, "stretches")
        assert ("Kim Doe" if path.startswith("cars") else "Golf 7") in shown and "Now" in shown
        assert re.search(r'<rect class="bar" x="0.0" y="1" width="100.0"', answer.text)


def test_what_a_form_sends_becomes_a_time_of_everybody(
    fleet: Person, visitor: httpx.Client, held: tuple[int, int, datetime]
) -> None:
    """A browser that signs in without a script is in UTC."""
    here = f"/{fleet.customer}/cars/{held[0]}/access"
    answer = visitor.get(f"{here}?at=2026-01-01T08:00")
    assert (answer.status_code, unescape(answer.headers["location"])) == (
        303, f"/console{here}?at=2026-01-01T08%3A00%3A00Z",
    )  # fmt: skip
    both = visitor.get(f"{here}?from=2026-01-01T08:00&to=2026-01-02T08:00").headers["location"]
    assert both.endswith("?from=2026-01-01T08%3A00%3A00Z&to=2026-01-02T08%3A00%3A00Z")


@pytest.mark.parametrize("query", ["at=x", "at=Z", "at=2026-13-01T00:00", "from=2026-01-01T08:00", "from=x&to=y"])
def test_what_is_no_time_is_said_beside_the_field(
    fleet: Person, visitor: httpx.Client, held: tuple[int, int, datetime], query: str
) -> None:
    answer = visitor.get(f"/{fleet.customer}/cars/{held[0]}/access?{query}")
    assert answer.status_code == 422 and "Enter a date and a time." in answer.text
    assert 'id="history"' not in answer.text


def test_what_is_not_known_is_refused_in_words(
    fleet: Person, visitor: httpx.Client, held: tuple[int, int, datetime]
) -> None:
    here = f"/{fleet.customer}/cars/{held[0]}/access"
    future = visitor.get(f"{here}?at=2099-01-01T00:00:00Z")
    assert future.status_code == 400 and "This time is in the future." in future.text
    turned = visitor.get(f"{here}?from={utc(held[2])}&to={LONG_AGO}")
    assert turned.status_code == 400 and "The end must be later than the start." in turned.text
    for query in (f"at={LONG_AGO}", f"from={LONG_AGO}&to=2099-01-01T00:00:00Z"):
        gone = visitor.get(f"{here}?{query}")
        assert gone.status_code == 410 and "is known only from a later time on" in gone.text
        oldest = re.search(r'href="/console([^"]+)">Show the oldest time', gone.text)
        assert oldest and visitor.get(unescape(oldest[1])).status_code == 200


def test_a_car_that_is_gone_keeps_its_history(fleet: Person, visitor: httpx.Client) -> None:
    car, user = fleet.car_with_box("Sold"), fleet.user()
    fleet.assignment(car, user)
    had = fleet.sql.value("select clock_timestamp()")
    eventually(lambda: datetime.now(UTC) > had + timedelta(seconds=2), "a time that has been")
    assert fleet.delete(f"/cars/{car}").status_code == 204
    eventually(lambda: fleet.get(f"/cars/{car}/access").json()["assigned"] == [], "its end")
    now = visitor.get(f"/{fleet.customer}/cars/{car}/access")
    assert "No person could open the car at this time." in part(now, "stretches") and "Sold" in now.text
    assert f'class="crumb" href="/console/{fleet.customer}/cars"' in now.text
    then = visitor.get(f"/{fleet.customer}/cars/{car}/access?at={utc(had + timedelta(seconds=1))}")
    assert "Uma User" in part(then, "stretches") and "Changed" in part(then, "stretches")


def test_the_neighbour_sees_nothing_of_it(fleet: Person, bob: Person, held: tuple[int, int, datetime]) -> None:
    car, user, _ = held
    with bob.browser() as neighbour:
        for path in (f"cars/{car}/access", f"users/{user}/access"):
            for query in ("", "?at=x", f"?at={LONG_AGO}"):
                assert neighbour.get(f"/{fleet.customer}/{path}{query}").status_code == 404
                assert neighbour.get(f"/{bob.customer}/{path}{query}").status_code == 404


def test_asking_by_the_form_in_the_zone_of_the_person(
    desk: Desk, fleet: Person, held: tuple[int, int, datetime]
) -> None:
    car, _, begun = held
    page = desk(fleet)
    page.goto(f"/console/{fleet.customer}/cars/{car}")
    page.get_by_role("link", name="Who could open it").click()
    expect(page.get_by_role("row", name=re.compile("Kim Doe")).first).to_be_visible()
    page.get_by_role("link", name="Over a period").click()
    (named,) = re.findall(r"Times are shown in ([\w/]+)", page.locator("footer").inner_text())
    minute = (begun + timedelta(minutes=1)).astimezone(ZoneInfo(named)).replace(second=0, microsecond=0)
    page.get_by_label("From", exact=True).fill("2000-01-01T00:00")
    page.get_by_label("To", exact=True).fill(minute.strftime("%Y-%m-%dT%H:%M"))
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("alert").filter(has_text="known only from a later time on")).to_be_visible()
    page.get_by_role("link", name="Show the oldest time").click()
    expect(page.get_by_label("To", exact=True)).to_have_value(minute.strftime("%Y-%m-%dT%H:%M"))
    expect(page.locator("#timeline")).to_contain_text("Kim Doe")


def test_what_changes_comes_in_by_itself(desk: Desk, fleet: Person) -> None:
    car, user = fleet.car_with_box("Watched"), fleet.user(userData={"firstName": "Ada", "lastName": "Late"})
    page = desk(fleet)
    page.goto(f"/console/{fleet.customer}/cars/{car}/access")
    expect(page.get_by_text("No person could open the car at this time.")).to_be_visible()
    expect(page.locator("[data-live]")).to_have_attribute("data-state", "live")
    fleet.assignment(car, user)
    expect(page.locator("#history").get_by_role("rowheader", name="Ada Late")).to_be_visible()
