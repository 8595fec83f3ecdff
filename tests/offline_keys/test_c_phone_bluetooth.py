"""The Bluetooth side of the phone in C.

Vectors, times, and boxes in Python and in C.
"""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keyrack.offline_keys.link_messages import LONGEST
from keyrack.offline_keys.message_fields import OPEN
from keyrack.offline_keys.phone_conversation import ConversationEnd, Ending
from keyrack.offline_keys.transports.fragments import KEEP_ALIVE, FragmentError, error, split
from tests.offline_keys import c_box, c_phone, phone_comparison, phone_exchanges
from tests.offline_keys.authority import Box
from tests.offline_keys.c_phone import CPhone
from tests.offline_keys.c_phone_bluetooth import CPhoneBluetooth, Exchange, Sent
from tests.offline_keys.c_sources import BOX, PHONE
from tests.offline_keys.c_transports import CBluetooth, CBuffer
from tests.offline_keys.fixed_keys import public, scalar
from tests.offline_keys.vectors import bluetooth_vectors
from tests.offline_keys.vectors.bluetooth_vectors import filled
from tests.offline_keys.vectors.phone_visits import phone_of

Json = dict[str, Any]
BLE: Json = json.loads(bluetooth_vectors.PATH.read_text())
SMALL = b"\1\0\x14"  # the value of `size` for 20 bytes
SHORT, LONG = b"\x82\1\x81\2", filled(100)  # one fragment, and six
BUSY = error(FragmentError.BUSY)
SEED, CONNECTIONS = 20261128, 1_000
RESULTS = {"REPLY", "BUSY", "LOST NONE", "LOST PART", "LOST ALL"}


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    return c_phone.library()


@pytest.fixture
def phone(library: ctypes.CDLL) -> CPhoneBluetooth:
    """With a connection of the smallest size."""
    phone = CPhoneBluetooth(library)
    assert phone.connect(SMALL)
    return phone


def write(phone: CPhoneBluetooth, now: int, most: int = 1 << 16) -> list[bytes]:
    """Write fragments, each with its response at once."""
    fragments: list[bytes] = []
    while len(fragments) < most and (fragment := phone.next(now)) is not None:
        fragments.append(fragment)
        phone.written(now)
    return fragments


def result(phone: CPhoneBluetooth, now: int) -> tuple[Exchange, Sent]:
    return phone.tick(now), phone.sent


# Vectors


@pytest.mark.parametrize("vector", BLE["split"], ids=lambda each: f"{len(each['message']) // 2} at {each['size']}")
def test_a_message_is_split_as_in_the_vectors(phone: CPhoneBluetooth, vector: Json) -> None:
    assert phone.connect(b"\1" + vector["size"].to_bytes(2, "big"))
    assert phone.send(bytes.fromhex(vector["message"]), 0)
    assert [each.hex() for each in write(phone, 0, len(vector["fragments"]))] == vector["fragments"]
    assert result(phone, 0) == (Exchange.RUNNING, Sent.ALL)
    assert phone.next(0) is None


@pytest.mark.parametrize("vector", BLE["phone"], ids=lambda each: each["comment"])
def test_a_reply_is_received_as_in_the_vectors(phone: CPhoneBluetooth, vector: Json) -> None:
    phone.send(SHORT, 0)
    write(phone, 0)
    for step in vector["steps"]:
        at, whole = step["at"], step.get("whole") or {}
        phone.receive(bytes.fromhex(step["fragment"]), at)
        is_error = "error" in step or (whole.get("command") == 0xBF and whole["data"] != "06")
        if is_error:
            assert result(phone, at) == (Exchange.LOST, Sent.ALL)
            return
        is_over = whole.get("command") == 0x83
        assert phone.tick(at) is (Exchange.REPLY if is_over else Exchange.RUNNING)
        if is_over:
            assert phone.reply.hex() == whole["data"]


# Sizes


