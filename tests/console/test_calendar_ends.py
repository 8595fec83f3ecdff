"""The first and the last times of the calendar: each page shows every accepted time in every zone."""

from __future__ import annotations

import ast
import html
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlencode
from zoneinfo import available_timezones

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import expect

import keyrack
from keyrack.console import PAGES
from keyrack.console.local_times import Clock
from tests.console.axe import LONG
from tests.console.conftest import Desk
from tests.support.drivers import Booking, at, signed_in_driver
from tests.support.people import Person, done
from tests.support.servers import eventually

SOURCE = Path(keyrack.__file__).parent
FIRST, LAST = "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"
# East and west of Greenwich, and zones whose local mean time lay on the other side of it
USUAL = ("Europe/Berlin", "America/New_York", "Pacific/Kiritimati", "Asia/Manila")
ZONES = sorted(available_timezones()) if LONG else USUAL  # make test-console-long
RANDOM = Random(9999)
TIMES = [FIRST, LAST] + [
    f"{date.fromordinal(RANDOM.randint(1, date.max.toordinal()))}T{RANDOM.randrange(24):02}:30:15Z" for _ in range(6)
]
# Pages without a result: a redirect of a provider, or a file of the operator
NO_PAGES = re.compile(r"/assets/|/callback$|\.pmtiles$|/options$")
FIELD = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")


@given(
    st.datetimes(timezones=st.just(UTC))
    | st.timedeltas(timedelta(0), timedelta(days=2)).map(lambda part: datetime.min.replace(tzinfo=UTC) + part)
    | st.timedeltas(timedelta(0), timedelta(days=2)).map(lambda part: datetime.max.replace(tzinfo=UTC) - part),
    st.sampled_from(sorted(available_timezones())),
    st.sampled_from(("en_GB", "de_DE")),
)
def test_a_clock_shows_every_time(moment: datetime, zone: str, locale: str) -> None:
    clock = Clock(zone, locale)
    assert Clock("UTC", locale).text(moment) <= "9999-12-31 23:59:59"
    text = moment.isoformat().replace("+00:00", "Z")
    for format in ("short", "minute", "medium", "long"):
        assert f'datetime="{text[:19]}Z"' in clock.moment(text, format)
    assert clock.day(text) and clock.calendar_date_shown(text)
    assert FIELD.fullmatch(clock.field(text))
    assert abs(clock.local(text).replace(tzinfo=None) - moment.replace(tzinfo=None)) < timedelta(days=1)
    assert clock.end_of(moment.date()).tzinfo is UTC
    assert clock.last_day(clock.end_of(clock.last_day(text))) == clock.last_day(text)
    assert clock.read_field(clock.field(text), text) == f"{text[:19]}Z"


@pytest.mark.parametrize("locale", ["en_GB", "de_DE"])
def test_a_time_that_no_clock_shows_is_that_of_utc_and_says_so(locale: str) -> None:
    for zone in sorted(available_timezones()):
        clock = Clock(zone, locale)
        for text in (FIRST, LAST):
            shown = {format: clock.moment(text, format) for format in ("short", "minute", "medium", "long")}
            is_exact = not clock.text(text).endswith("Z")
            if not is_exact:
                assert clock.text(text) == text.replace("T", " ")
                assert all("UTC" in part for part in shown.values()), zone
            elif "UTC" not in zone:
                assert "UTC" not in shown["short"]
    assert "23:59 UTC" in Clock("Europe/Berlin", locale).moment(LAST, "short")
    assert "UTC" not in Clock("America/New_York", locale).moment(LAST, "short")


@pytest.fixture(scope="module")
def ids(alice: Person) -> Iterator[dict[str, object]]:
    """Rows with the first and the last accepted times, and an object for each parameter of a page."""
    car, user, group = alice.car_with_box("Pool car 1"), alice.user(), alice.group()
    assignment = alice.assignment(car, user, FIRST, end=LAST)
    alice.assignment(car, user, LAST)
    ended = alice.assignment(alice.car_with_box("Pool car 2"), user, FIRST, end=LAST)
    done(alice.delete(f"/assignments/{ended}"))
    alice.put("/assignments", {"carId": alice.car("No box"), "userId": user, "start": FIRST, "end": LAST})
    for time in TIMES:
        alice.event(car, user, utcDateTime=time)
    for start, end in zip(sorted(TIMES[2:]), sorted(TIMES[2:])[1:], strict=False):
        alice.assignment(car, user, start, end=end)
    client = alice.put("/clients", {"name": "Unlimited", "scopes": ["cars:read"], "expires": LAST}).json()["id"]
    webhook = alice.put("/webhooks", {"url": "http://127.0.0.1:9/hook"}).json()["id"]
    failed = "/operations?$filter=state eq 'Failed'"
    operation = eventually(lambda: alice.get(failed).json(), "a refused assignment")[0]["id"]
    eventually(lambda: alice.get(f"/assignments/{ended}").status_code == 404, "the end of an assignment")
    created = "/changes?$filter=kind eq 'assignment.created'"
    change = eventually(lambda: alice.get(created).json(), "the change of an assignment")[0]["id"]
    yield {
        "customer": alice.customer, "car": car, "carId": car, "user": user, "group": group, "client": client,
        "productId": alice.get(f"/cars/{car}/products").json()[0]["id"],
        "manager": alice.get("/managers").json()[0]["id"], "assignment": assignment, "webhook": webhook,
        "delivery": alice.post(f"/webhooks/{webhook}/test").json()["id"], "operation": operation, "change": change,
        "request": Booking(alice, signed_in_driver(alice)).ask(kind="extend", end=at(6)).json()["id"],
        "brand": "none", "device": 1, "member": "url", "kind": "cars", "action": "group", "fact": "name",
    }  # fmt: skip


