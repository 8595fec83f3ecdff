"""The time from the tap on *Open* to the event.

Chromium, the server and the box run on one machine, and the radio is emulated. So a real radio adds the time of its
scan and of its round trips. The floor is the same opening by the phone in Python: without a browser, a radio and a
console.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import sys
import time
from dataclasses import dataclass, field

from playwright.sync_api import Page
from tests.drivers.app_browser import AppPage, app_context, sign_in
from tests.offline_keys.box_nearby import BoxNearby
from tests.offline_keys.offline_world import driver, garage
from tests.offline_keys.peripheral import Peripheral, emulated
from tests.support.browser import ABSENT, CHROMIUM, close_browser
from tests.support.drivers import signed_in_driver
from tests.support.people import Person, Town
from tests.support.servers import Sql, eventually

from benchmarks.foundation import UNLIMITED, database, free_port, running
from benchmarks.outcomes import workers
from benchmarks.sizes import sized
from benchmarks.tables import row, table
from keyrack.db import schema_version

OPENINGS = sized(20, tiny=1)
GOAL = "3 s"
PARTS = (
    "radio: chooser, connection, discovery",
    "key: challenge, key, answer of the box",
    "upload: the log of the box, to the receipt of the server",
    "event: to the frame of the console that shows it",
)
TAPPED = "addEventListener('click', () => { globalThis.tappedAt ??= Date.now(); }, { capture: true });"
HAS_KEYS = "performance.getEntriesByType('resource').some(({ name }) => name.includes('/sdk/keys'))"
UPLOADED = """() => {
  const upload = performance.getEntriesByType('resource').find(({ name }) => name.endsWith('/sdk/boxlog'));
  return upload && performance.timeOrigin + upload.responseEnd;
}"""
# The time of the frame that shows more rows
AWAITED = """(rows) => {
  globalThis.shown = new Promise((done) => {
    const look = () => {
      if (document.querySelectorAll("#list tbody tr").length <= rows) return;
      observer.disconnect();
      requestAnimationFrame(() => setTimeout(() => done(Date.now())));
    };
    const observer = new MutationObserver(look);
    observer.observe(document, { childList: true, subtree: true });
  });
}"""


@dataclass
class Server:
    """The measured server, by a name that counts as secure."""

    url: str


@dataclass
class TimedBox(BoxNearby):
    """A box that remembers when it got messages, and when it opened. Times are in milliseconds since 1970."""

    messages: list[float] = field(default_factory=list[float])
    openings: list[float] = field(default_factory=list[float])

    def say(self, number: int, message: bytes) -> bytes:
        self.messages.append(time.time() * 1e3)
        reply = super().say(number, message)
        if len(self.effects) > len(self.openings):
            self.openings.append(time.time() * 1e3)
        return reply


def opened(app: AppPage, box: TimedBox, console: Page, number: int) -> list[float]:
    """The milliseconds of each part of an opening."""
    app.start()
    eventually(lambda: app.page.evaluate(HAS_KEYS), "the keys")
    app.sees("Ready")
    console.evaluate(AWAITED, number)
    box.messages.clear()
    app.tap("Open")
    app.sees("Open")
    uploaded = eventually(lambda: app.page.evaluate(UPLOADED), "the upload")
    times = [app.page.evaluate("tappedAt"), box.messages[0], box.openings[-1], uploaded, console.evaluate("shown")]
    return [end - begin for begin, end in itertools.pairwise(times)]


def in_the_browser(server: Server, person: Person) -> list[list[float]]:
    """The parts of each opening in Chromium."""
    car, own = garage(person)
    known = signed_in_driver(person)
    person.assignment(car, known.user)
    box = TimedBox(own)
    with app_context(server) as context, emulated(context) as radio:
        console = context.new_page()
        console.goto(f"/console/sign-in?next=/console/{person.customer}/events")
        console.get_by_label("User name").fill(person.username)
        console.get_by_label("Password").fill(person.password)
        console.get_by_role("button", name="Sign in", exact=True).click()
        console.wait_for_url("**/events")
        sign_in(context, known, server)
        app = AppPage(context.new_page())
        app.page.add_init_script(TAPPED)
        radio.answer_choosers(context, app.page)
        peripheral = Peripheral(radio, box)
        found: list[list[float]] = []
        for number in range(OPENINGS):
            found.append(opened(app, box, console, number))
            own.tick += 4  # the box limits the messages of a time
            peripheral.appear()  # the next page of the app knows no device
    close_browser()
    return found


def floor(person: Person) -> list[float]:
    """Milliseconds of each opening by the phone in Python."""
    car, box = garage(person)
    phone = driver(person)
    person.assignment(car, phone.user)
    phone.fetch()
    found: list[float] = []
    for number in range(OPENINGS):
        begin = time.perf_counter()
        phone.visit(box)
        phone.home()
        while len(person.get("/events").json()) <= number:
            pass
        found.append((time.perf_counter() - begin) * 1e3)
    return found


def show(parts: list[list[float]], floors: list[float]) -> None:
    """Print the table."""
    table("driving tap-to-event", "", "p50", "max", "goal")
    for name, times in zip(PARTS, zip(*parts, strict=True), strict=True):
        row(name, f"{statistics.median(times):.0f} ms", f"{max(times):.0f} ms", "")
    whole = [sum(each) for each in parts]
    p50 = statistics.median(whole)
    row("from the tap to the event in the console", f"**{p50:.0f} ms**", f"**{max(whole):.0f} ms**", GOAL)
    least = statistics.median(floors)
    row("floor: the phone in Python, to the event in the API", f"{least:.0f} ms", f"{max(floors):.0f} ms", "")
    row("ratio to the floor", f"{p50 / least:.1f}", "", "")


def main() -> None:
    """Print the table of benchmarks/results.md, "From the tap to the event". Exits with 1 without Chromium."""
    if CHROMIUM is None:
        sys.exit(f"The benchmark 'driving' needs Chromium: {ABSENT}.")
    with database("driving") as dsn:
        asyncio.run(schema_version.migrate(dsn))
        port = free_port()
        server = Server(f"http://localhost:{port}")
        env = {"KEYRACK_DATABASE_URL": dsn, "KEYRACK_PUBLIC_URL": server.url, **UNLIMITED}
        command = ["keyrack", "serve", "--port", str(port), "--no-worker"]
        with running(command, port, "/health", env), workers(dsn, 1):
            town = Town(Sql(dsn), server)
            floors = floor(town.person("floor"))
            show(in_the_browser(server, town.person("driving")), floors)
