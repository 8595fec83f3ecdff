"""The browser of the tests: Debian's Chromium, without background requests.

The headless shell is preferred: the same engine without windows, tabs and menus, which are also drawn for each new tab
otherwise. Software replaces the graphics card where maps need it. Other pages are drawn without it, which halves the
work.
"""

from __future__ import annotations

import asyncio
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
    "--enable-blink-features=WebBluetooth",  # off by default on Linux; the radio is emulated
]  # fmt: skip
needed = pytest.mark.skipif(CHROMIUM is None, reason=ABSENT)


class _SharedBrowser:
    """The browser of this process, started at its first use.

    Playwright leaves its event loop marked as running in this thread, so that `asyncio.run` would fail. The mark is set
    only while a test uses the browser.
    """

    def __init__(self) -> None:
        self._playwright = sync_playwright().start()
        self._loop = asyncio.get_running_loop()
        try:
            self.browser = self._playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        except BaseException:
            self._playwright.stop()
            raise

    def resume(self) -> None:
        asyncio._set_running_loop(self._loop)

    def suspend(self) -> None:
        asyncio._set_running_loop(None)

    def close(self) -> None:
        self.resume()
        self.browser.close()
        self._playwright.stop()
        self.suspend()


_shared: _SharedBrowser | None = None


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser without contexts. While it is in use, this thread may not run another event loop."""
    global _shared
    if _shared is not None and not _shared.browser.is_connected():  # after a crash
        close_browser()
    if _shared is None:
        _shared = _SharedBrowser()
    shared = _shared
    shared.resume()
    try:
        yield shared.browser
    finally:
        try:
            for context in shared.browser.contexts:
                context.close()
        finally:
            shared.suspend()


def close_browser() -> None:
    """Close the browser of this process, if one was started."""
    global _shared
    if _shared is not None:
        _shared.close()
        _shared = None
