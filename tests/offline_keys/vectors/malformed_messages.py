"""Refused messages that a box cannot read: encoding, structure, header and fields."""

from __future__ import annotations

from collections.abc import Iterator

from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.offline_keys.fixed_keys import public
from tests.offline_keys.vectors.initial_states import NOW, uri
from tests.offline_keys.vectors.rejected_case import Bad, bad, instead, more, several


def unread() -> Iterator[Bad]:
    yield from _talk()
    yield from _envelope()
    yield from _header()
    yield from _payload()
    yield from _members()
    yield from _answer()


def _talk() -> Iterator[Bad]:
    splice = "recipe/splice"
    yield bad("open", splice, more("00" * 1500), BoxRefusalCode.TOO_LONG, "Link Bounds", "more than 2,048 bytes")
    yield from several(
        "hello",
        splice,
        (more("00"), BoxRefusalCode.ENCODING, "Link Encoding", "a byte follows"),
        (instead("82018102", ""), BoxRefusalCode.ENCODING, "Link Encoding", "no byte at all"),
        (instead("82018102", "820181"), BoxRefusalCode.ENCODING, "Link Encoding", "it ends too early"),
        (instead("82018102", "9f018102ff"), BoxRefusalCode.ENCODING, "Link Encoding", "an array of indefinite length"),
        (instead("82018102", "9802018102"), BoxRefusalCode.ENCODING, "Link Encoding", "an array's head is too long"),
        (instead("82018102", "8218018102"), BoxRefusalCode.ENCODING, "Link Encoding", "a number's head is too long"),
        (instead("82018102", "d282018102"), BoxRefusalCode.ENCODING, "Link Encoding", "tag 18 around a hello"),
        (instead("82018102", "820181f5"), BoxRefusalCode.ENCODING, "Link Encoding", "true"),
        (instead("82018102", "820181f94000"), BoxRefusalCode.ENCODING, "Link Encoding", "2.0"),
        (instead("82018102", "811c"), BoxRefusalCode.ENCODING, "Link Encoding", "a head that is reserved"),
        (instead("82018102", "8301810200"), BoxRefusalCode.STRUCTURE, "Link", "one item more"),
        (instead("82018102", "8101"), BoxRefusalCode.STRUCTURE, "Link", "one item less"),
        (instead("82018102", "820400"), BoxRefusalCode.STRUCTURE, "Link", "what boxes say"),
        (instead("82018102", "820c8102"), BoxRefusalCode.STRUCTURE, "Link Version", "the versions of a box"),
        (instead("82018102", "82208102"), BoxRefusalCode.STRUCTURE, "Link", "a negative number"),
        (instead("82018102", "8241018102"), BoxRefusalCode.STRUCTURE, "Link", "a byte string in place of the number"),
        (instead("82018102", "a101820102"), BoxRefusalCode.STRUCTURE, "Link", "a map"),
        (instead("82018102", "80"), BoxRefusalCode.STRUCTURE, "Link", "an empty array"),
        (instead("82018102", "01"), BoxRefusalCode.STRUCTURE, "Link", "a number alone"),
        (instead("82018102", "820102"), BoxRefusalCode.STRUCTURE, "Link Version", "a version that is no array"),
        (instead("82018102", "820180"), BoxRefusalCode.STRUCTURE, "Link Version", "no version"),
        (instead("82018102", "8201820202"), BoxRefusalCode.STRUCTURE, "Link Version", "a version twice"),
        (instead("82018102", "8201820201"), BoxRefusalCode.STRUCTURE, "Link Version", "versions out of order"),
        (instead("82018102", "82018120"), BoxRefusalCode.STRUCTURE, "Link Version", "a negative version"),
        (instead("82018102", "82018162323232"), BoxRefusalCode.ENCODING, "Link Version", "an item follows"),
        (
            instead("82018102", "820189020304050607080910"),
            BoxRefusalCode.STRUCTURE,
            "Link Version Bounds",
            "nine versions",
        ),
        (instead("82018102", "820d8102"), BoxRefusalCode.UNKNOWN, "Link Version", "a message that boxes do not know"),
        (instead("82018102", "8100"), BoxRefusalCode.UNKNOWN, "Link Version", "a message with the number 0"),
        (
            instead("82018102", "821b001fffffffffffffa100a0"),
            BoxRefusalCode.UNKNOWN,
            "Link Version Bounds",
            "a message with the highest number",
        ),
    )
    yield from several(
        "fetch",
        splice,
        (instead("820703", "820720"), BoxRefusalCode.STRUCTURE, "Link", "entries from -1 on"),
        (
            instead("820703", "82071b0020000000000000"),
            BoxRefusalCode.ENCODING,
            "Link Encoding Bounds",
            "a number of 2^53",
        ),
    )
    yield bad(
        "fetch", "link", 0, BoxRefusalCode.NOT_NOW, "Link Possession", "the log, where nobody has proven a good key"
    )
    yield bad("fetch-proof", "tick", 950 + 300, BoxRefusalCode.NOT_NOW, "Link Possession", "a proof that is 300 s old")
    yield bad("enrol", "recipe/nonce", "00" * 15, BoxRefusalCode.STRUCTURE, "Link", "a nonce of 15 bytes")
    yield bad("enrol", "state", "working", BoxRefusalCode.NOT_NOW, "Provisioning", "a box that has an authority")
    yield bad("open", "set/authority", None, BoxRefusalCode.NOT_NOW, "Provisioning", "a box that has no authority")


