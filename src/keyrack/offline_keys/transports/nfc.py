"""NFC: messages in ISO 7816-4 APDUs (docs/key-nfc.md).

The box is the card, and the phone is the reader.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from keyrack.offline_keys.link_messages import LONGEST
from keyrack.offline_keys.transports.message_buffer import MessageBuffer, Phase

AID = bytes.fromhex("F04B45595241434B01")  # proprietary: "KEYRACK", version 1
NDEF_AID = bytes.fromhex("D2760000850101")  # of NFC Forum's Type 4 Tag
SILENCE_MS = 10_000  # after which a link ends
NO_LINK = -1  # of a card that no phone uses
SHORTEST = 4  # CLA, INS, P1, P2
_MOST_SHORT = 256
_SELECTED = b"\x01" + LONGEST.to_bytes(2, "big")  # version, longest message
_WITH_DATA, _NO_DATA = (0x04, 0x00), (0x04, 0x0C)  # P1 and P2 of a SELECT by AID
_CAPABILITIES, _RECORD = b"\xe1\x03", b"\xe1\x04"  # files of the NDEF application
_URI_PREFIX = b"https://"  # code 4 of NFC Forum's URI record
LONGEST_URL = 200  # so that the record is a short one, in one READ BINARY


class StatusWord(IntEnum):
    OK = 0x9000
    MORE = 0x6100  # and the number of bytes, 255 for more than that
    LENGTH = 0x6700
    CONDITIONS = 0x6985  # no application is selected
    NOT_FOUND = 0x6A82
    BUSY = 0x6A84
    PARAMETERS = 0x6A86
    INSTRUCTION = 0x6D00
    CLASS = 0x6E00


class Selected(IntEnum):
    """The selected application, or file of the NDEF application."""

    NOTHING = 0
    KEYRACK = 1
    NDEF = 2
    CAPABILITIES = 3
    RECORD = 4


class CommandRejected(Exception):
    """The card answers with this status alone."""

    def __init__(self, status: StatusWord) -> None:
        super().__init__(status.name)
        self.status = status


def ndef_file(url: str) -> bytes:
    """The NDEF file with one URI record. `url` begins with `https://` and has at most 200 bytes."""
    rest = url.encode().removeprefix(_URI_PREFIX)
    record = b"\xd1\x01" + bytes([len(rest) + 1]) + b"U\x04" + rest
    return len(record).to_bytes(2, "big") + record


def capability_file() -> bytes:
    """The capability container of the NDEF application.

    Version 2.0, reads and writes of at most 255 bytes. The record is for reading only.
    """
    return bytes.fromhex("000f2000ff00ff0406") + _RECORD + (_MOST_SHORT - 1).to_bytes(2, "big") + b"\x00\xff"


class NfcCard:
    """The box in the field of a reader. Link numbers are those of `firmware.connect`."""

    def __init__(self, buffer: MessageBuffer, link: int, url: str | None = None) -> None:
        """A phone came into the field. `url` is the page of the box at this time, for phones without the app."""
        self._buffer = buffer
        self._link = link
        self._url = url
        self._selected = Selected.NOTHING
        self._message = bytearray()
        self.is_restarted = False  # a SELECT: the firmware ends the link and begins another one

    def receive(self, apdu: bytes, now: int) -> bytes:
        """The response; empty if a message is whole now.

        The firmware answers the message by `reply`.
        """
        self.is_restarted = False
        try:
            return self._receive(apdu, now)
        except CommandRejected as rejected:
            self._drop()
            return _response(rejected.status)

    @property
    def message(self) -> bytes:
        """The message that is whole."""
        return bytes(self._message)

    def reply(self, message: bytes) -> bytes:
        """The response with the beginning of the reply."""
        self._message.clear()
        is_wanted = self._buffer.reply(self._link, message)
        return self._part(self._expected) if is_wanted else _response(StatusWord.CONDITIONS)

    def leave(self) -> None:
        """The phone left the field, or was silent for 10 s."""
        self._message.clear()
        self._buffer.leave(self._link)
        self._selected = Selected.NOTHING
        self._link = NO_LINK  # another phone may have it next

    def begin(self, link: int) -> None:
        """The link after a SELECT."""
        self._link = link

    def _receive(self, apdu: bytes, now: int) -> bytes:
        if len(apdu) < SHORTEST:
            raise CommandRejected(StatusWord.LENGTH)
        kind, place = (apdu[0], apdu[1]), (apdu[2], apdu[3])
        data, self._expected = _body(apdu)
        match kind:
            case (0x00, 0xA4):
                return self._select(place, data)
            case (0x00, 0xB0):
                return self._read(place, data)
            case (0x80 | 0x90, 0x10):
                return self._collect(place, data, now, is_last=kind[0] == 0x80)
            case (0x00, 0xC0):
                return self._continue(place, data)
            case (0x00 | 0x80 | 0x90, _):
                raise CommandRejected(StatusWord.INSTRUCTION)
            case _:
                raise CommandRejected(StatusWord.CLASS)

    def _select(self, place: tuple[int, int], data: bytes) -> bytes:
        self._drop()
        if place in (_WITH_DATA, _NO_DATA):
            self._selected = Selected.NOTHING
            self.is_restarted = True
            if data == AID:
                self._selected = Selected.KEYRACK
                return _response(StatusWord.OK, b"" if place == _NO_DATA else _SELECTED)
            if data == NDEF_AID and self._url is not None:
                self._selected = Selected.NDEF
                return _response(StatusWord.OK)
            raise CommandRejected(StatusWord.NOT_FOUND)
        if place != (0x00, 0x0C):
            raise CommandRejected(StatusWord.PARAMETERS)
        if self._selected < Selected.NDEF:
            raise CommandRejected(StatusWord.CONDITIONS)
        files = {_CAPABILITIES: Selected.CAPABILITIES, _RECORD: Selected.RECORD}
        if data not in files:
            raise CommandRejected(StatusWord.NOT_FOUND)
        self._selected = files[data]
        return _response(StatusWord.OK)

    def _read(self, place: tuple[int, int], data: bytes) -> bytes:
        if self._selected < Selected.CAPABILITIES:
            raise CommandRejected(StatusWord.CONDITIONS)
        if data:
            raise CommandRejected(StatusWord.LENGTH)
        file = capability_file() if self._selected is Selected.CAPABILITIES else ndef_file(self._url or "")
        offset = int.from_bytes(bytes(place), "big")
        if offset >= len(file):
            raise CommandRejected(StatusWord.PARAMETERS)
        return _response(StatusWord.OK, file[offset : offset + self._expected])

    def _collect(self, place: tuple[int, int], data: bytes, now: int, *, is_last: bool) -> bytes:
        self._check_keyrack(place)
        if self._buffer.is_of(self._link, Phase.SENDING):
            self._drop()
        is_owner = self._buffer.is_of(self._link, Phase.RECEIVING)
        if not is_owner and (self._message or not self._buffer.claim(self._link, now)):
            raise CommandRejected(StatusWord.BUSY)  # or another link has taken the buffer
        if len(self._message) + len(data) > LONGEST or (is_last and not self._message + data):
            raise CommandRejected(StatusWord.LENGTH)
        if not is_owner:
            self._buffer.begin(self._link, now)
        self._message += data
        if not is_last:
            return _response(StatusWord.OK)
        self._buffer.complete()
        return b""

    def _continue(self, place: tuple[int, int], data: bytes) -> bytes:
        self._check_keyrack(place)
        if data:
            raise CommandRejected(StatusWord.LENGTH)
        if not self._buffer.is_of(self._link, Phase.SENDING):
            raise CommandRejected(StatusWord.INSTRUCTION)
        return self._part(self._expected)

    def _check_keyrack(self, place: tuple[int, int]) -> None:
        if self._selected is not Selected.KEYRACK:
            raise CommandRejected(StatusWord.CONDITIONS)
        if place != (0, 0):
            raise CommandRejected(StatusWord.PARAMETERS)

    def _part(self, most: int) -> bytes:
        part, rest = self._buffer.take(most), len(self._buffer.rest)
        return part + (StatusWord.MORE | min(rest, 0xFF) if rest else StatusWord.OK).to_bytes(2, "big")

    def _drop(self) -> None:
        self._message.clear()
        self._buffer.abandon(self._link)


class NfcReader:
    """The phone, which exchanges whole messages.

    `transceive` sends one APDU and returns the response.
    """

    def __init__(self, transceive: Callable[[bytes], bytes]) -> None:
        self._transceive = transceive

    def select(self) -> None:
        """Select the application. Raises `CommandRejected`, `ValueError` if the version is unknown."""
        if self._send(bytes([0x00, 0xA4, 0x04, 0x00, len(AID)]) + AID + b"\x00")[:1] != _SELECTED[:1]:
            raise ValueError("The box has another version of the application.")

    def exchange(self, message: bytes) -> bytes:
        """The reply to a message. Raises `CommandRejected`, `ValueError` if the card breaks the specification."""
        pieces = [message[at : at + 255] for at in range(0, len(message), 255)]
        for piece in pieces[:-1]:
            self._send(bytes([0x90, 0x10, 0, 0, len(piece)]) + piece)
        return self._send(bytes([0x80, 0x10, 0, 0, len(pieces[-1])]) + pieces[-1] + b"\x00")

    def _send(self, apdu: bytes) -> bytes:
        """The whole response data, collected by GET RESPONSE. The card may be another device, so it is bounded."""
        answer, status = self._one(apdu)
        while status & 0xFF00 == StatusWord.MORE and len(answer) < LONGEST:
            part, status = self._one(bytes([0x00, 0xC0, 0, 0, status & 0xFF]))
            if not part:
                raise ValueError("The card sent an empty part of a reply.")
            answer += part
        if len(answer) > LONGEST or status & 0xFF00 == StatusWord.MORE:
            raise ValueError(f"The card sent a reply of more than {LONGEST:,} bytes.")
        if status != StatusWord.OK:
            raise CommandRejected(StatusWord(status))
        return answer

    def _one(self, apdu: bytes) -> tuple[bytes, int]:
        answer = self._transceive(apdu)
        return answer[:-2], int.from_bytes(answer[-2:], "big")


def _body(apdu: bytes) -> tuple[bytes, int]:
    """The data and the expected length of a short APDU. Raises `CommandRejected`."""
    rest = apdu[SHORTEST:]
    if len(rest) <= 1:  # no data: the byte is the expected length
        return b"", _expected(rest)
    length, data = rest[0], rest[1:]
    if length == 0 or len(data) not in (length, length + 1):  # an extended length begins with 0
        raise CommandRejected(StatusWord.LENGTH)
    return data[:length], _expected(data[length:])


def _expected(byte: bytes) -> int:
    return byte[0] or _MOST_SHORT if byte else _MOST_SHORT


def _response(status: StatusWord, data: bytes = b"") -> bytes:
    return data + status.to_bytes(2, "big")
