"""The transports in C: vectors, and comparison with Python."""

from __future__ import annotations

import ctypes
import json
import subprocess
import zlib
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from keyrack.offline_keys.box import clock
from keyrack.offline_keys.box.state import LINKS
from keyrack.offline_keys.link_messages import LONGEST
from keyrack.offline_keys.transports import advertisements, bluetooth, wire
from keyrack.offline_keys.transports.fragments import MOST_SIZE, Command, Reassembly, split
from keyrack.offline_keys.transports.message_buffer import Phase
from keyrack.offline_keys.transports.nfc import NfcReader
from tests.offline_keys import c_box, fuzz_boxes, fuzz_transports
from tests.offline_keys.c_box import CBox
from tests.offline_keys.c_sources import BOX
from tests.offline_keys.c_transports import (
    CBluetooth,
    CBuffer,
    CNfcCard,
    CReassembly,
    CWire,
    WireEvent,
    split_by_phone,
)
from tests.offline_keys.transports_comparison import URL, Rivals
from tests.offline_keys.vectors import apdu_vectors, bluetooth_vectors, wire_vectors
from tests.offline_keys.vectors.state_json import load

Json = dict[str, Any]
BLE: Json = json.loads(bluetooth_vectors.PATH.read_text())
APDU: Json = json.loads(apdu_vectors.PATH.read_text())
WIRE: Json = json.loads(wire_vectors.PATH.read_text())
HELLO = bytes.fromhex(bluetooth_vectors.HELLO)
SELECT = bytes.fromhex(apdu_vectors.SELECT)
SEED = 20261128
HOSTS, STEPS = 10, 1_000
FUZZ_INPUTS = 5_000
REACHED = {  # by random calls
    "bluetooth message", "fragment 83 ", "fragment 00 ", "fragment bf 4", "fragment bf 5", "fragment bf 6",
    "nfc message", "reply 61", "reply 90", "get response", "status 6700", "status 6985", "status 6a82", "status 6a84",
    "status 6d00", "status 9000", "wire MESSAGE", "wire NEW_LINK", "wire reply", "ended",
}  # fmt: skip


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    return c_box.library()


@pytest.fixture
def buffer(library: ctypes.CDLL) -> CBuffer:
    return CBuffer(library)


@pytest.fixture
def tool(library: ctypes.CDLL, buffer: CBuffer) -> CWire:
    """A wire with link 2."""
    wire = CWire(library, buffer)
    wire.begin(2)
    return wire


def name(vector: Json) -> str:
    return vector["comment"]


@pytest.mark.parametrize("vector", BLE["split"], ids=lambda each: f"{len(each['message']) // 2} at {each['size']}")
def test_a_reply_is_split_as_in_the_vectors(library: ctypes.CDLL, buffer: CBuffer, vector: Json) -> None:
    box = CBluetooth(library, buffer)
    box.connect(1, 0)
    assert box.write(1, HELLO, 0)
    box.reply(1, bytes.fromhex(vector["message"]), 0, is_proven=False)
    fragments = [box.next_fragment(1, vector["size"], 0) for _ in vector["fragments"]]
    assert [each and each.hex() for each in fragments] == vector["fragments"]
    by_phone = split_by_phone(library, bytes.fromhex(vector["message"]), vector["size"])
    assert [each.hex() for each in by_phone] == vector["fragments"]
    assert box.next_fragment(1, vector["size"], 0) is None


@pytest.mark.parametrize("vector", BLE["phone"], ids=name)
def test_a_phone_receives_as_in_the_vectors(library: ctypes.CDLL, vector: Json) -> None:
    reassembly = CReassembly(library)
    for step in vector["steps"]:
        error, whole = reassembly.accept(bytes.fromhex(step["fragment"]), step["at"])
        assert error == step.get("error", 0)
        expected = step.get("whole")
        assert whole == (expected and (expected["command"], bytes.fromhex(expected["data"])))


@pytest.mark.parametrize("vector", BLE["box"], ids=name)
def test_a_box_behaves_as_in_the_vectors(library: ctypes.CDLL, buffer: CBuffer, vector: Json) -> None:
    box = CBluetooth(library, buffer)
    for step in vector["steps"]:
        call(box, **step)


