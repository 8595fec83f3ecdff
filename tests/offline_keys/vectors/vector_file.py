"""docs/keys-vectors.json: the vectors, with the results of the reference box.

The form is that of Wycheproof's files. `python -m tests.offline_keys.vectors.vector_file` writes it.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keyrack.offline_keys import cose
from keyrack.offline_keys.box import firmware
from keyrack.offline_keys.link_messages import AcceptedMessage, Result, read
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.offline_keys.fixed_keys import NAMES, Own, public, scalar
from tests.offline_keys.vectors import codec_items
from tests.offline_keys.vectors.accepted_messages import TICK, a_log, far, goods, phones
from tests.offline_keys.vectors.diagnostic_notation import shown
from tests.offline_keys.vectors.initial_states import fresh, working
from tests.offline_keys.vectors.malformed_messages import unread
from tests.offline_keys.vectors.message_recipes import MESSAGES, Built, Json, changed, message, spliced
from tests.offline_keys.vectors.rejected_messages import unwanted
from tests.offline_keys.vectors.state_json import changes, dump, load

PATH = Path(__file__).parents[3] / "docs/keys-vectors.json"
FLAGS = {
    "Algorithm": ("MODIFIED_PARAMETER", "Another algorithm, curve or type of key. There is one."),
    "Audience": ("AUTH_BYPASS", "What is for another box, or for this one before it was enrolled anew."),
    "Authority": ("AUTH_BYPASS", "What another authority or another of its keys has signed."),
    "Bounds": ("EDGE_CASE", "Lengths and numbers at their bounds and beyond."),
    "Clock": ("AUTH_BYPASS", "What moves the clock, and what does not."),
    "Clone": ("AUTH_BYPASS", "The counter of a phone's key: a copied key is noticed."),
    "ClosedMap": ("CAN_OF_WORMS", "A message has exactly its members, each of its type."),
    "Crit": ("CAN_OF_WORMS", "Critical headers: none is understood, so none is taken."),
    "Encoding": ("BER_ENCODING", "What is not in the core deterministic encoding, or has types that are not allowed."),
    "Flood": ("FUNCTIONALITY", "Buckets, and refusals that are counted."),
    "Freshness": ("AUTH_BYPASS", "The limit: how long a key opens without word from the server."),
    "Header": ("MODIFIED_PARAMETER", "The protected header has three labels, the unprotected one none."),
    "HighS": ("FUNCTIONALITY", "A high s is as good as a low one. Entries are kept with the low one."),
    "Inflate": ("MALLEABILITY", "A list is one zlib stream of exactly 256 bytes."),
    "Link": ("FUNCTIONALITY", "What is said on a link."),
    "Log": ("FUNCTIONALITY", "Entries, receipts, and a log that is full."),
    "Opening": ("BASIC", "A key opens or closes."),
    "Point": ("INVALID_PUBLIC_KEY", "A public key is a point of the curve, with coordinates less than p."),
    "Possession": ("AUTH_BYPASS", "The answer is by the phone that has the key, and to this challenge."),
    "Power": ("FUNCTIONALITY", "A start after a loss of power."),
    "Provisioning": ("AUTH_BYPASS", "How a box gets an authority, and from whom only."),
    "Replay": ("AUTH_BYPASS", "A nonce is good for one use, on one link, for 10 s."),
    "Revocation": ("AUTH_BYPASS", "Status lists: places, generations, bits."),
    "Rights": ("AUTH_BYPASS", "What a key opens, and whether it closes."),
    "Rollback": ("AUTH_BYPASS", "What is older than what the box has."),
    "Root": ("AUTH_BYPASS", "A new root, which the one before has signed."),
    "Rotation": ("AUTH_BYPASS", "Key sets, and what the issuing keys before have signed."),
    "Signature": ("INVALID_SIGNATURE", "Signatures that do not hold, or have another form."),
    "Skipped": ("FUNCTIONALITY", "Members that readers skip."),
    "Tag": ("BER_ENCODING", "Tag 18 around the whole of a signed message, and no other tag anywhere."),
    "Time": ("AUTH_BYPASS", "nbf, exp and iat against the clock, with 300 s of tolerance."),
    "Typ": ("MODIFIED_PARAMETER", "A message of one kind in place of one of another."),
    "Version": ("FUNCTIONALITY", "Versions of the protocol, and messages that a box does not know."),
}  # fmt: skip
HEADER = [
    "Vectors of docs/keys.md. Bytes are hexadecimal, times seconds since 1970, ticks seconds since the box has",
    "started.",
    "Encoding: items for the codec. Reading: signed messages that are read where `expects` is expected. Start: a",
    "box after a loss of power, of which a clock that went on has measured `elapsed` seconds; null where it stood.",
    "Box: a message on a link.",
    "The state before is the one of that name, with the members of `set` in place of its own; `changes` has the",
    "members that differ afterwards. `entries` of a log has those that are asked for, by their numbers, and",
    "`changes` has none. `booted` is what the clock would have said at tick 0; `good` are the keys that opened or",
    "closed last. `phoneBuckets` are in the order of `phones`, two for each; `connection` of a link is 0 for a free",
    "place, and `provenAt` is the tick at which it was proven last, or null. A box may write `floor` down more often.",
    "`random` is what the random source gives. Connect: a link begins; `link` is its place.",
    "`code` is the exact one, which stands in the log where the reply has an entry. `wireCode` is that of a result,",
    "or the number in `taken`, or null. `effect`: 1 opens, 2 closes.",
    "`recipe` says how a message is made, by the private keys in `keys`. A refused one is one thing away from the",
    "good one that `mends` names: `change` says at which place of that one's input another value stands (null:",
    "none). `also` has members that are skipped, by their labels. What follows from something is made anew: hashes,",
    "signatures, lengths. Signatures are those of RFC 6979, those of entries with a low s. `kept` is an entry as",
    "server and phones keep it.",
]


def document() -> Json:
    """The whole file."""
    count = itertools.count(1)
    groups = [_encoding(count), _reading(count), _starts(count), _connections(count), _box(count)]
    tests = [test for group in groups for test in group["tests"]]
    used = {flag for test in tests for flag in test["flags"]}
    return {
        "schema": "keyrack-keys-vectors-2",
        "numberOfTests": len(tests),
        "header": HEADER,
        "notes": {
            flag: {"bugType": kind, "description": text} for flag, (kind, text) in sorted(FLAGS.items()) if flag in used
        },
        "codes": {str(int(code)): code.text for code in BoxRefusalCode},
        "keys": {name: _key(name) for name in NAMES},
        "testGroups": groups,
    }


def text() -> str:
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


def run(given: Json, states: dict[str, Json]) -> tuple[Built, firmware.MessageResult, Json]:
    """The result of the reference box: message, outcome, and changed fields of its state."""
    named = states[given["state"]]
    built = Built(given["recipe"], named["links"])
    return built, *hear(given, built.message, states)


def hear(given: Json, message: bytes, states: dict[str, Json]) -> tuple[firmware.MessageResult, Json]:
    before = load(states[given["state"]] | given["set"])
    outcome = firmware.receive(before, given["link"], message, given["tick"], bytes.fromhex(given["random"]), Own())
    return outcome, changes(before, outcome.state)


@functools.cache
def states() -> dict[str, Json]:
    return {"fresh": dump(fresh()), "working": dump(working(), range(3, 8))}


def _box(count: Iterator[int]) -> Json:
    tests: list[Json] = []
    numbers: dict[str, int] = {}
    inputs: dict[str, Json] = {}
    for name, comment, flags, given in goods():
        numbers[name], inputs[name] = next(count), given
        told = {"name": name, "recipe": given["recipe"]}
        tests.append(_test(numbers[name], comment, flags, BoxRefusalCode.GOOD, given, told))
    for mends, comment, flags, code, change in (*unread(), *unwanted()):
        told = {"mends": numbers[mends], "change": change}
        tests.append(_test(next(count), comment, flags, code, changed(inputs[mends], change), told))
    return {"type": "Box", "states": states(), "tests": tests}


def _test(number: int, comment: str, flags: tuple[str, ...], code: BoxRefusalCode, given: Json, told: Json) -> Json:
    built, outcome, changed = run(given, states())
    assert outcome.code is code, f"{comment}: {outcome.code.text}, not {code.text}"
    made: Json = {
        "tcId": number,
        "comment": comment,
        "flags": list(flags),
        **{each: given[each] for each in ("state", "set", "tick", "link", "random")},
        **told,
        "toBeSigned": {part: signed.hex() for part, signed in built.signed.items()},
        "message": built.message.hex(),
    }
    if code is BoxRefusalCode.GOOD:
        made["diagnostic"] = shown(built.message)
    return made | {
        "result": "invalid" if code else "valid",
        "reply": outcome.reply.hex(),
        "wireCode": _wire(outcome.reply),
        "code": int(code),
        "effect": int(outcome.effect),
        "changes": changed,
    }


def _wire(reply: bytes) -> int | None:
    """The code of a result, whether an artefact was refused, or null."""
    try:
        said = read(reply, Result, AcceptedMessage)
    except cose.MessageRefused:
        return None
    return said.code if isinstance(said, Result) else said.refused


def _starts(count: Iterator[int]) -> Json:
    tests: list[Json] = []
    for name, comment, state, differs, elapsed in (
        ("start-lost", "the clock stood: it begins at the floor, and is uncertain", "working", {}, None),
        ("start-kept", "the clock went on for 40 s, and is as certain as before", "working", {}, 40),
        ("start-uncertain", "it went on, and stays uncertain", "working", {"certain": 0}, 40),
        ("start-fresh", "a box without an authority writes no entry", "fresh", {}, None),
        ("start-ahead", "how far artefacts have moved the clock outlives the power", "working", {"ahead": 86_400}, 40),
        ("start-256", "where 256 places are left, a start is written", "working", {"log": a_log(768)}, None),
        ("start-255", "where fewer are left, it is counted", "working", {"log": a_log(769)}, None),
        (
            "start-full",
            "a log that is full: nothing but openings push out entries",
            "working",
            {"log": a_log(1024)},
            40,
        ),
        ("start-far", "the newest list is too far ahead of the clock", "working", {"lists": far(0)}, 10),
        ("start-phones", "the buckets of phones are full", "working", phones(3), 40),
    ):
        before = load(states()[state] | differs)
        after = firmware.start(before.kept, 7, elapsed, Own())
        entries = after.kept.log.entries[len(before.kept.log.entries) :]
        tests.append({
            "tcId": next(count),
            "comment": comment,
            "flags": ["Power"],
            "name": name,
            "state": state,
            "set": differs,
            "tick": 7,
            "elapsed": elapsed,
            "result": "valid",
            "entry": b"".join(entries).hex(),
            "changes": changes(before, after),
        })  # fmt: skip
    return {"type": "Start", "tests": tests}


def _connections(count: Iterator[int]) -> Json:
    """New links: free places first, then unproven links, then all, the oldest first."""
    tests: list[Json] = []
    first, second, third = states()["working"]["links"]
    free = states()["fresh"]["links"][0] | {
        "connection": 0,
        "bucket": {"tokens": 0, "since": 0},
        "nonce": "",
        "made": 0,
    }
    free["challenge"] = ""
    now, late = {"provenAt": TICK - 299}, {"provenAt": TICK - 300}
    for comment, differs in (
        ("the oldest link ends that is not proven", {}),
        ("the first free place", {"links": [first, free, free]}),
        ("the only free place", {"links": [first, second, free]}),
        ("the one that has been there longest, whatever its place", {"links": [third, second, first]}),
        ("the only one that is not proven", {"links": [first | now, second, third]}),
        ("the first place, which is free", {"links": [free, second, third | now]}),
        ("the only one whose proof is over", {"links": [first | now, second | late, third | now]}),
        ("all are proven: the oldest link ends", {"links": [third | now, first | now, second | now]}),
    ):
        before = load(states()["working"] | differs)
        after, place = firmware.connect(before, TICK)
        tests.append({
            "tcId": next(count),
            "comment": comment,
            "flags": ["Link"],
            "state": "working",
            "set": differs,
            "tick": TICK,
            "result": "valid",
            "link": place,
            "changes": changes(before, after),
        })  # fmt: skip
    return {"type": "Connect", "tests": tests}


def _reading(count: Iterator[int]) -> Json:
    tests: list[Json] = []
    numbers: dict[str, int] = {}
    recipes: dict[str, Json] = {}
    for name, recipe, comment, flags in codec_items.READ:
        numbers[name], recipes[name] = next(count), recipe
        tests.append(_read(numbers[name], name, comment, flags, BoxRefusalCode.GOOD, recipe, {"recipe": recipe}))
    for name, path, value, code, comment in codec_items.MISREAD:
        change = {"path": path.split("/"), "value": value}
        told = {"mends": numbers[name], "change": change}
        tests.append(_read(next(count), name, comment, "ClosedMap", code, changed(recipes[name], change), told))
    return {"type": "Reading", "tests": tests}


def _read(number: int, name: str, comment: str, flags: str, code: BoxRefusalCode, recipe: Json, told: Json) -> Json:
    data, signed = message(recipe)
    try:
        cose.read(data, MESSAGES[name])
        found = BoxRefusalCode.GOOD
    except cose.MessageRefused as refused:
        found = refused.code
    assert found is code, f"{comment}: {found.text}, not {code.text}"
    if name == "entry" and found is BoxRefusalCode.GOOD:
        told = told | {"kept": cose.read_entry(data).raw.hex()}
    return {
        "tcId": number,
        "comment": comment,
        "flags": flags.split(),
        "expects": name,
        **told,
        "toBeSigned": signed.hex(),
        "message": data.hex(),
        "result": "invalid" if code else "valid",
        "code": int(code),
    }


def _encoding(count: Iterator[int]) -> Json:
    tests: list[Json] = []
    numbers: dict[str, int] = {}
    data: dict[str, bytes] = {}
    for name, item, comment in codec_items.ITEMS:
        numbers[name], data[name] = next(count), bytes.fromhex(item)
        tests.append(_item(numbers[name], comment, data[name], {"name": name}, "valid"))
    for name, change, comment in codec_items.NEARLY:
        told = {"mends": numbers[name], "change": change}
        tests.append(_item(next(count), comment, spliced(data[name], change), told, "invalid"))
    return {"type": "Encoding", "tests": tests}


def _item(number: int, comment: str, data: bytes, told: Json, result: str) -> Json:
    return {"tcId": number, "comment": comment, "flags": ["Encoding"], **told, "item": data.hex(), "result": result}


def _key(name: str) -> dict[str, Any]:
    key = public(name)
    return {"d": scalar(name).hex(), "x": key.x.hex(), "y": key.y.hex(), "thumbprint": key.thumbprint.hex()}


if __name__ == "__main__":
    PATH.write_text(text())
