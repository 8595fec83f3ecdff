"""In charge of restoring: which backup and how much of the log, recovered beside the data, put in their place whole.

PostgreSQL recovers in a state directory of its own below the real one. Until that has gone well the data that are there
stay as they are; then they are kept under another name, and never removed.
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

RESTORED = "restored log file"  # in PostgreSQL's log, for each segment
REACHED = re.compile(r"last completed transaction was at log time (\S+ \S+?)(?:\+00| UTC)\s*$", re.MULTILINE)
LOG_BYTES = 16_000_000
LOOK = 0.1
ROOM = 1.1  # of what is restored: for the log that is fetched, and what recovery writes


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """What came of it. `reached` is when the last transaction ended that is in the data."""

    plan: Plan
    timeline: int  # the new one
    reached: datetime
    kept: Path | None  # where the data are that were there before
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
    """Restore in the place of the data that are there, which are kept under another name if `replace` allows that.

    What their log has beyond the archive is used too. Raises `BackupError` or `EmbeddedServerError`: refused, or it did
    not go well; then the data are as they were.
    """
    layout = house.layout
    there = os.path.lexists(layout.data)
    if there and not replace:
        raise BackupError(
            f"There are data in {layout.data} already. Nothing was changed. --replace restores in their place and "
            "keeps them under another name."
        )
    with locks.is_sole_user(layout), house.shelf.held():
        postmaster, others = left_behind(layout, house.account)
        if postmaster or others:
            raise BackupError(
                f"PostgreSQL still runs on {layout.data}. Nothing was changed. Try again when it has ended."
            )
        if there:
            _check_same(house)
        other = layout.data / "pg_wal" if there else None
        chosen = plan(house, name, to, timeline, other)
        scratch = Layout(layout.state / "restoring")
        with discard_partial_restore(scratch):
            with recovered(house, chosen, scratch, other=other, archives=True, report=report) as server:
                report("advancing what must not be handed out twice")
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
    """A server on what was restored below `scratch`, recovered and taking writes; ended, all of it, with the block.

    Raises `BackupError`, `EmbeddedServerError`.
    """
    _copy(house, chosen.backup, scratch, report)
    options = wal_archiving.restore_parameters(scratch, house.shelf.directory, other)
    options |= {
        "hot_standby": "off",  # so that whoever can connect finds it recovered
        "recovery_target_timeline": str(chosen.timeline),
        "recovery_target_action": "promote",
    }
    if chosen.to is not None:
        options["recovery_target_time"] = chosen.to.astimezone(UTC).isoformat()
    if not archives:  # it is thrown away
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
    """A directory that is removed after the block; what an earlier attempt has left there, before it.

    Raises EmbeddedServerError while that still runs.
    """
    if scratch.state.exists():
        with locks.is_sole_user(scratch):
            shutil.rmtree(scratch.state)
    try:
        yield
    finally:
        shutil.rmtree(scratch.state, ignore_errors=True)


def _check_same(house: BackupContext) -> None:
    """Raises `BackupError` where the data that are there are not those of the backups."""
    with suppress(EmbeddedServerError, OSError):  # what cannot be read cannot be told
        ours, theirs = (
            wal_archiving.system(house.layout.data, house.binaries, house.account),
            wal_archiving.owner(house.shelf.directory),
        )
        if ours != theirs:
            raise BackupError(
                f"The backups in {house.shelf.directory} are of another database ({theirs}) than {house.layout.data} "
                f"({ours}). Nothing was changed. If they are to take its place, move that directory away yourself."
            )


def _copy(house: BackupContext, backup: Backup, scratch: Layout, report: ReportProgress) -> None:
    """Copy the full backup, for PostgreSQL's account. Until that is done nobody else gets into the directory."""
    make_state(scratch.state.parent)
    scratch.state.mkdir(mode=0o700)
    free = shutil.disk_usage(scratch.state).free
    if free < backup.bytes * ROOM:
        raise BackupError(
            f"The disk of {scratch.state} has {free / 1e9:.2f} GB free, and the restored data need "
            f"{backup.bytes * ROOM / 1e9:.2f} GB. Nothing was changed."
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
    """Tell how far the recovery is, by PostgreSQL's log."""
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
    """The time of the last transaction that was recovered."""
    texts = [path.read_text(errors="replace") for path in (scratch.log,) if path.exists()]
    times = [time for text in texts for time in REACHED.findall(text)]
    return datetime.fromisoformat(times[-1]).replace(tzinfo=UTC) if times else chosen.backup.finished


def waiting(layout: Layout) -> int:
    """How many segments of the log wait in the data to be archived."""
    return sum(1 for _ in (layout.data / "pg_wal/archive_status").glob("*.ready"))


def _put_in_place(layout: Layout, scratch: Layout) -> Path | None:
    """Let the restored data take their place; where those are now that were there."""
    kept = None
    if os.path.lexists(layout.data):
        stem = f"{layout.data.name}.before-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        kept = layout.state / stem
        layout.data.rename(kept)
    scratch.data.rename(layout.data)
    sync(layout.state)
    return kept
