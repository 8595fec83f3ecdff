"""A simulated radio between phones and boxes (docs/key-bluetooth.md).

It carries messages as fragments. It loses and delays some of them, ends links, and lets other phones keep the box busy,
by a seeded random.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from random import Random
from typing import Protocol

from keyrack.offline_keys.link_messages import LONGEST
from keyrack.offline_keys.transports.fragments import (
    LEAST_SIZE,
    Command,
    FragmentError,
    FragmentRejected,
    Reassembly,
    error,
    split,
)

HEAD = 3  # bytes of an ATT packet before the value
INITIAL = 0x80  # the bit of an initial fragment
REPLY_MS = 5_000  # after which a phone gives up
BUSY_PAUSES = (200, 500)  # milliseconds between two attempts at a busy box
BUSY_MS = 10_000  # after which a phone gives up at a busy box
OTHER_MOST = 4_000  # the longest time for which another phone keeps the box busy
MOST_DELAY = 4_900  # milliseconds; a phone gives up after 5,000


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
    disconnects: float = 0.0  # share in which the link ends, after any fragment or before the first one
    delays: float = 0.0  # share in which a fragment is late
    longest_delay: int = 2_000  # milliseconds that a late fragment takes at most
    busy: float = 0.0  # share that meets the message of another phone in the box

    def __post_init__(self) -> None:
        shares = (self.losses, self.disconnects, self.delays, self.busy)
        if min(shares) < 0 or sum(shares) >= 1:
            raise ValueError(f"The shares of faults are {shares}. None may be negative, and their sum must be below 1.")
        if not 0 <= self.longest_delay <= MOST_DELAY:
            raise ValueError(f"The longest delay is {self.longest_delay} ms. It must be 0 to {MOST_DELAY:,} ms.")


PERFECT = RadioConditions()
GARAGE = RadioConditions(att_mtus=(23, 185, 247), losses=0.01, disconnects=0.01, delays=0.02, busy=0.01)


class Fault(Enum):
    NONE = auto()
    LOSS = auto()
    DISCONNECT = auto()
    DELAY = auto()
    BUSY = auto()


@dataclass(frozen=True, slots=True)
class Fate:
    """The fault of one message with its reply.

    The place is a share, and no number: the length of a message differs between two runs with the same seed.
    """

    fault: Fault = Fault.NONE
    place: float = 0.0  # the first half is that of the message, the second that of the reply
    duration: float = 1.0  # of a delay or a busy box, as a share of the longest

    def of(self, half: int, number: int, count: int) -> Fault:
        """The fault of a fragment, by its half and number."""
        is_hit = number == int((2 * self.place - half) * count) and half <= 2 * self.place < half + 1
        return self.fault if is_hit else Fault.NONE


class Peripheral(Protocol):
    """A box that is connected to the phone. `at` are seconds since 1970, `now` milliseconds of the radio."""

    def join(self, at: int, now: int) -> int | None:
        """Connect another phone, and return its link.

        None if the box has no room.
        """
        ...

    def write(self, link: int, fragment: bytes, at: int, now: int) -> bool:
        """Take a fragment. Returns whether it has completed a message."""
        ...

    def notify(self, link: int, size: int, now: int) -> bytes | None:
        """The next notification, if there is one."""
        ...

    def disconnect(self, link: int) -> None:
        """End a link."""


class _Attempt:
    """One attempt of a phone to send a message, and its reply."""

    def __init__(self) -> None:
        self.sent = Sent.NONE
        self.has_arrived = False
        self.reply: bytes | None = None
        self.is_busy = False  # the box has the message of another link


class _OtherPhone:
    """A phone that sends the longest message in small fragments, slowly."""

    def __init__(self, box: Peripheral, link: int, until: int) -> None:
        self._box, self._link, self._until = box, link, until
        self._fragments = split(bytes(LONGEST), LEAST_SIZE)

    def go_on(self, at: int, now: int) -> None:
        """Send the next fragment, or leave."""
        if now < self._until:
            self._box.write(self._link, next(self._fragments), at, now)
        else:
            self.leave()

    def leave(self) -> None:
        self._box.disconnect(self._link)


class Radio:
    """Carries one message and its reply at a time."""

    def __init__(self, conditions: RadioConditions, random: Random) -> None:
        self.conditions, self._random = conditions, random
        self.clock = 0  # milliseconds of the radio

    def now(self, at: float) -> int:
        """The milliseconds of the radio at a time in seconds since 1970. They never go back."""
        self.clock = max(self.clock, int(at * 1_000))
        return self.clock

    def size(self) -> int:
        """The maximum bytes of a fragment, for a phone that connects."""
        return self._random.choice(self.conditions.att_mtus) - HEAD

    def exchange(self, box: Peripheral, link: int, message: bytes, at: int) -> bytes:
        """The reply of the box. Raises `TransportLost`, and the link has ended then."""
        began = self.now(at)
        size, fate = self.size(), self.fate()
        other = self._other_phone(box, at, fate) if fate.fault is Fault.BUSY else None
        try:
            attempt = self._attempt(box, link, message, size, fate, at)
            while attempt.is_busy and self.clock - began < BUSY_MS:
                self.clock += self._random.randint(*BUSY_PAUSES)
                if other is not None:
                    other.go_on(at, self.clock)
                attempt = self._attempt(box, link, message, size, fate, at)
        finally:
            if other is not None:
                other.leave()
        if attempt.reply is not None:
            return attempt.reply
        self.clock += REPLY_MS
        box.disconnect(link)
        raise TransportLost(attempt.sent, has_arrived=attempt.has_arrived)

    def _other_phone(self, box: Peripheral, at: int, fate: Fate) -> _OtherPhone | None:
        """Another phone that has begun a message.

        None if the box has no room for its link.
        """
        link = box.join(at, self.clock)
        if link is None:
            return None
        other = _OtherPhone(box, link, self.clock + int(fate.duration * OTHER_MOST))
        other.go_on(at, self.clock)
        return other

    def _attempt(self, box: Peripheral, link: int, message: bytes, size: int, fate: Fate, at: int) -> _Attempt:
        """Write the fragments until an error comes, and collect the reply."""
        attempt, fragments = _Attempt(), list(split(message, size))
        for number, fragment in enumerate(fragments, 1):
            self.clock += self.conditions.round_trip
            fault = fate.of(0, number - 1, len(fragments))
            if fault is Fault.DISCONNECT:
                return attempt
            attempt.sent = Sent.ALL if number == len(fragments) else Sent.PART
            if fault is Fault.LOSS:
                continue
            self.clock += self.delay(fault, fate)
            if box.write(link, fragment, at, self.clock):
                attempt.has_arrived = True
            elif (notification := box.notify(link, size, self.clock)) is not None:
                attempt.is_busy = notification == error(FragmentError.BUSY)
                return attempt
        attempt.reply = self._reply(box, link, size, fate)
        return attempt

    def _reply(self, box: Peripheral, link: int, size: int, fate: Fate) -> bytes | None:
        """The whole reply, or None if the phone does not get it."""
        fragments = list(iter(lambda: box.notify(link, size, self.clock), None))
        reassembly = Reassembly(Command.MESSAGE, Command.ERROR)
        for number, fragment in enumerate(fragments):
            self.clock += self.conditions.round_trip // 2
            fault = fate.of(1, number, len(fragments))
            if fault is Fault.DISCONNECT:
                return None
            if fault is Fault.LOSS:
                continue
            self.clock += self.delay(fault, fate)
            try:
                whole = reassembly.accept(fragment, self.clock)
            except FragmentRejected:
                return None
            if whole is not None:
                return whole.data if whole.command is Command.MESSAGE else None
        return None

    def delay(self, fault: Fault, fate: Fate) -> int:
        """Milliseconds by which a fragment is late."""
        return int(fate.duration * self.conditions.longest_delay) if fault is Fault.DELAY else 0

    def fate(self) -> Fate:
        """Draw the fate of a message."""
        chance, place, duration = (self._random.random() for _ in range(3))
        conditions = self.conditions
        for fault, share in (
            (Fault.LOSS, conditions.losses),
            (Fault.DISCONNECT, conditions.disconnects),
            (Fault.DELAY, conditions.delays),
            (Fault.BUSY, conditions.busy),
        ):
            if chance < share:
                return Fate(fault, place, duration)
            chance -= share
        return Fate()


def is_initial(fragment: bytes) -> bool:
    """Whether a fragment begins a message."""
    return len(fragment) >= HEAD and bool(fragment[0] & INITIAL)


@dataclass(frozen=True, slots=True)
class Heard:
    """The result of one written fragment."""

    milliseconds: int  # that the fragment and the notifications took
    fragments: tuple[bytes, ...] = ()  # the notifications that the phone gets
    has_ended: bool = False  # the link


@dataclass(slots=True)
class FragmentLink:
    """The link of a phone that splits its messages itself.

    A fragment takes time of the radio alone: a slow network before the radio causes no gap between fragments.
    """

    radio: Radio
    box: Peripheral
    link: int
    size: int
    _fate: Fate = field(default_factory=Fate)
    _number: int = 0  # of the next fragment of the message
    _count: int = 1  # of its fragments
    _busy_until: int = 0

    def write(self, fragment: bytes, at: float) -> Heard:
        """Write a fragment. `at` are seconds since 1970."""
        radio = self.radio
        is_first = is_initial(fragment)
        began = radio.now(at) if is_first else radio.clock
        if is_first:
            self._begin(int.from_bytes(fragment[1:3], "big"))
        fault = self._fate.of(0, self._number, self._count)
        self._number += 1
        radio.clock += radio.conditions.round_trip
        if radio.clock < self._busy_until:
            return Heard(radio.clock - began, (error(FragmentError.BUSY),) if is_first else ())
        if fault is Fault.DISCONNECT:
            return Heard(radio.clock - began, has_ended=True)
        if fault is Fault.LOSS:
            return Heard(radio.clock - began)
        radio.clock += radio.delay(fault, self._fate)
        is_whole = self.box.write(self.link, fragment, int(at), radio.clock)
        fragments = list(iter(lambda: self.box.notify(self.link, self.size, radio.clock), None))
        return self._reply(fragments, began) if is_whole else Heard(radio.clock - began, tuple(fragments))

    def _begin(self, length: int) -> None:
        """Draw the fate of a message and of its reply."""
        following = max(0, length - (self.size - 3))  # bytes after the initial fragment
        self._number, self._count = 0, 1 + -(-following // (self.size - 1))
        if self.radio.clock < self._busy_until:
            return  # another attempt at the same message
        self._fate = self.radio.fate()
        if self._fate.fault is Fault.BUSY:
            self._busy_until = self.radio.clock + int(self._fate.duration * OTHER_MOST)

    def _reply(self, fragments: list[bytes], began: int) -> Heard:
        """The fragments of a reply that arrive."""
        radio, heard = self.radio, list[bytes]()
        for number, fragment in enumerate(fragments):
            radio.clock += radio.conditions.round_trip // 2
            fault = self._fate.of(1, number, len(fragments))
            if fault is Fault.DISCONNECT:
                return Heard(radio.clock - began, tuple(heard), has_ended=True)
            if fault is not Fault.LOSS:
                radio.clock += radio.delay(fault, self._fate)
                heard.append(fragment)
        return Heard(radio.clock - began, tuple(heard))
