"""The backup directory: its full backups, its lock, and the deletion of old backups.

`base/NAME` is a full backup in PostgreSQL's format, and `base/NAME.json` describes it. A backup without that file is
incomplete, and is deleted. `wal/` is the WAL archive, `cluster` has the system identifier of the database, and
`timeline` the timeline that the last restore started.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from keyrack.core.atomic_files import sync
from keyrack.core.settings import Settings
from keyrack.db.embedded import wal_archiving
from keyrack.db.embedded.binaries import Binaries, OsAccount, find_binaries
from keyrack.db.embedded.layout import Layout

ReportProgress = Callable[[str], None]  # gets a line about the progress

NAME = re.compile(r"\d{8}T\d{6}Z(-\d+)?")
FORM = "%Y%m%dT%H%M%SZ"


class BackupError(Exception):
    """A backup or restore failed; the text has the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class Backup:
    """A full backup. WAL positions are in bytes, and `segment_size` is the bytes of a segment."""

    name: str
    started: datetime
    finished: datetime  # the earliest time that it can restore
    verified: datetime  # the last successful verification
    bytes: int
    timeline: int
    start: int  # the first WAL position that it needs
    stop: int
    segment_size: int
    version: str  # of PostgreSQL
    keyrack: str
    revision: str | None  # of the schema

    @property
    def major(self) -> int:
        return int(re.split(r"\D", self.version)[0])