def _envelope() -> Iterator[Bad]:
    whole = "recipe/key/whole"
    yield from several(
        "open",
        whole,
        (more("00" * 400), BoxRefusalCode.TOO_LONG, "Bounds", "a key of more than 640 bytes"),
        (more("00"), BoxRefusalCode.ENCODING, "Encoding", "a byte follows the key"),
        (instead("d28458", "8458"), BoxRefusalCode.STRUCTURE, "Tag", "no tag"),
        (instead("d28458", "d83dd28458"), BoxRefusalCode.ENCODING, "Tag", "tag 61 around tag 18: a CWT that says so"),
        (instead("d28458", "d83d8458"), BoxRefusalCode.ENCODING, "Tag", "tag 61 in place of tag 18"),
        (instead("d28458", "d2d28458"), BoxRefusalCode.ENCODING, "Tag", "tag 18 twice"),
        (instead("d28458", "d8128458"), BoxRefusalCode.ENCODING, "Tag Encoding", "the tag's head is not the shortest"),
        (instead("d28458", "d8628458"), BoxRefusalCode.ENCODING, "Tag", "tag 98: COSE_Sign"),
        (instead("d28458", "d2980458"), BoxRefusalCode.ENCODING, "Encoding", "the array's head is not the shortest"),
        (instead("637774a0", "637774a10126"), BoxRefusalCode.STRUCTURE, "Header", "alg in the unprotected header, too"),
        (instead("637774a0", "637774bfff"), BoxRefusalCode.ENCODING, "Encoding", "an empty map of indefinite length"),
        (
            instead("637774a0", "637774f6"),
            BoxRefusalCode.ENCODING,
            "Encoding",
            "null in place of the unprotected header",
        ),
        (
            instead("637774a0", "63777480"),
            BoxRefusalCode.STRUCTURE,
            "Header",
            "an array in place of the unprotected header",
        ),
    )
    yield from several(
        "open",
        "recipe/key/signature",
        ("00" * 63, BoxRefusalCode.STRUCTURE, "Signature", "a signature of 63 bytes"),
        ("30440220" + "11" * 32 + "0220" + "11" * 32, BoxRefusalCode.STRUCTURE, "Signature", "a signature in DER"),
        ("", BoxRefusalCode.STRUCTURE, "Signature", "no signature"),
    )


