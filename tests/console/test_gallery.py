"""The common parts of the console in a browser: by role and name, by keyboard, with the policy of the pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.console import axe
from tests.console.gallery import served
from tests.support.browser import launched, needed
from tests.support.servers import DEADLINE

expect.set_options(timeout=DEADLINE * 1000)
pytestmark = [needed, pytest.mark.cluster]

# WCAG 2.2, 2.5.8: 24 by 24 px with the space around it that belongs to it alone; links within a sentence are left out
SMALL = """
() => [...document.querySelectorAll("a[href], button, input, select, summary, textarea")]
  .filter((one) => one.checkVisibility({visibilityProperty: true}) && !one.closest("p, .quiet, label, .skip"))
  .map((one) => {
    const box = one.getBoundingClientRect();
    const style = getComputedStyle(one);
    const around = (one, other) => parseFloat(style[`margin${one}`]) + parseFloat(style[`margin${other}`]);
    return [one.outerHTML.slice(0, 90), box.width + around("Left", "Right"), box.height + around("Top", "Bottom")];
  })
  .filter(([_, width, height]) => width < 24 || height < 24).map((found) => found.join(" "))
"""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served() as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """The browser's cache of files; each test has its own tab with all state of scripts."""
    context = browser.new_context(reduced_motion="reduce")
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    context.set_default_timeout(DEADLINE * 1000)
    yield context
    context.close()


class Tab:
    """A tab with the gallery; leaving it fails if anything broke the policy or was wrong in a script."""

    def __init__(self, context: BrowserContext, address: str, width: int = 1280) -> None:
        self.page = context.new_page()
        self.page.set_viewport_size({"width": width, "height": 900})
        self.address = address
        self.faults: list[str] = []
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on(
            "console", lambda said: self.faults.append(said.text) if "Content Security Policy" in said.text else None
        )

    def __enter__(self) -> Tab:
        return self

    def __exit__(self, *failed: object) -> None:
        self.page.close()
        if failed[0] is None:
            assert self.faults == []

    def go(self, path: str) -> Page:
        self.page.goto(self.address + path)
        self.page.wait_for_function("() => globalThis.htmx || !document.querySelector('script[src*=htmx]')")
        return self.page


@pytest.mark.parametrize("path", ["/gallery", "/list", "/list?state=never", "/dialog", "/plain"])
def test_axe_finds_nothing(context: BrowserContext, address: str, path: str) -> None:
    with Tab(context, address) as tab:
        page = tab.go(path)
        assert page.get_by_role("heading", level=1).count() == 1
        for theme, width in (("light", 1280), ("dark", 320)):
            page.emulate_media(color_scheme=theme)
            page.set_viewport_size({"width": width, "height": 900})
            assert axe.faults(page) == [], (theme, width)
            assert page.evaluate("document.documentElement.scrollWidth") == width
            assert page.evaluate(SMALL) == []


def test_a_theme_can_be_chosen_against_the_browsers(context: BrowserContext, address: str) -> None:
    with Tab(context, address) as tab:
        for theme, other in (("light", "dark"), ("dark", "light")):
            tab.page.emulate_media(color_scheme=other)
            page = tab.go(f"/list?theme={theme}")
            assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == theme


def test_the_frame_names_its_parts(context: BrowserContext, address: str) -> None:
    with Tab(context, address) as tab:
        page = tab.go("/list")
        entries = page.get_by_role("navigation", name="Main").get_by_role("link")
        names = "Today, Cars, Bookings, People, Groups, Key boxes, Services, Openings, Key shapes, Webhooks, Requests, "
        assert entries.all_inner_texts() == (names + "History of changes, Settings, Help").split(", ")
        expect(page.locator("[aria-current=page]")).to_have_text("Cars")
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("main")).to_be_focused()
        expect(page.get_by_role("status")).to_be_attached()
        assert page.get_by_label("Customer").input_value() == "3"
        expect(page.get_by_role("button", name="Show", exact=True)).to_be_hidden()
        page.get_by_role("button", name="kim@example.com").press("Enter")
        expect(page.get_by_role("button", name="Sign out")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("button", name="Sign out")).to_be_hidden()
        with page.expect_navigation():
            page.get_by_label("Customer").select_option("Northern Rentals")
        assert page.url == address + "/console?customer=4"