def call(box: CBluetooth, call: str, at: int, link: int, **given: Any) -> None:
    """A call of a vector, with its result."""
    match call:
        case "connect":
            box.connect(link, at)
        case "disconnect":
            box.disconnect(link)
        case "write":
            message = box.write(link, bytes.fromhex(given["fragment"]), at)
            assert (message and message.hex()) == given["message"]
        case "reply":
            box.reply(link, bytes.fromhex(given["message"]), at, is_proven=given["isProven"])
        case "next":
            fragment = box.next_fragment(link, given["size"], at)
            assert (fragment and fragment.hex()) == given["fragment"]
        case _:
            assert box.tick(at) == given["ended"]


@pytest.mark.parametrize("vector", BLE["sizes"], ids=lambda each: str(each["attMtu"]))
def test_the_size_is_that_of_the_vectors(library: ctypes.CDLL, vector: Json) -> None:
    value = ctypes.create_string_buffer(3)
    library.kr_ble_size_value(vector["attMtu"], value)
    assert value.raw.hex() == vector["value"]


@pytest.mark.parametrize("vector", BLE["names"], ids=lambda each: each["name"])
def test_a_box_is_named_as_in_the_vectors(library: ctypes.CDLL, vector: Json) -> None:
    box = CBox(library, fuzz_boxes.own_key())
    box.load(load(fuzz_boxes.states()["working"]), 7)
    ctypes.memmove(box.test.box.kept.advertising, bytes.fromhex(vector["secret"]), 16)
    box.test.box.time = vector["time"]
    assert box.advertised_name(7) == vector["name"]
    day_key, advertisement = ctypes.create_string_buffer(16), ctypes.create_string_buffer(31)
    port, secret = ctypes.byref(box.test, type(box.test).port.offset), bytes.fromhex(vector["secret"])
    library.kr_day_key(port, secret, ctypes.c_uint64(vector["day"]), day_key)
    library.kr_advertisement(vector["name"].encode(), advertisement)
    assert (day_key.raw.hex(), advertisement.raw.hex()) == (vector["dayKey"], vector["advertisement"])


def test_the_name_follows_the_clock_of_the_box(library: ctypes.CDLL) -> None:
    box, state = CBox(library, fuzz_boxes.own_key()), load(fuzz_boxes.states()["working"])
    box.load(state, 7)
    assert state.kept.authority
    for tick in (7, 906, 907, 100_000, 100_000 + 86_400):
        expected = advertisements.name_at(state.kept.authority.advertising, clock.now(state, tick))
        assert box.advertised_name(tick) == expected
    assert box.advertised_name(7) == expected, "ticks do not go back"


@pytest.mark.parametrize("vector", BLE["namesWithoutAuthority"], ids=lambda each: each["name"])
def test_a_box_without_authority_is_named_as_in_the_vectors(library: ctypes.CDLL, vector: Json) -> None:
    box = CBox(library, fuzz_boxes.own_key())
    box.reset(bytes(64), bytes.fromhex(vector["secret"]), 0)
    box.test.box.kept.boot = vector["boot"]
    assert box.advertised_name(0) == vector["name"]


def test_a_box_without_authority_has_a_name_for_each_start(library: ctypes.CDLL) -> None:
    box, state = CBox(library, fuzz_boxes.own_key()), load(fuzz_boxes.states()["fresh"])
    box.load(state, 7)
    first = box.advertised_name(7)
    assert first == advertisements.name_without_authority(state.kept.secret, state.kept.boot)
    assert box.advertised_name(10_000) == first
    assert box.start(None, 0)
    assert box.advertised_name(0) == advertisements.name_without_authority(state.kept.secret, state.kept.boot + 1)


@pytest.mark.parametrize("att_mtu", [0, 2, 3, 22, 23, 24, 185, 247, 514, 515, 516, 65_535])
def test_the_size_of_fragments(library: ctypes.CDLL, att_mtu: int) -> None:
    value = ctypes.create_string_buffer(3)
    library.kr_ble_size_value(att_mtu, value)
    assert value.raw == bluetooth.size_value(att_mtu)


def test_no_fragment_is_made_for_a_size_that_does_not_exist(library: ctypes.CDLL, buffer: CBuffer) -> None:
    box = CBluetooth(library, buffer)
    box.connect(0, 0)
    box.write(0, HELLO, 0)
    box.reply(0, b"reply", 0, is_proven=False)
    assert [box.next_fragment(0, size, 0) for size in (0, 1, 3, 19)] == [None] * 4
    assert box.next_fragment(0, 20, 0) == b"\x83\0\x05reply"


