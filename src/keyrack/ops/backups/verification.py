"""Verification of backups: each file of the full backups, each WAL segment, and the order of segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from keyrack.db.embedded import wal_archiving
from keyrack.ops.backups.base_backup import verify_base
from keyrack.ops.backups.repository import Backup, BackupContext, BackupError, ReportProgress
from keyrack.ops.backups.wal_archive import WalPath


@dataclass(frozen=True, slots=True)
class VerifiedBackups:
    """Verified backups, and the WAL from the oldest of them on."""

    backups: Sequence[Backup]
    timeline: int
    first: str  # segment
    last: str
    segments: int


def verify(house: BackupContext, name: str | None, until: str | None, report: ReportProgress) -> VerifiedBackups:
    """Verify all backups, or one, and the WAL after them, at least up to the segment `until`.

    Raises `BackupError` with the first fault.
    """
    shelf = house.shelf
    with shelf.held():
        backups = shelf.backups() if name is None else [shelf.one(name)]
        if not backups:
            shelf.newest()
        for backup in backups:
            verify_base(house, backup.name, report)
            shelf.mark_verified(backup)
        timeline = shelf.timeline()
        way = WalPath(shelf.wal, backups[-1].segment_size, timeline)
        of_it = [backup for backup in backups if way.leads_from(backup)]
        if not of_it:  # all are of a timeline that a restore has left
            timeline = backups[-1].timeline
            way = WalPath(shelf.wal, backups[-1].segment_size, timeline)
            of_it, until = [backup for backup in backups if way.leads_from(backup)], None
        first = min(backup.start // backup.segment_size for backup in of_it)
        last = max(way.last(), first)
        if until is not None and way.name(last) < until:
            raise BackupError(f"The archive ends with {way.name(last)}, but the WAL of the database with {until}.")
        _check_segments(house, way, first, last, report)
        return VerifiedBackups(backups, timeline, way.name(first), way.name(last), last - first + 1)


def _check_segments(house: BackupContext, way: WalPath, first: int, last: int, report: ReportProgress) -> None:
    system = wal_archiving.owner(house.shelf.directory) or ""
    for number in range(first, last + 1):
        report(f"verifying WAL: {number - first} of {last - first + 1} segments")
        if (fault := way.fault(number, system)) is not None:
            raise BackupError(
                f"The WAL archive has a fault: {fault}. Earlier backups reach only that point. Create a backup that "
                "does not need it: keyrack backup create"
            )
