"""In charge of copies of checkpoints out of the database's reach: a file for each, in a directory of somebody else's.

`<customer>/<day>/<epoch>-<size>.note`. A file that is there is never written again, so the place may forbid it; each is
whole before it has its name. A copy is written at least once: what was interrupted comes again, the same bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import LiteralString

from keyrack.changes.checkpoints import Made
from keyrack.changes.files import fresh, sync
from keyrack.changes.notes import BYTES, Checkpoint, NotANote, Note
from keyrack.changes.verifying import name_of
from keyrack.database.connection import Database
from keyrack.metrics.measures import CHECKPOINTS_PUBLISHED
from keyrack.settings import Settings

ROWS = 100  # copies that are written before it is kept that they are
MOST = 1_000_000  # files of a directory that are looked at

SOME: LiteralString = """
select customer_id, epoch, size, root, at, note from change_checkpoint where not is_published order by at limit $1
"""
PUBLISHED: LiteralString = """
update change_checkpoint c set is_published = true
from unnest($1::integer[], $2::uuid[], $3::bigint[]) p (customer_id, epoch, size)
where c.customer_id = p.customer_id and c.epoch = p.epoch and c.size = p.size
"""


class NotPublished(Exception):
    """Why a copy cannot be written, in words for the operator."""


async def tend(db: Database, settings: Settings) -> None:
    """Write the copies that are not written yet, the oldest first. A step of housekeeping. Raises `NotPublished`."""
    directory = settings.checkpoint_directory
    if directory is None:
        return
    while rows := await db.fetch(SOME, ROWS):
        made = [Made.of(row) for row in rows]
        await asyncio.to_thread(_written, directory, made)
        keys = [(one.customer, one.epoch, one.size) for one in made]
        await db.execute(PUBLISHED, *map(list, zip(*keys, strict=True)))
        CHECKPOINTS_PUBLISHED.of().add(len(made))


def place(directory: Path, made: Made) -> Path:
    """The file of a checkpoint. Sizes have as many digits as they may need, so that names are in their order."""
    return directory / str(made.customer) / f"{made.at:%Y-%m-%d}" / f"{made.epoch}-{made.size:019}.note"


def of_log(directory: Path, customer: int, epoch: object) -> Iterator[Path]:
    """The copies of a log's checkpoints, those that others have put there under their own names among them.

    Raises `OSError`; `NotPublished` where there are too many.
    """
    if not directory.is_dir():
        raise NotADirectoryError(20, "it is no directory")
    log = f"/{name_of(customer, epoch)}"
    for count, file in enumerate(sorted(directory.rglob("*.note"))):
        if count >= MOST:
            raise NotPublished(f"{directory} has more than {MOST:,} checkpoints: name the directory of one customer")
        with file.open("rb") as opened:
            first = opened.readline(BYTES).rstrip(b"\n")
        if first.endswith(log.encode()):
            yield file


def _written(directory: Path, made: list[Made]) -> None:
    """Raises `NotPublished`."""
    places = set[Path]()
    for one in made:
        file = place(directory, one)
        try:
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
            if file.exists():
                _compare(file, one)
            else:
                fresh(file, one.note.encode(), 0o444).rename(file)
            places.add(file.parent)
        except OSError as error:
            reason = error.strerror or str(error)
            raise NotPublished(f"The checkpoint cannot be written to {file}: {reason}.") from None
    for path in places:
        sync(path)


def _compare(file: Path, made: Made) -> None:
    """Raises `NotPublished` where there is another one of the same size: a log has one root for each."""
    try:
        there = Checkpoint.read(Note.read(file.read_bytes()).text)
    except NotANote as error:
        raise NotPublished(f"{file} is there, and is no checkpoint: {error}.") from None
    if (there.size, there.root) != (made.size, made.root):
        raise NotPublished(
            f"{file} was published with another root than the checkpoint of the same size: the log was written anew."
        )
