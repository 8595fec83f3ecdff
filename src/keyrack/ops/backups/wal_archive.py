"""The WAL archive: the segments along a timeline and its ancestors, and their integrity.

A restore starts a new timeline at the point where it left the old one; `00000002.history` has that point. So the path
to a time can lead through segments of several timelines.
"""

from __future__ import annotations

import gzip
import re
import shutil
import struct
import tempfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, cast

from keyrack.db.embedded.binaries import Binaries, OsAccount
from keyrack.ops.backups.repository import Backup, BackupError, segment_name

SEGMENT = re.compile(r"[0-9A-F]{24}")
HISTORY = re.compile(r"([0-9A-F]{8})\.history\.gz")
BRANCH = re.compile(r"^\s*(\d+)\s+([0-9A-F]+)/([0-9A-F]+)", re.MULTILINE)
ENDED = re.compile(r"(?:COMMIT|ABORT)(?:_PREPARED)? (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?) UTC")
# First page of a segment: magic, flags, timeline, position, rest of a record, padding, system, segment size
HEAD = struct.Struct("=HHIQI4xQI")
LONG = 2  # the flag for a long page header
NO_END = 1 << 63
DAMAGED = (OSError, EOFError, zlib.error)  # errors of reading a compressed file


@dataclass(frozen=True, slots=True)
class SegmentRange:
    """A part of a path: the segments of one timeline from number `first` to `last`."""

    timeline: int
    first: int
    last: int


