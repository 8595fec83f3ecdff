"""All scenes of the drivers' app.

They are each page with its errors, messages and dialogs, and each moment at the car.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from playwright.sync_api import Page, Route

from tests.drivers.app_browser import AppPage, Booking, Gate, at, booking, invitation, sign_in
from tests.offline_keys.offline_world import Firmware
from tests.support.drivers import driver_address, signed_in_driver
from tests.support.people import Person

HOUR = 3_600_000
STARTS = count()
# Timers would change a scene while a test looks at it. Passkeys are asked for by their button alone. A service worker
# would take calls that a test answers; `?update` has one of a newer version
STILL = """
window.setInterval = () => 0;
const newer = { waiting: {}, addEventListener() {} };
const serviceWorker = { controller: {}, addEventListener() {}, register: async () => newer };
Object.defineProperty(navigator, 'serviceWorker', {
  value: location.search === '?update' ? serviceWorker : undefined, configurable: true,
});
if (window.PublicKeyCredential) PublicKeyCredential.isConditionalMediationAvailable = async () => false;
"""
# The state of the app that makes a moment. test_drive_app.py and moments.test.js test the ways to these states
SET_STATE = """
async ({ outcome, car, key, withheld, phone, hasOffer, ...state }) => {
  const { app } = await import('/drive/app.js');
  const first = (globalThis.firstState ??= { cars: app.cars, held: app.held.get(app.cars[0].assignmentId) });
  const [shown, ...others] = first.cars;
  const { assignmentId, customerId } = shown;
  Object.assign(app, {
    isOnline: true, isSignedIn: true, hasRadio: true, progress: null, ended: [], cancelled: [], reaches: new Map(),
    hasDeclinedPasskey: hasOffer !== true, cars: [{ ...shown, ...car }, ...others],
    outcomes: new Map(outcome ? [[assignmentId, { command: 'open', at: Date.now(), ...outcome }]] : []),
    phones: { ...app.phones, [customerId]: { ...app.phones[customerId], registration: phone ?? 'ready' } },
  });
  app.held.set(assignmentId, {
    ...first.held, withheld: withheld ?? null, key: key === null ? null : { ...first.held.key, ...key },
  });
  for (const [name, value] of Object.entries(state)) {
    app[name] = name === 'progress' ? { assignmentId, ...value } : name === 'cancelled' ? [shown] : value;
  }
  await app.show();
}
"""
NO_CARS = """
import('/drive/app.js').then(({ app }) => Object.assign(app, { cars: [], cancelled: [] }).show())
"""
# The contact with the server draws the page again when it ends
SETTLE = "import('/drive/app.js').then(({ refresh }) => refresh())"
TITLE = """
async (id) => {
  const { ENGLISH, language } = await import('/drive/texts.js');
  const { GERMAN } = await import('/drive/texts-de.js');
  return (language() === 'de' ? GERMAN : ENGLISH)[`moment.${id}.title`];
}
"""


def _outcome(kind: str, code: str | None = None, number: int = 14, command: str = "open") -> dict[str, Any]:
    return {"outcome": {"kind": kind, "command": command} | ({"code": code, "number": number} if code else {})}


def _milliseconds(hours: float) -> int:
    return int(time.time() * 1000 + hours * HOUR)


def moments() -> dict[str, dict[str, Any]]:
    """The state of the app in each moment, by the moment's id."""
    place = {"latitude": 50.94, "longitude": 6.96, "time": at(-0.2)}
    later = {"start": at(3), "end": at(27)}
    return {
        "ready": {"car": {"place": place, "licensePlate": "K-XY 1234 E", "brand": "Volkswagen", "model": "ID.3"}},
        "opened": {**_outcome("opened"), "hasOffer": True},
        "no-web-bluetooth": {"hasRadio": False},
        "no-box": {"car": {"productId": None}},
        "signed-out": {"isSignedIn": False, "key": None},
        "app-old": _outcome("app-old"),
        "box-old": _outcome("box-old"),
        "error": _outcome("error"),
        "offline": {"isOnline": False},
        "offline-no-key": {"isOnline": False, "key": None},
        "interrupted": _outcome("interrupted"),
        "unknown": _outcome("unknown"),
        "not-found": _outcome("not-found"),
        "no-bluetooth": _outcome("no-bluetooth"),
        "no-key": {"key": None},
        "expired": {"key": {"expires": _milliseconds(-1)}},
        "overdue": {"key": {"isOverdue": True}},
        "refused": _outcome("refused", "signature", 17),
        "unapproved": {"phone": "unapproved"},
        "removed": {"phone": "removed"},
        "full": {"phone": "full"},
        "revoked": _outcome("refused", "revoked", 18),
        "ended": {"car": {"end": at(-1)}},
        "withheld": {"withheld": "too-many-keys"},
        "not-allowed": _outcome("refused", "right", 21),
        "other-box": _outcome("other-box"),
        "early": {"car": later},
        "box-early": _outcome("refused", "not-yet", 13),
        "uncertain": {**_outcome("refused", "uncertain", 15), "isOnline": False},
        "no-effect": _outcome("no-effect"),
        "taken": {"car": {**later, "isTaken": True, "takenUntil": at(2)}},
        "busy": _outcome("busy"),
        "return": {"car": {"end": at(0.4)}},
        "closed": _outcome("closed", command="close"),
    }


