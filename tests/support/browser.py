"""The browser of the tests: Debian's Chromium, without whatever would ask others.

Its headless shell comes first: the same engine without windows, tabs and menus, which a new tab else has to draw too.
Software stands in for the graphics card where maps need it; pages are drawn without it, which halves the work.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((path for name in NAMES if (path := shutil.which(name))), None)
ABSENT = "no Chromium is installed (Debian: apt-get install chromium-headless-shell)"
ARGUMENTS = [
    "--no-sandbox", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--disable-gpu-compositing", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
]  # fmt: skip
needed = pytest.mark.skipif(CHROMIUM is None, reason=ABSENT)


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser; as long as it is open, nothing in this thread may run an event loop of its own."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()