def test_links_that_do_not_exist_do_nothing(library: ctypes.CDLL, buffer: CBuffer) -> None:
    box = CBluetooth(library, buffer)
    for link in (3, 4, 255, 0xFFFFFFFF):
        box.connect(link, 0)
        assert box.write(link, HELLO, 0) is None
        box.reply(link, b"reply", 0, is_proven=True)
        assert box.next_fragment(link, 20, 0) is None
        box.disconnect(link)
    assert (box.has_room, box.tick(60_000), buffer.struct.phase) == (True, [], 0)


def test_a_reply_over_another_transport_than_its_message_is_dropped(
    library: ctypes.CDLL, buffer: CBuffer, tool: CWire
) -> None:
    bluetooth, card = CBluetooth(library, buffer), CNfcCard(library, buffer, 0)
    bluetooth.connect(1, 0)
    for reply in (
        lambda: bluetooth.reply(2, b"reply", 0, is_proven=True), lambda: card.reply(b"reply"),
        lambda: bluetooth.reply(1, b"reply", 0, is_proven=True),
    ):  # fmt: skip
        assert tool.receive(wire.frame(b"message"), 0)[0] is WireEvent.MESSAGE
        reply()
        assert (buffer.struct.phase, tool.next(100), bluetooth.next_fragment(1, 20, 0)) == (0, b"", None)


def test_the_longest_fragments_make_the_longest_message(library: ctypes.CDLL, buffer: CBuffer) -> None:
    box = CBluetooth(library, buffer)
    box.connect(0, 0)
    message = bluetooth_vectors.filled(LONGEST)
    pieces = list(split(message, MOST_SIZE))
    assert [box.write(0, each, 0) for each in pieces] == [*[None] * (len(pieces) - 1), message]


@pytest.mark.parametrize("vector", APDU["conversations"], ids=name)
def test_a_card_answers_as_in_the_vectors(library: ctypes.CDLL, buffer: CBuffer, vector: Json) -> None:
    card = CNfcCard(library, buffer, 0, APDU["url"])
    for step in vector["steps"]:
        response = card.receive(bytes.fromhex(step["command"]), 0)
        assert (response == b"") is ("message" in step)
        if not response:
            assert card.message.hex() == step["message"]
            response = card.reply(bytes.fromhex(step["reply"]))
        assert (response.hex(), card.is_restarted) == (step["response"], step["restarts"])


@pytest.mark.parametrize("url", [None, "", "http://a/", "https:/", "https://" + "a" * 193])
def test_a_card_without_a_valid_page_has_no_ndef_application(
    library: ctypes.CDLL, buffer: CBuffer, url: str | None
) -> None:
    card = CNfcCard(library, buffer, 0, url)
    assert card.receive(bytes.fromhex(apdu_vectors.SELECT_NDEF), 0).hex() == "6a82"
    assert card.receive(bytes.fromhex("00a4000c02e104"), 0).hex() == "6985"


def test_the_longest_page_fits_the_record(library: ctypes.CDLL, buffer: CBuffer) -> None:
    card = CNfcCard(library, buffer, 0, "https://" + "a" * 192)
    for command in (apdu_vectors.SELECT_NDEF, "00a4000c02e104"):
        assert card.receive(bytes.fromhex(command), 0).hex() == "9000"
    assert card.receive(bytes.fromhex("00b0000000"), 0) == b"\0\xc5\xd1\x01\xc1U\x04" + b"a" * 192 + b"\x90\0"


def test_a_card_that_a_phone_has_left_touches_no_message_of_another_link(library: ctypes.CDLL) -> None:
    rivals = Rivals(library)
    rivals.enter(0, URL)
    rivals.nfc("receive", SELECT, 0)
    rivals.nfc("leave")
    rivals.bluetooth("connect", 0, 0)
    rivals.bluetooth("write", 0, bytes.fromhex("830002c0"), 0)
    assert rivals.nfc("receive", SELECT, 1)[-2:] == b"\x90\0"
    assert rivals.bluetooth("write", 0, bytes.fromhex("00c1"), 2) == b"\xc0\xc1"


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("00b0000eff", "9000"), ("00b0000fff", "6a86"), ("00b000000000", "6700"), ("00b0000000ff", "6700"),
        ("00b0ffff00", "6a86"), ("00b00000", "9000"), ("00b00000ff00", "6700"), ("00b00000020000", "6700"),
    ],
)  # fmt: skip
def test_a_read_has_no_bytes_beyond_the_file(library: ctypes.CDLL, command: str, status: str) -> None:
    rivals = Rivals(library)
    for each in (apdu_vectors.SELECT_NDEF, "00a4000c02e103"):
        assert rivals.nfc("receive", bytes.fromhex(each), 0) == b"\x90\0"
    assert rivals.nfc("receive", bytes.fromhex(command), 0)[-2:].hex() == status


