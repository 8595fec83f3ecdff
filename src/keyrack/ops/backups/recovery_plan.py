"""In charge of the way to a moment: from which full backup, along which timeline; and which moments can be reached."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from keyrack.ops.backups.repository import Backup, BackupContext, BackupError
from keyrack.ops.backups.wal_archive import WalPath, newest_timeline


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be restored: a full backup, then the log along a timeline, up to a time or to its end."""

    backup: Backup
    timeline: int
    to: datetime | None
    segments: int


def plan(house: BackupContext, name: str | None, to: datetime | None, timeline: int | None, other: Path | None) -> Plan:
    """What leads to that time, or to the end of the log. Raises `BackupError`, which says what can be reached."""
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
                f"The backup {name} is of timeline {named.timeline}, which timeline {wanted} does not come from: a "
                f"restore has left that history before. To follow it nevertheless: --timeline {named.timeline}."
            )
        usable = [named]
    if not usable:
        raise BackupError(f"There is no backup from which timeline {wanted} can be reached. {_reaches(house)}")
    early_enough = [backup for backup in usable if to is None or backup.finished <= to]
    if not early_enough:
        raise BackupError(f"{format_time(to)} lies before the first moment that can be reached. {_reaches(house)}")
    backup = early_enough[-1]
    if backup.major != house.binaries.major:
        raise BackupError(
            f"The backup {backup.name} was made by PostgreSQL {backup.version}, but the programs here are PostgreSQL "
            f"{house.binaries.version}. Nothing was changed. Set KEYRACK_POSTGRES_BIN to the directory of those of "
            f"PostgreSQL {backup.major}; afterwards the data can be moved (docs/upgrading-postgresql.md)."
        )
    first, last = backup.start // size, max(way.last(), backup.stop // size)
    missing = way.missing(first)
    if missing is not None and missing <= backup.stop // size:  # the backup itself has these
        missing = next((n for n in range(backup.stop // size + 1, last + 1) if way.segment(n) is None), None)
    end = last if missing is None else missing - 1
    ended = way.ended(first, end, house.binaries) or backup.finished
    if missing is not None and (to is None or to > ended):
        raise BackupError(
            f"The archived log has a gap: {way.name(missing)} is missing. From the backup {backup.name} it leads up to "
            f"{format_time(ended)}, and no further: name a time up to that (--to), or a "
            "backup that was made after the gap."
        )
    if to is not None and to > ended:
        archived = way.archived(end)
        if archived is None or to > archived:
            raise BackupError(f"{format_time(to)} lies after the last moment that can be reached. {_reaches(house)}")
        to = None  # nothing was written between the last transaction and that time
    return Plan(backup, wanted, to, end - first + 1)


def covers_time(house: BackupContext) -> list[dict[str, object]]:
    """Which times can be reached, by timeline: from its first full backup to the last archived transaction."""
    backups = house.shelf.backups()
    periods: list[dict[str, object]] = []
    for timeline in range(1, newest_timeline(house.shelf.wal, backups) + 1) if backups else ():
        with suppress(BackupError):  # a timeline whose beginning is not known any more
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
    """Which times can be reached, in words."""
    texts = [
        f"{format_time(row['from'])} to {format_time(row['to'])} (timeline {row['timeline']})"
        for row in covers_time(house)
    ]
    return f"Within reach: {'; '.join(texts)}." if texts else "Nothing is within reach."


def format_time(moment: object) -> str:
    """A time, as an option takes it again."""
    assert isinstance(moment, datetime)  # noqa: S101 - it was compared with one
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
