"""The accepted messages of the vectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.offline_keys.fixed_keys import public
from tests.offline_keys.vectors.initial_states import (
    DAY,
    NOW,
    answer,
    entry,
    key,
    key_set,
    keys,
    new_root,
    provisioning,
    random,
    receipt,
    status_list,
    time,
    uri,
    working,
)  # fmt: skip
from tests.offline_keys.vectors.message_recipes import Json
from tests.offline_keys.vectors.state_json import dump, written

WEEK = 604_800
TICK = 1005
HERE = NOW + 5  # the working box's clock at that time


class Good(NamedTuple):
    name: str  # refused messages refer to it
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
    """The links of the working box, the first one with other values."""
    first, *rest = dump(working())["links"]
    return [first | of_first, *rest]


def a_log(held: int) -> Json:
    """A log with so many entries, of which only the numbers are known."""
    log = dump(working())["log"]
    return log | {"first": 1000, "next": 1000 + held, "entries": {}}


def phones(count: int, *before: Any) -> Json:
    """The fields of a state with so many remembered phones, after these."""
    remembered = [*before, *([random(number).hex() * 2, NOW * 1000 + number] for number in range(count))]
    return {"phones": remembered, "phoneBuckets": [both(4, 4, number) for number in range(len(remembered))]}


def bucket(tokens: int, since: int = TICK) -> Json:
    return {"tokens": tokens, "since": since}


def both(remembered_key: int, other_key: int, since: int = TICK) -> Json:
    """The two buckets of a phone with so many tokens."""
    return {"rememberedKey": bucket(remembered_key, since), "otherKey": bucket(other_key, since)}


def buckets(link: int, common: int, remembered_key: int = 0, other_key: int = 0) -> Json:
    """The fields of a working box's state with so many tokens."""
    return {
        "links": links(bucket=bucket(link)),
        "bucket": bucket(common),
        "phoneBuckets": [both(remembered_key, other_key)],
    }


def far(*places: int) -> list[Json]:
    """The lists of the working box, those at these places too far ahead."""
    lists = dump(working())["lists"]
    return [each | {"iat": HERE + WEEK + 1} if place in places else each for place, each in enumerate(lists)]


PROVISION = {
    "say": "provision",
    "provisioning": provisioning(NOW - 20 * DAY),
    "keyset": key_set(),
    "list": status_list(1, NOW - 20 * DAY) | {"signer": "issuing-1"},
}
AGAIN = {
    "say": "provision",
    "provisioning": provisioning(NOW - 300),
    "keyset": key_set(sequence=2, iat=NOW - 8 * DAY, **keys("1", "2")),
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
    yield good("hello-newer", "a phone that also speaks a newer version and an older one", "Link Version",
               {"say": "hello", "versions": [1, 2, 3]}, link=2)  # fmt: skip
    yield good("hello-many", "a phone that speaks eight versions", "Link Version",
               {"say": "hello", "versions": [0, 2, 3, 4, 5, 6, 7, (1 << 53) - 1]}, link=2)  # fmt: skip
    for versions in ([1], [3], [1, 3]):
        yield good(f"hello-{len(versions)}-{versions[0]}", "no version in common: the nonce dies", "Link Version",
                   {"say": "hello", "versions": versions})  # fmt: skip
    yield good("hello-other", "no version in common on a proven link, which is proven no more", "Link Version",
               {"say": "hello", "versions": [3]}, link=1)  # fmt: skip
    yield good("hello-proven", "a hello on a proven link, which is proven no more", "Link Possession",
               {"say": "hello"}, link=1)  # fmt: skip
    yield good("hello-far", "the newest list is too far ahead of the clock: the other one is named", "Clock Revocation",
               {"say": "hello"}, set={"lists": far(0)})  # fmt: skip
    yield good("hello-far-both", "both are: none is named", "Clock Revocation", {"say": "hello"},
               set={"lists": far(0, 1)})  # fmt: skip
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
    yield good("fetch-proof", "the last second of a proof", "Link Possession", {"say": "fetch", "from": 7}, link=1,
               tick=950 + 299)  # fmt: skip
    yield good("fetch-none", "entries that do not exist yet", "Log", {"say": "fetch", "from": 8}, link=1)
    yield good(
        "enrol", "a box without an authority says its public key", "Provisioning",
        {"say": "enrol", "nonce": random(77).hex()}, state="fresh",
    )  # fmt: skip


def _opening() -> Iterator[Good]:
    yield good("open", "a key opens", "Opening", opens())
    yield good("close", "a key closes", "Opening", opens(said=answer(command=2)))
    yield good("open-skipped", "key and answer with members that are skipped", "Opening Skipped",
               opens(other(key(), also={"-66100": 7}), other(answer(), also={"-66303": [1, 2]})))  # fmt: skip
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
               set=phones(64))  # fmt: skip
    yield good("open-known", "the first one of 64 phones opens again, and is the last to be forgotten", "Clone",
               opens(), set=phones(63, *dump(working())["phones"]))  # fmt: skip
    yield good("open-17th", "a 17th key: the one that was used first is forgotten", "Opening", opens(),
               set={"good": [f"{number:064x}" for number in range(16)]})  # fmt: skip
    yield good("open-again", "a remembered key is used again, and is the last to be forgotten", "Opening", opens(),
               set={"good": [*dump(working())["good"], *(f"{number:064x}" for number in range(15))]})  # fmt: skip


