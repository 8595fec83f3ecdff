"""The simulated radio: fragments, lost ones, and connections that end."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from keyrack.offline_keys import link_messages
from keyrack.offline_keys.link_messages import LONGEST, AcceptedMessage, Challenge, Provision, Result
from keyrack.simulator.offline.box import VirtualBox
from keyrack.simulator.offline.radio import PERFECT, Fate, Fault, Radio, RadioConditions, Sent, TransportLost

AT = 1_800_000_000
PLACES = [number / 64 for number in range(64)]


def box() -> VirtualBox:
    return VirtualBox(1, 0.0, Random(1), AT)


def with_fate(fate: Fate, *, att_mtu: int = 23) -> Radio:
    """A radio with this fate of each message."""
    radio = Radio(RadioConditions((att_mtu,)), Random(1))
    radio._fate = lambda: fate
    return radio


def provision(length: int) -> bytes:
    """A message of this length that a box reads and refuses."""
    return link_messages.write(Provision(b"\x01" * (length - 11), b"", b""))


@pytest.mark.parametrize("att_mtu", [23, 185, 247, 515])
def test_messages_of_all_lengths_arrive(att_mtu: int) -> None:
    radio, own = Radio(RadioConditions((att_mtu,)), Random(1)), box()
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
def test_a_fault_loses_the_message_or_its_reply(fault: Fault, place: float) -> None:
    own = box()
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
    conditions = RadioConditions((23, 247), losses=0.1, disconnects=0.2)

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
