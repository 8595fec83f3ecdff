"""Visits of the reference phone to the reference box, for docs/phone-vectors.json."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from keyrack.offline_keys import cose, link_messages
from keyrack.offline_keys.cbor import decode, encode
from keyrack.offline_keys.link_messages import EntriesMessage, Result, VersionsMessage, write
from keyrack.offline_keys.message_fields import CLOSE, ENTRY, KEY, OPEN, Status
from keyrack.offline_keys.phone_conversation import AskTime, ConnectionLost, Conversation, Ending, PhoneConversation
from keyrack.offline_keys.phone_state import HeldBox, HeldKey, PhoneState
from keyrack.offline_keys.refusal_codes import BoxRefusalCode as Code
from tests.offline_keys.authority import DAY, WEEK, Authority, Box
from tests.offline_keys.fixed_keys import public, signer, with_high_s

Json = dict[str, Any]
Change = Callable[[bytes], "bytes | ConnectionLost"]  # of a reply
COMMANDS = {"open": OPEN, "close": CLOSE}
HELLO, CARRY, OPENED, FETCHED = 1, 3, 5, 7  # types of messages of a phone


def held(key: bytes) -> HeldKey:
    claims = cose.read(key, KEY).claims
    return HeldKey(key, claims["assignment"], (claims["iat"] + WEEK // 2) * 1000)


def phone_of(authority: Authority, *keys: bytes, **members: Any) -> PhoneState:
    """A phone that has asked the server just now."""
    most: Json = {
        "key_set": authority.key_set(), "boxes": (HeldBox(authority.name, public("box")),),
        "keys": tuple(held(key) for key in keys or [authority.key()]), "lists": (authority.list(),),
        "counter": (authority.now - DAY) * 1000, "met_server": authority.now * 1000,
    }  # fmt: skip
    return PhoneState(**most | members)


@dataclass
class Visit:
    """A phone at a box. `changes` are changed replies, by the type of the request."""

    comment: str
    box: Box = field(default_factory=Box)
    state: PhoneState | None = None
    calls: tuple[str, ...] = ("open",)
    has_network: bool = False
    time: Callable[[bytes], bytes] = lambda _: b""  # of the server, for a nonce
    changes: dict[int, Change] = field(default_factory=dict[int, Change])
    ahead: int = 0  # of the phone's clock, in milliseconds
    product: int = 0  # of the wanted box, 0 for any

    def run(self) -> tuple[PhoneState, PhoneState, list[Json]]:
        """The states before and after, and the calls."""
        before = self.state or phone_of(self.box.authority)
        sign = signer("phone-1").sign
        conversation = PhoneConversation(before, public("phone-1"), sign, self.has_network, product=self.product)
        calls = [self._call(conversation, call) for call in self.calls]
        return before, conversation.state, calls

    def _call(self, conversation: PhoneConversation, call: str) -> Json:
        command = COMMANDS.get(call)
        steps = conversation.fetch() if command is None else conversation.command(command)
        said: list[Json] = []
        ending = self._steps(steps, said)
        return {
            "call": call, "steps": said,
            "ending": {"end": ending.end.name.lower().replace("_", "-"), "code": int(ending.code),
                       "action": ending.action.name.lower()},
        }  # fmt: skip

    def _steps(self, steps: Conversation, said: list[Json]) -> Ending:
        try:
            step = next(steps)
            while True:
                now = self.box.authority.now * 1000 + 10 * len(said) + self.ahead
                if isinstance(step, AskTime):
                    reply: bytes | ConnectionLost = self.time(step.nonce)
                    assert isinstance(reply, bytes)
                    told: Json = {"askTime": {"box": step.box, "nonce": step.nonce.hex()}, "time": reply.hex()}
                else:
                    reply = self._reply(step.message)
                    told = {"send": step.message.hex()}
                    told |= {"lost": reply.is_whole} if isinstance(reply, ConnectionLost) else {"reply": reply.hex()}
                said.append(told | {"now": now})
                step = steps.throw(reply) if isinstance(reply, ConnectionLost) else steps.send((reply, now))
        except StopIteration as stopped:
            ending: Ending = stopped.value
            return ending

    def _reply(self, message: bytes) -> bytes | ConnectionLost:
        reply = self.box.hear(message).reply
        items = decode(message)
        assert isinstance(items, list)
        kind = items[0]
        assert isinstance(kind, int)
        return self.changes.get(kind, lambda each: each)(reply)


def _result(code: int, entry: bytes = b"") -> Change:
    return lambda _: encode([6, code, entry])


def _entry(change: Callable[[bytes], bytes]) -> Change:
    """The result with another entry."""

    def changed(reply: bytes) -> bytes:
        result = link_messages.read(reply, Result)
        return write(result._replace(entry=change(result.entry)))

    return changed


def _signed(by: str = "box", **claims: Any) -> Callable[[bytes], bytes]:
    """The entry with other claims, signed by a key."""

    def changed(entry: bytes) -> bytes:
        own = cose.read(entry, ENTRY).claims | claims
        return cose.sign(ENTRY, public(by).kid, own, lambda data: cose.with_low_s(signer(by).sign(data)))

    return changed


def _entries(change: Callable[[list[bytes]], list[bytes]]) -> Change:
    def changed(reply: bytes) -> bytes:
        said = link_messages.read(reply, EntriesMessage)
        return write(said._replace(entries=change(said.entries)))

    return changed


def _lost(*, is_whole: bool) -> Change:
    return lambda _: ConnectionLost(is_whole=is_whole)


def _challenge(change: Callable[[dict[Any, Any]], dict[Any, Any]], *, after: int = 0) -> Change:
    """The challenge with other members, from one on."""
    seen: list[bytes] = []

    def changed(reply: bytes) -> bytes:
        seen.append(reply)
        items = decode(reply)
        assert isinstance(items, list)
        members = items[1]
        assert isinstance(members, dict)
        return reply if len(seen) <= after else encode([2, change(dict(members))])

    return changed


def visits() -> Iterator[Visit]:
    yield Visit("the phone opens")
    yield Visit("the phone closes, then opens", calls=("close", "open"))
    yield from _brings()
    yield from _chooses()
    yield from _unknown()
    yield from _ends()
    yield from _fetches()


def _brings() -> Iterator[Visit]:
    box = Box()
    box.open(box.authority.key())
    box.passes(60)
    authority = box.authority
    authority.rotate(2)
    receipt = authority.receipt(1, box.log[0]["digest"])
    lists = authority.list(3), authority.list(1), authority.list(2)
    yield Visit(
        "a newer key set, lists of three generations and a receipt",
        box,
        phone_of(authority, authority.key(status=Status(1, authority.uri(3))), lists=lists, receipts=(receipt,)),
    )
    box = Box()
    roots = tuple(box.authority.new_root(name) for name in ("next-root", "last-root"))
    box.authority.rotate(2)
    yield Visit("new roots, then a key set", box, phone_of(box.authority, roots=roots))
    box = Box()
    other = Authority(sequence=90, root="other-root").new_root("stranger")
    yield Visit("a root that does not follow that of the box", box, phone_of(box.authority, roots=(other,)))
    box = Box()
    box.stops(3 * WEEK)
    box.authority.rotate(2)
    box.authority.rotate(3)
    yield Visit(
        "a box that missed rotations and knows no time", box, phone_of(box.authority), has_network=True,
        time=box.authority.time,
    )  # fmt: skip
    box = Box()
    box.stops(3 * WEEK)
    yield Visit("a box that knows no time, without a network", box, phone_of(box.authority))
    box = Box()
    box.stops(3 * WEEK)
    yield Visit("a box that knows no time, and no answer of the server", box, phone_of(box.authority), has_network=True)
    for ahead, comment in ((300_000, "five minutes"), (300_001, "more than five minutes")):
        box = Box()
        yield Visit(
            f"a phone whose clock is {comment} ahead, with a network", box, phone_of(box.authority), has_network=True,
            time=box.authority.time, ahead=ahead,
        )  # fmt: skip
    box = Box()
    yield Visit(
        "a time that the box rejects", box, phone_of(box.authority), has_network=True,
        time=lambda _: box.authority.time(bytes(16)), ahead=DAY * 1000,
    )  # fmt: skip
    box = Box()
    box.passes(60)
    stranger = Authority(box.authority.now, issuing="stranger")
    yield Visit("a list that the box rejects", box, phone_of(box.authority, lists=(stranger.list(),)))


def _revoked(box: Box, *indexes: int) -> None:
    """Revoke the keys in these places, so that the box knows it."""
    box.passes(60)
    box.authority.revoked = set(indexes)
    assert not box.carry(box.authority.list())


def _chooses() -> Iterator[Visit]:
    box = Box()
    keys = [box.authority.key(place, exp=box.authority.now + WEEK + place) for place in range(1, 6)]
    _revoked(box, 5)
    lists = (box.authority.list(),)
    yield Visit("the best key is revoked, another one opens", box, phone_of(box.authority, *keys, lists=lists))
    box = Box()
    _revoked(box, 3, 4, 5)
    yield Visit("three keys at most are tried", box, phone_of(box.authority, *keys, lists=lists))
    box = Box()
    now = box.authority.now
    later = box.authority.key(1, nbf=now + DAY, exp=now + 2 * WEEK)
    over = box.authority.key(2, nbf=now - WEEK, iat=now - WEEK, exp=now + 1)
    valid = box.authority.key(3)
    yield Visit("a valid key precedes those that expire later", box, phone_of(box.authority, later, over, valid))
    box = Box()
    yield Visit("all keys are not yet valid", box, phone_of(box.authority, later, later))
    box = Box()
    key = box.authority.key()
    yield Visit("no right to close", box, phone_of(box.authority, box.authority.key(rights=[1])), calls=("close",))
    box = Box()
    box.open(key, count=(box.authority.now + DAY) * 1000)
    yield Visit("the counter of the box is ahead", box, phone_of(box.authority, key, box.authority.key(2)))
    box = Box()
    ahead = (box.authority.now + DAY) * 1000
    yield Visit("the counter of the phone is ahead of its clock", box, phone_of(box.authority, counter=ahead))
    for product, comment in (
        (1041, "the wanted box"), (104, "a box whose product begins with the wanted one"),
        (10_411, "a box whose product is the beginning of the wanted one"), (9, "the box of another car"),
    ):  # fmt: skip
        yield Visit(comment, product=product)
    for product in (1041, 0):
        box = Box()
        box.passes(60)
        box.authority.rotate(2)
        yield Visit(
            f"another box answers after a key set, {'with' if product else 'without'} a wanted one",
            box, phone_of(box.authority), product=product,
            changes={HELLO: _challenge(lambda each: each | {2: "box:1042:1"}, after=1)},
        )  # fmt: skip
    yield Visit("busy is no fault of the key", changes={OPENED: _result(Code.BUSY)})
    yield Visit("a code that the phone does not know", changes={OPENED: _result(99)})
    box = Box()
    yield Visit(
        "another box answers after a rejection", box, phone_of(box.authority, *keys),
        changes={OPENED: _result(Code.REFUSED), HELLO: _challenge(lambda each: each | {2: "box:9:9"}, after=1)},
    )  # fmt: skip


def _unknown() -> Iterator[Visit]:
    yield Visit("an entry with a high s", changes={OPENED: _entry(with_high_s)})
    box = Box()
    unsigned = replace(phone_of(box.authority), boxes=(HeldBox(box.authority.name, None),))
    yield Visit("an older server sent no key of the box", box, unsigned, changes={OPENED: _entry(_signed("stranger"))})
    for comment, change in (
        ("an entry that another key has signed", _signed("stranger")),
        ("an entry with the kid of the box, and another signature", lambda entry: entry[:-1] + b"\0"),
        ("an entry of another box", _signed(aud="box:9:9")),
        ("an entry of another command", _signed(event=CLOSE)),
        ("an entry of another counter", _signed(counter=1)),
        ("an entry of another phone", _signed(device=public("phone-2").thumbprint)),
        ("an entry that gives up later numbers", _signed(first=9)),
        ("no entry", lambda _: b""),
        ("no entry, but another message", lambda _: Authority().key()),
    ):
        yield Visit(f"a result with {comment}", changes={OPENED: _entry(change)})
    yield Visit("a rejection with an entry that another key has signed", changes={
        OPENED: lambda reply: write(Result(Code.COUNTER, _signed("stranger")(link_messages.read(reply, Result).entry)))
    })  # fmt: skip
    yield Visit("a result that is no item", changes={OPENED: lambda _: b"\xff"})
    yield Visit("a result without an entry's place", changes={OPENED: lambda _: encode([6, 0])})
    yield Visit("another message than a result", changes={OPENED: lambda _: encode([4, 0])})
    yield Visit("a result of more than 2,048 bytes", changes={OPENED: lambda _: encode([6, 0, bytes(2048)])})
    yield Visit("the connection is lost after the command", changes={OPENED: _lost(is_whole=True)})
    yield Visit("the connection is lost within the command", changes={OPENED: _lost(is_whole=False)})
    yield Visit("the connection is lost after the hello", changes={HELLO: _lost(is_whole=True)})


def _ends() -> Iterator[Visit]:
    box = Box()
    yield Visit("no key for this box", box, replace(phone_of(box.authority), keys=()))
    yield Visit("no list of this box", box, replace(phone_of(box.authority), boxes=(), lists=()))
    box = Box()
    box.reset()
    yield Visit("a box that is not provisioned", box, phone_of(Authority()))
    yield Visit("a box with newer versions", changes={HELLO: lambda _: write(VersionsMessage([3, 5]))})
    yield Visit("a box with older versions", changes={HELLO: lambda _: write(VersionsMessage([1]))})
    yield Visit("a box with an older and a newer version", changes={HELLO: lambda _: write(VersionsMessage([1, 3]))})
    yield Visit("versions with one that was offered", changes={HELLO: lambda _: write(VersionsMessage([1, 2]))})
    yield Visit("versions that do not ascend", changes={HELLO: lambda _: encode([12, [5, 3]])})
    yield Visit("no versions", changes={HELLO: lambda _: encode([12, []])})
    yield Visit("nine versions", changes={HELLO: lambda _: encode([12, list(range(3, 12))])})
    yield Visit("a hello that the box rejects", changes={HELLO: _result(Code.BUSY)})
    yield Visit("a carry that the box rejects", changes={
        CARRY: _result(Code.UNKNOWN), HELLO: _challenge(lambda each: each | {7: 0, 8: 0})
    })  # fmt: skip
    yield Visit("a challenge that is no item", changes={HELLO: lambda _: b""})
    yield Visit("a challenge of more than 2,048 bytes", changes={HELLO: lambda _: bytes(2049)})
    yield Visit("a challenge with a skipped member", changes={HELLO: _challenge(lambda each: each | {128: [1]})})
    for comment, change in (
        ("a member below 128", {13: 0}), ("a negative key", {-1: 0}), ("a key of text", {"a": 0}),
        ("a version that was not offered", {1: 3}), ("a name of 41 characters", {2: "x" * 41}),
        ("a nonce of 15 bytes", {3: bytes(15)}), ("a time that is no number", {4: b""}), ("certain 2", {5: 2}),
        ("a kid of 7 bytes", {12: bytes(7)}), ("a newest entry of 31 bytes", {11: bytes(31)}),
    ):  # fmt: skip
        wrong = _challenge(lambda each, change=change: each | change)
        yield Visit(f"a challenge with {comment}", changes={HELLO: wrong})


def _full(count: int = 6) -> Box:
    """A box with this number of openings in its log."""
    box = Box()
    key = box.authority.key()
    for _ in range(count):
        box.passes(4)
        assert not box.open(key).code
    box.passes(4)
    return box


def _fetches() -> Iterator[Visit]:
    both = "open", "fetch"
    box = _full()
    yield Visit("the phone fetches the log", box, phone_of(box.authority), calls=both)
    box = _full()
    entries = box.state.kept.log.entries[:5]
    yield Visit("entries that the phone has are not fetched", box, phone_of(box.authority, entries=entries), calls=both)
    box = _full()
    receipts = (box.authority.receipt(4, box.log[3]["digest"]),)
    acknowledged = phone_of(box.authority, receipts=receipts)
    yield Visit("entries that the server has are not fetched", box, acknowledged, calls=both)
    yield Visit("a log without other entries", calls=both)
    for comment, change in (
        ("an entry that another key has signed", lambda each: [*each[:1], _signed("stranger")(each[1]), *each[2:]]),
        ("entries in the wrong order", lambda each: each[::-1]),
        ("an entry twice", lambda each: [each[0], each[0]]),
        ("an entry of another box", lambda each: [_signed(aud="box:9:9")(each[0])]),
        ("entries with a high s", lambda each: [with_high_s(entry) for entry in each]),
        ("no entries", lambda _: []),
    ):
        box = _full(2)
        yield Visit(f"the log has {comment}", box, phone_of(box.authority), both, changes={FETCHED: _entries(change)})
    box = _full(2)
    has_two = phone_of(box.authority, entries=box.state.kept.log.entries[:2])
    earlier = box.state.kept.log.entries[0]
    yield Visit(
        "the log has an entry below the requested number", box, has_two, both,
        changes={FETCHED: _entries(lambda each: [earlier, *each])},
    )  # fmt: skip
    box = Box()
    box.passes(60)
    yield Visit(
        "the log after a challenge that is invalid", box, phone_of(box.authority), both,
        changes={HELLO: _challenge(lambda each: each | {13: 0}, after=1)},
    )  # fmt: skip
    yield Visit("a fetch that the box rejects", calls=both, changes={FETCHED: _result(Code.NOT_NOW)})
    yield Visit("five entries in one reply", calls=both, changes={FETCHED: lambda _: encode([8, 9, [b""] * 5])})
    yield Visit("the connection is lost within the log", calls=both, changes={FETCHED: _lost(is_whole=True)})
    yield Visit("a fetch without a known box", calls=both, state=replace(phone_of(Authority()), boxes=(), lists=()))
