"""The script of live updates in a real browser, with a session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route

import keyrack
from keyrack.core.settings import Settings
from keyrack.http.page_router import POLICY
from tests.support.browser import launched, needed
from tests.support.people import Person
from tests.support.servers import RunningServer, Sql, eventually

pytestmark = needed
SCRIPT = (Path(keyrack.__file__).parent / "console/web/live.js").read_text()
BODY = """<!doctype html><html lang="en"><title>Live</title>
<body data-root="/console" data-customer="{customer}"><p data-live="cars,groups" data-state="idle" data-live-text="Live"
  {since} data-paused-text="Paused" data-reconnecting-text="Reconnecting since {{time}}" hidden
  role="status"><span></span></p>
<script src="heard.js"></script><script type="module" src="live.js"></script>"""
HEARD = """
window.heard = [];
for (const name of ["keyrack:changed", "keyrack:changed-cars", "keyrack:changed-groups", "keyrack:signed-out"])
  document.addEventListener(name, (event) => heard.push(event.detail ? `${name} ${event.detail}` : name));
document.addEventListener("securitypolicyviolation", (event) => heard.push(event.violatedDirective));
"""
HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with launched() as browser:
        yield browser


@pytest.fixture
def page(chromium: Any) -> Iterator[Page]:
    context = chromium.new_context()
    yield context.new_page()
    context.close()


def visit(page: Page, person: Person, url: str, since: str = "") -> None:
    """Open a page of the console with only the badge of live updates."""
    with closing(person.browser()) as client:
        (cookie,) = client.cookies.jar
    page.context.add_cookies([{"name": cookie.name, "value": str(cookie.value), "url": url}])
    given = f'data-since="{since}"' if since else ""
    files = {"heard.js": HEARD, "live.js": SCRIPT, "page": BODY.format(customer=person.customer, since=given)}

    def answer(route: Route) -> None:
        name = route.request.url.rpartition("/")[2]
        kind = "text/javascript" if name.endswith(".js") else "text/html"
        route.fulfill(body=files[name], content_type=kind, headers=POLICY)

    page.route("**/console/test/*", answer)
    page.goto(f"{url}/console/test/page")


def heard(page: Page) -> list[str]:
    return page.evaluate("heard")


def shows(page: Page, state: str, text: str) -> None:
    page.wait_for_selector(f'[data-state="{state}"]')
    assert page.get_by_role("status").inner_text().startswith(text)


def test_a_page_hears_what_changes(page: Page, carol: Person, server: RunningServer) -> None:
    visit(page, carol, server.url)
    shows(page, "live", "Live")
    eventually(lambda: len(heard(page)) == 3, "the first gap")
    assert heard(page) == ["keyrack:changed gap", "keyrack:changed-cars", "keyrack:changed-groups"]
    carol.car()
    eventually(lambda: heard(page)[3:] == ["keyrack:changed cars", "keyrack:changed-cars"], "the car")


def test_a_page_that_knows_where_it_stands_has_no_gap(page: Page, carol: Person, server: RunningServer) -> None:
    since = carol.call("HEAD", "/live").headers["last-event-id"]
    carol.group()
    visit(page, carol, server.url, since)
    eventually(lambda: heard(page) == ["keyrack:changed groups", "keyrack:changed-groups"], "the group")


def test_a_hidden_page_rests_and_hears_later_what_it_missed(page: Page, carol: Person, server: RunningServer) -> None:
    visit(page, carol, server.url, carol.call("HEAD", "/live").headers["last-event-id"])
    shows(page, "live", "Live")
    page.evaluate(HIDE, True)
    shows(page, "paused", "Paused")
    carol.car()
    assert heard(page) == []
    page.evaluate(HIDE, False)
    shows(page, "live", "Live")
    eventually(lambda: heard(page) == ["keyrack:changed cars", "keyrack:changed-cars"], "the car")


def test_a_page_comes_back_by_itself(page: Page, carol: Person, dsn: str, settings: Settings) -> None:
    """It also connects if the server was not reachable when the page started."""
    with RunningServer(settings, dsn, worker=False) as running:
        page.route("**/console/api/**", lambda route: route.abort())
        visit(page, carol, running.url)
        shows(page, "reconnecting", "Reconnecting since ")
        page.unroute("**/console/api/**")
        shows(page, "live", "Live")
    shows(page, "reconnecting", "Reconnecting since ")


def test_who_is_signed_out_is_told_so(page: Page, carol: Person, server: RunningServer, sql: Sql) -> None:
    visit(page, carol, server.url, carol.call("HEAD", "/live").headers["last-event-id"])
    shows(page, "live", "Live")
    sql.execute("update manager set sign_outs = sign_outs + 1 where username = $1", carol.username)
    eventually(lambda: heard(page) == ["keyrack:signed-out"], "the sign-out")
    shows(page, "paused", "Paused")