def test_on_a_phone_the_navigation_is_a_drawer(context: BrowserContext, address: str) -> None:
    with Tab(context, address, 320) as tab:
        page = tab.go("/list")
        cars = page.get_by_role("navigation", name="Main").get_by_role("link", name="Cars")
        expect(cars).to_be_hidden()
        page.get_by_role("button", name="Menu", exact=True).press("Enter")
        expect(cars).to_be_visible()
        assert axe.faults(page) == []
        page.keyboard.press("Escape")
        expect(cars).to_be_hidden()
        page.get_by_role("button", name="Menu", exact=True).click()
        page.set_viewport_size({"width": 1280, "height": 900})
        expect(page.get_by_role("button", name="Menu", exact=True)).to_be_hidden()
        expect(cars).to_be_visible()


def test_a_combobox_is_used_by_keyboard(context: BrowserContext, address: str) -> None:
    with Tab(context, address) as tab:
        page = tab.go("/dialog")
        car = page.get_by_role("combobox", name="Car", exact=True)
        options = page.get_by_role("listbox").get_by_role("option")
        status = page.locator("#announcer")
        expect(car).to_have_attribute("aria-expanded", "false")
        car.press("ArrowDown")
        expect(options).to_have_count(20)
        expect(status).to_have_text("Showing 20 of 45. Type more to narrow down.")
        assert page.locator("[role=option][aria-selected]").count() == 0
        car.press_sequentially("person 4")
        expect(options).to_have_count(7)
        expect(status).to_have_text("7 found")
        car.press("ArrowDown")
        chosen = page.get_by_role("listbox").get_by_role("option", selected=True)
        expect(chosen).to_have_text("Person 4 p4@example.com")
        expect(car).to_have_attribute("aria-activedescendant", chosen.get_attribute("id") or "")
        assert axe.faults(page) == []
        car.press("End")
        expect(chosen).to_have_text("Person 45 p45@example.com")
        car.press("ArrowDown")
        car.press("ArrowUp")
        expect(chosen).to_have_text("Person 45 p45@example.com")
        car.press("Home")
        car.press("ArrowDown")
        car.press("Enter")
        expect(car).to_have_value("Person 40, p40@example.com")
        expect(options).to_have_count(0)
        assert page.evaluate("new FormData(document.getElementById('assign')).get('car')") == "40"
        # Typed text without a choice does not count; an empty field has no choice
        car.fill("nobody at all")
        expect(page.get_by_text("Nothing found").first).to_be_visible()
        car.press("Tab")
        expect(car).to_have_value("Person 40, p40@example.com")
        car.fill("")
        car.press("Tab")
        assert page.evaluate("new FormData(document.getElementById('assign')).get('car')") == ""


def test_a_combobox_is_used_by_pointer_and_says_when_it_cannot_search(context: BrowserContext, address: str) -> None:
    with Tab(context, address) as tab:
        page = tab.go("/dialog")
        user = page.get_by_role("combobox", name="Person", exact=True)
        user.click()
        page.get_by_role("option", name="Person 3 ", exact=False).first.click()
        expect(user).to_have_value("Person 3, p3@example.com")
        page.route("**/options?*", lambda route: route.abort())
        user.fill("person")
        expect(page.get_by_text("The search failed.").first).to_be_visible()


def test_without_a_script_a_chooser_is_a_search_and_a_select(browser: Browser, address: str) -> None:
    page = browser.new_page(java_script_enabled=False)
    page.goto(address + "/dialog")
    page.get_by_role("combobox", name="Car").select_option("None chosen")
    page.get_by_role("searchbox", name="Search: Car").fill("pool")
    expect(page.get_by_role("button", name="Find").first).to_be_visible()
    page.close()


def test_a_dialog_opens_from_its_link_and_gives_the_focus_back(context: BrowserContext, address: str) -> None:
    with Tab(context, address) as tab:
        page = tab.go("/list")
        link = page.get_by_role("button", name="Add car")
        dialog = page.get_by_role("dialog", name="New booking")
        link.press("Enter")
        expect(dialog).to_be_visible()
        assert axe.faults(page) == []
        # Escape closes the list of a combobox first, the dialog after that
        car = dialog.get_by_role("combobox", name="Car")
        car.press("ArrowDown")
        expect(dialog.get_by_role("option").first).to_be_visible()
        car.press("Escape")
        expect(dialog.get_by_role("listbox")).to_have_count(0)
        expect(dialog).to_be_visible()
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        expect(link).to_be_focused()
        # The back button closes it, and only it
        link.press("Space")
        expect(dialog).to_be_visible()
        page.evaluate("() => { document.body.dataset.before = 'the same page' }")
        page.go_back()
        expect(dialog).to_have_count(0)
        assert page.evaluate("document.body.dataset.before") == "the same page"
        assert page.url == address + "/list"
        link.click()
        dialog.get_by_role("link", name="Cancel").click()
        expect(dialog).to_have_count(0)
        expect(link).to_be_focused()


