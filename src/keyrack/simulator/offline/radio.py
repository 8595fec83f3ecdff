"""A simulated radio between phones and boxes (docs/key-bluetooth.md).

It carries messages as fragments. It loses some of them, and ends some connections, by a seeded random.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from random import Random
from typing import Protocol

from keyrack.offline_keys.transports.fragments import Command, FragmentRejected, Reassembly, split

HEAD = 3  # bytes of an ATT packet before the value
REPLY_MS = 5_000  # after which a phone gives up


class Sent(Enum):
    """How much of a message the phone has written."""

    NONE = auto()
    PART = auto()
    ALL = auto()


class TransportLost(Exception):
    """The connection has ended without a reply.

    `has_arrived` is whether the box has processed the message, which the phone cannot know.
    """

    def __init__(self, sent: Sent, *, has_arrived: bool = False) -> None:
        super().__init__(sent.name)
        self.sent = sent
        self.has_arrived = has_arrived


@dataclass(frozen=True, slots=True)
class RadioConditions:
    """The quality of a radio. Shares are of all messages, each with its reply."""

    att_mtus: tuple[int, ...] = (247,)  # one of them for each message, since an ATT_MTU may grow
    round_trip: int = 30  # milliseconds
    losses: float = 0.0  # share in which a fragment is lost
    disconnects: float = 0.0  # share in which the connection ends


PERFECT = RadioConditions()
GARAGE = RadioConditions(att_mtus=(23, 185, 247), losses=0.01, disconnects=0.01)


class Fault(Enum):
    NONE = auto()
    LOSS = auto()
    DISCONNECT = auto()


@dataclass(frozen=True, slots=True)
class Fate:
    """The fault of one message with its reply.

    The place is a share, and no number: the length of a message differs between two runs with the same seed.
    """

    fault: Fault = Fault.NONE
    place: float = 0.0  # the first half is that of the message, the second that of the reply

    def of(self, half: int, number: int, count: int) -> Fault:
        """The fault of a fragment, by its half and number."""
        is_hit = number == int((2 * self.place - half) * count) and half <= 2 * self.place < half + 1
        return self.fault if is_hit else Fault.NONE


class Peripheral(Protocol):
    """A box that is connected to the phone. `at` are seconds since 1970, `now` milliseconds of the radio."""

    def write(self, link: int, fragment: bytes, at: int, now: int) -> bool:
        """Take a fragment. Returns whether it has completed a message."""
        ...

    def notify(self, link: int, size: int, now: int) -> bytes | None:
        """The next notification, if there is one."""
        ...

    def disconnect(self, link: int) -> None:
        """End a link."""


class Radio:
    """Carries one message and its reply at a time."""

    def __init__(self, conditions: RadioConditions, random: Random) -> None:
        self._conditions, self._random = conditions, random
        self._now = 0

    def now(self, at: int) -> int:
        """The milliseconds of the radio at a time in seconds since 1970. They never go back."""
        self._now = max(self._now, at * 1_000)
        return self._now

    def exchange(self, box: Peripheral, link: int, message: bytes, at: int) -> bytes:
        """The reply of the box. Raises `TransportLost`, and the link has ended then."""
        self.now(at)
        size, fate = self._random.choice(self._conditions.att_mtus) - HEAD, self._fate()
        fragments, has_arrived, sent = list(split(message, size)), False, Sent.NONE
        for number, fragment in enumerate(fragments):
            self._now += self._conditions.round_trip
            fault = fate.of(0, number, len(fragments))
            if fault is Fault.DISCONNECT:
                break
            sent = Sent.PART
            if fault is Fault.NONE:
                has_arrived |= box.write(link, fragment, at, self._now)
        else:
            sent = Sent.ALL
            reply = self._reply(box, link, size, fate)
            if reply is not None:
                return reply
        self._now += REPLY_MS
        box.disconnect(link)
        raise TransportLost(sent, has_arrived=has_arrived)

    def _reply(self, box: Peripheral, link: int, size: int, fate: Fate) -> bytes | None:
        """The whole reply, or None if the phone does not get it."""
        fragments = list(iter(lambda: box.notify(link, size, self._now), None))
        reassembly = Reassembly(Command.MESSAGE, Command.ERROR)
        for number, fragment in enumerate(fragments):
            self._now += self._conditions.round_trip // 2
            fault = fate.of(1, number, len(fragments))
            if fault is Fault.DISCONNECT:
                return None
            if fault is Fault.LOSS:
                continue
            try:
                whole = reassembly.accept(fragment, self._now)
            except FragmentRejected:
                return None
            if whole is not None:
                return whole.data if whole.command is Command.MESSAGE else None
        return None

    def _fate(self) -> Fate:
        chance, place = self._random.random(), self._random.random()
        if chance < self._conditions.losses:
            return Fate(Fault.LOSS, place)
        if chance < self._conditions.losses + self._conditions.disconnects:
            return Fate(Fault.DISCONNECT, place)
        return Fate()
