"""Refused messages that a box can read."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator

from keyrack.offline_keys.public_key import ORDER
from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.offline_keys.fixed_keys import public
from tests.offline_keys.vectors.accepted_messages import HERE, STORED, TICK, WEEK, both, bucket, far, links, proven
from tests.offline_keys.vectors.initial_states import DAY, NOW, entry, random, uri, working
from tests.offline_keys.vectors.rejected_case import Bad, bad, instead, more, several
from tests.offline_keys.vectors.state_json import dump


def unwanted() -> Iterator[Bad]:
    yield from _judgement()
    yield from _signatures()
    yield from _flood()
    yield from _carried()
    yield from _inflating()
    yield from _provisioned()


def _judgement() -> Iterator[Bad]:
    claims, answered = "recipe/key/claims/", "recipe/answer/claims/"
    authority = dump(working())["authority"]
    yield bad(
        "open", "recipe/key/kid", "0000000000000000", BoxRefusalCode.ISSUING_KEY, "Authority", "a kid that is unknown"
    )
    yield from several(
        "open",
        "recipe/key/signer",
        ("stranger", BoxRefusalCode.ISSUING_KEY, "Authority", "a key that somebody else has signed"),
        ("root", BoxRefusalCode.ISSUING_KEY, "Authority", "a key that the root has signed"),
        ("service-2", BoxRefusalCode.ISSUING_KEY, "Authority", "a key that a service key has signed"),
    )
    rotated = authority | {"sequence": 3, "keys": authority["keys"][1:], "serviceKeys": authority["serviceKeys"][1:]}
    yield bad(
        "open-older-issuer",
        "set/authority",
        rotated,
        BoxRefusalCode.ISSUING_KEY,
        "Rotation",
        "a key of an issuing key that is over",
    )
    yield bad("open", claims + "iss", "customer:8", BoxRefusalCode.ISSUER, "Authority", "the key of another customer")
    yield from several(
        "open",
        claims + "aud",
        ("box:1042:3", BoxRefusalCode.AUDIENCE, "Audience", "a key for another box"),
        ("box:1041:2", BoxRefusalCode.AUDIENCE, "Audience", "a key of the epoch before"),
    )
    yield bad("open", answered + "aud", "box:1042:3", BoxRefusalCode.AUDIENCE, "Audience", "an answer for another box")
    yield bad(
        "open-ahead", claims + "iat", HERE + WEEK + 1, BoxRefusalCode.FUTURE, "Clock Time", "iat more than a week ahead"
    )
    yield bad(
        "open-ahead-rest",
        "set/ahead",
        DAY + 1,
        BoxRefusalCode.FUTURE,
        "Clock Time",
        "the clock was moved a second more",
    )
    yield bad(
        "open-ahead-rest",
        claims + "iat",
        HERE + WEEK - DAY + 1,
        BoxRefusalCode.FUTURE,
        "Clock Time",
        "further ahead than the clock may still be moved",
    )
    yield bad(
        "open-far-bound",
        "set/lists",
        far(0)[:1],
        BoxRefusalCode.LIST,
        "Clock Revocation",
        "its list is a second too far ahead of the clock",
    )
    yield bad("open-far", "set/lists", far(1), BoxRefusalCode.LIST, "Clock Revocation", "its list is too far ahead")
    yield bad("open-nbf", claims + "nbf", HERE + 301, BoxRefusalCode.NOT_YET, "Time", "nbf a second later")
    yield bad("open-exp", claims + "exp", HERE - 300, BoxRefusalCode.EXPIRED, "Time", "exp a second earlier")
    yield bad("open-exp", "tick", 1006, BoxRefusalCode.EXPIRED, "Time", "a second later")
    yield bad("open", "set/certain", 0, BoxRefusalCode.UNCERTAIN, "Clock", "the clock is uncertain")
    yield bad("open-uncertain", claims + "rights", [1, 2], BoxRefusalCode.UNCERTAIN, "Clock Rights", "no right 3")
    yield bad(
        "open",
        claims + "status",
        {"idx": 7, "uri": uri(3)},
        BoxRefusalCode.LIST,
        "Revocation",
        "a list that the box does not have",
    )
    yield bad(
        "open-index",
        claims + "status",
        {"idx": 2048, "uri": uri(2)},
        BoxRefusalCode.INDEX,
        "Revocation",
        "a place behind the last one",
    )
    yield bad(
        "open",
        claims + "status",
        {"idx": 3, "uri": uri(2)},
        BoxRefusalCode.REVOKED,
        "Revocation",
        "a place that is revoked",
    )
    lists = dump(working())["lists"]
    revoked = [lists[0] | {"revoked": [3, 7, 64, 2046]}, lists[1]]
    yield bad("open", "set/lists", revoked, BoxRefusalCode.REVOKED, "Revocation", "the key was revoked")
    yield bad(
        "open",
        "set",
        {"certain": 0, "lists": revoked},
        BoxRefusalCode.UNCERTAIN,
        "Possession Revocation",
        "the clock is uncertain, and the key was revoked: the link is not proven",
    )
    yield bad(
        "open-only",
        "set",
        {"certain": 0},
        BoxRefusalCode.UNCERTAIN,
        "Possession",
        "the clock is uncertain, and nothing else fails: the link is proven",
    )
    yield bad(
        "open-index",
        claims + "status",
        {"idx": 2046, "uri": uri(2)},
        BoxRefusalCode.REVOKED,
        "Revocation",
        "bit 6 of the last byte",
    )
    yield bad(
        "open-older-list",
        claims + "status",
        {"idx": 9, "uri": uri(1)},
        BoxRefusalCode.REVOKED,
        "Revocation",
        "revoked in the older generation",
    )
    yield bad(
        "open-limit", claims + "limit", 7104, BoxRefusalCode.STALE, "Freshness", "the limit is over, from the key on"
    )
    yield bad(
        "open-limit-list",
        claims + "limit",
        7204,
        BoxRefusalCode.STALE,
        "Freshness",
        "the limit is over, from the list on",
    )
    older = [lists[0] | {"iat": lists[0]["iat"] - 1}, lists[1]]
    yield bad("open-limit-list", "set/lists", older, BoxRefusalCode.STALE, "Freshness", "the list is a second older")
    yield bad(
        "open-only", answered + "command", 2, BoxRefusalCode.RIGHT, "Rights", "to close, with a key that opens only"
    )
    yield bad(
        "open",
        "recipe/answer/kid",
        public("phone-2").kid.hex(),
        BoxRefusalCode.OTHER_KEY,
        "Possession",
        "an answer that names another phone",
    )
    yield bad(
        "open", answered + "key", "00" * 32, BoxRefusalCode.OTHER_KEY, "Possession", "an answer that names another key"
    )
    yield bad(
        "open", answered + "nonce", "00" * 16, BoxRefusalCode.NONCE, "Replay", "an answer to another nonce: a replay"
    )
    yield bad("open", "link", 2, BoxRefusalCode.NONCE, "Replay", "a link without a nonce")
    yield bad("open-after", "tick", 1010, BoxRefusalCode.NONCE, "Replay", "the nonce is 10 s old")
    yield bad(
        "open",
        "set/links",
        links(nonce=random(5).hex()),
        BoxRefusalCode.NONCE,
        "Replay",
        "the link has another nonce by now",
    )
    yield bad(
        "open",
        answered + "challenge",
        "00" * 32,
        BoxRefusalCode.CHALLENGE,
        "Possession",
        "an answer to another challenge",
    )
    yield bad(
        "open",
        "set/links",
        links(challenge="11" * 32),
        BoxRefusalCode.CHALLENGE,
        "Possession",
        "a challenge that was altered on its way",
    )
    last = dump(working())["phones"][0][1]
    yield from several(
        "open-counter",
        answered + "counter",
        (last, BoxRefusalCode.COUNTER, "Clone", "the counter stands still"),
        (0, BoxRefusalCode.COUNTER, "Clone", "the counter goes back"),
    )
    yield bad("close", claims + "rights", [1, 3], BoxRefusalCode.RIGHT, "Rights", "right 3 is no right to close")
    yield bad("open-768", answered + "command", 2, BoxRefusalCode.RIGHT, "Log", "the last refusal that is written")
    yield bad(
        "open-769",
        answered + "command",
        2,
        BoxRefusalCode.RIGHT,
        "Log",
        "a refusal that is proven, and not written any more",
    )


def _signatures() -> Iterator[Bad]:
    key, answer = "recipe/key/signature", "recipe/answer/signature"
    order, half = ORDER.to_bytes(32, "big").hex(), "11" * 32
    for part, code, name in (
        (key, BoxRefusalCode.KEY_SIGNATURE, "key's"),
        (answer, BoxRefusalCode.ANSWER_SIGNATURE, "answer's"),
    ):
        yield bad("open", part, "22" * 64, code, "Signature", f"the {name} signature is of something else")
        yield bad("open", part, "00" * 64, code, "Signature", f"the {name} signature has r = s = 0")
        yield bad("open", part, "00" * 32 + half, code, "Signature", f"the {name} signature has r = 0")
        yield bad("open", part, half + "00" * 32, code, "Signature", f"the {name} signature has s = 0")
        yield bad("open", part, order + half, code, "Signature", f"the {name} signature has r = n")
        yield bad("open", part, half + order, code, "Signature", f"the {name} signature has s = n")
    yield bad(
        "open-older-issuer",
        "recipe/key/kid",
        public("issuing-2").kid.hex(),
        BoxRefusalCode.KEY_SIGNATURE,
        "Signature",
        "another issuing key is named",
    )
    yield bad(
        "open-other-phone",
        "recipe/answer/signer",
        "phone-1",
        BoxRefusalCode.OTHER_KEY,
        "Possession",
        "a copied key: another phone answers",
    )
    x = public("phone-1").x.hex()
    yield bad(
        "open",
        "recipe/key/payload",
        instead(x, x[:-2] + "00"),
        BoxRefusalCode.CLAIMS,
        "Point",
        "cnf is no point of the curve",
    )
    for place, coordinate in ("x", 0), ("y", 1):
        own = (x, public("phone-1").y.hex())[coordinate]
        yield bad(
            "open",
            "recipe/key/payload",
            instead(own, "ff" * 32),
            BoxRefusalCode.CLAIMS,
            "Point",
            f"{place} of cnf is not less than p",
        )


def _flood() -> Iterator[Bad]:
    yield from several(
        "open-token",
        "set/links",
        (links(bucket=bucket(0)), BoxRefusalCode.BUSY, "Flood", "no token is left in the link's bucket"),
        (links(bucket=bucket(0, TICK - 3)), BoxRefusalCode.BUSY, "Flood", "an empty one, 3 s ago"),
    )
    yield bad("open-token", "set/bucket", bucket(0), BoxRefusalCode.BUSY, "Flood", "none in the common one")
    for name, left, kind in (("open-known-phone", both(0, 4), "remembered"), ("open-renewed", both(4, 0), "other")):
        yield bad(name, "set/phoneBuckets", [left], BoxRefusalCode.BUSY, "Flood",
                  f"none for {kind} keys, and none in link and common bucket")  # fmt: skip
        yield from _spent(name)
    yield bad(
        "open-renewed",
        "recipe/key/claims/cnf",
        "phone-2",
        BoxRefusalCode.BUSY,
        "Flood",
        "a phone that the box does not know",
    )
    yield bad(
        "open-proven",
        "set/links",
        proven(0, 0)["links"],
        BoxRefusalCode.BUSY,
        "Flood Possession",
        "no token in the bucket of a proven link",
    )
    yield bad(
        "open-proven",
        "set/links",
        proven(1, 0, TICK - 300)["links"],
        BoxRefusalCode.BUSY,
        "Flood Possession",
        "no token in the common bucket, and a proof that is 300 s old",
    )
    for name, comment in (
        ("list", "a list"),
        ("keyset", "a key set"),
        ("root", "a new root"),
        ("time", "a time, whose nonce dies"),
        ("receipt", "a receipt"),
        ("provision-again", "a provisioning, whose nonce dies"),
    ):
        yield bad(name, "set/bucket", bucket(0), BoxRefusalCode.BUSY, "Flood", f"no token for {comment}")
    yield bad("enrol", "set/bucket", bucket(0), BoxRefusalCode.BUSY, "Flood", "no token for an enrolment")


def _spent(name: str) -> Iterator[Bad]:
    """Attempts of an attacker that spend tokens of a phone, and attempts that do not."""
    answer = "recipe/answer/"
    yield bad(name, answer + "signature", "22" * 64, BoxRefusalCode.ANSWER_SIGNATURE, "Flood",
              "an answer by somebody else in the phone's name spends a token of the fitting bucket")  # fmt: skip
    if name == "open-renewed":
        yield bad(name, "recipe/key/signature", "22" * 64, BoxRefusalCode.KEY_SIGNATURE, "Flood",
                  "a made-up key in the phone's name spends a token of the bucket for other keys alone")  # fmt: skip
        yield from several(
            name, "recipe/key/kid",
            (public("stranger").kid.hex(), BoxRefusalCode.BUSY, "Flood", "another issuer: no token of the phone"),
        )  # fmt: skip
        for claim, value in (("iss", "customer:8"), ("aud", "box:1041:2")):
            yield bad(name, f"recipe/key/claims/{claim}", value, BoxRefusalCode.BUSY, "Flood",
                      f"another {claim}: no token of the phone")  # fmt: skip
    for path, value, what in (
        ("claims/aud", "box:1041:2", "for another box"),
        ("kid", public("stranger").kid.hex(), "of another phone"),
        ("claims/key", "33" * 32, "for another key"),
        ("claims/nonce", "33" * 16, "to another nonce"),
        ("claims/challenge", "33" * 32, "to another challenge"),
    ):
        yield bad(name, answer + path, value, BoxRefusalCode.BUSY, "Flood Replay",
                  f"an answer {what}: no token of the phone")  # fmt: skip


def _carried() -> Iterator[Bad]:
    artefact, claims = "recipe/artefact/", "recipe/artefact/claims/"
    for name, comment in (
        ("keyset", "a key set"),
        ("root", "a new root"),
        ("list", "a list"),
        ("time", "a time"),
        ("receipt", "a receipt"),
    ):
        yield bad(
            name, "state", "fresh", BoxRefusalCode.NOT_NOW, "Provisioning", f"{comment} for a box without an authority"
        )
        yield bad(
            name,
            artefact + "signer",
            "stranger",
            BoxRefusalCode.ISSUING_KEY,
            "Authority",
            f"{comment} that somebody else has signed",
        )
        yield bad(
            name, claims + "iss", "customer:8", BoxRefusalCode.ISSUER, "Authority", f"{comment} of another customer"
        )
        yield bad(
            name,
            artefact + "signature",
            "22" * 64,
            BoxRefusalCode.SIGNATURE,
            "Signature",
            f"the signature of {comment} is of something else",
        )
        yield bad(
            name, artefact + "whole", more("00"), BoxRefusalCode.ENCODING, "Encoding", f"a byte follows {comment}"
        )
        if name in ("time", "receipt"):
            yield bad(
                name,
                artefact + "signer",
                "issuing-2",
                BoxRefusalCode.ISSUING_KEY,
                "Authority",
                f"{comment} that an issuing key has signed",
            )
        if name not in ("keyset", "root"):
            yield bad(
                name, claims + "aud", "box:1042:3", BoxRefusalCode.AUDIENCE, "Audience", f"{comment} for another box"
            )
            yield bad(
                name,
                artefact + "signer",
                "root",
                BoxRefusalCode.ISSUING_KEY,
                "Authority",
                f"{comment} that the root has signed",
            )
        if name in ("list", "receipt"):
            yield bad(
                name,
                claims + "iat",
                HERE + WEEK + 1,
                BoxRefusalCode.FUTURE,
                "Clock",
                f"{comment} of more than a week ahead",
            )
            yield bad(
                f"{name}-ahead-rest" if name == "list" else "receipt-ahead",
                "set/ahead",
                DAY + 1,
                BoxRefusalCode.FUTURE,
                "Clock",
                f"{comment} further ahead than the clock may still be moved",
            )
    yield from several(
        "keyset",
        artefact + "signer",
        ("issuing-2", BoxRefusalCode.ISSUING_KEY, "Authority Rotation", "an issuing key does not name issuing keys"),
        ("other-root", BoxRefusalCode.ISSUING_KEY, "Authority Rotation", "a key set of another root"),
        ("service-2", BoxRefusalCode.ISSUING_KEY, "Authority Rotation", "a service key does not, either"),
    )
    yield bad(
        "keyset-next-root",
        artefact + "signer",
        "root",
        BoxRefusalCode.ISSUING_KEY,
        "Root Rotation",
        "a key set of the root before",
    )
    yield from several(
        "root",
        artefact + "signer",
        ("next-root", BoxRefusalCode.ISSUING_KEY, "Root", "a new root that has signed itself"),
        ("issuing-2", BoxRefusalCode.ISSUING_KEY, "Root", "an issuing key does not name a root"),
    )
    yield from several(
        "root",
        claims + "sequence",
        (2, BoxRefusalCode.OLDER, "Root Rollback", "the sequence of the box's key set"),
        (1, BoxRefusalCode.OLDER, "Root Rollback", "an older sequence"),
        (None, BoxRefusalCode.CLAIMS, "ClosedMap", "no sequence"),
    )
    yield from several(
        "keyset-next-root",
        claims + "sequence",
        (3, BoxRefusalCode.OLDER, "Root Rollback", "the sequence of the new root"),
        (2, BoxRefusalCode.OLDER, "Root Rollback", "that of the key set that the box has"),
    )
    yield from several(
        "root",
        artefact + "payload",
        (
            instead(public("next-root").y.hex(), public("root").y.hex()),
            BoxRefusalCode.CLAIMS,
            "Root Point",
            "a new root that is no point of the curve",
        ),
    )
    yield from several(
        "keyset",
        artefact + "payload",
        (
            instead(public("issuing-3").y.hex(), public("root").y.hex()),
            BoxRefusalCode.CLAIMS,
            "Point",
            "an issuing key that is no point of the curve",
        ),
        (
            instead(public("service-2").x.hex(), public("root").x.hex()),
            BoxRefusalCode.CLAIMS,
            "Point",
            "a service key that is no point of the curve",
        ),
    )
    yield from several(
        "keyset",
        claims + "service-keys",
        ([], BoxRefusalCode.CLAIMS, "Bounds", "no service key"),
        (["service-1", "service-2", "service-3"], BoxRefusalCode.CLAIMS, "Bounds", "three service keys"),
        (None, BoxRefusalCode.CLAIMS, "ClosedMap", "a key set without service keys"),
    )
    yield from several(
        "list-lower",
        claims + "sub",
        (uri(2), BoxRefusalCode.GENERATION, "Revocation", "a lower generation with the uri of the other one"),
    )
    yield from several(
        "list",
        claims + "sub",
        (uri(3), BoxRefusalCode.GENERATION, "Revocation", "the generation that the box has, with another uri"),
        (uri(1), BoxRefusalCode.GENERATION, "Revocation", "the uri of the other generation"),
    )
    yield from several(
        "list",
        claims + "generation",
        (3, BoxRefusalCode.GENERATION, "Revocation", "the next generation, with a uri that the box has"),
        ((1 << 53) - 1, BoxRefusalCode.GENERATION, "Revocation", "the highest generation, with a uri that the box has"),
    )
    yield bad(
        "list-again",
        "set/lists",
        dump(working())["lists"],
        BoxRefusalCode.OLDER,
        "Clock Revocation",
        "the later list is not too far ahead",
    )
    for path, value, comment in (
        ("-66047", 0, "a label above those that are skipped"),
        ("-66304", 0, "a label below those that are skipped"),
        ("-65565", 0, "a label behind the last member"),
        ("66048", 0, "a positive label"),
    ):
        yield bad("skipped-list", artefact + "also", {path: value}, BoxRefusalCode.CLAIMS, "ClosedMap Skipped", comment)
    yield bad(
        "skipped-list",
        artefact + "payload",
        instead("a1616282206163", "a161628181818100"),
        BoxRefusalCode.ENCODING,
        "Encoding Skipped",
        "a member that is skipped, and nested too deep",
    )
    yield bad(
        "skipped-list",
        artefact + "also",
        {"-66048": "a" * 600},
        BoxRefusalCode.TOO_LONG,
        "Bounds Skipped",
        "a member that is skipped, and makes the list too long",
    )
    yield from several(
        "keyset",
        claims + "sequence",
        (2, BoxRefusalCode.OLDER, "Rollback", "the sequence that the box has"),
        (1, BoxRefusalCode.OLDER, "Rollback", "an older sequence"),
        (0, BoxRefusalCode.CLAIMS, "Bounds", "sequence 0"),
    )
    yield from several(
        "keyset",
        claims + "keys",
        ([], BoxRefusalCode.CLAIMS, "Bounds", "no issuing key"),
        (None, BoxRefusalCode.CLAIMS, "ClosedMap", "a key set without issuing keys"),
        (["issuing-1", "issuing-2", "issuing-3"], BoxRefusalCode.CLAIMS, "Bounds", "three issuing keys"),
    )
    yield from several(
        "list",
        claims + "iat",
        (NOW - 7200, BoxRefusalCode.OLDER, "Rollback", "a list of the same time"),
        (NOW - 7201, BoxRefusalCode.OLDER, "Rollback", "an older list"),
    )
    yield bad(
        "list-before",
        claims + "iat",
        NOW - 7300,
        BoxRefusalCode.OLDER,
        "Rollback",
        "a list of the generation before, of the same time",
    )
    lists = dump(working())["lists"]
    later = [lists[0] | {"generation": 5, "uri": uri(5)}, lists[1] | {"generation": 4, "uri": uri(4)}]
    yield bad("list-next", "set/lists", later, BoxRefusalCode.OLDER, "Rollback", "a generation below both of the box")
    yield bad("list", artefact + "typ", "application/statuslist+jwt", BoxRefusalCode.TYP, "Typ", "a list in JSON")
    yield bad("list", artefact + "whole", more("00" * 600), BoxRefusalCode.TOO_LONG, "Bounds", "more than 768 bytes")
    yield bad(
        "list",
        artefact + "payload",
        instead("646269747301", "646269747302"),
        BoxRefusalCode.CLAIMS,
        "ClosedMap",
        "2 bits for each key",
    )
    yield from several(
        "list",
        claims + "ttl",
        (None, BoxRefusalCode.CLAIMS, "ClosedMap", "no ttl"),
        (0, BoxRefusalCode.CLAIMS, "Bounds", "a ttl of 0"),
    )
    yield bad("list", claims + "generation", 0, BoxRefusalCode.CLAIMS, "Bounds", "generation 0")
    yield bad(
        "time",
        claims + "nonce",
        "00" * 16,
        BoxRefusalCode.NONCE,
        "Replay Clock",
        "a time for another nonce: the live one dies",
    )
    yield bad("time", "link", 2, BoxRefusalCode.NONCE, "Replay Clock", "a time on a link without a nonce")
    yield bad("time", "tick", 1010, BoxRefusalCode.NONCE, "Replay Clock", "a time that was too long under way")
    yield from several(
        "receipt",
        claims + "upto",
        ([2, entry(4)], BoxRefusalCode.OLDER, "Rollback Log", "a receipt for an entry that is freed"),
        ([8, entry(4)], BoxRefusalCode.RECEIPT, "Log", "a receipt for an entry that does not exist yet"),
        ([4, entry(5)], BoxRefusalCode.RECEIPT, "Log", "a receipt that has the hash of another entry"),
        ([0, entry(4)], BoxRefusalCode.CLAIMS, "Bounds", "a receipt up to number 0"),
    )
    yield bad(
        "receipt",
        artefact + "typ",
        "application/vnd.keyrack.entry-2+cwt",
        BoxRefusalCode.TYP,
        "Typ",
        "the typ of an entry",
    )


def _inflating() -> Iterator[Bad]:
    lst = "recipe/artefact/claims/status_list"
    for data, comment in (
        (STORED[:-1], "it ends in the checksum"),
        (STORED[:-4], "no checksum"),
        (STORED + b"\0", "a byte follows"),
        (STORED + zlib.compress(bytes(256), 9), "another stream follows"),
        (STORED[:-1] + bytes([STORED[-1] ^ 1]), "another checksum"),
        (b"", "no bytes"),
        (bytes.fromhex("6881") + STORED[2:], "a window of 16 KiB: the first byte is 68"),
        (bytes.fromhex("7800") + STORED[2:], "the first two bytes are no multiple of 31"),
        (bytes.fromhex("78bb") + bytes(4) + STORED[2:], "a preset dictionary"),
        (STORED[2:-4], "raw deflate"),
        (zlib.compress(bytes(255), 9), "255 bytes"),
        (zlib.compress(bytes(257), 9), "257 bytes"),
        (zlib.compress(bytes(1 << 16), 9), "65,536 bytes of a few"),
        (zlib.compress(b"", 9), "no byte"),
        (gzip.compress(bytes(256), 9, mtime=0), "gzip"),
        (STORED[:2] + b"\x07" + STORED[3:], "a block of a reserved type"),
        (b"\x78\x01\x01\x00\x01\xff\xff" + bytes(256) + STORED[-4:], "a stored block whose length is not confirmed"),
    ):
        yield bad("list-stored", lst, {"lst": data.hex()}, BoxRefusalCode.INFLATE, "Inflate", comment)


def _provisioned() -> Iterator[Bad]:
    claims = "recipe/provisioning/claims/"
    yield bad(
        "provision",
        claims + "box",
        public("other-box").thumbprint.hex(),
        BoxRefusalCode.BOX,
        "Provisioning",
        "another box",
    )
    yield bad(
        "provision",
        claims + "nonce",
        "00" * 16,
        BoxRefusalCode.NONCE,
        "Provisioning Replay",
        "another nonce, and the live one dies",
    )
    yield bad("provision", "tick", 30, BoxRefusalCode.NONCE, "Provisioning Replay", "the nonce is 10 s old")
    yield bad("provision", "link", 1, BoxRefusalCode.NONCE, "Provisioning Replay", "a link without a nonce")
    yield bad("provision-again", claims + "root", "other-root", BoxRefusalCode.NOT_NOW, "Provisioning", "another root")
    yield bad(
        "provision-again", claims + "iss", "customer:8", BoxRefusalCode.NOT_NOW, "Provisioning", "another customer"
    )
    yield bad(
        "provision-again",
        claims + "aud",
        "box:1041:4",
        BoxRefusalCode.NOT_NOW,
        "Provisioning",
        "another epoch, without a reset",
    )
    yield bad(
        "provision",
        "recipe/keyset/signer",
        "other-root",
        BoxRefusalCode.ISSUING_KEY,
        "Provisioning",
        "a key set of another root",
    )
    yield bad(
        "provision",
        claims + "root",
        "other-root",
        BoxRefusalCode.ISSUING_KEY,
        "Provisioning",
        "a root that has not signed the key set",
    )
    yield bad(
        "provision",
        "recipe/provisioning/signer",
        "service-2",
        BoxRefusalCode.ISSUING_KEY,
        "Provisioning",
        "a service key that the set does not name",
    )
    yield bad(
        "provision",
        "recipe/provisioning/signer",
        "issuing-1",
        BoxRefusalCode.ISSUING_KEY,
        "Provisioning",
        "an issuing key does not provision",
    )
    yield bad(
        "provision",
        "recipe/list/signer",
        "service-1",
        BoxRefusalCode.ISSUING_KEY,
        "Provisioning",
        "a list that a service key has signed",
    )
    for name, comment in (("list", "another list"), ("keyset", "another key set")):
        yield bad(
            "provision",
            claims + name,
            "00" * 32,
            BoxRefusalCode.OTHER_PART,
            "Provisioning Rollback",
            f"it names {comment}",
        )
        yield bad("provision", claims + name, None, BoxRefusalCode.CLAIMS, "ClosedMap", f"it does not name its {name}")
    yield from several(
        "provision",
        claims + "advertising",
        (None, BoxRefusalCode.CLAIMS, "ClosedMap", "no secret for advertisements"),
        ("a0" * 15, BoxRefusalCode.CLAIMS, "Bounds", "one of 15 bytes"),
    )
    yield bad(
        "provision-roots",
        "set/authority",
        dump(working())["authority"],
        BoxRefusalCode.NOT_NOW,
        "Provisioning Root",
        "a box that has not taken the new root",
    )
    yield bad(
        "provision-roots",
        "recipe/keyset/claims/sequence",
        2,
        BoxRefusalCode.OLDER,
        "Provisioning Root Rollback",
        "a key set from before the new root",
    )
    yield bad(
        "provision",
        "recipe/list/signer",
        "issuing-2",
        BoxRefusalCode.ISSUING_KEY,
        "Provisioning",
        "a list of such an issuing key",
    )
    yield bad(
        "provision",
        "recipe/keyset/claims/iss",
        "customer:8",
        BoxRefusalCode.ISSUER,
        "Provisioning",
        "the key set of another customer",
    )
    yield bad(
        "provision",
        "recipe/list/claims/iss",
        "customer:8",
        BoxRefusalCode.ISSUER,
        "Provisioning",
        "the list of another customer",
    )
    yield bad(
        "provision",
        "recipe/list/claims/aud",
        "box:1041:2",
        BoxRefusalCode.AUDIENCE,
        "Provisioning",
        "the list of another epoch",
    )
    yield bad(
        "provision-again",
        "recipe/keyset/claims/sequence",
        1,
        BoxRefusalCode.OLDER,
        "Provisioning Rollback",
        "an older key set",
    )
    for part in ("provisioning", "keyset", "list"):
        yield bad(
            "provision",
            f"recipe/{part}/signature",
            "22" * 64,
            BoxRefusalCode.SIGNATURE,
            "Provisioning Signature",
            f"the signature of {part} is of something else",
        )
        yield bad(
            "provision",
            f"recipe/{part}/typ",
            "application/cwt",
            BoxRefusalCode.TYP,
            "Provisioning Typ",
            f"{part} has the typ of any CWT",
        )
    yield bad(
        "provision",
        "recipe/list/claims/status_list",
        {"lst": "78"},
        BoxRefusalCode.INFLATE,
        "Provisioning Inflate",
        "the list does not inflate",
    )
