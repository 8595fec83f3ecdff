"""Fragments of a message on a Bluetooth link, as in docs/key-bluetooth.md.

The form is that of FIDO's CTAP over Bluetooth: an initial fragment with command and length, then numbered ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from keyrack.offline_keys.link_messages import LONGEST

LEAST_SIZE = 20  # bytes of a fragment at the smallest ATT_MTU, 23
MOST_SIZE = 512  # the longest value of an attribute
GAP_MS = 1_000  # the longest time between two fragments
WHOLE_MS = 10_000  # the longest time from the first fragment to the last
_HEAD = 3  # bytes before the data of an initial fragment
_SEQUENCES = 128


class Command(IntEnum):
    KEEP_ALIVE = 0x82
    MESSAGE = 0x83
    ERROR = 0xBF


class FragmentError(IntEnum):
    """Why a receiver rejects a fragment."""

    COMMAND = 1
    LENGTH = 3
    SEQUENCE = 4
    TIMEOUT = 5
    BUSY = 6
    OTHER = 0x7F


class FragmentRejected(Exception):
    """The receiver keeps nothing of the message."""

    def __init__(self, code: FragmentError) -> None:
        super().__init__(code.name)
        self.code = code


class Whole(NamedTuple):
    """The content of all fragments of one command."""

    command: Command
    data: bytes


LENGTHS = {Command.MESSAGE: LONGEST, Command.KEEP_ALIVE: 1, Command.ERROR: 1}  # the longest data of each command
KEEP_ALIVE = bytes([Command.KEEP_ALIVE, 0, 1, 1])  # the box is processing a message


def error(code: FragmentError) -> bytes:
    """The fragment that reports an error."""
    return bytes([Command.ERROR, 0, 1, code])


def split(message: bytes, size: int) -> Iterator[bytes]:
    """The fragments of a message of 1 to 2,048 bytes. Each has at most `size` bytes, which is at least 20."""
    first = size - _HEAD
    yield bytes([Command.MESSAGE]) + len(message).to_bytes(2, "big") + message[:first]
    for number, at in enumerate(range(first, len(message), size - 1)):
        yield bytes([number % _SEQUENCES]) + message[at : at + size - 1]


class Reassembly:
    """One direction of a link. `commands` are those that the other side may send. Times are in milliseconds."""

    def __init__(self, *commands: Command) -> None:
        self._commands = commands
        self.clear()

    def clear(self) -> None:
        """Drop the received part of a message."""
        self._command: Command | None = None
        self._data = bytearray()
        self._length = self._sequence = self._began = self._last = 0

    @property
    def is_open(self) -> bool:
        """Whether a message is incomplete."""
        return self._command is not None

    def is_late(self, now: int) -> bool:
        """Whether the rest of a message has not come in time."""
        return self.is_open and (now - self._last > GAP_MS or now - self._began > WHOLE_MS)

    def accept(self, fragment: bytes, now: int) -> Whole | None:
        """The whole message with its last fragment, else None. Raises `FragmentRejected`."""
        try:
            return self._accept(fragment, now)
        except FragmentRejected:
            self.clear()
            raise

    def _accept(self, fragment: bytes, now: int) -> Whole | None:
        if self.is_late(now):
            raise FragmentRejected(FragmentError.TIMEOUT)
        if not fragment:
            raise FragmentRejected(FragmentError.LENGTH)
        self._append(self._initial(fragment, now) if fragment[0] & 0x80 else self._continuation(fragment), now)
        if self._command is None or len(self._data) < self._length:
            return None
        whole = Whole(self._command, bytes(self._data))
        self.clear()
        return whole

    def _initial(self, fragment: bytes, now: int) -> bytes:
        """The data of an initial fragment."""
        if self.is_open:
            raise FragmentRejected(FragmentError.SEQUENCE)
        command = next((each for each in self._commands if each == fragment[0]), None)
        if command is None:
            raise FragmentRejected(FragmentError.COMMAND)
        length = int.from_bytes(fragment[1:_HEAD], "big")
        if len(fragment) < _HEAD or not 1 <= length <= LENGTHS[command]:
            raise FragmentRejected(FragmentError.LENGTH)
        self._command, self._length, self._began = command, length, now
        return fragment[_HEAD:]

    def _continuation(self, fragment: bytes) -> bytes:
        """The data of a continuation."""
        if not self.is_open or fragment[0] != self._sequence:
            raise FragmentRejected(FragmentError.SEQUENCE)
        if len(fragment) == 1:
            raise FragmentRejected(FragmentError.LENGTH)
        self._sequence = (self._sequence + 1) % _SEQUENCES
        return fragment[1:]

    def _append(self, data: bytes, now: int) -> None:
        if len(self._data) + len(data) > self._length:
            raise FragmentRejected(FragmentError.LENGTH)
        self._data += data
        self._last = now
