"""The drivers' app by WCAG 2.2 AA.

One walk looks at every page and every moment in English and the light theme. Another one does it in German and the dark
theme. The tests then judge what they saw.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from keyrack.core.settings import Settings
from keyrack.drivers.app_files import OWN
from tests.console import axe
from tests.drivers.app_browser import Gate, app_context, booking, gate_of_own_server, sign_in
from tests.drivers.app_scenes import (
    PROGRESS,
    Cast,
    lost_scenes,
    moment_scenes,
    moments,
    new_page_of,
    set_state,
    show_moment,
    signed_in_scenes,
    signed_out_scenes,
    wait_until_ready,
)
from tests.support import browser
from tests.support.people import Person

pytestmark = browser.needed

LANGUAGES = ("en", "de")
LOCALES = {"en": "en-GB", "de": "de-DE"}
PHONE: ViewportSize = {"width": 390, "height": 780}
NARROW: ViewportSize = {"width": 320, "height": 640}
TALL: ViewportSize = {"width": 390, "height": 3000}  # so that no bar lies over a button that could be scrolled
THEMES = {"en": "light", "de": "dark"}
TARGET, BUTTON, MAIN = 24, 44, 64  # pixels
# What lies outside of its own part, at the width of the window
OVER = """() => [...document.querySelectorAll('body, body *')].filter((one) => {
  const { right, left, width } = one.getBoundingClientRect();
  const isCut = one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).overflowX !== 'visible';
  return width > 0 && !one.closest('.unseen') && !one.closest('svg')
    && (right > innerWidth + 1 || left < -1 || (isCut && !one.matches('input, select')));
}).map((one) => `${one.localName}.${one.className}: ${one.textContent.slice(0, 40)}`)"""
SMALL = """([target, button, main]) => [...document.querySelectorAll('a[href], button, input, select, summary')]
  .filter((one) => one.checkVisibility())
  .map((one) => ({ one: one.matches('.check input') ? one.closest('label') : one }))
  .map(({ one }) => ({ one, box: one.getBoundingClientRect(),
    least: one.matches('.main') ? main : one.matches('p a, li a') && !one.matches('.row') ? target : button }))
  .filter(({ box, least }) => box.height < least - 0.5 || box.width < Math.min(least, button) - 0.5)
  .map(({ one, box }) => `${one.localName}.${one.className} ${one.textContent.slice(0, 30)}: `
    + `${Math.round(box.width)} x ${Math.round(box.height)}`)"""
FACTS = """() => ({
  language: document.documentElement.lang, title: document.title, page: document.getElementById('page').dataset.page,
  headings: [...document.querySelectorAll('main h1')].map((one) => one.textContent),
  message: (document.querySelector('.car .notice h2') ?? document.querySelector('.notice h2'))?.textContent ?? null,
  focus: document.activeElement.matches('h1, h2, button') ? document.activeElement.textContent : null,
})"""
# The places at which the tabulator stops, in the order of the document
STOPS = """() => {
  const root = document.querySelector('dialog[open]') ?? document;
  const all = [...root.querySelectorAll('a[href], button, input, select, summary')];
  globalThis.stops = all.filter((one) => one.checkVisibility() && !one.hidden);
  return globalThis.stops.length;
}"""
# The stop that has the focus, or -1, and whether it is seen: with an outline, and under no bar
STOP = """() => {
  const one = document.activeElement;
  const { outlineStyle, outlineWidth } = getComputedStyle(one);
  const { left, top, width, height } = one.getBoundingClientRect();
  const seen = document.elementFromPoint(left + width / 2, top + height / 2);
  return [globalThis.stops.indexOf(one), outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2,
    one.contains(seen) || (seen?.contains(one) ?? false)];
}"""
# Whose actions replace what had the focus
AFTER = ("forgot, sent", "phones, removed", "security, session ended", "requests, sent", "lost, done")
REJECTIONS = ("sign-in, wrong password", "security, wrong password", "requests, wrong time", "lost, none chosen")


@dataclass
class Seen:
    """The findings of a walk in one scene."""

    faults: list[str] = field(default_factory=list[str])
    over: list[str] = field(default_factory=list[str])
    small: list[str] = field(default_factory=list[str])
    keys: list[str] = field(default_factory=list[str])
    facts: dict[str, Any] = field(default_factory=dict[str, Any])
    status: str = ""
    alert: str = ""


@dataclass
class Walk:
    """All scenes in one language."""

    language: str
    scenes: dict[str, Seen] = field(default_factory=dict[str, Seen])

    def faults(self, kind: str) -> list[str]:
        """Each fault of this kind, with the scene."""
        return [f"{scene}: {fault}" for scene, seen in self.scenes.items() for fault in getattr(seen, kind)]


def look(page: Page) -> Seen:
    """Check a scene by keyboard, axe, width and text size."""
    seen = Seen(facts=page.evaluate(FACTS), small=page.evaluate(SMALL, [TARGET, BUTTON, MAIN]))
    seen.status, seen.alert = (" ".join(page.get_by_role(role).all_inner_texts()) for role in ("status", "alert"))
    seen.keys += tab_through(page)
    page.set_viewport_size(TALL)
    seen.faults += axe.faults(page)
    page.set_viewport_size(NARROW)
    seen.over += page.evaluate(OVER)
    page.evaluate("document.documentElement.style.fontSize = '200%'")
    seen.over += [f"text at 200 %: {fault}" for fault in page.evaluate(OVER)]
    page.evaluate("document.documentElement.style.fontSize = ''")
    page.set_viewport_size(PHONE)
    return seen


def tab_through(page: Page) -> list[str]:
    """Faults of a way through the page by the tabulator.

    It stops at everything in the order of the document, and then leaves it.
    """
    count, path, faults = page.evaluate(STOPS), list[int](), list[str]()
    for _ in range(count * 2 + 10):  # a field for a time has several stops
        page.keyboard.press("Tab")
        stop, has_outline, is_free = page.evaluate(STOP)
        if path[-1:] != [stop]:
            path.append(stop)
        if stop >= 0 and not (has_outline and is_free):
            faults.append(f"stop {stop} is not seen: {has_outline=} {is_free=}")
        if len(path) == count + 1:
            break
    start = path.index(-1) + 1 if -1 in path else 0
    if path[start:] + path[:start] != [*range(count), -1]:
        faults.append(f"the tabulator goes {path} through {count} stops")
    return faults


@pytest.fixture(scope="module")
def gate(dsn: str, settings: Settings) -> Iterator[Gate]:
    with gate_of_own_server(settings, dsn) as gate:
        yield gate


@pytest.fixture(scope="module", params=LANGUAGES)
def walk(request: pytest.FixtureRequest, alice: Person, gate: Gate) -> Walk:
    """The findings in all scenes of a language."""
    walk = Walk(request.param)
    cast = Cast.of(alice, walk.language)
    looks: dict[str, Any] = {"locale": LOCALES[walk.language], "viewport": PHONE, "color_scheme": THEMES[walk.language]}
    with app_context(gate, **looks) as context:
        app = new_page_of(context.new_page())
        for scenes in (
            signed_out_scenes(app, cast),
            signed_in_scenes(app, cast, gate),
            moment_scenes(app, cast, gate),
            lost_scenes(app),
        ):
            for scene in scenes:
                walk.scenes[scene] = look(app.page)
        app.check(gate)
    return walk


def test_the_walk_visits_every_page_and_every_moment(walk: Walk) -> None:
    """The app's own table has the pages, its texts the moments."""
    table = re.search(r"const PAGES = \{\n(.*?)\n\};", (OWN / "pages/index.js").read_text(), re.DOTALL)
    assert table is not None
    pages = {line.strip(" ,").partition(":")[0].strip("'") for line in table[1].splitlines()}
    assert {"", "sign-in", "account"} <= pages
    assert {seen.facts["page"] for seen in walk.scenes.values()} == pages
    known = set(re.findall(r"'moment\.([\w-]+)\.title'", (OWN / "texts.js").read_text()))
    assert known == set(moments())


