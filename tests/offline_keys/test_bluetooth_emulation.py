"""The limits of Chromium's emulated radio for which `peripheral.py` has work-arounds.

A failure means that a later Chromium lacks the limit. Remove the work-around then, and the test.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import BrowserContext, Error, Page

from keyrack.offline_keys.transports.bluetooth import FROM_BOX, SERVICE
from tests.offline_keys.peripheral import STRANGER, Peripheral, Radio, emulated
from tests.offline_keys.phone_bridge import Bridge, bridge
from tests.offline_keys.phone_world import World
from tests.support import browser

pytestmark = browser.needed
CHOOSE = """(service) => {
  const button = document.createElement('button');
  button.textContent = 'choose';
  button.onclick = () => {
    const chosen = navigator.bluetooth.requestDevice({ filters: [{ services: [service] }] });
    globalThis.outcome = chosen.then((device) => { globalThis.device = device; return true; }, ({ name }) => name);
  };
  document.body.append(button);
}"""
SUBSCRIBE = """async ([service, uuid]) => {
  const found = await (await device.gatt.connect()).getPrimaryService(service);
  const characteristic = await found.getCharacteristic(uuid);
  const state = { heard: 0, hasEnded: false, read: null };
  characteristic.addEventListener('characteristicvaluechanged', () => { state.heard += 1; });
  device.addEventListener('gattserverdisconnected', () => { state.hasEnded = true; });
  await characteristic.startNotifications();
  Object.assign(globalThis, { characteristic, state });
}"""
READ = """() => {
  characteristic.readValue().then(() => { state.read = 'value'; }, ({ name }) => { state.read = name; });
}"""
STATE = "({ ...state, isConnected: device.gatt.connected })"
CONNECTED = {"heard": 0, "hasEnded": False, "read": None, "isConnected": True}
AVAILABLE = "navigator.bluetooth.getAvailability()"


@dataclass
class Tab:
    """A page that uses Web Bluetooth by itself, and a box nearby."""

    page: Page
    radio: Radio
    box: Peripheral

    def choose(self) -> object:
        """Choose a box. Returns whether there was one, or the name of an error."""
        self.page.click("button")
        return self.page.evaluate("outcome")

    def subscribe(self) -> None:
        assert self.choose() is True
        self.page.evaluate(SUBSCRIBE, [SERVICE, FROM_BOX])

    def state(self) -> object:
        """What the page has noticed."""
        return self.page.evaluate(STATE)


@pytest.fixture(scope="module")
def bridged() -> Iterator[Bridge]:
    with bridge() as running:
        yield running


@pytest.fixture
def context(bridged: Bridge) -> Iterator[BrowserContext]:
    with browser.launched() as chromium:
        yield chromium.new_context(base_url=bridged.url)


@pytest.fixture
def tab(context: BrowserContext) -> Iterator[Tab]:
    with emulated(context) as radio:
        page = context.new_page()
        page.goto("/")
        page.evaluate(CHOOSE, SERVICE)
        radio.answer_choosers(context, page)
        yield Tab(page, radio, Peripheral(radio, World()))


def test_no_command_sends_a_notification(tab: Tab) -> None:
    """So `from-box` can be read, and `PUMP` reads it."""
    tab.subscribe()
    response = {"characteristicId": tab.box.identifier(FROM_BOX), "code": 0, "data": "AA=="}
    for kind in ("notify", "notification", "indicate"):
        with pytest.raises(Error, match="Unknown characteristic operation type"):
            tab.radio.send("simulateCharacteristicOperationResponse", type=kind, **response)
    for command in ("simulateCharacteristicNotification", "simulateCharacteristicValueChanged", "simulateNotification"):
        with pytest.raises(Error, match="wasn't found"):
            tab.radio.send(command, **response)
    tab.radio.send("simulateCharacteristicOperationResponse", type="read", **response)
    assert tab.state() == CONNECTED, "the answer to a read that nobody began is no notification"


def test_a_disconnection_does_not_reach_a_page_with_a_pending_read(tab: Tab) -> None:
    """So `Peripheral.vanish` lets the read fail first."""
    tab.subscribe()
    tab.page.evaluate(READ)
    tab.radio.send("simulateGATTDisconnection", address=tab.box.address)
    assert tab.state() == CONNECTED


def test_a_disconnected_box_is_in_no_chooser(tab: Tab) -> None:
    """So `Peripheral.appear` adds it at a new address."""
    tab.subscribe()
    tab.radio.send("simulateGATTDisconnection", address=tab.box.address)
    assert tab.state() == CONNECTED | {"hasEnded": True, "isConnected": False}
    stranger = tab.radio.add(STRANGER)
    assert tab.choose() == "NotFoundError"
    assert tab.radio.listed == [{tab.box.address}, {stranger}]


def test_the_emulation_ends_with_the_last_document(context: BrowserContext) -> None:
    """So `emulated` keeps a second page."""
    assert context.browser is not None
    radio = Radio(context.browser.new_browser_cdp_session())
    radio.enable("powered-on")
    try:
        page = context.new_page()
        page.goto("/")
        assert page.evaluate(AVAILABLE) is True
        page.goto("/strict")
        assert page.evaluate(AVAILABLE) is False
        with pytest.raises(Error, match="BluetoothEmulation not enabled"):
            radio.add(STRANGER)
    finally:
        radio.close()


def test_bluetooth_that_is_off_counts_as_available(context: BrowserContext) -> None:
    """So the absent adapter is the one of `test_a_device_without_an_adapter_says_so`."""
    with emulated(context, "powered-off"):
        page = context.new_page()
        page.goto("/")
        assert page.evaluate(AVAILABLE) is True
