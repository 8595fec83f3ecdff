"""The Python box as a peripheral in the emulated radio of Chromium.

`Radio` is the adapter of a browser: it answers choosers. `Peripheral` is one box: it answers the operations on its
characteristics by `BoxBluetooth` and the firmware of a `RadioBox`. Their clocks stand still unless a test moves them.

The protocol domain BluetoothEmulation is experimental. test_bluetooth_emulation.py fails if a limit ends, except the
second one. Limits of the emulation:

- It has no command for a notification. So `from-box` can be read, too, and `PUMP` keeps one read pending: its answer
  raises the event of a notification. Only the test knows that.
- A chooser reports its devices several times. A second answer to it ends the browser.
- The emulation ends with the last document that used the adapter. So a second page stays open.
- A disconnection does not reach a page while a read is pending. So that read fails first.
- After a disconnection the services are gone, and the peripheral is in no chooser until it is added at a new address.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

import pytest
from playwright.sync_api import BrowserContext, CDPSession, Error, Page

from keyrack.offline_keys.transports import bluetooth
from keyrack.offline_keys.transports.bluetooth import BoxBluetooth
from keyrack.offline_keys.transports.fragments import Command
from keyrack.offline_keys.transports.message_buffer import MessageBuffer

Json = dict[str, Any]
GONE = 0x0E  # the ATT error "unlikely"
CONFIGURATION = "00002902-0000-1000-8000-00805f9b34fb"  # the Client Characteristic Configuration
STRANGER = "K-ZZZZZZ"  # the name of a box nearby of which the phone knows nothing
PUMP = """(() => {
  const { startNotifications } = BluetoothRemoteGATTCharacteristic.prototype;
  BluetoothRemoteGATTCharacteristic.prototype.startNotifications = async function () {
    await startNotifications.call(this);
    const pump = async () => { while (this.service.device.gatt.connected) await this.readValue(); };
    pump().catch(() => undefined);
    return this;
  };
})();"""


class Radio:
    """The adapter of a browser, and what its choosers have listed."""

    def __init__(self, cdp: CDPSession) -> None:
        self._cdp = cdp
        self._addresses = 0
        self.failures: list[BaseException] = []  # of handlers, for which Playwright has no other place
        self._is_closed = False
        self._listed: dict[str, set[str]] = {}  # the addresses in each chooser
        self.chosen: str | None = None  # the address that the user taps; None cancels

    @property
    def listed(self) -> list[set[str]]:
        """The addresses in each chooser."""
        return list(self._listed.values())

    def send(self, command: str, **parameters: Any) -> Json:
        answer: Json = self._cdp.send(f"BluetoothEmulation.{command}", parameters)
        return answer

    def enable(self, state: str) -> None:
        """Begin the emulation. Skips the test if the browser has none."""
        try:
            self.send("enable", state=state, leSupported=True)
        except Error as error:
            if "wasn't found" not in error.message:
                raise
            pytest.skip("this browser does not emulate Bluetooth")

    def close(self) -> None:
        self._is_closed = True
        self.send("disable")
        self._cdp.detach()

    def on(self, event: str, handler: Callable[[Json], None]) -> None:
        self._cdp.on(f"BluetoothEmulation.{event}", self.guarded(handler))

    def guarded(self, handler: Callable[[Json], None]) -> Callable[[Json], None]:
        def handle(event: Json) -> None:
            try:
                handler(event)
            except BaseException as failure:
                if not self._is_closed:  # a handler may still run at the end of a test
                    self.failures.append(failure)

        return handle

    def add(self, name: str) -> str:
        """Add a device to the choosers. Returns its address."""
        self._addresses += 1
        address = f"0A:00:00:00:00:{self._addresses:02X}"
        known = {"manufacturerData": [], "knownServiceUuids": [bluetooth.SERVICE]}
        self.send("simulatePreconnectedPeripheral", address=address, name=name, **known)
        return address

    def answer_choosers(self, context: BrowserContext, page: Page) -> None:
        """Tap the chosen device in each chooser of this page."""
        session = context.new_cdp_session(page)
        answered: set[str] = set()

        def prompted(event: Json) -> None:
            chooser = event["id"]
            self._listed.setdefault(chooser, set()).update(device["id"] for device in event["devices"])
            if chooser in answered or not event["devices"]:
                return
            answered.add(chooser)
            session.send("Runtime.evaluate", {"expression": "0"})  # meanwhile the chooser lists the other devices
            if self.chosen in self._listed[chooser]:
                session.send("DeviceAccess.selectPrompt", {"id": chooser, "deviceId": self.chosen})
            else:
                session.send("DeviceAccess.cancelPrompt", {"id": chooser})

        session.on("DeviceAccess.deviceRequestPrompted", self.guarded(prompted))
        session.send("DeviceAccess.enable")


@contextmanager
def emulated(context: BrowserContext, state: str = "powered-on") -> Iterator[Radio]:
    """The radio of a browser, for the pages of this context. Skips the test if the browser has no emulation."""
    browser = context.browser
    assert browser is not None
    radio = Radio(browser.new_browser_cdp_session())
    radio.enable(state)
    try:
        keeper = context.new_page()
        keeper.goto("/")
        keeper.evaluate("navigator.bluetooth.getAvailability()")
        yield radio
    finally:
        with suppress(Error):  # after a crash of the browser
            radio.close()
    assert not radio.failures, radio.failures


class RadioBox(Protocol):
    """The firmware of a box, and its clock. `World` is one."""

    @property
    def tick(self) -> int: ...
    @property
    def advertised_name(self) -> str: ...
    def bluetooth(self) -> tuple[MessageBuffer, BoxBluetooth]: ...
    def connect(self) -> int: ...
    def disconnect(self, number: int) -> None: ...
    def say(self, number: int, message: bytes) -> bytes: ...
    def is_proven(self, number: int) -> bool: ...


class Peripheral:
    """A box nearby, with one link."""

    def __init__(self, radio: Radio, world: RadioBox, size: int = 182) -> None:
        self._radio, self._world = radio, world
        self.size = size
        self.connections = 0
        self.writes: list[int] = []  # lengths of the fragments
        self.goes_before_fragment = 0  # vanish instead of taking the fragment with this number of the next message
        self.goes_before_message = 0  # vanish before the firmware gets the next message of this type
        self.goes_before_reply_to = 0  # vanish before the reply to the next message of this type
        self.refusals = 0  # as busy
        self._stranger: int | None = None  # the link that occupies the box
        self._most_refusals = 0
        self._fragments = 0  # of the message that is received
        self._is_read_pending = False
        self._characteristics: dict[str, str] = {}  # ids by UUID, while services are discovered
        self._link: int | None = None
        _, self._box = world.bluetooth()
        radio.on("gattOperationReceived", self._gatt_operation)
        radio.on("characteristicOperationReceived", self._operation)
        self.appear()

    @property
    def now(self) -> int:
        return self._world.tick * 1000

    def identifier(self, uuid: str) -> str:
        """The id of a characteristic, while a page is connected."""
        return self._characteristics[uuid]

    def appear(self) -> None:
        """Advertise at a new address, which the next chooser lists. A link at the old one has ended."""
        self._disconnect()
        self._characteristics.clear()
        self.address = self._radio.chosen = self._radio.add(self._world.advertised_name)

    def vanish(self) -> None:
        """The connection ends without a word."""
        if self._is_read_pending:
            self._is_read_pending = False
            self._answer(bluetooth.FROM_BOX, "read", code=GONE)
        self._disconnect()
        self._characteristics.clear()
        self._radio.send("simulateGATTDisconnection", address=self.address)

    def occupy(self, refusals: int = 0) -> None:
        """Begin a message on another link.

        It ends after this number of refusals, or at `release`.
        """
        self._stranger = self._world.connect()
        self._most_refusals = refusals
        self._box.connect(self._stranger, self.now)
        assert self._box.write(self._stranger, bytes([Command.MESSAGE, 0, 2, 0]), self.now) is None

    def release(self) -> None:
        """End the link that occupies the box."""
        assert self._stranger is not None
        self._box.disconnect(self._stranger)
        self._world.disconnect(self._stranger)
        self._stranger = None

    def _refuse(self) -> None:
        self.refusals += 1
        if self.refusals == self._most_refusals:
            self.release()

    def _connect(self) -> None:
        self._disconnect()
        self.connections += 1
        self._link = self._world.connect()
        self._box.connect(self._link, self.now)
        self._fragments, self._is_read_pending = 0, False

    def _disconnect(self) -> None:
        if self._link is not None:
            self._box.disconnect(self._link)
            self._world.disconnect(self._link)
        self._link = None

    def _gatt_operation(self, event: Json) -> None:
        if event["address"] != self.address:
            return
        if event["type"] == "connection":
            self._connect()
        elif not self._characteristics:
            self._add_services()
        self._radio.send("simulateGATTOperationResponse", address=self.address, type=event["type"], code=0)

    def _add_services(self) -> None:
        service = self._radio.send("addService", address=self.address, serviceUuid=bluetooth.SERVICE)["serviceId"]
        for uuid, properties in (
            (bluetooth.TO_BOX, {"write": True, "writeWithoutResponse": True}),
            (bluetooth.FROM_BOX, {"notify": True, "read": True}),
            (bluetooth.SIZE, {"read": True}),
        ):
            added = self._radio.send(
                "addCharacteristic", serviceId=service, characteristicUuid=uuid, properties=properties
            )
            self._characteristics[uuid] = added["characteristicId"]
        self._radio.send(
            "addDescriptor",
            characteristicId=self._characteristics[bluetooth.FROM_BOX],
            descriptorUuid=CONFIGURATION,
        )

    def _operation(self, event: Json) -> None:
        uuid = next((each for each, id in self._characteristics.items() if id == event["characteristicId"]), None)
        match uuid, event["type"]:
            case bluetooth.SIZE, "read":
                self._answer(bluetooth.SIZE, "read", bluetooth.size_value(self.size + 3))
            case bluetooth.FROM_BOX, "read":
                self._is_read_pending = True
                self._notify()
            case bluetooth.TO_BOX, "write":
                assert event["writeType"] == "write-with-response", event
                self._written(base64.b64decode(event["data"]))
            case str(), kind:
                self._answer(uuid, kind)
            case _:
                pass  # of a connection that has ended

    def _written(self, fragment: bytes) -> None:
        self.writes.append(len(fragment))
        self._fragments += 1
        if self._fragments == self.goes_before_fragment:
            self.goes_before_fragment = 0
            self._answer(bluetooth.TO_BOX, "write", code=GONE)
            self.vanish()
            return
        assert self._link is not None
        message = self._box.write(self._link, fragment, self.now)
        self._answer(bluetooth.TO_BOX, "write")
        if message is not None:
            self._process(self._link, message)
        elif self._stranger is not None:
            self._refuse()
        self._notify()

    def _process(self, link: int, message: bytes) -> None:
        self._fragments = 0
        kind = message[1]
        reply = b"" if kind == self.goes_before_message else self._world.say(link, message)
        self._box.reply(link, reply, self.now, is_proven=self._world.is_proven(link))
        if kind in (self.goes_before_message, self.goes_before_reply_to):
            self.goes_before_message = self.goes_before_reply_to = 0
            self.vanish()

    def _notify(self) -> None:
        """Send the next notification, if the page takes one."""
        if self._link is None or not self._is_read_pending:
            return
        fragment = self._box.next_fragment(self._link, self.size, self.now)
        if fragment is not None:
            self._is_read_pending = False
            self._answer(bluetooth.FROM_BOX, "read", fragment)

    def _answer(self, uuid: str, kind: str, data: bytes | None = None, code: int = 0) -> None:
        extra = {} if data is None else {"data": base64.b64encode(data).decode()}
        id = self._characteristics[uuid]
        self._radio.send("simulateCharacteristicOperationResponse", characteristicId=id, type=kind, code=code, **extra)
