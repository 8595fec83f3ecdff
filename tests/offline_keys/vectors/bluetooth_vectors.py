"""docs/ble-vectors.json: fragments, a box's links over Bluetooth, and advertised names.

`python -m tests.offline_keys.vectors.bluetooth_vectors` writes the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from keyrack.offline_keys.link_messages import LONGEST
from keyrack.offline_keys.transports import advertisements
from keyrack.offline_keys.transports.bluetooth import BoxBluetooth, size_value
from keyrack.offline_keys.transports.fragments import Command, FragmentRejected, Reassembly, split
from keyrack.offline_keys.transports.message_buffer import MessageBuffer

Json = dict[str, Any]
PATH = Path(__file__).parents[3] / "docs/ble-vectors.json"
SIZES = (20, 182, 244, 512)
LENGTHS = (1, 3, 16, 17, 18, 36, 37, 624, 2_047, LONGEST)
HEADER = [
    "Vectors of docs/key-bluetooth.md. Bytes are hexadecimal, times are milliseconds.",
    "Sizes: the value of `size` for an ATT_MTU. Split: the fragments of a message for a size. Phone: fragments that a",
    "phone receives; each step has `whole`, a command with its data, or null; or it has `error`, the number of an",
    "error. Box: calls of a box with three links over one buffer. `write` is a fragment from the phone, `message` the",
    "whole message that it completes, or null. `reply` answers it, also for a link that has ended meanwhile;",
    "`isProven` is whether the link has proven a key by now. `next` is the next notification for a link at this time,",
    "with at most `size` bytes, or null. `tick` runs the timers: `ended` has the links that the box has to end, again",
    "at each tick until `disconnect`; its `link` means nothing. Names: the advertising secret of a box, the key of a",
    "day, the name in a slot, and the whole advertisement. Names without authority: the secret for nonces, the boot",
    "counter, and the name.",
]


def filled(length: int) -> bytes:
    """A message that shows a wrong order of its fragments."""
    return bytes(place % 251 for place in range(length))


def document() -> Json:
    return {
        "schema": "keyrack-ble-vectors-1",
        "header": HEADER,
        "sizes": [{"attMtu": mtu, "value": size_value(mtu).hex()} for mtu in (23, 24, 185, 247, 515, 516, 517)],
        "split": [_split(length, size) for length in LENGTHS for size in SIZES],
        "phone": [_phone(comment, steps) for comment, steps in _received()],
        "box": [_box(comment, steps) for comment, steps in _scripts()],
        "names": [_names(time) for time in (0, 899, 900, 86_399, 86_400, 1_800_000_000, 4_102_444_800, (1 << 53) - 1)],
        "namesWithoutAuthority": [_name_without_authority(boot) for boot in (0, 1, 1 << 32)],
    }


def text() -> str:
    return json.dumps(document(), indent=1) + "\n"


def _split(length: int, size: int) -> Json:
    message = filled(length)
    return {"size": size, "message": message.hex(), "fragments": [each.hex() for each in split(message, size)]}


# Fragments for a phone

Received = tuple[str, list[tuple[int, str]]]  # a comment, and fragments with their times


def _received() -> Iterator[Received]:
    yield "a message in one fragment", [(0, "830003c0c1c2")]
    yield "a message in three fragments", [(0, "830005c0"), (500, "00c1c2"), (1500, "01c3c4")]
    yield "an initial fragment without data", [(0, "830001"), (0, "00c0")]
    yield "fragments that are not full", [(0, "830003c0"), (0, "00c1"), (0, "01c2")]
    yield "keep-alive fragments before the reply", [(0, "82000101"), (500, "82000101"), (900, "830001c0")]
    yield "an error", [(0, "bf000106")]
    yield "an error with an unknown number", [(0, "bf000142")]
    yield "sequence numbers that begin again after 127", _long()
    yield "the longest message", [(0, each.hex()) for each in split(filled(LONGEST), 512)]
    yield "no bytes", [(0, "")]
    yield "an initial fragment of one byte", [(0, "83")]
    yield "an initial fragment of two bytes", [(0, "8300")]
    yield "length 0", [(0, "830000")]
    yield "a length of 2,049", [(0, "830801c0")]
    yield "an error of two bytes", [(0, "bf00020606")]
    yield "an unknown command", [(0, "810001c0")]
    yield "a continuation without an initial fragment", [(0, "00c0")]
    yield "a gap in the sequence", [(0, "830004c0"), (0, "01c1"), (0, "830001c0")]
    yield "a repeated continuation", [(0, "830004c0"), (0, "00c1"), (0, "00c1")]
    yield "a second initial fragment before the message is whole", [(0, "830002c0"), (0, "830002c0"), (0, "00c1")]
    yield "a keep-alive fragment within a message", [(0, "830002c0"), (0, "82000101")]
    yield "more data than the length in the initial fragment", [(0, "830001c0c1")]
    yield "more data than the length in a continuation", [(0, "830002c0"), (0, "00c1c2")]
    yield "a continuation without data", [(0, "830002c0"), (0, "00")]
    yield "a fragment 1,000 ms after the one before", [(0, "830002c0"), (1_000, "00c1")]
    yield "a fragment 1,001 ms after the one before", [(0, "830002c0"), (1_001, "00c1"), (1_001, "830001c0")]
    yield "a message that takes 10,000 ms", _slow(10_000)
    yield "a message that takes 10,001 ms", _slow(10_001)


def _long() -> list[tuple[int, str]]:
    rest = [bytes([number % 128, number % 251]).hex() for number in range(300)]
    return [(0, "83012c"), *((0, each) for each in rest)]


def _slow(last: int) -> list[tuple[int, str]]:
    times = [*range(0, 10_000, 900), last]
    return [(0, f"8300{len(times):02x}c0"), *((at, f"{number:02x}c1") for number, at in enumerate(times[1:]))]


def _phone(comment: str, steps: list[tuple[int, str]]) -> Json:
    reassembly = Reassembly(*Command)
    return {"comment": comment, "steps": [_step(reassembly, at, each) for at, each in steps]}


def _step(reassembly: Reassembly, at: int, fragment: str) -> Json:
    try:
        whole = reassembly.accept(bytes.fromhex(fragment), at)
    except FragmentRejected as rejected:
        return {"at": at, "fragment": fragment, "error": int(rejected.code)}
    result = None if whole is None else {"command": int(whole.command), "data": whole.data.hex()}
    return {"at": at, "fragment": fragment, "whole": result}


# Calls of a box

Step = tuple[str, int, int, Any]  # what is done, when, on which link, with what


def connect(at: int, link: int) -> Step:
    return "connect", at, link, None


def write(at: int, link: int, fragment: str) -> Step:
    return "write", at, link, fragment


def reply(at: int, link: int, message: str, *, is_proven: bool = False) -> Step:
    return "reply", at, link, (message, is_proven)


def following(at: int, link: int, size: int = 20) -> Step:
    return "next", at, link, size


def tick(at: int) -> Step:
    return "tick", at, 0, None


def disconnect(at: int, link: int) -> Step:
    return "disconnect", at, link, None


HELLO = "830004" + "82018102"  # [1, [2]]


def _scripts() -> Iterator[tuple[str, list[Step]]]:
    yield (
        "a message and its reply",
        [connect(0, 0), following(0, 0), write(10, 0, HELLO), reply(20, 0, "c0" * 40),
         *(following(20, 0) for _ in range(4)), write(30, 0, HELLO)],
    )  # fmt: skip
    yield (
        "the size grows within a reply",
        [connect(0, 0), write(0, 0, HELLO), reply(0, 0, "c0" * 300), following(0, 0, 20), following(0, 0, 244),
         following(0, 0, 244)],
    )  # fmt: skip
    yield (
        "keep-alive fragments while the box processes a message",
        [connect(0, 0), write(0, 0, HELLO), following(499, 0), following(500, 0), following(501, 0),
         following(1_000, 0), reply(1_200, 0, "c0"), following(1_200, 0)],
    )  # fmt: skip
    yield (
        "another link while a message is received",
        [connect(0, 0), connect(0, 1), write(0, 0, "830002c0"), write(10, 1, HELLO), following(10, 1), following(10, 1),
         write(20, 0, "00c1"), reply(20, 0, "c0"), write(30, 1, HELLO), following(30, 1), following(30, 0),
         write(40, 1, HELLO)],
    )  # fmt: skip
    yield (
        "a slow link keeps the buffer if the fragment of another one is an error",
        [connect(0, 0), connect(0, 1), write(0, 0, "83000ac0"),
         *(write(1_000 * number, 0, f"{number - 1:02x}c0") for number in range(1, 4)),
         *(step for wrong in ("", "00c0", "82000101", "83", "830000", "830001c0c0")
           for step in (write(3_001, 1, wrong), following(3_001, 1))),
         write(3_002, 0, "03" + "c0" * 6)],
    )  # fmt: skip
    yield (
        "a link that is slow to send its message loses the buffer to another one",
        [connect(0, 0), connect(0, 1), write(0, 0, "83000ac0"),
         *(write(1_000 * number, 0, f"{number - 1:02x}c0") for number in range(1, 4)),
         write(3_000, 1, HELLO), following(3_000, 1), write(3_001, 1, HELLO), write(3_002, 0, "03c0"),
         following(3_002, 0), reply(3_003, 1, "c0"), following(3_003, 1), write(3_004, 0, HELLO)],
    )  # fmt: skip
    yield (
        "links get the buffer in the order in which they were refused",
        [connect(0, 0), connect(0, 1), connect(0, 2), write(0, 0, "830002c0"), write(10, 1, HELLO), following(10, 1),
         write(20, 2, HELLO), following(20, 2), write(30, 0, "00c1"), reply(30, 0, "c0"), following(30, 0),
         write(40, 0, HELLO), following(40, 0), write(50, 2, HELLO), following(50, 2), write(60, 1, HELLO),
         reply(60, 1, "c0"), following(60, 1), write(70, 0, HELLO), following(70, 0), write(80, 2, HELLO)],
    )  # fmt: skip
    yield (
        "a link that begins again and again waits behind others",
        [connect(0, 0), connect(0, 1), write(0, 0, "830002c0"), write(10, 1, HELLO), following(10, 1),
         write(20, 0, "830002c0"), following(20, 0), write(20, 0, "830002c0"), following(20, 0), write(30, 1, HELLO)],
    )  # fmt: skip
    yield (
        "a refused link waits for 700 ms",
        [connect(0, 0), connect(0, 1), connect(0, 2), write(0, 0, "830002c0"), write(10, 1, HELLO), following(10, 1),
         write(20, 0, "00c1"), reply(20, 0, "c0"), following(20, 0), write(710, 2, HELLO), following(710, 2),
         write(711, 2, HELLO)],
    )  # fmt: skip
    yield (
        "a fragment that is an error, or the end of the link, ends a turn",
        [connect(0, 0), connect(0, 1), connect(0, 2), write(0, 0, "830002c0"), write(10, 1, HELLO), following(10, 1),
         write(20, 2, HELLO), following(20, 2), write(30, 0, "00c1"), reply(30, 0, "c0"), following(30, 0),
         write(40, 1, ""), following(40, 1), write(50, 1, HELLO), following(50, 1), disconnect(60, 2),
         write(70, 1, HELLO)],
    )  # fmt: skip
    yield (
        "a link that is slow to take its reply loses the buffer to another one",
        [connect(0, 0), connect(0, 1), write(0, 0, HELLO), reply(2_900, 0, "c0" * 40), following(2_900, 0),
         write(2_950, 1, HELLO), following(2_950, 1), write(3_450, 1, HELLO), following(3_450, 1),
         write(3_451, 1, HELLO), following(3_451, 0), reply(3_460, 1, "c0"), following(3_460, 1)],
    )  # fmt: skip
    yield (
        "a reply has 500 ms after the first refusal, even if the message was slow",
        [connect(0, 0), connect(0, 1), write(0, 0, HELLO), write(3_900, 1, HELLO), following(3_900, 1),
         reply(4_000, 0, "c0"), write(4_100, 1, HELLO), following(4_100, 1), write(4_600, 1, HELLO),
         following(4_600, 1), write(4_601, 1, HELLO)],
    )  # fmt: skip
    yield (
        "a link that waits for the buffer stays",
        [connect(0, 0), connect(0, 1), write(4_000, 0, "830002c0"), write(4_500, 1, HELLO), following(4_500, 1),
         tick(9_499), tick(9_500)],
    )  # fmt: skip
    yield (
        "a fragment while the reply is sent ends the reply",
        [connect(0, 0), write(0, 0, HELLO), reply(0, 0, "c0" * 40), following(0, 0), write(10, 0, HELLO),
         following(10, 0), following(10, 0), write(20, 0, HELLO)],
    )  # fmt: skip
    yield (
        "a fragment while the box processes a message ends its reply",
        [connect(0, 0), connect(0, 1), write(0, 0, HELLO), write(10, 0, HELLO), following(10, 0),
         write(20, 1, HELLO), following(20, 1), reply(30, 0, "c0"), following(30, 0), write(40, 1, HELLO),
         following(40, 1), write(50, 0, HELLO)],
    )  # fmt: skip
    yield (
        "a link that ends frees the buffer",
        [connect(0, 0), connect(0, 1), write(0, 0, "830002c0"), disconnect(10, 0), write(20, 1, HELLO),
         following(20, 0), write(20, 0, HELLO)],
    )  # fmt: skip
    yield (
        "a link that ends while the box processes its message",
        [connect(0, 0), connect(0, 1), write(0, 0, HELLO), disconnect(10, 0), connect(20, 0), write(20, 0, HELLO),
         following(20, 0), reply(30, 0, "c0"), following(30, 0), write(40, 0, HELLO)],
    )  # fmt: skip
    for comment, fragment in (
        ("a keep-alive fragment from a phone", "82000101"), ("an error from a phone", "bf000106"),
        ("an unknown command", "810001c0"), ("length 0", "830000"), ("a length of 2,049", "830801"),
        ("a short initial fragment", "8300"), ("no bytes", ""), ("a continuation without an initial fragment", "00c0"),
        ("more data than the length", "830001c0c1"),
    ):  # fmt: skip
        yield comment, [connect(0, 0), write(0, 0, fragment), following(0, 0), following(0, 0), write(0, 0, HELLO)]
    yield (
        "a message that is late, at its next fragment",
        [connect(0, 0), write(0, 0, "830002c0"), write(1_001, 0, "00c1"), following(1_001, 0), write(1_002, 0, HELLO)],
    )
    yield (
        "a message that is late, at a tick",
        [connect(0, 0), connect(0, 1), write(0, 0, "830002c0"), tick(1_000), write(1_000, 1, HELLO),
         following(1_000, 1), tick(1_001), following(1_001, 0), write(1_002, 1, HELLO), write(1_003, 0, "00c1"),
         following(1_003, 0)],
    )  # fmt: skip
    yield "a link without a message ends after 5 s", [connect(0, 0), tick(4_999), tick(5_000)]
    yield (
        "a link that is idle ends after 15 s",
        [connect(0, 0), write(100, 0, HELLO), reply(100, 0, "c0"), following(100, 0), tick(15_099), tick(15_100)],
    )
    yield (
        "a link that has proven a key ends after 30 s without a message",
        [connect(0, 0), write(100, 0, HELLO), reply(100, 0, "c0", is_proven=True), following(100, 0), tick(30_099),
         tick(30_100)],
    )  # fmt: skip
    yield (
        "a link that proves no key ends after 30 s",
        [connect(0, 0), *_kept_up(29_000, 4_000), tick(29_999), tick(30_000)],
    )
    yield (
        "a link that has proven a key may stay",
        [connect(0, 0), *_kept_up(60_000, 4_000, is_proven=True), tick(60_000)],
    )
    yield (
        "no link stays for more than 300 s",
        [connect(0, 0), *_kept_up(299_000, 20_000, is_proven=True), tick(299_999), tick(300_000)],
    )
    yield (
        "a link that has proven a key stays after the hello that ends the proof",
        [connect(0, 0), write(0, 0, HELLO), reply(0, 0, "c0", is_proven=True), following(0, 0),
         write(29_999, 0, HELLO), reply(30_000, 0, "c0"), tick(30_000), following(30_000, 0), tick(59_999),
         tick(60_000)],
    )  # fmt: skip
    yield (
        "a phone that does not take its reply",
        [connect(0, 0), connect(4_000, 1), write(4_000, 0, HELLO), reply(4_000, 0, "c0"), tick(8_999),
         write(8_999, 1, HELLO), following(8_999, 1), tick(9_000), disconnect(9_000, 0), tick(9_001),
         write(9_100, 1, HELLO)],
    )  # fmt: skip
    yield (
        "a box that takes long for a message does not end its link",
        [connect(0, 0), write(100, 0, HELLO), tick(40_000), reply(40_000, 0, "c0", is_proven=True), tick(40_000),
         following(40_000, 0)],
    )  # fmt: skip


def _kept_up(until: int, pause: int, *, is_proven: bool = False) -> Iterable[Step]:
    for at in range(0, until, pause):
        yield write(at, 0, HELLO)
        yield reply(at, 0, "c0", is_proven=is_proven)
        yield following(at, 0)


def _box(comment: str, steps: list[Step]) -> Json:
    box = BoxBluetooth(MessageBuffer())
    return {"comment": comment, "steps": [_called(box, *step) for step in steps]}


def _called(box: BoxBluetooth, call: str, at: int, link: int, value: Any) -> Json:
    step: Json = {"call": call, "at": at, "link": link}
    match call:
        case "connect":
            box.connect(link, at)
        case "disconnect":
            box.disconnect(link)
        case "write":
            message = box.write(link, bytes.fromhex(value), at)
            step |= {"fragment": value, "message": None if message is None else message.hex()}
        case "reply":
            message, is_proven = value
            box.reply(link, bytes.fromhex(message), at, is_proven=is_proven)
            step |= {"message": message, "isProven": is_proven}
        case "next":
            fragment = box.next_fragment(link, value, at)
            step |= {"size": value, "fragment": None if fragment is None else fragment.hex()}
        case _:
            step |= {"ended": box.tick(at)}
    return step


# Names


def _names(time: int) -> Json:
    secret = bytes(range(16))
    slot = advertisements.slot_at(time)
    key = advertisements.day_key(secret, advertisements.day_of(slot))
    name = advertisements.name(key, slot)
    return {
        "secret": secret.hex(), "time": time, "day": advertisements.day_of(slot), "slot": slot, "dayKey": key.hex(),
        "name": name, "advertisement": advertisements.advertisement(name).hex(),
    }  # fmt: skip


def _name_without_authority(boot: int) -> Json:
    secret = bytes(range(32))
    return {"secret": secret.hex(), "boot": boot, "name": advertisements.name_without_authority(secret, boot)}


if __name__ == "__main__":
    PATH.write_text(text())
