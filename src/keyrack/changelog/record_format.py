"""The bytes of a numbered change: the record that is hashed, and is a leaf of the log's tree.

A record contains everything about a change but its actor, content and personal data. It has salted digests of these
three parts. A part can be erased with its salt, and the record still proves the others. docs/log-format.md specifies
the bytes for other verifiers. A change to them needs another `VERSION`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal, cast
from uuid import UUID

VERSION = b"\x01"
FIRST = bytes(32)  # the hash before the first record of an epoch
HASH = 32  # bytes
SALT = 32  # bytes, random for each part of each change
PADDING = 256  # parts are padded to a multiple of these bytes, so that the hashing time reveals no length
DOMAIN = b"keyrack-change/v1/"
DIGITS = 150_000  # PostgreSQL has no number with more digits: its limit is 131,072 + 16,383

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

Part = Literal["who", "content", "person"]
PARTS: tuple[Part, ...] = ("who", "content", "person")


class NotARecord(ValueError):
    """Bytes that are no record: another version, truncated, or with extra bytes."""


@dataclass(frozen=True, slots=True)
class Record:
    """The fields of a record. A digest is None if the change has no such part; it stays after an erasure."""

    customer: int  # 0: the installation
    epoch: UUID  # of the log
    number: int
    at: datetime  # with a zone; to the microsecond
    recorded_at: datetime
    kind: str
    resource: str
    resource_id: str
    groups: Sequence[int]  # in stored order
    previous: bytes  # `hash_of` the record before, or `FIRST`
    who: bytes | None
    content: bytes | None
    person: bytes | None


def encode(record: Record) -> bytes:
    """The bytes of a record: the version, then each member after its length (4 bytes).

    `encode(Record(customer=, epoch=, number=, at=, recorded_at=, kind=, resource=, resource_id=, groups=, previous=,
    who=digest("who", salt, who), content=digest("content", salt, {"before": .., "after": ..}), person=digest("person",
    salt, person)))`.

    Raises `ValueError` for a time without a zone, a number beyond 64 bits, or a text that is not UTF-8.
    """
    members = (
        _integer(record.customer),
        record.epoch.bytes,
        _integer(record.number),
        _integer(_microseconds(record.at)),
        _integer(_microseconds(record.recorded_at)),
        record.kind.encode(),
        record.resource.encode(),
        record.resource_id.encode(),
        b"".join(map(_integer, record.groups)),
        record.previous,
        record.who or b"",
        record.content or b"",
        record.person or b"",
    )
    return VERSION + b"".join([len(member).to_bytes(4, "big") + member for member in members])


def decode(data: bytes) -> Record:
    """The record in these bytes. Raises `NotARecord` for bytes that `encode` does not produce."""
    try:
        record = _decoded(_members(data))
        whole = encode(record) == data
    except (ValueError, OverflowError) as error:
        raise NotARecord(str(error)) from None
    if not whole:
        raise NotARecord("it is not in canonical form")
    return record


def hash_of(data: bytes) -> bytes:
    """The hash of a record, which the next one contains: SHA-256 of its bytes (32 bytes)."""
    return hashlib.sha256(data).digest()


def digest(part: Part, salt: bytes, value: Any) -> bytes:
    """The digest of a part (32 bytes).

    Without its salt of `SALT` bytes, no guess of the value can be checked. The value is the part's JSON. That of
    `content` is an object with `before` and `after`, each possibly null, without the personal members. Raises
    `ValueError` as `canonical` does.
    """
    text = canonical(value)
    text = len(text).to_bytes(4, "big") + text
    return hashlib.sha256(DOMAIN + part.encode() + b"\n" + salt + text + bytes(-len(text) % PADDING)).digest()


def canonical(value: Any) -> bytes:
    """The canonical text of a JSON value, in UTF-8, independent of how jsonb prints it.

    - No spaces.
    - Members in the order of their names' code points.
    - Strings as in RFC 8785.
    - Numbers with all their digits, without an exponent or redundant zeros; 0 without a sign.
    - A float counts by its shortest text, which is what PostgreSQL prints for a double.

    Raises `ValueError` for a value that jsonb cannot contain.
    """
    return _text(value).encode()


def loads(text: str | bytes | None) -> Any:
    """Parse JSON with exact numbers, for `digest` and `canonical`; None for None. Raises `ValueError`."""
    return None if text is None else json.loads(text, parse_float=Decimal, parse_int=Decimal, parse_constant=Decimal)


_string = json.JSONEncoder(ensure_ascii=False).encode  # RFC 8785, 3.2.2.2: escapes only " \ and control characters


def _text(value: Any) -> str:
    if isinstance(value, str):
        return _string(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return "{" + ",".join([f"{_string(name)}:{_text(members[name])}" for name in sorted(members)]) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_text, cast("list[Any]", value))) + "]"
    return _number(value)


def _number(value: int | float | Decimal) -> str:
    if type(value) is int and -(2**63) <= value < 2**63:
        return str(value)
    exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not exact.is_finite() or abs(exact.adjusted()) > DIGITS:
        raise ValueError(f"{str(exact)[:40]} is not a number that jsonb can contain")
    text = f"{exact:f}"
    text = text.rstrip("0").removesuffix(".") if "." in text else text
    return "0" if text == "-0" else text


def _integer(value: int) -> bytes:
    try:
        return value.to_bytes(8, "big", signed=True)
    except OverflowError:
        raise ValueError(f"{value} is beyond 64 bits") from None


def _microseconds(moment: datetime) -> int:
    if moment.tzinfo is None:
        raise ValueError(f"{moment} has no time zone")
    return (moment - EPOCH) // MICROSECOND


def _members(data: bytes) -> list[bytes]:
    if data[:1] != VERSION:
        raise NotARecord("its version is unknown")
    members, place = list[bytes](), 1
    while place < len(data):
        begin = place + 4
        place = begin + int.from_bytes(data[place:begin], "big")
        members.append(data[begin:place])
    if len(members) != 13:
        raise NotARecord(f"it has {len(members)} members instead of 13")
    return members


def _decoded(members: list[bytes]) -> Record:
    def integer(data: bytes) -> int:
        return int.from_bytes(data, "big", signed=True)

    customer, epoch, number, at, recorded_at, kind, resource, resource_id, groups, *hashes = members
    if any(len(hash_value) not in (0, HASH) for hash_value in hashes) or not hashes[0]:
        raise NotARecord("one of its hashes does not have 32 bytes")
    return Record(
        integer(customer),
        UUID(bytes=epoch),
        integer(number),
        EPOCH + integer(at) * MICROSECOND,
        EPOCH + integer(recorded_at) * MICROSECOND,
        kind.decode(),
        resource.decode(),
        resource_id.decode(),
        [integer(groups[place : place + 8]) for place in range(0, len(groups), 8)],
        hashes[0],
        *(hash_value or None for hash_value in hashes[1:]),
    )
