"""Messages by recipe: bytes for the box from a vector's JSON.

Derived values are left out. An answer gets the live nonce of its link, the hash of the challenge and that of the key. A
time and a provisioning get the nonce, and a provisioning the hashes of its list and key set. A null removes a claim.
"""

from __future__ import annotations

import copy
import hashlib
from typing import Any

from keyrack.offline_keys import cose, status_list_bits
from keyrack.offline_keys.cbor import TaggedItem, encode
from keyrack.offline_keys.message_fields import (
    ANSWER,
    ENROLMENT,
    ENTRY,
    KEY,
    KEY_SET,
    PROVISIONING,
    RECEIPT,
    REGISTRATION,
    ROOT,
    STATUS_LIST,
    TIME,
    Status,
)  # fmt: skip
from tests.offline_keys.fixed_keys import high, public, signer

Json = dict[str, Any]

MESSAGES = {
    message.name: message
    for message in (
        ANSWER, ENROLMENT, ENTRY, KEY, KEY_SET, PROVISIONING, RECEIPT, REGISTRATION, ROOT, STATUS_LIST, TIME
    )
}  # fmt: skip
OCTETS = {"cti", "nonce", "key", "challenge", "box", "previous", "device", "advertising", "list", "keyset", "root-kid"}
NUMBERS = {"hello": 1, "carry": 3, "open": 5, "fetch": 7, "enrol": 9, "provision": 11}
PARTS = {
    "carry": ("artefact",),
    "open": ("key", "answer"),
    "provision": ("provisioning", "keyset", "list"),
}
# Parts that another one names by their hash are built first
MADE = {"provision": ("list", "keyset", "provisioning")}


class Built:
    """A message, and its signed parts by their names."""

    def __init__(self, recipe: Json, links: list[Json]) -> None:
        self.signed: dict[str, bytes] = {}
        self.parts: dict[str, bytes] = {}
        live = links[recipe.get("answers", 0)]
        names = PARTS.get(recipe["say"], ())
        for name in MADE.get(recipe["say"], names):
            part = copy.deepcopy(recipe[name])
            hashes = {made: hashlib.sha256(data).hexdigest() for made, data in self.parts.items()}
            follows = {"nonce": live["nonce"], "challenge": live["challenge"]} | hashes
            own = {member.name for member in MESSAGES[part["message"]].members}
            part["claims"] = {each: value for each, value in follows.items() if each in own} | part["claims"]
            self.parts[name], self.signed[name] = message(part)
        values = {
            "hello": [recipe.get("versions", [2])],
            "fetch": [recipe.get("from")],
            "enrol": [bytes.fromhex(recipe.get("nonce", ""))],
        }
        item = [NUMBERS[recipe["say"]], *values.get(recipe["say"], (self.parts[name] for name in names))]
        self.message = spliced(encode(item), recipe.get("splice"))


def message(recipe: Json) -> tuple[bytes, bytes]:
    """A signed message, and the signed bytes."""
    kind = MESSAGES[recipe["message"]]
    by = recipe["signer"]
    kid = bytes.fromhex(recipe["kid"]) if "kid" in recipe else public(by).kid
    header = {cose.ALG: recipe.get("alg", cose.ES256), cose.KID: kid, cose.TYP: recipe.get("typ", kind.typ)}
    protected = spliced(encode(header), recipe.get("protected"))
    given = {name: value for name, value in recipe["claims"].items() if value is not None}
    claims = {
        member.key: member.form.write(claim(member.name, given[member.name]))
        for member in kind.members
        if member.name in given
    } | {int(label): value for label, value in recipe.get("also", {}).items()}
    payload = spliced(encode(claims), recipe.get("payload"))
    signed = cose.to_be_signed(protected, payload)
    made = signer(by).sign(signed)
    signature = _signature(cose.with_low_s(made) if kind is ENTRY else made, recipe.get("signature"))
    return spliced(encode(TaggedItem([protected, {}, payload, signature])), recipe.get("whole")), signed


def claim(name: str, value: Any) -> Any:
    """A claim in Python, from its JSON."""
    if name in OCTETS:
        return bytes.fromhex(value)
    if name in ("cnf", "root"):
        return public(value)
    if name in ("keys", "service-keys"):
        return [public(each) for each in value]
    if name == "status":
        return Status(value["idx"], value["uri"])
    if name == "status_list":
        return bytes.fromhex(value["lst"]) if "lst" in value else status_list_bits.pack(bits(value["revoked"]))
    if name == "upto":
        return value[0], bytes.fromhex(value[1])
    return value


def bits(revoked: list[int], size: int = status_list_bits.BYTES) -> bytes:
    made = bytearray(size)
    for index in revoked:
        made[index // 8] |= 1 << index % 8
    return bytes(made)


def spliced(data: bytes, splice: Json | None) -> bytes:
    """Replace these bytes, which occur once, or append some."""
    if splice is None:
        return data
    if "append" in splice:
        return data + bytes.fromhex(splice["append"])
    old, new = bytes.fromhex(splice["replace"]), bytes.fromhex(splice["by"])
    assert data.count(old) == 1, f"{old.hex()} is there {data.count(old)} times in {data.hex()}"
    return data.replace(old, new)


def changed(vector: Json, change: Json) -> Json:
    """A vector's input with one thing changed."""
    other = copy.deepcopy(vector)
    *way, last = change["path"]
    place = other
    for step in way:
        place = place[step]
    place[last] = change["value"]
    return other


def _signature(made: bytes, how: str | None) -> bytes:
    if how is None:
        return made
    return high(made) if how == "high" else bytes.fromhex(how)
