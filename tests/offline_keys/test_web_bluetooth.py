"""The phone in JavaScript opens the Python box over Web Bluetooth.

Chromium emulates the radio. The page has a strict Content-Security-Policy. Chromium's emulation cannot scan, lose
packets or change the size of a connection. Times and faults are tests of reference/phone/test/bluetooth.test.js.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import BrowserContext

from keyrack.offline_keys import link_messages
from keyrack.offline_keys.link_messages import CarryMessage
from tests.offline_keys.peripheral import PUMP, STRANGER, Peripheral, Radio, emulated
from tests.offline_keys.phone_bridge import Bridge, bridge
from tests.offline_keys.phone_page import App
from tests.offline_keys.phone_world import PRODUCT, World
from tests.support import browser

pytestmark = browser.needed
HELLO, OPEN = 1, 5  # types of messages
HOUR = 3600
CLOCK_TOLERANCE = 300  # seconds, of boxes
SMALL = 20  # the size of a connection with the smallest ATT_MTU
VIOLATE = """() => new Promise((resolve) => {
  document.addEventListener('securitypolicyviolation', (event) => resolve(event.effectiveDirective), { once: true });
  (async () => { ACT; })().catch(() => undefined);
})"""


@dataclass(kw_only=True)
class Phone(App):
    """The app of a driver, and the box nearby."""

    radio: Radio
    world: World
    box: Peripheral

    def start(self, product: int = PRODUCT) -> None:
        self.load(product, self.world.now)

    @property
    def effects(self) -> list[str]:
        return self.world.effects


@pytest.fixture(scope="module")
def bridged() -> Iterator[Bridge]:
    with bridge() as running:
        yield running


@pytest.fixture
def context(bridged: Bridge) -> Iterator[BrowserContext]:
    with browser.launched() as chromium:
        yield chromium.new_context(base_url=bridged.url)


@pytest.fixture
def phone(context: BrowserContext, bridged: Bridge) -> Iterator[Phone]:
    """A phone with keys, next to its box and another one."""
    with emulated(context) as radio:
        world = World()
        bridged.worlds.append(world)
        page = context.new_page()
        page.add_init_script(PUMP)
        radio.answer_choosers(context, page)
        radio.add(STRANGER)
        path = f"/worlds/{len(bridged.worlds) - 1}"
        phone = Phone(page=page, path=path, radio=radio, world=world, box=Peripheral(radio, world))
        phone.start()
        yield phone
        phone.check_violations()


def test_the_policy_of_the_page_is_in_force(phone: Phone) -> None:
    """All tests of a phone fail if the page violates it."""
    acts = {
        "require-trusted-types-for": "document.body.innerHTML = ''",
        "connect-src": "await fetch('https://keyrack.example')",
        "script-src-elem": "await import('data:text/javascript,0')",
    }
    for directive, act in acts.items():
        assert phone.page.evaluate(VIOLATE.replace("ACT", act)) == directive
    assert [text.partition(" ")[0] for text in phone.violations] == list(acts)
    phone.violations.clear()


def test_a_driver_opens_and_closes(phone: Phone) -> None:
    assert phone.tap("find") == phone.world.advertised_name
    assert phone.radio.listed == [{phone.box.address}], "the chooser lists no box of a stranger"
    assert phone.tap("open") == 12
    assert phone.tap("close") is False, "the link has ended"
    assert phone.effects == ["OPEN", "CLOSE"]
    assert phone.tap("home") == 0
    assert phone.world.seen()["home"] == [1, 2, 3]
    assert phone.tap("open") == 12
    assert len(phone.radio.listed) == 1, "the same device begins another link"


def test_a_page_without_network_opens_after_a_reload(phone: Phone) -> None:
    phone.tap("find")
    assert phone.tap("open") == 12
    phone.page.route("**/v3/**", lambda route: route.abort())
    phone.world.seconds_pass(900)
    name = phone.world.advertised_name
    phone.box.appear()
    phone.start()
    assert phone.tap("find") == name
    assert phone.tap("open") == 12
    assert phone.tap("home") == ["TypeError", None]
    assert phone.effects == ["OPEN", "OPEN"]
    phone.page.unroute("**/v3/**")
    assert phone.tap("home") == 0


def test_the_smallest_size_carries_all_messages(phone: Phone) -> None:
    phone.box.size = SMALL
    phone.tap("find")
    assert phone.tap("open") == 12
    assert max(phone.box.writes) == SMALL
    assert len(phone.box.writes) > 33, "an open alone takes 33 fragments or more"


def test_a_box_that_vanishes_within_a_message_is_opened_by_the_same_device(phone: Phone) -> None:
    phone.tap("find")
    phone.box.goes_before_reply_to = HELLO
    assert phone.tap("open") == ["TransportLost", "all"]
    assert phone.effects == []
    assert phone.tap("open") == 12
    assert (phone.box.connections, len(phone.radio.listed)) == (2, 1), "no second chooser"
    assert phone.effects == ["OPEN"]


def test_a_command_that_came_in_part_has_done_nothing(phone: Phone) -> None:
    phone.box.size = SMALL
    phone.tap("find")
    phone.box.goes_before_fragment = 5
    assert phone.tap("open") == ["TransportLost", "part"]
    assert phone.effects == []


def test_an_opening_without_a_reply_is_unknown(phone: Phone) -> None:
    phone.tap("find")
    phone.box.goes_before_reply_to = OPEN
    assert phone.tap("open") == ["OutcomeUnknown", "all"]
    assert phone.effects == ["OPEN"]
    assert phone.tap("look") is False, "the log has grown, so it is not certain that nothing happened"
    assert phone.tap("open") == 12


def test_an_opening_that_did_not_reach_the_box_is_unknown_until_the_next_challenge(phone: Phone) -> None:
    phone.tap("find")
    phone.box.goes_before_message = OPEN
    assert phone.tap("open") == ["OutcomeUnknown", "all"]
    assert phone.effects == []
    assert phone.tap("look") is True, "nothing has happened"
    assert phone.tap("open") == 12
    assert phone.effects == ["OPEN"]


def test_a_driver_who_cancels_the_chooser_has_chosen_none(phone: Phone) -> None:
    phone.radio.chosen = None
    assert phone.tap("find") is None
    assert phone.radio.listed == [{phone.box.address}]


def test_the_box_of_another_car_gets_no_key(phone: Phone) -> None:
    phone.start(PRODUCT + 1)
    phone.tap("find")
    assert phone.tap("open") == ["OtherBox", None]
    assert phone.effects == []


def test_a_busy_box_opens_when_it_has_room(phone: Phone) -> None:
    phone.tap("find")
    phone.box.occupy(refusals=2)
    assert phone.tap("open") == 12
    assert (phone.box.refusals, phone.effects) == (2, ["OPEN"])


def test_a_key_before_its_time_opens_nothing(phone: Phone) -> None:
    phone.world.change(begins=HOUR)
    phone.start()
    phone.tap("find")
    assert phone.tap("open") == ["BoxRefusal", "not-yet"]
    assert phone.effects == []


def test_an_expired_key_opens_nothing(phone: Phone) -> None:
    phone.page.route("**/v3/**", lambda route: route.abort())
    phone.world.seconds_pass(phone.world.lifetime + CLOCK_TOLERANCE)
    phone.box.appear()
    phone.start()
    assert phone.tap("find") == phone.world.advertised_name
    assert phone.tap("open") == ["BoxRefusal", "expired"]
    assert phone.effects == []


def test_a_revoked_key_opens_nothing_after_another_phone_has_brought_the_list(phone: Phone) -> None:
    phone.tap("find")
    assert phone.tap("open") == 12
    phone.page.route("**/v3/**", lambda route: route.abort())
    phone.world.seconds_pass(1)  # the next list is later
    (device,) = phone.world.phones
    phone.world.revoke(device)
    other = phone.world.connect()
    phone.world.say(other, link_messages.write(CarryMessage(phone.world.list(phone.world.generation))))
    phone.world.disconnect(other)
    assert phone.tap("open") == ["BoxRefusal", "revoked"]
    assert phone.effects == ["OPEN"]


def test_one_tab_at_a_time_opens(phone: Phone, context: BrowserContext) -> None:
    """The browser shares one connection among its tabs.

    A reply does not say to which tab it belongs."""
    page = context.new_page()
    page.add_init_script(PUMP)
    phone.radio.answer_choosers(context, page)
    second = App(page=page, path=phone.path)
    second.load(PRODUCT, phone.world.now)
    for app in (phone, second):
        assert app.tap("find") == phone.world.advertised_name
    assert phone.tap("open") == 12
    assert second.tap("open") == ["BoxBusy", "none"]
    assert phone.tap("close") is False
    assert second.tap("open") == 12
    assert phone.effects == ["OPEN", "CLOSE", "OPEN"]
    second.check_violations()


def test_a_search_without_names_lists_each_box(phone: Phone) -> None:
    assert phone.tap("findAny") == phone.world.advertised_name
    assert [len(addresses) for addresses in phone.radio.listed] == [2]
    assert phone.tap("open") == 12


def test_a_device_without_an_adapter_says_so(context: BrowserContext, bridged: Bridge) -> None:
    with emulated(context, "absent"):
        page = context.new_page()
        page.goto("/")
        found = page.evaluate(
            """async () => {
              const { WebBluetooth } = await import('/phone/bluetooth.js');
              return new WebBluetooth().find([]).catch((error) => error.name);
            }"""
        )
        assert found == "NoBluetooth"