def messages() -> list[bytes]:
    """Messages with zeros in many places, and with none."""
    random = Random(SEED)
    lengths = (1, 2, 3, 249, 250, 251, 252, 253, 254, 255, 256, 504, 505, 506, 508, 2_047, LONGEST)
    filled = [bytes(length) for length in lengths] + [b"\xff" * length for length in lengths]
    return filled + [random.randbytes(length) for length in lengths] + [
        bytes(random.choice((0, 7, 7, 7)) for _ in range(length)) for length in lengths
    ]  # fmt: skip


def test_frames_are_those_of_python(library: ctypes.CDLL, buffer: CBuffer, tool: CWire) -> None:
    for message in messages():
        frame = wire.frame(message)
        assert tool.receive(frame + b"rest", 0) == (WireEvent.MESSAGE, b"rest")
        assert buffer.message == message
        tool.reply(message)
        assert tool.next(4_000) == frame
        assert (tool.next(4_000), buffer.struct.phase) == (b"", 0)


@pytest.mark.parametrize("size", [1, 2, 63, 254, 255, 256])
def test_frames_come_and_go_in_pieces(buffer: CBuffer, tool: CWire, size: int) -> None:
    message = bluetooth_vectors.filled(1_100)
    frame = wire.frame(message)
    events = [tool.receive(frame[at : at + size], 0) for at in range(0, len(frame), size)]
    assert events == [(WireEvent.NOTHING, b"")] * (len(events) - 1) + [(WireEvent.MESSAGE, b"")]
    assert buffer.message == message
    tool.reply(message)
    assert b"".join(iter(lambda: tool.next(size), b"")) == frame


@pytest.mark.parametrize("vector", WIRE["streams"], ids=name)
def test_a_wire_carries_what_the_vectors_say(buffer: CBuffer, library: ctypes.CDLL, vector: Json) -> None:
    box, rest, events = CWire(library, buffer), bytes.fromhex(vector["received"]), list[str | None]()
    while rest:
        event, rest = box.receive(rest, 0)
        if event is WireEvent.NEW_LINK:
            box.begin(1)
            events.append(None)
        elif event is WireEvent.MESSAGE:
            events.append(buffer.message.hex())
            box.reply(b"reply")
            assert box.next(100) == wire.frame(b"reply")
    assert events == vector["events"]


@pytest.mark.parametrize(
    "vector", WIRE["frames"], ids=lambda each: f"{each['message'][:8]} {len(each['message']) // 2}"
)
def test_a_frame_is_that_of_the_vectors(buffer: CBuffer, tool: CWire, vector: Json) -> None:
    assert tool.receive(bytes.fromhex(vector["frame"]), 0) == (WireEvent.MESSAGE, b"")
    assert buffer.message.hex() == vector["message"]
    tool.reply(buffer.message)
    assert tool.next(4_000).hex() == vector["frame"]


def test_the_checksum_is_that_of_ieee(library: ctypes.CDLL) -> None:
    library.kr_crc32.restype = ctypes.c_uint32
    assert library.kr_crc32(0, b"123456789", ctypes.c_size_t(9)) == 0xCBF43926
    assert library.kr_crc32(zlib.crc32(b"1234"), b"56789", ctypes.c_size_t(5)) == 0xCBF43926


def test_damaged_frames_are_dropped(buffer: CBuffer, tool: CWire) -> None:
    """Each frame with one bit that is wrong. A byte that becomes 0 makes two frames of it."""
    frame = wire.frame(b"\0message\0\0" + bytes(range(250)) + b"\xff" * 300)
    for place in range(len(frame) - 1):
        for bit in range(8):
            damaged = frame[:place] + bytes([frame[place] ^ 1 << bit]) + frame[place + 1 :]
            event, rest = WireEvent.NEW_LINK, damaged
            while event is WireEvent.NEW_LINK:
                event, rest = tool.receive(rest, 0)
            assert (event, rest, buffer.struct.phase) == (WireEvent.NOTHING, b"", 0)