def _bounds() -> Iterator[Good]:
    yield good("open-nbf", "nbf at the end of the tolerance", "Time", opens(key(nbf=HERE + 300)))
    yield good("open-exp", "exp at the end of the tolerance", "Time", opens(key(exp=HERE - 299)))
    yield good("open-ahead", "iat a week ahead: the clock follows", "Clock Time",
               opens(key(iat=HERE + WEEK, exp=HERE + WEEK + DAY)))  # fmt: skip
    yield good("open-ahead-rest", "iat as far ahead as the clock may still be moved", "Clock Time",
               opens(key(iat=HERE + WEEK - DAY, exp=HERE + WEEK)), set={"ahead": DAY})  # fmt: skip
    yield good("open-far", "the other list is too far ahead of the clock", "Clock Revocation",
               opens(key(status={"idx": 1, "uri": uri(1)})), set={"lists": far(0)})  # fmt: skip
    yield good("open-far-bound", "its list is as far ahead of the clock as it may be", "Clock Revocation", opens(),
               set={"lists": [dump(working())["lists"][0] | {"iat": HERE + WEEK}]})  # fmt: skip
    yield good("open-limit", "the list is older than the key, whose iat is just late enough", "Freshness",
               opens(key(iat=NOW - 7100, limit=7105)))  # fmt: skip
    yield good("open-limit-list", "the key is older than the list, whose iat is just late enough", "Freshness",
               opens(key(limit=7205)))  # fmt: skip
    yield good("open-index", "the last place of a list", "Revocation", opens(key(status={"idx": 2047, "uri": uri(2)})))
    yield good("open-token", "the last token of the link's bucket and the common one", "Flood", UNSEEN,
               set=buckets(1, 1))  # fmt: skip
    yield good("open-refilled", "two empty buckets, 4 s and 1 s ago", "Flood", UNSEEN,
               set=buckets(0, 0) | {"links": links(bucket=bucket(0, TICK - 4)),
                                    "bucket": bucket(0, TICK - 1)})  # fmt: skip
    yield good("open-part", "7 s ago: one token, and 3 s of the next one", "Flood", UNSEEN,
               set=buckets(0, 1) | {"links": links(bucket=bucket(0, TICK - 7))})  # fmt: skip
    yield good("open-known-phone", "a known phone with a remembered key takes from its bucket for these alone", "Flood",
               opens(), set=buckets(0, 0, 1, 1))  # fmt: skip
    yield good("open-known-refilled", "that bucket was empty a second ago", "Flood", opens(),
               set=buckets(0, 0) | {"phoneBuckets": [both(0, 0, TICK - 1)]})  # fmt: skip
    yield good("open-known-empty", "it is empty: the phone takes from link and common bucket, not from its other one",
               "Flood", opens(), set=buckets(1, 1, 0, 4))  # fmt: skip
    yield good("open-renewed", "a known phone with a renewed key takes from its bucket for other keys alone", "Flood",
               UNSEEN, set=buckets(0, 0, 1, 1))  # fmt: skip
    yield good("open-renewed-refilled", "that bucket was empty a second ago", "Flood", UNSEEN,
               set=buckets(0, 0) | {"phoneBuckets": [both(0, 0, TICK - 1)]})  # fmt: skip
    yield good("open-renewed-empty", "it is empty: the phone takes from link and common bucket, not from its other one",
               "Flood", UNSEEN, set=buckets(1, 1, 4, 0))  # fmt: skip
    yield good("open-after-power", "no key is remembered since the power came back: the phone is known all the same",
               "Flood Power", opens(), set=buckets(0, 0, 4, 4) | {"good": []})  # fmt: skip
    yield good("open-proven", "a proven link takes nothing from the common bucket", "Flood Possession", UNSEEN,
               link=1, set=proven(1, 0))  # fmt: skip
    yield good("open-proof-over", "a proof that is 300 s old: the common bucket loses a token, too", "Flood Possession",
               UNSEEN, link=1, set=proven(1, 1, TICK - 300))  # fmt: skip
    yield good("open-counter", "the counter is one more than the last one", "Clone",
               opens(said=answer(counter=(NOW - 52) * 1000 + 1)))  # fmt: skip
    yield good("open-largest", "numbers at their bounds", "Bounds",
               opens(key(exp=(1 << 53) - 1, nbf=1, assignment=(1 << 31) - 1, limit=(1 << 31) - 1),
                     answer(counter=(1 << 53) - 1)))  # fmt: skip


