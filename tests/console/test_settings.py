"""The page of settings: preferences, password, sessions, and data retention."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from keyrack.core.user_agents import parts, shortened
from tests.console import axe
from tests.console.conftest import Desk
from tests.support.people import PASSWORD, Person, Town
from tests.support.servers import DEADLINE

expect.set_options(timeout=DEADLINE * 1000)


def settings(page: Page, person: Person) -> None:
    page.goto(f"/console/{person.customer}/settings")


def test_preferences_apply_at_once(carol: Person, desk: Desk) -> None:
    page = desk(carol)
    settings(page, carol)
    expect(page.get_by_role("row", name="This browser").get_by_role("time").first).to_be_visible()
    page.get_by_label("Time zone").select_option("Asia/Tokyo")
    page.get_by_label("Theme").select_option("dark")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status").filter(has_text="saved")).to_be_visible()
    expect(page.get_by_text("Times are shown in Asia/Tokyo (+09:00)")).to_be_visible()
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"

    page.get_by_label("Language").select_option("de")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Einstellungen")
    assert page.evaluate("document.documentElement.lang") == "de"
    page.get_by_label("Sprache").select_option("system")
    page.get_by_label("Zeitzone").select_option("system")
    page.get_by_label("Darstellung").select_option("system")
    page.get_by_role("button", name="Speichern").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Settings")
    assert {carol.get("/me").json()[name] for name in ("language", "timeZone", "theme")} == {None}


def test_the_own_password_ends_all_other_sessions(town: Town, desk: Desk) -> None:
    dora = town.person("dora")
    other, page = desk(dora), desk(dora)
    settings(page, dora)
    page.get_by_label("Current password").fill("not this one")
    page.get_by_label("New password").fill("a much better one")
    page.get_by_role("button", name="Change password").click()
    expect(page.get_by_role("alert", name="There is a problem")).to_contain_text("The current password is wrong.")
    expect(page.get_by_label("Current password")).to_have_attribute("aria-invalid", "true")
    assert axe.faults(page) == []

    page.get_by_label("Current password").fill(PASSWORD)
    page.get_by_label("New password").fill("a much better one")
    page.get_by_role("button", name="Change password").click()
    expect(page.get_by_role("status").filter(has_text="Your password is changed")).to_be_visible()
    settings(page, dora)
    expect(page.get_by_role("heading", level=1)).to_have_text("Settings")
    settings(other, dora)
    expect(other.get_by_role("heading", level=1)).to_have_text("Sign in to Keyrack")


def test_sessions_are_ended_from_here(carol: Person, desk: Desk) -> None:
    other, page = desk(carol), desk(carol)
    settings(page, carol)
    rows = page.get_by_role("region", name="Browsers").get_by_role("row")
    ends = page.get_by_role("button", name="End the session at")
    before = ends.count()
    assert rows.count() == before + 2  # the head, and this browser, which is signed out elsewhere
    while ends.count():
        left = ends.count()
        ends.first.click()
        expect(ends).to_have_count(left - 1)
    settings(other, carol)
    expect(other.get_by_role("heading", level=1)).to_have_text("Sign in to Keyrack")
    page.get_by_role("button", name="Sign out everywhere").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in to Keyrack")


def test_what_is_kept_is_told_in_words(alice: Person, desk: Desk) -> None:
    page = desk(alice)
    settings(page, alice)
    kept = page.get_by_role("region", name="Kinds of data")
    expect(kept.get_by_role("row").filter(has_text="Deliveries of webhooks")).to_contain_text(
        "30 days after the last attempt"
    )
    assert kept.get_by_role("row").count() == len(alice.get("/retention").json()) + 1


@axe.each_look
def test_the_page_is_for_everybody(alice: Person, desk: Desk, theme: str, width: int) -> None:
    page = desk(alice, color_scheme=theme, viewport={"width": width, "height": 800})
    settings(page, alice)
    assert axe.faults(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


AGENTS = {
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/140.0 Safari/537.36": (
        "Chromium",
        "Linux",
    ),
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36"
    " Edg/140.0": ("Edge", "Windows"),
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 15_6) AppleWebKit/605.1.15 Version/18.6 Safari/605.1.15": (
        "Safari",
        "macOS",
    ),
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/140.0"
    " Mobile/15E148 Safari/604.1": ("Chrome", "iPhone"),
    "Mozilla/5.0 (Android 15; Mobile; rv:142.0) Gecko/142.0 Firefox/142.0": ("Firefox", "Android"),
    "python-httpx/0.28.1": ("", ""),
}


@pytest.mark.parametrize("agent", AGENTS)
def test_a_browser_is_told_by_its_name(agent: str) -> None:
    assert parts(agent) == AGENTS[agent]


def test_an_unknown_one_is_shortened() -> None:
    assert shortened("python-httpx/0.28.1") == "python-httpx/0.28.1"
    assert shortened("x" * 300) == "x" * 39 + "…"