@pytest.mark.parametrize(
    "value", [b"", b"\1\0", b"\1\0\x14\0", b"\2\0\x14", b"\0\0\x14", b"\1\0\x13", b"\1\0\0", b"\1\2\1", b"\1\xff\xff"]
)
def test_an_invalid_size_gives_no_connection(library: ctypes.CDLL, value: bytes) -> None:
    phone = CPhoneBluetooth(library)
    assert not phone.connect(value)
    assert phone.send(SHORT, 0)
    assert (result(phone, 0), phone.next(0)) == ((Exchange.LOST, Sent.NONE), None)


def test_a_message_has_1_to_2048_bytes(phone: CPhoneBluetooth) -> None:
    for message in (b"", bytes(LONGEST + 1)):
        assert not phone.send(message, 0)
        assert phone.tick(0) is Exchange.NONE
    assert phone.send(bytes(LONGEST), 0)
    assert not phone.send(SHORT, 0), "there is one exchange at a time"
    assert len(b"".join(each[1:] for each in write(phone, 0))) == LONGEST + 2


# Times


def test_a_box_that_does_not_reply_is_lost_after_5_s(phone: CPhoneBluetooth) -> None:
    phone.send(LONG, 0)
    assert len(write(phone, 100)) == 6
    assert phone.tick(5_099) is Exchange.RUNNING
    assert result(phone, 5_100) == (Exchange.LOST, Sent.ALL)
    phone.receive(b"\x83\0\1\xc0", 5_100)
    assert phone.tick(5_100) is Exchange.LOST
    phone.send(SHORT, 5_200)
    assert result(phone, 5_200) == (Exchange.LOST, Sent.NONE), "there is no connection"


def test_each_fragment_lengthens_the_wait_up_to_20_s(phone: CPhoneBluetooth) -> None:
    phone.send(LONG, 0)
    write(phone, 1_000)
    for now in range(5_999, 21_000, 4_999):
        phone.receive(KEEP_ALIVE, now)
    phone.receive(KEEP_ALIVE, 20_998)
    assert phone.tick(20_999) is Exchange.RUNNING
    assert result(phone, 21_000) == (Exchange.LOST, Sent.ALL)


def test_a_reply_that_comes_slowly_is_received(phone: CPhoneBluetooth) -> None:
    phone.send(SHORT, 0)
    write(phone, 0)
    phone.receive(KEEP_ALIVE, 4_900)
    phone.receive(b"\x83\0\2\xc0", 9_800)
    phone.receive(b"\0\xc1", 10_800)
    assert (phone.tick(10_800), phone.reply) == (Exchange.REPLY, b"\xc0\xc1")


def test_a_late_response_lengthens_the_wait(phone: CPhoneBluetooth) -> None:
    phone.send(SHORT, 0)
    assert phone.next(0)
    phone.written(4_999)
    assert phone.tick(9_998) is Exchange.RUNNING
    assert result(phone, 9_999) == (Exchange.LOST, Sent.ALL)


def test_a_reply_that_stops_is_lost(phone: CPhoneBluetooth) -> None:
    phone.send(SHORT, 0)
    write(phone, 0)
    phone.receive(b"\x83\0\2\xc0", 4_000)
    assert phone.tick(8_999) is Exchange.RUNNING
    assert result(phone, 9_000) == (Exchange.LOST, Sent.ALL)


@pytest.mark.parametrize(("place", "sent"), [(0, Sent.PART), (4, Sent.PART), (5, Sent.ALL)])
@pytest.mark.parametrize("is_failure", [True, False])
def test_a_write_without_a_response(phone: CPhoneBluetooth, place: int, sent: Sent, is_failure: bool) -> None:
    phone.send(LONG, 0)
    write(phone, 0, place)
    assert phone.next(3_000)
    assert phone.next(3_000) is None, "one write at a time"
    if is_failure:
        phone.lose()
    else:
        assert phone.tick(7_999) is Exchange.RUNNING
    assert result(phone, 8_000) == (Exchange.LOST, sent)
    phone.written(8_000)
    assert phone.next(8_000) is None


def test_an_app_that_writes_nothing_has_sent_nothing(phone: CPhoneBluetooth) -> None:
    phone.send(SHORT, 0)
    assert result(phone, 5_000) == (Exchange.LOST, Sent.NONE)