def _carrying() -> Iterator[Good]:
    third = key_set(sequence=3, iat=NOW - DAY, **keys("2", "3"))
    yield good("keyset", "a newer key set: the older keys are over", "Rotation", carries(third))
    yield good("keyset-one", "a key set of one key of each kind: the lists of the others are dropped", "Rotation",
               carries(key_set(sequence=9, **keys("3"))))  # fmt: skip
    first = public("issuing-1").kid.hex()
    yield good("keyset-list", "the list of an issuing key before is dropped, the other one stays", "Rotation",
               carries(third), set={"lists": [dump(working())["lists"][0], dump(working())["lists"][1] | {
                   "signer": first}]})  # fmt: skip
    uneven = keys("2", "3") | {"service-keys": ["service-3"]}
    yield good("keyset-uneven", "two issuing keys and one service key", "Rotation",
               carries(key_set(sequence=3, **uneven)))  # fmt: skip
    yield good("keyset-far", "a list that is too far ahead of the clock is dropped with it", "Rotation Clock",
               carries(third), set={"lists": far(0)})  # fmt: skip
    yield good("root", "a new root: the key set stays", "Root", carries(new_root()))
    yield good("root-ahead", "a new root of more than a week ahead: the clock stays", "Root Clock",
               carries(new_root(iat=HERE + 9 * WEEK)))  # fmt: skip
    yield good("root-later", "a new root some numbers on", "Root", carries(new_root(sequence=17)))
    yield good("keyset-next-root", "a key set of the new root", "Root Rotation",
               carries(other(key_set(sequence=4, **keys("2", "3")), signer="next-root")),
               set={"authority": next_root()})  # fmt: skip
    yield good("skipped-list", "a status list with a member that is skipped", "Skipped",
               carries(other(status_list(2, NOW), also={"-66048": ["a", {"b": [-1, "c"]}]})))  # fmt: skip
    yield good("skipped-keyset", "a key set with members that are skipped, at both ends of their labels", "Skipped",
               carries(other(third, also={"-66048": 0, "-66303": ""})))  # fmt: skip
    yield good("keyset-ahead", "a key set of more than a week ahead: the clock stays", "Rotation Clock",
               carries(key_set(sequence=3, iat=HERE + 9 * WEEK, **keys("2", "3"))))  # fmt: skip
    yield good("list-ahead-rest", "a list as far ahead as the clock may still be moved", "Clock",
               carries(status_list(2, HERE + WEEK - DAY)), set={"ahead": DAY})  # fmt: skip
    yield good("receipt-ahead", "a receipt moves the clock, too", "Clock Log",
               carries(receipt(4, entry(4), iat=HERE + WEEK - DAY)), set={"ahead": DAY})  # fmt: skip
    yield good("list-again", "one that is too far ahead of the clock counts as absent: an older one takes its place",
               "Clock Revocation", carries(status_list(2, NOW - 9000)), set={"lists": far(0)})  # fmt: skip
    yield good("list-lower", "with a free place a list of a lower generation is taken", "Revocation",
               carries(status_list(1, NOW - 9000)), set={"lists": dump(working())["lists"][:1]})  # fmt: skip
    yield good("list-first", "a box that has no list takes any", "Revocation", carries(status_list(7, NOW - 9000)),
               set={"lists": []})  # fmt: skip
    yield good("list-between", "a generation between those that the box has takes the place of the lower one",
               "Revocation", carries(status_list(3, NOW)),
               set={"lists": [dump(working())["lists"][0] | {"generation": 5, "uri": uri(5)},
                              dump(working())["lists"][1]]})  # fmt: skip
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
    yield good("time-near", "a time that moves the clock by 59 s: nothing is written down", "Clock Log",
               carries(time(HERE + 59)), set={"ahead": 7})  # fmt: skip
    yield good("time-near-back", "a time that moves it back by 59 s", "Clock Log", carries(time(HERE - 59)))
    yield good("time-minute", "a time that moves the clock by 60 s is written", "Clock Log", carries(time(HERE + 60)))
    yield good("time-ahead", "a time: the clock may be moved by a week again", "Clock", carries(time(HERE + 5 * DAY)),
               set={"ahead": WEEK})  # fmt: skip
    yield good("time-256", "where 256 places are left, a clock that was set is written", "Clock Log",
               carries(time(HERE + 60)), set={"log": a_log(768)})  # fmt: skip
    yield good("time-255", "where fewer are left, it is counted", "Clock Log", carries(time(HERE + 60)),
               set={"log": a_log(769), "skipped": 4})  # fmt: skip
    yield good("time-full", "a log that is full: nothing but openings push out entries", "Clock Log",
               carries(time(HERE + 60)), set={"log": a_log(1024)})  # fmt: skip
    yield good("time-uncertain", "a time makes an uncertain clock certain", "Clock", carries(time(NOW + 5)),
               set={"certain": 0})  # fmt: skip
    yield good("open-after-skipped", "the entry says how many others were left out", "Log", opens(),
               set={"skipped": 3, "log": a_log(900)})  # fmt: skip
    yield good("receipt", "a receipt frees two entries", "Log", carries(receipt(4, entry(4))))
    yield good("receipt-all", "a receipt frees all entries", "Log", carries(receipt(7, entry(7))))


