"""The laws of the transports, and the generators of their vectors."""

from __future__ import annotations

import functools
import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from keyrack.offline_keys.box.state import LINKS
from keyrack.offline_keys.link_messages import LONGEST
from keyrack.offline_keys.transports import bluetooth, fragments, wire
from keyrack.offline_keys.transports.bluetooth import BoxBluetooth
from keyrack.offline_keys.transports.fragments import (
    KEEP_ALIVE,
    Command,
    FragmentError,
    FragmentRejected,
    Reassembly,
    Whole,
    split,
)
from keyrack.offline_keys.transports.message_buffer import REPLY_SHARED_MS, SHARED_MS, MessageBuffer, Phase
from keyrack.offline_keys.transports.nfc import CommandRejected, NfcCard, NfcReader, StatusWord
from tests.offline_keys.kept_bytes import kept_bytes
from tests.offline_keys.vectors import apdu_vectors, bluetooth_vectors, wire_vectors

HELLO = bytes.fromhex("83000482018102")
BUSY_MS = 10_000  # for which a phone repeats its message to a busy box, and for which a nonce lives
EVENT_MS = 15  # between connection events
WAITS = (*[0] * 8, 1, 10, 250, 500, 900, 1_000, 1_001, 2_999, 3_001, 5_000, 10_000)  # milliseconds between two calls
MESSAGES = st.binary(min_size=1, max_size=80) | st.integers(1, LONGEST).map(bluetooth_vectors.filled)
SIZES = st.integers(fragments.LEAST_SIZE, fragments.MOST_SIZE)


# The files of vectors


@pytest.mark.parametrize(
    "vectors", [bluetooth_vectors, apdu_vectors, wire_vectors], ids=lambda vectors: vectors.PATH.name
)
def test_the_generator_makes_the_file(vectors: ModuleType) -> None:
    assert vectors.PATH.read_text() == vectors.text(), f"python -m {vectors.__name__}"


def test_the_vectors_have_each_error_of_a_phone_and_of_a_box() -> None:
    file = json.loads(bluetooth_vectors.PATH.read_text())
    at_phone = {step.get("error") for vector in file["phone"] for step in vector["steps"]} - {None}
    sent = {step.get("fragment") for vector in file["box"] for step in vector["steps"] if step["call"] == "next"}
    at_box = {int(each[-2:], 16) for each in sent - {None} if each.startswith("bf0001")}
    assert at_phone == set(FragmentError) - {FragmentError.BUSY, FragmentError.OTHER}
    assert at_box == set(FragmentError) - {FragmentError.OTHER}


def test_the_vectors_have_each_status() -> None:
    file = json.loads(apdu_vectors.PATH.read_text())
    responses = [step["response"][-4:] for conversation in file["conversations"] for step in conversation["steps"]]
    seen = {int(each, 16) & (0xFF00 if each.startswith("61") else 0xFFFF) for each in responses}
    assert seen == set(StatusWord) - {StatusWord.BUSY}, "one link alone is never busy"


# Fragments


@pytest.mark.parametrize("length", [1, 16, 17, 18, 509, 510, LONGEST - 1, LONGEST])
def test_each_size_carries_a_message(length: int) -> None:
    message = bluetooth_vectors.filled(length)
    for size in range(fragments.LEAST_SIZE, fragments.MOST_SIZE + 1):
        assert _carried(message, size) == message


@given(MESSAGES, SIZES)
def test_split_and_reassembly_give_the_message(message: bytes, size: int) -> None:
    assert _carried(message, size) == message


def _carried(message: bytes, size: int) -> bytes:
    """The message after its way in fragments. No fragment before the last one completes it."""
    reassembly, parts = Reassembly(Command.MESSAGE), list(split(message, size))
    assert max(len(part) for part in parts) <= size
    wholes = [reassembly.accept(part, 0) for part in parts]
    assert wholes[:-1] == [None] * (len(parts) - 1)
    last = wholes[-1]
    assert last is not None and last.command is Command.MESSAGE and not reassembly.is_open
    return last.data


