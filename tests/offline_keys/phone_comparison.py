"""A comparison of the phones in Python and C, at random. The signatures of both are stubbed."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from keyrack.offline_keys import cose, link_messages, phone_state
from keyrack.offline_keys.cbor import CborError, Value, decode, encode
from keyrack.offline_keys.cose import MessageRefused
from keyrack.offline_keys.link_messages import Challenge, EntriesMessage, VersionsMessage
from keyrack.offline_keys.message_fields import ENTRY, KEY, KEY_SET, RECEIPT, ROOT, STATUS_LIST, Message, Status
from keyrack.offline_keys.phone_conversation import (
    AskTime,
    ConnectionLost,
    Conversation,
    ConversationEnd,
    Ending,
    PhoneConversation,
)
from keyrack.offline_keys.phone_state import AnsweredBox, HeldKey, KeysAnswer, PhoneState
from keyrack.offline_keys.public_key import PublicKey
from tests.offline_keys import c_phone
from tests.offline_keys.c_phone import CPhone
from tests.offline_keys.fixed_keys import public, scalar

START = 1_800_000_000  # seconds
BOXES = ("box:1:1", "box:2:1", "box:3:1")
NAMES = ("root", "next-root", "last-root", "other-root")
PHONE, BOX = "phone-1", "box"


def answer_of(state: PhoneState) -> KeysAnswer:
    """The answer of the server that brings this state."""
    lists = {box.name: list[bytes]() for box in state.boxes}
    orphans: list[bytes] = []
    for each in state.lists:
        lists.get(cose.read(each, STATUS_LIST).claims["aud"], orphans).append(each)
    boxes = [AnsweredBox(box.name, box.key and box.key.encoded, tuple(lists[box.name]), None) for box in state.boxes]
    if orphans:  # of a box that the phone does not know: they come with another box
        boxes[-1] = replace(boxes[-1], lists=(*boxes[-1].lists, *orphans))
    return KeysAnswer(state.key_set, state.roots, state.keys, tuple(boxes))


class Differ(AssertionError):
    """The two phones differ."""


def stubbed(message: bytes) -> bytes:
    return hashlib.sha256(message).digest() * 2


def verify_stub(_public: PublicKey, _message: bytes, signature: bytes) -> bool:
    return signature[0] != 255


@dataclass
class Chance:
    """Random messages of a server and a box."""

    random: Random
    keys_made: int = 0
    seen: dict[str, Any] = field(default_factory=dict[str, Any])

    def sign(self, message: Message, by: str, **claims: Any) -> bytes:
        def signature(data: bytes) -> bytes:
            made = stubbed(data + self.random.randbytes(2))
            return b"\xff" + made[1:] if self.random.random() < 0.05 else bytes([made[0] & 127]) + made[1:]

        return cose.sign(message, public(by).kid, claims, signature)

    def at(self) -> int:
        """Seconds near the present."""
        return START + self.random.choice((0, 0, 1, -1, 60, -300, 3_600, -86_400, 86_400))

    def box(self) -> str:
        return self.random.choice((BOXES[0], *BOXES))

    def key(self) -> HeldKey:
        self.keys_made += 1
        cnf = public(PHONE if self.random.random() < 0.98 else "phone-2")
        message = self.sign(
            KEY, "issuing-1", iss="customer:7", sub="u", aud=self.box(), exp=self.at() + 1_000, nbf=self.at(),
            iat=START, cti=self.keys_made.to_bytes(16, "big"), cnf=cnf, status=Status(1, "uri"), limit=60,
            assignment=self.keys_made, rights=[1, 2],
        )  # fmt: skip
        return HeldKey(message, self.keys_made, self.at() * 1000)

    def list(self, box: str) -> bytes:
        return self.sign(
            STATUS_LIST, "issuing-1", iss="customer:7", sub="uri", aud=box, exp=START, iat=self.at(), ttl=1,
            status_list=self.random.randbytes(20), generation=self.random.randint(1, 5),
        )  # fmt: skip

    def key_set(self) -> bytes:
        keys = {"keys": [public("issuing-1")], "service-keys": [public("service-1")]}
        sequence = self.random.randint(1, 6)
        return self.sign(KEY_SET, "root", iss="customer:7", iat=START, sequence=sequence, **keys)

    def root(self) -> bytes:
        by, named = self.random.sample(NAMES, 2)
        sequence = self.random.randint(1, 6)
        return self.sign(ROOT, by, iss="customer:7", iat=START, sequence=sequence, root=public(named))

    def receipt(self, box: str) -> bytes:
        upto = self.random.randint(1, 6), self.random.randbytes(32)
        return self.sign(RECEIPT, "service-1", iss="customer:7", aud=box, iat=self.at(), upto=upto)

    def entry(self, **claims: Any) -> bytes:
        number = self.random.randint(1, 8)
        most: dict[str, Any] = {
            "aud": self.box(), "iat": self.at(), "cti": bytes(16), "command": 1, "counter": 1, "number": number,
            "previous": bytes(32), "first": 1, "event": 1, "code": 0, "certain": 1,
            "device": public(PHONE).thumbprint, "held": (1, 1, 1), "refused": (0, 0), "skipped": 0,
            "root-kid": bytes(8),
        }  # fmt: skip
        return self.sign(ENTRY, self.random.choice((*[BOX] * 20, "stranger")), **most | claims)

    def answer(self) -> KeysAnswer:
        random = self.random
        boxes: list[AnsweredBox] = []
        for name in random.sample(BOXES, random.randint(0, 3)):
            key = random.choice((None, public(BOX).encoded, public(BOX).encoded, public("other-box").encoded))
            lists = tuple(self.list(name) for _ in range(random.randint(0, 2)))
            boxes.append(AnsweredBox(name, key, lists, random.choice((None, self.receipt(name)))))
        roots = tuple(self.root() for _ in range(random.randint(0, 4)))
        keys = tuple(self.key() for _ in range(random.choice((0, 1, 2, 3, 6))))
        answer = KeysAnswer(random.choice((None, self.key_set(), self.key_set())), roots, keys, tuple(boxes))
        return self.damaged(answer) if random.random() < 0.2 else answer

    def damaged(self, answer: KeysAnswer) -> KeysAnswer:
        """The answer with one message that is changed, and is never empty."""

        def other(message: bytes) -> bytes:
            return self.mutated(message) or b"\0"

        boxes = answer.boxes
        match self.random.choice(("key set", "root", "key", "box")):
            case "key set" if answer.key_set:
                return replace(answer, key_set=other(answer.key_set))
            case "root" if answer.roots:
                return replace(answer, roots=(*answer.roots[1:], other(answer.roots[0])))
            case "key" if answer.keys:
                first, *others = answer.keys
                return replace(answer, keys=(*others, replace(first, message=other(first.message))))
            case "box" if boxes:
                names = [name for name in ("key", "receipt") if getattr(boxes[0], name)]
                name = self.random.choice((*names, "lists"))
                value = getattr(boxes[0], name)
                wrong = tuple(other(each) for each in value[:1]) + value[1:] if name == "lists" else other(value)
                return replace(answer, boxes=(replace(boxes[0], **{name: wrong}), *boxes[1:]))
            case _:
                return answer

    def challenge(self) -> bytes:
        random = self.random
        first = random.randint(0, 3)
        return link_messages.write(
            Challenge(
                2, self.box(), random.randbytes(16), self.at(), random.randint(0, 1), random.randint(0, 6),
                random.randint(0, 6), random.choice((0, self.at())), first, first + random.randint(0, 6), bytes(32),
                random.choice((b"", *(public(name).kid for name in NAMES))),
            )
        )  # fmt: skip

    def mutated(self, message: bytes) -> bytes:
        """The message with a changed byte, a changed item, or another length."""
        random, how = self.random, self.random.random()
        if how < 0.4:
            place = random.randrange(len(message))
            return message[:place] + bytes([message[place] ^ 1 << random.randrange(8)]) + message[place + 1 :]
        if how < 0.5:
            return message[: random.randrange(len(message))]
        if how < 0.6:
            return message + random.randbytes(1)
        if how < 0.65:
            return encode([6, 0, bytes(random.choice((2_040, 2_050)))])
        try:
            return encode(self._other(decode(message)))
        except CborError:
            return message

    def _other(self, item: Value) -> Value:
        random = self.random
        if isinstance(item, list) and item and random.random() < 0.8:
            place = random.randrange(len(item))
            return [*item[:place], self._other(item[place]), *item[place + 1 :]]
        if isinstance(item, dict) and item and random.random() < 0.8:
            key = random.choice(list(item))
            return item | {random.choice((key, 13, 128, -1)): self._other(item[key])}
        return random.choice(
            ([], {}, 0, 1, 2, 3, 37, 99, (1 << 53) - 1, -1, b"", bytes(8), bytes(16), "", "x" * 41, [3, 5])
        )

    def reply(self, message: bytes, conversation: PhoneConversation) -> bytes | ConnectionLost:
        """A reply to the phone, mostly of the expected type."""
        random, items = self.random, decode(message)
        assert isinstance(items, list)
        if random.random() < 0.02:
            return ConnectionLost(is_whole=random.random() < 0.5)
        reply = self._fitting(items, conversation)
        return self.mutated(reply) if random.random() < 0.08 else reply

    def _fitting(self, items: list[Value], conversation: PhoneConversation) -> bytes:
        random = self.random
        match items[0]:
            case 1:
                if random.random() < 0.03:
                    return link_messages.write(VersionsMessage(sorted(random.sample(range(6), 2))))
                return self._challenge_again(conversation)
            case 3:
                return encode([4, random.randint(0, 1)])
            case 5:
                assert conversation.challenge is not None
                code = random.choice((0, 0, 0, 1, 13, 18, 24, 27, 99))
                mine: dict[str, Any] = {"aud": conversation.challenge.name, "counter": conversation.counter}
                entry = random.choice((b"", self.entry(**mine), self.entry(**mine), self.entry(**mine), self.entry()))
                return encode([6, code, entry])
            case _:
                begin = items[1]
                assert isinstance(begin, int)
                name = conversation.challenge.name if conversation.challenge else BOXES[0]
                begin = max(1, begin - (random.random() < 0.1))
                numbers = [begin + place for place in range(random.randint(0, 4))]
                entries = [self.entry(aud=name, number=number) for number in numbers]
                return link_messages.write(EntriesMessage(begin + random.randint(0, 9), entries))

    def _challenge_again(self, conversation: PhoneConversation) -> bytes:
        """Mostly a challenge of the same box."""
        fresh = link_messages.read(self.challenge(), Challenge)
        if conversation.challenge is not None and self.random.random() < 0.9:
            fresh = fresh._replace(name=conversation.challenge.name)
        return link_messages.write(fresh)


@dataclass
class Twins:
    """Both phones."""

    c: CPhone
    chance: Chance
    state: PhoneState = field(default_factory=PhoneState)

    def same(self, what: str, ours: object, theirs: object) -> None:
        if ours != theirs:
            raise Differ(f"{what}: Python {ours!r}, C {theirs!r}")

    def take(self) -> None:
        answer, now = self.chance.answer(), self.chance.at() * 1000
        codes: list[object] = [0, 0]
        try:
            self.state = phone_state.take_keys(self.state, answer, public(PHONE), now)
        except MessageRefused as refused:
            codes[0] = refused.code
        try:
            self.c.take_keys(answer, now)
        except MessageRefused as refused:
            codes[1] = refused.code
        self.same("answer", *codes)

    def keep(self) -> None:
        entry = self.chance.entry()
        if phone_state.entry_room(self.state, cose.read(entry, ENTRY).claims["aud"]):
            kept = cose.read_entry(entry)
            self.state = phone_state.keep_entries(self.state, kept.claims["aud"], [kept.raw])
        self.c.keep(entry)

    def bring_home(self) -> None:
        """Upload some entries by pointers into the memory of the phone."""
        begin = self.chance.random.randint(0, len(self.state.entries))
        entries = self.state.entries[begin : begin + 3]
        receipts = [self.chance.receipt(self.chance.box())]
        self.state = phone_state.bring_home(self.state, entries, receipts)
        self.c.bring_home_own(begin, len(entries))
        self.c.bring_home([], receipts)

    def ask(self) -> None:
        """Queries that change nothing."""
        chance, now = self.chance, self.chance.at() * 1000 + self.chance.random.randint(0, 999)
        message = chance.challenge()
        challenge = link_messages.read(message, Challenge)
        brings = phone_state.authority_for(self.state, challenge), phone_state.artefacts_for(self.state, challenge)
        self.same("brings", (*brings, phone_state.is_clock_right(challenge, now)), self.c.brings(message, now))
        box, first = chance.box(), chance.random.randint(0, 9)
        keys = phone_state.keys_for(self.state, box, now)
        ours = [(key.message, phone_state.is_overdue(self.state, key, now)) for key in keys]
        self.same("keys", ours, self.c.keys(box, now))
        self.same("missing", phone_state.first_missing(self.state, box, first), self.c.first_missing(box, first))

    def converse(self) -> list[ConversationEnd]:
        """A command, and often a fetch of the log."""
        random = self.chance.random
        has_network = random.random() < 0.5
        product = random.choice((0, 0, 0, 1, 1, 2, 10))
        phone = PhoneConversation(self.state, public(PHONE), stubbed, has_network, verify_stub, product)
        command = random.randint(1, 2)
        begun = self.c.begin(command, has_network=has_network, product=product)
        ends = [self._converse(phone, phone.command(command), begun)]
        if ends[0] is ConversationEnd.DONE or random.random() < 0.3:
            fetched = self.c.call(c_phone.FETCH, b"")
            ends.append(self._converse(phone, phone.fetch(), fetched))
        self.state = phone.state
        return ends

    def _converse(self, phone: PhoneConversation, steps: Conversation, theirs: object) -> ConversationEnd:
        try:
            ours = next(steps)
            while True:
                now = self.chance.at() * 1000
                if isinstance(ours, AskTime):
                    self.same("time", None, theirs)
                    reply: bytes | ConnectionLost = self.chance.random.choice((b"", b"a time", bytes(301)))
                    assert isinstance(reply, bytes)
                    theirs = self.c.call(c_phone.TIME, reply, now)
                else:
                    self.same("message", ours.message, theirs)
                    reply = self.chance.reply(ours.message, phone)
                    if isinstance(reply, ConnectionLost):
                        theirs = self.c.call(c_phone.LOSE, b"\1" if reply.is_whole else b"")
                    else:
                        theirs = self.c.call(c_phone.RECEIVE, reply, now)
                ours = steps.throw(reply) if isinstance(reply, ConnectionLost) else steps.send((reply, now))
        except StopIteration as stopped:
            ending: Ending = stopped.value
            self.same("ending", ending, theirs)
            return ending.end


def run(built: ctypes.CDLL, count: int, seed: int) -> Iterator[ConversationEnd]:
    """Compare the phones, each pair for some steps. Raises `Differ`."""
    for number in range(count):
        chance = Chance(Random(f"{seed} {number}"))
        with CPhone(built, scalar(PHONE), public(PHONE), signs=c_phone.STUBBED) as c:
            twins = Twins(c, chance)
            twins.take()
            for _ in range(chance.random.randint(1, 8)):
                step = chance.random.choice((twins.take, twins.keep, twins.bring_home, twins.ask, None, None))
                if step is None:
                    yield from twins.converse()
                else:
                    step()
                twins.same(f"state {number}", twins.state, c.state())
