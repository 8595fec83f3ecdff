"""A virtual box: the reference firmware with a drifting clock, power failures and flash memory.

Parameters are true times in seconds since 1970; the box has its own clock.
"""

from __future__ import annotations

import hashlib
from random import Random

from keyrack.offline_keys import cose, link_messages
from keyrack.offline_keys.box import firmware, links
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
    Kind,
    Open,
    Provision,
    Result,
)
from keyrack.offline_keys.message_fields import KEY
from keyrack.offline_keys.p256 import PrivateKey, verify
from keyrack.offline_keys.public_key import PublicKey
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from keyrack.offline_keys.transports import advertisements
from keyrack.offline_keys.transports.bluetooth import BoxBluetooth
from keyrack.offline_keys.transports.message_buffer import MessageBuffer
from keyrack.simulator.offline.radio import Radio, Sent, TransportLost

QUARTER = 900  # maximum seconds between two writes of the time


class VirtualBox:
    """A box in a garage. `rate` is the drift of its clock per second: 20e-6 is 20 ppm fast, a negative rate is slow.

    Messages come by a radio if there is one, else by a wire.
    """

    def __init__(self, product: int, rate: float, random: Random, at: int, key: PrivateKey | None = None) -> None:
        self.product = product
        self.rate = rate
        self.is_on = True
        self._random = random
        self._begin(at, key or PrivateKey.generate())

    def _begin(self, at: int, key: PrivateKey) -> None:
        self._since = at  # start of the power supply
        self._key = key
        self._state: BoxMemory = firmware.reset(self._key.public, self._random.randbytes(32), 0)
        self._flash, self._written = self._state.kept, 0  # the stored state, and the tick of its floor
        self._switch_on_radio()
        self.last: MessageResult | None = None

    def _switch_on_radio(self) -> None:
        self._bluetooth = BoxBluetooth(MessageBuffer())
        self._proven = set[int]()  # links that have proven a key
        self._link: int | None = None  # to the visiting phone

    def reset(self, at: int) -> None:
        """Reset the box: it loses its state and gets a new key."""
        self._begin(at, PrivateKey.generate())

    # Cryptography that the firmware needs

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
        """Switch off. The time of the last quarter of an hour is stored."""
        tick = self._tick(at)
        quarter = tick - tick % QUARTER
        if quarter > self._written:
            self._write(firmware.write_down(self._state, quarter).kept, quarter)
        self.is_on = False

    def get_power(self, at: int, *, stood: bool) -> None:
        """Restart. The clock kept running during the outage, unless it `stood`."""
        elapsed = None if stood else self._tick(at) - self._written
        self._state = firmware.start(self._flash, 0, elapsed, self)
        self._since, self.is_on = at, True
        self._switch_on_radio()
        self._write(self._state.kept, 0)

    def restart(self, kept: PersistentState, at: int) -> None:
        """Start with a stored state. The clock kept running meanwhile."""
        self._write(kept, 0)
        self._since = min(kept.floor, at)
        self.get_power(at, stood=False)

    @property
    def kept(self) -> PersistentState:
        """The stored state."""
        return self._flash

    @property
    def key(self) -> PrivateKey:
        return self._key

    # Messages

    def connect(self, at: int) -> int:
        """Open another link."""
        self._state, link = firmware.connect(self._state, self._tick(at))
        return link

    def say(self, message: bytes, at: int, on: int | None = None, radio: Radio | None = None) -> bytes:
        """The response of the box, which must have power. Without `on`, the link of the visiting phone is used.

        Raises `TransportLost` by a radio.
        """
        assert self.is_on  # noqa: S101 - callers check this first
        if on is not None:
            return self._receive(message, at, on)
        if radio is not None and self._link is not None and self._link in self.end_late_links(radio.now(at)):
            raise TransportLost(Sent.NONE)
        if self._link is None:
            self._link = self.connect(at)
            self._bluetooth.connect(self._link, at * 1_000 if radio is None else radio.now(at))
        if radio is not None:
            return radio.exchange(self, self._link, message, at)
        return self._receive(message, at, self._link)

    def advertised_name(self, at: int) -> str | None:
        """The name that phones nearby see. None while the box has no room for a link, or no authority."""
        authority = self._state.kept.authority
        if authority is None or not self._bluetooth.has_room:
            return None
        return advertisements.name_at(authority.advertising, at)

    def join(self, at: int, now: int) -> int | None:
        """Connect another phone by the radio, and return its link.

        None if the box has no room.
        """
        if not self._bluetooth.has_room:
            return None
        link = self.connect(at)
        self._bluetooth.connect(link, now)
        return link

    def write(self, link: int, fragment: bytes, at: int, now: int) -> bool:
        """Take a fragment. Returns whether it has completed a message."""
        message = self._bluetooth.write(link, fragment, now)
        if message is None:
            return False
        reply = self._receive(message, at, link)
        if self._is_proven(link, at):
            self._proven.add(link)
        self._bluetooth.reply(link, reply, now, is_proven=link in self._proven)
        return True

    def notify(self, link: int, size: int, now: int) -> bytes | None:
        """The next notification, if there is one."""
        return self._bluetooth.next_fragment(link, size, now)

    def end_late_links(self, now: int) -> list[int]:
        """End the links that the box keeps no longer, and return them."""
        late = self._bluetooth.tick(now)
        for link in late:
            self.disconnect(link)
        return late

    def _is_proven(self, link: int, at: int) -> bool:
        """Whether a phone has proven a key on this link."""
        return links.is_proven(self._state, link, self._tick(at))

    def _receive(self, message: bytes, at: int, on: int) -> bytes:
        """The response of the firmware to a whole message."""
        tick = self._tick(at)
        self.last = firmware.receive(self._state, on, message, tick, self._random.randbytes(16), self)
        self._state = self.last.state
        if self.last.persist:
            self._write(self._state.kept, self._written if self._state.kept.floor == self._flash.floor else tick)
        return self.last.reply

    def _ask(self, said: link_messages.Said, at: int, kind: type[Kind], radio: Radio | None = None) -> Kind:
        return link_messages.read(self.say(link_messages.write(said), at, radio=radio), kind)

    def hello(self, at: int, on: int | None = None, radio: Radio | None = None) -> bytes:
        """The challenge as raw bytes. Raises `TransportLost` by a radio."""
        return self.say(link_messages.write(link_messages.hello()), at, on, radio)

    def challenge(self, at: int) -> Challenge:
        return link_messages.read(self.hello(at), Challenge)

    def carry(self, said: CarryMessage, at: int, radio: Radio | None = None) -> bool:
        """Carry an artefact to the box; returns whether it was accepted. Raises `TransportLost` by a radio."""
        return not self._ask(said, at, AcceptedMessage, radio).refused

    def open(self, said: Open, at: int, radio: Radio | None = None) -> Result:
        """The result of an `open`. Raises `TransportLost` by a radio."""
        return self._ask(said, at, Result, radio)

    def fetch(self, said: Fetch, at: int, radio: Radio | None = None) -> EntriesMessage | None:
        """Entries of the log; None if the phone has not proven a key of this box.

        Raises `TransportLost` by a radio.
        """
        message = self.say(link_messages.write(said), at, radio=radio)
        answer = link_messages.read(message, EntriesMessage, Result)
        return answer if isinstance(answer, EntriesMessage) else None

    def enrol(self, said: Enrol, at: int) -> EnrolledMessage:
        return self._ask(said, at, EnrolledMessage)

    def provision(self, said: Provision, at: int) -> bool:
        """Provision the box; returns whether all messages were accepted."""
        return not self._ask(said, at, AcceptedMessage).refused

    def leave(self) -> None:
        """Close the link of the visiting phone."""
        if self._link is not None:
            self.disconnect(self._link)

    def disconnect(self, link: int) -> None:
        """Close a link."""
        self._end_link(link)
        self._bluetooth.disconnect(link)
        self._proven.discard(link)
        if link == self._link:
            self._link = None

    def _end_link(self, link: int) -> None:
        """End a link in the firmware."""
        self._state = firmware.disconnect(self._state, link)

    def remembers(self, key: bytes) -> bool:
        """Whether the box has verified this key before."""
        return hashlib.sha256(key).digest() in self._state.running.good

    def knows(self, key: bytes) -> bool:
        """Whether this key belongs to a known phone, which has its own buckets."""
        signed, kept = cose.read(key, KEY), self._state.kept
        return (
            kept.authority is not None
            and kept.authority.key(signed.kid) is not None
            and signed.claims["aud"] == kept.authority.name
            and signed.claims["cnf"].thumbprint in dict(kept.phones)
        )

    @property
    def code(self) -> BoxRefusalCode:
        """The exact reason of the last rejection, which the protocol does not always reveal."""
        return BoxRefusalCode.GOOD if self.last is None else self.last.code

    def forge(self, message: bytes) -> bytes:
        """A signature with the box's key, by an attacker who opened the box by force."""
        return self._key.sign(message)

    @property
    def kid(self) -> bytes:
        return self._key.public.kid
