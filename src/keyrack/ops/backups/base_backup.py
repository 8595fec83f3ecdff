"""Full backups: created by pg_basebackup and verified by pg_verifybackup, with the WAL archive up to their end."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, LiteralString

from keyrack import __version__
from keyrack.db.archive_status import ArchiveStatus, standing
from keyrack.db.embedded.binaries import OsAccount, end_with_parent, environment
from keyrack.db.embedded.layout import NAME as DATABASE
from keyrack.ops.backups.connection import connected
from keyrack.ops.backups.repository import Backup, BackupContext, BackupError, ReportProgress
from keyrack.ops.backups.wal_archive import position

PATIENCE = 60.0  # maximum seconds until a segment is archived
LOOK = 0.1

PROGRESS = re.compile(r"(\d+)/(\d+) kB \((\d+)%\)")
# The last byte of the segment: the position after it may be the start of a segment that is still empty
SWITCH: LiteralString = "select pg_walfile_name(pg_switch_wal() - 1::numeric)"
SEGMENT_SIZE: LiteralString = "select setting::bigint from pg_settings where name = 'wal_segment_size'"
SCHEMA: LiteralString = "select to_regclass('alembic_version') is not null"
REVISION: LiteralString = "select version_num from alembic_version"


def create(house: BackupContext, dsn: str, report: ReportProgress) -> tuple[Backup, list[str]]:
    """Create a full backup of the running database, and delete surplus ones. Returns it and the names of those deleted.

    Raises `BackupError` if archiving is off, the backup fails or is damaged, or the archive does not keep up.
    """
    check_archiving(house, asyncio.run(_read_archive_status(house, dsn)))
    shelf = house.shelf
    with shelf.held(alone=True):
        shelf.tidy()
        started = datetime.now(UTC)
        name = shelf.fresh_name(started)
        try:
            _copy(house, name, report)
            finished = datetime.now(UTC)
            verify_base(house, name, report)
            backup = asyncio.run(_described(house, dsn, name, started, finished))
        except BaseException:  # also Ctrl-C
            shelf.remove(name)
            raise
        shelf.add(backup)
        report("waiting for the archive")
        asyncio.run(_until_archived(house, dsn, name))
        return backup, shelf.forget(house.settings.backup_keep, house.binaries)


def check_archiving(house: BackupContext, archive: ArchiveStatus) -> None:
    """Raise `BackupError` unless the running server archives to the directory of the backups."""
    if archive.on and str(house.shelf.wal) in (archive.command or ""):
        return
    if archive.on:
        fault = f"The database archives its WAL to another directory than {house.shelf.directory}."
    else:
        fault = "The database does not archive its WAL."
    raise BackupError(f"{fault} Stop all its users, start it with KEYRACK_BACKUP_DIRECTORY, and try again.")


def verify_base(house: BackupContext, name: str, report: ReportProgress) -> None:
    """Let PostgreSQL compare each file with its checksum, and read the WAL in the backup. Raises `BackupError`."""
    report(f"verifying {name}")
    said = OsAccount.ourselves().run(
        [house.binaries.directory / "pg_verifybackup", "--exit-on-error", "--quiet", house.shelf.data(name)]
    )
    if said.returncode:
        raise BackupError(f"The backup {name} is damaged: {' '.join((said.stderr or said.stdout).split())[-2000:]}")


def until_archived(house: BackupContext, dsn: str) -> str:
    """Archive the WAL up to now, and return the name of the last segment. Raises `BackupError` on a timeout."""
    return asyncio.run(_until_archived(house, dsn))


def _copy(house: BackupContext, name: str, report: ReportProgress) -> None:
    command: list[str | Path] = [
        house.binaries.directory / "pg_basebackup", "--pgdata", house.shelf.data(name), "--format=plain",
        "--wal-method=stream", "--checkpoint=fast", "--label", f"keyrack {name}", "--progress", "--no-password",
        "--host", house.layout.sockets, "--port", "5432", "--username", DATABASE,
    ]  # fmt: skip
    said: list[str] = []
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd="/", text=True,
        errors="replace", env=environment(), preexec_fn=end_with_parent(signal.SIGTERM),
    ) as running:  # fmt: skip
        try:
            assert running.stderr is not None  # noqa: S101 - it is a pipe
            for line in running.stderr:
                if match := PROGRESS.search(line):
                    report(f"copying: {match[3]} % of {int(match[2]) / 1e6:.2f} GB")
                elif line.strip():
                    said = [*said[-20:], line.strip()]
        except BaseException:
            running.terminate()
            raise
    if running.returncode:
        raise BackupError(f"pg_basebackup failed: {' '.join(said)}")


async def _read_archive_status(house: BackupContext, dsn: str) -> ArchiveStatus:
    async with connected(house.settings, dsn) as database:
        return await standing(database)


async def _described(house: BackupContext, dsn: str, name: str, started: datetime, finished: datetime) -> Backup:
    data = house.shelf.data(name)
    manifest: dict[str, Any] = json.loads((data / "backup_manifest").read_text())
    range = manifest["WAL-Ranges"][-1]
    size = sum(path.stat().st_size for path in data.rglob("*") if path.is_file())
    async with connected(house.settings, dsn) as database:
        has_schema = await database.fetchval(SCHEMA)
        return Backup(
            name=name,
            started=started,
            finished=finished,
            verified=datetime.now(UTC),
            bytes=size,
            timeline=range["Timeline"],
            start=position(range["Start-LSN"]),
            stop=position(range["End-LSN"]),
            segment_size=await database.fetchval(SEGMENT_SIZE),
            version=house.binaries.version,
            keyrack=__version__,
            revision=await database.fetchval(REVISION) if has_schema else None,
        )


async def _until_archived(house: BackupContext, dsn: str, name: str | None = None) -> str:
    async with connected(house.settings, dsn) as database:
        segment: str = await database.fetchval(SWITCH)
        deadline = time.monotonic() + PATIENCE
        while not (house.shelf.wal / f"{segment}.gz").exists():
            if time.monotonic() > deadline:
                archive = await standing(database)
                why = f"the last attempt, for {archive.failed}, failed" if archive.failing else "no attempt has failed"
                subject = f"The backup {name} is valid, but the archive" if name else "The archive"
                raise BackupError(
                    f"{subject} does not keep up: {segment} was not archived within {PATIENCE:.0f} seconds ({why}). "
                    f"The reason is in {house.layout.log}. Until it is fixed, WAL fills the disk of the database."
                )
            await asyncio.sleep(LOOK)
        return segment