@pytest.mark.parametrize(
    ("frame", "comment"),
    [
        (wire.cobs(b"\0\0\0\0"), "no message"),
        (wire.cobs(b"abc"), "less than a checksum"),
        (b"\xff", "a block that is cut off"),
        (b"\x01", "an empty block"),
        (wire.cobs(bytes(LONGEST + 1) + zlib.crc32(bytes(LONGEST + 1)).to_bytes(4, "big")), "2,049 bytes"),
        (b"\xff" * 5_000, "no end"),
    ],
)
def test_frames_of_a_wrong_length_are_dropped(buffer: CBuffer, tool: CWire, frame: bytes, comment: str) -> None:
    assert tool.receive(frame + b"\0", 0) == (WireEvent.NOTHING, b""), comment
    assert buffer.struct.phase == 0
    assert tool.receive(wire.frame(b"message"), 0)[0] is WireEvent.MESSAGE


def test_a_frame_that_is_too_long_gives_the_buffer_back_before_its_end(library: ctypes.CDLL) -> None:
    rivals = Rivals(library)
    rivals.wire("begin", 2)
    rivals.wire("receive", b"\xff" * 2_000, 0)
    assert rivals.buffer.phase is Phase.RECEIVING
    rivals.wire("receive", b"\xff" * 100, 0)
    assert rivals.buffer.phase is Phase.FREE


def test_an_empty_frame_begins_a_link_and_drops_the_reply(library: ctypes.CDLL) -> None:
    rivals = Rivals(library)
    frame = wire.frame(b"message")
    assert rivals.wire("receive", frame, 0) == (WireEvent.NOTHING, b"")  # a wire without a link
    assert rivals.wire("receive", wire.NEW_LINK + frame, 0) == (WireEvent.NEW_LINK, b"\0" + frame)
    rivals.wire("begin", 1)
    assert rivals.wire("receive", b"\0" + frame, 0) == (WireEvent.NEW_LINK, frame)
    rivals.wire("begin", 2)
    assert rivals.wire("receive", frame, 0) == (WireEvent.MESSAGE, b"")
    rivals.wire("reply", b"reply")
    assert rivals.wire("next", 3)
    assert rivals.wire("receive", b"\0", 0)[0] is WireEvent.NEW_LINK
    assert rivals.wire("next", 100) == b""


def test_a_frame_is_dropped_while_another_link_has_the_buffer(library: ctypes.CDLL) -> None:
    rivals = Rivals(library)
    rivals.wire("begin", 2)
    rivals.bluetooth("connect", 0, 0)
    rivals.bluetooth("write", 0, bytes.fromhex("830002c0"), 0)
    frame = wire.frame(b"message")
    assert rivals.wire("receive", frame[:3], 0) == (WireEvent.NOTHING, b"")
    assert rivals.bluetooth("write", 0, bytes.fromhex("00c1"), 1) == b"\xc0\xc1"
    rivals.bluetooth("reply", 0, b"reply", 1, is_proven=False)
    assert rivals.bluetooth("next_fragment", 0, 20, 1)
    assert rivals.wire("receive", frame[3:], 2) == (WireEvent.NOTHING, b"")
    assert rivals.wire("receive", frame, 3) == (WireEvent.MESSAGE, b"")


def test_a_wire_that_is_slow_loses_the_buffer(library: ctypes.CDLL) -> None:
    rivals = Rivals(library)
    rivals.wire("begin", 2)
    rivals.bluetooth("connect", 0, 0)
    frame = wire.frame(b"message")
    rivals.wire("receive", frame[:3], 0)
    assert rivals.bluetooth("write", 0, HELLO, 3_000) is None
    assert rivals.bluetooth("write", 0, HELLO, 3_001) is not None
    assert rivals.wire("receive", frame[3:], 3_002) == (WireEvent.NOTHING, b"")
    assert rivals.buffer.phase is Phase.PROCESSING


def test_a_reader_that_takes_its_reply_byte_by_byte_loses_the_buffer(library: ctypes.CDLL) -> None:
    """In time for its own link.

    10 s of silence would end the link.
    """
    rivals = Rivals(library)
    rivals.enter(2)
    rivals.bluetooth("connect", 0, 0)
    rivals.nfc("receive", SELECT, 0)
    rivals.nfc("begin", 2)
    assert rivals.nfc("receive", bytes.fromhex("80100000048201810201"), 0) == b""
    assert rivals.nfc("reply", bytes(92)) == b"\0\x61\x5b"
    for now in (3_001, 3_501):
        assert rivals.bluetooth("write", 0, HELLO, now) is None
        assert rivals.bluetooth("next_fragment", 0, 20, now) == b"\xbf\0\x01\x06"
        assert rivals.nfc("receive", bytes.fromhex("00c0000001"), now)[-2] == 0x61
    assert rivals.bluetooth("write", 0, HELLO, 3_502) == HELLO[3:]
    assert rivals.nfc("receive", bytes.fromhex("00c0000001"), 3_503) == b"\x6d\0"
    rivals.bluetooth("reply", 0, b"reply", 3_503, is_proven=False)
    assert rivals.bluetooth("next_fragment", 0, 20, 3_503) == b"\x83\0\x05reply"


