"""The plan of a restore: the full backup and the timeline that reach a time, and all reachable times."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from keyrack.ops.backups.repository import Backup, BackupContext, BackupError
from keyrack.ops.backups.wal_archive import WalPath, newest_timeline


@dataclass(frozen=True, slots=True)
class Plan:
    """A restore: a full backup, then the WAL along a timeline, up to a time or to its end."""

    backup: Backup
    timeline: int
    to: datetime | None
    segments: int


def plan(house: BackupContext, name: str | None, to: datetime | None, timeline: int | None, other: Path | None) -> Plan:
    """The plan to restore up to that time, or to the end of the WAL. Raises `BackupError` with the reachable times."""
    shelf = house.shelf
    backups = shelf.backups()
    shelf.newest()
    wanted = timeline or shelf.timeline()
    size = backups[-1].segment_size
    way = WalPath(shelf.wal, size, wanted, other)
    usable = [backup for backup in backups if way.leads_from(backup)]
    if name is not None:
        named = shelf.one(name)
        if named not in usable:
            raise BackupError(
                f"The backup {name} of timeline {named.timeline} is not in the history of timeline {wanted}, because a "
                f"restore started another timeline. To restore from the backup, add --timeline {named.timeline}."
            )
        usable = [named]
    if not usable:
        raise BackupError(f"No backup reaches timeline {wanted}. {_reaches(house)}")
    early_enough = [backup for backup in usable if to is None or backup.finished <= to]
    if not early_enough:
        raise BackupError(f"{format_time(to)} is before the first recoverable time. {_reaches(house)}")
    backup = early_enough[-1]
    if backup.major != house.binaries.major:
        raise BackupError(
            f"The backup {backup.name} was made by PostgreSQL {backup.version}, but the installed programs are "
            f"PostgreSQL {house.binaries.version}. Nothing was changed. Set KEYRACK_POSTGRES_BIN to the programs "
            f"of PostgreSQL {backup.major}; upgrade the data later (docs/upgrading-postgresql.md)."
        )
    first, last = backup.start // size, max(way.last(), backup.stop // size)
    missing = way.missing(first)
    if missing is not None and missing <= backup.stop // size:  # the backup itself contains these segments
        missing = next((n for n in range(backup.stop // size + 1, last + 1) if way.segment(n) is None), None)
    end = last if missing is None else missing - 1
    ended = way.ended(first, end, house.binaries) or backup.finished
    if missing is not None and (to is None or to > ended):
        raise BackupError(
            f"The WAL archive has a gap: {way.name(missing)} is missing. The backup {backup.name} reaches "
            f"{format_time(ended)} at most. Choose an earlier time with --to, or a "
            "backup from after the gap."
        )
    if to is not None and to > ended:
        archived = way.archived(end)
        if archived is None or to > archived:
            raise BackupError(f"{format_time(to)} is after the last recoverable time. {_reaches(house)}")
        to = None  # no transaction ended between the last one and that time
    return Plan(backup, wanted, to, end - first + 1)


def covers_time(house: BackupContext) -> list[dict[str, object]]:
    """The recoverable times by timeline: from its first full backup to the last archived transaction."""
    backups = house.shelf.backups()
    periods: list[dict[str, object]] = []
    for timeline in range(1, newest_timeline(house.shelf.wal, backups) + 1) if backups else ():
        with suppress(BackupError):  # the start of this timeline is no longer known
            size = backups[-1].segment_size
            way = WalPath(house.shelf.wal, size, timeline)
            usable = [backup for backup in backups if way.leads_from(backup)]
            if usable:
                first, last = usable[-1].start // size, way.last()
                missing = way.missing(first)
                ended = way.ended(first, last if missing is None else missing - 1, house.binaries)
                end = max(ended or usable[-1].finished, usable[-1].finished)
                periods.append({"timeline": timeline, "from": usable[0].finished, "to": end})
    return periods


def _reaches(house: BackupContext) -> str:
    """The recoverable times, as a sentence."""
    texts = [
        f"{format_time(row['from'])} to {format_time(row['to'])} (timeline {row['timeline']})"
        for row in covers_time(house)
    ]
    return f"Recoverable: {'; '.join(texts)}." if texts else "No time is recoverable."


def format_time(moment: object) -> str:
    """A time in the form that options accept."""
    assert isinstance(moment, datetime)  # noqa: S101 - compared with a datetime before
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
