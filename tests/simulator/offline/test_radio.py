"""The simulated radio and its faults.

Boxes are those in Python and, if there is a compiler, in C.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from keyrack.offline_keys import link_messages
from keyrack.offline_keys.link_messages import LONGEST, AcceptedMessage, Challenge, Provision, Result
from keyrack.offline_keys.transports.fragments import FragmentError, error, split
from keyrack.simulator.offline.box import VirtualBox
from keyrack.simulator.offline.radio import (
    BUSY_MS,
    PERFECT,
    REPLY_MS,
    Fate,
    Fault,
    Radio,
    RadioConditions,
    Sent,
    TransportLost,
)
from tests.simulator.c_virtual_box import CVirtualBox, built

AT = 1_800_000_000
PLACES = [number / 64 for number in range(64)]

MakeBox = Callable[[], VirtualBox]


@pytest.fixture(params=["python", "c"])
def make(request: pytest.FixtureRequest) -> MakeBox:
    """Makes boxes that were just reset."""
    if request.param == "c":
        built()  # or the test is skipped
        return lambda: CVirtualBox(1, 0.0, Random(1), AT)
    return box


def box() -> VirtualBox:
    return VirtualBox(1, 0.0, Random(1), AT)


def with_fate(fate: Fate, *, att_mtu: int = 23, longest_delay: int = 2_000) -> Radio:
    """A radio with this fate of each message."""
    radio = Radio(RadioConditions((att_mtu,), longest_delay=longest_delay), Random(1))
    radio.fate = lambda: fate
    return radio


def provision(length: int) -> bytes:
    """A message of this length that a box reads and refuses."""
    return link_messages.write(Provision(b"\x01" * (length - 11), b"", b""))


@pytest.mark.parametrize("att_mtu", [23, 185, 247, 515])
def test_messages_of_all_lengths_arrive(att_mtu: int, make: MakeBox) -> None:
    radio, own = Radio(RadioConditions((att_mtu,)), Random(1)), make()
    for length in (40, 300, 1_000, LONGEST - 8):
        reply = own.say(provision(length), AT, radio=radio)
        assert link_messages.read(reply, AcceptedMessage) == AcceptedMessage(1)
    assert link_messages.read(own.hello(AT, radio=radio), Challenge).name == ""


def test_replies_are_those_of_a_wire() -> None:
    by_radio, by_wire = box(), box()
    by_wire._key, by_wire._state = by_radio._key, by_radio._state
    for number in range(20):
        replies = [by_radio.hello(AT + number, radio=Radio(PERFECT, Random(1))), by_wire.hello(AT + number)]
        assert replies[0] == replies[1]


@pytest.mark.parametrize("fault", [Fault.LOSS, Fault.DISCONNECT])
@pytest.mark.parametrize("place", PLACES)
def test_a_fault_loses_the_message_or_its_reply(fault: Fault, place: float, make: MakeBox) -> None:
    own = make()
    with pytest.raises(TransportLost) as lost:
        own.hello(AT, radio=with_fate(Fate(fault, place)))
    assert lost.value.has_arrived is (own.last is not None) is (place >= 0.5)
    assert lost.value.sent in ((Sent.ALL,) if place >= 0.5 else (Sent.NONE, Sent.PART, Sent.ALL))
    assert own.hello(AT, radio=Radio(PERFECT, Random(1))), "a new link"


@pytest.mark.parametrize("place", PLACES[::4])
def test_a_long_message_with_a_lost_fragment_is_no_message(place: float) -> None:
    own = box()
    own.hello(AT)
    last = own.last
    with pytest.raises(TransportLost) as lost:
        own.say(provision(700), AT, radio=with_fate(Fate(Fault.LOSS, place)))
    assert lost.value.has_arrived is (own.last is not last) is (place >= 0.5)


def test_the_link_may_end_after_each_fragment(make: MakeBox) -> None:
    """The box has the message only after its last fragment. The next link works."""
    message = provision(700)
    count = len(list(split(message, 20)))
    for number in range(count):
        own = make()
        own.hello(AT)
        last = own.last
        with pytest.raises(TransportLost) as lost:
            own.say(message, AT, radio=with_fate(Fate(Fault.DISCONNECT, (number + 0.5) / count / 2)))
        assert (lost.value.sent, lost.value.has_arrived) == (Sent.PART if number else Sent.NONE, False)
        assert own.last is last
        assert own.hello(AT, radio=Radio(PERFECT, Random(1)))
    own = make()
    with pytest.raises(TransportLost) as lost:
        own.say(message, AT, radio=with_fate(Fate(Fault.DISCONNECT, 0.5)))
    assert (lost.value.sent, lost.value.has_arrived) == (Sent.ALL, True)


@pytest.mark.parametrize(("delay", "is_lost"), [(900, False), (1_100, True)])
@pytest.mark.parametrize("place", [0.25, 0.75])
def test_a_fragment_may_be_late(place: float, delay: int, is_lost: bool, make: MakeBox) -> None:
    """Both sides drop a message with a gap above 1,000 ms."""
    own, radio = make(), with_fate(Fate(Fault.DELAY, place), longest_delay=delay)
    message = provision(700) if place < 0.5 else link_messages.write(link_messages.hello())
    if is_lost:
        with pytest.raises(TransportLost) as lost:
            own.say(message, AT, radio=radio)
        assert lost.value.has_arrived is (place > 0.5)
        assert radio.now(AT) - AT * 1_000 > delay + REPLY_MS
    else:
        assert own.say(message, AT, radio=radio)
        assert radio.now(AT) - AT * 1_000 > delay


@pytest.mark.parametrize("place", [0.0, 0.5])
def test_the_first_fragment_may_be_as_late_as_it_likes(place: float, make: MakeBox) -> None:
    assert make().hello(AT, radio=with_fate(Fate(Fault.DELAY, place), longest_delay=4_900))


@pytest.mark.parametrize(("duration", "least", "most"), [(0.1, 400, 1_000), (0.5, 2_000, 2_600), (1.0, 3_000, 3_600)])
def test_a_busy_box_answers_later(duration: float, least: int, most: int, make: MakeBox) -> None:
    """The other phone leaves, or loses the buffer after 3,000 ms."""
    own, radio = make(), with_fate(Fate(Fault.BUSY, duration=duration), att_mtu=247)
    assert own.hello(AT, radio=radio)
    assert least < radio.now(AT) - AT * 1_000 < most
    assert own.hello(AT, radio=Radio(PERFECT, Random(1))), "the same link, which is still up"


def test_a_box_without_room_is_not_busy(make: MakeBox) -> None:
    own, radio = make(), with_fate(Fate(Fault.BUSY), att_mtu=247)
    assert own.hello(AT, radio=Radio(PERFECT, Random(1)))
    assert [own.join(AT, AT * 1_000) is None for _ in range(3)] == [False, False, True]
    assert own.hello(AT, radio=radio)
    assert radio.now(AT) - AT * 1_000 < 100


class BusyBox:
    """A box that stays busy."""

    def __init__(self) -> None:
        self.ended: list[int] = []

    def join(self, at: int, now: int) -> int | None:
        return None

    def write(self, link: int, fragment: bytes, at: int, now: int) -> bool:
        return False

    def notify(self, link: int, size: int, now: int) -> bytes | None:
        return error(FragmentError.BUSY)

    def disconnect(self, link: int) -> None:
        self.ended.append(link)


def test_a_phone_gives_up_at_a_box_that_stays_busy() -> None:
    own, radio = BusyBox(), Radio(PERFECT, Random(1))
    with pytest.raises(TransportLost) as lost:
        radio.exchange(own, 2, provision(700), AT)
    assert (lost.value.sent, lost.value.has_arrived, own.ended) == (Sent.PART, False, [2])
    assert BUSY_MS <= radio.now(AT) - AT * 1_000 - REPLY_MS < BUSY_MS + 600


@pytest.mark.parametrize(
    "conditions",
    [{"losses": -0.1}, {"losses": 0.5, "busy": 0.5}, {"delays": 1.0}, {"longest_delay": 5_000}, {"longest_delay": -1}],
)
def test_impossible_conditions_are_rejected(conditions: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must be|may be"):
        RadioConditions(**conditions)


def test_the_nonce_dies_with_the_connection() -> None:
    own, radio = box(), Radio(PERFECT, Random(1))
    own.hello(AT, radio=radio)
    with pytest.raises(TransportLost):
        own.hello(AT, radio=with_fate(Fate(Fault.DISCONNECT, 0.0)))
    assert [link.nonce for link in own._state.running.links] == [b"", b"", b""]


def test_a_silent_connection_ends() -> None:
    own, radio = box(), Radio(PERFECT, Random(1))
    own.hello(AT, radio=radio)
    own.hello(AT + 14, radio=radio)
    with pytest.raises(TransportLost) as lost:
        own.hello(AT + 30, radio=radio)
    assert (lost.value.sent, lost.value.has_arrived) == (Sent.NONE, False)
    assert own.hello(AT + 30, radio=radio)


def test_faults_have_their_share_and_repeat_with_the_seed() -> None:
    conditions = RadioConditions((23, 247), losses=0.1, disconnects=0.2, busy=0.1)

    def outcomes(seed: int) -> list[str]:
        own, radio = box(), Radio(conditions, Random(seed))
        return [_outcome(lambda: own.hello(AT, radio=radio)) for _ in range(1_000)]

    first = outcomes(3)
    assert first == outcomes(3) != outcomes(4)
    assert 220 < sum(outcome != "reply" for outcome in first) < 380


def _outcome(call: Callable[[], bytes]) -> str:
    try:
        call()
    except TransportLost as lost:
        return f"{lost.sent} {lost.has_arrived}"
    return "reply"


def test_a_round_trip_takes_simulated_time() -> None:
    """2,040 bytes are 108 fragments, and the reply is one more."""
    radio = Radio(RadioConditions((23,), round_trip=30), Random(1))
    box().say(provision(LONGEST - 8), AT, radio=radio)
    assert radio.now(AT) - AT * 1_000 == 108 * 30 + 15


def test_an_unknown_message_has_a_reply() -> None:
    reply = box().say(b"\x81\x18\x63", AT, radio=Radio(PERFECT, Random(1)))
    assert link_messages.read(reply, Result).code.text == "unknown"
