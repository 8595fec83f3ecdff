"""Key shapes in the console: from the brand to the drawing of a key, with the key boxes that fit."""

from __future__ import annotations

import os
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.console import axe
from tests.console.conftest import Desk
from tests.support.people import Person
from tests.support.servers import DEADLINE, Sql

expect.set_options(timeout=DEADLINE * 1000)

BRAND = f"Zoë & Søn/{os.getpid()}"  # no other test's
DRAWING = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 480 240"><style>rect{fill:#234}</style>'
    '<rect width="480" height="240"/></svg>'
)


@pytest.fixture(scope="module")
def flip(sql: Sql) -> Iterator[int]:
    """A shape with two boxes; the brand has another one, with its picture elsewhere."""
    insert = "insert into key_form (name, drawing, image_url) values ($1, $2, $3) returning key_form_id"
    flip = sql.value(insert, f"Flip {os.getpid()}", DRAWING, None)
    card = sql.value(insert, f"Card {os.getpid()}", None, "https://example.org/key.png")
    for box, number, form in (("Box A", "100", flip), ("Box B", "200", flip), (None, None, card)):
        sql.execute(
            "insert into brand_key (brand, box_name, box_sap_number, key_form_id) values ($1, $2, $3, $4)",
            BRAND, box, number, form,
        )  # fmt: skip
    yield flip
    sql.execute("delete from brand_key where brand = $1", BRAND)
    sql.execute("delete from key_form where key_form_id = any($1)", [flip, card])


def test_from_the_brand_to_the_drawing(alice: Person, flip: int, desk: Desk) -> None:
    page = desk(alice)
    page.goto(f"/console/{alice.customer}/key-forms")
    expect(page.get_by_role("heading", level=1)).to_have_text("Key shapes")
    page.get_by_role("link", name=f"{BRAND} 2 shapes").click()
    expect(page.get_by_role("heading", level=2, name=BRAND)).to_contain_text("2 key shapes")
    figure = page.get_by_role("figure").filter(has_text="Flip")
    expect(figure).to_contain_text("Fits into Box A SAP number 100 Fits into Box B SAP number 200")
    drawing = page.get_by_role("img", name=f"Drawing of the key: Flip {os.getpid()}. It fits into: Box A, Box B.")
    box = drawing.bounding_box() or {"height": 0}
    assert 80 <= box["height"] <= 120  # px: as large as a thumb
    assert drawing.evaluate("image => image.decode().then(() => image.naturalWidth)") > 0
    expect(page.get_by_role("figure").filter(has_text="Card")).to_contain_text("No key box fits")
    page.get_by_role("link", name="Drawing on another server").focus()  # which is not fetched: the policy allows none
    page.get_by_role("link", name="All brands").click()
    expect(page.get_by_role("navigation", name="Brands")).to_be_visible()


def test_a_list_is_filtered_by_a_brand_that_is_typed(alice: Person, flip: int, desk: Desk) -> None:
    alice.car("Of a brand", brand=BRAND)
    page = desk(alice)
    page.goto(f"/console/{alice.customer}/cars")
    page.get_by_text("Filter", exact=True).click()
    page.get_by_role("combobox", name="Brand").fill(BRAND.upper()[:-1])
    page.get_by_role("option", name=BRAND, exact=True).click()
    page.get_by_role("button", name="Apply filters").click()
    expect(page.get_by_role("list", name="Filters")).to_contain_text(f"Brand: {BRAND}")
    expect(page.get_by_role("rowheader")).to_have_text(["Of a brand"])


def test_a_drawing_is_enlarged_and_its_address_sent_on(alice: Person, bob: Person, flip: int, desk: Desk) -> None:
    page = desk(alice)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"/console/{alice.customer}/key-forms?brand={quote(BRAND, safe='')}")
    enlarge = page.get_by_role("button", name="Enlarge Flip")
    enlarge.press("Enter")
    dialog = page.get_by_role("dialog", name=f"Flip {os.getpid()}")
    expect(dialog.get_by_role("img")).to_be_visible()
    assert axe.faults(page) == []
    dialog.get_by_role("button", name="Copy address").click()
    expect(dialog.get_by_text("Copied")).to_have_count(1)
    address = page.evaluate("navigator.clipboard.readText()")
    page.keyboard.press("Escape")
    expect(enlarge).to_be_focused()
    page.goto(address)
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Flip {os.getpid()}")
    page.get_by_role("link", name="Close").click()
    expect(page.get_by_role("heading", level=2, name=BRAND)).to_be_visible()


def test_brands_are_found_by_typing_without_accents(alice: Person, flip: int, desk: Desk) -> None:
    page = desk(alice)
    page.goto(f"/console/{alice.customer}/key-forms")
    search = page.get_by_role("searchbox", name="Search brands")
    search.press_sequentially("zoe &")
    expect(page.get_by_role("figure")).to_have_count(2)  # the only brand that matches
    search.fill("no such brand")
    expect(page.get_by_role("heading", name="No such brand")).to_be_visible()
    assert axe.faults(page) == []
    page.get_by_role("link", name="Show all brands").click()
    expect(page.get_by_role("link", name=BRAND)).to_be_visible()


def test_an_unknown_brand_or_form_is_told(alice: Person, flip: int) -> None:
    brand = quote(BRAND, safe="")
    with alice.browser() as browser:
        answer = browser.get(f"/{alice.customer}/key-forms?brand=Nobody")
        assert (answer.status_code, "No key shapes of this brand" in answer.text) == (200, True)
        for form in ("2147483647", "x"):
            assert browser.get(f"/{alice.customer}/key-forms?brand={brand}&form={form}").status_code == 404
        assert browser.get(f"/{alice.customer}/key-forms?brand={brand.upper()}&form={flip}").status_code == 200


@axe.each_look
def test_axe_finds_nothing(alice: Person, flip: int, desk: Desk, theme: str, width: int) -> None:
    page = desk(alice, color_scheme=theme, viewport={"width": width, "height": 900})
    brand = quote(BRAND, safe="")
    for query in ("", f"brand={brand}", f"brand={brand}&form={flip}", "brand=Nobody"):
        page.goto(f"/console/{alice.customer}/key-forms?{query}")
        assert (query, axe.faults(page)) == (query, [])
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), query
