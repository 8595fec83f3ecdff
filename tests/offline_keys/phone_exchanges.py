"""Random exchanges between a phone in C and a box.

The radio has faults.

The packets of each direction keep their order, as on a real link. The checks compare the phone's report of a message
with what the box did.

`python -m tests.offline_keys.phone_exchanges LIBRARY PHONES CONNECTIONS SEED` compares phones, then runs
exchanges, with a built library.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from random import Random

from keyrack.offline_keys.link_messages import LONGEST
from keyrack.offline_keys.transports.bluetooth import BoxBluetooth, size_value
from keyrack.offline_keys.transports.fragments import split
from keyrack.offline_keys.transports.message_buffer import MessageBuffer
from tests.offline_keys import c_phone, phone_comparison
from tests.offline_keys.c_phone_bluetooth import CPhoneBluetooth, Exchange, Sent
from tests.offline_keys.c_transports import CBluetooth

TICK_MS = 100
MOST_MS = 10_000 + 5_000 + 20_000  # of an exchange: a busy box, the write before, then the reply
PHONE, STRANGER = 0, 1  # links
INITIAL = 0x80  # the bit of the first fragment of a message
Box = BoxBluetooth | CBluetooth


def python_box() -> Box:
    return BoxBluetooth(MessageBuffer())


def reply_to(message: bytes) -> bytes:
    """Another message, as long as its first two bytes say."""
    length = 1 + int.from_bytes(message[:2], "big") % LONGEST
    return (message[::-1] * (length // len(message) + 1))[:length]


class Fault(Exception):
    """The phone's report is wrong."""


