"""Restores: a backup and archived WAL, recovered beside the data, then moved into place.

PostgreSQL recovers in a state directory below the real one. Existing data stay unchanged until that has succeeded. They
are then kept under another name, and never deleted.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from keyrack.core.atomic_files import sync
from keyrack.db.embedded import locks, wal_archiving
from keyrack.db.embedded.binaries import EmbeddedServerError
from keyrack.db.embedded.layout import Layout, make_state
from keyrack.db.embedded.probe import left_behind
from keyrack.db.embedded.server import EmbeddedServer
from keyrack.ops.backups import post_restore
from keyrack.ops.backups.post_restore import PostRestoreResult
from keyrack.ops.backups.recovery_plan import Plan, plan
from keyrack.ops.backups.repository import Backup, BackupContext, BackupError, ReportProgress

RESTORED = "restored log file"  # one line in PostgreSQL's log for each segment
REACHED = re.compile(r"last completed transaction was at log time (\S+ \S+?)(?:\+00| UTC)\s*$", re.MULTILINE)
LOG_BYTES = 16_000_000
LOOK = 0.1
ROOM = 1.1  # factor of free disk space, for fetched WAL and the writes of recovery


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """The result of a restore. `reached` is the end of the last recovered transaction."""

    plan: Plan
    timeline: int  # the new timeline
    reached: datetime
    kept: Path | None  # the directory of the previous data
    aftermath: PostRestoreResult


def restore(
    house: BackupContext,
    name: str | None,
    to: datetime | None,
    timeline: int | None,
    *,
    replace: bool,
    report: ReportProgress,
) -> RestoreResult:
    """Restore into place. Existing data are kept under another name if `replace` allows it.

    WAL of the existing data that is not yet archived is used as well. Raises `BackupError` or `EmbeddedServerError` if
    the restore is rejected or fails; the existing data are then unchanged.
    """
    layout = house.layout
    there = os.path.lexists(layout.data)
    if there and not replace:
        raise BackupError(
            f"{layout.data} already contains data. Nothing was changed. Add --replace to restore in their place; they "
            "are kept under another name."
        )
    with locks.is_sole_user(layout), house.shelf.held():
        postmaster, others = left_behind(layout, house.account)
        if postmaster or others:
            raise BackupError(f"PostgreSQL still runs on {layout.data}. Nothing was changed. Stop it, and try again.")
        if there:
            _check_same(house)
        other = layout.data / "pg_wal" if there else None
        chosen = plan(house, name, to, timeline, other)
        scratch = Layout(layout.state / "restoring")
        with discard_partial_restore(scratch):
            with recovered(house, chosen, scratch, other=other, archives=True, report=report) as server:
                report("advancing ids and numbers")
                done = asyncio.run(post_restore.apply_post_restore(house.settings, server.dsn))
                begun = asyncio.run(post_restore.timeline(house.settings, server.dsn))
            last = recovery_target(scratch, chosen)
            kept = _put_in_place(layout, scratch)
            house.shelf.begin(begun)
            wal_archiving.remember(layout, house.shelf.directory)
    return RestoreResult(chosen, begun, last, kept, done)


@contextmanager
def recovered(
    house: BackupContext, chosen: Plan, scratch: Layout, *, other: Path | None, archives: bool, report: ReportProgress
) -> Generator[EmbeddedServer]:
    """A recovered, writable server on data restored below `scratch`. It is stopped at the end of the block.

    Raises `BackupError`, `EmbeddedServerError`.
    """
    _copy(house, chosen.backup, scratch, report)
    options = wal_archiving.restore_parameters(scratch, house.shelf.directory, other)
    options |= {
        "hot_standby": "off",  # no connection before recovery has finished
        "recovery_target_timeline": str(chosen.timeline),
        "recovery_target_action": "promote",
    }
    if chosen.to is not None:
        options["recovery_target_time"] = chosen.to.astimezone(UTC).isoformat()
    if not archives:  # the data are temporary
        options |= {"fsync": "off", "archive_mode": "off"}
    server = EmbeddedServer(
        scratch.state,
        bin_dir=house.binaries.directory,
        options=options,
        log_bytes=LOG_BYTES,
        backups=str(house.shelf.directory) if archives else wal_archiving.OFF,
    )
    with _reporting_recovery(scratch, chosen, report):
        server.start()
    try:
        yield server
    finally:
        server.stop()
        while locks.kept(scratch):
            time.sleep(LOOK)


@contextmanager
def discard_partial_restore(scratch: Layout) -> Generator[None]:
    """A directory that is deleted after the block. Leftovers of an earlier attempt are deleted before it.

    Raises `EmbeddedServerError` while that attempt still runs.
    """
    if scratch.state.exists():
        with locks.is_sole_user(scratch):
            shutil.rmtree(scratch.state)
    try:
        yield
    finally:
        shutil.rmtree(scratch.state, ignore_errors=True)


def _check_same(house: BackupContext) -> None:
    """Raise `BackupError` if the existing data are of another database than the backups."""
    with suppress(EmbeddedServerError, OSError):  # unreadable data cannot be compared
        ours, theirs = (
            wal_archiving.system(house.layout.data, house.binaries, house.account),
            wal_archiving.owner(house.shelf.directory),
        )
        if ours != theirs:
            raise BackupError(
                f"The backups in {house.shelf.directory} are of another database ({theirs}) than {house.layout.data} "
                f"({ours}). Nothing was changed. To restore them anyway, move that directory away first."
            )


def _copy(house: BackupContext, backup: Backup, scratch: Layout, report: ReportProgress) -> None:
    """Copy the full backup for PostgreSQL's account; other accounts cannot enter the directory meanwhile."""
    make_state(scratch.state.parent)
    scratch.state.mkdir(mode=0o700)
    free = shutil.disk_usage(scratch.state).free
    if free < backup.bytes * ROOM:
        raise BackupError(
            f"The disk of {scratch.state} has {free / 1e9:.2f} GB free, but the restored data need "
            f"{backup.bytes * ROOM / 1e9:.2f} GB. Nothing was changed. Free disk space, and try again."
        )
    done = 0

    def copied(source: str, target: str) -> str:
        nonlocal done
        shutil.copy2(source, target)
        house.account.own(Path(target))
        done += Path(target).stat().st_size
        report(f"copying {backup.name}: {done * 100 // max(backup.bytes, 1)} % of {backup.bytes / 1e9:.2f} GB")
        return target

    shutil.copytree(house.shelf.data(backup.name), scratch.data, copy_function=copied, symlinks=True)
    for path in (scratch.data, *(path for path in scratch.data.rglob("*") if path.is_dir())):
        house.account.own(path)
        path.chmod(0o700)
    (scratch.data / "recovery.signal").touch(mode=0o600)
    house.account.own(scratch.data / "recovery.signal")
    scratch.state.chmod(0o711)


