"""The test vectors of the log's bytes, for other verifiers.

`python -m tests.changelog.transparency.vectors` writes tests/changelog/transparency/vectors.json. Its salts and keys
are made up; docs/log-format.md explains the fields.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from keyrack.changelog.record_format import FIRST, PARTS, Part, Record, canonical, digest, encode, hash_of, loads
from keyrack.changelog.transparency.export_format import ExportedChange, Head
from keyrack.changelog.transparency.export_verifier import name_of
from keyrack.changelog.transparency.merkle_proofs import consistency, inclusion
from keyrack.changelog.transparency.merkle_tree import Tree, leaf_hash
from keyrack.changelog.transparency.signed_notes import COSIGNATURE, Checkpoint, NoteSigner, signed

FILE = Path(__file__).parent / "vectors.json"
CUSTOMER, EPOCH = 3, UUID("0d5e8c1a-5b1f-4c8e-9a54-2f7d6c3b1a00")
BEGIN = datetime(2026, 11, 23, 14, 5, 6, 7, UTC)
ORIGIN = f"keyrack.example.com/{name_of(CUSTOMER, EPOCH)}"
LOG = NoteSigner.make(ORIGIN, seed=hashlib.sha256(b"the key of the vectors' log").digest())
TIME = NoteSigner.make("keyrack.example.com/time", COSIGNATURE, seed=hashlib.sha256(b"the key of their time").digest())

ANNA = {"type": "manager", "id": "7", "name": "anna", "address": "192.0.2.7", "requestId": "f00d"}
WORKER = {"type": "system", "id": "worker", "operationId": "12", "onBehalfOf": {"type": "manager", "id": "7"}}
# Kind, resource id, groups, actor, content, personal members
TOLD: list[tuple[str, str, list[int], Any, Any, Any]] = [
    ("car.created", "17", [], ANNA, {"before": None, "after": {"name": "Kombi", "odometer": 1234.5}}, None),
    ("user.updated", "21", [4, 9], ANNA, {"before": {"type": "Normal"}, "after": {"type": "Anonymous"}},
     {"before": {"emailAddress": "zoë@example.com"}, "after": {"emailAddress": "\U0001f511\n@example.com"}}),
    ("assignment.created", "3", [4], WORKER,
     {"before": None, "after": {"userId": 21, "carId": 17, "until": None, "boxIds": [5, 6]}}, None),
    ("user.updated", "21", [9], ANNA, None, {"before": {"lastName": "Äpfel"}, "after": {"lastName": ""}}),
    ("car.deleted", "17", [], ANNA, {"before": {"name": "Kombi", "odometer": 1e22}, "after": None}, None),
]  # fmt: skip
VALUES = [
    "null", "[]", '{"b": 1, "a": [true, false, {"Z": "", "z": null}]}', '{"\\uffff": 2, "\\ud83d\\udd11": 1}',
    "1.10", "1E+3", "-0.0", "1e-7", "12345678901234567890.123456789", '"\\u00e9\\"\\\\\\/\\b\\n\\u001f\\u007f\\u2028"',
]  # fmt: skip


def salt(number: int, part: Part) -> bytes:
    return hashlib.sha256(f"salt of {part} of change {number}".encode()).digest()


def log() -> list[ExportedChange]:
    """Five changes of a customer."""
    changes, previous = list[ExportedChange](), FIRST
    for number, (kind, id, groups, *values) in enumerate(TOLD, start=1):
        at, recorded_at = BEGIN + timedelta(seconds=number), BEGIN + timedelta(seconds=number, milliseconds=40)
        parts: dict[Part, Any] = dict(zip(PARTS, values, strict=True))
        salts: dict[Part, Any] = {part: salt(number, part) if parts[part] else None for part in PARTS}
        digests = {part: digest(part, salts[part], parts[part]) if parts[part] else None for part in PARTS}
        resource = kind.partition(".")[0]
        record = encode(
            Record(CUSTOMER, EPOCH, number, at, recorded_at, kind, resource, id, groups, previous, **digests)
        )
        changes.append(ExportedChange(number, at, recorded_at, kind, resource, id, groups, parts, salts, record))
        previous = hash_of(record)
    return changes


def erased(change: ExportedChange, *parts: Part) -> ExportedChange:
    """The change without these parts and their salts."""
    gone: dict[Part, None] = dict.fromkeys(parts)
    return replace(change, parts={**change.parts, **gone}, salts={**change.salts, **gone})


def tree(changes: Sequence[ExportedChange]) -> Tree:
    return Tree.of(leaf_hash(change.record) for change in changes)


def head(all_: Sequence[ExportedChange], behind: int = 0) -> Head:
    """The head of an export of the changes after number `behind`."""
    before = all_[:behind]
    last = hash_of(before[-1].record) if before else FIRST
    return Head(CUSTOMER, EPOCH, behind, len(all_), last, tree(before))


def checkpoint(changes: Sequence[ExportedChange]) -> bytes:
    text = str(Checkpoint(ORIGIN, len(changes), tree(changes).root))
    return bytes(signed(text, LOG, TIME, at=int(BEGIN.timestamp()) + 60))


def told(name: str, changes: Sequence[ExportedChange], behind: int = 0) -> dict[str, Any]:
    shown, whole = changes[behind:], tree(changes)
    return {
        "name": name,
        "export": [str(head(changes, behind)), *map(str, shown)],
        "records": [change.record.hex() for change in shown],
        "hashes": [hash_of(change.record).hex() for change in shown],
        "leaves": [leaf_hash(change.record).hex() for change in shown],
        "tree": whole.stored.hex(),
        "root": whole.root.hex(),
        "checkpoint": checkpoint(changes).decode(),
    }


def vectors() -> dict[str, Any]:
    changes = log()
    leaves = [leaf_hash(change.record) for change in changes]
    person, salted = canonical(changes[1].parts["person"]), salt(2, "person")
    return {
        "keys": {"log": str(LOG.key), "time": str(TIME.key)},
        "values": [{"json": text, "canonical": canonical(loads(text)).decode()} for text in VALUES],
        "digest": {
            "part": "person",
            "salt": salted.hex(),
            "canonical": person.decode(),
            "digest": digest("person", salted, loads(person)).hex(),
        },
        "logs": [
            told("empty", []),
            told("five changes", changes),
            told("five changes, the second of them erased", [changes[0], erased(changes[1], *PARTS), *changes[2:]]),
            told("five changes, of which the first two were dropped", changes, behind=2),
        ],
        "inclusion": {"index": 1, "size": 5, "proof": [one.hex() for one in inclusion(leaves, 1)]},
        "consistency": {"first": 3, "size": 5, "proof": [one.hex() for one in consistency(leaves, 3)]},
    }


def text() -> str:
    return json.dumps(vectors(), indent=2, ensure_ascii=True) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