def answers(browser: httpx.Client, ids: dict[str, Any], query: str = "") -> dict[str, int]:
    """The status of each page and export; an interrupted one is a failure."""
    paths = [row.path for row in PAGES if row.method == "GET" and row.path and not NO_PAGES.search(row.path)]
    statuses: dict[str, int] = {}
    for path in paths:
        try:
            statuses[path] = browser.get(path.format(**ids) + query).status_code
        except httpx.RemoteProtocolError:
            statuses[path] = 0
    return statuses


@pytest.fixture(scope="module")
def usual(alice: Person, ids: dict[str, Any]) -> dict[str, int]:
    """The status of each page in UTC."""
    done(alice.put("/me/preferences", {"language": None, "timeZone": "UTC", "theme": None}))
    with alice.browser() as browser:
        statuses = answers(browser, ids)
    assert sum(status == 200 for status in statuses.values()) > 60
    return statuses


@pytest.mark.parametrize("zone", ZONES)
def test_every_page_shows_the_ends_of_the_calendar(
    zone: str, alice: Person, ids: dict[str, Any], usual: dict[str, int]
) -> None:
    done(alice.put("/me/preferences", {"language": None, "timeZone": zone, "theme": None}))
    with alice.browser() as browser:
        assert answers(browser, ids) == usual
    assert failures(usual) == {}


def failures(statuses: dict[str, int]) -> dict[str, int]:
    return {path: status for path, status in statuses.items() if status == 0 or status >= 500}


@pytest.mark.parametrize("zone", USUAL[:2])
@pytest.mark.parametrize("time", [FIRST, LAST, FIRST[:16], LAST[:16], FIRST[:10], LAST[:10]])
def test_an_address_may_name_any_time(time: str, zone: str, alice: Person, ids: dict[str, Any]) -> None:
    """Every parameter for a time or a day accepts it."""
    done(alice.put("/me/preferences", {"language": None, "timeZone": zone, "theme": None}))
    names = ("from", "to", "at", "day", "start", "start_exact", "end", "end_exact", "since", "more")
    with alice.browser() as browser:
        assert failures(answers(browser, ids, "?" + urlencode(dict.fromkeys(names, time)))) == {}


@pytest.mark.parametrize(("zone", "text"), [("America/New_York", LAST[:16]), ("Europe/Berlin", FIRST[:16])])
def test_a_typed_time_beyond_the_calendar_is_an_error(zone: str, text: str, alice: Person, ids: dict[str, Any]) -> None:
    done(alice.put("/me/preferences", {"language": None, "timeZone": zone, "theme": None}))
    form = {"car": str(ids["car"]), "user": str(ids["user"]), "start": text, "end": text}
    with alice.browser() as browser:
        answer = browser.post(f"/{alice.customer}/assignments/new", data=form)
    assert answer.status_code == 422
    assert "Enter a date and a time." in answer.text


@pytest.mark.parametrize("zone", USUAL)
def test_a_form_that_is_sent_unchanged_changes_nothing(zone: str, alice: Person, ids: dict[str, Any]) -> None:
    done(alice.put("/me/preferences", {"language": None, "timeZone": zone, "theme": None}))
    path = f"/{alice.customer}/assignments/{ids['assignment']}/change"
    with alice.browser() as browser:
        shown = browser.get(path).text
        form = inputs(shown) | {"car": str(ids["car"]), "user": str(ids["user"]), "anyway": "true"}
        assert browser.post(path, data=form).status_code in (200, 303)
    assignment = alice.get(f"/assignments/{ids['assignment']}").json()
    assert (assignment["start"], assignment["end"]) == (FIRST, LAST)


