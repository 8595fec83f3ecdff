"""A comparison of the boxes in Python and C.

The signatures of both are stubbed.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, fields

from keyrack.offline_keys.box import firmware
from keyrack.offline_keys.box.state import BoxLogState, BoxMemory, PersistentState, VolatileState
from keyrack.offline_keys.public_key import PublicKey
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.offline_keys import c_structs
from tests.offline_keys.c_box import CBox
from tests.offline_keys.c_structs import PLACES, BoxInC

REMEMBERED = 20_000
SIZE = ctypes.sizeof(BoxInC)
POINTERS = BoxInC.kept.offset  # the pointers before it are not compared


class Differ(AssertionError):
    """The two boxes differ."""


def _differences(ours: PersistentState | VolatileState, theirs: PersistentState | VolatileState) -> Iterator[str]:
    for field in fields(ours):
        if (one := getattr(ours, field.name)) != (other := getattr(theirs, field.name)):
            yield f"{field.name}: Python {one}, C {other}"


class Stub:
    """The cryptography of the box in Python, stubbed as for the one in C."""

    def sign(self, message: bytes) -> bytes:
        return hashlib.sha256(message).digest() * 2

    def verify(self, public: PublicKey, message: bytes, signature: bytes) -> bool:
        return signature[0] != 255


@dataclass(frozen=True, eq=False, slots=True)
class Beginning:
    """A state from which both boxes begin again and again."""

    state: BoxMemory
    image: bytes  # bytes of the struct


class Rivals:
    def __init__(self, built: ctypes.CDLL, private_key: bytes, state: BoxMemory, tick: int) -> None:
        self._c = CBox(built, private_key, stubbed=True)
        self._stub = Stub()
        self.reply = b""  # the last one
        self.change(state, tick)

    def change(self, state: BoxMemory, tick: int) -> None:
        """Let both boxes begin with this state from now on."""
        self._c.load(state, tick)
        self._beginning = Beginning(state, ctypes.string_at(ctypes.addressof(self._c.test), SIZE))
        self._seen: dict[bytes, BoxMemory] = {}
        self._state = state

    def begin(self) -> None:
        """Put both boxes into that state again."""
        test, log = self._c.test, self._beginning.state.kept.log
        for number in range(log.next, test.box.kept.next):  # these places had other entries before
            if number - PLACES >= log.first:
                c_structs.put_entry(test, number, log.entries[number - PLACES - log.first])
        ctypes.memmove(ctypes.addressof(test), self._beginning.image, SIZE)
        self._state = self._beginning.state

    @property
    def log(self) -> BoxLogState:
        return self._state.kept.log

    @property
    def links(self) -> list[int]:
        """The connected links."""
        return [place for place, link in enumerate(self._state.running.links) if link.connection]

    def connect(self, tick: int) -> None:
        """Begin a connection. Raises `Differ`."""
        self._state, place = firmware.connect(self._state, tick)
        if place != (other := self._c.connect(tick)):
            raise Differ(f"link: Python {place}, C {other}")
        self._compare(self._state, tick)

    def start(self, elapsed: int | None, tick: int) -> None:
        """Start both boxes after a power loss. Raises `Differ`."""
        self._state = firmware.start(self._state.kept, tick, elapsed, self._stub)
        if not self._c.start(elapsed, tick):
            raise Differ("C does not start")
        self._compare(self._state, tick)

    def disconnect(self, link: int) -> None:
        self._state = firmware.disconnect(self._state, link)
        self._c.disconnect(link)

    def receive(self, link: int, message: bytes, tick: int, random: bytes) -> BoxRefusalCode:
        """The code of a message. Raises `Differ`."""
        ours = firmware.receive(self._state, link, message, tick, random, self._stub)
        theirs = self._c.receive(link, message, tick, random)
        told = (ours.code, ours.reply, ours.effect, ours.persist)
        if told != (theirs.code, theirs.reply, theirs.effect, theirs.persist):
            raise Differ(f"Python {told}\nC {theirs}")
        self._compare(ours.state, tick)
        self._state, self.reply = ours.state, ours.reply
        return ours.code

    def _compare(self, state: BoxMemory, tick: int) -> None:
        if (ours := c_structs.at(state, tick)) != (theirs := self._of_c()):
            raise Differ(
                "\n".join((*_differences(ours.kept, theirs.kept), *_differences(ours.running, theirs.running)))
            )

    def _of_c(self) -> BoxMemory:
        """The state of the box in C. Known bytes are not parsed again."""
        box = self._c.test.box
        image = ctypes.string_at(ctypes.addressof(box) + POINTERS, SIZE - POINTERS)
        state = self._seen.get(image)
        if state is None:
            if len(self._seen) >= REMEMBERED:
                self._seen = {}
            state = self._seen[image] = c_structs.state(box, self._log())
        return state

    def _log(self) -> BoxLogState:
        """Only new entries are parsed: the SHA-256 of the newest one in the struct covers all."""
        before, kept = self._beginning.state.kept.log, self._c.test.box.kept
        new = range(max(before.next, kept.first), kept.next)
        entries = (*before.entries[kept.first - before.first :], *(c_structs.entry(self._c.test, n) for n in new))
        return BoxLogState(entries, kept.next, bytes(kept.newest))
