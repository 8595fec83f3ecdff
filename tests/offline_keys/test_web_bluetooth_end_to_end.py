"""The phone in JavaScript, from registration to log.

Server and browser are real, the radio is emulated.
"""

from __future__ import annotations

from keyrack.core.settings import Settings
from keyrack.offline_keys.box import clock, firmware, links
from keyrack.offline_keys.box.firmware import LockAction
from keyrack.offline_keys.box.state import LINKS
from keyrack.offline_keys.transports import advertisements
from keyrack.offline_keys.transports.bluetooth import BoxBluetooth
from keyrack.offline_keys.transports.message_buffer import MessageBuffer
from tests.offline_keys.offline_world import Firmware, driver, garage
from tests.offline_keys.peripheral import PUMP, Peripheral, emulated
from tests.offline_keys.phone_bridge import bridge
from tests.offline_keys.phone_page import App
from tests.support import browser
from tests.support.people import Town
from tests.support.servers import RunningServer, eventually

pytestmark = browser.needed


class BoxNearby:
    """A box of a garage, whose links are those of a radio."""

    def __init__(self, firmware: Firmware) -> None:
        self._firmware = firmware
        self.effects: list[str] = []

    @property
    def tick(self) -> int:
        return self._firmware.tick

    @property
    def now(self) -> int:
        return clock.now(self._firmware.state, self.tick)

    @property
    def advertised_name(self) -> str:
        return advertisements.name_at(self._firmware.state.authority.advertising, self.now)

    def bluetooth(self) -> tuple[MessageBuffer, BoxBluetooth]:
        for number in range(LINKS):
            self.disconnect(number)
        buffer = MessageBuffer()
        return buffer, BoxBluetooth(buffer)

    def connect(self) -> int:
        self._firmware.state, number = firmware.connect(self._firmware.state, self.tick)
        return number

    def disconnect(self, number: int) -> None:
        self._firmware.state = firmware.disconnect(self._firmware.state, number)

    def say(self, number: int, message: bytes) -> bytes:
        reply = self._firmware.say(message, number)
        assert self._firmware.last is not None
        if self._firmware.last.effect is not LockAction.NONE:
            self.effects.append(self._firmware.last.effect.name)
        return reply

    def is_proven(self, number: int) -> bool:
        return links.is_proven(self._firmware.state, number, self.tick)


def test_a_phone_opens_while_the_server_is_stopped(
    town: Town, server: RunningServer, settings: Settings, dsn: str
) -> None:
    """The server returns later, and gets the log."""
    person = town.person("radio")
    car, own = garage(person)
    user = person.user()
    person.assignment(car, user)
    box = BoxNearby(own)
    token = driver(person, user).token
    with bridge() as bridged, browser.launched() as chromium:
        context = chromium.new_context(base_url=bridged.url)
        with emulated(context) as radio:
            page = context.new_page()
            page.add_init_script(PUMP)
            radio.answer_choosers(context, page)
            app = App(page=page, path="/server", token=token)
            Peripheral(radio, box)
            with RunningServer(settings, dsn, worker=False, public_url=server.url) as running:
                bridged.upstream = running.url
                app.load(own.product, box.now)
            app.load(own.product, box.now)
            assert app.tap("find") == box.advertised_name
            assert app.tap("open") == car
            assert app.tap("home") == ["TypeError", None]
            assert app.tap("close") is False
            assert box.effects == ["OPEN", "CLOSE"]
            assert person.get("/events").json() == []
            with RunningServer(settings, dsn, worker=False, public_url=server.url) as running:
                bridged.upstream = running.url
                assert app.tap("home") == 0
            app.check_violations()
    events = eventually(lambda: person.get("/events").json(), "the events of the log")
    assert [event["type"] for event in events] == ["CarOpened", "CarClosed"]