def inputs(page: str) -> dict[str, str]:
    """The fields of an assignment's form, as they are sent."""
    names = "start|end|start_exact|end_exact|tag|key|lifetime|renewable_after"
    fields = {
        name: html.unescape(value) for name, value in re.findall(rf'name="({names})"[^>]*? value="([^"]*)"', page)
    }
    assert fields.keys() >= {"start", "end", "start_exact", "end_exact"}
    return fields


@pytest.mark.parametrize("zone", USUAL)
def test_what_failed_is_tried_again_with_its_times(zone: str, alice: Person, ids: dict[str, Any]) -> None:
    done(alice.put("/me/preferences", {"language": None, "timeZone": zone, "theme": None}))
    with alice.browser() as browser:
        page = browser.get(f"/{alice.customer}/operations/{ids['operation']}").text
        again = re.search(r'href="[^"]*(/assignments/new\?[^"]+)"', page)
        assert again
        form = inputs(browser.get(f"/{alice.customer}{html.unescape(again[1])}").text)
        sent = browser.post(
            f"/{alice.customer}/assignments/new",
            data=form | {"car": str(ids["car"]), "user": str(ids["user"]), "anyway": "true"},
        )
    assert sent.status_code in (303, 409), sent.text
    assert (form["start_exact"], form["end_exact"]) == (FIRST, LAST)


@pytest.mark.parametrize("zone", USUAL)
@pytest.mark.parametrize("expires", [LAST, "2031-05-05T10:20:30Z"])
def test_a_client_that_is_saved_unchanged_ends_when_it_did(expires: str, zone: str, alice: Person) -> None:
    done(alice.put("/me/preferences", {"language": None, "timeZone": zone, "theme": None}))
    client = {"name": "Unlimited", "scopes": ["cars:read"], "expires": expires}
    id = alice.put("/clients", client).json()["id"]
    path = f"/{alice.customer}/settings/clients/{id}/change"
    with alice.browser() as browser:
        page = browser.get(path).text
        fields = {
            name: html.unescape(value) for name, value in re.findall(r'name="(last|tag)"[^>]*? value="([^"]*)"', page)
        }
        assert date.fromisoformat(fields["last"])
        answer = browser.post(path, data=fields | {"name": "Renamed", "scopes": "cars:read"})
    assert answer.status_code in (200, 303), answer.text
    after = alice.get(f"/clients/{id}").json()
    assert (after["name"], after["expires"]) == ("Renamed", expires)
    done(alice.delete(f"/clients/{id}"))


@pytest.mark.parametrize("zone", USUAL[:2])
def test_scripts_of_the_pages_take_every_time(zone: str, desk: Desk, alice: Person, ids: dict[str, Any]) -> None:
    done(alice.put("/me/preferences", {"language": None, "timeZone": zone, "theme": None}))
    page = desk(alice, locale="en-GB")
    for path in ("events?sort=time", "changes", f"cars/{ids['car']}", f"users/{ids['user']}"):
        page.goto(f"/console/{alice.customer}/{path}")
        expect(page.locator("main")).not_to_contain_text(re.compile(r"Invalid Date|NaN|undefined"))
    page.goto(f"/console/{alice.customer}/assignments/board?q=Pool+car+1&from=2026-11-02")
    page.locator('.bar[data-end^="9999-12-31"] a').first.focus()
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator("#input-end")).to_have_value(re.compile("^9999-12-31T"))
    assert desk.wrong == []


def is_conversion(node: ast.AST) -> bool:
    """Whether the call converts a time to another zone than UTC."""
    if not isinstance(node, ast.Call):
        return False
    function = ast.unparse(node.func)
    arguments = [ast.unparse(argument) for argument in node.args]
    if function.endswith(".astimezone"):
        return arguments != ["UTC"]
    if function.endswith(".fromtimestamp"):
        return arguments[1:] != ["UTC"]
    return function.startswith("format_") and any(keyword.arg == "tzinfo" for keyword in node.keywords)


def test_local_times_are_made_in_one_place() -> None:
    """`console/local_times.py` handles the ends of the calendar; other conversions would raise `OverflowError` there.

    Times of the database and of request bodies are UTC, so converting them to UTC cannot fail. Days of the person's
    zone can be outside the calendar.
    """
    texts = {path: path.read_text() for path in sorted(SOURCE.rglob("*.py")) if path.name != "local_times.py"}
    calls = [
        f"{path.relative_to(SOURCE)}:{getattr(node, 'lineno', 0)}"
        for path, text in texts.items()
        if re.search("astimezone|fromtimestamp|tzinfo=", text)
        for node in ast.walk(ast.parse(text))
        if is_conversion(node)
    ]
    in_console = [
        f"{path.relative_to(SOURCE)}"
        for path, text in texts.items()
        if path.is_relative_to(SOURCE / "console") and "astimezone" in text
    ]
    assert calls + in_console == []
