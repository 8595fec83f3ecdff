"""In charge of refused messages that a box reads, and does not want."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator

from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.offline_keys.fixed_keys import ORDER, public
from tests.offline_keys.vectors.accepted_messages import HERE, STORED, TICK, WEEK, links
from tests.offline_keys.vectors.initial_states import NOW, entry, random, uri, working
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
    )
    rotated = authority | {"sequence": 3, "keys": authority["keys"][1:]}
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
        BoxRefusalCode.OTHER_KEY,
        "Signature",
        "cnf is no point of the curve",
    )


def _flood() -> Iterator[Bad]:
    empty = {"tokens": 0, "refilled": TICK}
    yield bad("open-token", "set/bucket", empty, BoxRefusalCode.BUSY, "Flood", "no token is left")
    yield bad("list", "set/bucket", empty, BoxRefusalCode.BUSY, "Flood", "no token for a list")
    yield bad("provision-again", "set/bucket", empty, BoxRefusalCode.BUSY, "Flood", "no token for a provisioning")


def _carried() -> Iterator[Bad]:
    artefact, claims = "recipe/artefact/", "recipe/artefact/claims/"
    for name, comment in (("keyset", "a key set"), ("list", "a list"), ("time", "a time"), ("receipt", "a receipt")):
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
        if name != "keyset":
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
    yield from several(
        "keyset",
        artefact + "signer",
        ("issuing-2", BoxRefusalCode.ISSUING_KEY, "Authority Rotation", "an issuing key does not name issuing keys"),
        ("other-root", BoxRefusalCode.ISSUING_KEY, "Authority Rotation", "a key set of another root"),
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
    later = [lists[0] | {"generation": 5}, lists[1]]
    yield bad(
        "list-next", "set/lists", later, BoxRefusalCode.OLDER, "Rollback", "a generation between those that the box has"
    )
    yield bad("list", artefact + "typ", "application/statuslist+jwt", BoxRefusalCode.TYP, "Typ", "a list in JSON")
    yield bad("list", artefact + "whole", more("00" * 900), BoxRefusalCode.TOO_LONG, "Bounds", "more than 1,024 bytes")
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
        "application/vnd.keyrack.entry-1+cwt",
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
        (STORED + STORED, "another stream follows"),
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
        "issuing-2",
        BoxRefusalCode.ISSUING_KEY,
        "Provisioning",
        "an issuing key that the set does not name",
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