def test_axe_finds_no_fault(walk: Walk) -> None:
    assert walk.faults("faults") == []


def test_nothing_is_cut_off_at_320_pixels_and_with_large_text(walk: Walk) -> None:
    assert walk.faults("over") == []


def test_targets_are_large_enough_for_a_thumb(walk: Walk) -> None:
    assert walk.faults("small") == []


def test_each_page_has_a_title_a_heading_and_a_language(walk: Walk) -> None:
    for scene, seen in walk.scenes.items():
        assert seen.facts["language"] == walk.language, scene
        (heading,) = seen.facts["headings"]
        assert seen.facts["title"] == f"{heading} · Keyrack Drive", scene


def test_the_keyboard_reaches_and_leaves_everything_in_order(walk: Walk) -> None:
    """The focus is always seen."""
    assert walk.faults("keys") == []


def test_messages_have_the_focus_after_an_action(walk: Walk) -> None:
    for scene in AFTER:
        facts = walk.scenes[scene].facts
        assert facts["focus"] == facts["message"] is not None, scene


def test_dialogs_begin_at_the_button_that_changes_nothing(walk: Walk) -> None:
    cancel = {"en": "Cancel", "de": "Abbrechen"}[walk.language]
    for scene in ("phones, removal", "return, still open", "lost, this phone"):
        assert walk.scenes[scene].facts["focus"] == cancel, scene


