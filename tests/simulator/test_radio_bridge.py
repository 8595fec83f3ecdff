"""The bridge from the drivers' app to simulated boxes."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest

from keyrack.core.base64url import base64url, octets
from keyrack.core.settings import Settings
from keyrack.offline_keys import link_messages
from keyrack.offline_keys.link_messages import Challenge, Provision
from keyrack.offline_keys.transports.fragments import Command, FragmentError, Reassembly, error, split
from keyrack.simulator.offline.box import VirtualBox
from keyrack.simulator.offline.radio import Fate, Fault, FragmentLink, Radio, RadioConditions
from keyrack.simulator.radio_bridge import RadioBridge, serve
from tests.support.drivers import PASSWORD, DriverBrowser, SignedInDriver, signed_in_driver
from tests.support.people import Person, http_client
from tests.support.servers import RunningServer

AT = 1_800_000_000
NAME = "K-000001"
HELLO = link_messages.write(link_messages.hello())
LONG = link_messages.write(Provision(b"\x01" * 700, b"", b""))
SIZE = 20
INSTANT = RadioConditions((SIZE + 3,), round_trip=0)


class NamedBox(VirtualBox):
    """A box that was just reset. It advertises a fixed name while it has room."""

    def __init__(self, name: str = NAME) -> None:
        super().__init__(1, 0.0, Random(1), AT)
        self._name = name

    def advertised_name(self, at: int) -> str | None:
        return self._name if self._bluetooth.has_room else None


class Page:
    """A page of the app at a bridge. Its clock stands unless a test moves it."""

    def __init__(self, customers: Sequence[int] = (7,), boxes: int = 1) -> None:
        self.now = float(AT)
        self.customers = list(customers)
        named = [NamedBox(f"K-00000{number}") for number in range(1, boxes + 1)]
        self.bridge = RadioBridge(7, named, INSTANT, Random(1), lambda: self.now)

    def ask(self, name: str | None = NAME, link: str | None = None, fragment: bytes | None = None) -> Any:
        text = None if fragment is None else base64url(fragment)
        request = {"customers": self.customers, "name": name, "link": link, "fragment": text}
        return asyncio.run(self.bridge.answer(request))

    def connect(self) -> str:
        reply = self.ask()
        assert (reply["size"], reply["fragments"]) == (SIZE, [])
        return reply["link"]

    def send(self, link: str, message: bytes, *, pause: float = 0.0) -> list[bytes]:
        """The notifications after the last fragment."""
        heard: list[str] = []
        for fragment in split(message, SIZE):
            assert heard == []
            self.now += pause
            heard = self.ask(link=link, fragment=fragment)["fragments"]
        return [octets(each) for each in heard]


def whole(fragments: Sequence[bytes]) -> bytes:
    reassembly = Reassembly(Command.MESSAGE)
    *most, last = (reassembly.accept(fragment, 0) for fragment in fragments)
    assert most == [None] * len(most) and last is not None
    return last.data


def test_a_page_hears_boxes_and_exchanges_messages() -> None:
    page = Page(boxes=2)
    assert page.ask(None) == {"names": [NAME, "K-000002"]}
    link = page.connect()
    assert link_messages.read(whole(page.send(link, HELLO)), Challenge).name == ""
    assert whole(page.send(link, LONG))


def test_a_slow_network_before_the_radio_causes_no_gap() -> None:
    page = Page()
    assert whole(page.send(page.connect(), LONG, pause=2.0))


def test_pages_of_other_customers_hear_nothing() -> None:
    page = Page(customers=(8, 9))
    assert page.ask(None) == {"names": []}
    assert page.ask()["link"] is None


def test_an_unknown_name_or_link_is_not_heard() -> None:
    page = Page()
    assert page.ask("K-ZZZZZZ")["link"] is None
    assert page.ask(link="unknown", fragment=HELLO) == {"link": None, "size": 0, "fragments": []}


def test_a_box_has_three_links_and_advertises_again_after_one_ends() -> None:
    page = Page()
    links = [page.connect() for _ in range(3)]
    assert page.ask(None) == {"names": []} and page.ask()["link"] is None
    assert page.ask(link=links[0])["link"] is None, "the page leaves"
    assert page.ask(None) == {"names": [NAME]}
    assert page.ask(link=links[0], fragment=HELLO)["link"] is None
    assert whole(page.send(page.connect(), HELLO))


def test_the_box_ends_an_idle_link() -> None:
    page = Page()
    link = page.connect()
    page.now += 6
    assert page.ask(link=link, fragment=HELLO)["link"] is None
    assert whole(page.send(page.connect(), HELLO)), "another link of the same number is not the old one"


def written(fate: Fate, *, delay: int = 2_000) -> tuple[list[bytes], bool]:
    """The notifications of a long message with this fate."""
    radio = Radio(RadioConditions((SIZE + 3,), longest_delay=delay), Random(1))
    radio.fate = lambda: fate
    box = NamedBox()
    link = box.join(AT, radio.now(AT))
    assert link is not None
    page, heard = FragmentLink(radio, box, link, SIZE), list[bytes]()
    for fragment in split(LONG, SIZE):
        result = page.write(fragment, AT)
        heard += result.fragments
        if result.has_ended or heard:
            return heard, result.has_ended
    return heard, False


@pytest.mark.parametrize(
    ("fate", "expected"),
    [
        (Fate(Fault.LOSS, 0.1), ([error(FragmentError.SEQUENCE)], False)),
        (Fate(Fault.LOSS, 0.499), ([], False)),
        (Fate(Fault.DISCONNECT, 0.1), ([], True)),
        (Fate(Fault.DISCONNECT, 0.5), ([], True)),
        (Fate(Fault.DELAY, 0.1), ([error(FragmentError.TIMEOUT)], False)),
        (Fate(Fault.BUSY), ([error(FragmentError.BUSY)], False)),
    ],
)
def test_fragments_have_the_faults_of_the_radio(fate: Fate, expected: tuple[list[bytes], bool]) -> None:
    assert written(fate) == expected


@pytest.mark.parametrize("fate", [Fate(), Fate(Fault.DELAY, 0.1, 0.4), Fate(Fault.DELAY, 0.5)])
def test_other_messages_get_their_reply(fate: Fate) -> None:
    heard, has_ended = written(fate)
    assert whole(heard) and not has_ended


def test_a_busy_box_takes_the_message_later() -> None:
    radio = Radio(INSTANT, Random(1))
    radio.fate = lambda: Fate(Fault.BUSY, duration=0.5)
    box = NamedBox()
    link = box.join(AT, radio.now(AT))
    assert link is not None
    page = FragmentLink(radio, box, link, 244)
    replies = [page.write(*split(HELLO, 244), AT + second).fragments for second in (0, 1, 3)]
    assert replies[:2] == [(error(FragmentError.BUSY),)] * 2
    assert replies[2] == (error(FragmentError.BUSY),), "the next message meets another phone"


# The endpoints


@contextmanager
def bridged(bridge: RadioBridge) -> Iterator[Path]:
    """The socket of a bridge."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "socket"
        served = asyncio.run_coroutine_threadsafe(serve(bridge, path), loop).result()
        try:
            yield path
        finally:
            loop.call_soon_threadsafe(served.close)
            loop.call_soon_threadsafe(loop.stop)
            thread.join()


