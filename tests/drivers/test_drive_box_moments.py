"""The moments at the car in Chromium: their texts and buttons.

Server, browser and box are real, the radio is emulated. The box itself rejects a command, by its clock and its list.
Other files have these moments: no network, a removed phone, a lost key and the return (`test_drive_app.py`), and the
end of a booking (`test_drive_account_pages.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from playwright.sync_api import Route

from tests.drivers.app_browser import AppPage, Booking, Gate, app_context, at, booking, sign_in
from tests.offline_keys.offline_world import driver
from tests.offline_keys.peripheral import Peripheral, Radio, emulated
from tests.support import browser
from tests.support.people import Person, done
from tests.support.servers import RunningServer, eventually

pytestmark = browser.needed
FLEET = "+49 221 5550 100"
MINUTE = 60
HELLO = 1  # the type of a message


@pytest.fixture
def gate(server: RunningServer) -> Iterator[Gate]:
    gate = Gate(server.port)
    yield gate
    gate.close()


@dataclass
class AtTheCar:
    """A driver with the app, near the radio of a box."""

    app: AppPage
    radio: Radio

    def renew_and_open(self) -> None:
        self.app.tap("Renew the key now")
        self.app.sees("Ready")
        self.app.tap("Open")
        self.app.sees("Open")

    def may_call_the_fleet(self) -> None:
        link = self.app.page.get_by_role("link", name="Call the fleet")
        assert link.get_attribute("href") == "tel:+492215550100"
        self.app.page.get_by_role("button", name="Copy the code").wait_for()


@contextmanager
def at_the_car(
    booked: Booking, gate: Gate, adapter: str = "powered-on", *, refuses_bluetooth: bool = False
) -> Iterator[AtTheCar]:
    """The app of a driver, started with a network."""
    with app_context(gate) as context, emulated(context, adapter) as radio:
        sign_in(context, booked.driver, gate)
        app = AppPage(context.new_page())
        radio.answer_choosers(context, app.page)
        if refuses_bluetooth:
            app.page.route("**/drive/", without_bluetooth)  # not the copy of the service worker
        app.start()
        yield AtTheCar(app, radio)
        app.check(gate)


def without_bluetooth(route: Route) -> None:
    """Answer with a policy that refuses Bluetooth to the page."""
    response = route.fetch()
    route.fulfill(response=response, headers={**response.headers, "permissions-policy": "bluetooth=()"})


def extended(booked: Booking, hours: float) -> None:
    """The fleet extends the booking."""
    path = f"/assignments/{booked.assignment}"
    end = at(hours)
    done(booked.person.patch(path, [{"op": "replace", "path": "/end", "value": end}]))
    eventually(lambda: booked.person.get(path).json()["end"][:16] == end[:16], "the new end")


def test_an_expired_key_is_renewed(alice: Person, gate: Gate) -> None:
    """The clock of the box is ahead. A phone with network would set it."""
    booked = booking(alice, ends=0.1, phone=FLEET)
    with at_the_car(booked, gate) as car:
        app = car.app
        app.page.get_by_role("button", name="Open", exact=True).wait_for()
        app.worker_is_ready()
        gate.shut()
        booked.box.firmware.tick += 12 * MINUTE
        Peripheral(car.radio, booked.box)
        app.tap("Open")
        app.sees("Your key has to be renewed")
        app.reads("Go where there is network, and renew it.")
        car.may_call_the_fleet()
        extended(booked, 6)
        gate.open()
        car.renew_and_open()
    assert booked.box.effects == ["OPEN"]


def test_a_revoked_key(alice: Person, gate: Gate) -> None:
    """Another phone has brought the list to the box. This one had no network."""
    booked = booking(alice, phone=FLEET)
    other = driver(alice)
    alice.assignment(booked.car, other.user)
    with at_the_car(booked, gate) as car:
        app = car.app
        app.sees("Ready")
        app.worker_is_ready()
        gate.shut()
        assert alice.delete(f"/assignments/{booked.assignment}").status_code in (202, 204)
        eventually(lambda: booked.driver.get("/cars").json() == [], "the end of the booking")
        other.fetch()
        other.visit(booked.box.firmware)
        Peripheral(car.radio, booked.box)
        app.tap("Open")
        app.sees("Your fleet has ended your access")
        app.reads("The box knows that this key was revoked. Only your fleet can give you another one.")
        car.may_call_the_fleet()
        assert app.page.get_by_role("button", name="Open", exact=True).count() == 0
        gate.open()
        app.page.reload()
        app.sees("Your fleet has ended a booking")
        app.tap("Done")
        app.sees("No car for you now")
    assert booked.box.effects == []


def test_too_early(alice: Person, gate: Gate) -> None:
    """The clock of the phone is ahead. The box keeps to its own."""
    booked = booking(alice, begins=0.2, phone=FLEET)
    with at_the_car(booked, gate) as car:
        app = car.app
        app.page.get_by_role("heading", name=re.compile(r"^From .* on$")).wait_for()
        app.reads("Your booking has not begun. This phone opens the car from then on.")
        assert app.page.get_by_role("button", name="Open", exact=True).count() == 0
        with app.page.expect_download() as reminder:
            app.tap("Add a reminder")
        assert reminder.value.suggested_filename.endswith(".ics")
        app.worker_is_ready()
        gate.shut()
        app.page.clock.set_fixed_time(at(0.21))
        app.page.reload()
        app.sees("Ready without network")
        Peripheral(car.radio, booked.box)
        app.tap("Open")
        app.page.get_by_role("heading", name=re.compile("^The box waits for ")).wait_for()
        app.reads("Your key is not valid yet by the clock of the box. Wait a minute, then try again.")
        car.may_call_the_fleet()
        assert booked.box.effects == []
        booked.box.firmware.tick += 12 * MINUTE
        app.tap("Try again")
        app.sees("Open")
    assert booked.box.effects == ["OPEN"]


def test_a_box_that_lost_its_time(alice: Person, gate: Gate) -> None:
    booked = booking(alice, phone=FLEET)
    with at_the_car(booked, gate) as car:
        app = car.app
        app.sees("Ready")
        app.worker_is_ready()
        gate.shut()
        booked.box.power_is_cut()
        Peripheral(car.radio, booked.box)
        app.tap("Open")
        app.sees("The box lost its time")
        app.reads("One phone with network repairs it. Go online at the car, or ask another driver.")
        car.may_call_the_fleet()
        gate.open()
        car.renew_and_open()
    assert booked.box.effects == ["OPEN"]


def test_a_busy_box(alice: Person, gate: Gate) -> None:
    booked = booking(alice)
    with at_the_car(booked, gate) as car:
        app = car.app
        app.sees("Ready")
        peripheral = Peripheral(car.radio, booked.box)
        peripheral.occupy()
        app.tap("Open")
        app.sees("The box is busy")
        app.reads("Another phone is talking to it. Try again in a few seconds.")
        assert peripheral.refusals > 1
        peripheral.release()
        app.tap("Try again")
        app.sees("Open")
    assert booked.box.effects == ["OPEN"]


def test_a_car_in_use(alice: Person, gate: Gate) -> None:
    """The other driver remains unknown."""
    booked = booking(alice, begins=2, ends=6)
    alice.assignment(booked.car, alice.user(firstName="Zacharias"), at(-1), end=at(1))
    with at_the_car(booked, gate) as car:
        app = car.app
        app.page.get_by_role("heading", name=re.compile("^The car is in use until ")).wait_for()
        app.page.locator("main").get_by_text(re.compile("^Your booking begins ")).wait_for()
        assert "Zacharias" not in app.page.content()
        assert app.page.get_by_role("button", name="Open", exact=True).count() == 0
        with app.page.expect_download():
            app.tap("Add a reminder")


def test_a_box_out_of_range_is_tried_again(alice: Person, gate: Gate) -> None:
    booked = booking(alice)
    with at_the_car(booked, gate) as car:
        app = car.app
        app.sees("Ready")
        peripheral = Peripheral(car.radio, booked.box)
        peripheral.goes_before_message = HELLO
        app.tap("Open")
        app.sees("The connection was interrupted")
        app.reads("Stay at the door, and keep the app open and the screen on. Then try again.")
        assert booked.box.effects == []
        app.tap("Try again")
        app.sees("Open")
    assert booked.box.effects == ["OPEN"]


def test_no_bluetooth(alice: Person, gate: Gate) -> None:
    booked = booking(alice)
    with at_the_car(booked, gate, adapter="absent") as car:
        app = car.app
        app.sees("Ready")
        app.tap("Open")
        app.sees("Switch Bluetooth on")
        app.reads("The app finds no Bluetooth. Switch it on, and allow the browser to use it.")
        car.radio.send("setSimulatedCentralState", state="powered-on")
        Peripheral(car.radio, booked.box)
        app.tap("Try again")
        app.sees("Open")
    assert booked.box.effects == ["OPEN"]


def test_a_refused_permission(alice: Person, gate: Gate) -> None:
    """A policy refuses Bluetooth to the page. It helps to allow it again, and to load the page."""
    booked = booking(alice)
    with at_the_car(booked, gate, refuses_bluetooth=True) as car:
        app = car.app
        app.sees("Ready")
        app.tap("Open")
        app.sees("Switch Bluetooth on")
        app.reads("The app finds no Bluetooth. Switch it on, and allow the browser to use it.")
        app.page.get_by_role("button", name="Try again").wait_for()
        app.page.unroute("**/drive/")
        app.worker_is_ready()
        app.page.reload()
        app.sees("Ready")
        Peripheral(car.radio, booked.box)
        app.tap("Open")
        app.sees("Open")
    assert booked.box.effects == ["OPEN"]


def test_the_box_of_another_car_leads_to_the_own_one(alice: Person, gate: Gate) -> None:
    booked, other = booking(alice, phone=FLEET), booking(alice)
    with at_the_car(booked, gate) as car:
        app = car.app
        app.sees("Ready")
        wrong, own = Peripheral(car.radio, other.box), Peripheral(car.radio, booked.box)
        car.radio.chosen = wrong.address
        app.tap("Open")
        app.sees("No box heard")
        app.tap("My car is not listed")
        app.page.locator("main").get_by_text(re.compile("^The box may sleep")).wait_for()
        app.tap("My car is not listed")  # only the widest search lists the boxes of other cars
        app.sees("This is the box of another car")
        app.reads("Yours is Car. Go there, then choose its box.")
        car.may_call_the_fleet()
        car.radio.chosen = own.address
        app.tap("Search again")
        app.sees("Open")
    assert (other.box.effects, booked.box.effects) == ([], ["OPEN"])


def test_an_opening_without_an_effect_leads_to_the_fleet(alice: Person, gate: Gate) -> None:
    booked = booking(alice, phone=FLEET)
    with at_the_car(booked, gate) as car:
        app = car.app
        app.sees("Ready")
        Peripheral(car.radio, booked.box)
        app.tap("Open")
        app.sees("Open")
        app.tap("It is not open")
        app.sees("The box says open")
        app.reads("Pull the handle once more. If nothing moves, the battery of the box may be low. Call your fleet.")
        car.may_call_the_fleet()
        app.tap("Try again")
        app.sees("Open")
    assert booked.box.effects == ["OPEN", "OPEN"]
