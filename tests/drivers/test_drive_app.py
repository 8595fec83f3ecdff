"""The drivers' app in Chromium.

Server, browser and box are real, the radio is emulated.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from keyrack.drivers import app_files
from keyrack.drivers.app_files import AppFile
from tests.drivers.app_browser import (
    AppPage,
    Booking,
    Gate,
    Worker,
    app_context,
    at,
    booking,
    opened,
    profile_context,
    sign_in,
)
from tests.offline_keys.offline_world import Firmware
from tests.offline_keys.peripheral import Peripheral, emulated
from tests.support import browser
from tests.support.people import Person
from tests.support.servers import RunningServer, eventually

pytestmark = browser.needed


@pytest.fixture
def gate(server: RunningServer) -> Iterator[Gate]:
    gate = Gate(server.port)
    yield gate
    gate.close()


def events(person: Person) -> list[str]:
    return [event["type"] for event in person.get("/events").json()]


def phones(booking: Booking) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = booking.person.get(f"/users/{booking.driver.user}/devices").json()
    return rows


def test_it_can_be_installed_and_starts_after_the_server_has_stopped(alice: Person, gate: Gate, tmp_path: Path) -> None:
    """The browser is restarted in between. Cars and keys are there, also at a deep link."""
    booked = booking(alice)
    with profile_context(gate, tmp_path) as context:
        app = opened(context, booked, gate)
        app.worker_is_ready()
        cdp = context.new_cdp_session(app.page)
        assert cdp.send("Page.getAppManifest")["errors"] == []
        assert cdp.send("Page.getInstallabilityErrors")["installabilityErrors"] == []
        app.check(gate)
    gate.shut()
    with profile_context(gate, tmp_path) as context:
        app = AppPage(context.new_page())
        for path in ("/drive/", "/drive/cars/12?from=link"):
            app.start(path)
            app.sees("Ready without network")
        app.check(gate)


def test_opening_and_closing_appear_in_the_console(town: Any, gate: Gate) -> None:
    person = town.person("driving")
    booked = booking(person)
    with app_context(gate) as context, emulated(context) as radio:
        sign_in(context, booked.driver, gate)
        app = AppPage(context.new_page())
        radio.answer_choosers(context, app.page)
        Peripheral(radio, booked.box)
        app.start()
        app.sees("Ready")
        app.tap("Open")
        app.sees("Open")
        assert eventually(lambda: events(person), "the event") == ["CarOpened"]
        app.tap("Close")
        app.sees("Closed")
        app.page.get_by_text("Log delivered", exact=True).wait_for()
        assert booked.box.effects == ["OPEN", "CLOSE"]
        app.check(gate)
    assert eventually(lambda: len(events(person)) == 2 and events(person), "both") == ["CarOpened", "CarClosed"]


def test_opening_without_a_network_is_delivered_by_the_service_worker(town: Any, gate: Gate) -> None:
    person = town.person("garage")
    booked = booking(person)
    with app_context(gate) as context, emulated(context) as radio:
        sign_in(context, booked.driver, gate)
        app = AppPage(context.new_page())
        radio.answer_choosers(context, app.page)
        Peripheral(radio, booked.box)
        app.start()
        app.sees("Ready")
        app.worker_is_ready()
        gate.shut()
        app.page.reload()
        app.sees("Ready without network")
        app.tap("Open")
        app.sees("Open")
        app.tap("Close")
        app.sees("Closed")
        app.page.get_by_text("We deliver the log when you have network", exact=True).wait_for()
        assert events(person) == []
        gate.open()
        Worker(app.page).send("sync")
        app.page.get_by_text("Log delivered", exact=True).wait_for()
        app.check(gate)
    assert eventually(lambda: events(person), "the events") == ["CarOpened", "CarClosed"]


@pytest.mark.parametrize("event", ["push", "sync", "periodicsync"])
def test_events_of_the_browser_renew_cars_and_keys(alice: Person, gate: Gate, event: str) -> None:
    booked = booking(alice)
    with app_context(gate) as context:
        app = opened(context, booked, gate)
        app.worker_is_ready()
        worker = Worker(app.page)
        car = alice.car("The second one")
        Firmware(alice.box_in(car)).enrol(alice)
        alice.assignment(car, booked.driver.user, at(-0.5), end=at(3))
        worker.send(event)
        app.page.get_by_role("button", name="The second one").click()
        app.sees("Ready")
        app.check(gate)


def test_a_new_version_is_offered_while_a_page_is_open(
    alice: Person, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    booked = booking(alice)
    with app_context(gate) as context:
        app = opened(context, booked, gate)
        app.worker_is_ready()
        files = dict(app_files.load_app_files())
        worker, texts = files["sw.js"], files["texts.js"]
        changed = texts.content.replace(b"'Ready'", b"'Ready again'")
        files["texts.js"] = AppFile(texts.media_type, changed, '"other-texts"')
        files["sw.js"] = AppFile(worker.media_type, worker.content.replace(b"BUILD = '", b"BUILD = 'x"), '"other"')
        monkeypatch.setattr("keyrack.http.drive_app.load_app_files", lambda: files)
        app.page.evaluate("navigator.serviceWorker.ready.then((registration) => registration.update()); 0")
        app.page.get_by_text("A new version of the app is ready.", exact=True).wait_for()
        app.sees("Ready")  # until the driver taps the button
        app.tap("Update now")
        app.sees("Ready again")
        app.check(gate)


def test_two_tabs_share_one_phone(alice: Person, gate: Gate) -> None:
    booked = booking(alice)
    with app_context(gate) as context:
        sign_in(context, booked.driver, gate)
        tabs = [AppPage(context.new_page()) for _ in range(2)]
        for tab in tabs:
            tab.start()
        for tab in tabs:
            tab.sees("Ready")
            tab.check(gate)
    assert len(phones(booked)) == 1


def test_a_phone_that_lost_its_key_registers_another_one(alice: Person, gate: Gate) -> None:
    booked = booking(alice)
    with app_context(gate) as context:
        app = opened(context, booked, gate)
        app.page.goto("/drive/manifest.webmanifest")
        app.page.evaluate("new Promise((done) => { indexedDB.deleteDatabase('keyrack-drive').onsuccess = done; })")
        app.start()
        app.sees("Ready")
        app.start("/drive/#phones")
        rows = app.page.locator("main").get_by_role("listitem")
        expect(rows).to_have_count(2)
        older, newer = rows.all()
        expect(older).to_contain_text("perhaps replaced")
        expect(newer).to_contain_text("this phone")
        expect(newer).not_to_contain_text("perhaps replaced")
        app.tap("Remove")
        app.page.get_by_role("dialog").get_by_role("button", name="Remove", exact=True).click()
        app.sees("The phone was removed")
        expect(app.page.locator("main")).not_to_contain_text("perhaps replaced")
        app.check(gate)
    assert len(phones(booked)) == 1


def test_a_removed_phone_registers_again_only_by_a_tap(alice: Person, gate: Gate) -> None:
    booked = booking(alice)
    with app_context(gate) as context:
        app = opened(context, booked, gate)
        (phone,) = phones(booked)
        assert alice.delete(f"/users/{booked.driver.user}/devices/{phone['id']}").status_code == 204
        app.page.reload()
        app.sees("This phone was removed")
        assert phones(booked) == []
        app.tap("Register this phone again")
        app.sees("Ready")
        app.check(gate)
    (other,) = phones(booked)
    assert other["id"] != phone["id"]


def test_no_box_in_the_chooser_and_the_box_of_another_car(alice: Person, gate: Gate) -> None:
    booked, other = booking(alice, phone="+49 221 5550 100"), booking(alice)
    with app_context(gate) as context, emulated(context) as radio:
        sign_in(context, booked.driver, gate)
        app = AppPage(context.new_page())
        radio.answer_choosers(context, app.page)
        wrong = Peripheral(radio, other.box)
        Peripheral(radio, booked.box)
        radio.chosen = None  # the driver closes the chooser
        app.start()
        app.sees("Ready")
        app.tap("Open")
        app.sees("No box heard")
        help_link = app.page.get_by_role("link", name="Call the fleet")
        assert help_link.get_attribute("href") == "tel:+492215550100"
        app.page.get_by_role("button", name="Copy the code").wait_for()
        app.tap("My car is not listed")
        app.sees("No box heard")
        radio.chosen = wrong.address
        app.tap("My car is not listed")  # now the chooser lists all boxes
        app.sees("This is the box of another car")
        assert other.box.effects == []
        app.check(gate)


def test_an_answer_that_is_lost_is_never_called_a_failure(alice: Person, gate: Gate) -> None:
    booked = booking(alice)
    with app_context(gate) as context, emulated(context) as radio:
        sign_in(context, booked.driver, gate)
        app = AppPage(context.new_page())
        radio.answer_choosers(context, app.page)
        peripheral = Peripheral(radio, booked.box)
        peripheral.goes_before_reply_to = 5  # `open`
        app.start()
        app.sees("Ready")
        app.tap("Open")
        app.sees("Look at the car")
        assert booked.box.effects == ["OPEN"]
        peripheral.appear()
        app.tap("It is open")
        app.sees("Open")
        app.tap("It is not open")
        app.sees("The box says open")
        app.check(gate)


def test_a_browser_without_bluetooth_says_so_and_works_otherwise(alice: Person, gate: Gate) -> None:
    booked = booking(alice)
    with app_context(gate) as context:
        sign_in(context, booked.driver, gate)
        context.add_init_script("delete Navigator.prototype.bluetooth;")
        app = AppPage(context.new_page())
        app.start()
        app.sees("This browser cannot open")
        app.page.locator("main").get_by_text("such as Bluefy, which is not made by us").wait_for()
        app.page.get_by_role("button", name="Copy the address of the app").wait_for()
        assert app.page.get_by_role("button", name="Open", exact=True).count() == 0
        app.check(gate)


def test_bookings_that_come_later_and_that_the_fleet_has_ended(alice: Person, gate: Gate) -> None:
    booked = booking(alice)
    later = alice.assignment(booked.car, booked.driver.user, at(24), end=at(30))
    with app_context(gate) as context:
        app = opened(context, booked, gate)
        assert alice.delete(f"/assignments/{booked.assignment}").status_code in (202, 204)
        eventually(lambda: len(booked.driver.get("/cars").json()) == 1, "the end of the booking")
        app.page.reload()
        app.sees("Your fleet has ended a booking")
        app.page.get_by_role("button", name="Add a reminder").wait_for()
        app.tap("Done")
        app.page.get_by_role("heading", name="Your fleet has ended a booking").wait_for(state="detached")
        app.check(gate)
    assert later


def test_a_browser_in_german(alice: Person, gate: Gate) -> None:
    booked = booking(alice)
    assert booked.driver.put("/language", {"language": "de"}).status_code in (200, 204)
    with app_context(gate) as context:
        sign_in(context, booked.driver, gate)
        app = AppPage(context.new_page())
        app.start()
        app.sees("Bereit")
        assert app.page.evaluate("document.documentElement.lang") == "de"
        app.page.get_by_role("button", name="Öffnen", exact=True).wait_for()
        app.check(gate)