@given(MESSAGES, st.data())
def test_a_missing_repeated_or_exchanged_fragment_gives_no_other_message(message: bytes, data: st.DataObject) -> None:
    parts = list(split(message, 20))
    place = data.draw(st.integers(0, len(parts) - 1))
    fault = data.draw(st.sampled_from(["missing", "repeated", "exchanged"]))
    if fault == "missing":
        del parts[place]
    elif fault == "repeated":
        parts.insert(place, parts[place])
    else:
        parts[place - 1], parts[place] = parts[place], parts[place - 1]
    assert set(_messages(Reassembly(Command.MESSAGE), parts)) <= {message}


def _messages(reassembly: Reassembly, parts: list[bytes]) -> Iterator[bytes]:
    for part in parts:
        try:
            whole = reassembly.accept(part, 0)
        except FragmentRejected:
            continue
        if whole is not None:
            yield whole.data


HEADS = st.sampled_from(["", "83", "8300", "830001", "830004", "830800", "830801", "82000101", "bf000105", "00", "01"])
RANDOM_FRAGMENTS = st.builds(lambda head, rest: bytes.fromhex(head) + rest, HEADS, st.binary(max_size=24)) | st.binary(
    max_size=fragments.MOST_SIZE
)


@given(st.lists(st.tuples(st.sampled_from(WAITS), RANDOM_FRAGMENTS), max_size=40))
def test_a_random_stream_of_fragments_raises_the_documented_exception_alone(stream: list[tuple[int, bytes]]) -> None:
    reassembly, now = Reassembly(*Command), 0
    for wait, fragment in stream:
        now += wait
        try:
            whole = reassembly.accept(fragment, now)
        except FragmentRejected as rejected:
            assert rejected.code not in (FragmentError.BUSY, FragmentError.OTHER)
            assert not reassembly.is_open
            assert kept_bytes(reassembly) == kept_bytes(Reassembly(*Command))
            continue
        assert whole is None or 1 <= len(whole.data) <= fragments.LENGTHS[whole.command]


def test_a_receiver_keeps_no_more_than_the_longest_message() -> None:
    """The initial fragment decides, before any room is taken. The data stop at the length."""
    reassembly = Reassembly(Command.MESSAGE)
    empty = kept_bytes(reassembly)
    for part in list(split(bytes(LONGEST), 512))[:-1]:
        assert reassembly.accept(part, 0) is None
        assert empty < kept_bytes(reassembly) <= empty + LONGEST
    for too_long in (b"\x03" + bytes(511), b"\x83\x08\x01" + bytes(509)):
        with pytest.raises(FragmentRejected):
            reassembly.accept(too_long, 0)
        assert kept_bytes(reassembly) == empty


# The links of a box


@dataclass(eq=False)
class Connected:
    """A phone on a link, and how long the link may stay."""

    since: int
    earliest_end: int  # the box may end the link from then on
    latest_end: int  # the box must have ended the link by then, unless it processes its message
    has_proven: bool = False
    has_given_up: bool = False  # the reply to the message in work
    written: list[bytes] = field(default_factory=list[bytes])
    rest: list[bytes] = field(default_factory=list[bytes])  # fragments of the message that it sends

    @property
    def longest(self) -> int:
        """The most milliseconds of this link."""
        return bluetooth.LONGEST_MS if self.has_proven else bluetooth.UNPROVEN_MS

    def sent(self) -> bytes:
        """The data since the last initial fragment."""
        first = max(place for place, each in enumerate(self.written) if each[:1] >= b"\x80")
        return self.written[first][3:] + b"".join(each[1:] for each in self.written[first + 1 :])


@dataclass
class Reply:
    to: Connected
    message: bytes
    since: int
    received: Reassembly = field(default_factory=lambda: Reassembly(*Command))


