"""Machine checks: secret files, state directory, disk, open files and time zone."""

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

FILES = 4_096  # minimum limit of open files


def examined(settings: Settings) -> list[Finding]:
    """Check this machine."""
    return [*_secrets(settings), *_state(settings), *_disk(settings), *_files(), *_zone()]


def _secrets(settings: Settings) -> Iterator[Finding]:
    """Check for secret files that other users can read."""
    paths = [checkpoint_keys.path(settings)] + ([master_keys.path(settings)] if settings.master_key is None else [])
    paths += [Path(origin.where.rpartition(", by ")[0]) for origin in origins_of(Settings).values()
              if origin.kind == "file" and origin.where]  # fmt: skip
    open_ones = [path for path in paths if _mode(path) & 0o007]
    for path in open_ones:
        yield failure("secret-files", f"Every user of this machine can read {path}.", f"Run `chmod o= {path}`.")
    if not open_ones:
        yield ok("secret-files", "other users can read no secret file")
    for name in ("database_url", "mqtt_url", "master_key"):
        if os.environ.get(variable(name)) and (name == "master_key" or "@" in os.environ[variable(name)]):
            yield ok("secret-files", f"{variable(name)} is in the environment; a secret file is safer")


def _state(settings: Settings) -> Iterator[Finding]:
    if settings.database_url is not None or not settings.state.exists():
        return
    if _mode(settings.state) & stat.S_IWOTH:
        yield failure(
            "state", f"Every user of this machine can write to {settings.state}.", f"Run `chmod o-w {settings.state}`."
        )
    elif not os.access(settings.state, os.W_OK | os.X_OK):
        yield failure(
            "state",
            f"The current user cannot write to {settings.state}.",
            "Always run Keyrack as the owner of the directory.",
        )
    else:
        yield ok("state", f"the state directory {settings.state} is writable")


def _disk(settings: Settings) -> Iterator[Finding]:
    for path in {settings.state if settings.database_url is None else None, settings.spool_directory}:
        if path is None or not Path(path).exists():
            continue
        usage = shutil.disk_usage(path)
        share = usage.free / usage.total
        if share < thresholds.DISK_LOW:
            say = failure if share < thresholds.DISK_FULL else warning
            yield say("disk", f"Only {share:.1%} of the disk of {path} is free.", "Free space, or use a larger disk.")
        else:
            yield ok("disk", f"{share:.0%} of the disk of {path} is free")


def _files() -> Iterator[Finding]:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < FILES:
        yield warning(
            "open-files", f"A process can open at most {hard:,} files, and each connection needs one.",
            f"Raise the limit to 65,536 (LimitNOFILE= of a unit, `ulimit -n`). The minimum is {FILES:,}.",
        )  # fmt: skip
    else:
        yield ok("open-files", f"a process can open {'any number of' if hard < 0 else f'{hard:,}'} files")


def _zone() -> Iterator[Finding]:
    yield ok("time-zone", f"the time zone of this machine is {time.tzname[0]}; Keyrack logs in UTC")


def _mode(path: Path) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return 0
