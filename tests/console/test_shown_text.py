"""Names of every script and length: each is isolated, and none makes a page wider than its window."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from keyrack.console import PAGES
from keyrack.console.shown_text import LONGEST, datum, sentence, without_stray_tags
from tests.console.conftest import Desk
from tests.console.test_overview import depot
from tests.support.drivers import Booking, at, signed_in_driver
from tests.support.people import Person, Town, done
from tests.support.servers import eventually

pytestmark = pytest.mark.cluster

NO_PAGES = re.compile(r"/assets/|/export|\.csv|/options|/choices/|/check$|/outcomes$|\.pmtiles$|/callback$")
WHOLE = [
    row.path for row in PAGES if row.method == "GET" and "{customer}" in row.path and not NO_PAGES.search(row.path)
]
HEBREW = re.compile("[\u05d0-\u05ea]")
ISOLATING = ("bdi", "title", "option", "textarea", "script")
TEXT = "רכב {} (אדום)"
WIDE = "W" * 120
WIDTHS = (320, 768, 1280)


def test_only_text_that_needs_it_is_marked() -> None:
    assert datum("Pool car 1") == "Pool car 1"
    assert datum("Citroën C3") == "Citroën C3"
    assert datum(5) == 5
    assert datum("א<b>") == "<bdi>א&lt;b&gt;</bdi>"
    assert datum("x" * LONGEST) == "x" * LONGEST
    assert datum("a " + "x" * (LONGEST + 1)).startswith('<bdi class="long">a x')
    assert datum("<a>\u202eb") == '<bdi>&lt;a&gt;<span class="control">[U+202E]</span>b</bdi>'
    assert datum(sentence("%(car)s is taken", {"car": "א"})) == "\u2068א\u2069 is taken"
    assert datum(sentence("%(car)s is taken", {"car": "a\u2069b"})) == "\u2068a[U+2069]b\u2069 is taken"
    assert datum(sentence("%(car)s", {"car": WIDE})) == f'<bdi class="long" dir="ltr">{WIDE}</bdi>'


def test_tags_do_not_get_into_attributes() -> None:
    page = '<title><bdi>א</bdi></title><p title="<bdi>א</bdi> > b" class=a><bdi class="long">א</bdi></p>'
    assert (
        without_stray_tags(page) == '<title>\u2068א\u2069</title><p title="א > b" class=a><bdi class="long">א</bdi></p>'
    )
    option = '<option value="<bdi>א</bdi>">x <bdi class="long" dir="ltr">א</bdi></option><b>y</b>'
    control = datum("a\u202eb")
    assert without_stray_tags(f'<input value="{control}"><textarea>{control}</textarea>') == (
        '<input value="a\u202eb"><textarea>a\u202eb</textarea>'
    )
    assert without_stray_tags(f'<option value="{control}">{control}</option>{control}') == (
        f'<option value="a\u202eb">a[U+202E]b</option>{control}'
    )
    assert without_stray_tags(option) == '<option value="א">x א</option><b>y</b>'


class Texts(HTMLParser):
    """The texts of a page that lack isolation, and the attributes with a tag."""

    VOID = ("input", "link", "meta", "br", "img", "hr", "use", "rect", "path", "circle", "line", "source", "wbr")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.bare: list[str] = []
        self.hidden_controls: list[str] = []
        self.seen = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.bare += [value for _, value in attrs if value and "bdi>" in value]
        if tag not in self.VOID:
            self.open.append("bdi" if dict(attrs).get("dir") == "auto" else tag)

    def handle_endtag(self, tag: str) -> None:
        if self.open and tag not in self.VOID:
            self.open.pop()

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.bare += [value for _, value in attrs if value and "bdi>" in value]

    def handle_data(self, data: str) -> None:
        if "\u202e" in data and not set(self.open) & {"textarea", "title"}:
            self.hidden_controls.append(data.strip())
        if not HEBREW.search(data):
            return
        self.seen += 1
        if not set(self.open) & set(ISOLATING) and "\u2068" not in data:
            self.bare.append(data.strip())


def made(person: Person, name: str, address: str) -> dict[str, Any]:
    """Parameters of the pages: a resource of each kind with this name."""
    car = person.car(name, licensePlate=name, vin=name, brand=name, model=name, description=name)
    box = person.product("Box", serial_number=name)
    service = person.service(box, name)
    done(person.put("/installations", {"carId": car, "productId": box}))
    user = person.user(address, userData={"firstName": name, "lastName": name})
    group = person.group(name)
    person.put(f"/groups/{group}/cars", {"carId": car})
    assignment = person.assignment(car, user)
    person.event(car, user, userAgent=name)
    no_box = person.car(name)
    person.put("/assignments", {"carId": no_box, "userId": user, "start": "2026-01-01T08:00:00Z"})
    webhook = person.put("/webhooks", {"url": f"http://127.0.0.1:9/{WIDE.lower() * 3}"}).json()["id"]
    client = person.put("/clients", {"name": name, "scopes": ["cars:read"]}).json()["id"]
    failed = "/operations?$filter=state eq 'Failed'"
    operation = eventually(lambda: person.get(failed).json(), "a refused assignment")[0]["id"]
    created = "/changes?$filter=kind eq 'car.created'"
    change = eventually(lambda: person.get(created).json(), "the change of a car")[0]["id"]
    return {
        "customer": person.customer, "car": car, "carId": car, "productId": box, "user": user, "group": group,
        "client": client, "manager": person.get("/managers").json()[0]["id"], "assignment": assignment,
        "webhook": webhook, "delivery": person.post(f"/webhooks/{webhook}/test").json()["id"], "operation": operation,
        "change": change, "brand": "none", "device": 1, "member": "url", "kind": "cars", "action": "group",
        "fact": "name", "service": service,
        "request": Booking(person, signed_in_driver(person)).ask(kind="extend", end=at(6)).json()["id"],
    }  # fmt: skip


@pytest.fixture(scope="module")
def hebrew(alice: Person) -> Iterator[dict[str, Any]]:
    yield made(alice, TEXT.format("7"), "kim@example.com")


def test_every_name_from_right_to_left_is_isolated(alice: Person, hebrew: dict[str, Any]) -> None:
    bare: dict[str, list[str]] = {}
    seen = 0
    with alice.browser() as browser:
        for path in WHOLE:
            answer = browser.get(path.format(**hebrew))
            assert answer.status_code < 500, path
            texts = Texts(answer.text)
            seen += texts.seen
            if texts.bare:
                bare[path] = texts.bare
    assert bare == {}
    assert seen > 80


# Rows of releases that accepted these characters
SPOOFED = (
    "update customer set name = name || $2 where customer_id = $1",
    "update car set name = name || $2, license_plate = license_plate || $2 where customer_id = $1",
    "update person set first_name = first_name || $2 where user_id in"
    " (select user_id from customer_user where customer_id = $1)",
    "update fleet_group set name = name || $2 where customer_id = $1",
    "update client set name = name || $2 where client_id in"
    " (select client_id from client_customer where customer_id = $1)",
    "update product set serial_number = serial_number || $2 where customer_id = $1",
)


def test_direction_controls_of_old_rows_are_shown(alice: Person, hebrew: dict[str, Any]) -> None:
    for statement in SPOOFED:
        alice.sql.execute(statement, alice.customer, "\u202eraC")
    hidden: dict[str, list[str]] = {}
    shown = 0
    with alice.browser() as browser:
        for path in WHOLE:
            page = browser.get(path.format(**hebrew)).text
            shown += page.count("[U+202E]")
            if controls := Texts(page).hidden_controls:
                hidden[path] = controls
    assert hidden == {}
    assert shown > 80
    assert alice.get(f"/cars/{hebrew['car']}").json()["name"].endswith("\u202eraC")


@pytest.fixture(scope="module")
def wide(bob: Person) -> Iterator[dict[str, Any]]:
    domain = ".".join(["w" * 60] * 3)
    bob.sql.execute("update customer set name = $2 where customer_id = $1", bob.customer, WIDE)
    yield made(bob, WIDE, f"{'w' * 60}@{domain}.de")


OVER = """() => {
    const room = (cell) => (cell.closest(".table-region") ?? document.documentElement).clientWidth;
    const cells = [...document.querySelectorAll(".table :is(th, td)")].map((cell) => cell.offsetWidth - room(cell));
    return [document.documentElement.scrollWidth - innerWidth, ...cells];
}"""


def overflow(page: Page) -> int:
    """Pixels by which the page exceeds its window, or a cell its list."""
    return max(page.evaluate(OVER))


# Pages that repeat their input
ERRORS = (
    f"/{{customer}}/cars?filter=name eq {WIDE}",
    f"/{{customer}}/cars?q={WIDE}",
    f"/{{customer}}/events?filter={WIDE}()",
    "/{customer}/assignments/new?car={car}&user={user}&start=2026-01-01T08:00&no_end=true",
    f"/{{customer}}/{WIDE}",
    f"/password?code={WIDE}",
    f"/invitation?code={WIDE}",
    f"/forgot?username={WIDE}",
    "/{customer}/cars?columns=name,plate,brand,vin,box,now,next,seen",
)


def test_nothing_makes_a_page_wider_than_its_window(desk: Desk, bob: Person, wide: dict[str, Any]) -> None:
    page = desk(bob)
    over: dict[tuple[str, int], int] = {}
    for path in (*WHOLE, *ERRORS):
        answer = page.goto("/console" + path.format(**wide))
        assert answer is not None and answer.status != 500, path
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            if (pixels := overflow(page)) > 0:
                over[path, width] = pixels
    assert over == {}


BARE = """() => {
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), bare = [];
    while (walk.nextNode()) {
        const text = walk.currentNode;
        const isolated = text.parentElement.closest("bdi, [dir=auto], option, script, template, [role=status]");
        if (/[\u05d0-\u05ea]/.test(text.data) && !isolated || /[\u202a-\u202e]/.test(text.data))
            bare.push(text.parentElement.outerHTML);
    }
    return bare;
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_scripts_show_every_name_in_its_place(theme: str, desk: Desk, town: Town) -> None:
    """The map's card and table, and what is found by typing."""
    person = town.person("carol")
    depot(person, 3)
    names = "update car set name = $2, license_plate = $2 where customer_id = $1 and name = $3"
    person.sql.execute(names, person.customer, WIDE, "Car 1")
    person.sql.execute(names, person.customer, TEXT.format("8"), "Car 2")
    person.sql.execute(names, person.customer, "Pool \u202e7 raC", "Car 3")
    page = desk(person, color_scheme=theme, viewport={"width": 1280, "height": 900})
    page.goto(f"/console/{person.customer}")
    shown_names = (WIDE, TEXT.format("8"), "Pool [U+202E]7 raC")
    for name in shown_names:
        page.get_by_role("button", name=f"Show {name} on the map").click()
        expect(page.get_by_role("region", name=name)).to_be_visible()
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            assert overflow(page) <= 0, width
        assert page.evaluate(BARE) == []
    page.goto(f"/console/{person.customer}/assignments/new")
    for name in shown_names:
        page.locator("#input-car").fill(name[:20].partition("[")[0])
        expect(page.get_by_role("option")).to_have_count(1)
        expect(page.get_by_role("option")).to_contain_text(name)
        assert page.evaluate(BARE) == []
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            assert overflow(page) <= 0, width
        page.get_by_role("option").click()