@contextmanager
def _reporting_recovery(scratch: Layout, chosen: Plan, report: ReportProgress) -> Generator[None]:
    """Report the progress of the recovery, from PostgreSQL's log."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(LOOK):
            with suppress(OSError):
                count = scratch.log.read_text(errors="replace").count(RESTORED)
                report(f"recovering: {count} of {chosen.segments} segments")

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def recovery_target(scratch: Layout, chosen: Plan) -> datetime:
    """The time of the last recovered transaction."""
    texts = [path.read_text(errors="replace") for path in (scratch.log,) if path.exists()]
    times = [time for text in texts for time in REACHED.findall(text)]
    return datetime.fromisoformat(times[-1]).replace(tzinfo=UTC) if times else chosen.backup.finished


def waiting(layout: Layout) -> int:
    """The number of WAL segments that wait for archiving."""
    return sum(1 for _ in (layout.data / "pg_wal/archive_status").glob("*.ready"))


def _put_in_place(layout: Layout, scratch: Layout) -> Path | None:
    """Move the restored data into place, and return the new path of the previous data."""
    kept = None
    if os.path.lexists(layout.data):
        stem = f"{layout.data.name}.before-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        kept = layout.state / stem
        layout.data.rename(kept)
    scratch.data.rename(layout.data)
    sync(layout.state)
    return kept
