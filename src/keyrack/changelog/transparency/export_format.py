"""The format of an exported log: JSON lines with their proofs, for verifiers without a database.

The first line describes the log. Each other line is a change: its content, the salts of its parts, and its record.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from keyrack.changelog.record_format import FIRST, HASH, PARTS, SALT, Part, canonical, loads
from keyrack.changelog.transparency.merkle_tree import Tree

FORMAT = "keyrack-changes"
VERSION = 1  # of the format; others are rejected
LINE = 16 << 20  # maximum bytes of a line


class NotAnExport(ValueError):
    """A line that is not valid in an export."""


@dataclass(frozen=True, slots=True)
class Head:
    """The log of an export, and its state before the first exported change."""

    customer: int
    epoch: UUID
    behind: int = 0  # the number before the first change
    last: int = 0  # the number of the last exported change
    hash: bytes = FIRST  # of the record with the number `behind`
    tree: Tree | None = field(default_factory=Tree)  # up to `behind`; None if it is not stored any more

    @classmethod
    def read(cls, line: bytes) -> Head:
        """Parse the first line. Raises `NotAnExport`."""
        try:
            value = loads(line)
            if (value["format"], value["version"]) != (FORMAT, VERSION):
                raise NotAnExport(f"the format of the export is not {FORMAT}, version {VERSION}")
            return cls(
                _integer(value["customerId"]),
                UUID(value["epoch"]),
                _integer(value["behind"]),
                _integer(value["last"]),
                _bytes(value["hash"], HASH),
                None if value["tree"] is None else Tree.read(_bytes(value["tree"])),
            )
        except NotAnExport:
            raise
        except WRONG as error:
            raise NotAnExport(f"the first line is not the head of an export: {_error_text(error)}") from None

    def __str__(self) -> str:
        value = {
            "format": FORMAT, "version": VERSION, "customerId": self.customer, "epoch": str(self.epoch),
            "behind": self.behind, "last": self.last, "hash": _text(self.hash),
            "tree": None if self.tree is None else _text(self.tree.stored),
        }  # fmt: skip
        return json.dumps(value, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class ExportedChange:
    """A numbered change with its proof. A part that is missing or erased is None, and so is its salt."""

    id: int
    at: datetime
    recorded_at: datetime
    kind: str
    resource: str
    resource_id: str
    groups: Sequence[int]
    parts: Mapping[Part, Any]  # `who`; `content` ({"before": .., "after": ..}); `person`, its personal part
    salts: Mapping[Part, bytes | None]
    record: bytes

    @classmethod
    def read(cls, line: bytes) -> ExportedChange:
        """Parse a change. Raises `NotAnExport`."""
        try:
            value = loads(line)
            salts = value["salts"]
            return cls(
                _integer(value["id"]),
                datetime.fromisoformat(value["time"]),
                datetime.fromisoformat(value["recordedTime"]),
                value["kind"],
                value["resource"],
                value["resourceId"],
                [*map(_integer, value["groups"])],
                {part: value[part] for part in PARTS},
                {part: None if salts[part] is None else _bytes(salts[part], SALT) for part in PARTS},
                _bytes(value["record"]),
            )
        except WRONG as error:
            raise NotAnExport(f"it is not a change: {_error_text(error)}") from None

    def __str__(self) -> str:
        value = {
            "id": self.id, "time": _time(self.at), "recordedTime": _time(self.recorded_at), "kind": self.kind,
            "resource": self.resource, "resourceId": self.resource_id, "groups": [*self.groups], **self.parts,
            "salts": {part: None if salt is None else _text(salt) for part, salt in self.salts.items()},
            "record": _text(self.record),
        }  # fmt: skip
        return "{" + ",".join(f'"{name}":{canonical(member).decode()}' for name, member in value.items()) + "}"


# Errors that an arbitrary line may raise
WRONG = (AttributeError, KeyError, TypeError, ValueError, ArithmeticError, RecursionError)


def _error_text(error: BaseException) -> str:
    """The reason of an error, briefly and without a quote of the line."""
    if isinstance(error, KeyError):
        return f"it has no {error.args[0]}"
    return str(error)[:100] if isinstance(error, ValueError) else "a member has the wrong type"


def _integer(value: Any) -> int:
    """Check the range before the conversion, which could use up all memory."""
    if not isinstance(value, Decimal) or not abs(value) < 1 << 63 or value != value.to_integral_value():
        raise ValueError("a number is not a 64-bit integer")
    return int(value)


def _time(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str, length: int | None = None) -> bytes:
    data = base64.b64decode(text, validate=True)
    if length is not None and len(data) != length:
        raise ValueError(f"there are {len(data)} bytes instead of {length}")
    return data