class Radio:
    """Calls of a firmware, each of which checks the laws of docs/key-bluetooth.md."""

    def __init__(self) -> None:
        self.buffer = MessageBuffer()
        self.box = BoxBluetooth(self.buffer)
        self.now = 0
        self.phones: dict[int, Connected] = {}
        self.in_work: tuple[int, Connected] | None = None
        self.reply_on_its_way: Reply | None = None

    def connect(self, link: int) -> None:
        self.disconnect(link)
        self.box.connect(link, self.now)
        first = self.now + bluetooth.FIRST_MESSAGE_MS
        self.phones[link] = Connected(self.now, first, first)
        assert self.box.has_room is (len(self.phones) < LINKS)

    def disconnect(self, link: int) -> None:
        self.box.disconnect(link)
        gone = self.phones.pop(link, None)
        if self.reply_on_its_way and self.reply_on_its_way.to is gone:
            self.reply_on_its_way = None

    def begin(self, link: int, message: bytes, size: int) -> None:
        if phone := self.phones.get(link):
            first, *phone.rest = split(message, size)
            self.write(link, first)

    def go_on(self, link: int, most: int) -> None:
        """Send the next fragments of the message that this link sends."""
        phone = self.phones.get(link)
        for _ in range(most if phone else 0):
            if phone and phone.rest:
                self.write(link, phone.rest.pop(0))

    def write(self, link: int, fragment: bytes) -> bytes | None:
        message, phone = self.box.write(link, fragment, self.now), self.phones.get(link)
        if phone is None:
            assert message is None
            return None
        phone.written.append(fragment)
        if self.in_work and self.in_work[1] is phone:
            phone.has_given_up = True
        if self.reply_on_its_way and self.reply_on_its_way.to is phone:
            self.reply_on_its_way = None
        if self.reply_on_its_way and self.buffer.phase is not Phase.SENDING:  # another link has taken the buffer
            assert self.now - self.reply_on_its_way.since > REPLY_SHARED_MS
            self.reply_on_its_way = None
        if message is None:  # perhaps busy
            phone.latest_end = max(phone.latest_end, self.now + bluetooth.FIRST_MESSAGE_MS)
            return None
        assert self.in_work is None and self.reply_on_its_way is None, "one message is in work"
        assert message == phone.sent() and 1 <= len(message) <= LONGEST
        self.in_work, phone.has_given_up = (link, phone), False
        return message

    def answer(self, message: bytes, *, is_proven: bool) -> None:
        if self.in_work is None:
            return
        (link, phone), self.in_work = self.in_work, None
        self.box.reply(link, message, self.now, is_proven=is_proven)
        if self.phones.get(link) is phone and not phone.has_given_up:
            phone.has_proven = phone.has_proven or is_proven
            idle = bluetooth.PROVEN_IDLE_MS if phone.has_proven else bluetooth.IDLE_MS
            phone.earliest_end = phone.latest_end = self.now + idle
            self.reply_on_its_way = Reply(phone, message, self.now)

    def next(self, link: int, size: int) -> bytes | None:
        fragment, phone, reply = self.box.next_fragment(link, size, self.now), self.phones.get(link), None
        if self.reply_on_its_way and self.reply_on_its_way.to is phone:
            reply = self.reply_on_its_way
            assert fragment is not None, "the reply waits for the phone alone"
        if fragment is None:
            return None
        assert phone is not None and len(fragment) <= size
        if fragment == KEEP_ALIVE:
            assert self.in_work == (link, phone) and not phone.has_given_up
        elif fragment[0] == Command.ERROR:
            assert FragmentError(fragment[3]) is not FragmentError.OTHER and len(fragment) == 4
        else:
            assert reply is not None, "no other link gets the reply"
            whole = reply.received.accept(fragment, 0)
            if whole is not None:
                assert whole == Whole(Command.MESSAGE, reply.message)
                self.reply_on_its_way = None
        return fragment

    def tick(self) -> None:
        """Obey the box, which ends links."""
        for link in self.box.tick(self.now):
            self._check_may_end(link, self.phones[link])
            self.disconnect(link)
        for link, phone in self.phones.items():
            if self.in_work != (link, phone) or phone.has_given_up:
                assert self.now < phone.latest_end
                assert self.now < phone.since + phone.longest
        if self.reply_on_its_way:
            assert self.now < self.reply_on_its_way.since + bluetooth.REPLY_MS

    def _check_may_end(self, link: int, phone: Connected) -> None:
        assert self.in_work != (link, phone) or phone.has_given_up, "the box never ends a link while it processes"
        reply = self.reply_on_its_way
        is_stuck = reply and reply.to is phone and self.now >= reply.since + bluetooth.REPLY_MS
        assert is_stuck or self.now >= min(phone.since + phone.longest, phone.earliest_end)