class Air:
    """One phone and one stranger at a box. `faults` is the share of packets that are lost or damaged."""

    def __init__(self, built: ctypes.CDLL, box: Box, random: Random) -> None:
        self.random, self.box, self.now = random, box, 0
        self.phone = CPhoneBluetooth(built)
        self.processed: list[bytes] = []
        self.is_damaged = False
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = count()
        self._free_at = [0, 0]  # the arrival of the last packet to the box, to the phone
        self._delay = random.choice((1, 15, 15, 100, 600))
        self._faults = random.choice((0, 0, 0, 0.02, 0.2))
        self._damages = random.choice((0, 0, 0, 0.1))
        self._processing = random.choice((0, 0, 50, 700, 6_000, 25_000))
        self._with_response = random.random() < 0.7
        self.size = random.choice((23, 24, 185, 247, 515)) - 3
        self._is_up, self._was_busy = True, False
        self._stranger: Iterator[bytes] = iter(())

    def exchange(self, message: bytes) -> Exchange:
        """Send a message, and let time pass until the exchange ends."""
        began = self.now
        self.processed.clear()
        assert self.phone.send(message, self.now)
        while (result := self.phone.tick(self.now)) is Exchange.RUNNING:
            self._write()
            if not self._events:
                raise Fault("Nothing happens any more.")
            self.now, _, event = heappop(self._events)
            event()
        self._check(message, result, self.now - began)
        return result

    def begin(self) -> None:
        for link in (PHONE, STRANGER):
            self.box.connect(link, self.now)
        assert self.phone.connect(size_value(self.size + 3), self.random.getrandbits(32))
        self._at(TICK_MS, self._tick)
        if self.random.random() < 0.3:
            self._at(self.random.randrange(20_000), self._end)
        if self.random.random() < 0.4:
            self._at(self.random.randrange(300), self._write_as_stranger)

    def _check(self, message: bytes, result: Exchange, duration: int) -> None:
        sent, is_repeated = self.phone.sent, self._was_busy
        self._was_busy = result is Exchange.BUSY
        if is_repeated:  # a late busy may belong to the message before; the next one is a hello, which may come twice
            self.processed = self.processed[:1]
        is_true = {
            Exchange.REPLY: self.processed == [message] and self.phone.reply == reply_to(message),
            Exchange.BUSY: self.processed == [] and sent is Sent.NONE and self._is_up,
            Exchange.LOST: self.processed in ([], [message]) if sent is Sent.ALL else self.processed == [],
        }
        if not (is_true[result] or self.is_damaged) or duration > MOST_MS:
            raise Fault(f"{result.name} {sent.name}, {duration} ms, {len(self.processed)} messages")

    def _at(self, after: int, event: Callable[[], None]) -> None:
        heappush(self._events, (self.now + after, next(self._numbers), event))

    def _carry(self, direction: int, event: Callable[[], None]) -> None:
        """A packet that arrives after the one before."""
        arrival = max(self._free_at[direction], self.now + self.random.randint(0, self._delay))
        self._free_at[direction] = arrival
        self._at(arrival - self.now, lambda: self._is_up and event())

    def _is_faulty(self) -> bool:
        return self.random.random() < self._faults

    def _write(self) -> None:
        while (fragment := self.phone.next(self.now)) is not None:
            needs_response = self._with_response or fragment[0] >= INITIAL  # else a late busy gives a message twice
            if not self._is_faulty():
                self._carry(0, functools.partial(self._arrive, fragment, needs_response=needs_response))
            if needs_response:
                return
            self.phone.written(self.now)

    def _arrive(self, fragment: bytes, *, needs_response: bool) -> None:
        message = self.box.write(PHONE, fragment, self.now)
        if needs_response and not self._is_faulty():
            self._carry(1, lambda: self.phone.written(self.now))
        if message is not None:
            self.processed.append(message)
            self._at(self._processing, lambda: self._reply(message))
        self._notify()

    def _reply(self, message: bytes) -> None:
        self.box.reply(PHONE, reply_to(message), self.now, is_proven=False)
        self._notify()

    def _notify(self) -> None:
        while self._is_up and (fragment := self.box.next_fragment(PHONE, self.size, self.now)) is not None:
            if self.random.random() < self._damages:
                fragment = self._damaged(fragment)
            if not self._is_faulty():
                self._carry(1, functools.partial(self._receive, fragment))

    def _receive(self, fragment: bytes) -> None:
        self.phone.receive(fragment, self.now)

    def _damaged(self, fragment: bytes) -> bytes:
        self.is_damaged = True
        random = self.random
        place = random.randrange(len(fragment))
        changed = fragment[:place] + bytes([fragment[place] ^ 1 << random.randrange(8)]) + fragment[place + 1 :]
        return random.choice((changed, changed, fragment[:place], fragment + b"\0", random.randbytes(place)))

    def _tick(self) -> None:
        for link in self.box.tick(self.now):
            if link == PHONE:
                self._end()
            else:
                self.box.disconnect(link)
                self.box.connect(link, self.now)
        self._notify()
        self._at(TICK_MS, self._tick)

    def _end(self) -> None:
        if self._is_up:
            self._is_up = False
            self.box.disconnect(PHONE)
            self.phone.lose()

    def _write_as_stranger(self) -> None:
        """Messages of another phone, slowly or fast."""
        fragment = next(self._stranger, None)
        if fragment is None:
            self._stranger = split(bytes(self.random.randint(1, 400)), 20)
            fragment = next(self._stranger)
        if self.box.write(STRANGER, fragment, self.now) is not None:
            self._at(self._processing, self._reply_to_stranger)
        while self.box.next_fragment(STRANGER, 20, self.now) is not None:
            pass
        self._at(self.random.choice((1, 50, 700, 950)), self._write_as_stranger)

    def _reply_to_stranger(self) -> None:
        self.box.reply(STRANGER, b"reply", self.now, is_proven=False)
        while self.box.next_fragment(STRANGER, 20, self.now) is not None:
            pass


def run(built: ctypes.CDLL, new_box: Callable[[], Box], number: int, seed: int) -> Counter[str]:
    """The results of so many connections, each with some messages. Raises `Fault`."""
    results = Counter[str]()
    for each in range(number):
        random = Random(f"{seed} {each}")
        air = Air(built, new_box(), random)
        air.begin()
        try:
            for _ in range(random.randint(1, 3)):
                message = random.randbytes(random.choice((1, 5, 16, 17, 18, 40, 180, 600, LONGEST)))
                result = air.exchange(message)
                results[f"{result.name} {air.phone.sent.name}" if result is Exchange.LOST else result.name] += 1
                if result is Exchange.LOST:
                    break
        except Exception as error:
            raise Fault(f"seed {seed}, connection {each}: {error}") from error
    return results


def main(library: str, twins: str, number: str, seed: str) -> None:
    """Conversations and exchanges of the phone in C."""
    built = c_phone.library(Path(library))
    ends = Counter(phone_comparison.run(built, int(twins), int(seed)))
    results = run(built, python_box, int(number), int(seed))
    print(f"{twins} phones: {dict(sorted(ends.items()))}")
    print(f"{number} connections: {dict(sorted(results.items()))}")


if __name__ == "__main__":
    main(*sys.argv[1:])