@dataclass(frozen=True, slots=True)
class BackupRepository:
    """The backup directory."""

    directory: Path

    @property
    def wal(self) -> Path:
        return self.directory / "wal"

    @property
    def base(self) -> Path:
        return self.directory / "base"

    def data(self, name: str) -> Path:
        return self.base / name

    def backups(self) -> list[Backup]:
        """The complete backups, oldest first. Raises `BackupError`."""
        try:
            backups = [_read(path) for path in self.base.glob("*.json") if NAME.fullmatch(path.stem)]
            return sorted(backups, key=lambda backup: (backup.started, backup.name))
        except OSError as error:
            raise BackupError(f"The backups in {self.directory} cannot be read: {error.strerror}.") from None

    def one(self, name: str) -> Backup:
        """The backup of this name. Raises `BackupError`."""
        by_name = {backup.name: backup for backup in self.backups()}
        if name not in by_name:
            raise BackupError(
                f"There is no backup {name} in {self.directory}. `keyrack backup list` lists all backups."
            )
        return by_name[name]

    def newest(self) -> Backup:
        """The newest backup. Raises `BackupError` if there is none."""
        if not (backups := self.backups()):
            raise BackupError(f"There is no backup in {self.directory}. Create one with `keyrack backup create`.")
        return backups[-1]

    def timeline(self) -> int:
        """The timeline that the database writes.

        It is that of the last successful restore, or of a later full backup.

        The archive may contain newer timelines of failed restores.
        """
        try:
            begun = int((self.directory / "timeline").read_text())
        except (FileNotFoundError, ValueError):
            begun = 1
        return max([begun, *(backup.timeline for backup in self.backups())])

    def begin(self, timeline: int) -> None:
        """Record after a restore that the database now writes this timeline."""
        fresh = self.directory / "timeline.new"
        fresh.write_text(f"{timeline}\n")
        fresh.replace(self.directory / "timeline")
        sync(self.directory)

    def fresh_name(self, now: datetime) -> str:
        """An unused name; names sort by time."""
        stem = now.astimezone(UTC).strftime(FORM)
        names = (stem, *(f"{stem}-{number}" for number in range(2, 100)))
        return next(name for name in names if not self.data(name).exists())

    def add(self, backup: Backup) -> None:
        """Register the data at its name as a backup, or update its description."""
        path = self.base / f"{backup.name}.json"
        fresh = path.with_suffix(".new")
        with fresh.open("w") as out:
            json.dump(asdict(backup), out, indent=1, default=lambda time: time.isoformat())
            out.flush()
            os.fsync(out.fileno())
        fresh.replace(path)
        sync(self.base)

    def mark_verified(self, backup: Backup) -> None:
        self.add(replace(backup, verified=datetime.now(UTC)))

    def remove(self, name: str) -> None:
        """Delete a backup. Its description goes first, so that a partly deleted backup does not count."""
        (self.base / f"{name}.json").unlink(missing_ok=True)
        sync(self.base)
        shutil.rmtree(self.data(name), ignore_errors=True)

    def tidy(self) -> None:
        """Delete incomplete backups. The caller must have the lock `alone`."""
        whole = {backup.name for backup in self.backups()}
        for path in self.base.iterdir():
            if path.is_dir() and NAME.fullmatch(path.name) and path.name not in whole:
                shutil.rmtree(path, ignore_errors=True)

    def forget(self, keep: int, binaries: Binaries) -> list[str]:
        """Delete all but the newest `keep` backups, and the WAL that only they need. Returns the deleted names.

        PostgreSQL's own program decides which segments are older than the oldest remaining backup.
        """
        backups = self.backups()
        gone, kept = backups[:-keep], backups[-keep:]
        for backup in gone:
            self.remove(backup.name)
        if kept:
            oldest = min(kept, key=lambda backup: backup.start)
            first = segment_name(oldest.timeline, oldest.start // oldest.segment_size, oldest.segment_size)
            said = OsAccount.ourselves().run([binaries.directory / "pg_archivecleanup", "-x", ".gz", self.wal, first])
            if said.returncode:
                raise BackupError(f"Old WAL cannot be deleted: {said.stderr.strip()[-2000:]}")
            for path in self.wal.glob("*.backup.gz"):  # backup history files, which that program keeps
                if path.name[8:24] < first[8:]:
                    path.unlink(missing_ok=True)
        return [backup.name for backup in gone]

    @contextmanager
    def held(self, *, alone: bool = False) -> Generator[None]:
        """Lock the directory against deletions within the block; `alone` locks it exclusively.

        Raises `BackupError` if another command has the lock.
        """
        try:
            descriptor = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise BackupError(f"The backups in {self.directory} cannot be used: {error.strerror}.") from None
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise BackupError(
                f"Another `keyrack backup` command uses {self.directory}. Try again when it has finished."
            ) from None
        finally:
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class BackupContext:
    """The embedded database and its backups: directories, account and PostgreSQL programs."""

    settings: Settings
    layout: Layout
    account: OsAccount
    binaries: Binaries
    shelf: BackupRepository


def backup_context(settings: Settings) -> BackupContext:
    """The backups of the embedded database. Raises `BackupError` if it has no directory, and `EmbeddedServerError`."""
    if settings.database_url is not None:
        raise BackupError(
            "KEYRACK_DATABASE_URL selects an external server. Back it up with pgBackRest, or with your provider's "
            "backups (docs/backups.md)."
        )
    layout = Layout(settings.state.resolve())
    directory = wal_archiving.resolve_archive_directory(layout, settings.backup_directory)
    if directory is None:
        raise BackupError(
            "There is no directory for backups. Set KEYRACK_BACKUP_DIRECTORY to a directory on another disk or "
            "machine, and restart all users of the database. From then on, WAL is archived there."
        )
    account = OsAccount.choose(layout.data)
    return BackupContext(
        settings,
        layout,
        account,
        find_binaries(settings.postgres_bin, account, layout.state),
        BackupRepository(directory),
    )


def segment_name(timeline: int, number: int, size: int) -> str:
    """The name of a WAL segment: its timeline and its number, in PostgreSQL's format."""
    high, low = divmod(number, 0x100000000 // size)
    return f"{timeline:08X}{high:08X}{low:08X}"


def _read(path: Path) -> Backup:
    try:
        fields: dict[str, Any] = json.loads(path.read_text())
        for name in ("started", "finished", "verified"):
            fields[name] = datetime.fromisoformat(fields[name])
        return Backup(**fields)
    except (ValueError, TypeError, KeyError):
        raise BackupError(f"{path} is damaged, so the backup {path.stem} cannot be used.") from None