def test_no_end_takes_the_end_away(context: BrowserContext, address: str) -> None:
    with Tab(context, address) as tab:
        page = tab.go("/dialog")
        end = page.get_by_label("End", exact=True)
        expect(end).to_be_enabled()
        page.get_by_label("Without end").press("Space")
        expect(end).to_be_disabled()


def test_rows_are_selected_by_keyboard_and_in_stretches(context: BrowserContext, address: str) -> None:
    with Tab(context, address) as tab:
        page = tab.go("/list")
        bar = page.get_by_role("group", name="Selected rows")
        every = page.get_by_label("Select all on this page")
        expect(bar).to_be_hidden()
        page.get_by_label("Select Pool car 2", exact=True).press("Space")
        expect(bar).to_contain_text("1 selected")
        expect(page.locator("#announcer")).to_have_text("1 selected")
        page.get_by_label("Select Pool car 5", exact=True).click(modifiers=["Shift"])
        expect(bar).to_contain_text("4 selected")
        assert every.evaluate("box => box.indeterminate")
        assert axe.faults(page) == []
        every.press("Space")
        expect(bar).to_contain_text("25 selected")
        page.get_by_role("button", name="Select none").press("Enter")
        expect(bar).to_be_hidden()
        expect(every).to_be_focused()


def test_menus_close_by_escape_and_by_a_click_beside_them(context: BrowserContext, address: str) -> None:
    with Tab(context, address) as tab:
        page = tab.go("/list")
        summary = page.locator("summary", has_text="Columns")
        summary.press("Enter")
        expect(page.get_by_label("License plate")).to_be_visible()
        assert axe.faults(page) == []
        page.get_by_label("License plate").press("Escape")
        expect(page.get_by_label("License plate")).to_be_hidden()
        expect(summary).to_be_focused()
        summary.click()
        page.get_by_role("heading", name="Cars").click()
        expect(page.get_by_label("License plate")).to_be_hidden()


def test_the_filter_is_shown_as_odata_and_copied(context: BrowserContext, address: str) -> None:
    with Tab(context, address) as tab:
        page = tab.go("/list")
        page.locator("summary", has_text="Show filter").click()
        page.get_by_role("button", name="Copy filter").click()
        expect(page.locator("#announcer")).to_have_text("Copied")
        assert page.evaluate("navigator.clipboard.readText()") == "brand eq 'Volkswagen'"


def test_typing_into_the_search_changes_the_list_and_the_address(context: BrowserContext, address: str) -> None:
    with Tab(context, address) as tab:
        page = tab.go("/list")
        search = page.get_by_role("searchbox", name="Search cars")
        search.press_sequentially("pool")
        page.wait_for_url("**/list?q=pool")
        expect(search).to_be_focused()
        page.get_by_label("Select Pool car 2", exact=True).press("Space")
        expect(page.get_by_role("group", name="Selected rows")).to_contain_text("1 selected")


def test_a_fact_is_changed_where_it_stands(context: BrowserContext, address: str) -> None:
    with Tab(context, address) as tab:
        page = tab.go("/gallery")
        page.get_by_role("link", name="Change Name").press("Enter")
        expect(page.get_by_role("textbox", name="Name").first).to_be_focused()
        assert page.url == address + "/gallery"
        page.get_by_role("link", name="Cancel").first.press("Enter")
        expect(page.get_by_role("link", name="Change Name")).to_be_focused()


def test_errors_of_a_form_take_the_focus_and_lead_to_its_fields(context: BrowserContext, address: str) -> None:
    with Tab(context, address) as tab:
        page = tab.go("/gallery")
        expect(page.get_by_role("alert", name="There is a problem")).to_be_focused()
        page.get_by_role("link", name="A VIN has 17 characters.").press("Enter")
        vin = page.get_by_role("textbox", name="VIN")
        expect(vin).to_be_focused()
        said = "17 characters, in the registration papers under E A VIN has 17 characters."
        expect(vin).to_have_accessible_description(said)


