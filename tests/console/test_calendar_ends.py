"""The first and the last times of the calendar: whatever the server accepts, every page shows in every zone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import available_timezones

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import keyrack.console
from keyrack.console import PAGES
from keyrack.console.local_times import Clock
from tests.support.people import Person, done
from tests.support.servers import eventually

CONSOLE = Path(keyrack.console.__file__).parent
FIRST, LAST = "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"
# East and west of Greenwich, and zones whose local mean time lay on the other side of it
ZONES = ("Europe/Berlin", "America/New_York", "Pacific/Kiritimati", "Asia/Manila")
# Answered with what is no page: a redirect of a provider, or a file of the operator
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
    text = moment.isoformat().replace("+00:00", "Z")
    for format in ("short", "medium", "long"):
        assert f'datetime="{text[:19]}Z"' in clock.moment(text, format)
        assert clock.day(text, format)
    assert FIELD.fullmatch(clock.field(text))
    assert abs(clock.local(text).replace(tzinfo=None) - moment.replace(tzinfo=None)) < timedelta(days=1)
    assert clock.end_of(moment.date()).tzinfo is UTC


@pytest.fixture(scope="module")
def ids(alice: Person) -> Iterator[dict[str, object]]:
    """Rows whose times are the first and the last that the API accepts, and something for each parameter of a page."""
    car, user, group = alice.car_with_box("Pool car 1"), alice.user(), alice.group()
    assignment = alice.assignment(car, user, FIRST, end=LAST)
    alice.assignment(car, user, LAST)
    ended = alice.assignment(alice.car_with_box("Pool car 2"), user, FIRST, end=LAST)
    done(alice.delete(f"/assignments/{ended}"))
    alice.put("/assignments", {"carId": alice.car("No box"), "userId": user, "start": FIRST, "end": LAST})
    for time in (FIRST, LAST):
        alice.event(car, user, utcDateTime=time)
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
        "brand": "none", "device": 1, "member": "url", "kind": "cars", "action": "group", "fact": "name",
    }  # fmt: skip


def answers(browser: httpx.Client, ids: dict[str, Any]) -> dict[str, int]:
    """The status of each page and export; one that breaks off is no answer."""
    paths = [row.path for row in PAGES if row.method == "GET" and row.path and not NO_PAGES.search(row.path)]
    statuses: dict[str, int] = {}
    for path in paths:
        try:
            statuses[path] = browser.get(path.format(**ids)).status_code
        except httpx.RemoteProtocolError:
            statuses[path] = 0
    return statuses


@pytest.mark.parametrize("zone", ZONES)
def test_every_page_shows_the_ends_of_the_calendar(zone: str, alice: Person, ids: dict[str, Any]) -> None:
    done(alice.put("/me/preferences", {"language": None, "timeZone": "UTC", "theme": None}))
    with alice.browser() as browser:
        usual = answers(browser, ids)
    assert sum(status == 200 for status in usual.values()) > 60
    done(alice.put("/me/preferences", {"language": None, "timeZone": zone, "theme": None}))
    with alice.browser() as browser:
        assert answers(browser, ids) == usual
    assert {path: status for path, status in usual.items() if status == 0 or status >= 500} == {}


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
def test_a_form_that_is_sent_unchanged_changes_nothing(zone: str, alice: Person, ids: dict[str, Any]) -> None:
    done(alice.put("/me/preferences", {"language": None, "timeZone": zone, "theme": None}))
    path = f"/{alice.customer}/assignments/{ids['assignment']}/change"
    with alice.browser() as browser:
        shown = browser.get(path).text
        fields = dict(re.findall(r'name="(start|end|tag|key|lifetime|renewable_after)"[^>]*? value="([^"]*)"', shown))
        assert fields.keys() >= {"start", "end"}
        form = fields | {"car": str(ids["car"]), "user": str(ids["user"]), "anyway": "true"}
        assert browser.post(path, data=form).status_code in (200, 303)
    assignment = alice.get(f"/assignments/{ids['assignment']}").json()
    assert (assignment["start"], assignment["end"]) == (FIRST, LAST)


def test_local_times_are_made_in_one_place() -> None:
    """`Clock.local` knows the ends of the calendar; a call beside it raises `OverflowError` there."""
    calls = [
        f"{path.name}:{node.lineno}"
        for path in sorted(CONSOLE.rglob("*.py"))
        if path.name != "local_times.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".astimezone")
        and [ast.unparse(argument) for argument in node.args] != ["UTC"]
    ]  # fmt: skip
    assert calls == []