@pytest.mark.parametrize("link", [LINKS, 255, 256, 258, 2**31])
def test_a_link_that_does_not_exist_gets_nothing(library: ctypes.CDLL, link: int) -> None:
    """Not even the buffer of the link with the same lowest byte."""
    buffer = CBuffer(library)
    box, card, tool = CBluetooth(library, buffer), CNfcCard(library, buffer, link), CWire(library, buffer)
    box.connect(link, 0)
    tool.begin(link)
    assert box.write(link, HELLO, 0) is None and box.next_fragment(link, 20, 0) is None
    assert tool.receive(wire.frame(b"message"), 0) == (WireEvent.NOTHING, b"")
    card.receive(SELECT, 0)
    card.begin(link)
    assert card.receive(bytes.fromhex("801000000482018102"), 0) == bytes.fromhex("6a84")
    assert box.tick(10**6) == [] and buffer.struct.phase == 0 and buffer.struct.waiting_count == 0


@pytest.fixture(scope="module")
def conversation(library: ctypes.CDLL) -> tuple[bytes, bytes]:
    """The longest message that a box answers with an entry, and the reply."""
    test = max((each for each in fuzz_boxes.vectors("Box") if each["effect"]), key=lambda each: len(each["message"]))
    box = CBox(library, fuzz_boxes.own_key())
    box.load(load(fuzz_boxes.states()[test["state"]] | test["set"]), test["tick"])
    message = bytes.fromhex(test["message"])
    reply = box.receive(test["link"], message, test["tick"], bytes.fromhex(test["random"])).reply
    assert (reply.hex(), len(reply) > 300) == (test["reply"], True)
    return message, reply


@pytest.mark.parametrize("size", [20, 182, 244, 512])
def test_an_opening_travels_over_bluetooth(
    library: ctypes.CDLL, buffer: CBuffer, conversation: tuple[bytes, bytes], size: int
) -> None:
    """The phone is the one in Python."""
    (message, reply), box, phone = conversation, CBluetooth(library, buffer), Reassembly(*Command)
    box.connect(0, 0)
    assert [box.write(0, each, 0) for each in split(message, size)][-1] == message
    box.reply(0, reply, 0, is_proven=True)
    received = [phone.accept(each, 0) for each in iter(lambda: box.next_fragment(0, size, 0), None)]
    assert received[-1] == (Command.MESSAGE, reply)


def test_an_opening_travels_over_nfc(library: ctypes.CDLL, buffer: CBuffer, conversation: tuple[bytes, bytes]) -> None:
    """The phone is the one in Python."""
    (message, reply), card = conversation, CNfcCard(library, buffer, 0)

    def transceive(apdu: bytes) -> bytes:
        return card.receive(apdu, 0) or card.reply(reply if card.message == message else b"another message")

    reader = NfcReader(transceive)
    reader.select()
    assert reader.exchange(message) == reply


def test_an_opening_travels_over_a_wire(buffer: CBuffer, tool: CWire, conversation: tuple[bytes, bytes]) -> None:
    """The tool is the one in Python."""
    message, reply = conversation
    assert tool.receive(wire.frame(message), 0) == (WireEvent.MESSAGE, b"")
    assert buffer.message == message
    tool.reply(reply)
    assert wire.Deframer().feed(tool.next(4_000)) == [reply]


def test_both_sides_behave_alike_for_random_calls(library: ctypes.CDLL) -> None:
    counts = Counter[str]()
    for seed in range(HOSTS):
        counts.update(fuzz_transports.run(library, STEPS, SEED + seed))
    assert set(counts) > REACHED, REACHED - set(counts)


def test_the_fuzzer_finds_nothing(tmp_path: Path) -> None:
    """With sanitizers: `make test-transports-long` runs it for longer."""
    program = BOX.build / "fuzz_transports"
    BOX.make(BOX.build, str(program))
    done = subprocess.run([program, str(FUZZ_INPUTS), str(SEED)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"{FUZZ_INPUTS} inputs\n"), done.stderr
