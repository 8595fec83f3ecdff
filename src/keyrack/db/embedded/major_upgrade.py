"""Major version upgrade of the embedded server: pg_upgrade on a copy of the data."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from keyrack.db.embedded import locks
from keyrack.db.embedded.binaries import Binaries, EmbeddedServerError, OsAccount, environment, find_binaries
from keyrack.db.embedded.layout import NAME, Layout, init, make_sockets, write_access_files
from keyrack.db.embedded.server import EmbeddedServer

MISSING_STATISTICS = 18  # the first version whose pg_upgrade transfers statistics


def upgrade(state: Path, old: Path, *, bin_dir: Path | None, say: Callable[[str], None]) -> tuple[Path, str]:
    """Upgrade the data in `state` from the programs in `old` to those in `bin_dir`.

    Without `bin_dir`, the programs are found as at a start. Returns the directory of the old data, and the new version.
    `say` gets each step.

    The old data are copied and stay unchanged. Raises EmbeddedServerError.
    """
    layout = Layout(state.resolve())
    os.close(_refuse_use(layout))
    say("Starting and stopping the old server, for a clean shutdown.")
    with EmbeddedServer(state, bin_dir=old):  # this also checks that `old` has its programs
        pass
    lock = _refuse_use(layout)
    try:
        account = OsAccount.choose(layout.data)
        before, after = find_binaries(old, account, layout.state), find_binaries(bin_dir, account, layout.state)
        kept = layout.state / f"pgdata.{before.major}"
        _check(layout, before, after, kept)
        say(f"Copying the data of PostgreSQL {before.version} to PostgreSQL {after.version}; the old data stay.")
        _copy(layout, before, after, account)
        layout.data.rename(kept)
        layout.fresh.rename(layout.data)
        _sync(layout.state)
    finally:
        os.close(lock)
    say("Gathering statistics.")
    _gather(layout, bin_dir, after)
    return kept, after.version


def _refuse_use(layout: Layout) -> int:
    """Take the keeper's lock, so that no process starts the server.

    Raises EmbeddedServerError if the server is in use, or has no data.
    """
    if not (layout.data / "PG_VERSION").exists():
        raise EmbeddedServerError(f"There are no data in {layout.data}.")
    lock = locks.take_keeper(layout)
    if lock is None:
        raise EmbeddedServerError(
            f"The database in {layout.state} is in use. Nothing was changed. Stop all processes of Keyrack that use it."
        )
    return lock


def _check(layout: Layout, before: Binaries, after: Binaries, kept: Path) -> None:
    wrong = None
    if after.major <= before.major:
        wrong = f"PostgreSQL {after.version} in {after.directory} is not newer than {before.version}"
    elif not (after.directory / "pg_upgrade").is_file():
        wrong = f"There is no pg_upgrade in {after.directory}"
    elif kept.exists():
        wrong = f"The directory {kept}, which is to keep the old data, already exists"
    if wrong:
        raise EmbeddedServerError(f"{wrong}. Nothing was changed.")


def _copy(layout: Layout, before: Binaries, after: Binaries, account: OsAccount) -> None:
    """Run pg_upgrade into a new cluster; a failure leaves nothing behind."""
    desk = layout.state / "upgrade"  # pg_upgrade leaves its scripts here; other accounts cannot enter
    try:
        init(layout.fresh, after, account, checksums=_has_checksums(layout, before, account))
        shutil.rmtree(desk, ignore_errors=True)
        desk.mkdir(mode=0o700)
        account.own(desk)
        make_sockets(layout, account)
        write_access_files(layout, account, alone=True)  # the server's next start rewrites them
        options = f'-c "hba_file={layout.hba_file}" -c "ident_file={layout.ident_file}"'
        if account.shared:
            options += " -c dynamic_shared_memory_type=mmap"
        done = account.run(
            [
                after.directory / "pg_upgrade", "--old-bindir", before.directory, "--new-bindir", after.directory,
                "--old-datadir", layout.data, "--new-datadir", layout.fresh, "--username", NAME,
                "--socketdir", layout.sockets, "--old-options", options, "--new-options", options,
            ],
            cwd=desk,
        )  # fmt: skip
        if done.returncode:
            said = (done.stdout + done.stderr).strip()[-2000:]
            raise EmbeddedServerError(f"pg_upgrade failed. Nothing was changed. Its output: {said}")
    except BaseException:
        shutil.rmtree(layout.fresh, ignore_errors=True)
        raise
    finally:
        shutil.rmtree(desk, ignore_errors=True)


def _has_checksums(layout: Layout, before: Binaries, account: OsAccount) -> bool:
    """Whether the old pages have checksums: pg_upgrade requires the same for the new ones."""
    result = account.run([before.directory / "pg_controldata", layout.data])
    version = re.search(r"^Data page checksum version:\s*(\d+)$", result.stdout, re.MULTILINE)
    if version is None:
        raise EmbeddedServerError(f"pg_controldata does not report checksums: {result.stderr.strip()}")
    return version[1] != "0"


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def _gather(layout: Layout, bin_dir: Path | None, after: Binaries) -> None:
    """Gather statistics, coarse ones first: without them the first queries would scan whole tables."""
    options = ["--missing-stats-only"] if after.major >= MISSING_STATISTICS else []
    with EmbeddedServer(layout.state, bin_dir=bin_dir) as server:
        done = subprocess.run(
            [after.directory / "vacuumdb", "--all", "--analyze-in-stages", *options],
            env=environment() | server.environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        raise EmbeddedServerError(f"The data are upgraded, but vacuumdb could not analyze them: {done.stderr.strip()}")
