"""docs/phone-vectors.json: what a phone keeps, brings, sends and learns.

`python -m tests.offline_keys.vectors.phone_vectors` writes the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from keyrack.offline_keys import cose, link_messages, phone, phone_state
from keyrack.offline_keys.cbor import encode
from keyrack.offline_keys.cose import MessageRefused
from keyrack.offline_keys.link_messages import Challenge
from keyrack.offline_keys.message_fields import ENTRY
from keyrack.offline_keys.phone_conversation import PhoneAction, action
from keyrack.offline_keys.phone_state import AnsweredBox, KeysAnswer, PhoneState
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.offline_keys.authority import DAY, WEEK, Authority, Box
from tests.offline_keys.fixed_keys import public, scalar, signer
from tests.offline_keys.vectors.phone_state_json import differences, dump, dump_answer, load
from tests.offline_keys.vectors.phone_visits import held, phone_of, visits

Json = dict[str, Any]
PATH = Path(__file__).parents[3] / "docs/phone-vectors.json"
NAME, OTHER = "box:1041:3", "box:1042:1"
HEADER = [
    "Vectors of phones: docs/key-link.md. Bytes are hexadecimal, times milliseconds since 1970.",
    "The state before is the one of that name, with the members of `set` in place of its own. `changes` has the",
    "members that differ afterwards. `code` is 0, or why the phone rejects the message; then nothing changes.",
    "Answer: the messages of GET /sdk/keys at the time `now`. Home: uploaded entries, and the receipts for them.",
    "Bring: what a box with this challenge lacks, in the order to send: `authority`, and after the next challenge",
    "`artefacts`. `isClockRight`: whether the box needs no signed time. Choice: the keys for a box, the best one",
    "first, and whether the user is warned. Counter: the next one. Missing: the first number to fetch.",
    "Registration: the message of PUT /sdk/devices. Action: the remedy for a code of a box.",
    "Conversation: calls of an app that wants the box of `product`, or any box if that is 0. A step sends a message",
    "and gets a reply at the time `now`, or loses the connection: `lost` is whether the whole message was sent. Or it",
    "asks the server for a time, which may be empty.",
    "The phone is phone-1. Its signatures are those of RFC 6979, the last 64 bytes of an `open`. Compare the bytes",
    "before them, and verify the signature, if your key store signs otherwise.",
]


def working() -> PhoneState:
    return phone_of(Authority())


def document() -> Json:
    groups = {
        "Answer": _answers(), "Home": _homes(), "Bring": _brings(), "Choice": _choices(), "Counter": _counters(),
        "Missing": _missing(), "Registration": _registrations(), "Action": _actions(), "Conversation": _conversations(),
    }  # fmt: skip
    tests = {kind: list(group) for kind, group in groups.items()}
    count = 0
    for test in (test for group in tests.values() for test in group):
        count += 1
        test["tcId"] = count
    return {
        "schema": "keyrack-phone-vectors-1",
        "numberOfTests": count,
        "header": HEADER,
        "codes": {str(int(code)): code.text for code in BoxRefusalCode},
        "keys": {name: _key(name) for name in ("phone-1", "box")},
        "states": {"empty": dump(PhoneState()), "working": dump(working())},
        "testGroups": [
            {"type": kind, "tests": [{"tcId": test.pop("tcId"), **test} for test in group]}
            for kind, group in tests.items()
        ],
    }


def text() -> str:
    return json.dumps(document(), indent=1) + "\n"


def state_of(test: Json, states: Json) -> PhoneState:
    """The state before a vector."""
    return load(states[test["state"]] | test["set"])


def _key(name: str) -> Json:
    key = public(name)
    return {
        "d": scalar(name).hex(), "x": key.x.hex(), "y": key.y.hex(), "thumbprint": key.thumbprint.hex()
    }  # fmt: skip


def _test(comment: str, state: PhoneState, **members: Any) -> Json:
    name = "empty" if state == PhoneState() else "working"
    base = PhoneState() if name == "empty" else working()
    return {"comment": comment, "state": name, "set": differences(base, state), **members}


def _answer(authority: Authority, **members: Any) -> KeysAnswer:
    box = AnsweredBox(authority.name, public("box").encoded, (authority.list(),), None)
    most: Json = {"key_set": authority.key_set(), "roots": (), "keys": (held(authority.key()),), "boxes": (box,)}
    return KeysAnswer(**most | members)


def _answers() -> Iterator[Json]:
    authority = Authority()
    answer, box = _answer(authority), _answer(authority).boxes[0]
    receipt = authority.receipt(3, bytes(32))
    yield _taken("the first answer", PhoneState(), answer)
    yield _taken("a customer without an authority", working(), KeysAnswer(None, (), (), ()))
    yield _taken("a receipt", working(), replace(answer, boxes=(replace(box, receipt=receipt),)))
    yield _taken("a box without lists is unknown", working(), replace(answer, boxes=(replace(box, lists=()),)))
    yield _taken("an older server sends no key of the box", working(), replace(answer, boxes=(replace(box, key=None),)))
    for comment, number, iat in (("higher", 4, 0), ("lower", 2, 9), ("equal and later", 3, 1), ("equal", 3, 0)):
        other = Authority(now=authority.now + iat).receipt(number, bytes(32))
        state = replace(working(), receipts=(receipt,))
        boxes = (replace(box, receipt=other),)
        yield _taken(f"a receipt with a number that is {comment}", state, replace(answer, boxes=boxes))
    late = Authority(sequence=3)
    roots = tuple(late.new_root(name) for name in ("next-root", "last-root"))
    newer = _answer(late, roots=roots[::-1])
    yield _taken("new roots are kept in their order", working(), newer)
    has_newer = replace(working(), key_set=newer.key_set, roots=roots)
    yield _taken("an older answer that arrives late", has_newer, answer)
    yield _taken("an answer without an authority that arrives late", has_newer, replace(answer, key_set=None))
    yield _taken("an answer with the same sequence", working(), _answer(Authority(now=authority.now + 9)))
    off_curve = encode({1: 2, -1: 1, -2: bytes(32), -3: bytes(32)})
    for comment, wrong in (
        ("the key of another phone", replace(answer, keys=(held(authority.key(cnf=public("phone-2"))),))),
        ("a key set in place of a key", replace(answer, keys=(replace(answer.keys[0], message=authority.key_set()),))),
        ("a key in place of the key set", replace(answer, key_set=authority.key())),
        ("a key set in place of a new root", replace(answer, roots=(authority.key_set(),))),
        ("a receipt in place of a list", replace(answer, boxes=(replace(box, lists=(receipt,)),))),
        ("a receipt that is no item", replace(answer, boxes=(replace(box, receipt=b"\xff"),))),
        ("a receipt of more than 300 bytes", replace(answer, boxes=(replace(box, receipt=bytes(301)),))),
        ("a key of a box that is no point", replace(answer, boxes=(replace(box, key=off_curve),))),
    ):
        yield _taken(comment, working(), wrong)


def _taken(comment: str, state: PhoneState, answer: KeysAnswer) -> Json:
    now = 1_800_000_060_000
    code, changes = 0, {}
    try:
        changes = differences(state, phone_state.take_keys(state, answer, public("phone-1"), now))
    except MessageRefused as refused:
        code = int(refused.code)
    return _test(comment, state, answer=dump_answer(answer), now=now, code=code, changes=changes)


def _log(count: int = 5) -> list[bytes]:
    box = Box()
    key = box.authority.key()
    for _ in range(count - 1):
        box.passes(4)
        assert not box.open(key).code
    return list(box.state.kept.log.entries)


def _homes() -> Iterator[Json]:
    authority, log = Authority(), _log()
    receipt, wrong = authority.receipt(3, bytes(32)), authority.key()
    has = replace(working(), entries=tuple(log))
    for comment, entries, receipts in (
        ("uploaded entries go, and a receipt comes", log[:3], [receipt]),
        ("an entry that was taken meanwhile stays", log[1:2], []),
        ("receipts of two boxes", [], [receipt, Authority(name=OTHER).receipt(1, bytes(32))]),
        ("a key in place of a receipt", log, [wrong]),
    ):
        code, changes = 0, {}
        try:
            changes = differences(has, phone_state.bring_home(has, entries, receipts))
        except MessageRefused as refused:
            code = int(refused.code)
        members = {"entries": [each.hex() for each in entries], "receipts": [each.hex() for each in receipts]}
        yield _test(comment, has, **members, code=code, changes=changes)


def _brings() -> Iterator[Json]:
    authority = Authority()
    base = Box().challenge()
    roots = tuple(authority.new_root(name) for name in ("next-root", "last-root"))
    full = phone_of(
        authority, roots=roots, lists=(authority.list(5), authority.list(4), Authority(name=OTHER).list(7)),
        receipts=(authority.receipt(3, bytes(32)),),
    )  # fmt: skip
    now, some = authority.now, {"first": 1, "next": 5}
    for comment, members in (
        ("everything", {}),
        ("the root before the last one", {"root": public("next-root").kid, "sequence": 2}),
        ("the last root", {"root": public("last-root").kid, "sequence": 4}),
        ("a root that is older for the box", {"sequence": 2}),
        ("the newest key set", {"root": public("last-root").kid, "sequence": 5}),
        ("a root that the phone does not know", {"root": bytes(8)}),
        ("no root", {"root": b"", "sequence": 0}),
        ("the newest lists", {"generation": 5, "listed": now}),
        ("an older list of the newest generation", {"generation": 5, "listed": now - 1}),
        ("the generation before", {"generation": 4, "listed": now}),
        ("a newer generation", {"generation": 6, "listed": now - 1}),
        ("a generation that is newer by two", {"generation": 7, "listed": now - 1}),
        ("a log that has begun behind the receipt", {"first": 4}),
        ("a log that has not come to the receipt", {"next": 3}),
        ("another box, of which the phone has a list only", {"name": OTHER}),
        ("an unknown box", {"name": "box:9:9"}),
        ("a clock that is uncertain", {"certain": 0}),
        ("a clock that is 300 s behind", {"time": now - 300}),
        ("a clock that is 301 s behind", {"time": now - 301}),
        ("a clock that is 301 s ahead", {"time": now + 301}),
        ("a time that is the greatest number", {"time": (1 << 53) - 1}),
    ):  # fmt: skip
        yield _brought(comment, full, base._replace(**some | members), now * 1000)
    yield _brought("a phone without anything", PhoneState(), base, now * 1000)


def _brought(comment: str, state: PhoneState, challenge: Challenge, now: int) -> Json:
    return _test(
        comment, state, challenge=link_messages.write(challenge).hex(), now=now,
        authority=[each.hex() for each in phone_state.authority_for(state, challenge)],
        artefacts=[each.hex() for each in phone_state.artefacts_for(state, challenge)],
        isClockRight=phone_state.is_clock_right(challenge, now),
    )  # fmt: skip


def _choices() -> Iterator[Json]:
    authority = Authority()
    now = authority.now
    keys = [
        authority.key(1, exp=now + WEEK), authority.key(2, nbf=now + DAY, exp=now + 2 * WEEK),
        authority.key(3, nbf=now - WEEK, iat=now - WEEK, exp=now + 1), Authority(name=OTHER).key(4),
        authority.key(5, exp=now + WEEK),
    ]  # fmt: skip
    state = phone_of(authority, *keys)
    for comment, box, at in (
        ("valid keys, then those that expire last", NAME, now * 1000),
        ("the end of a key", NAME, (now + 1) * 1000),
        ("the beginning of a key", NAME, (now + DAY) * 1000),
        ("before the keys", NAME, (now - 2 * WEEK) * 1000),
        ("after the time of renewal", NAME, (now + WEEK // 2) * 1000),
        ("a key for another box", OTHER, now * 1000),
        ("no key", "box:9:9", now * 1000),
    ):
        best = phone_state.keys_for(state, box, at)
        yield _test(
            comment, state, box=box, now=at, keys=[key.message.hex() for key in best],
            overdue=[phone_state.is_overdue(state, key, at) for key in best],
        )  # fmt: skip


def _counters() -> Iterator[Json]:
    for comment, last, now in (
        ("the time", 0, 1_800_000_000_000), ("the time is the last one", 1_800_000_000_000, 1_800_000_000_000),
        ("the clock was set back", 1_800_000_000_005, 1_700_000_000_000), ("the time, after a while", 5, 6),
        ("the next one is the time", 5, 5),
    ):  # fmt: skip
        state = replace(working(), counter=last)
        yield _test(comment, state, now=now, counter=phone_state.next_counter(state, now).counter)


def _missing() -> Iterator[Json]:
    log = _log()
    receipt = Authority().receipt(2, bytes(32))
    other = cose.sign(
        ENTRY, public("box").kid, cose.read(log[2], ENTRY).claims | {"aud": OTHER}, signer("box").sign
    )  # fmt: skip
    for comment, first, members in (
        ("nothing is known", 1, {}), ("a log of an invalid box", 0, {}), ("a log with later entries", 7, {}),
        ("entries without a gap", 1, {"entries": log}), ("entries with a gap", 1, {"entries": [log[0], log[2]]}),
        ("a receipt", 1, {"receipts": [receipt]}),
        ("a receipt, and later entries", 1, {"receipts": [receipt], "entries": log[2:]}),
        ("an entry of another box", 3, {"entries": [phone.kept(other)]}),
    ):  # fmt: skip
        state = replace(working(), **{name: tuple(value) for name, value in members.items()})
        yield _test(comment, state, box=NAME, first=first, number=phone_state.first_missing(state, NAME, first))


def _registrations() -> Iterator[Json]:
    for comment, subject in (("a user", "somebody"), ("the longest subject", "x" * 128)):
        nonce = bytes(range(16))
        message = phone.registration(subject, public("phone-1"), nonce, signer("phone-1").sign)
        yield {"comment": comment, "subject": subject, "nonce": nonce.hex(), "message": message.hex()}


def _actions() -> Iterator[Json]:
    for code in (*range(1, max(BoxRefusalCode) + 1), 99, 1 << 40):
        name = BoxRefusalCode(code).text if code <= max(BoxRefusalCode) else "unknown number"
        yield {"comment": name, "code": code, "action": PhoneAction(action(code)).name.lower()}


def _conversations() -> Iterator[Json]:
    for visit in visits():
        before, after, calls = visit.run()
        yield _test(
            visit.comment, before, hasNetwork=visit.has_network, product=visit.product, calls=calls,
            changes=differences(before, after),
        )  # fmt: skip


if __name__ == "__main__":
    PATH.write_text(text())
