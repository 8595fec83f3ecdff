"""The phone in JavaScript opens the Python box over Web Bluetooth.

Chromium emulates the radio. Chromium's emulation cannot scan, lose packets or change the size of a connection. Times
and faults are tests of reference/phone/test/bluetooth.test.js.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page

from keyrack.offline_keys.transports import advertisements
from tests.offline_keys.peripheral import PUMP, STRANGER, Peripheral, Radio, emulated
from tests.offline_keys.phone_bridge import Bridge, bridge
from tests.offline_keys.phone_world import PRODUCT, World, b64
from tests.support import browser

pytestmark = browser.needed
HELLO, OPEN = 1, 5  # types of messages
POLICY = "Content Security Policy"  # in each message about a violation
SMALL = 20  # the size of a connection with the smallest ATT_MTU
APP = """async ([path, productId, dayKeys, seconds]) => {
  const { start } = await import('/phone/example.js');
  const { WebBluetooth } = await import('/phone/bluetooth.js');
  const { namesAround } = await import('/phone/advertisements.js');
  const { fromBase64url } = await import('/phone/bytes.js');
  const { openPhone } = await import('/phone/indexeddb.js');
  const { Phone } = await import('/phone/phone.js');
  const { Server } = await import('/phone/server.js');
  const token = async () => `e30.${btoa(JSON.stringify({ sub: 'somebody' }))}.`;
  const base = `${location.origin}${path}/v3`;
  const phone = await start(base, token).catch(async () => {
    const { device, store } = await openPhone(); // without a network
    return new Phone(device, store, new Server(base, token));
  });
  const names = await namesAround(dayKeys.map(([day, key]) => ({ day, key: fromBase64url(key) })), seconds);
  const transport = new WebBluetooth();
  const app = { box: null, unknown: null };
  const find = async (those) => {
    app.box = await transport.find(those);
    return app.box && app.box.name;
  };
  const outcomeOf = async (work) => {
    try {
      return await work();
    } catch (error) {
      if (error.name === 'OutcomeUnknown') app.unknown = error;
      return [error.name, error.sent ?? error.cause?.sent ?? null];
    }
  };
  const buttons = {
    find: () => find(names),
    findAny: () => find([]),
    open: async () => {
      await app.box.connect();
      const conversation = phone.at(app.box.exchange, productId);
      const { key } = await conversation.open();
      await conversation.fetchLog();
      return key.carId;
    },
    close: async () => {
      await phone.at(app.box.exchange, productId).close();
      await app.box.close();
      return app.box.isConnected;
    },
    look: async () => {
      await app.box.connect();
      return phone.at(app.box.exchange, productId).hasDoneNothing(app.unknown);
    },
    home: async () => {
      await phone.meetServer();
      return (await phone.store.state()).entries.length;
    },
  };
  for (const [name, work] of Object.entries(buttons)) {
    const button = document.createElement('button');
    button.id = name;
    button.textContent = name;
    button.onclick = async () => settled(await outcomeOf(work));
    document.body.append(button);
  }
}"""


@dataclass
class Phone:
    """A page with the app of a driver, and the box nearby."""

    page: Page
    radio: Radio
    world: World
    path: str
    box: Peripheral
    violations: list[str]  # of the content security policy

    def load(self, product: int = PRODUCT) -> None:
        """Load the page, and start the app. The names are those around the time of the world."""
        self.page.goto("/strict")
        day = advertisements.day_of(advertisements.slot_at(self.world.now))
        secret = self.world.box.authority.advertising
        keys = [(each, b64(advertisements.day_key(secret, each))) for each in (day - 1, day, day + 1)]
        self.page.evaluate(APP, [self.path, product, keys, self.world.now])

    def tap(self, button: str) -> Any:
        """The outcome of a button: a value, or an error.

        It comes by a promise, because the policy of the page forbids Playwright's `wait_for_function`.
        """
        self.page.evaluate("() => { outcome = new Promise((settle) => { settled = settle; }); }")
        self.page.click(f"#{button}")
        return self.page.evaluate("() => outcome")

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
    with near_a_box(context, bridged) as phone:
        yield phone


@contextmanager
def near_a_box(context: BrowserContext, server: Bridge) -> Iterator[Phone]:
    with emulated(context) as radio:
        world = World()
        server.worlds.append(world)
        page, violations = context.new_page(), list[str]()
        page.on("console", lambda message: violations.append(message.text) if POLICY in message.text else None)
        page.add_init_script(PUMP)
        radio.answer_choosers(context, page)
        radio.add(STRANGER)
        path = f"/worlds/{len(server.worlds) - 1}"
        phone = Phone(page, radio, world, path, Peripheral(radio, world), violations)
        phone.load()
        yield phone
        assert phone.violations == []


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


def test_the_page_is_under_a_strict_policy(phone: Phone) -> None:
    """The tests of this file see each violation."""
    script = "() => { try { document.body.innerHTML = '<b>'; } catch (error) { return error.name; } }"
    assert phone.page.evaluate(script) == "TypeError"
    phone.page.evaluate("() => fetch('https://elsewhere.example/').catch(() => 0)")
    assert [len(phone.violations), all("violates" in each for each in phone.violations)] == [2, True]
    phone.violations.clear()


def test_a_stopped_server_stops_no_driver() -> None:
    with browser.launched() as chromium, ExitStack() as servers:
        running = servers.enter_context(bridge())
        context = chromium.new_context(base_url=running.url)
        with near_a_box(context, running) as phone:
            phone.tap("find")
            assert phone.tap("open") == 12
            servers.close()
            phone.violations.clear()
            assert phone.tap("open") == 12
            assert phone.tap("home") == ["TypeError", None], "no server answers"
            assert phone.effects == ["OPEN", "OPEN"]
            again = servers.enter_context(bridge(running.server_address[1]))
            again.worlds = running.worlds
            assert phone.tap("home") == 0
            assert phone.world.seen()["home"] == [1, 2, 3]


def test_a_page_without_network_opens_after_a_reload(phone: Phone) -> None:
    phone.tap("find")
    assert phone.tap("open") == 12
    phone.page.route("**/v3/**", lambda route: route.abort())
    phone.world.seconds_pass(900)
    name = phone.world.advertised_name
    phone.box.appear()
    phone.load()
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
    phone.load(product=PRODUCT + 1)
    phone.tap("find")
    assert phone.tap("open") == ["OtherBox", None]
    assert phone.effects == []


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
