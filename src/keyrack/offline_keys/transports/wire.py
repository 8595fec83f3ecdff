"""Frames on a wire between tool and box (docs/key-wire.md).

A frame is COBS of message and CRC-32, and a zero byte.
"""

from __future__ import annotations

import zlib

from keyrack.offline_keys.link_messages import LONGEST

DELIMITER = b"\x00"
NEW_LINK = DELIMITER + DELIMITER  # ends what was on the wire, and begins a link by an empty frame
_CHECKSUM = 4  # bytes
_RUN = 254  # bytes of the longest run without a zero
LONGEST_FRAME = LONGEST + _CHECKSUM + (LONGEST + _CHECKSUM) // _RUN + 1  # bytes before the delimiter


def frame(message: bytes) -> bytes:
    """The frame of a message, with its delimiter."""
    return cobs(message + zlib.crc32(message).to_bytes(_CHECKSUM, "big")) + DELIMITER


def cobs(data: bytes) -> bytes:
    """Consistent overhead byte stuffing: the same data without a zero byte."""
    out = bytearray()
    parts = data.split(DELIMITER)
    for number, part in enumerate(parts, 1):
        full = len(part) - len(part) % _RUN
        for at in range(0, full, _RUN):
            out += b"\xff" + part[at : at + _RUN]
        if full < len(part) or not full or number < len(parts):  # a full run at the end needs no further block
            out += bytes([len(part) - full + 1]) + part[full:]
    return bytes(out)


def uncobs(data: bytes) -> bytes:
    """The data before `cobs`. Raises `ValueError`."""
    out, at = bytearray(), 0
    while at < len(data):
        length = data[at]
        if length == 0 or at + length > len(data):
            raise ValueError("A block is cut off.")
        out += data[at + 1 : at + length]
        at += length
        if length <= _RUN and at < len(data):
            out += DELIMITER
    return bytes(out)


class Deframer:
    """The frames of a stream of bytes."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._is_too_long = False

    def feed(self, received: bytes) -> list[bytes]:
        """The messages of the frames that are whole now, in order.

        A message is empty for an empty frame. A frame that is too long or damaged is dropped.
        """
        *ended, last = received.split(DELIMITER)
        messages = [message for part in ended if (message := self._end(part)) is not None]
        self._append(last)
        return messages

    def _append(self, part: bytes) -> None:
        self._is_too_long = self._is_too_long or len(self._data) + len(part) > LONGEST_FRAME
        self._data = bytearray() if self._is_too_long else self._data + part

    def _end(self, part: bytes) -> bytes | None:
        self._append(part)
        data, is_too_long = bytes(self._data), self._is_too_long
        self._data, self._is_too_long = bytearray(), False
        if is_too_long:
            return None
        return _message(data) if data else b""


def _message(data: bytes) -> bytes | None:
    """The message of a frame; None if it is damaged."""
    try:
        whole = uncobs(data)
    except ValueError:
        return None
    message, checksum = whole[:-_CHECKSUM], whole[-_CHECKSUM:]
    is_valid = 1 <= len(message) <= LONGEST and zlib.crc32(message).to_bytes(_CHECKSUM, "big") == checksum
    return message if is_valid else None