def test_slow_writes_are_waited_for_up_to_20_s(phone: CPhoneBluetooth) -> None:
    phone.send(LONG, 0)
    for now in range(0, 20_000, 4_000):
        assert phone.next(now)
        phone.written(now + 4_000 - 1)
    assert phone.tick(19_999) is Exchange.RUNNING
    assert result(phone, 20_000) == (Exchange.LOST, Sent.PART)


def test_a_message_waits_5_s_for_the_write_before_it(phone: CPhoneBluetooth) -> None:
    for is_late in (False, True):
        phone.send(SHORT, 0)
        assert phone.next(0)
        phone.receive(b"\x83\0\1\xc0", 0)
        assert phone.tick(0) is Exchange.REPLY
        phone.send(SHORT, 0)
        assert phone.next(4_999) is None
        phone.receive(b"\x83\0\1\xc1", 4_999)
        assert phone.tick(4_999) is Exchange.RUNNING, "it belongs to the message before"
        if is_late:
            assert (result(phone, 5_000), phone.reply) == ((Exchange.LOST, Sent.NONE), b"")
            return
        phone.written(4_999)
        assert phone.next(9_998)
        phone.written(9_998)
        phone.receive(b"\x83\0\1\xc0", 9_998)
        assert phone.tick(9_998) is Exchange.REPLY


# Busy boxes


def test_a_message_to_a_busy_box_is_sent_again(phone: CPhoneBluetooth) -> None:
    phone.send(LONG, 0)
    assert len(write(phone, 0, 1)) == 1
    phone.receive(BUSY, 0)
    assert result(phone, 0) == (Exchange.RUNNING, Sent.NONE)
    assert write(phone, 199) == [], "the rest is not sent"
    assert write(phone, 500) == list(split(LONG, 20))
    phone.receive(b"\x83\0\1\xc0", 500)
    assert (result(phone, 500), phone.reply) == ((Exchange.REPLY, Sent.ALL), b"\xc0")


def test_pauses_before_a_busy_box_are_200_to_500_ms(library: ctypes.CDLL) -> None:
    pauses: set[int] = set()
    for random in range(1_000):
        phone = CPhoneBluetooth(library)
        phone.connect(SMALL, random)
        phone.send(SHORT, 0)
        write(phone, 0)
        phone.receive(BUSY, 0)
        pauses.add(next(now for now in range(1_000) if phone.next(now)))
    assert (min(pauses), max(pauses), len(pauses) > 200) == (200, 500, True)


def test_a_box_that_is_busy_for_10_s_has_done_nothing(phone: CPhoneBluetooth) -> None:
    phone.send(SHORT, 0)
    attempts = 0
    for now in range(10_001):
        if write(phone, now):
            attempts += 1
            phone.receive(BUSY, now)
        if phone.tick(now) is not Exchange.RUNNING:
            break
    assert now > 9_500 and attempts > 20
    assert result(phone, now) == (Exchange.BUSY, Sent.NONE)
    phone.send(LONG, 10_000)
    assert write(phone, 10_000) == list(split(LONG, 20)), "the connection stays"


def test_errors_within_the_pause_are_ignored(phone: CPhoneBluetooth) -> None:
    phone.send(LONG, 0)
    write(phone, 0)
    for fragment in (BUSY, BUSY, error(FragmentError.SEQUENCE), b"\x83\0\1\xc0", b""):
        phone.receive(fragment, 100)
        assert result(phone, 100) == (Exchange.RUNNING, Sent.NONE)
    assert write(phone, 700) == list(split(LONG, 20))


def test_the_pause_waits_for_the_last_write(phone: CPhoneBluetooth) -> None:
    phone.send(LONG, 0)
    write(phone, 0, 1)
    assert phone.next(0)
    phone.receive(BUSY, 0)
    assert phone.next(600) is None
    phone.written(3_000)
    assert write(phone, 3_000) == list(split(LONG, 20))


def test_a_connection_that_ends_in_the_pause_is_lost(phone: CPhoneBluetooth) -> None:
    phone.send(SHORT, 0)
    write(phone, 0)
    phone.receive(BUSY, 0)
    phone.lose()
    assert result(phone, 0) == (Exchange.LOST, Sent.NONE)


