"""Long random conversations with two boxes, which must behave alike."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Iterator
from random import Random

from keyrack.offline_keys import link_messages, phone
from keyrack.offline_keys.box import firmware
from keyrack.offline_keys.box.state import BoxLogState
from keyrack.offline_keys.box.verification_budget import full
from keyrack.offline_keys.link_messages import CarryMessage, Challenge, Enrol, Fetch, Said
from keyrack.offline_keys.message_fields import Status
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.offline_keys import fuzz_boxes
from tests.offline_keys.authority import DAY, WEEK, Authority
from tests.offline_keys.box_comparison import Differ, Rivals
from tests.offline_keys.fixed_keys import public, signer

PHONES = ("phone-1", "phone-2")
ROOTS = ("root", "next-root", "last-root")
STEPS = (*[0] * 12, 1, 1, 1, 3, 4, 10, 100, 3_600, DAY)  # seconds between two messages
OFFSETS = (*[0] * 12, 1, 59, 60, 61, DAY, WEEK - 100, WEEK, WEEK + 1, 2 * WEEK)  # of times, ahead and behind


class Conversation:
    """Phones, a tool and thieves at one box, whose clock may be wrong."""

    def __init__(self, library: ctypes.CDLL, seed: int, entries: int, phones: int) -> None:
        self._random = Random(seed)
        self._authority = Authority()
        self._tick = 0
        self._keys: list[tuple[bytes, str]] = []
        self._sets: list[tuple[int, bytes]] = []  # key sets and new roots, with their sequence
        state = firmware.reset(public("box"), bytes(32), 0)
        filler = tuple(f"entry {number}".encode() for number in range(entries))
        state.kept.log = BoxLogState(filler, entries + 1, bytes(32))
        state.kept.phones = tuple((hashlib.sha256(bytes([number])).digest(), 0) for number in range(phones))
        state.running.phone_buckets = {phone: full(0) for phone, _ in state.kept.phones}
        self._rivals = Rivals(library, fuzz_boxes.own_key(), state, 0)
        self._rivals.connect(0)
        self._acts: tuple[Callable[[], BoxRefusalCode | None], ...] = (
            *(self._open,) * 8, *(self._list,) * 4, *(self._time,) * 3, *(self._receipt,) * 2,
            *(self._catch_up,) * 3, *(self._flood,) * 2, self._key_set,
            self._root, self._provision, self._fetch, self._enrol, self._connect, self._disconnect, self._power,
        )  # fmt: skip

    def run(self, steps: int) -> Iterator[BoxRefusalCode]:
        """The codes of all messages. Raises `Differ`."""
        yield self._enrol()
        yield self._provision()
        for _ in range(steps):
            self._pass(self._random.choice(STEPS))
            code = self._random.choice(self._acts)()
            if code is not None:
                yield code

    def _pass(self, seconds: int) -> None:
        self._tick += seconds
        self._authority.now += seconds

    def _link(self) -> int:
        if not self._rivals.links:
            self._rivals.connect(self._tick)
        return self._random.choice(self._rivals.links)

    def _say(self, said: Said, link: int | None = None) -> BoxRefusalCode:
        on = self._link() if link is None else link
        return self._rivals.receive(on, link_messages.write(said), self._tick, self._random.randbytes(16))

    def _hello(self, link: int) -> bytes:
        """The challenge as the box sends it."""
        self._say(link_messages.hello(), link)
        return self._rivals.reply

    def _about(self) -> int:
        """A time that is close to the true one, or far from it."""
        return self._authority.now + self._random.choice(OFFSETS) * self._random.choice((-1, 1))

    def _key(self) -> tuple[bytes, str]:
        random, owner = self._random, self._random.choice(PHONES)
        if self._keys and random.random() < 0.6:
            return random.choice(self._keys[-4:])
        status = Status(random.choice((0, 1, 2, 3, 2047, 2048)), self._authority.uri(random.randrange(1, 5)))
        made = self._authority.key(
            iat=self._about(), exp=self._about() + DAY, limit=random.choice((60, DAY, WEEK)), status=status,
            rights=random.choice(([1], [1, 2], [1, 2, 3], [1, 2, 3])), cnf=public(owner),
            aud=random.choice((self._authority.name, self._authority.name, self._authority.name, "box:1:1")),
        )  # fmt: skip
        self._keys.append((made, owner))
        return made, owner

    def _open(self) -> BoxRefusalCode:
        link, (key, owner) = self._link(), self._key()
        count = self._authority.now * 1000 - self._random.choice((0, 0, 0, 0, 1, 10_000_000))
        answer = phone.answer(self._hello(link), key, self._random.choice((1, 2)), count, signer(owner).sign)
        self._pass(self._random.choice((0, 0, 0, 9, 10)))
        return self._say(answer, link)

    def _flood(self) -> BoxRefusalCode:
        """Spend the tokens of a phone by answers of an attacker.

        They are answers to one key, new or remembered.
        """
        link, (key, _) = self._link(), self._key()
        code = BoxRefusalCode.GOOD
        for _ in range(5):
            said = phone.answer(self._hello(link), key, 1, 0, lambda _: bytes([255]) * 64)
            code = self._say(said, link)
        return code

    def _list(self) -> BoxRefusalCode:
        random, authority = self._random, self._authority
        generation = random.randrange(1, 6)
        authority.revoked = {random.randrange(4)}
        uri = authority.uri(generation if random.random() < 0.8 else random.randrange(1, 6))
        return self._say(CarryMessage(authority.list(generation, sub=uri, iat=self._about())))

    def _time(self) -> BoxRefusalCode:
        link, true = self._link(), self._authority.now
        nonce = link_messages.read(self._hello(link), Challenge).nonce
        self._authority.now = self._about()
        said = CarryMessage(self._authority.time(nonce))
        self._authority.now = true
        return self._say(said, link)

    def _receipt(self) -> BoxRefusalCode:
        log, true = self._rivals.log, self._authority.now
        if not log.entries:
            return self._say(Fetch(0))
        place = self._random.randrange(min(len(log.entries), 40))
        self._authority.now = self._about()
        said = self._authority.receipt(log.first + place, hashlib.sha256(log.entries[place]).digest())
        self._authority.now = true
        return self._say(CarryMessage(said))

    def _key_set(self) -> BoxRefusalCode:
        random, authority = self._random, self._authority
        if self._sets and random.random() < 0.3:
            return self._say(CarryMessage(random.choice(self._sets)[1]))
        number = random.choice([each for each in (1, 2, 3) if f"issuing-{each}" != authority.issuing])
        authority.rotate(number, revoke=random.random() < 0.5)
        self._sets.append((authority.sequence, authority.key_set()))
        return self._say(CarryMessage(self._sets[-1][1]))

    def _root(self) -> BoxRefusalCode:
        authority = self._authority
        made = authority.new_root(self._random.choice([each for each in ROOTS if each != authority.root]))
        self._sets += [(authority.sequence - 1, made), (authority.sequence, authority.key_set())]
        return self._say(CarryMessage(made))

    def _catch_up(self) -> BoxRefusalCode:
        """A phone brings all missing artefacts in order, and then a list."""
        link = self._link()
        known = link_messages.read(self._hello(link), Challenge).sequence
        for sequence, message in self._sets:
            if sequence > known:
                self._say(CarryMessage(message), link)
        return self._say(CarryMessage(self._authority.list(self._random.randrange(1, 5))), link)

    def _provision(self) -> BoxRefusalCode:
        link = self._link()
        nonce = link_messages.read(self._hello(link), Challenge).nonce
        return self._say(self._authority.provision(nonce, self._random.randrange(1, 5)), link)

    def _fetch(self) -> BoxRefusalCode:
        return self._say(Fetch(max(0, self._rivals.log.next - self._random.randrange(8))))

    def _enrol(self) -> BoxRefusalCode:
        return self._say(Enrol(bytes(16)))

    def _connect(self) -> None:
        self._rivals.connect(self._tick)

    def _disconnect(self) -> None:
        self._rivals.disconnect(self._link())

    def _power(self) -> None:
        """Cut the power, and restore it."""
        elapsed = self._random.choice((None, 0, 10, DAY))
        self._rivals.start(elapsed, 0)
        self._tick = 0


def run(library: ctypes.CDLL, steps: int, seed: int, entries: int, phones: int = 0) -> Iterator[BoxRefusalCode]:
    """The codes of a conversation with a box of so many entries and phones.

    Raises `Differ`.
    """
    count = 0
    try:
        for code in Conversation(library, seed, entries, phones).run(steps):
            count += 1
            yield code
    except Differ as error:
        raise Differ(f"seed {seed}, {entries} entries, {phones} phones, after message {count}\n{error}") from error