def _header() -> Iterator[Bad]:
    protected = "recipe/key/protected"
    typ = "6170706c69636174696f6e2f766e642e6b6579"
    alg_kid = "a301260448"
    kid = public("issuing-2").kid.hex()
    yield from several(
        "open",
        protected,
        (
            instead("a3012604", "a4012602810104"),
            BoxRefusalCode.HEADER,
            "Crit",
            "crit, which names a label that is there",
        ),
        (instead("a3012604", "a4012602810404"), BoxRefusalCode.HEADER, "Crit", "crit, which names kid"),
        (instead("a3012604", "a40126030004"), BoxRefusalCode.HEADER, "Header", "a label more: content type"),
        (instead("a3012604", "a204"), BoxRefusalCode.HEADER, "Algorithm", "no alg"),
        (instead(f"a301260448{kid}", "a20126"), BoxRefusalCode.HEADER, "Header", "no kid"),
    )
    yield from several(
        "open",
        "recipe/key/kid",
        (kid[2:], BoxRefusalCode.HEADER, "Header", "a kid of 7 bytes"),
        (kid + "00", BoxRefusalCode.HEADER, "Header", "a kid of 9 bytes"),
    )
    yield bad(
        "open",
        protected,
        instead(f"48{kid}", "684b4b4b4b4b4b4b4b"),
        BoxRefusalCode.HEADER,
        "Header",
        "a kid that is a text",
    )
    yield from several(
        "open",
        "recipe/key/alg",
        (-9, BoxRefusalCode.ALGORITHM, "Algorithm", "alg ESP256, which is the same and says so otherwise"),
        (-35, BoxRefusalCode.ALGORITHM, "Algorithm", "alg ES384"),
        (-8, BoxRefusalCode.ALGORITHM, "Algorithm", "alg EdDSA"),
        (5, BoxRefusalCode.ALGORITHM, "Algorithm", "alg HMAC 256/256"),
        ("ES256", BoxRefusalCode.ALGORITHM, "Algorithm", "alg as a text"),
    )
    yield from several(
        "open",
        "recipe/key/typ",
        (1, BoxRefusalCode.HEADER, "Typ", "typ as a number"),
        ("application/vnd.keyrack.answer-2+cwt", BoxRefusalCode.TYP, "Typ", "the typ of an answer"),
        ("application/vnd.keyrack.key-1+cwt", BoxRefusalCode.TYP, "Typ", "the typ of another version"),
        ("application/vnd.keyrack.Key-2+cwt", BoxRefusalCode.TYP, "Typ", "a typ in other letters"),
        ("application/cwt", BoxRefusalCode.TYP, "Typ", "the typ of any CWT"),
        ("", BoxRefusalCode.TYP, "Typ", "an empty typ"),
    )
    yield from several(
        "open",
        protected,
        (
            instead("a30126", "bf0126"),
            BoxRefusalCode.ENCODING,
            "Encoding",
            "a header of indefinite length without an end",
        ),
        (instead(alg_kid, "a30138060448"), BoxRefusalCode.ENCODING, "Encoding", "alg in two bytes"),
        (instead(f"{alg_kid}{kid}", f"a30448{kid}0126"), BoxRefusalCode.ENCODING, "Encoding", "labels out of order"),
        (instead("a3012604", "a40126012604"), BoxRefusalCode.ENCODING, "Encoding Algorithm", "alg twice"),
        (more("00"), BoxRefusalCode.ENCODING, "Encoding", "a byte follows the header"),
        (instead(typ, typ[:-2] + "e9"), BoxRefusalCode.ENCODING, "Encoding", "a typ that is no ASCII"),
        (instead("a3012604", "d2a3012604"), BoxRefusalCode.ENCODING, "Tag", "tag 18 around the header"),
    )