def test_live_regions_announce_moments_and_rejections(walk: Walk) -> None:
    for moment in moments():
        seen = walk.scenes[f"moment {moment}"]
        assert seen.facts["message"] in seen.status, moment
    for scene in REJECTIONS:
        seen = walk.scenes[scene]
        assert seen.facts["message"] in seen.alert, scene


def test_rejections_are_in_the_language_of_the_driver(walk: Walk) -> None:
    """The server's own texts are English, and for developers."""
    texts = {
        "en": ("The sign-in is not right", "Your company’s sign-in did not work", "The current password is not right"),
        "de": (
            "Die Anmeldung stimmt nicht",
            "Die Anmeldung Ihrer Firma hat nicht geklappt",
            "Das bisherige Passwort stimmt nicht",
        ),
    }[walk.language]
    scenes = ("sign-in, wrong password", "provider #provider", "security, wrong password")
    assert tuple(walk.scenes[scene].facts["message"] for scene in scenes) == texts


@contextmanager
def ready_page(person: Person, gate: Gate, **options: Any) -> Iterator[Page]:
    """The main screen of a driver with a key, which nothing draws again."""
    booked = booking(person)
    with app_context(gate, **options) as context:
        sign_in(context, booked.driver, gate)
        page = context.new_page()
        new_page_of(page).start()
        wait_until_ready(page)
        yield page


def test_headings_have_the_focus_after_a_change_of_the_page(alice: Person, gate: Gate) -> None:
    with ready_page(alice, gate) as page:
        for link in ("Account", "Privacy", "Back", "Booking", "Return the car"):
            page.get_by_role("link", name=link, exact=True).click()
            heading = {"Back": "Account", "Booking": "More time or return"}.get(link, link)
            expect(page.get_by_role("heading", name=heading, exact=True, level=1)).to_be_focused()


def test_the_message_has_the_focus_if_the_button_is_gone(alice: Person, gate: Gate) -> None:
    with ready_page(alice, gate) as page:
        show_moment(page, "unknown")
        page.get_by_role("button", name="It is open").click()
        expect(page.get_by_role("heading", name="Open", exact=True)).to_be_focused()


def test_nothing_moves_if_the_driver_wants_no_motion(alice: Person, gate: Gate) -> None:
    with ready_page(alice, gate, reduced_motion="no-preference") as page:
        set_state(page, PROGRESS["closing"])
        assert page.evaluate("document.getAnimations().length") == 1
        page.emulate_media(reduced_motion="reduce")
        assert page.evaluate("document.getAnimations().length") == 0
        assert page.evaluate("getComputedStyle(document.querySelector('.button')).transitionDuration") == "0s"


BORDERS = """(selector) => [...document.querySelectorAll(selector)].map((one) => {
  const { borderTopStyle, borderTopWidth } = getComputedStyle(one);
  return borderTopStyle === 'none' ? 0 : parseFloat(borderTopWidth);
})"""


def test_forced_colours_keep_the_shapes(alice: Person, gate: Gate) -> None:
    """Borders show buttons and the open tab, as backgrounds are gone."""
    with ready_page(alice, gate, forced_colors="active") as page:
        assert min(page.evaluate(BORDERS, ".button, .card, .notice")) >= 1
        assert page.evaluate(BORDERS, "#tabs a") == [3, 0, 0]
        assert tab_through(page) == []