class WalPath:
    """The WAL along a timeline and its ancestors, in the archive and optionally in another directory.

    Raises `BackupError` for an unknown timeline.
    """

    def __init__(self, wal: Path, size: int, timeline: int, other: Path | None = None) -> None:
        self.size = size
        self.timeline = timeline
        self._branches = branches(wal, timeline)
        self._stretches: list[SegmentRange] = []
        first = 0
        for parent, position in self._branches:
            self._stretches.append(SegmentRange(parent, first, position // size))
            first = position // size
        self._stretches.append(SegmentRange(timeline, first, NO_END))
        self._there = {path.name: path for path in _files(other) if self._is_written(path)} if other else {}
        self._there |= {path.name.removesuffix(".gz"): path for path in _files(wal)}

    def leads_from(self, backup: Backup) -> bool:
        """Whether the backup belongs to this history."""
        if backup.timeline == self.timeline:
            return True
        left = dict(self._branches).get(backup.timeline)
        return left is not None and backup.stop <= left

    def segment(self, number: int) -> Path | None:
        """The file that PostgreSQL would use for this number: that of the newest timeline with the segment."""
        for stretch in reversed(self._stretches):
            if stretch.first <= number <= stretch.last:
                path = self._there.get(segment_name(stretch.timeline, number, self.size))
                if path is not None:
                    return path
        return None

    def last(self) -> int:
        """The highest existing number; -1 if there are no segments."""
        ours = {stretch.timeline: stretch for stretch in self._stretches}
        numbers = [-1]
        for name in self._there:
            if (stretch := ours.get(int(name[:8], 16))) is not None:
                number = number_of(name, self.size)
                if stretch.first <= number <= stretch.last:
                    numbers.append(number)
        return max(numbers)

    def missing(self, first: int) -> int | None:
        """The first missing number between `first` and the last one; None if all exist."""
        last = self.last()
        return next((number for number in range(first, max(last, first) + 1) if self.segment(number) is None), None)

    def name(self, number: int) -> str:
        """The name of the segment with this number."""
        timeline = next(s.timeline for s in reversed(self._stretches) if s.first <= number <= s.last)
        return segment_name(timeline, number, self.size)

    def fault(self, number: int, system: str) -> str | None:
        """The fault of the segment with this number; None if it is complete and has the right name."""
        path = self.segment(number)
        if path is None:
            return f"{self.name(number)} is missing"
        try:
            with _opened(path) as stream:
                head = stream.read(HEAD.size)
                length = len(head)
                while piece := stream.read(1 << 20):
                    length += len(piece)
        except DAMAGED as error:
            return f"{path.name} is damaged: {error}"
        if length != self.size:
            return f"{path.name} has {length} bytes instead of {self.size}"
        _, flags, _, position, _, owner, _ = HEAD.unpack(head)
        if not flags & LONG or position != number * self.size or str(owner) != system:
            return f"{path.name} contains another segment than its name says"
        return None

    def ended(self, first: int, last: int, binaries: Binaries) -> datetime | None:
        """The end of the last transaction in these segments, ignoring damaged ones; None without a transaction."""
        with tempfile.TemporaryDirectory(prefix="keyrack-wal-") as scratch:
            for number in range(last, first - 1, -1):
                path = self.segment(number)
                if path is None:
                    continue
                plain = Path(scratch) / path.name.removesuffix(".gz")
                try:
                    with _opened(path) as packed, plain.open("wb") as out:
                        shutil.copyfileobj(packed, out)
                except DAMAGED:
                    continue
                # pg_waldump ends with an error at the segment's end; its output until then is valid
                said = OsAccount.ourselves().run([binaries.directory / "pg_waldump", "-r", "Transaction", plain])
                plain.unlink()
                if times := ENDED.findall(said.stdout):
                    return max(datetime.fromisoformat(time).replace(tzinfo=UTC) for time in times)
        return None

    def _is_written(self, path: Path) -> bool:
        """Whether the contents of a file in pg_wal match its name: PostgreSQL renames old files in advance."""
        with path.open("rb") as stream:
            head = stream.read(HEAD.size)
        return len(head) == HEAD.size and HEAD.unpack(head)[3] == number_of(path.name, self.size) * self.size

    def archived(self, number: int) -> datetime | None:
        """The time at which the segment with this number was archived."""
        path = self.segment(number)
        return None if path is None else datetime.fromtimestamp(path.stat().st_mtime, UTC)


def newest_timeline(wal: Path, backups: Sequence[Backup]) -> int:
    """The newest known timeline, including those of failed restores."""
    begun = [int(match[1], 16) for path in _all(wal) if (match := HISTORY.fullmatch(path.name))]
    seen = [int(path.name[:8], 16) for path in _files(wal)]
    return max([*begun, *seen, *(backup.timeline for backup in backups)], default=1)


def newest(wal: Path) -> tuple[str, datetime] | None:
    """The last archived segment and its time; None if the archive is empty."""
    file = max(((path.stat().st_mtime, path.name) for path in _files(wal)), default=None)
    return None if file is None else (file[1].removesuffix(".gz"), datetime.fromtimestamp(file[0], UTC))


def branches(wal: Path, timeline: int) -> list[tuple[int, int]]:
    """The ancestors of this timeline, each with the position at which it was left. Raises `BackupError`."""
    if timeline == 1:
        return []
    path = wal / f"{timeline:08X}.history.gz"
    try:
        text = gzip.decompress(path.read_bytes()).decode()
    except (*DAMAGED, UnicodeDecodeError):
        raise BackupError(f"{path}, which has the start of timeline {timeline}, is missing or damaged.") from None
    return [(int(parent), (int(high, 16) << 32) + int(low, 16)) for parent, high, low in BRANCH.findall(text)]


def number_of(name: str, size: int) -> int:
    """The number in a segment's name, independent of the timeline."""
    return int(name[8:16], 16) * (0x100000000 // size) + int(name[16:24], 16)


def position(text: str) -> int:
    """The bytes of a WAL position in PostgreSQL's notation, such as 16/B374D848."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)


def _opened(path: Path) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _files(place: Path) -> list[Path]:
    return [path for path in _all(place) if SEGMENT.fullmatch(path.name.removesuffix(".gz"))]


def _all(place: Path) -> list[Path]:
    try:
        return list(place.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise BackupError(f"{place} cannot be read: {error.strerror}.") from None
