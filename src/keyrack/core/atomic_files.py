"""Atomic files: data is on the disk before the name."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path


def write_temporary(beside: Path, data: bytes, mode: int) -> Path:
    """A temporary file with these bytes, beside its final place.

    The bytes are on the disk. The caller moves the file. Raises `OSError`.
    """
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
    """Write a file for its owner alone, unless it exists.

    A concurrent writer that was faster has written the file for all. Raises `OSError`.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    written = write_temporary(file, data, 0o600)
    with suppress(FileExistsError):
        os.link(written, file)
    written.unlink()
    sync(file.parent)


def sync(directory: Path) -> None:
    """Write the names in a directory to the disk. Raises `OSError`."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
