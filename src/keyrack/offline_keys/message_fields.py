"""The fields of signed messages, and which of them each message has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from keyrack.offline_keys.cbor import CborError, Value
from keyrack.offline_keys.cbor_types import (
    PUBLIC_KEY,
    CborType,
    array,
    ascending,
    number,
    octets,
    record,
    several,
    text,
    wrapped,
)
from keyrack.offline_keys.refusal_codes import BoxRefusalCode

# Claim keys that draft-ietf-oauth-status-list-21 requests and IANA has not assigned. They are defined only here
DRAFT_STATUS_LIST, DRAFT_TTL, DRAFT_STATUS = 65533, 65534, 65535

# Keys of fields that readers ignore, so that a newer server can write them
SKIPPABLE = range(-66303, -66047)

LONGEST_URI = 128  # characters, of a status list

OPEN, CLOSE = 1, 2  # commands and rights
UNCERTAIN = 3  # the right to use the key while the box's clock is uncertain

_TIME = number(1)  # seconds since 1970
_COUNT = number(0)
_ORDINAL = number(1)
_HASH = octets(32)  # SHA-256


class Status(NamedTuple):
    """The place of a key in a status list."""

    idx: int
    uri: str


@dataclass(frozen=True, slots=True)
class MessageField:
    """One claim: its key in payloads, its name, and its type."""

    key: int
    name: str
    form: CborType


MEMBERS = {
    member.name: member
    for member in (
        MessageField(1, "iss", text(40)),
        MessageField(2, "sub", text(128)),
        MessageField(3, "aud", text(40)),
        MessageField(4, "exp", _TIME),
        MessageField(5, "nbf", _TIME),
        MessageField(6, "iat", _TIME),
        MessageField(7, "cti", octets(16)),
        MessageField(8, "cnf", wrapped(1, PUBLIC_KEY)),
        MessageField(10, "nonce", octets(16)),
        MessageField(DRAFT_STATUS_LIST, "status_list", wrapped("lst", octets(), bits=1)),
        MessageField(DRAFT_TTL, "ttl", _ORDINAL),  # seconds
        MessageField(
            DRAFT_STATUS, "status", wrapped("status_list", record(Status, {"idx": _COUNT, "uri": text(LONGEST_URI)}))
        ),
        MessageField(-65537, "assignment", number(1, (1 << 31) - 1)),
        MessageField(-65538, "rights", ascending(several(number(OPEN, UNCERTAIN), 3))),
        MessageField(-65539, "limit", number(1, (1 << 31) - 1)),  # seconds
        MessageField(-65540, "command", number(OPEN, CLOSE)),
        MessageField(-65541, "counter", _COUNT),
        MessageField(-65542, "key", _HASH),
        MessageField(-65543, "challenge", _HASH),
        MessageField(-65544, "sequence", _ORDINAL),
        MessageField(-65545, "keys", several(PUBLIC_KEY, 2)),
        MessageField(-65546, "generation", _ORDINAL),
        MessageField(-65547, "upto", array(_ORDINAL, _HASH)),
        MessageField(-65548, "root", PUBLIC_KEY),
        MessageField(-65549, "box", _HASH),
        MessageField(-65550, "number", _ORDINAL),
        MessageField(-65551, "previous", _HASH),
        MessageField(-65552, "first", _ORDINAL),
        MessageField(-65553, "event", number(1, 6)),
        MessageField(-65554, "code", number(0, max(BoxRefusalCode))),
        MessageField(-65555, "certain", number(0, 1)),
        MessageField(-65556, "device", octets(0, 32)),
        MessageField(-65557, "held", array(_ORDINAL, _COUNT, _COUNT)),
        MessageField(-65558, "refused", array(_COUNT, number(0, max(BoxRefusalCode)))),
        MessageField(-65559, "advertising", octets(16)),
        MessageField(-65560, "list", _HASH),
        MessageField(-65561, "keyset", _HASH),
        MessageField(-65562, "service-keys", several(PUBLIC_KEY, 2)),
        MessageField(-65563, "skipped", _COUNT),
        MessageField(-65564, "root-kid", octets(8)),
    )
}


@dataclass(frozen=True, slots=True)
class Message:
    """A type of signed message, with its fields. It may also have skippable fields."""

    name: str
    typ: str
    limit: int  # bytes
    members: tuple[MessageField, ...]

    def read(self, payload: Value) -> dict[str, Any]:
        """The claims by name, without skippable fields. Raises `CborError`."""
        own = {member.key for member in self.members}
        if not isinstance(payload, dict) or {key for key in payload if key not in SKIPPABLE} != own:
            raise CborError(f"these are not the members of a message of type {self.typ}")
        return {member.name: member.form.read(payload[member.key]) for member in self.members}

    def write(self, claims: Mapping[str, Any]) -> Value:
        """The payload of these claims. Raises `CborError` if they are invalid."""
        if set(claims) != {member.name for member in self.members}:
            raise CborError(f"these are not the claims of a message of type {self.typ}: {sorted(claims)}")
        payload: Value = {member.key: member.form.write(claims[member.name]) for member in self.members}
        self.read(payload)
        return payload


def _message(name: str, limit: int, *members: str, typ: str = "", **forms: CborType) -> Message:
    """A message. `forms` are types of fields that differ in this message."""
    own = {each: replace(MEMBERS[each], form=form) for each, form in forms.items()}
    typ = typ or f"application/vnd.keyrack.{name}-2+cwt"
    return Message(name, typ, limit, tuple((MEMBERS | own)[member] for member in members))


KEY = _message(
    "key", 640,
    "iss", "sub", "aud", "exp", "nbf", "iat", "cti", "cnf", "status", "assignment", "rights", "limit",
)  # fmt: skip
ANSWER = _message("answer", 400, "aud", "nonce", "command", "counter", "key", "challenge")
STATUS_LIST = _message(
    "statuslist", 768,
    "iss", "sub", "aud", "exp", "iat", "status_list", "ttl", "generation",
    typ="application/statuslist+cwt",
)  # fmt: skip
KEY_SET = _message("keyset", 640, "iss", "iat", "sequence", "keys", "service-keys")
ROOT = _message("root", 400, "iss", "iat", "sequence", "root")
TIME = _message("time", 300, "iss", "aud", "iat", "nonce")
RECEIPT = _message("receipt", 300, "iss", "aud", "iat", "upto")
PROVISIONING = _message(
    "provisioning", 600, "iss", "aud", "iat", "nonce", "root", "box", "advertising", "list", "keyset"
)
ENROLMENT = _message("enrolment", 400, "cnf", "nonce")
REGISTRATION = _message("registration", 500, "sub", "cnf", "nonce")
ENTRY = _message(
    "entry", 500,
    "aud", "iat", "cti", "command", "counter", "number", "previous", "first", "event", "code", "certain", "device",
    "held", "refused", "skipped", "root-kid",
    cti=octets(0, 16), command=number(0, CLOSE),
)  # fmt: skip
