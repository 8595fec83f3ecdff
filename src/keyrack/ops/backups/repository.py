"""In charge of the directory of the backups: which full ones are in it, who works there, and what can be forgotten.

`base/NAME` is a full backup as PostgreSQL makes it, `base/NAME.json` what we know about it: without that file it is not
whole, and is thrown away. `wal/` is the archive, `cluster` says which database all of it is of, `timeline` what history
the last restore has begun.
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

ReportProgress = Callable[[str], None]  # takes a line about how far something is

NAME = re.compile(r"\d{8}T\d{6}Z(-\d+)?")
FORM = "%Y%m%dT%H%M%SZ"


class BackupError(Exception):
    """What kept a backup, or a restore, from being made; the text tells an operator why and what to do."""


@dataclass(frozen=True, slots=True)
class Backup:
    """A full backup. Positions in the log are counted in bytes, `segment_size` says how many a segment has."""

    name: str
    started: datetime
    finished: datetime  # from when on the data can be had
    verified: datetime  # when they were found whole last
    bytes: int
    timeline: int
    start: int  # position in the log from which on it is needed
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
    """The directory of the backups."""

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
        """Those that are whole, the oldest first. Raises `BackupError`."""
        try:
            backups = [_read(path) for path in self.base.glob("*.json") if NAME.fullmatch(path.stem)]
            return sorted(backups, key=lambda backup: (backup.started, backup.name))
        except OSError as error:
            raise BackupError(f"The backups in {self.directory} cannot be read: {error.strerror}.") from None

    def one(self, name: str) -> Backup:
        """The backup of this name. Raises `BackupError`."""
        by_name = {backup.name: backup for backup in self.backups()}
        if name not in by_name:
            raise BackupError(f"There is no backup {name} in {self.directory}: `keyrack backup list` names them.")
        return by_name[name]

    def newest(self) -> Backup:
        """Raises `BackupError` where there is none."""
        if not (backups := self.backups()):
            raise BackupError(f"There is no backup in {self.directory}: `keyrack backup create` makes one.")
        return backups[-1]

    def timeline(self) -> int:
        """The one that the database writes: of the last restore that went well, or of a later full backup.

        The archive may know newer ones, of restores that did not go well.
        """
        try:
            begun = int((self.directory / "timeline").read_text())
        except (FileNotFoundError, ValueError):
            begun = 1
        return max([begun, *(backup.timeline for backup in self.backups())])

    def begin(self, timeline: int) -> None:
        """A restore went well: from now on the database writes this timeline."""
        fresh = self.directory / "timeline.new"
        fresh.write_text(f"{timeline}\n")
        fresh.replace(self.directory / "timeline")
        sync(self.directory)

    def fresh_name(self, now: datetime) -> str:
        """A name that nothing has yet; names are in the order of time."""
        stem = now.astimezone(UTC).strftime(FORM)
        names = (stem, *(f"{stem}-{number}" for number in range(2, 100)))
        return next(name for name in names if not self.data(name).exists())

    def add(self, backup: Backup) -> None:
        """Let the data at its name count as a backup; or tell something new about it."""
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
        """From its first moment on it counts as a backup no more."""
        (self.base / f"{name}.json").unlink(missing_ok=True)
        sync(self.base)
        shutil.rmtree(self.data(name), ignore_errors=True)

    def tidy(self) -> None:
        """Throw away what others have begun and not finished. Only for whoever has it `alone`."""
        whole = {backup.name for backup in self.backups()}
        for path in self.base.iterdir():
            if path.is_dir() and NAME.fullmatch(path.name) and path.name not in whole:
                shutil.rmtree(path, ignore_errors=True)

    def forget(self, keep: int, binaries: Binaries) -> list[str]:
        """Remove all but the newest `keep` backups, and the log that only they need; the names of those removed.

        PostgreSQL's own program decides which segments are older than the oldest backup that is kept.
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
                raise BackupError(f"The archive cannot be tidied: {said.stderr.strip()[-2000:]}")
            for path in self.wal.glob("*.backup.gz"):  # the server's notes about backups, which that program keeps
                if path.name[8:24] < first[8:]:
                    path.unlink(missing_ok=True)
        return [backup.name for backup in gone]

    @contextmanager
    def held(self, *, alone: bool = False) -> Generator[None]:
        """Nothing is removed within the block; `alone`: nobody else works here at all. Raises `BackupError` while
        that cannot be had."""
        try:
            descriptor = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise BackupError(f"The backups in {self.directory} cannot be used: {error.strerror}.") from None
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
            yield
        except BlockingIOError:
            raise BackupError(
                f"Another `keyrack backup` works in {self.directory}. Try again when it is done."
            ) from None
        finally:
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class BackupContext:
    """The embedded database with its backups: where everything is, and by which programs it is made."""

    settings: Settings
    layout: Layout
    account: OsAccount
    binaries: Binaries
    shelf: BackupRepository


def backup_context(settings: Settings) -> BackupContext:
    """Where the backups of the embedded database are. Raises `BackupError` where it has none, `EmbeddedServerError`."""
    if settings.database_url is not None:
        raise BackupError(
            "KEYRACK_DATABASE_URL names a server that is not Keyrack's own: back it up with pgBackRest, or as whoever "
            "runs it says (docs/backups.md)."
        )
    layout = Layout(settings.state.resolve())
    directory = wal_archiving.resolve_archive_directory(layout, settings.backup_directory)
    if directory is None:
        raise BackupError(
            "There is no directory for backups. Set KEYRACK_BACKUP_DIRECTORY to one on another disk or machine, and "
            "start everything anew that uses the database: from then on its log is archived there."
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
    """The name of a segment of the log: its timeline and its number, in PostgreSQL's form."""
    high, low = divmod(number, 0x100000000 // size)
    return f"{timeline:08X}{high:08X}{low:08X}"


def _read(path: Path) -> Backup:
    try:
        fields: dict[str, Any] = json.loads(path.read_text())
        for name in ("started", "finished", "verified"):
            fields[name] = datetime.fromisoformat(fields[name])
        return Backup(**fields)
    except (ValueError, TypeError, KeyError):
        raise BackupError(f"{path} is not what Keyrack has written: the backup {path.stem} cannot be used.") from None
