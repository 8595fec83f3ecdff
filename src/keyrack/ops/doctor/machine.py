"""In charge of what the machine has to give: room, files, a clock's zone; and of files that hold secrets."""

from __future__ import annotations

import os
import resource
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from keyrack.changelog.transparency import checkpoint_keys
from keyrack.core.settings import Settings, origins_of, variable
from keyrack.db.encryption import master_keys
from keyrack.ops.doctor.result import failure, ok, warning
from keyrack.ops.monitoring import thresholds
from keyrack.ops.monitoring.findings import Finding

FILES = 4_096  # that a process should be able to open


def examined(settings: Settings) -> list[Finding]:
    """What this machine tells."""
    return [*_secrets(settings), *_state(settings), *_disk(settings), *_files(), *_zone()]


def _secrets(settings: Settings) -> Iterator[Finding]:
    """Files that others may read."""
    paths = [checkpoint_keys.path(settings)] + ([master_keys.path(settings)] if settings.master_key is None else [])
    paths += [Path(origin.where.rpartition(", by ")[0]) for origin in origins_of(Settings).values()
              if origin.kind == "file" and origin.where]  # fmt: skip
    open_ones = [path for path in paths if _mode(path) & 0o007]
    for path in open_ones:
        yield failure("secret-files", f"Everybody on this machine may read {path}.", f"chmod o= {path}")
    if not open_ones:
        yield ok("secret-files", "no file with a secret is open to others")
    for name in ("database_url", "mqtt_url", "master_key"):
        if os.environ.get(variable(name)) and (name == "master_key" or "@" in os.environ[variable(name)]):
            yield ok("secret-files", f"{variable(name)} is in the environment; a file would keep it out of it")


def _state(settings: Settings) -> Iterator[Finding]:
    if settings.database_url is not None or not settings.state.exists():
        return
    if _mode(settings.state) & stat.S_IWOTH:
        yield failure("state", f"Everybody may write into {settings.state}.", f"chmod o-w {settings.state}")
    elif not os.access(settings.state, os.W_OK | os.X_OK):
        yield failure(
            "state", f"This user may not write into {settings.state}.", "Run Keyrack as the user who owns it, always."
        )
    else:
        yield ok("state", f"the state directory {settings.state} is ours")


def _disk(settings: Settings) -> Iterator[Finding]:
    for path in {settings.state if settings.database_url is None else None, settings.spool_directory}:
        if path is None or not Path(path).exists():
            continue
        usage = shutil.disk_usage(path)
        share = usage.free / usage.total
        if share < thresholds.DISK_LOW:
            say = failure if share < thresholds.DISK_FULL else warning
            yield say("disk", f"The disk of {path} has {share:.1%} left.", "Make room, or take a larger disk.")
        else:
            yield ok("disk", f"the disk of {path} has {share:.0%} left")


def _files() -> Iterator[Finding]:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < FILES:
        yield warning(
            "open-files", f"A process may open {hard:,} files at most: each connection is one.",
            f"Raise the limit to 65,536 (LimitNOFILE= of a unit, `ulimit -n`); {FILES:,} is the least.",
        )  # fmt: skip
    else:
        yield ok("open-files", f"a process may open {'any number of' if hard < 0 else f'{hard:,}'} files")


def _zone() -> Iterator[Finding]:
    yield ok("time-zone", f"this machine's time zone is {time.tzname[0]}; Keyrack's log is in UTC in any case")


def _mode(path: Path) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return 0
