"""Verifies an exported log: each change, the chain of records, and the tree against checkpoints."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import InitVar, dataclass, field
from datetime import datetime

from keyrack.changelog.record_format import PARTS, NotARecord, Part, Record, decode, digest, hash_of
from keyrack.changelog.transparency.export_format import ExportedChange, Head, NotAnExport
from keyrack.changelog.transparency.merkle_tree import Tree, leaf_hash
from keyrack.changelog.transparency.signed_notes import Checkpoint


class Mismatch(Exception):
    """The first number of a log that does not verify, and the reason."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(f"Change {number}: {reason}.")
        self.number = number
        self.reason = reason


class NotComparable(ValueError):
    """A checkpoint that cannot be compared with the export.

    It is of another log or of fewer records than precede the export, or the state before the export is unknown.
    """


@dataclass
class Verification:
    """The state of a verification: from the log's head, change by change, to its `end`.

    It compares the log with checkpoints whose signatures are verified already. Raises `NotComparable`, `Mismatch`.
    """

    head: Head
    checkpoints: InitVar[Collection[Checkpoint]] = ()
    last: int = field(init=False)
    hash: bytes = field(init=False)  # of the last record
    tree: Tree | None = field(init=False)  # of all records; None if the state before the export is unknown
    pending: list[Checkpoint] = field(init=False)  # checkpoints of more records, the next one last
    recorded_at: datetime | None = None  # when the last change was recorded
    erased: int = 0  # changes of which a part is erased with its salt
    proven: int | None = None  # verified against a checkpoint up to this number

    def __post_init__(self, checkpoints: Collection[Checkpoint]) -> None:
        self.last, self.hash, begun = self.head.behind, self.head.hash, self.head.tree
        self.tree = None if begun is None else Tree(begun.size, [*begun.edge])
        self.pending = sorted(checkpoints, key=lambda checkpoint: checkpoint.size, reverse=True)
        for checkpoint in self.pending:
            _comparable(checkpoint, self.head)
        self._compare()

    def take(self, change: ExportedChange) -> None:
        """Verify the next change. Raises `Mismatch`; earlier changes stay verified."""
        due = self.last + 1
        if change.id != due:
            raise Mismatch(due, f"number {change.id} is in its place")
        record = self._record(change)
        self._chained(change.id, record)
        for name, value, recorded in _members(change, record):
            if value != recorded:
                raise Mismatch(change.id, f"its `{name}` differs from its record")
        gone = [_is_erased(change, record, part) for part in PARTS]
        self.erased += any(gone)
        self.last, self.hash, self.recorded_at = change.id, hash_of(change.record), record.recorded_at
        if self.tree is not None:
            self.tree.append(leaf_hash(change.record))
        self._compare()

    def end(self) -> None:
        """Finish the verification. Raises `Mismatch` if a change is missing."""
        if self.last != self.head.last:
            raise Mismatch(self.last + 1, f"it is missing: the log must end with {self.head.last}")
        if self.pending:
            raise Mismatch(self.last + 1, f"it is missing: there is a checkpoint of {self.pending[-1].size} records")

    def _compare(self) -> None:
        """Compare the tree with the checkpoints of its current size."""
        while self.pending and self.tree is not None and self.pending[-1].size == self.tree.size:
            checkpoint = self.pending.pop()
            if checkpoint.root != self.tree.root:
                first = 1 + (self.head.behind if self.proven is None else self.proven)
                reason = (
                    f"it, or one up to {self.last}, is not what it was at the checkpoint of {checkpoint.size} records"
                )
                raise Mismatch(first, reason)
            self.proven = self.last

    def _record(self, change: ExportedChange) -> Record:
        try:
            return decode(change.record)
        except NotARecord as error:
            raise Mismatch(change.id, f"its record is invalid: {error}") from None

    def _chained(self, number: int, record: Record) -> None:
        if (record.customer, record.epoch) != (self.head.customer, self.head.epoch):
            raise Mismatch(number, f"its record is of customer {record.customer}'s log, epoch {record.epoch}")
        if record.number != number:
            raise Mismatch(number, f"its record is that of number {record.number}")
        if record.previous != self.hash:
            raise Mismatch(number, f"its record does not contain the hash of the record of number {self.last}")
        if self.recorded_at is not None and record.recorded_at < self.recorded_at:
            raise Mismatch(number, "it was recorded before the one before it")


def verify(lines: Iterator[bytes], checkpoints: Collection[Checkpoint]) -> Verification:
    """Verify an export line by line. Raises as `Verification` does, or `NotAnExport` for an invalid line."""
    verification = Verification(Head.read(next(lines, b"")), checkpoints)
    for number, line in enumerate(lines, start=2):
        try:
            change = ExportedChange.read(line)
        except NotAnExport as error:
            raise NotAnExport(f"line {number}: {error}") from None
        verification.take(change)
    verification.end()
    return verification


def _comparable(checkpoint: Checkpoint, head: Head) -> None:
    name = name_of(head.customer, head.epoch)
    if not checkpoint.origin.endswith(f"/{name}"):
        raise NotComparable(f"the checkpoint is of the log {checkpoint.origin}, but the export is of {name}")
    if head.tree is None:
        raise NotComparable(f"no checkpoint can be compared: the log before change {head.behind + 1} is unknown")
    if checkpoint.size < head.tree.size:
        raise NotComparable(
            f"the checkpoint is of {checkpoint.size} records, but the export begins after {head.tree.size}"
        )


def name_of(customer: int, epoch: object) -> str:
    """The end of the origin of a log's checkpoints, after the server's name and a slash."""
    return f"changes/{customer}/{epoch}"


def _members(change: ExportedChange, record: Record) -> list[tuple[str, object, object]]:
    """The members that a change has both outside and inside its record: name, value, recorded value."""
    return [
        ("time", change.at, record.at),
        ("recordedTime", change.recorded_at, record.recorded_at),
        ("kind", change.kind, record.kind),
        ("resource", change.resource, record.resource),
        ("resourceId", change.resource_id, record.resource_id),
        ("groups", [*change.groups], [*record.groups]),
    ]


def _is_erased(change: ExportedChange, record: Record, part: Part) -> bool:
    """Whether a part is erased; otherwise it must match its digest. Raises `Mismatch`."""
    value, salt = change.parts[part], change.salts[part]
    recorded: bytes | None = getattr(record, part)
    if recorded is None:
        if value is not None or salt is not None:
            raise Mismatch(change.id, f"it has a part `{part}`, but its record has no digest of one")
        return False
    if salt is None:
        if value is not None:
            raise Mismatch(change.id, f"its part `{part}` has no salt, so it cannot be verified")
        return True
    try:
        fits = digest(part, salt, value) == recorded
    except (ValueError, RecursionError):  # a value that no log has
        fits = False
    if not fits:
        raise Mismatch(change.id, f"its part `{part}` does not match the digest in its record")
    return False
