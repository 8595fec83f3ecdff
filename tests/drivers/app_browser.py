"""The drivers' app in Chromium, with a real server.

The server is behind a gate. A phone has no network while the gate is shut.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, CDPSession, Page

from keyrack.core.settings import Settings
from tests.offline_keys.box_nearby import BoxNearby
from tests.offline_keys.offline_world import garage
from tests.offline_keys.peripheral import PUMP
from tests.support import browser
from tests.support.drivers import COOKIE, SignedInDriver, signed_in_driver
from tests.support.people import Person
from tests.support.servers import RunningServer, eventually

HEAR = """
document.addEventListener('securitypolicyviolation', (event) => {
  reportProblem(`${event.effectiveDirective} blocks ${event.blockedURI}`);
});
addEventListener('error', (event) => reportProblem(event.message));
addEventListener('unhandledrejection', (event) => reportProblem(String(event.reason?.stack ?? event.reason)));
"""
CONTROLLED = """new Promise((done) => {
  if (navigator.serviceWorker.controller !== null) done();
  else navigator.serviceWorker.addEventListener('controllerchange', () => done(), { once: true });
})"""
YEAR = 31_536_000


class Address(Protocol):
    """A server at an address."""

    @property
    def url(self) -> str: ...


class Gate:
    """A port in front of a server. While it is shut, connections end at once."""

    def __init__(self, port: int = 0) -> None:
        self._upstream = port
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.is_open = True
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """The address, by a name that counts as secure."""
        return f"http://localhost:{self._socket.getsockname()[1]}"

    def lead_to(self, port: int) -> None:
        """Lead to a server that was started after the gate."""
        self._upstream = port

    def shut(self) -> None:
        """End all connections, and accept no other."""
        self.is_open = False
        while self._pairs:
            for end in self._pairs.pop():
                _end(end)

    def open(self) -> None:
        self.is_open = True

    def close(self) -> None:
        self.shut()
        self._socket.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                if not self.is_open:
                    _end(client)
                    continue
                server = socket.create_connection(("127.0.0.1", self._upstream))
                self._pairs.append((client, server))
                for one, other in ((client, server), (server, client)):
                    threading.Thread(target=_copy, args=(one, other), daemon=True).start()


def _copy(one: socket.socket, other: socket.socket) -> None:
    with suppress(OSError):
        while data := one.recv(65_536):
            other.sendall(data)
    _end(other)


def _end(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


@dataclass
class Booking:
    """A driver with a car whose box is nearby."""

    person: Person
    driver: SignedInDriver
    car: int
    box: BoxNearby
    assignment: int


def at(hours: float) -> str:
    """A time from now."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + hours * 3600))


def booking(person: Person, *, begins: float = -1, ends: float = 6, phone: str | None = None) -> Booking:
    """A driver with an assignment, by default a running one. Times are in hours from now."""
    car, own = garage(person)
    driver = signed_in_driver(person)
    assignment = person.assignment(car, driver.user, at(begins), end=at(ends))
    if phone is not None:
        settings = {"phone": phone, "showsPlace": False, "extensionHours": 0}
        assert person.put("/driver-settings", settings).status_code == 204
    return Booking(person, driver, car, BoxNearby(own), assignment)


@dataclass
class AppPage:
    """A page of the app. `problems` are errors, and violations of its policy."""

    page: Page
    problems: list[str] = field(default_factory=list[str])
    hosts: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self.page.expose_function("reportProblem", lambda text: self.problems.append(text))
        self.page.add_init_script(HEAR)
        self.page.add_init_script(PUMP)
        self.page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))

    def start(self, path: str = "/drive/") -> None:
        self.page.goto(path)

    def sees(self, title: str) -> None:
        """Wait for a state with this title."""
        self.page.get_by_role("heading", name=title, exact=True).wait_for()

    def reads(self, text: str) -> None:
        """Wait for a text on the page."""
        self.page.locator("main").get_by_text(text, exact=True).wait_for()

    def tap(self, button: str) -> None:
        self.page.get_by_role("button", name=button, exact=True).click()

    def worker_is_ready(self) -> None:
        """Wait until the service worker controls the page."""
        self.page.evaluate(CONTROLLED)

    def check(self, gate: Gate) -> None:
        """Check that nothing went wrong, and that no other host was asked."""
        assert self.problems == []
        assert self.hosts <= {urlsplit(gate.url).netloc}