PROGRESS: dict[str, dict[str, Any]] = {
    "searching": {"progress": {"command": "open", "phase": "searching", "isSlow": False}},
    "searching for long": {"progress": {"command": "open", "phase": "searching", "isSlow": True}},
    "closing": {"progress": {"command": "close", "phase": "closing", "isSlow": False}},
}


def wait_until_ready(page: Page) -> None:
    """Wait until the key is there, and nothing draws the page again."""
    page.locator(".notice.good").wait_for()
    page.evaluate(SETTLE)


def set_state(page: Page, state: dict[str, Any]) -> None:
    """Give the main screen this state of the app."""
    page.evaluate(SET_STATE, state)


def show_moment(page: Page, moment: str) -> None:
    """Show a moment, and check that the app calls it so."""
    set_state(page, moments()[moment])
    title: str = page.evaluate(TITLE, moment)
    page.locator(".car .notice h2").filter(has_text=title.partition("{")[0].strip()).wait_for()


def new_page_of(page: Page) -> AppPage:
    """The app in a page without timers."""
    page.context.add_init_script(STILL)
    return AppPage(page)


@dataclass
class Cast:
    """A driver with two bookings, and invitations of the fleet."""

    booked: Booking
    invitation: str
    known: str

    @classmethod
    def of(cls, person: Person, language: str) -> Cast:
        booked = booking(person, phone="+49 221 5550 100")
        person.sql.execute("update customer set name = 'Stadtwerke Köln' where customer_id = $1", person.customer)
        car = person.car("Transporter", licensePlate="K-AB 1234 E", brand="Volkswagen", model="e-Crafter")
        Firmware(person.box_in(car)).enrol(person)
        person.assignment(car, booked.driver.user, at(24), end=at(30))
        ask = {"assignmentId": booked.assignment, "kind": "extend", "end": at(9), "comment": None}
        made = booked.driver.put("/requests", ask, customer=person.customer).json()["id"]
        person.put(f"/assignment-requests/{made}/decision", {"decision": "reject", "comment": "It is needed at 8"})
        booked.driver.put("/language", {"language": language})
        signed_in_driver(person, booked.driver.user)  # on another device
        new = person.user(driver_address(), type="Normal", password="the start password")

        def fragment(user: int) -> str:
            return invitation(person, user).removeprefix("/drive/")

        return cls(booked, fragment(new), fragment(signed_in_driver(person).user))


def signed_out_scenes(app: AppPage, cast: Cast) -> Iterator[str]:
    """Show each page that needs no session. Yields the name of what is shown."""
    page = app.page
    yield _shown(app, "sign-in")
    page.locator("input[type=email]").fill(cast.booked.driver.address)
    page.locator("input[type=password]").fill("not the password")
    page.locator("button[type=submit]").click()
    page.locator("[role=alert] .notice").wait_for()
    yield "sign-in, wrong password"
    yield _shown(app, "provider", "#provider=state=1&code=2", ".notice")
    app.page.route("**/drive/api/settings", lambda route: _changed(route, sendsMail=False))
    yield _shown(app, "forgot")
    app.page.unroute("**/drive/api/settings")
    app.page.route("**/drive/api/settings", lambda route: _changed(route, sendsMail=True))
    app.page.route("**/drive/api/forgot", lambda route: route.fulfill(status=204))
    yield _shown(app, "forgot", "#forgot", "form")
    page.locator("input[type=email]").fill("driver@example.org")
    page.locator("button[type=submit]").click()
    wait_until_ready(page)
    yield "forgot, sent"
    app.page.unroute_all()
    yield _shown(app, "link", cast.invitation)
    yield _shown(app, "link", cast.known)
    page.locator("button.quiet").click()
    page.locator(".notice.warn").wait_for()
    yield "link, begin anew"
    yield _shown(app, "link", "#link=unknown")


def signed_in_scenes(app: AppPage, cast: Cast, gate: Gate) -> Iterator[str]:
    """Show each page of a signed-in driver, with dialogs and messages."""
    page = app.page
    sign_in(page.context, cast.booked.driver, gate)
    yield _shown(app, "", "#", ".notice.good")
    yield _shown(app, "link", cast.invitation, ".notice.warn")
    yield _shown(app, "account")
    yield _shown(app, "privacy", "?update#privacy", ".card")
    yield from _phone_scenes(app, cast, gate)
    yield from _security_scenes(app)
    yield from _request_scenes(app, cast)
    yield from _radio_scenes(app)