# Faults


@pytest.mark.parametrize("code", [1, 3, 4, 5, 0x7F, 0x42, 0])
def test_other_errors_end_the_connection(phone: CPhoneBluetooth, code: int) -> None:
    phone.send(SHORT, 0)
    write(phone, 0)
    phone.receive(bytes([0xBF, 0, 1, code]), 0)
    assert result(phone, 0) == (Exchange.LOST, Sent.ALL)


@pytest.mark.parametrize(("count", "sent"), [(0, Sent.NONE), (1, Sent.PART), (5, Sent.PART)])
def test_a_reply_before_the_end_of_the_message_ends_the_connection(
    phone: CPhoneBluetooth, count: int, sent: Sent
) -> None:
    phone.send(LONG, 0)
    write(phone, 0, count)
    phone.receive(b"\x83\0\1\xc0", 0)
    assert result(phone, 0) == (Exchange.LOST, sent)


def test_what_comes_without_a_message_is_ignored(phone: CPhoneBluetooth) -> None:
    for fragment in (b"\x83\0\x09\xc0", b"\0\xc0", b"\x81", BUSY):
        phone.receive(fragment, 0)
        phone.written(0)
    assert phone.tick(0) is Exchange.NONE
    phone.send(SHORT, 0)
    write(phone, 0)
    phone.receive(b"\x83\0\1\xc0", 0)
    phone.receive(b"\x83\0\1\xc1", 0)
    assert (result(phone, 100_000), phone.reply) == ((Exchange.REPLY, Sent.ALL), b"\xc0")


# Boxes


@pytest.mark.parametrize("firmware", ["Python", "C"])
def test_what_a_phone_reports_is_true_of_the_box(library: ctypes.CDLL, firmware: str) -> None:
    """Random messages, sizes, cuts, delays, losses and strangers."""
    new_box = phone_exchanges.python_box if firmware == "Python" else c_boxes()
    results = phone_exchanges.run(library, new_box, CONNECTIONS, SEED)
    assert set(results) == RESULTS, results


def c_boxes() -> Callable[[], phone_exchanges.Box]:
    built = c_box.library()
    return lambda: CBluetooth(built, CBuffer(built))


@pytest.mark.parametrize("size", [20, 182, 244, 512])
def test_the_phone_in_c_opens_the_box_over_bluetooth(library: ctypes.CDLL, size: int) -> None:
    box, transport, phone = Box(), c_boxes()(), CPhoneBluetooth(library)
    transport.connect(0, 0)
    assert phone.connect(b"\1" + size.to_bytes(2, "big"))

    def exchange(message: object) -> bytes:
        assert isinstance(message, bytes)
        phone.send(message, 0)
        for fragment in write(phone, 0):
            received = transport.write(0, fragment, 0)
        assert received == message
        transport.reply(0, box.hear(received).reply, 0, is_proven=False)
        while (notification := transport.next_fragment(0, size, 0)) is not None:
            phone.receive(notification, 0)
        assert phone.tick(0) is Exchange.REPLY
        return phone.reply

    with CPhone(library, scalar("phone-1"), public("phone-1")) as app:
        state = phone_of(box.authority)
        app.load(state, phone_comparison.answer_of(state))
        following, now = app.begin(OPEN, has_network=False), box.authority.now * 1_000
        while isinstance(following, bytes):
            following = app.call(c_phone.RECEIVE, exchange(following), now)
        assert following == Ending(ConversationEnd.DONE)
        assert len(app.state().entries) == 1


def test_an_app_may_have_a_box_as_well() -> None:
    """No function of the phone has the name of one of the box."""
    phone, box = (
        {name for source in (sources.path / "src").glob("*.c") for name in defined(sources.build / f"{source.stem}.o")}
        for sources in (PHONE, BOX)
    )
    assert len(phone) > 30 and len(box) > 60 and phone & box == set()


def defined(path: Path) -> list[str]:
    names = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    return re.findall(r" T (\w+)", names)
