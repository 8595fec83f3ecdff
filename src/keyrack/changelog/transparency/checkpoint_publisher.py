"""Copies checkpoints out of the database's reach: one file each, in an external directory.

The path is `<customer>/<day>/<epoch>-<size>.note`. An existing file is never written again, so the storage may forbid
it. A file is complete before it gets its name. After an interruption, each checkpoint that is not marked as published
is processed again, and a missing file gets the same bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import LiteralString
from uuid import UUID

from keyrack.changelog.transparency import proof_service
from keyrack.changelog.transparency.checkpoints import CreatedCheckpoint
from keyrack.changelog.transparency.export_verifier import name_of
from keyrack.changelog.transparency.merkle_tree import EMPTY
from keyrack.changelog.transparency.proof_service import NoTile
from keyrack.changelog.transparency.signed_notes import BYTES, Checkpoint, NotANote, Note
from keyrack.core.atomic_files import sync, write_temporary
from keyrack.core.metrics.catalog import CHECKPOINTS_PUBLISHED
from keyrack.core.settings import Settings
from keyrack.db.connection import Database, Statements

ROWS = 100  # copies per batch, after which they are marked as published
MOST = 1_000_000  # maximum files of a directory that are read

SOME: LiteralString = """
select customer_id, epoch, size, root, at, note from change_checkpoint
where not is_published and (at, customer_id, epoch, size) > ($2, $3, $4, $5)
order by at, customer_id, epoch, size limit $1
"""
PUBLISHED: LiteralString = """
update change_checkpoint c set is_published = true
from unnest($1::integer[], $2::uuid[], $3::bigint[]) p (customer_id, epoch, size)
where c.customer_id = p.customer_id and c.epoch = p.epoch and c.size = p.size
"""
FIRST = (datetime.min.replace(tzinfo=UTC), -1, UUID(int=0), 0)


class NotPublished(Exception):
    """The reason why a copy cannot be written, in words for the operator."""


async def publish_checkpoints(db: Database, settings: Settings) -> None:
    """Write the missing copies. A housekeeping step.

    A log that contradicts its published copies does not block the copies of others. Raises `NotPublished`.
    """
    directory = settings.checkpoint_directory
    if directory is None:
        return
    behind, troubles = FIRST, list[str]()
    while rows := await db.fetch(SOME, ROWS, *behind):
        written = list[CreatedCheckpoint]()
        for made in map(CreatedCheckpoint.of, rows):
            trouble = await _trouble(db, directory, made)
            if trouble is None:
                await asyncio.to_thread(_write, directory, made)
                written.append(made)
            else:
                troubles.append(trouble)
        await asyncio.to_thread(_sync, {place(directory, made).parent for made in written})
        keys = [(checkpoint.customer, checkpoint.epoch, checkpoint.size) for checkpoint in written]
        await db.execute(PUBLISHED, *(map(list, zip(*keys, strict=True)) if keys else ([], [], [])))
        CHECKPOINTS_PUBLISHED.of().add(len(written))
        last = CreatedCheckpoint.of(rows[-1])
        behind = (last.at, last.customer, last.epoch, last.size)
    if troubles:
        raise NotPublished(f"{troubles[0]} No copy of it was written.")


async def _trouble(statements: Statements, directory: Path, made: CreatedCheckpoint) -> str | None:
    """Compare a log with its newest copy. Returns the contradiction, if any. Raises `NotPublished`."""
    file, newest = await asyncio.to_thread(_newest, directory, made)
    if newest is None:
        return None
    if newest.size > made.size:
        return f"The log of customer {made.customer} has {made.size} records, but {file} has {newest.size}."
    try:
        begins = (
            await proof_service.root_of(statements, made.customer, made.epoch, newest.size) if newest.size else EMPTY
        )
    except NoTile:
        begins = b""
    if begins != newest.root:
        said = f"its first {newest.size} records are not those of {file}"
        return f"The log of customer {made.customer} was rewritten: {said}."
    return None


def place(directory: Path, made: CreatedCheckpoint) -> Path:
    """The file of a checkpoint. Sizes are padded with zeros, so that names sort by size."""
    return directory / str(made.customer) / f"{made.at:%Y-%m-%d}" / f"{made.epoch}-{made.size:019}.note"


def of_log(directory: Path, customer: int, epoch: object) -> Iterator[Path]:
    """The copies of a log's checkpoints, under any file name.

    Raises `OSError`, or `NotPublished` if there are too many files.
    """
    if not directory.is_dir():
        raise NotADirectoryError(20, "it is not a directory")
    log = f"/{name_of(customer, epoch)}"
    for count, file in enumerate(sorted(directory.rglob("*.note"))):
        if count >= MOST:
            raise NotPublished(f"{directory} has more than {MOST:,} checkpoints. Give the directory of one customer")
        with file.open("rb") as opened:
            first = opened.readline(BYTES).rstrip(b"\n")
        if first.endswith(log.encode()):
            yield file


def _newest(directory: Path, made: CreatedCheckpoint) -> tuple[Path, Checkpoint | None]:
    """The copy of the same size, else the newest one of a log. Raises `NotPublished`."""
    file = place(directory, made)
    try:
        if not file.exists():
            days = sorted((directory / str(made.customer)).glob("*"), reverse=True)
            names = (sorted(day.glob(f"{made.epoch}-*.note"), reverse=True) for day in days)
            file = next((paths[0] for paths in names if paths), file)
        return file, Checkpoint.read(Note.read(file.read_bytes()).text)
    except FileNotFoundError:
        return file, None
    except NotANote as error:
        raise NotPublished(f"{file} exists, but is not a checkpoint: {error}.") from None
    except OSError as error:
        raise NotPublished(f"{file} cannot be read: {error.strerror or error}.") from None


def _write(directory: Path, made: CreatedCheckpoint) -> None:
    """Write one copy. Raises `NotPublished`."""
    file = place(directory, made)
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        if not file.exists():
            write_temporary(file, made.note.encode(), 0o444).rename(file)
    except OSError as error:
        raise NotPublished(f"The checkpoint cannot be written to {file}: {error.strerror or error}.") from None


def _sync(directories: Iterable[Path]) -> None:
    """Sync directories. Raises `NotPublished`."""
    for directory in directories:
        try:
            sync(directory)
        except OSError as error:
            raise NotPublished(f"{directory} cannot be written: {error.strerror or error}.") from None
