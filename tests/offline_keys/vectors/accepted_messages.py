"""In charge of the good messages among the vectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.offline_keys.vectors.initial_states import (
    DAY,
    NOW,
    answer,
    entry,
    key,
    key_set,
    provisioning,
    random,
    receipt,
    status_list,
    time,
    uri,
    working,
)  # fmt: skip
from tests.offline_keys.vectors.message_recipes import Json
from tests.offline_keys.vectors.state_json import dump

WEEK = 604_800
TICK = 1005
HERE = NOW + 5  # what the working box's clock says then


class Good(NamedTuple):
    name: str  # by which refused ones name it
    comment: str
    flags: tuple[str, ...]
    input: Json


def good(name: str, comment: str, flags: str, recipe: Json, **others: Any) -> Good:
    given: Json = {"state": "working", "set": {}, "tick": TICK, "link": 0, "random": random(1000).hex()}
    return Good(name, comment, tuple(flags.split()), given | others | {"recipe": recipe})


def opens(part: Json | None = None, said: Json | None = None) -> Json:
    return {"say": "open", "key": part or key(), "answer": said or answer()}


def carries(artefact: Json) -> Json:
    return {"say": "carry", "artefact": artefact}


def other(part: Json, **changes: Any) -> Json:
    return part | changes


def links(**of_first: Any) -> list[Json]:
    """Those of the working box, the first one with something else."""
    first, *rest = dump(working())["links"]
    return [first | of_first, *rest]


def a_log(held: int) -> Json:
    """One that holds as many entries, of which nobody knows more than their numbers."""
    log = dump(working())["log"]
    return log | {"first": 1000, "next": 1000 + held, "entries": {}}


def phones(count: int) -> list[list[Any]]:
    return [[random(number).hex() * 2, NOW * 1000 + number] for number in range(count)]


PROVISION = {
    "say": "provision",
    "provisioning": provisioning(NOW - 20 * DAY),
    "keyset": key_set(),
    "list": status_list(1, NOW - 20 * DAY) | {"signer": "issuing-1"},
}
AGAIN = {
    "say": "provision",
    "provisioning": provisioning(NOW - 300),
    "keyset": key_set(sequence=2, keys=["issuing-1", "issuing-2"], iat=NOW - 8 * DAY),
    "list": status_list(2, NOW - 7200),
}


def goods() -> Iterator[Good]:
    yield from _talking()
    yield from _opening()
    yield from _bounds()
    yield from _carrying()
    yield from _provisioning()


def _talking() -> Iterator[Good]:
    yield good("hello", "a challenge", "Link", {"say": "hello"}, link=2)
    yield good(
        "hello-fresh", "a challenge of a box without an authority", "Link Provisioning", {"say": "hello"}, state="fresh"
    )
    yield good(
        "hello-again", "a hello on a link that has a nonce, which dies", "Link Replay", {"say": "hello"}, tick=1003
    )
    yield good("hello-end", "a clock that has come to the last time there is", "Clock", {"say": "hello"}, link=2,
               set={"booted": (1 << 53) - 1000})  # fmt: skip
    yield good(
        "fetch", "the log, of which a message has room for four entries", "Log", {"say": "fetch", "from": 3}, link=1
    )
    yield good(
        "fetch-gone", "entries that are gone: what is held begins later", "Log", {"say": "fetch", "from": 1}, link=1
    )
    yield good("fetch-last", "the newest entry alone", "Log", {"say": "fetch", "from": 7}, link=1)
    yield good("fetch-none", "entries that do not exist yet", "Log", {"say": "fetch", "from": 8}, link=1)
    yield good(
        "enrol", "a box without an authority says its public key", "Provisioning",
        {"say": "enrol", "nonce": random(77).hex()}, state="fresh",
    )  # fmt: skip


def _opening() -> Iterator[Good]:
    yield good("open", "a key opens", "Opening", opens())
    yield good("close", "a key closes", "Opening", opens(said=answer(command=2)))
    yield good("open-unseen", "a key that this box has not seen", "Opening", opens(key(cti="ff" * 16)))
    yield good("open-after", "a nonce in its last second", "Opening Replay", opens(), tick=1009)
    yield good("open-older-issuer", "a key of the issuing key before, after a rotation", "Rotation",
               opens(other(key(), signer="issuing-1")))  # fmt: skip
    yield good("open-older-list", "a key in the list of the generation before", "Revocation",
               opens(key(status={"idx": 1, "uri": uri(1)})))  # fmt: skip
    yield good("open-other-phone", "a phone that the box has not met, whose counter begins at 0", "Clone",
               opens(key(cnf="phone-2"), other(answer(counter=0), signer="phone-2")))  # fmt: skip
    yield good("open-high-key", "the key's signature has a high s", "HighS", opens(other(key(), signature="high")))
    yield good("open-high-answer", "the answer's signature has a high s", "HighS",
               opens(said=other(answer(), signature="high")))  # fmt: skip
    yield good("open-uncertain", "the clock is uncertain, and the key opens even then", "Clock",
               opens(key(rights=[1, 2, 3])), set={"certain": 0})  # fmt: skip
    yield good("open-only", "a key that does not close", "Rights", opens(key(rights=[1])))
    yield good("open-last-place", "the entry takes the last place of the log", "Log", opens(), set={"log": a_log(1023)})
    for held in (768, 769):
        yield good(f"open-{held}", f"a log of {held} entries", "Log", opens(key(rights=[1])), set={"log": a_log(held)})
    yield good("open-full", "the log is full: its oldest entry goes, and the new one says so", "Log", opens(),
               set={"log": a_log(1024)})  # fmt: skip
    yield good("open-after-flood", "the entry says how many were refused without one", "Flood", opens(),
               set={"refused": [4711, 25]})  # fmt: skip
    yield good("open-65th", "a 65th phone: the one whose opening is the oldest is forgotten", "Clone", opens(),
               set={"phones": phones(64)})  # fmt: skip
    yield good("open-known", "the first one of 64 phones opens again, and is the last to be forgotten", "Clone",
               opens(), set={"phones": [*dump(working())["phones"], *phones(63)]})  # fmt: skip


def _bounds() -> Iterator[Good]:
    yield good("open-nbf", "nbf at the end of the tolerance", "Time", opens(key(nbf=HERE + 300)))
    yield good("open-exp", "exp at the end of the tolerance", "Time", opens(key(exp=HERE - 299)))
    yield good("open-ahead", "iat a week ahead: the clock follows", "Clock Time",
               opens(key(iat=HERE + WEEK, exp=HERE + WEEK + DAY)))  # fmt: skip
    yield good("open-limit", "the list is older than the key, whose iat is just late enough", "Freshness",
               opens(key(iat=NOW - 7100, limit=7105)))  # fmt: skip
    yield good("open-limit-list", "the key is older than the list, whose iat is just late enough", "Freshness",
               opens(key(limit=7205)))  # fmt: skip
    yield good("open-index", "the last place of a list", "Revocation", opens(key(status={"idx": 2047, "uri": uri(2)})))
    yield good(
        "open-token", "the last token of the bucket", "Flood", opens(), set={"bucket": {"tokens": 1, "refilled": TICK}}
    )
    yield good("open-refilled", "an empty bucket, a second ago", "Flood", opens(),
               set={"bucket": {"tokens": 0, "refilled": TICK - 1}})  # fmt: skip
    yield good("open-counter", "the counter is one more than the last one", "Clone",
               opens(said=answer(counter=(NOW - 52) * 1000 + 1)))  # fmt: skip
    yield good("open-largest", "numbers at their bounds", "Bounds",
               opens(key(exp=(1 << 53) - 1, nbf=1, assignment=(1 << 31) - 1, limit=(1 << 31) - 1),
                     answer(counter=(1 << 53) - 1)))  # fmt: skip


def _carrying() -> Iterator[Good]:
    third = key_set(sequence=3, keys=["issuing-2", "issuing-3"], iat=NOW - DAY)
    yield good("keyset", "a newer key set: the older issuing key is over", "Rotation", carries(third))
    yield good("keyset-one", "a key set of one key", "Rotation", carries(key_set(sequence=9, keys=["issuing-3"])))
    yield good("keyset-ahead", "a key set of more than a week ahead: the clock stays", "Rotation Clock",
               carries(key_set(sequence=3, iat=HERE + 9 * WEEK)))  # fmt: skip
    yield good("list-ahead", "a list of a week ahead: the clock follows", "Clock", carries(status_list(2, HERE + WEEK)))
    yield good("list", "a later list of the newest generation", "Revocation",
               carries(status_list(2, NOW - 7199, status_list={"revoked": [3, 7, 64, 2046]})))  # fmt: skip
    yield good("list-before", "a later list of the generation before", "Revocation", carries(status_list(1, NOW)))
    yield good("list-next", "a list of the next generation takes the place of the lower one", "Revocation",
               carries(status_list(3, NOW - 9000)))  # fmt: skip
    yield good("list-skipped", "a list two generations on", "Revocation", carries(status_list(4, NOW)))
    yield good("list-full", "a list in which every key is revoked", "Revocation",
               carries(status_list(2, NOW, status_list={"revoked": list(range(2048))})))  # fmt: skip
    yield good("list-stored", "a list whose zlib stream does not compress", "Inflate",
               carries(status_list(2, NOW, status_list={"lst": STORED.hex()})))  # fmt: skip
    yield good("time", "a time, forward", "Clock", carries(time(HERE + 40)))
    yield good("time-back", "a time, back: the floor goes with it", "Clock", carries(time(NOW - 900)))
    yield good("time-far", "a time more than a week ahead", "Clock", carries(time(HERE + 5 * WEEK)))
    yield good("time-uncertain", "a time makes an uncertain clock certain", "Clock", carries(time(NOW + 5)),
               set={"certain": 0})  # fmt: skip
    yield good("receipt", "a receipt frees two entries", "Log", carries(receipt(4, entry(4))))
    yield good("receipt-all", "a receipt frees all entries", "Log", carries(receipt(7, entry(7))))


def _provisioning() -> Iterator[Good]:
    yield good("provision", "the first provisioning", "Provisioning", PROVISION, state="fresh", tick=25)
    yield good(
        "provision-again", "provisioning of a box at work: the clock is set, also back", "Provisioning Clock", AGAIN
    )
    older = AGAIN | {"list": status_list(2, NOW - 7201, status_list={"revoked": []})}
    yield good("provision-older", "an older list beside it changes nothing", "Provisioning Rollback", older)
    newer = AGAIN | {
        "keyset": key_set(sequence=3, keys=["issuing-2", "issuing-3"], iat=NOW - DAY),
        "provisioning": provisioning(NOW + 2) | {"signer": "issuing-3"},
        "list": status_list(3, NOW) | {"signer": "issuing-3"},
    }
    yield good("provision-newer", "with a newer key set and the next list", "Provisioning Rotation", newer)


# 256 zero bytes as one stored block of deflate
STORED = bytes.fromhex("7801" + "01" + "0001" + "fffe") + bytes(256) + bytes.fromhex("01000001")