@pytest.fixture(scope="module")
def driver(alice: Person) -> SignedInDriver:
    return signed_in_driver(alice)


def test_a_server_that_is_no_demo_has_no_simulated_radio(driver: SignedInDriver) -> None:
    assert driver.get("/settings").json()["radio"] == "bluetooth"
    assert driver.get("/simulated-radio").status_code == 404
    assert driver.post(f"/simulated-radio/{NAME}", {}).status_code == 404


@contextmanager
def demo_of(driver: SignedInDriver, dsn: str, settings: Settings, socket: Path) -> Iterator[DriverBrowser]:
    """The driver's browser at a server with a simulated radio."""
    with RunningServer(settings.model_copy(update={"simulated_radio_socket": socket}), dsn, worker=False) as server:
        browser = DriverBrowser(http_client(base_url=server.url, headers={"Origin": server.url}))
        assert browser.get("/simulated-radio").status_code == 401
        assert browser.sign_in(driver.address, PASSWORD).status_code == 201
        yield browser


def test_a_driver_reaches_the_boxes_of_a_demo(driver: SignedInDriver, dsn: str, settings: Settings) -> None:
    bridge = RadioBridge(driver.customer, [NamedBox()], INSTANT, clock=lambda: AT)
    with bridged(bridge) as socket, demo_of(driver, dsn, settings, socket) as browser:
        assert browser.get("/settings").json()["radio"] == "simulated"
        assert browser.get("/simulated-radio").json() == {"names": [NAME]}
        path = f"/simulated-radio/{NAME}"
        link = browser.post(path, {}).json()["link"]
        heard = [browser.post(path, {"link": link, "fragment": base64url(each)}).json() for each in split(HELLO, SIZE)]
        fragments = [octets(each) for each in heard[-1]["fragments"]]
        assert link_messages.read(whole(fragments), Challenge).name == ""
        assert browser.post(path, {"link": link}).json()["link"] is None
        for wrong in ({"fragment": "A" * 700}, {"fragment": "!"}, {"link": 5}, {"link": "x" * 65}):
            assert browser.post(path, wrong).status_code == 400


def test_no_box_is_heard_before_the_simulator_serves_them(driver: SignedInDriver, dsn: str, settings: Settings) -> None:
    with demo_of(driver, dsn, settings, Path("/nonexistent/socket")) as browser:
        assert browser.get("/simulated-radio").json() == {"names": []}
        assert browser.post(f"/simulated-radio/{NAME}", {}).json()["link"] is None
