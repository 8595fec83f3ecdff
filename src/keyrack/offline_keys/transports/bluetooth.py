"""The Bluetooth side of a box (docs/key-bluetooth.md): three links, one buffer.

The firmware owns the radio. It passes on connections and written values, sends what `next_fragment` returns, and ends
the links that `tick` returns. Times are milliseconds of a counter that runs while there is power.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from keyrack.offline_keys.box.state import LINKS
from keyrack.offline_keys.transports import fragments
from keyrack.offline_keys.transports.fragments import (
    KEEP_ALIVE,
    Command,
    FragmentError,
    FragmentRejected,
    Reassembly,
    error,
)
from keyrack.offline_keys.transports.message_buffer import MessageBuffer, Phase

UUID = "6e5a{:04x}-ecb0-4fec-829a-1d65e43caf56"
SERVICE, TO_BOX, FROM_BOX, SIZE = (UUID.format(number) for number in (1, 2, 3, 4))
FIRST_MESSAGE_MS = 5_000  # from the connection to the first whole message, or from a refusal as busy to the next
IDLE_MS = 15_000  # between messages of a link that has proven no key since its connection
PROVEN_IDLE_MS = 30_000  # of a link that has
UNPROVEN_MS = 30_000  # from the connection to the proof of a key
LONGEST_MS = 300_000  # of a link: else drivers who stay would shut out the list that revokes their keys
REPLY_MS = 5_000  # to take a reply
KEEP_ALIVE_MS = 500


@dataclass(slots=True)
class _Link:
    connected_at: int
    drop_at: int  # unless a message comes before
    has_proven: bool = False  # a key, since the connection
    failure: FragmentError | None = None  # the error to report next
    reassembly: Reassembly = field(default_factory=lambda: Reassembly(Command.MESSAGE))


def size_value(att_mtu: int) -> bytes:
    """The value of the characteristic `size` on this connection.

    It has a version and the maximum bytes of a fragment.
    """
    most = min(max(att_mtu - 3, fragments.LEAST_SIZE), fragments.MOST_SIZE)
    return b"\x01" + most.to_bytes(2, "big")


class BoxBluetooth:
    """The links of a box over Bluetooth. Link numbers are those of `firmware.connect`."""

    def __init__(self, buffer: MessageBuffer) -> None:
        self._buffer = buffer
        self._links: list[_Link | None] = [None] * LINKS
        self._sequence = self._busy_since = self._reply_until = 0  # of the message in the buffer

    def connect(self, link: int, now: int) -> None:
        """A connection begins on this link."""
        self.disconnect(link)
        self._links[link] = _Link(now, now + FIRST_MESSAGE_MS)

    def disconnect(self, link: int) -> None:
        """The connection of this link has ended."""
        self._links[link] = None
        self._buffer.leave(link)

    def write(self, link: int, fragment: bytes, now: int) -> bytes | None:
        """A fragment was written. Returns the message if it is whole now: the firmware answers it by `reply`."""
        state = self._links[link]
        if state is None:
            return None
        self._expire(now)
        if state.failure is FragmentError.TIMEOUT:
            return None  # the fragment belongs to the message that was late
        is_first = not state.reassembly.is_open
        if is_first and not self._buffer.claim(link, now):
            state.drop_at = max(state.drop_at, now + FIRST_MESSAGE_MS)
            return self._fail(link, state, FragmentError.BUSY)
        if not is_first and not self._buffer.is_of(link, Phase.RECEIVING):  # another link has taken the buffer
            return self._fail(link, state, FragmentError.TIMEOUT)
        try:
            whole = state.reassembly.accept(fragment, now)
        except FragmentRejected as rejected:
            return self._fail(link, state, rejected.code)
        if is_first:  # only a valid fragment takes the buffer
            self._buffer.begin(link, now)
        if whole is None:
            return None
        self._buffer.complete()
        self._busy_since = now
        return whole.data

    def reply(self, link: int, message: bytes, now: int, *, is_proven: bool) -> None:
        """Answer the message of this link. `is_proven` is whether the link has proven possession of a key by now."""
        state = self._links[link]
        if not self._buffer.reply(link, message) or state is None:
            return
        state.has_proven = state.has_proven or is_proven  # a hello ends the proof, but not the place of the link
        state.drop_at = now + (PROVEN_IDLE_MS if state.has_proven else IDLE_MS)
        self._reply_until = now + REPLY_MS
        self._sequence = -1

    def next_fragment(self, link: int, size: int, now: int) -> bytes | None:
        """The next notification for this link, or None. It has at most `size` bytes, which is at least 20."""
        state = self._links[link]
        if state is None or size < fragments.LEAST_SIZE:
            return None
        if state.failure is not None:
            code, state.failure = state.failure, None
            return error(code)
        if self._buffer.is_of(link, Phase.SENDING):
            return self._next_of_reply(size)
        if self._buffer.is_of(link, Phase.PROCESSING) and now - self._busy_since >= KEEP_ALIVE_MS:
            self._busy_since = now
            return KEEP_ALIVE
        return None

    def tick(self, now: int) -> list[int]:
        """Drop messages that are late. Returns the links that the firmware has to end."""
        self._expire(now)
        return [link for link, state in enumerate(self._links) if state and self._is_due(link, state, now)]

    @property
    def has_room(self) -> bool:
        """Whether another link may connect, so that the box advertises."""
        return None in self._links

    def _next_of_reply(self, size: int) -> bytes:
        self._sequence += 1
        if self._sequence == 0:
            length = len(self._buffer.rest)
            return bytes([Command.MESSAGE]) + length.to_bytes(2, "big") + self._buffer.take(size - 3)
        return bytes([(self._sequence - 1) % 128]) + self._buffer.take(size - 1)

    def _fail(self, link: int, state: _Link, code: FragmentError) -> None:
        """Report an error next. The message or the reply of this link ends."""
        state.failure = code
        state.reassembly.clear()
        self._buffer.abandon(link)

    def _expire(self, now: int) -> None:
        for link, state in enumerate(self._links):
            if state and state.reassembly.is_late(now):
                self._fail(link, state, FragmentError.TIMEOUT)

    def _is_due(self, link: int, state: _Link, now: int) -> bool:
        """Whether this link has to end, so that others find a place."""
        if self._buffer.is_of(link, Phase.PROCESSING):
            return False
        is_stuck = self._buffer.is_of(link, Phase.SENDING) and now >= self._reply_until
        most = LONGEST_MS if state.has_proven else UNPROVEN_MS
        return is_stuck or now >= min(state.connected_at + most, state.drop_at)
