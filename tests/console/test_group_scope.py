"""The console of a group-limited dispatcher: hidden bookings are times, and each request has a result."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape

import httpx
import pytest
from playwright.sync_api import expect

from keyrack.api.permissions import Role
from tests.auth.group_scope import limited, put
from tests.console.conftest import Desk
from tests.support.people import Person, Town, done
from tests.support.servers import eventually

SOMEBODY = "A person outside your groups"
FAR = "2031-11-24T08:00"


@dataclass
class Pool:
    """A fleet with a group: Gina sees the car Taken and the user Ida. Hugo, whom she does not see, has the car."""

    whole: Person
    gina: Person
    group: int
    taken: int
    free: int
    ida: int
    hugo: int
    hidden: int  # the assignment of Hugo

    def address(self, path: str) -> str:
        return f"/{self.whole.customer}{path}"


@pytest.fixture(scope="module")
def pool(town: Town) -> Iterator[Pool]:
    whole = town.person("pool")
    group = whole.group("Pool Nord")
    taken, free = whole.car_with_box("Taken"), whole.car_with_box("Vacant")
    ida = whole.user(userData={"firstName": "Ida", "lastName": "Inside"})
    hugo = whole.user(f"hugo.{whole.customer}@example.org", userData={"firstName": "Hugo", "lastName": "Outside"})
    for slot, id in (("carId", taken), ("carId", free), ("userId", ida)):
        put(whole, group, slot, id)
    put(whole, whole.group("Elsewhere"), "userId", hugo)
    hidden = whole.assignment(taken, hugo, "2026-01-01T08:00:00Z")
    gina = limited(town, whole, "gina", [group], Role.DISPATCHER)
    yield Pool(whole, gina, group, taken, free, ida, hugo, hidden)
    for person in (gina, whole):
        person.client.close()


@pytest.fixture(scope="module")
def browser(pool: Pool) -> Iterator[httpx.Client]:
    with pool.gina.browser() as client:
        yield client


PAGES = {
    "the car": "/cars/{taken}",
    "the list": "/cars?q=Taken",
    "the file": "/cars.csv?q=Taken",
    "the board": "/assignments/board",
}


@pytest.mark.parametrize("path", PAGES.values(), ids=PAGES.keys())
def test_a_hidden_assignment_shows_its_times_and_nothing_else(pool: Pool, browser: httpx.Client, path: str) -> None:
    answer = browser.get(pool.address(path.format(taken=pool.taken)))
    assert answer.status_code == 200
    assert SOMEBODY in answer.text
    assert "Hugo" not in answer.text and "Elsewhere" not in answer.text
    assert not re.search(rf"/(assignments|users)/({pool.hidden}|{pool.hugo})\b", answer.text)
    with pool.whole.browser() as owner:
        told = owner.get(pool.address(path.format(taken=pool.taken))).text
        assert SOMEBODY not in told and "Hugo" in told


def test_a_page_of_a_car_says_that_it_is_in_use(pool: Pool, browser: httpx.Client) -> None:
    page = browser.get(pool.address(f"/cars/{pool.taken}")).text
    assert "Free" not in page and "Booked" in page
    assert f"{SOMEBODY} since Thu, 1 Jan 2026, 08:00, without end" in re.sub(r"\s+", " ", re.sub("<[^>]+>", "", page))
    free = browser.get(pool.address(f"/cars/{pool.free}")).text
    assert "Free" in free and SOMEBODY not in free


def test_no_part_of_the_page_says_nobody_of_the_whole_fleet(pool: Pool, browser: httpx.Client) -> None:
    for path in (f"/cars/{pool.taken}", f"/cars/{pool.taken}/access", f"/users/{pool.ida}/access"):
        page = re.sub(r"(No person in your groups|no car of your groups)", "", browser.get(pool.address(path)).text)
        said = re.findall(r"Nobody (?:has|could) [^<]*", page)
        assert said == [], path


def test_only_free_cars_are_those_that_nobody_has(pool: Pool, browser: httpx.Client) -> None:
    window = {"start": FAR, "end": "2031-11-26T18:00", "free": "true"}
    found = browser.get(pool.address("/choices/cars"), params=window).json()
    assert [option["label"] for option in found["options"]] == ["Vacant"]
    unbooked = browser.get(pool.address("/cars?use=week")).text
    assert "Vacant" in unbooked and "Taken" not in unbooked


def test_a_box_is_shown_with_its_car_and_no_service_is_denied(pool: Pool, browser: httpx.Client) -> None:
    """The box is in none of the groups, and neither is its service."""
    page = browser.get(pool.address(f"/cars/{pool.taken}")).text
    assert "No key box and no tracker" not in page and "No service in your groups" in page
    assert "Contract ends" not in page  # it is hidden, not missing
    assert "No box" not in browser.get(pool.address("/cars.csv")).text
    assert "Boxes without a service" not in browser.get(pool.address("")).text


def test_an_access_history_says_what_it_leaves_out(pool: Pool, browser: httpx.Client) -> None:
    """A hidden user may open the car, so the list without that user is not complete."""
    whole, outside = pool.whole, "People outside your groups are not shown here."
    for query in ("", "?over=lately"):
        address = pool.address(f"/cars/{pool.taken}/access{query}")
        assert outside in browser.get(address).text
        with whole.browser() as owner:
            assert outside not in owner.get(address).text
        assert "Nothing was changed" not in browser.get(address).text  # a dispatcher may not read it
    user = browser.get(pool.address(f"/users/{pool.ida}/access")).text
    assert "Cars outside your groups are not shown here." in user


def test_a_question_counts_what_ends_outside_of_the_groups(town: Town, pool: Pool) -> None:
    """Taking a box out, or deleting a car, ends the assignments of hidden users too."""
    whole = pool.whole
    car = whole.car_with_box("Leaving")
    unit = whole.box_in(car, "IQ")
    put(whole, pool.group, "carId", car)
    whole.assignment(car, pool.hugo, "2026-01-01T08:00:00Z")
    box = whole.get(f"/products?$filter=car/id eq {car} and id ne {unit}").json()[0]["id"]
    mona = limited(town, whole, "mona", [pool.group], Role.MANAGER)
    with mona.browser() as client:
        assert "1 booking ends." in client.get(pool.address(f"/cars/{car}/products/{box}/uninstall")).text
        asked = client.get(pool.address(f"/cars/{car}/delete")).text
        assert "1 current or upcoming booking ends." in asked
        assert "A tracker outside your groups is taken out as well." in asked
        user = client.get(pool.address(f"/users/{pool.ida}")).text
        assert "Bookings of cars outside your groups are not shown here." in user
    with whole.browser() as owner:
        assert "outside your groups" not in owner.get(pool.address(f"/cars/{car}/delete")).text
        assert "outside your groups" not in owner.get(pool.address(f"/users/{pool.ida}")).text
    mona.client.close()


def test_nothing_of_the_groups_is_not_nothing_of_the_fleet(pool: Pool, browser: httpx.Client) -> None:
    page = browser.get(pool.address("/services")).text
    assert "No services yet" not in page and "Nothing in your groups" in page
    assert "Contracts ending" not in browser.get(pool.address("")).text
    with pool.whole.browser() as owner:
        assert "Contracts ending" in owner.get(pool.address("")).text


def test_a_taken_car_is_assigned_knowingly_and_the_outcome_is_shown(pool: Pool, desk: Desk) -> None:
    page = desk(pool.gina)
    page.goto(
        f"/console/{pool.whole.customer}/assignments/new?car={pool.taken}&user={pool.ida}"
        f"&start={FAR}&end=2031-11-26T18:00"
    )
    expect(page.get_by_text("Double booking: Taken is booked at that time.")).to_be_visible()
    expect(page.get_by_text(SOMEBODY)).to_be_visible()
    page.get_by_role("button", name="Book").click()
    expect(page.get_by_role("alert").filter(has_text="The car is booked at that time.")).to_be_visible()
    expect(page.get_by_text("Hugo")).to_have_count(0)
    page.get_by_role("checkbox", name="Book anyway").check()
    page.get_by_role("button", name="Book").click()
    expect(page.get_by_text("Done")).to_be_visible()
    expect(page.get_by_text("Ida Inside")).to_be_visible()


def test_each_write_of_a_limited_dispatcher_leads_to_its_outcome(pool: Pool, browser: httpx.Client) -> None:
    """A creation, a change, an end, and the end of several."""
    whole, base = pool.whole, pool.address("/assignments")
    times = {"start": "2032-01-05T08:00", "end": "2032-01-06T18:00"}
    asked = {"car": str(pool.free), "user": str(pool.ida), **times}
    created = browser.post(f"{base}/new", data=asked)
    assert created.status_code == 303 and "/operations/" in created.headers["location"]

    def outcome(location: str) -> str:
        path = location.removeprefix("/console")
        return eventually(lambda: "Pending" not in (page := browser.get(path).text) and page, "the outcome")

    assert "Succeeded" in outcome(created.headers["location"])
    (row,) = whole.get(f"/cars/{pool.free}/assignments").json()
    changed = browser.post(f"{base}/{row['id']}/change", data={**asked, "end": "2032-01-07T18:00"})
    assert "Succeeded" in outcome(changed.headers["location"])
    ended = browser.post(f"{base}/list/bulk/end", data={"ids": str(row["id"]), "meant": "true"})
    assert ended.status_code == 200 and "Your role does not include this" not in ended.text
    again = re.findall(r'hx-get="/console([^"]+)"', ended.text)
    shown = outcome(unescape(again[0])) if again else ended.text
    assert "All 1 are done." in shown and "Vacant" in shown and "Ida Inside" in shown
    assert whole.get(f"/assignments/{row['id']}").status_code == 404


def test_what_others_asked_for_is_not_shown(pool: Pool, browser: httpx.Client, bob: Person) -> None:
    whole = pool.whole
    times = {"start": "2033-01-01T00:00:00Z", "end": "2033-01-02T00:00:00Z"}
    operation = whole.put("/assignments", {"carId": pool.free, "userId": pool.ida, **times}).headers["Operation-Id"]
    assert browser.get(pool.address(f"/operations/{operation}")).status_code == 404
    assert browser.get(pool.address(f"/operations/outcomes?ids={operation}")).status_code == 404
    assert browser.get(pool.address("/operations")).status_code == 403
    with bob.browser() as stranger:
        for path in (f"/operations/{operation}", f"/cars/{pool.taken}", "/assignments/board"):
            assert stranger.get(pool.address(path)).status_code == 404
            assert stranger.get(f"/{bob.customer}{path}").status_code == (200 if path.endswith("board") else 404)


def test_what_left_the_groups_is_not_called_removed(pool: Pool, browser: httpx.Client) -> None:
    whole = pool.whole
    leaver = whole.user(userData={"firstName": "Lena", "lastName": "Leaver"})
    put(whole, pool.group, "userId", leaver)
    asked = {"car": str(pool.free), "user": str(leaver), "start": "2034-01-05T08:00", "end": "2034-01-06T18:00"}
    created = browser.post(pool.address("/assignments/new"), data=asked).headers["location"].removeprefix("/console")
    eventually(lambda: "Succeeded" in browser.get(created).text, "the outcome")
    assert "Lena Leaver" in browser.get(created).text
    done(whole.delete(f"/groups/{pool.group}/users/{leaver}"))
    page = browser.get(created).text
    assert "Lena" not in page and "a person outside your groups, or a removed person" in page


def test_what_is_counted_before_a_deletion_does_not_claim_to_be_all(town: Town, pool: Pool) -> None:
    """A manager may delete cars of the groups, and hidden assignments end with them."""
    manager = limited(town, pool.whole, "the manager", [pool.group], Role.MANAGER)
    with manager.browser() as client:
        page = client.post(pool.address("/cars/bulk/delete"), data={"ids": str(pool.taken)}).text
        assert "Bookings with cars and people outside your groups end as well, and are not counted here." in page
        dialog = client.get(pool.address(f"/cars/{pool.taken}/delete")).text
        assert "It has no current or upcoming booking." not in dialog
    manager.client.close()
