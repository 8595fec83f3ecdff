"""The size of Today in a browser: the page, its styles, scripts and icons, without the map's library."""

from __future__ import annotations

import re
from urllib.parse import urljoin

import httpx

from tests.console.test_overview import depot
from tests.console.test_static_files import FIRST_PAGE, OF_ISLANDS
from tests.support.people import Person

OF_PAGE = re.compile(r"(?:<link [^>]*href|<script [^>]*src|<use [^>]*href|<img [^>]*src)=\"([^\"#]+)")
OF_FILE = re.compile(r"(?:\bfrom|\bimport)\s*\(?\s*[\"'](\.[^\"']+)|\burl\(\s*[\"']?(?!data:)([^\"')]+)")


def fetched(browser: httpx.Client, address: str) -> tuple[int, str]:
    """The transferred bytes, and the text."""
    with browser.stream("GET", address, headers={"Accept-Encoding": "gzip"}) as answer:
        assert answer.status_code == 200, address
        size = sum(map(len, answer.iter_raw()))
    return size, browser.get(address).text


def test_the_overview_is_light(carol: Person) -> None:
    """With 50 rows in its table. Modules include their imports, also dynamic ones."""
    depot(carol, 60)
    weights: dict[str, int] = {}
    with carol.browser() as browser:
        root = str(browser.base_url)
        size, page = fetched(browser, f"{root}{carol.customer}")
        assert page.count("data-car=") >= 50
        waiting = {urljoin(root, found) for found in OF_PAGE.findall(page)}
        while waiting:
            address = waiting.pop()
            name = address.rpartition("/")[2]
            if name in weights or name.startswith(OF_ISLANDS):
                continue
            weights[name], text = fetched(browser, address)
            if not name.endswith(".svg"):
                waiting |= {urljoin(address, one or other) for one, other in OF_FILE.findall(text)}
    assert {"htmx.js", "keyrack.js", "dialog.js", "map-fleet.js", "map-canvas.js", "base.css", "icons.svg"} <= {
        *weights
    }
    assert size + sum(weights.values()) <= FIRST_PAGE, (size, weights)
