"""docs/wire-vectors.json: frames on a wire, and streams of bytes for a box.

`python -m tests.offline_keys.vectors.wire_vectors` writes the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keyrack.offline_keys.link_messages import LONGEST
from keyrack.offline_keys.transports import wire
from tests.offline_keys.vectors.bluetooth_vectors import filled

Json = dict[str, Any]
PATH = Path(__file__).parents[3] / "docs/wire-vectors.json"
HEADER = [
    "Vectors of docs/key-wire.md. Bytes are hexadecimal. Frames: a message, and its frame with the zero byte. Streams:",
    "bytes that a box receives after its start, and what they are for it, in order: a message, or null for the",
    "beginning of a new link. Each message is answered before the next byte comes.",
]
HELLO = bytes.fromhex("82018102")
RUNS = (1, 2, 249, 250, 251, 253, 254, 255, 504, LONGEST)  # with the checksum, 254 bytes are a whole block


def document() -> Json:
    return {
        "schema": "keyrack-wire-vectors-1", "header": HEADER,
        "frames": [_frame(message) for message in _messages()],
        "streams": [_stream(comment, data) for comment, data in _streams()],
    }  # fmt: skip


def text() -> str:
    return json.dumps(document(), indent=1) + "\n"


def _messages() -> Iterator[bytes]:
    yield HELLO
    for length in RUNS:
        yield bytes(length)
        yield b"\xc0" * length
        yield filled(length)


def _frame(message: bytes) -> Json:
    return {"message": message.hex(), "frame": wire.frame(message).hex()}


def _streams() -> Iterator[tuple[str, bytes]]:
    hello, other = wire.frame(HELLO), wire.frame(b"\xc0")
    yield "a tool begins a link", wire.NEW_LINK + hello
    yield "two messages on one link", wire.NEW_LINK + hello + other
    yield "each empty frame begins a link", wire.NEW_LINK + hello + b"\0\0" + other
    yield "a frame before the first link is dropped", hello + b"\0" + other
    yield "what was on the wire before", b"\x05noise" + wire.NEW_LINK + hello
    yield "a wrong checksum", b"\0" + hello[:-2] + bytes([hello[-2] ^ 1]) + b"\0" + other
    yield "a block beyond the end of the frame", b"\0" + b"\x09" + hello[1:] + other
    yield "a frame without a message", b"\0" + wire.cobs(bytes(4)) + b"\0" + other
    yield "a frame of less than a checksum", b"\0" + b"\x03\xc0\xc0\0" + other
    yield "the longest message", b"\0" + wire.frame(b"\xc0" * LONGEST) + other
    yield "a message of 2,049 bytes", b"\0" + wire.frame(b"\xc0" * (LONGEST + 1)) + other
    yield "a last block of 01 after a whole block", b"\0" + wire.frame(b"\xc0" * 250)[:-1] + b"\x01\0" + other


def _stream(comment: str, data: bytes) -> Json:
    deframer, events = wire.Deframer(), list[str | None]()
    is_linked = False
    for message in deframer.feed(data):
        if not message:
            events.append(None)
            is_linked = True
        elif is_linked:
            events.append(message.hex())
    return {"comment": comment, "received": data.hex(), "events": events}


if __name__ == "__main__":
    PATH.write_text(text())
