"""The limits of Chromium's emulation of Bluetooth, for which `peripheral.py` has work-arounds.

A test that fails says that a newer Chromium needs a work-around no more: remove it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from keyrack.offline_keys.transports import bluetooth
from tests.offline_keys.peripheral import STRANGER, Peripheral, Radio, emulated
from tests.offline_keys.phone_bridge import bridge
from tests.offline_keys.phone_world import World
from tests.support import browser

pytestmark = browser.needed
COMMANDS = {
    "addCharacteristic", "addDescriptor", "addService", "disable", "enable", "removeCharacteristic", "removeDescriptor",
    "removeService", "setSimulatedCentralState", "simulateAdvertisement", "simulateCharacteristicOperationResponse",
    "simulateDescriptorOperationResponse", "simulateGATTDisconnection", "simulateGATTOperationResponse",
    "simulatePreconnectedPeripheral",
}  # fmt: skip
AVAILABLE = "navigator.bluetooth.getAvailability()"
CONNECT_AFTER_CLICK = """async ([service, characteristic]) => {
  await new Promise((clicked) => { onclick = clicked; });
  const device = await navigator.bluetooth.requestDevice({ filters: [{ services: [service] }] });
  const found = await (await device.gatt.connect()).getPrimaryService(service);
  globalThis.events = 0;
  globalThis.link = { device, fromBox: await found.getCharacteristic(characteristic) };
  link.fromBox.addEventListener('characteristicvaluechanged', () => { events += 1; });
  await link.fromBox.startNotifications();
}"""
CHOOSE_AFTER_CLICK = """(service) => {
  const clicked = new Promise((resolve) => { onclick = resolve; });
  const chosen = clicked.then(() => navigator.bluetooth.requestDevice({ filters: [{ services: [service] }] }));
  globalThis.outcome = chosen.catch(({ name }) => name);
}"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser.launched() as launched:
        yield launched


@pytest.fixture
def context(chromium: Browser) -> Iterator[BrowserContext]:
    with bridge() as running, chromium.new_context(base_url=running.url) as context:
        yield context


@pytest.fixture
def radio(context: BrowserContext) -> Iterator[Radio]:
    with emulated(context) as radio:
        yield radio


def test_the_emulation_has_no_command_for_notifications(tmp_path: Path) -> None:
    command = [str(browser.CHROMIUM), "--headless", "--no-sandbox", "--remote-debugging-port=0"]
    command += [f"--user-data-dir={tmp_path}", "about:blank"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as running:
        try:
            assert running.stderr is not None
            address = next(found[1] for line in running.stderr if (found := re.search(r"ws://([\d.:]+)/", line)))
            with urllib.request.urlopen(f"http://{address}/json/protocol") as answer:
                domains = {each["domain"]: each for each in json.load(answer)["domains"]}
        finally:
            os.killpg(running.pid, signal.SIGKILL)  # Debian's command is a script that starts the browser
    if "BluetoothEmulation" not in domains:
        pytest.skip("this browser does not emulate Bluetooth")
    assert {each["name"] for each in domains["BluetoothEmulation"]["commands"]} == COMMANDS


def test_the_emulation_ends_with_the_last_page_that_used_the_adapter(context: BrowserContext) -> None:
    with emulated(context):
        page, keeper = context.new_page(), context.pages[0]
        page.goto("/")
        assert page.evaluate(AVAILABLE) is True
        page.goto("/")
        assert page.evaluate(AVAILABLE) is True, "another page stays open"
        keeper.close()
        page.goto("/")
        assert page.evaluate(AVAILABLE) is False


def test_an_adapter_that_is_off_is_available(context: BrowserContext) -> None:
    with emulated(context, "powered-off"):
        page = context.new_page()
        page.goto("/")
        assert page.evaluate(AVAILABLE) is True


class Silent(Peripheral):
    """A box that answers reads of `from-box` by `answer_read`."""

    def answer_read(self, data: bytes) -> None:
        self._answer(bluetooth.FROM_BOX, "read", data)

    def _notify(self) -> None:
        """Keep the read pending."""


@pytest.fixture
def connected(context: BrowserContext, radio: Radio) -> tuple[Page, Silent]:
    """A page that has subscribed, without the work-around for notifications."""
    page = context.new_page()
    radio.answer_choosers(context, page)
    box = Silent(radio, World())
    page.goto("/")
    page.evaluate(
        f"(given) => {{ globalThis.connected = ({CONNECT_AFTER_CLICK})(given); }}",
        [bluetooth.SERVICE, bluetooth.FROM_BOX],
    )
    page.mouse.click(9, 9)
    page.evaluate("() => connected")
    return page, box


def test_a_response_without_a_read_is_no_notification(connected: tuple[Page, Silent]) -> None:
    page, box = connected
    box.answer_read(b"unasked")
    assert page.evaluate("events") == 0
    page.evaluate("() => { link.value = link.fromBox.readValue(); }")
    box.answer_read(b"asked")
    assert page.evaluate("async () => new TextDecoder().decode(await link.value)") == "asked"
    assert page.evaluate("events") == 1


def test_a_pending_read_hides_a_disconnection(connected: tuple[Page, Silent], radio: Radio) -> None:
    page, box = connected
    page.evaluate("() => { link.value = link.fromBox.readValue().catch(() => 'failed'); }")
    radio.send("simulateGATTDisconnection", address=box.address)
    assert page.evaluate("link.device.gatt.connected") is True


def test_a_disconnected_box_is_in_no_chooser(connected: tuple[Page, Silent], radio: Radio) -> None:
    page, box = connected
    radio.send("simulateGATTDisconnection", address=box.address)
    stranger = radio.add(STRANGER)
    page.evaluate(CHOOSE_AFTER_CLICK, bluetooth.SERVICE)
    page.mouse.click(9, 9)
    assert page.evaluate("() => outcome") == "NotFoundError"
    assert radio.listed == [{box.address}, {stranger}]
