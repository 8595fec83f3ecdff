"""docs/apdu-vectors.json: conversations of a phone with a box over NFC.

`python -m tests.offline_keys.vectors.apdu_vectors` writes the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keyrack.offline_keys.link_messages import LONGEST
from keyrack.offline_keys.transports.message_buffer import MessageBuffer
from keyrack.offline_keys.transports.nfc import AID, NDEF_AID, NfcCard

Json = dict[str, Any]
PATH = Path(__file__).parents[3] / "docs/apdu-vectors.json"
URL = "https://keyrack.example.com/drive/#box=K-HW844A"
HEADER = [
    "Vectors of docs/key-nfc.md. Bytes are hexadecimal. Each step has a command APDU and the response. `message` is",
    "the whole message that the command completes; the box answers it with `reply`, whose beginning is in the",
    "response. `restarts` is whether the command ends the link and begins another one. `url` is the page of the box.",
]
SELECT = "00a40400" + f"{len(AID):02x}" + AID.hex() + "00"
SELECT_NDEF = "00a40400" + f"{len(NDEF_AID):02x}" + NDEF_AID.hex() + "00"
HELLO = "8010000004" + "82018102" + "00"
Steps = list[tuple[str, int]]  # commands, and the length of the reply to the message that they complete


def document() -> Json:
    return {
        "schema": "keyrack-apdu-vectors-1", "header": HEADER, "url": URL,
        "conversations": [_run(comment, steps) for comment, steps in _conversations()],
    }  # fmt: skip


def text() -> str:
    return json.dumps(document(), indent=1) + "\n"


def chain(message: bytes, most: int = 255) -> list[str]:
    """The commands of a message."""
    pieces = [message[at : at + most] for at in range(0, len(message), most)]
    last = len(pieces) - 1
    return [
        f"{'80' if place == last else '90'}100000{len(piece):02x}{piece.hex()}{'00' if place == last else ''}"
        for place, piece in enumerate(pieces)
    ]


def _conversations() -> Iterator[tuple[str, Steps]]:
    yield "a short message and a short reply", [(SELECT, 0), (HELLO, 92)]
    yield "a reply of 256 bytes", [(SELECT, 0), (HELLO, 256)]
    yield "a reply of 257 bytes", [(SELECT, 0), (HELLO, 257), ("00c0000001", 0)]
    yield (
        "a reply with more than 255 bytes left",
        [(SELECT, 0), (HELLO, 800), ("00c0000000", 0), ("00c0000000", 0), ("00c0000020", 0)],
    )
    yield "a reply in small pieces", [(SELECT, 0), (HELLO[:-2] + "10", 40), ("00c0000010", 0), ("00c0000008", 0)]
    yield "a chain of commands", [(SELECT, 0), *((each, 10) for each in chain(bytes(600)))]
    yield "the longest message and the longest reply", [
        (SELECT, 0), *((each, LONGEST) for each in chain(bytes(LONGEST))), *[("00c0000000", 0)] * 7,
    ]  # fmt: skip
    yield "a message without the expected length", [(SELECT, 0), (HELLO[:-2], 10)]
    yield "SELECT without a response", [(SELECT.replace("00a40400", "00a4040c"), 0), (HELLO, 10)]
    yield "SELECT twice", [(SELECT, 0), (SELECT, 0), (HELLO, 10)]
    yield "SELECT drops a chain", [(SELECT, 0), ("9010000001c0", 0), (SELECT, 0), (HELLO, 10)]
    yield "SELECT drops a reply", [(SELECT, 0), (HELLO, 300), (SELECT, 0), ("00c0000000", 0)]
    yield "a message instead of GET RESPONSE drops the reply", [(SELECT, 0), (HELLO, 300), (HELLO, 10)]
    yield "nothing is selected", [(HELLO, 0), ("00c0000000", 0), ("00b0000000", 0), ("00a4000c02e103", 0)]
    yield "another application is selected", [(SELECT, 0), ("00a4040003f04b4500", 0), (HELLO, 0)]
    yield "GET RESPONSE without a reply", [(SELECT, 0), ("00c0000000", 0)]
    yield "a chain that another command breaks", [(SELECT, 0), ("9010000001c0", 0), ("00c0000000", 0), (HELLO, 10)]
    yield "a message of 2,049 bytes", [(SELECT, 0), *((each, 0) for each in chain(bytes(LONGEST + 1))), (HELLO, 10)]
    yield "empty parts of a message", [(SELECT, 0), ("9010000000", 0), ("9010000001c0", 0), ("8010000000", 10)]
    yield "a part with an expected length", [(SELECT, 0), ("9010000001c000", 0), ("8010000001c000", 10)]
    yield "an empty message", [(SELECT, 0), ("8010000000", 0), (HELLO, 10)]
    yield (
        "wrong P1 or P2",
        [(SELECT, 0), ("8010010001c000", 0), ("8010000101c000", 0), ("00c0010000", 0), ("00a4010009" + AID.hex(), 0)],
    )
    yield "SELECT of no application", [(SELECT, 0), ("00a4040000", 0), (HELLO, 0)]
    yield "an unknown instruction", [
        (SELECT, 0), ("8011000000", 0), ("0010000001c0", 0), ("9011000000", 0), ("80a4040009" + AID.hex(), 0),
        ("80c0000000", 0),
    ]  # fmt: skip
    yield "an unknown class", [(SELECT, 0), ("a010000001c0", 0), ("8110000001c0", 0)]
    yield "wrong lengths", [(SELECT, 0), ("", 0), ("801000", 0), ("8010000002c0", 0), ("8010000001c00000", 0)]
    yield "an extended length", [(SELECT, 0), ("80100000000001c00000", 0)]
    yield "the NDEF application", [
        (SELECT_NDEF, 0), ("00a4000c02e103", 0), ("00b000000f", 0), ("00a4000c02e104", 0), ("00b0000002", 0),
        ("00b00002ff", 0), ("00b0000000", 0),
    ]  # fmt: skip
    yield "wrong reads of the NDEF application", [
        (SELECT_NDEF, 0), ("00b000000f", 0), ("00a4000c02e105", 0), ("00a4000c02e103", 0), ("00b0000e00", 0),
        ("00b0000f00", 0), ("00a4000c02e104", 0), ("00b0010000", 0),
        ("00b0000001c0", 0), (HELLO, 0), ("00d6000001c0", 0),
    ]  # fmt: skip


def _run(comment: str, steps: Steps) -> Json:
    card = NfcCard(MessageBuffer(), 0, URL)
    return {"comment": comment, "steps": [_step(card, command, length) for command, length in steps]}


def _step(card: NfcCard, command: str, length: int) -> Json:
    step: Json = {"command": command}
    response = card.receive(bytes.fromhex(command), 0)
    if not response:
        reply = bytes(place % 251 for place in range(length))
        step |= {"message": card.message.hex(), "reply": reply.hex()}
        response = card.reply(reply)
    return step | {"restarts": card.is_restarted, "response": response.hex()}


if __name__ == "__main__":
    PATH.write_text(text())
