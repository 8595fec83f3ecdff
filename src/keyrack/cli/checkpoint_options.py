"""The checkpoints that a log is compared with: their sources, and the keys that are trusted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from keyrack.changelog.transparency import checkpoint_keys
from keyrack.changelog.transparency.checkpoint_publisher import NotPublished, of_log
from keyrack.changelog.transparency.checkpoints import list_checkpoints
from keyrack.changelog.transparency.export_format import Head
from keyrack.changelog.transparency.export_verifier import name_of
from keyrack.changelog.transparency.signed_notes import (
    BYTES,
    Checkpoint,
    NotAKey,
    NotANote,
    Note,
    NoteNotVerified,
    NotKnown,
    VerificationKey,
)
from keyrack.cli.output import CommandFailed
from keyrack.core.settings import Settings
from keyrack.db.connection import Statements

Trust = Callable[[str], list[VerificationKey]]  # the trusted keys for checkpoints of an origin


@dataclass
class VerifiedCheckpoints:
    """Checkpoints with a valid signature, and the times of those signatures that have one."""

    notes: list[Checkpoint] = field(default_factory=list[Checkpoint])
    times: list[int] = field(default_factory=list[int])
    kept: bool = False  # the checkpoints are stored with the log, so write access there can remove them
    others: int = 0  # checkpoints that only untrusted keys have signed
    unsigned: str | None = None  # why the checkpoints stored with the log were not compared

    def add(self, where: object, data: bytes, trust: Trust, *, head: Head | None = None) -> None:
        """Verify and add one checkpoint. Raises `CommandFailed`.

        With `head`, the checkpoint was stored beside this log. Then one that only untrusted keys have signed is
        counted, and one that covers only dropped records is skipped.
        """
        try:
            note = Note.read(data)
            checkpoint = Checkpoint.read(note.text)
            if head is not None and head.tree is not None and checkpoint.size < head.tree.size:
                return
            times = [time for time in note.verify(trust(checkpoint.origin)).values() if time is not None]
        except NotKnown as error:
            if head is not None:
                self.others += 1
                return
            raise CommandFailed(f"{where} is not a trusted checkpoint: {error}.") from None
        except (NotANote, NoteNotVerified) as error:
            raise CommandFailed(f"{where} is not a trusted checkpoint: {error}.") from None
        self.notes.append(checkpoint)
        self.times += [min(times)] if times else []


def trusted(texts: Iterable[str]) -> Trust:
    """Trust the keys of `--key`. Raises `CommandFailed`."""
    try:
        keys = [VerificationKey.read(text) for text in texts]
    except NotAKey as error:
        raise CommandFailed(f"--key: {error}.") from None
    if not keys:
        raise CommandFailed("A checkpoint is verified with a key that you trust. Pass the key with --key.")
    return lambda origin: keys


def own(secrets: list[bytes]) -> Trust:
    """Trust the keys in the key file of this node."""

    def trust(origin: str) -> list[VerificationKey]:
        server = origin.rpartition("/changes/")[0]
        return [signer.key for signer in checkpoint_keys.signers(secrets, origin, server)]

    return trust


@dataclass(frozen=True, slots=True)
class CheckpointComparison:
    """The checkpoint files, directory and keys that a log is compared with."""

    files: list[Path]
    directory: Path | None
    keys: list[str]

    @property
    def anything(self) -> bool:
        return bool(self.files) or self.directory is not None

    def compared(self, head: Head) -> VerifiedCheckpoints:
        """The checkpoints for an export, which has no key of its own. Raises `CommandFailed`."""
        if not self.anything and not self.keys:
            return VerifiedCheckpoints()
        return _given(self.files, self.directory, head, trusted(self.keys))

    async def of_database(self, sql: Statements, settings: Settings, head: Head) -> VerifiedCheckpoints:
        """The checkpoints for a log in the database. Raises `CommandFailed`.

        Without checkpoints in the options, those stored with the log; without keys, the keys of this node.
        """
        secrets = checkpoint_keys.read(settings)
        trust = own(secrets) if secrets and not self.keys else None
        if self.anything:
            return _given(self.files, self.directory, head, trust or trusted(self.keys))
        checkpoints = VerifiedCheckpoints(kept=True)
        if trust is None and not self.keys:
            checkpoints.unsigned = (
                f"{checkpoint_keys.path(settings)} is missing, so no signing key is trusted. See --key"
            )
            return checkpoints
        trust = trust or trusted(self.keys)
        for made in await list_checkpoints(sql, head.customer, head.epoch):
            where = f"The checkpoint of {made.size} records that is stored with the log"
            checkpoints.add(where, made.note.encode(), trust, head=head)
        return checkpoints


def _given(files: Iterable[Path], directory: Path | None, head: Head, trust: Trust) -> VerifiedCheckpoints:
    """The checkpoints in these files, and those of this log in a directory. Raises `CommandFailed`."""
    checkpoints, name = VerifiedCheckpoints(), name_of(head.customer, head.epoch)
    try:
        for file in files:
            checkpoints.add(file, _read(file), trust)
        published = list(of_log(directory, head.customer, head.epoch)) if directory is not None else []
        for file in published:
            checkpoints.add(file, _read(file), trust, head=head)
    except NotPublished as error:
        raise CommandFailed(f"{error}.") from None
    except OSError as error:
        raise CommandFailed(f"{error.filename or directory} cannot be read: {error.strerror or error}.") from None
    if directory is not None and not checkpoints.notes:
        raise CommandFailed(f"{directory} has no checkpoint of the log {name} that a trusted key has signed.")
    return checkpoints


def _read(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(BYTES + 1)