def test_a_request_that_fails_is_told_in_words(context: BrowserContext, address: str) -> None:
    with Tab(context, address) as tab:
        page = tab.go("/list")
        rows = page.get_by_role("row").count()
        page.route("**/list?q=*", lambda asked: asked.fulfill(status=int(asked.request.url[-3:]), body="of a proxy"))
        for status, said in (
            (401, "You have been signed out."),
            (403, "You do not have permission for this."),
            (404, "This no longer exists."),
            (429, "The server is busy."),
            (500, "The server had an error."),
            (502, "The server cannot be reached."),
        ):
            page.get_by_role("searchbox", name="Search cars").fill(str(status))
            expect(page.get_by_role("alert")).to_contain_text(said)
        assert page.get_by_role("row").count() == rows
        assert axe.faults(page) == []


def test_the_servers_own_words_are_told_where_it_says_more(context: BrowserContext, address: str) -> None:
    with Tab(context, address) as tab:
        page = tab.go("/list")
        told = '<div class="alert bad"><p>The car is locked by Robin.</p></div>'
        page.route("**/list?q=*", lambda route: route.fulfill(status=403, content_type="text/html", body=told))
        page.get_by_role("searchbox", name="Search cars").fill("x")
        expect(page.get_by_role("alert")).to_have_text("The car is locked by Robin.")


def test_a_server_that_is_gone_is_told_and_forgotten_when_it_is_back(context: BrowserContext, address: str) -> None:
    with Tab(context, address) as tab:
        page = tab.go("/list")
        page.route("**/list?q=gone", lambda route: route.abort())
        search = page.get_by_role("searchbox", name="Search cars")
        search.fill("gone")
        expect(page.get_by_role("alert")).to_contain_text("The server cannot be reached.")
        search.fill("back")
        expect(page.get_by_role("alert")).to_have_text("")


def test_what_was_filled_in_comes_back_after_signing_in(context: BrowserContext, address: str) -> None:
    with Tab(context, address) as tab:
        page = tab.go("/dialog")
        user = page.get_by_role("combobox", name="Person", exact=True)
        for box in (page.get_by_role("combobox", name="Car", exact=True), user):
            box.fill("person 2")
            page.get_by_role("option", name="Person 22").click()
        page.get_by_label("Start").fill("2026-12-01T09:30")
        page.get_by_label("Without end").check()
        page.get_by_role("button", name="Book").click()
        page.wait_for_url("**/console/sign-in")
        page.goto(address + "/dialog")
        expect(page.locator("#trouble")).to_contain_text("Your entries are restored.")
        expect(user).to_have_value("Person 22, p22@example.com")
        expect(page.get_by_label("Start")).to_have_value("2026-12-01T09:30")
        expect(page.get_by_label("Without end")).to_be_checked()
        expect(page.get_by_label("End", exact=True)).to_be_disabled()
        page.reload()
        expect(user).to_have_value("")  # once


def test_what_was_filled_in_is_nothing_for_somebody_else(context: BrowserContext, address: str) -> None:
    with Tab(context, address) as tab:
        page = tab.go("/dialog")
        page.get_by_label("Start").fill("2026-12-01T09:30")
        page.evaluate("document.querySelectorAll('input').forEach((one) => { one.required = false })")
        page.get_by_role("button", name="Book").click()
        page.wait_for_url("**/console/sign-in")
        page.goto(address + "/dialog?as=robin@example.com")
        expect(page.get_by_label("Start")).to_have_value("2026-11-23T08:00")
        assert page.evaluate("sessionStorage.length") == 0


def test_what_is_being_filled_in_is_kept_when_the_page_hears_of_the_end(context: BrowserContext, address: str) -> None:
    with Tab(context, address) as tab:
        page = tab.go("/dialog")
        page.get_by_label("Start").fill("2026-12-01T09:30")
        page.evaluate("document.dispatchEvent(new CustomEvent('keyrack:signed-out'))")
        page.get_by_role("link", name="Sign in again").click()
        page.wait_for_url(lambda url: url == f"{address}/console/sign-in?next=%2Fdialog")
        page.goto(address + "/dialog")
        expect(page.get_by_label("Start")).to_have_value("2026-12-01T09:30")
