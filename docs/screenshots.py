"""Takes the screenshots of docs/console.md and of the README: from a demo of its own, in Debian's Chromium.

    make screenshots

The demo and its database are made in a temporary directory and are gone afterwards. A picture is written in place of
the one of the same name in docs/images.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

IMAGES = Path(__file__).parent / "images"
ARGUMENTS = ["--no-sandbox", "--no-first-run", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
NAMES = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")
SEEN = "try { localStorage.setItem('keyrack-tour:%s', 'done') } catch {}"  # the tour, which is for newcomers
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 390, "height": 800}
# Name -> (path below the customer, window, theme)
PICTURES = {
    "today": ("", WIDE, "light"),
    "today-dark": ("", WIDE, "dark"),
    "cars": ("/cars", WIDE, "light"),
    "car": ("/cars/1", WIDE, "light"),
    "car-phone": ("/cars/1", NARROW, "light"),
    "plan": ("/assignments/board", WIDE, "light"),
    "new-booking": ("/assignments/new", WIDE, "light"),
    "key-shapes": ("/key-forms", WIDE, "light"),
    "changes": ("/changes?resource=assignment", WIDE, "light"),
    "access": ("/cars/4/access", WIDE, "light"),
    "webhooks": ("/webhooks", WIDE, "light"),
    "settings": ("/settings", WIDE, "dark"),
    "help": ("/help", WIDE, "light"),
}


@contextmanager
def demo() -> Iterator[dict[str, str]]:
    """A demo on a port that is free: what its demo.env says."""
    with tempfile.TemporaryDirectory(prefix="keyrack-screenshots-") as state:
        Path(state).chmod(0o711)  # the database's user has to pass
        command = [sys.executable, "-m", "keyrack", "demo", "--port", "0", "--state", state, "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
            try:
                yield json.loads(running.stdout.readline() if running.stdout else "")
            finally:
                running.terminate()


def sign_in(page: Page, env: dict[str, str]) -> None:
    page.goto("/console/sign-in")
    page.get_by_label("User name").fill(env["KEYRACK_USERNAME"])
    page.get_by_label("Password").fill(env["KEYRACK_PASSWORD"])
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.get_by_role("heading", level=1).first.wait_for()


def main() -> None:
    chromium = next((path for name in NAMES if (path := shutil.which(name))), None)
    IMAGES.mkdir(exist_ok=True)
    with demo() as env, sync_playwright() as playwright:
        root = env["KEYRACK_URL"].removesuffix("/v3")
        browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        for name, (path, window, theme) in PICTURES.items():
            context = browser.new_context(
                base_url=root, viewport=window, color_scheme=theme, reduced_motion="reduce",
                timezone_id="Europe/Berlin", locale="en-GB",
            )  # fmt: skip
            context.add_init_script(SEEN % env["KEYRACK_USERNAME"])
            page = context.new_page()
            sign_in(page, env)
            page.goto(f"/console/{env['KEYRACK_CUSTOMER_ID']}{path}")
            page.wait_for_load_state("load")
            page.wait_for_timeout(5_000)  # for maps and charts to be drawn
            page.screenshot(path=IMAGES / f"{name}.png")
            print(f"docs/images/{name}.png")
            context.close()
        browser.close()


if __name__ == "__main__":
    main()