Call = Callable[[Radio], object]
LINK = st.integers(0, LINKS - 1)
CALLS: st.SearchStrategy[Call] = st.one_of(
    st.builds(lambda link: lambda radio: radio.connect(link), LINK),
    st.builds(lambda link: lambda radio: radio.disconnect(link), LINK),
    st.builds(lambda *begun: lambda radio: radio.begin(*begun), LINK, MESSAGES, st.sampled_from([20, 182, 244])),
    st.builds(lambda link, most: lambda radio: radio.go_on(link, most), LINK, st.sampled_from([1, 1, 2, 200])),
    st.builds(lambda link, part: lambda radio: radio.write(link, part), LINK, RANDOM_FRAGMENTS),
    st.builds(lambda link: lambda radio: radio.write(link, HELLO), LINK),
    st.builds(lambda message, proven: lambda radio: radio.answer(message, is_proven=proven), MESSAGES, st.booleans()),
    st.builds(lambda link, size: lambda radio: radio.next(link, size), LINK, SIZES),
    st.just(Radio.tick),
)
HISTORIES = st.lists(st.tuples(st.sampled_from(WAITS), CALLS), max_size=60)


def _lived(history: list[tuple[int, Call]]) -> Radio:
    radio = Radio()
    for link in range(LINKS):
        radio.connect(link)
    for wait, call in history:
        radio.now += wait
        call(radio)
    return radio


@hypothesis_settings(max_examples=400)
@given(HISTORIES)
def test_any_calls_leave_the_links_consistent(history: list[tuple[int, Call]]) -> None:
    """One message is in work at most.

    A reply reaches its link alone, and no link stays longer than it may.
    """
    radio = _lived(history)
    radio.tick()
    for link in range(LINKS):
        radio.disconnect(link)
    radio.answer(b"\xc0", is_proven=False)
    assert radio.buffer.phase is Phase.FREE
    radio.connect(0)
    assert radio.write(0, HELLO) == HELLO[3:]


@hypothesis_settings(max_examples=200)
@given(HISTORIES, LINK, st.integers(200, 500))
def test_a_busy_link_gets_its_turn(history: list[tuple[int, Call]], link: int, pause: int) -> None:
    """The box hears a phone that repeats its message, after any history.

    The other links begin nothing more.
    """
    radio = _lived(history)
    radio.connect(link)
    begin = radio.now
    while radio.write(link, HELLO) is None:
        radio.next(link, 20)
        radio.now += pause
        assert radio.now - begin <= bluetooth.REPLY_MS + 2 * pause
        radio.answer(b"\xc0", is_proven=False)
        radio.tick()
        assert link in radio.phones, "a link that waits stays"


@given(st.integers(1, fragments.GAP_MS), st.integers(200, 500))
def test_a_slow_sender_delays_others_for_three_seconds(gap: int, pause: int) -> None:
    radio = Radio()
    radio.connect(0)
    radio.connect(1)
    radio.begin(0, bytes(LONGEST), 20)
    tries = range(0, SHARED_MS + pause + 1, pause)
    slow = range(gap, SHARED_MS + pause, max(gap, 100))
    heard: list[int] = []
    for at in sorted({*tries, *slow}):
        radio.now = at
        if at in slow:
            radio.go_on(0, 1)
        if at in tries and not heard and radio.write(1, HELLO):
            heard.append(at)
    assert heard and SHARED_MS < heard[0] <= SHARED_MS + pause