def _provisioning() -> Iterator[Good]:
    yield good("provision", "the first provisioning", "Provisioning", PROVISION, state="fresh", tick=25)
    yield good(
        "provision-again", "provisioning of a box at work: the clock is set, also back", "Provisioning Clock", AGAIN
    )
    older = AGAIN | {"list": status_list(1, NOW - 7301)}
    yield good(
        "provision-older",
        "it replaces a list by an older one, which it names, and one of a later generation",
        "Provisioning",
        older,
    )
    following = AGAIN | {"list": status_list(3, NOW - 7100)}
    yield good("provision-next", "the list of the generation before stays beside the next one",
               "Provisioning Revocation", following)  # fmt: skip
    yield good("provision-next-far", "it does not stay where it is too far ahead of the clock as it was before",
               "Provisioning Clock", following, set={"lists": far(0)})  # fmt: skip
    yield good("provision-renamed", "nor where it has the URI of the new one", "Provisioning Revocation",
               AGAIN | {"list": status_list(3, NOW - 7100, sub=uri(2))})  # fmt: skip
    yield good("provision-later", "a service key that is not the first one", "Provisioning Rotation",
               AGAIN | {"provisioning": other(AGAIN["provisioning"], signer="service-2")})  # fmt: skip
    yield good("provision-full", "a log that is full: it is counted", "Provisioning Log", AGAIN,
               set={"log": a_log(1024)})  # fmt: skip
    yield good("provision-ahead", "the clock may be moved by a week again", "Provisioning Clock", AGAIN,
               set={"ahead": WEEK})  # fmt: skip
    yield good("provision-far", "its list is too far ahead of the clock: the one of the generation before counts",
               "Provisioning Clock", AGAIN | {"list": status_list(2, NOW - 300 + WEEK + 1)})  # fmt: skip
    yield good("provision-roots", "a box that has taken a new root, with a key set of that root", "Provisioning Root",
               AGAIN | {
                   "keyset": other(key_set(sequence=4, iat=NOW, **keys("1", "2")), signer="next-root"),
                   "provisioning": provisioning(NOW - 300, root="next-root"),
               }, set={"authority": next_root()})  # fmt: skip
    newer = AGAIN | {
        "keyset": key_set(sequence=3, iat=NOW - DAY, **keys("2", "3")),
        "provisioning": provisioning(NOW + 2) | {"signer": "service-3"},
        "list": status_list(3, NOW) | {"signer": "issuing-3"},
    }
    yield good("provision-newer", "with a newer key set and the next list", "Provisioning Rotation", newer)


def proven(link: int, common: int, at: int = TICK - 299) -> Json:
    """The working box with a nonce on its second link.

    The link was proven at this tick. The buckets have so many tokens.
    """
    first, second, third = dump(working())["links"]
    asked = {each: first[each] for each in ("nonce", "made", "challenge")}
    return {
        "links": [first, second | asked | {"bucket": bucket(link), "provenAt": at}, third],
        "bucket": bucket(common),
        "phoneBuckets": [both(0, 0)],
    }


def next_root() -> Json:
    """The authority of the working box after a new root."""
    return dump(working())["authority"] | {"root": written(public("next-root")), "sequence": 3}


UNSEEN = opens(key(cti="ff" * 16))

# 256 zero bytes as one stored block of deflate
STORED = bytes.fromhex("7801" + "01" + "0001" + "fffe") + bytes(256) + bytes.fromhex("01000001")
