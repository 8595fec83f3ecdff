"""In charge of files that are whole or not there: what is written is on the disk before it gets its name."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path


def write_temporary(beside: Path, data: bytes, mode: int) -> Path:
    """A file with these bytes beside the place that it is for, where the caller puts it. Raises `OSError`."""
    file = beside.with_name(f".{beside.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
    except OSError:
        file.unlink(missing_ok=True)
        raise
    return file


def write_once(file: Path, data: bytes) -> None:
    """Write a file for its owner alone, unless it is there: who was quicker has written everybody's. Raises
    `OSError`."""
    file.parent.mkdir(parents=True, exist_ok=True)
    written = write_temporary(file, data, 0o600)
    with suppress(FileExistsError):
        os.link(written, file)
    written.unlink()
    sync(file.parent)


def sync(directory: Path) -> None:
    """Have the names in a directory on the disk. Raises `OSError`."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