class Stranger:
    """An attacker on a link, who acts at each connection event."""

    def __init__(self, box: BoxBluetooth, link: int, habit: str) -> None:
        self._box, self._link, self._habit = box, link, habit
        self._began: int | None = None  # when it has begun its message

    def act(self, now: int) -> None:
        if now % 30_000 == 0:
            self._box.connect(self._link, now)  # again and again: the box ends the link
        if self._habit == "slow messages":
            self._send_slowly(now)
        elif self._habit == "wrong fragments":
            self._send_slowly(now)
            if self._began is not None and now - self._began > 900:
                self._write(b"", now)
                self._began = None
                self._send_slowly(now)
        elif self._write(HELLO, now) is not None:
            self._box.reply(self._link, bytes(92), now, is_proven=False)
            if self._habit == "hello":
                self._take(now)

    def _send_slowly(self, now: int) -> None:
        if self._began is None:
            self._write(b"\x83\x08\x00", now)
            self._began = now
            self._sequence = 0
        elif (now - self._began) % 900 == 0:
            self._write(bytes([self._sequence, 0]), now)
            self._sequence += 1
        if self._take(now):
            self._began = None

    def _write(self, fragment: bytes, now: int) -> bytes | None:
        return self._box.write(self._link, fragment, now)

    def _take(self, now: int) -> bool:
        """Take what the box sends. Whether it reports an error."""
        sent = list(iter(lambda: self._box.next_fragment(self._link, 244, now), None))
        return any(each[0] == Command.ERROR for each in sent)


HABITS = ["slow messages", "wrong fragments", "hello", "replies that it does not take"]


@pytest.mark.parametrize("second", HABITS)
@pytest.mark.parametrize("first", HABITS)
def test_strangers_on_two_links_shut_out_no_third_one(first: str, second: str) -> None:
    """They act at each connection event. The driver is a phone of the specification, with four messages."""
    box = BoxBluetooth(MessageBuffer())
    strangers = [Stranger(box, 0, first), Stranger(box, 1, second)]
    now, pauses = 0, Random(1)
    for _ in range(4):
        box.connect(2, now)
        for _ in range(4):
            asked_at = next_at = now
            while now < next_at or box.write(2, HELLO, now) is None:
                if now == next_at:
                    list(iter(lambda at=now: box.next_fragment(2, 20, at), None))
                    next_at += EVENT_MS * pauses.randint(14, 33)  # 210 to 495 ms
                assert now - asked_at < BUSY_MS
                now += EVENT_MS
                for stranger in strangers:
                    stranger.act(now)
                for link in box.tick(now):
                    box.connect(link, now)
            box.reply(2, bytes(92), now, is_proven=False)
            list(iter(lambda at=now: box.next_fragment(2, 20, at), None))


def test_three_drivers_who_stay_shut_out_no_phone() -> None:
    """They prove their keys, and say hello again and again. The box advertises again after 300 s."""
    box, now = BoxBluetooth(MessageBuffer()), 0
    for link in range(LINKS):
        box.connect(link, now)
    assert not box.has_room
    while not (ended := box.tick(now)):
        for link in range(LINKS):
            assert box.write(link, HELLO, now) == HELLO[3:]
            box.reply(link, bytes(92), now, is_proven=True)
            assert box.next_fragment(link, 244, now)
        now += 10_000
    assert (now, ended) == (bluetooth.LONGEST_MS, [*range(LINKS)])


# NFC