def _payload() -> Iterator[Bad]:
    payload = "recipe/key/payload"
    iss = "016a637573746f6d65723a37"
    nbf = "051a" + (NOW - 86_400).to_bytes(4, "big").hex() + "06"
    iat = "061a" + (NOW - 86_400).to_bytes(4, "big").hex() + "07"
    cti = "0750000102030405060708090a0b0c0d0e0f"
    limit = "3a000100021a0003f480"
    yield from several(
        "open",
        payload,
        (instead(nbf, "051b00000000" + nbf[4:]), BoxRefusalCode.ENCODING, "Encoding", "nbf in eight bytes"),
        (instead(nbf, "05fb41daca800000000006"), BoxRefusalCode.ENCODING, "Encoding", "nbf as a float"),
        (instead(nbf, "05c1" + nbf[2:]), BoxRefusalCode.ENCODING, "Tag", "nbf with tag 1"),
        (instead(nbf, "05f606"), BoxRefusalCode.ENCODING, "Encoding", "nbf is null"),
        (instead(nbf, "05f706"), BoxRefusalCode.ENCODING, "Encoding", "nbf is undefined"),
        (instead(nbf, "05c2446b49d20006"), BoxRefusalCode.ENCODING, "Tag", "nbf as a bignum"),
        (instead(f"ac{iss}", f"ad{iss}{iss}"), BoxRefusalCode.ENCODING, "Encoding", "iss twice"),
        (
            instead(f"ac{iss}0266752d34373131", f"ac0266752d34373131{iss}"),
            BoxRefusalCode.ENCODING,
            "Encoding",
            "iss behind sub",
        ),
        (
            instead(f"ac{iss}", f"bf{iss}"),
            BoxRefusalCode.ENCODING,
            "Encoding",
            "a map of indefinite length without an end",
        ),
        (instead(f"ac{iss}", f"b80c{iss}"), BoxRefusalCode.ENCODING, "Encoding", "the map's head is not the shortest"),
        (instead(iss, "01780a" + iss[4:]), BoxRefusalCode.ENCODING, "Encoding", "the head of iss is not the shortest"),
        (instead(iss, "017f" + iss[2:] + "ff"), BoxRefusalCode.ENCODING, "Encoding", "iss in pieces"),
        (instead("0266752d34373131", "0266c3bc34373131"), BoxRefusalCode.ENCODING, "Encoding", "sub is no ASCII"),
        (
            instead("0266752d34373131", "0266750a34373131"),
            BoxRefusalCode.ENCODING,
            "Encoding",
            "a control character in sub",
        ),
        (instead("0266752d34373131", "0266757f34373131"), BoxRefusalCode.ENCODING, "Encoding", "U+007F in sub"),
        (instead(cti, f"075f{cti[2:]}ff"), BoxRefusalCode.ENCODING, "Encoding", "cti in pieces"),
        (instead(limit, "3a000100021b0020000000000000"), BoxRefusalCode.ENCODING, "Encoding Bounds", "a limit of 2^53"),
        (instead(limit, "3a000100023a80000000"), BoxRefusalCode.ENCODING, "Encoding Bounds", "a limit of -2^31 - 1"),
        (instead(limit, "3a0001000281818181818100"), BoxRefusalCode.ENCODING, "Encoding Bounds", "nested 7 deep"),
        (instead(limit, "3a00010002818181818100"), BoxRefusalCode.CLAIMS, "Bounds", "nested 6 deep, which is no limit"),
        (more("00"), BoxRefusalCode.ENCODING, "Encoding", "a byte follows the payload"),
        (instead(f"ac{iss}", f"d2ac{iss}"), BoxRefusalCode.ENCODING, "Tag", "tag 18 around the payload"),
        (instead(f"ac{iss}", f"ad4000{iss}"), BoxRefusalCode.ENCODING, "Encoding", "a byte string as a key of the map"),
        (
            instead(f"ac{iss}", f"ad{iss}"),
            BoxRefusalCode.ENCODING,
            "Encoding",
            "a member less than the map's head says",
        ),
        (instead(iat, iat[2:]), BoxRefusalCode.ENCODING, "Encoding", "a value without its key"),
    )


