"""The console in a browser, with the policy of its pages and without requests to other hosts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.support.browser import ABSENT, CHROMIUM, launched
from tests.support.people import Person
from tests.support.servers import DEADLINE, RunningServer

COOKIE = "keyrack-session"
SEEN = "try { localStorage.setItem('keyrack-tour:%s', 'done') } catch {}"  # a page without an origin keeps nothing

expect.set_options(timeout=DEADLINE * 1000)  # the maximum; a fulfilled condition continues at once


@pytest.fixture(scope="module")
def chromium(server: RunningServer) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip(ABSENT)
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def visitor(fleet: Person) -> Iterator[httpx.Client]:
    """A browser without a script in which the fleet's manager is signed in."""
    with fleet.browser() as client:
        yield client


class Desk:
    """Makes a tab for a signed-in person, or for an anonymous one: `desk(alice)`, `desk(alice, color_scheme="dark")`.

    The person has seen the tour, unless they are a `newcomer`. `wrong` collects broken policies, failed scripts, and
    requests to other hosts than the server `at` and those of `may_ask`.
    """

    def __init__(self, chromium: Browser, server: RunningServer) -> None:
        self._chromium, self._server = chromium, server
        self._contexts: list[BrowserContext] = []
        self.wrong: list[str] = []

    def __call__(
        self,
        person: Person | None,
        at: RunningServer | None = None,
        may_ask: tuple[str, ...] = (),
        *,
        newcomer: bool = False,
        **options: Any,
    ) -> Page:
        url = (at or self._server).url
        given = {"locale": "en-GB", "timezone_id": "Europe/Berlin", "reduced_motion": "reduce"} | options
        context = self._chromium.new_context(base_url=url, **given)
        self._contexts.append(context)
        context.set_default_timeout(DEADLINE * 1000)
        if person is not None:
            with person.browser() as client:
                context.add_cookies([{"name": COOKIE, "value": client.cookies[COOKIE], "url": url}])
            if not newcomer:
                context.add_init_script(SEEN % person.username)
        page = context.new_page()
        wrong = self.wrong
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if "Content Security Policy" in said.text else None)
        page.on("request", lambda asked: wrong.append(asked.url) if not _ours(asked.url, (url, *may_ask)) else None)
        return page

    def close(self) -> None:
        for context in self._contexts:
            context.close()


@pytest.fixture
def desk(chromium: Browser, server: RunningServer) -> Iterator[Desk]:
    desk = Desk(chromium, server)
    yield desk
    desk.close()
    assert desk.wrong == []


def _ours(address: str, roots: tuple[str, ...]) -> bool:
    return address.startswith((*(f"{root}/" for root in roots), "data:", "blob:"))
