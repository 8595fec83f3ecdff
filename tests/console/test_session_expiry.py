"""A session expires while a form is filled in: the entries are kept until the person has signed in again."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Page, expect

from keyrack.console import PAGES
from keyrack.core.settings import Settings
from tests.console.conftest import Desk
from tests.support.people import PASSWORD, Person, fetch, http_client
from tests.support.servers import RunningServer

FORMS = [re.sub(r"\{\w+\}", "1", row.path) for row in PAGES if row.method == "POST" and not row.is_public]


@pytest.fixture(scope="module")
def nobody(server: RunningServer) -> Iterator[httpx.Client]:
    with http_client(base_url=server.url, headers={"Origin": server.url}) as client:
        yield client


@pytest.mark.parametrize("form", FORMS)
def test_what_is_sent_too_late_leads_to_signing_in_and_back(form: str, nobody: httpx.Client) -> None:
    page = f"{nobody.base_url}/console/1/cars?q=x&page=2"
    answer = nobody.post(f"/console{form}", data={"name": "x"}, headers={"Referer": page})
    wanted = "%2Fconsole%2F1%2Fcars%3Fq%3Dx%26page%3D2"
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/console/sign-in?next={wanted}")
    of_script = nobody.post(f"/console{form}", data={"name": "x"}, headers={"Referer": page, "HX-Request": "true"})
    assert of_script.status_code == 401  # in its page the script says what to do


def test_a_script_that_reads_is_told_as_well(nobody: httpx.Client) -> None:
    assert nobody.get("/console/1/cars/1?part=facts&edit=name", headers={"HX-Request": "true"}).status_code == 401
    restored = {"HX-Request": "true", "HX-History-Restore-Request": "true"}
    assert nobody.get("/console/1/cars", headers=restored).status_code == 303


@pytest.mark.parametrize("said", ["", "http://[", "no address"])
def test_a_browser_that_does_not_say_where_it_comes_from(said: str, alice: Person, nobody: httpx.Client) -> None:
    there = nobody.post("/console/1/webhooks/new", headers={"Referer": said}).headers["Location"]
    next = httpx.URL(there).params["next"]
    form = {"username": alice.username, "password": PASSWORD, "next": next or said}
    answer = nobody.post("/console/sign-in", data=form)
    nobody.cookies.clear()
    assert (answer.status_code, answer.headers["Location"]) == (303, "/console")


def test_behind_a_proxy_one_is_led_back_too(alice: Person, dsn: str, settings: Settings) -> None:
    url = "https://example.org/fleet"
    with RunningServer(settings, dsn, worker=False, public_url=url) as running:
        form = {"username": alice.username, "password": PASSWORD, "next": "/fleet/console/1/cars?q=x"}
        headers = {"Origin": "https://example.org"}
        answer = fetch("POST", f"{running.url}/console/sign-in", data=form, headers=headers)
    assert answer.headers["Location"] == "/fleet/console/1/cars?q=x"


def sign_in(page: Page, person: Person) -> None:
    page.get_by_label("User name").fill(person.username)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()


def test_ticked_rows_are_ticked_again(carol: Person, desk: Desk) -> None:
    for name in ("Golf", "Leon", "Polo"):
        carol.car(name)
    page = desk(carol)
    page.goto(f"/console/{carol.customer}/cars?sort=-name")
    for name in ("Golf", "Polo"):
        page.get_by_role("checkbox", name=f"Select {name}").check()
    page.context.clear_cookies()
    page.get_by_role("button", name="Delete").click()
    sign_in(page, carol)
    expect(page.get_by_text("2 selected")).to_be_visible()
    expect(page.get_by_role("rowheader")).to_have_text(["Polo", "Leon", "Golf"])
    expect(page.get_by_role("checkbox", name="Select Golf")).to_be_checked()
    expect(page.get_by_role("checkbox", name="Select Leon")).not_to_be_checked()


def test_what_was_filled_in_is_there_again(carol: Person, desk: Desk) -> None:
    """In a form that a script sends, and in a dialog's form that the browser sends."""
    car = carol.car("Pool car", vin="WVW")
    page = desk(carol)
    page.goto(f"/console/{carol.customer}/cars/{car}")
    page.get_by_role("link", name="Change VIN").click()
    page.get_by_role("textbox", name="VIN", exact=True).fill("WVWZZZ1JZXW000001")
    page.context.clear_cookies()
    page.get_by_role("button", name="Save").click()
    page.get_by_role("link", name="Sign in again").click()
    sign_in(page, carol)
    expect(page.get_by_text("Your entries are restored.")).to_be_visible()
    expect(page.get_by_role("textbox", name="VIN", exact=True)).to_have_value("WVWZZZ1JZXW000001")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("link", name="Change VIN")).to_be_visible()
    assert carol.get(f"/cars/{car}").json()["vin"] == "WVWZZZ1JZXW000001"
    page.goto(f"/console/{carol.customer}/webhooks")
    page.get_by_role("button", name="Add webhook").first.click()
    page.get_by_label("Address").fill("https://example.org/hook")
    page.get_by_role("checkbox").first.uncheck()
    page.context.clear_cookies()
    page.get_by_role("button", name="Add", exact=True).click()
    sign_in(page, carol)
    expect(page.get_by_role("heading", level=1, name="Add webhook")).to_be_visible()
    expect(page.get_by_label("Address")).to_have_value("https://example.org/hook")
    expect(page.get_by_role("checkbox").first).not_to_be_checked()
