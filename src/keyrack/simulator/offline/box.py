"""In charge of a virtual box: the reference firmware with a clock that drifts, power that goes, and a flash.

Times are the true ones, in seconds since 1970; what the box makes of them is its own affair.
"""

from __future__ import annotations

from random import Random

from keyrack.offline_keys import link_messages
from keyrack.offline_keys.box import firmware
from keyrack.offline_keys.box.firmware import MessageResult
from keyrack.offline_keys.box.state import BoxMemory, PersistentState
from keyrack.offline_keys.link_messages import (
    AcceptedMessage,
    CarryMessage,
    Challenge,
    Enrol,
    EnrolledMessage,
    EntriesMessage,
    Fetch,
    Hello,
    Kind,
    Open,
    Provision,
    Result,
)
from keyrack.offline_keys.p256 import PrivateKey, verify
from keyrack.offline_keys.public_key import PublicKey
from keyrack.offline_keys.refusal_codes import BoxRefusalCode

QUARTER = 900  # seconds after which a box writes its time down, at the latest


class VirtualBox:
    """A box in a garage. `rate` is what its clock gains in a second: 20e-6 is 20 ppm fast, a negative one is slow."""

    def __init__(self, product: int, rate: float, random: Random, at: int, key: PrivateKey | None = None) -> None:
        self.product = product
        self.rate = rate
        self.is_on = True
        self._random = random
        self._begin(at, key or PrivateKey.generate())

    def _begin(self, at: int, key: PrivateKey) -> None:
        self._since = at  # when the power came
        self._key = key
        self._state: BoxMemory = firmware.reset(self._key.public, self._random.randbytes(32), 0)
        self._flash, self._written = self._state.kept, 0  # what was written down, and at which tick its floor was
        self.last: MessageResult | None = None

    def reset(self, at: int) -> None:
        """What somebody at the box does: it forgets all, and has another key."""
        self._begin(at, PrivateKey.generate())

    # What the firmware needs of a library of cryptography

    def verify(self, public: PublicKey, message: bytes, signature: bytes) -> bool:
        return verify(public, message, signature)

    def sign(self, message: bytes) -> bytes:
        return self._key.sign(message)

    # Time and power

    def _tick(self, at: int) -> int:
        return int((at - self._since) * (1 + self.rate))

    def _write(self, kept: PersistentState, tick: int) -> None:
        self._flash, self._written = kept, tick

    def lose_power(self, at: int) -> None:
        """From now on it says nothing. The time of the last quarter of an hour has been written down."""
        tick = self._tick(at)
        quarter = tick - tick % QUARTER
        if quarter > self._written:
            self._write(firmware.write_down(self._state, quarter).kept, quarter)
        self.is_on = False

    def get_power(self, at: int, *, stood: bool) -> None:
        """Start again; the clock has gone on meanwhile, unless it `stood`."""
        elapsed = None if stood else self._tick(at) - self._written
        self._state = firmware.start(self._flash, 0, elapsed, self)
        self._since, self.is_on = at, True
        self._write(self._state.kept, 0)

    # Messages

    def say(self, message: bytes, at: int, on: int = 0) -> bytes:
        """What the box answers, which has power."""
        assert self.is_on  # noqa: S101 - whoever stands at it sees that
        tick = self._tick(at)
        self.last = firmware.receive(self._state, on, message, tick, self._random.randbytes(16), self)
        self._state = self.last.state
        if self.last.persist:
            self._write(self._state.kept, self._written if self._state.kept.floor == self._flash.floor else tick)
        return self.last.reply

    def _ask(self, said: link_messages.Said, at: int, kind: type[Kind]) -> Kind:
        return link_messages.read(self.say(link_messages.write(said), at), kind)

    def challenge(self, at: int) -> Challenge:
        return self._ask(Hello(), at, Challenge)

    def carry(self, said: CarryMessage, at: int) -> bool:
        """Whether it was taken."""
        return not self._ask(said, at, AcceptedMessage).refused

    def open(self, said: Open, at: int) -> Result:
        return self._ask(said, at, Result)

    def fetch(self, said: Fetch, at: int) -> EntriesMessage:
        return self._ask(said, at, EntriesMessage)

    def enrol(self, said: Enrol, at: int) -> EnrolledMessage:
        return self._ask(said, at, EnrolledMessage)

    def provision(self, said: Provision, at: int) -> bool:
        """Whether all of it was taken."""
        return not self._ask(said, at, AcceptedMessage).refused

    def leave(self) -> None:
        """The phone has gone, and its link."""
        self._state = firmware.disconnect(self._state, 0)

    @property
    def code(self) -> BoxRefusalCode:
        """Why the last message was refused, which the wire does not always say."""
        return BoxRefusalCode.GOOD if self.last is None else self.last.code

    def forge(self, message: bytes) -> bytes:
        """The signature of who has opened the box by force, and has its key."""
        return self._key.sign(message)

    @property
    def kid(self) -> bytes:
        return self._key.public.kid