def sign_in(context: BrowserContext, driver: SignedInDriver, server: Address) -> None:
    """Give a browser the persistent session of a driver."""
    assert driver.cookie is not None
    context.add_cookies(
        [
            {
                "name": COOKIE, "value": driver.cookie, "url": server.url, "httpOnly": True, "sameSite": "Strict",
                "expires": time.time() + YEAR,
            }
        ]
    )  # fmt: skip


def opened(context: BrowserContext, booked: Booking, gate: Gate, page: Page | None = None) -> AppPage:
    """The app of a signed-in driver, with the key of the booking."""
    sign_in(context, booked.driver, gate)
    app = AppPage(page or context.new_page())
    app.start()
    app.sees("Ready")
    return app


@contextmanager
def gate_of_own_server(settings: Settings, dsn: str) -> Iterator[Gate]:
    """A gate whose address is that of the server behind it, as passkeys need."""
    gate = Gate()
    with RunningServer(settings, dsn, public_url=gate.url) as running:
        gate.lead_to(running.port)
        yield gate
        gate.close()


def invitation(person: Person, user: int) -> str:
    """The path and the fragment of an invitation's link."""
    answer = person.post(f"/users/{user}/app-invitation", {"mail": False})
    assert answer.status_code in (200, 201), answer.text
    return "/drive/" + answer.json()["link"].partition("/drive/")[2]


@contextmanager
def app_context(server: Address, locale: str = "en-GB", **options: Any) -> Iterator[BrowserContext]:
    """A window of the shared browser, at this address."""
    with browser.launched() as chromium:
        context = chromium.new_context(base_url=server.url, locale=locale, **options)
        yield context


@contextmanager
def profile_context(gate: Gate, profile: Path) -> Iterator[BrowserContext]:
    """A browser of its own, which keeps its data in `profile`."""
    with browser.launched() as chromium:
        context = chromium.browser_type.launch_persistent_context(
            profile, executable_path=browser.CHROMIUM, args=browser.ARGUMENTS, base_url=gate.url, locale="en-GB"
        )
        try:
            yield context
        finally:
            context.close()


class Worker:
    """The service worker of a page, to which the browser sends events."""

    def __init__(self, page: Page) -> None:
        self._cdp: CDPSession = page.context.new_cdp_session(page)
        self._origin = "{0.scheme}://{0.netloc}".format(urlsplit(page.url))
        self._ids: list[str] = []
        self._cdp.on("ServiceWorker.workerRegistrationUpdated", self._hear)
        self._cdp.send("ServiceWorker.enable")
        page.evaluate(CONTROLLED)
        # Each call delivers the events that have come meanwhile
        eventually(lambda: page.evaluate("true") and self._ids, "the registration of the service worker")

    def _hear(self, event: dict[str, Any]) -> None:
        self._ids += [one["registrationId"] for one in event["registrations"] if one["scopeURL"].endswith("/drive/")]

    def send(self, event: str) -> None:
        """Raise `push`, `sync` or `periodicsync`."""
        where = {"origin": self._origin, "registrationId": self._ids[-1]}
        match event:
            case "push":
                self._cdp.send("ServiceWorker.deliverPushMessage", {**where, "data": ""})
            case "sync":
                self._cdp.send("ServiceWorker.dispatchSyncEvent", {**where, "tag": "log", "lastChance": False})
            case _:
                self._cdp.send("ServiceWorker.dispatchPeriodicSyncEvent", {**where, "tag": "keys"})