SELECT = bytes.fromhex(apdu_vectors.SELECT)
APDUS = [
    SELECT, SELECT, bytes.fromhex(apdu_vectors.SELECT_NDEF), bytes.fromhex(apdu_vectors.HELLO),
    *(bytes.fromhex(each) for each in apdu_vectors.chain(bytes(600))), bytes.fromhex("00c0000000"),
    bytes.fromhex("00c0000005"), bytes.fromhex("00a4000c02e103"), bytes.fromhex("00a4000c02e104"),
    bytes.fromhex("00b0000000"), bytes.fromhex("9010000000"),
]  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A command with a changed byte, cut off, or extended."""
    apdu = bytearray(draw(st.sampled_from(APDUS)))
    change = draw(st.integers(0, 3))
    place = draw(st.integers(0, min(len(apdu) - 1, 8)))
    if change == 0:
        apdu[place] = draw(st.integers(0, 255))
    elif change == 1:
        del apdu[place:]
    elif change == 2:
        apdu += draw(st.binary(min_size=1, max_size=3))
    return bytes(apdu)


COMMANDS = st.sampled_from(APDUS) | mutated() | st.binary(max_size=300)


def _has_documented_status(response: bytes) -> bool:
    status = int.from_bytes(response[-2:], "big")
    if status & 0xFF00 == StatusWord.MORE:
        return status != StatusWord.MORE
    return status in set(StatusWord)


@hypothesis_settings(max_examples=400)
@given(st.lists(st.tuples(COMMANDS, st.integers(1, LONGEST)), max_size=40))
def test_a_card_answers_any_commands_with_a_documented_status(conversation: list[tuple[bytes, int]]) -> None:
    buffer, links = MessageBuffer(), [0]
    card = NfcCard(buffer, links[-1], apdu_vectors.URL)
    empty = kept_bytes(card)
    for command, length in conversation:
        response = card.receive(command, 0)
        if not response:
            assert 1 <= len(card.message) <= LONGEST
            response = card.reply(bytes(length))
        if card.is_restarted:
            assert buffer.phase is Phase.FREE
            links.append(len(links) % LINKS)
            card.begin(links[-1])
        assert _has_documented_status(response) and len(response) <= 258
        has_no_data = len(response) == 2
        assert has_no_data or response[-2:-1] in (b"\x90", b"\x61"), "an error comes alone"
        assert kept_bytes(card) <= empty + LONGEST
    card.leave()
    assert buffer.phase is Phase.FREE and kept_bytes(card) == empty
    assert _status(card.receive(bytes.fromhex(apdu_vectors.HELLO), 0)) is StatusWord.CONDITIONS


def _status(response: bytes) -> StatusWord:
    return StatusWord(int.from_bytes(response[-2:], "big"))


def _card(buffer: MessageBuffer | None = None, link: int = 0) -> NfcCard:
    card = NfcCard(buffer or MessageBuffer(), link)
    assert _status(card.receive(SELECT, 0)) is StatusWord.OK
    return card


def _send(card: NfcCard, message: bytes) -> list[bytes]:
    return [card.receive(bytes.fromhex(each), 0) for each in apdu_vectors.chain(message)]


def test_a_card_accepts_a_second_select() -> None:
    """Systems send the first one by themselves. The second one begins a new link."""
    card = _card()
    assert card.is_restarted
    assert card.receive(SELECT, 0) == bytes.fromhex("01 0800 9000") and card.is_restarted
    assert _send(card, HELLO) == [b""] and card.message == HELLO and not card.is_restarted


@pytest.mark.parametrize("between", ["00c0000000", "0010000001c0", "00b0000000", "a010000000", "9010000100", "90"])
def test_another_command_breaks_a_chain(between: str) -> None:
    card = _card()
    assert _status(card.receive(bytes.fromhex("9010000001c0"), 0)) is StatusWord.OK
    assert _status(card.receive(bytes.fromhex(between), 0)) is not StatusWord.OK
    assert _send(card, HELLO) == [b""] and card.message == HELLO, "nothing of the first part is left"


def test_a_card_says_how_much_of_a_reply_is_left() -> None:
    card, reply = _card(), bluetooth_vectors.filled(LONGEST)
    _send(card, HELLO)
    response = card.reply(reply)
    received, responses = response[:-2], [response]
    while response[-2:-1] == b"\x61":
        left = LONGEST - len(received)
        assert response[-1] == min(left, 255)
        response = card.receive(b"\x00\xc0\x00\x00" + response[-1:], 0)
        received += response[:-2]
        responses.append(response)
    assert received == reply and [len(each) - 2 for each in responses] == [256, *[255] * 7, 7]
    assert _status(card.receive(bytes.fromhex("00c0000000"), 0)) is StatusWord.INSTRUCTION


def test_a_card_rejects_a_message_of_2049_bytes_at_its_last_byte() -> None:
    card = _card()
    empty = kept_bytes(card)
    responses = _send(card, bytes(LONGEST + 1))
    assert [_status(each) for each in responses] == [StatusWord.OK] * (len(responses) - 1) + [StatusWord.LENGTH]
    assert kept_bytes(card) == empty
    assert _send(card, HELLO) == [b""]


def test_nfc_and_bluetooth_share_one_buffer() -> None:
    buffer = MessageBuffer()
    box, card = BoxBluetooth(buffer), _card(buffer, link=1)
    box.connect(0, 0)
    assert box.write(0, b"\x83\x00\x02\xc0", 0) is None
    assert _status(_send(card, HELLO)[0]) is StatusWord.BUSY
    assert box.write(0, b"\x00\xc1", 0) == b"\xc0\xc1"
    assert _status(_send(card, HELLO)[0]) is StatusWord.BUSY
    box.reply(0, b"\xc0", 0, is_proven=False)
    assert box.next_fragment(0, 20, 0) == b"\x83\x00\x01\xc0"
    assert _send(card, HELLO) == [b""]
    assert box.write(0, HELLO, 0) is None
    assert box.next_fragment(0, 20, 0) == fragments.error(FragmentError.BUSY)
    assert card.reply(b"\xc0") == b"\xc0\x90\x00"
    assert box.write(0, HELLO, 0) == HELLO[3:]


def test_a_slow_chain_loses_the_buffer_to_a_link_over_bluetooth() -> None:
    buffer = MessageBuffer()
    box, card = BoxBluetooth(buffer), _card(buffer, link=1)
    box.connect(0, 0)
    assert _status(card.receive(bytes.fromhex("9010000001c0"), 0)) is StatusWord.OK
    assert box.write(0, HELLO, SHARED_MS) is None
    assert box.write(0, HELLO, SHARED_MS + 1) == HELLO[3:]
    assert _status(card.receive(bytes.fromhex("8010000001c1"), SHARED_MS + 2)) is StatusWord.BUSY


def test_an_empty_message_over_nfc_takes_the_buffer_from_nobody() -> None:
    buffer = MessageBuffer()
    box, card = BoxBluetooth(buffer), _card(buffer, link=1)
    box.connect(0, 0)
    for at in range(0, SHARED_MS + 1, 1_000):
        assert box.write(0, bytes([0x83, 0, 5, 0xC0]) if at == 0 else bytes([at // 1_000 - 1, 0xC0]), at) is None
    assert _status(card.receive(bytes.fromhex("8010000000"), SHARED_MS + 1)) is StatusWord.LENGTH
    assert box.write(0, b"\x03\xc0", SHARED_MS + 2) == b"\xc0" * 5


def _transceive(card: NfcCard, reply: bytes, seen: list[bytes], apdu: bytes) -> bytes:
    response = card.receive(apdu, 0)
    if response:
        return response
    seen.append(card.message)
    return card.reply(reply)


@given(MESSAGES, MESSAGES)
def test_a_reader_and_a_card_carry_any_message(message: bytes, reply: bytes) -> None:
    seen: list[bytes] = []
    reader = NfcReader(functools.partial(_transceive, NfcCard(MessageBuffer(), 0), reply, seen))
    reader.select()
    assert [reader.exchange(message), reader.exchange(message)] == [reply, reply]
    assert seen == [message, message]


RESPONSES = st.binary(max_size=258) | st.builds(
    lambda data, status: data + status,
    st.binary(max_size=256),
    st.sampled_from([b"\x90\x00", b"\x61\x01", b"\x61\xff", b"\x6d\x00"]),
)


@given(st.lists(RESPONSES, min_size=1, max_size=20))
def test_a_reader_survives_any_responses(responses: list[bytes]) -> None:
    """A card may be another device. The reader raises the documented exceptions alone."""
    iterator = iter(responses)
    reader = NfcReader(lambda _: next(iterator, b"\x6d\x00"))
    try:
        reader.select()
        assert len(reader.exchange(HELLO)) <= LONGEST
    except (CommandRejected, ValueError):
        pass


@pytest.mark.parametrize("response", ["61ff", "c061ff", "c0" * 256 + "61ff"])
def test_a_reader_ends_an_endless_reply(response: str) -> None:
    sent: list[bytes] = []

    def transceive(apdu: bytes) -> bytes:
        sent.append(apdu)
        assert len(sent) <= LONGEST + 1, "a reader without an end"
        return bytes.fromhex(response)

    with pytest.raises(ValueError, match="reply"):
        NfcReader(transceive).exchange(HELLO)


# The wire


@given(st.binary(max_size=1_100) | st.integers(0, LONGEST + 4).map(lambda length: b"\x01" * length))
def test_cobs_has_no_zero_and_is_undone(data: bytes) -> None:
    stuffed = wire.cobs(data)
    assert 0 not in stuffed
    assert len(data) + 1 <= len(stuffed) + (len(data) > 0 and len(data) % 254 == 0) <= len(data) + 2 + len(data) // 254
    assert wire.uncobs(stuffed) == data


@given(st.binary(max_size=600))
def test_uncobs_raises_the_documented_exception_alone(data: bytes) -> None:
    try:
        assert len(wire.uncobs(data)) < len(data) + 1
    except ValueError:
        assert data


def test_the_checksum_is_that_of_the_specification() -> None:
    assert wire.uncobs(wire.frame(b"123456789")[:-1]) == b"123456789" + bytes.fromhex("CBF43926")
    longest = wire.frame(b"\xff" * LONGEST)
    assert longest[-1:] == wire.DELIMITER and len(longest) <= wire.LONGEST_FRAME + 1 == 2_062


@given(st.lists(MESSAGES, max_size=4), st.binary(max_size=40), st.data())
def test_a_deframer_finds_the_messages_after_noise_and_in_any_pieces(
    messages: list[bytes], noise: bytes, data: st.DataObject
) -> None:
    stream = wire.NEW_LINK + b"".join(wire.frame(message) for message in messages)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    deframer = wire.Deframer()
    assert [each for each in deframer.feed(noise) if each] == []
    received = [deframer.feed(stream[begin:end]) for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    found = [message for part in received for message in part]
    new_link = found.index(b"")
    assert found[new_link:] in ([b"", *messages], [b"", b"", *messages]) and new_link == 0


@given(MESSAGES, st.data())
def test_a_damaged_frame_is_dropped_and_the_next_one_is_found(message: bytes, data: st.DataObject) -> None:
    frame = bytearray(wire.frame(message))
    place = data.draw(st.integers(0, len(frame) - 2))
    if data.draw(st.booleans()):
        frame[place] ^= data.draw(st.integers(1, 255))
    else:
        del frame[place]
    deframer = wire.Deframer()
    assert [each for each in deframer.feed(bytes(frame)) if each] == []
    assert deframer.feed(wire.frame(HELLO)) == [HELLO]


@given(MESSAGES, st.data())
def test_a_cut_frame_is_dropped_at_the_beginning_of_a_link(message: bytes, data: st.DataObject) -> None:
    frame = wire.frame(message)
    deframer = wire.Deframer()
    assert deframer.feed(frame[: data.draw(st.integers(1, len(frame) - 2))]) == []
    assert deframer.feed(wire.NEW_LINK + wire.frame(HELLO)) == [b"", HELLO]


def test_an_endless_frame_takes_no_memory() -> None:
    deframer = wire.Deframer()
    empty = kept_bytes(deframer)
    for length in (1, 7, 2_047, 4, 2, 1, 1, 5_000, 100_000):
        assert deframer.feed(b"\x01" * length) == []
        assert kept_bytes(deframer) <= empty + wire.LONGEST_FRAME
    assert kept_bytes(deframer) == empty
    assert deframer.feed(wire.DELIMITER + wire.frame(HELLO)) == [HELLO]


@pytest.mark.parametrize("length", [0, LONGEST + 1, LONGEST + 2])
def test_a_frame_of_another_length_is_dropped(length: int) -> None:
    message = bytes(length)
    frame = wire.cobs(message + zlib.crc32(message).to_bytes(4, "big")) + wire.DELIMITER
    assert wire.Deframer().feed(frame) == []
    assert wire.Deframer().feed(wire.frame(bytes(LONGEST))) == [bytes(LONGEST)]