def _phone_scenes(app: AppPage, cast: Cast, gate: Gate) -> Iterator[str]:
    page = app.page
    browser = page.context.browser
    assert browser is not None
    other = browser.new_context(base_url=gate.url)  # with which the driver has a second phone
    sign_in(other, cast.booked.driver, gate)
    phone = AppPage(other.new_page())
    phone.start()
    wait_until_ready(phone.page)
    other.close()
    yield _shown(app, "phones", "#phones", ".row")
    page.locator(".row button").first.click()
    yield _dialog(app, "phones, removal")
    page.locator("dialog button.danger").click()
    wait_until_ready(page)
    yield "phones, removed"


def _security_scenes(app: AppPage) -> Iterator[str]:
    page = app.page
    yield _shown(app, "security", "#security", "summary")
    page.locator("summary").click()
    page.locator("input[name=current]").fill("not the password")
    page.locator("input[name=password]").fill("another password")
    page.locator("form button").click()
    page.locator("[role=alert] .notice").wait_for()
    yield "security, wrong password"
    page.locator("li button").first.click()
    wait_until_ready(page)
    yield "security, session ended"


def _request_scenes(app: AppPage, cast: Cast) -> Iterator[str]:
    page = app.page
    yield _shown(app, "requests", "#requests", "form")
    page.locator("select").first.select_option("other")
    page.locator("input[name=time]").first.fill("2020-01-01T10:00")
    page.locator("form button").first.click()
    page.locator("[role=alert] .notice").wait_for()
    yield "requests, wrong time"
    page.locator("select").first.select_option("3")
    page.locator("form button").first.click()
    wait_until_ready(page)
    yield "requests, sent"
    yield _shown(app, "return", f"#return={cast.booked.assignment}")
    page.locator("button.quiet").click()
    yield _dialog(app, "return, still open")
    page.locator("dialog button").last.click()
    page.locator("dialog").wait_for(state="detached")
    yield _shown(app, "return", "#return=1")


def _radio_scenes(app: AppPage) -> Iterator[str]:
    """The chooser of a demo."""
    page = app.page
    page.route("**/drive/api/settings", lambda route: _changed(route, radio="simulated"))
    page.route("**/drive/api/simulated-radio", lambda route: route.fulfill(json={"names": ["K-40NZ0Y", "K-GSW3AD"]}))
    for _ in range(2):  # the second start uses the settings of the first one
        _shown(app, "", "#", ".notice.good")
    page.locator("button.main").click()
    page.locator("dialog .row").first.wait_for()
    yield _dialog(app, "cars, chooser of a demo")
    page.locator("dialog button.quiet").click()
    page.locator(".notice.warn").wait_for()
    page.unroute_all()


def lost_scenes(app: AppPage) -> Iterator[str]:
    """Report the own phone as lost. The app has no key after that."""
    page = app.page
    yield _shown(app, "lost", "#lost", "input")
    page.locator("button[type=submit]").click()
    page.locator("[role=alert] .notice").wait_for()
    yield "lost, none chosen"
    page.locator("input").first.check()
    page.locator("button[type=submit]").click()
    yield _dialog(app, "lost, this phone")
    page.locator("dialog button.danger").click()
    wait_until_ready(page)
    yield "lost, done"


def moment_scenes(app: AppPage, cast: Cast, gate: Gate) -> Iterator[str]:
    """Show the main screen in each moment, and while a command runs."""
    page = app.page
    sign_in(page.context, cast.booked.driver, gate)
    _shown(app, "", "#", ".notice.good")
    set_state(page, PROGRESS["searching"])  # so that each moment is news
    for moment in moments():
        show_moment(page, moment)
        yield f"moment {moment}"
    for name, state in PROGRESS.items():
        set_state(page, state)
        yield f"moment {name}"
    set_state(page, {"cancelled": True, "isSignedIn": False})
    yield "cars, ended by the fleet and signed out"
    page.evaluate(NO_CARS)
    page.locator(".none").wait_for()
    yield "cars, none"


def _shown(app: AppPage, name: str, fragment: str | None = None, part: str = "h1") -> str:
    """Start the app at a page, and wait for a part."""
    address = fragment or f"#{name}"
    if address.startswith("#"):
        address = f"?{next(STARTS)}{address}"  # another address, so that the browser loads it
    app.start(f"/drive/{address}")
    main = app.page.locator(f'main[data-page="{name}"]')
    main.locator(part).first.wait_for()
    if "update" in address:
        app.page.locator(".update").wait_for()
    app.page.evaluate("import('/drive/app.js').then(({ refresh }) => refresh())")  # waits for a running one
    return f"{name or 'cars'} {fragment or ''}".strip().partition("=")[0]


def _dialog(app: AppPage, name: str) -> str:
    app.page.locator("dialog[open]").wait_for()
    return name


def _changed(route: Route, **changes: Any) -> None:
    """Answer as the server does, but for these members."""
    answer = route.fetch()
    route.fulfill(response=answer, body=json.dumps(answer.json() | changes))
