"""Comparison of both sides after an import: every row of the source, read again, with its imported row."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from keyrack.db.connection import Database
from keyrack.ops.transfer import id_map
from keyrack.ops.transfer.api_source import API_RECORD_TYPES, ApiSource, Json
from keyrack.ops.transfer.import_api import KEEPS_POSITIONS, Progress
from keyrack.ops.transfer.record_types import ASSIGNMENTS, BY_NAME, EVENTS, USERS, RecordType
from keyrack.ops.transfer.row_writer import texts_in_nfc

SHOWN = 20  # listed differences of a kind
# Members that are not compared: an existing person stays unchanged, and no server provides the others
LEFT_OUT = {USERS.name: {"firstName", "lastName", "type", "createdAt"}, EVENTS.name: {"clientId", "localTime"}}
PIECE = 1_000


@dataclass(slots=True)
class RowComparison:
    """One kind of row: counts of source rows, imported rows and differences."""

    kind: str
    source: int = 0
    here: int = 0
    different: int = 0
    messages: list[str] = field(default_factory=list[str])

    @property
    def agrees(self) -> bool:
        return self.source == self.here and not self.different

    def report(self, text: str) -> None:
        if len(self.messages) < SHOWN:
            self.messages.append(f"{self.kind}: {text}")


async def compare(db: Database, source: ApiSource, customer: int, progress: Progress) -> list[RowComparison]:
    """Read all rows again and compare them. Raises `ApiError`."""
    places = bool(await db.fetchval(KEEPS_POSITIONS, customer))
    comparisons: list[RowComparison] = []
    for kind in API_RECORD_TYPES:
        compared = RowComparison(kind.name)
        async for page in source.pages(kind):
            for first in range(0, len(page), PIECE):
                await _compare(db, customer, kind, page[first : first + PIECE], compared, places)
            progress(kind.name, compared.source)
        comparisons.append(compared)
    return comparisons


async def _compare(
    db: Database, customer: int, kind: RecordType, rows: Sequence[Json], compared: RowComparison, places: bool
) -> None:
    compared.source += len(rows)
    left_out = LEFT_OUT.get(kind.name, set[str]())
    if not places:
        left_out = left_out | {"latitude", "longitude"}
    own = {"id": kind.name} if "id" in kind.members else {}
    expected = [texts_in_nfc(row) for row in rows]
    for member, name in {**own, **(kind.references or {})}.items():
        new = await id_map.known(db, customer, BY_NAME[name], (row[member] for row in expected))
        for row in expected:
            row[member] = new.get(row[member]) if row[member] else row[member]
    keys = [row[kind.key] for row in expected if row[kind.key] is not None]
    there = [json.loads(row[0]) for row in await db.fetch(kind.select_by_key, customer, keys)]
    by_key: dict[Any, list[Json]] = {}
    for row in there:
        if kind is ASSIGNMENTS and row["renewableAfter"] is None:
            row["renewableAfter"] = row["lifetime"] // 2
        by_key.setdefault(row[kind.key], []).append(row)
    for row, wanted in zip(rows, expected, strict=True):
        candidates = by_key.get(wanted[kind.key], [])
        wrong = [_differing(wanted, candidate, left_out) for candidate in candidates]
        if not wrong or ("id" not in kind.members and all(wrong)):
            compared.report(f"{_named(kind, row)} is missing here")
            continue
        compared.here += 1
        if members := min(wrong, key=len):
            compared.different += 1
            compared.report(f"{_named(kind, row)} differs in {', '.join(members)}")


def _named(kind: RecordType, row: Json) -> str:
    return " ".join(f"{name} {row[name]}" for name in (["id"] if "id" in kind.members else kind.references or ()))


def _differing(wanted: Json, candidate: Json, left_out: set[str]) -> list[str]:
    return [
        name for name, value in wanted.items() if name not in left_out and _plain(value) != _plain(candidate.get(name))
    ]


def _plain(value: object) -> object:
    """A value for comparison: texts of the same time are equal."""
    if isinstance(value, str) and len(value) > len("2026-01-01T") and value[4:5] == "-" and value[10:11] == "T":
        try:
            at = datetime.fromisoformat(value)
        except ValueError:
            return value
        return at if at.tzinfo else value
    return value
