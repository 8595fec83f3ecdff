"""The documentation site (`make test-site`): complete, and without requests to other servers."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from functools import cache, partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request

from tests.docs.test_navigation import DOCS, staging
from tests.support import browser

SITE = Path(os.environ.get("KEYRACK_SITE", ""))
pytestmark = pytest.mark.skipif("KEYRACK_SITE" not in os.environ, reason="it takes a built site: make test-site")
FETCHED = {"link", "script", "img", "iframe", "source", "video", "audio", "object", "embed", "form"}
WINDOWS = {"wide": {"width": 1280, "height": 800}, "narrow": {"width": 390, "height": 800}}
# The search field and its results are in a closed shadow root
OPEN_SHADOWS = """
const attach = Element.prototype.attachShadow;
Element.prototype.attachShadow = function (options) { return attach.call(this, { ...options, mode: "open" }); };
"""


class Document(HTMLParser):
    """The ids of a page, its links, and the resources it fetches."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.ids.add(value)
            if name in ("href", "src", "action", "data") and value is not None:
                (self.fetched if tag in FETCHED else self.links).append(value)


@cache
def document(file: Path) -> Document:
    return Document(file.read_text())


def pages() -> list[Path]:
    return sorted(SITE.rglob("*.html"))


def test_every_document_has_a_page() -> None:
    expected = {path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("*.md")}
    expected |= {Path(name).with_suffix(".html") for name in staging().BESIDE.values()}
    assert expected <= {path.relative_to(SITE) for path in pages()}


def test_every_internal_link_and_anchor_exists() -> None:
    for page in pages():
        for link in [*document(page).links, *document(page).fetched]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            path = unquote(parts.path)
            base = SITE if path.startswith("/") else page.parent
            led = (base / path.lstrip("/")).resolve() if path and path != "/" else page if not path else SITE
            led = led / "index.html" if led.is_dir() else led
            assert led.is_file(), f"{page.name}: {link}"
            if parts.fragment and led.suffix == ".html":
                assert unquote(parts.fragment) in document(led).ids, f"{page.name}: {link}"


def test_pages_fetch_nothing_from_other_servers() -> None:
    for page in pages():
        for link in document(page).fetched:
            assert not urlsplit(link).scheme and not urlsplit(link).netloc, f"{page.name}: {link}"
        assert "Content-Security-Policy" in page.read_text(), page.name
    for style in SITE.rglob("*.css"):
        named = re.findall(r"(?:url\(|@import )[\"']?([^\"')]+)", style.read_text())
        assert not [name for name in named if not name.startswith(("data:", "#"))], style.name


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    quiet = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(quiet, directory=str(SITE)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser.launched() as opened:
        yield opened


def watched(page: Page, address: str) -> list[str]:
    """A list that collects requests to other servers and complaints of the browser."""
    wrong: list[str] = []

    def asked(request: Request) -> None:
        if not request.url.startswith((address, "data:", "blob:")):
            wrong.append(request.url)

    def told(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            wrong.append(message.text)

    page.on("request", asked)
    page.on("console", told)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    return wrong


@browser.needed
@pytest.mark.parametrize("window", WINDOWS)
def test_every_page_fits_the_window_and_uses_its_own_server_only(chromium: Browser, address: str, window: str) -> None:
    context = chromium.new_context(viewport=WINDOWS[window])
    page = context.new_page()
    wrong = watched(page, address)
    for file in pages():
        page.goto(f"{address}/{file.relative_to(SITE)}", wait_until="load")
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, f"{file.name} is {wide} px too wide"
        assert not wrong, f"{file.name}: {wrong}"
    context.close()


@browser.needed
def test_the_search_leads_to_its_results(chromium: Browser, address: str) -> None:
    page = chromium.new_page(viewport=WINDOWS["wide"])
    page.add_init_script(OPEN_SHADOWS)
    wrong = watched(page, address)
    page.goto(f"{address}/index.html")
    page.get_by_role("button", name="Search").first.click()
    page.keyboard.type("master key")
    page.locator("a", has_text="The master key").first.click()
    page.wait_for_url("**/secrets.html*#the-master-key")
    assert not wrong
    page.close()


@browser.needed
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_theme_follows_the_system(chromium: Browser, address: str, theme: str) -> None:
    page = chromium.new_page(color_scheme=theme)
    page.goto(f"{address}/concepts.html")
    scheme = page.locator("body").get_attribute("data-md-color-scheme")
    assert scheme == {"light": "default", "dark": "slate"}[theme]
    page.close()
