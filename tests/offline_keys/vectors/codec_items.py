"""In charge of vectors for the codec alone: items, and what is nearly one; and of messages that no box reads."""

from __future__ import annotations

from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.offline_keys.fixed_keys import public
from tests.offline_keys.vectors.initial_states import NAME, NOW
from tests.offline_keys.vectors.message_recipes import Json
from tests.offline_keys.vectors.rejected_case import instead, more

# Name, bytes, comment
ITEMS = (
    ("numbers", "8a 00 17 1818 18ff 190100 19ffff 1a00010000 1affffffff 1b0000000100000000 1b001fffffffffffff",
     "numbers, at both ends of each head"),
    ("negative", "8520 37 3818 3a7fffffff 390100", "negative numbers, down to -2^31"),
    ("strings", "84 40 43010203 60 63617e20", "byte strings and texts"),
    ("map", "a8 0100 0200 0a00 19ffff00 2000 3a0001000000 616100 62616100",
     "keys in their order: 1, 2, 10, 65535, -1, -65537, a, aa"),
    ("deep", "818181a101818100", "arrays and maps, 6 deep"),
)  # fmt: skip
# The good one, what is changed in its bytes, comment
NEARLY = (
    ("numbers", instead("8a00", "8a1800"), "0 in two bytes"),
    ("numbers", instead("171818", "18171818"), "23 in two bytes"),
    ("numbers", instead("18ff", "1900ff"), "255 in three bytes"),
    ("numbers", instead("19ffff1a", "1a0000ffff1a"), "65,535 in five bytes"),
    ("numbers", instead("1affffffff", "1b00000000ffffffff"), "2^32 - 1 in nine bytes"),
    ("numbers", instead("1b001fffffffffffff", "1b0020000000000000"), "2^53"),
    ("numbers", instead("1b001fffffffffffff", "1bffffffffffffffff"), "2^64 - 1"),
    ("numbers", instead("1b001fffffffffffff", "f97e00"), "NaN"),
    ("numbers", instead("1b001fffffffffffff", "fb433fffffffffffff"), "a float that is a number"),
    ("numbers", instead("1b001fffffffffffff", "f4"), "false"),
    ("numbers", instead("1b001fffffffffffff", "f6"), "null"),
    ("numbers", instead("1b001fffffffffffff", "f7"), "undefined"),
    ("numbers", instead("1b001fffffffffffff", "e0"), "a simple value without a name"),
    ("numbers", instead("1b001fffffffffffff", "f820"), "a simple value of two bytes"),
    ("numbers", instead("1b001fffffffffffff", "ff"), "a break that ends nothing"),
    ("numbers", instead("1b001fffffffffffff", "1c"), "a head that is reserved"),
    ("numbers", instead("1b001fffffffffffff", "1f"), "a number of indefinite length"),
    ("numbers", instead("1b001fffffffffffff", "c100"), "tag 1"),
    ("numbers", instead("1b001fffffffffffff", "d200"), "tag 18"),
    ("numbers", instead("1b001fffffffffffff", ""), "an item less than the array has"),
    ("numbers", instead("8a00", "9a000a00"), "an array's head that is no head"),
    ("numbers", instead("8a00", "9bffffffffffffffff00"), "an array of 2^64 - 1"),
    ("numbers", more("00"), "a byte follows"),
    ("numbers", more("ff"), "a break follows"),
    ("negative", instead("3a7fffffff", "3a80000000"), "-2^31 - 1"),
    ("negative", instead("3a7fffffff", "3bffffffffffffffff"), "-2^64"),
    ("negative", instead("8520", "853800"), "-1 in two bytes"),
    ("strings", instead("43010203", "5803010203"), "the length of three bytes in two"),
    ("strings", instead("43010203", "5f43010203ff"), "bytes in pieces"),
    ("strings", instead("43010203", "44010203"), "a byte string that is longer than it is: the text is no text"),
    ("strings", instead("63617e20", "63617e7f"), "U+007F"),
    ("strings", instead("63617e20", "63617e1f"), "U+001F"),
    ("strings", instead("63617e20", "6361c3a9"), "e with an accent"),
    ("strings", instead("63617e20", "6361c328"), "a text that is no UTF-8"),
    ("strings", instead("63617e20", "7f63617e20ff"), "a text in pieces"),
    ("strings", instead("63617e20", "64617e20"), "a text that ends too late"),
    ("map", instead("a801000200", "a802000100"), "keys out of order"),
    ("map", instead("01000200", "01000100"), "a key twice"),
    ("map", instead("19ffff0020003a00010000", "200019ffff003a00010000"), "the order of RFC 7049, shorter keys first"),
    ("map", instead("616100626161", "626161006161"), "texts out of order"),
    ("map", instead("01000200", "40000200"), "a byte string as a key"),
    ("map", instead("01000200", "80000200"), "an array as a key"),
    ("map", instead("a80100", "a70100"), "a pair more than the map has"),
    ("map", instead("a80100", "a90100"), "a pair less than the map has"),
    ("map", instead("a80100", "bf0100"), "a map of indefinite length, which does not end"),
    ("deep", instead("818100", "81818100"), "7 deep"),
    ("deep", instead("818100", "81818180"), "7 deep, with nothing in it"),
)  # fmt: skip

