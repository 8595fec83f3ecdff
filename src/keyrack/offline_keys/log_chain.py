"""The hash chain of a box's log: missing numbers and broken links.

An entry names the one before by SHA-256, its signature included. Entries here have a low s, as `cose.read_entry`
returns them. Builds before 0.3 stored some with a high s, although the box may have the low form.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from keyrack.db.connection import Row
from keyrack.offline_keys import cose
from keyrack.offline_keys.cose import SignedMessage
from keyrack.offline_keys.message_fields import ENTRY

Report = tuple[str, int, bytes]  # kind, number, SHA-256 of the entry

ZEROS = bytes(32)  # `previous` of the first entry


def hash_of(entry: bytes) -> bytes:
    """The hash by which the next entry names this one."""
    return hashlib.sha256(entry).digest()


def _follows(previous: bytes, before: bytes) -> bool:
    """Whether `previous` is the SHA-256 of the stored entry `before`.

    The form of the entry with a low s counts as well.
    """
    signature = len(before) - cose.SIGNATURE
    low = before[:signature] + cose.with_low_s(before[signature:])
    return previous in (hash_of(before), hash_of(low))


@dataclass(slots=True)
class Walk:
    """A walk along a box's log, with its gaps and faults."""

    up_to: int
    given_up: int
    held_from: int  # missing numbers below it stay missing
    last: bytes | None  # the entry `up_to`; None if it is missing or there is none yet
    entries: list[SignedMessage] = field(default_factory=list[SignedMessage])
    reports: list[Report] = field(default_factory=list[Report])
    gaps: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])  # first and last number without an entry

    @property
    def hash(self) -> bytes | None:
        """The hash that the next entry must name; None if unknown."""
        if self.last is not None:
            return hash_of(self.last)
        return None if self.up_to else ZEROS

    def go(self, rows: Iterable[Row]) -> bool:
        """Walk along these entries. Returns False at a gap that may be filled."""
        for row in rows:
            missing = row["number"] - self.up_to - 1
            if missing and row["number"] > self.held_from:
                self._give_up(min(self.held_from, row["number"]) - 1)
                if row["number"] != self.up_to + 1:
                    return False
            elif missing:
                self._give_up(row["number"] - 1)
            self._take(row)
        return True

    def _give_up(self, up_to: int) -> None:
        if up_to > self.up_to:
            self.reports.append(("GivenUp", up_to, b""))
            self.gaps.append((self.up_to + 1, up_to))
            self.given_up, self.up_to, self.last = self.given_up + up_to - self.up_to, up_to, None

    def _take(self, row: Row) -> None:
        entry = cose.read(row["entry"], ENTRY)
        previous = entry.claims["previous"]
        if self.hash not in (None, previous) and (self.last is None or not _follows(previous, self.last)):
            self.reports.append(("Break", row["number"], row["hash"]))
        self.entries.append(entry)
        self.up_to, self.last = row["number"], row["entry"]


@dataclass(frozen=True, slots=True)
class LateEntries:
    """Entries whose numbers were given up before they arrived."""

    entries: list[SignedMessage] = field(default_factory=list[SignedMessage])
    reports: list[Report] = field(default_factory=list[Report])

    @property
    def numbers(self) -> list[int]:
        return [entry.claims["number"] for entry in self.entries]


def late_entries(rows: Sequence[Row], up_to: int) -> LateEntries:
    """The late ones among these stored entries, and reports about them.

    The rows are in order, and include the neighbours of late entries. Each seam between two of them up to `up_to` is
    checked; the walk checks later ones. One report covers a run of consecutive numbers.
    """
    stored: dict[int, bytes] = {row["number"]: row["entry"] for row in rows}
    numbers = [row["number"] for row in rows if row["is_late"]]
    result = LateEntries([cose.read(stored[number], ENTRY) for number in numbers])
    for number in sorted({*numbers, *(number + 1 for number in numbers)} & stored.keys()):
        if number <= up_to:
            _check_seam(stored, number, result)
    for number in numbers:
        if number + 1 not in numbers:
            result.reports.append(("Late", number, hash_of(stored[number])))
    return result


def _check_seam(stored: dict[int, bytes], number: int, result: LateEntries) -> None:
    """Check that an entry names the one before it."""
    previous: bytes = cose.read(stored[number], ENTRY).claims["previous"]
    before = stored.get(number - 1)
    is_fitting = _follows(previous, before) if before is not None else number > 1 or previous == ZEROS
    if not is_fitting:
        result.reports.append(("Break", number, hash_of(stored[number])))