def _members() -> Iterator[Bad]:
    payload, claims = "recipe/key/payload", "recipe/key/claims/"
    for name in ("iss", "sub", "aud", "exp", "nbf", "iat", "cti", "cnf", "status", "assignment", "rights", "limit"):
        yield bad("open", claims + name, None, BoxRefusalCode.CLAIMS, "ClosedMap", f"no {name}")
    yield bad(
        "open",
        payload,
        instead("ac016a", "ad0000016a"),
        BoxRefusalCode.CLAIMS,
        "ClosedMap",
        "an unknown member with the key 0",
    )
    yield from several(
        "open",
        claims + "iss",
        ("", BoxRefusalCode.CLAIMS, "Bounds", "an empty iss"),
        ("c" * 41, BoxRefusalCode.CLAIMS, "Bounds", "an iss of 41 characters"),
    )
    yield from several(
        "open",
        claims + "sub",
        ("", BoxRefusalCode.CLAIMS, "Bounds", "an empty sub"),
        ("u" * 129, BoxRefusalCode.CLAIMS, "Bounds", "a sub of 129 characters"),
        (4711, BoxRefusalCode.CLAIMS, "ClosedMap", "a sub that is a number"),
    )
    yield bad("open", claims + "exp", 0, BoxRefusalCode.CLAIMS, "Bounds", "exp is 0")
    yield bad("open", claims + "nbf", -1, BoxRefusalCode.CLAIMS, "Bounds", "nbf is before 1970")
    yield bad("open", claims + "iat", str(NOW), BoxRefusalCode.CLAIMS, "ClosedMap", "iat as a text")
    yield from several(
        "open",
        claims + "cti",
        ("00" * 15, BoxRefusalCode.CLAIMS, "Bounds", "a cti of 15 bytes"),
        ("", BoxRefusalCode.CLAIMS, "Bounds", "an empty cti, as entries may have it"),
    )
    yield from several(
        "open",
        payload,
        (instead("08a101a4", "08a102a4"), BoxRefusalCode.CLAIMS, "ClosedMap", "a cnf with an encrypted key"),
        (
            instead("08a101a401", "08a101a301"),
            BoxRefusalCode.ENCODING,
            "Encoding",
            "a map of a public key that has a member more than it says",
        ),
        (instead("01a401022001", "01a401022002"), BoxRefusalCode.CLAIMS, "Algorithm", "a public key on P-384"),
        (instead("01a401022001", "01a401012001"), BoxRefusalCode.CLAIMS, "Algorithm", "a public key of type OKP"),
        (
            instead("01a401022001", "01a5010203262001"),
            BoxRefusalCode.CLAIMS,
            "ClosedMap",
            "a public key that names its algorithm",
        ),
    )
    x, y = public("phone-1").x.hex(), public("phone-1").y.hex()
    yield from several(
        "open",
        payload,
        (instead(f"5820{x}", f"581f{x[2:]}"), BoxRefusalCode.CLAIMS, "Bounds", "a coordinate of 31 bytes"),
        (instead(f"225820{y}", "22f5"), BoxRefusalCode.ENCODING, "Encoding", "a compressed point: y is true"),
    )
    yield from several(
        "open",
        claims + "status",
        ({"idx": -1, "uri": uri(2)}, BoxRefusalCode.CLAIMS, "Bounds", "a place of -1"),
        ({"idx": 7, "uri": ""}, BoxRefusalCode.CLAIMS, "Bounds", "an empty uri"),
        ({"idx": 7, "uri": "u" * 129}, BoxRefusalCode.CLAIMS, "Bounds", "a uri of 129 characters"),
    )
    yield bad(
        "open",
        payload,
        instead("a26369647807", "a3636964780763696e7800"),
        BoxRefusalCode.CLAIMS,
        "ClosedMap",
        "a member more in status",
    )
    yield from several(
        "open",
        claims + "assignment",
        (0, BoxRefusalCode.CLAIMS, "Bounds", "assignment 0"),
        (1 << 31, BoxRefusalCode.CLAIMS, "Bounds", "assignment 2^31"),
    )
    yield from several(
        "open",
        claims + "rights",
        ([], BoxRefusalCode.CLAIMS, "Rights", "no rights"),
        ([2, 1], BoxRefusalCode.CLAIMS, "Rights", "rights out of order"),
        ([1, 1], BoxRefusalCode.CLAIMS, "Rights", "a right twice"),
        ([1, 2, 4], BoxRefusalCode.CLAIMS, "Rights", "a right that does not exist"),
    )
    yield from several(
        "open",
        claims + "limit",
        (0, BoxRefusalCode.CLAIMS, "Bounds Freshness", "a limit of 0"),
        (1 << 31, BoxRefusalCode.CLAIMS, "Bounds Freshness", "a limit of 2^31"),
        (-1, BoxRefusalCode.CLAIMS, "Bounds Freshness", "a negative limit"),
    )


def _answer() -> Iterator[Bad]:
    answer, claims = "recipe/answer/", "recipe/answer/claims/"
    yield from several(
        "open",
        answer + "whole",
        (more("00" * 200), BoxRefusalCode.TOO_LONG, "Bounds", "an answer of more than 400 bytes"),
        (more("00"), BoxRefusalCode.ENCODING, "Encoding", "a byte follows the answer"),
        (instead("d28458", "8458"), BoxRefusalCode.STRUCTURE, "Tag", "an answer without its tag"),
    )
    yield bad("open", answer + "alg", -9, BoxRefusalCode.ALGORITHM, "Algorithm", "alg ESP256 in the answer")
    yield bad(
        "open",
        answer + "typ",
        "application/vnd.keyrack.key-2+cwt",
        BoxRefusalCode.TYP,
        "Typ",
        "an answer with the typ of a key",
    )
    yield from several(
        "open",
        claims + "command",
        (0, BoxRefusalCode.CLAIMS, "Bounds", "command 0, as entries may have it"),
        (3, BoxRefusalCode.CLAIMS, "Bounds", "command 3"),
    )
    yield bad("open", claims + "counter", -1, BoxRefusalCode.CLAIMS, "Bounds", "a counter of -1")
    yield bad("open", claims + "nonce", "00" * 8, BoxRefusalCode.CLAIMS, "Bounds", "a nonce of 8 bytes")
    yield bad("open", claims + "challenge", None, BoxRefusalCode.CLAIMS, "ClosedMap", "no challenge")
    yield bad("open", claims + "key", "", BoxRefusalCode.CLAIMS, "Bounds", "an empty hash of the key")