# Name, recipe, comment, flags
READ: tuple[tuple[str, Json, str, str], ...] = (
    (
        "registration",
        {
            "message": "registration",
            "signer": "phone-1",
            "claims": {"sub": "u-4711", "cnf": "phone-1", "nonce": "22" * 16},
        },
        "a phone's public key",
        "Possession",
    ),
    (
        "enrolment",
        {"message": "enrolment", "signer": "box", "claims": {"cnf": "box", "nonce": "11" * 16}},
        "a box's public key",
        "Provisioning",
    ),
    (
        "entry",
        {
            "message": "entry",
            "signer": "box",
            "claims": {
                "aud": NAME,
                "iat": NOW,
                "cti": "",
                "command": 0,
                "counter": 0,
                "number": 1,
                "previous": "00" * 32,
                "first": 1,
                "event": 6,
                "code": 0,
                "certain": 1,
                "device": "",
                "held": [1, 1, NOW],
                "refused": [0, 0],
            },
        },
        "an entry of a log",
        "Log",
    ),
)
# Name of the good one, path in its recipe, value, code, comment
MISREAD = (
    ("registration", "typ", "application/vnd.keyrack.enrolment-1+cwt", BoxRefusalCode.TYP, "the typ of an enrolment"),
    ("registration", "claims/sub", None, BoxRefusalCode.CLAIMS, "no sub"),
    ("registration", "claims/sub", "", BoxRefusalCode.CLAIMS, "an empty sub"),
    ("registration", "claims/nonce", None, BoxRefusalCode.CLAIMS, "no nonce"),
    ("registration", "claims/nonce", "22" * 15, BoxRefusalCode.CLAIMS, "a nonce of 15 bytes"),
    ("registration", "whole", more("00" * 400), BoxRefusalCode.TOO_LONG, "more than 400 bytes"),
    ("registration", "payload", instead(public("phone-1").y.hex(), "00" * 31), BoxRefusalCode.ENCODING,
     "a coordinate too short"),
    ("enrolment", "claims/nonce", "11" * 15, BoxRefusalCode.CLAIMS, "a nonce of 15 bytes"),
    ("enrolment", "claims/cnf", None, BoxRefusalCode.CLAIMS, "no cnf"),
    ("entry", "claims/cti", "00" * 8, BoxRefusalCode.CLAIMS, "a cti of 8 bytes"),
    ("entry", "claims/command", 3, BoxRefusalCode.CLAIMS, "command 3"),
    ("entry", "claims/number", 0, BoxRefusalCode.CLAIMS, "number 0"),
    ("entry", "claims/first", 0, BoxRefusalCode.CLAIMS, "first 0"),
    ("entry", "claims/event", 0, BoxRefusalCode.CLAIMS, "event 0"),
    ("entry", "claims/event", 7, BoxRefusalCode.CLAIMS, "event 7"),
    ("entry", "claims/code", 34, BoxRefusalCode.CLAIMS, "code 34"),
    ("entry", "claims/certain", 2, BoxRefusalCode.CLAIMS, "certain 2"),
    ("entry", "claims/device", "00" * 16, BoxRefusalCode.CLAIMS, "a device of 16 bytes"),
    ("entry", "claims/previous", "", BoxRefusalCode.CLAIMS, "no hash of the entry before"),
    ("entry", "claims/held", [0, 1, NOW], BoxRefusalCode.CLAIMS, "a key set of sequence 0"),
    ("entry", "claims/refused", [0, 34], BoxRefusalCode.CLAIMS, "refused with code 34"),
    ("entry", "claims/refused", [-1, 0], BoxRefusalCode.CLAIMS, "refused -1 times"),
    ("entry", "claims/iat", 0, BoxRefusalCode.CLAIMS, "iat 0"),
)  # fmt: skip
