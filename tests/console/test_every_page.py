"""Every page of the console in both themes, both languages, narrow and wide."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from zoneinfo import available_timezones

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from keyrack.console import PAGES
from keyrack.http.page_router import ConsolePage as Row
from tests.console import axe
from tests.console.conftest import Desk
from tests.console.phones import pending_enrolment, phone_with_key
from tests.support.drivers import Booking, at, signed_in_driver
from tests.support.people import Person
from tests.support.servers import RunningServer, eventually

pytestmark = pytest.mark.cluster

LOOKS: list[dict[str, Any]] = [
    {"color_scheme": theme, "locale": language, "viewport": {"width": width, "height": 900}}
    for theme in ("light", "dark")
    for language in ("en-GB", "de-DE")
    for width in (320, 1280)
]
# Resources of pages, and the address to which providers redirect
NO_PAGES = re.compile(r"/assets/|/export|\.csv|/options|/choices/|/check$|/outcomes$|\.pmtiles$|/callback$")


def name(row: Row) -> str:
    return row.path or "/"


def look_name(look: dict[str, Any]) -> str:
    return f"{look['color_scheme']}-{look['locale']}-{look['viewport']['width']}"


WORDS = ("brand", "member", "kind", "action", "fact", "change")  # parameters that are the same for everybody
WHOLE = [row for row in PAGES if row.method == "GET" and row.path and not NO_PAGES.search(row.path)]


USUAL = [LOOKS[1], LOOKS[6]]  # light, English, wide; dark, German, narrow
CASES = [(row, look) for number, row in enumerate(WHOLE) for look in (LOOKS if axe.LONG else [USUAL[number % 2]])]


# Texts that are not words: names and values of programs, unfilled placeholders, times in program formats
RAW = re.compile(
    r"undefined|\bnull\b|\bNaN\b|\{\{|\{%|%\(\w+\)|\{\w+\}|\b\d{4}-\d\d-\d\dT\d|\b[A-Z]?[a-z]+[A-Z]\w*|\b[a-z]+_\w+"
)
PROSE = """[...document.querySelectorAll("pre, code")]
    .reduce((text, one) => text.replace(one.innerText, () => ""), document.body.innerText)"""
OVER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"  # pixels to scroll sideways
NONE = re.compile(r"\bNone\b|\bTrue\b|\bFalse\b")  # the first of them is a word of English
NAMES = {"OpenAPI", "CloudEvents", "JavaScript", "GeoNames", "WebGL", "kPa"} | {
    word for zone in available_timezones() for word in re.split("[/_]", zone)
}


def raw(text: str, language: str) -> list[str]:
    """Parts of a text that should be words."""
    found = RAW.findall(text) + (NONE.findall(text) if language.startswith("de") else [])
    return sorted({one for one in found if one not in NAMES})


WEEKDAY = re.compile(r"\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun|Mo|Di|Mi|Do|Fr|Sa|So)")


class Seen(HTMLParser):
    """The visible and announced texts of a page, and two kinds of faults.

    The faults are forms that lose entries when the session expires, and times without a weekday.
    """

    UNSEEN = ("script", "style", "template", "code", "pre")
    SPOKEN = ("aria-label", "placeholder", "title", "alt")
    NOT_TYPED = ("hidden", "checkbox", "radio", "search", "submit", "password")
    CONFIRMED = re.compile(r"/erase$|/bulk/\w+$")  # a typed or chosen value confirms it, so it is asked for again

    def __init__(self, page: str) -> None:
        super().__init__()
        self.shown, self.lost, self._form, self._within = "", [], "", 0
        self.undated, self._is_time = [], False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._within += tag in self.UNSEEN
        self._is_time = tag == "time" and not self._within
        self.shown += " ".join(["", *(given.get(name) or "" for name in self.SPOKEN)])
        if tag == "form":
            kept = given.get("method") != "post" or ("data-keep" in given and "id" in given)
            self._form = "" if kept or self.CONFIRMED.search(given.get("action") or "") else str(given)
        typed = tag in ("select", "textarea") or (tag == "input" and given.get("type", "text") not in self.NOT_TYPED)
        if typed and self._form and "hidden" not in given:
            self.lost.append(self._form)

    def handle_endtag(self, tag: str) -> None:
        self._within -= tag in self.UNSEEN
        self._form = "" if tag == "form" else self._form
        self._is_time = False

    def handle_data(self, data: str) -> None:
        if self._is_time and not WEEKDAY.search(data):
            self.undated.append(data)
        self.shown += "" if self._within else f" {data}"


@pytest.fixture(scope="module")
def ids(alice: Person) -> Iterator[dict[str, object]]:
    """An object of each kind for the parameters of the pages."""
    car, user, group = alice.car_with_box("Pool car 7"), alice.user(), alice.group()
    assignment = alice.assignment(car, user)
    product = alice.get(f"/cars/{car}/products").json()[0]["id"]
    webhook = alice.put("/webhooks", {"url": "http://127.0.0.1:9/hook"}).json()["id"]
    delivery = alice.post(f"/webhooks/{webhook}/test").json()["id"]
    alice.event(car, user)
    device = phone_with_key(alice, car, user).id
    asked = Booking(alice, signed_in_driver(alice)).ask(kind="extend", end=at(6), comment="The train is late").json()
    pending_enrolment(alice, product)
    operation = eventually(lambda: alice.get("/operations?$top=1").json(), "an operation")[0]["id"]
    brand = alice.get("/brands").json()
    change = eventually(lambda: alice.get("/changes?$filter=kind eq 'assignment.created'").json(), "its change")[0][
        "id"
    ]
    yield {
        "customer": alice.customer, "car": car, "carId": car, "productId": product, "user": user, "group": group,
        "client": alice.put("/clients", {"name": "Booking", "scopes": ["cars:read", "users:write"]}).json()["id"],
        "manager": alice.get("/managers").json()[0]["id"],
        "assignment": assignment, "request": asked["id"], "webhook": webhook, "device": device, "delivery": delivery,
        "operation": operation, "change": change, "brand": brand[0] if brand else "none",
        "member": "url", "kind": "cars", "action": "group", "fact": "name",
    }  # fmt: skip


@pytest.fixture(scope="module")
def tabs(chromium: Browser, server: RunningServer, alice: Person) -> Iterator[Tabs]:
    """One tab for each look, reused from page to page: a new tab costs more than a page."""
    tabs = Tabs(Desk(chromium, server), alice)
    yield tabs
    tabs.desk.close()


@dataclass
class Tabs:
    desk: Desk
    alice: Person
    kept: dict[tuple[bool, str], Page] = field(default_factory=dict)

    def tab(self, open: bool, look: dict[str, Any]) -> Page:
        key = open, look_name(look)
        if key not in self.kept:
            self.kept[key] = self.desk(None if open else self.alice, **look)
        self.kept[key].set_viewport_size(look["viewport"])
        return self.kept[key]


@pytest.mark.parametrize(("row", "look"), CASES, ids=[f"{name(row)}-{look_name(look)}" for row, look in CASES])
def test_every_page_is_whole_for_everybody(row: Row, look: dict[str, Any], tabs: Tabs, ids: dict[str, object]) -> None:
    page = tabs.tab(row.is_public, look)
    answer = page.goto("/console" + row.path.format(**ids))
    assert answer is not None and answer.status == 200, answer and answer.text()
    expect(page.locator("html")).to_have_attribute("lang", re.compile(look["locale"][:2]))
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    assert axe.faults(page) == []
    for width in (320, 800, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate(OVER) <= 0, width
    if not row.path.endswith("/reference"):  # which shows the API's own names
        assert raw(page.evaluate(PROSE), look["locale"]) == []
    assert tabs.desk.wrong == []


@pytest.mark.parametrize("language", ["en-GB", "de-DE"])
def test_every_page_is_in_words_and_keeps_what_is_typed(language: str, alice: Person, ids: dict[str, object]) -> None:
    """The server's answer in every language; the browser checks each page in one of them."""
    found: dict[str, list[str]] = {}
    with alice.browser() as browser:
        for row in WHOLE:
            answer = browser.get(row.path.format(**ids), headers={"Accept-Language": language})
            text = Seen(answer.text)
            found[name(row)] = raw(text.shown, language) + ([] if row.is_public else text.lost) + text.undated
    assert {page: wrong for page, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize(
    "row", [row for row in PAGES if "{customer}" in row.path], ids=lambda row: f"{row.method} {row.path}"
)
def test_a_neighbour_sees_nothing_of_it(row: Row, bob: Person, ids: dict[str, object]) -> None:
    """Neither in the other customer, nor with the other's ids in the own one: like ids that do not exist."""
    other = ids | {"customer": bob.customer}
    nobody = dict.fromkeys(ids, "2147483647") | {"customer": bob.customer} | {name: ids[name] for name in WORDS}
    with bob.browser() as browser:
        assert ask(browser, row, ids).status_code == 404
        if re.search(r"\{(?!customer|brand|member|kind|action|fact|change)", row.path):
            theirs, none = ask(browser, row, other), ask(browser, row, nobody)
            assert (theirs.status_code, none.status_code) == (404, 404)


def ask(browser: httpx.Client, row: Row, ids: dict[str, object]) -> httpx.Response:
    return browser.request(row.method, row.path.format(**ids), **({"data": {"x": ""}} if row.method == "POST" else {}))
