"""Audit: export change logs with their proofs, and verify them."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Annotated, Any, LiteralString
from uuid import UUID

import typer

from keyrack.changelog.transparency import checkpoint_keys
from keyrack.changelog.transparency.checkpoints import make
from keyrack.changelog.transparency.export_format import LINE, Head, NotAnExport
from keyrack.changelog.transparency.export_reader import earlier, read
from keyrack.changelog.transparency.export_verifier import Mismatch, NotComparable, Verification, name_of
from keyrack.changelog.transparency.export_verifier import verify as verified
from keyrack.changelog.transparency.table_audit import ReplayDifference, replay
from keyrack.cli.audit_result import AuditContext, format_result
from keyrack.cli.cell_choice import CellName, cell_of_call
from keyrack.cli.checkpoint_options import CheckpointComparison, VerifiedCheckpoints
from keyrack.cli.database_opening import open_database
from keyrack.cli.database_session import DatabaseSession, State, command, explained
from keyrack.cli.environment import read_settings
from keyrack.cli.name_lookup import resolved
from keyrack.cli.options import whose
from keyrack.cli.output import CommandFailed, CommandResult, Json, show
from keyrack.cli.progress import ProgressReporter, progress

app = typer.Typer()

# The logs, and the origin name of each log's newest checkpoint
LOGS: LiteralString = """
select l.customer_id as of, l.epoch, (
  select split_part(c.note, E'\\n', 1) from change_checkpoint c
  where c.customer_id = l.customer_id and c.epoch = l.epoch order by c.size desc limit 1) as origin
from change_log l where $1::integer is null or l.customer_id = $1 order by l.customer_id
"""
NO_LOG = "There is no change log: nothing has been recorded yet."

File = Annotated[Path | None, typer.Argument(metavar="FILE", help="An exported log; - for standard input.")]
Checkpoints = Annotated[
    list[Path] | None,
    typer.Option("--checkpoint", metavar="NOTE", help="A checkpoint that was stored elsewhere. Repeatable."),
]
Directory = Annotated[
    Path | None,
    typer.Option("--checkpoints", metavar="DIR", help="A directory of published checkpoints."),
]
Keys = Annotated[
    list[str] | None,
    typer.Option("--key", metavar="NAME+HASH+KEY", help="A trusted key of checkpoints. Repeatable."),
]
To = Annotated[Path, typer.Option("--to", metavar="FILE", help="The new file to write.")]
Installation = Annotated[
    bool, typer.Option("--installation", help="The log of the installation: its managers and keys.")
]
Epoch = Annotated[
    UUID | None, typer.Option("--epoch", metavar="UUID", help="An ended epoch of the log. Default: the newest epoch.")
]
Tables = Annotated[bool, typer.Option("--tables", help="Also compare the log with the current tables.")]
OneCustomer = Annotated[int | None, whose("The log of this customer (id or name).")]


@command(app, "export")
async def export(
    session: DatabaseSession,
    to: To,
    customer: OneCustomer = None,
    installation: Installation = False,
    epoch: Epoch = None,
) -> CommandResult:
    """Export a change log to a file of JSON lines, with the proofs for `keyrack audit verify`.

    The export is one snapshot, and contains personal data: only its owner can read the file.
    """
    if (customer is None) is not installation:
        raise CommandFailed("Choose a log with --customer or --installation.")
    count = -1  # the first line describes the log
    try:
        with progress() as tell, _whole(to.absolute()) as file:
            async for line in read(session.sql, customer or 0, epoch):
                file.write(f"{line}\n".encode())
                count += 1
                if count and count % 1000 == 0:
                    tell(f"{count:,} changes written")
            if count < 0:
                raise CommandFailed(_none(epoch))
    except OSError as error:
        raise CommandFailed(f"{to} cannot be written: {error.strerror or error}.") from None
    return CommandResult({"changes": count, "file": str(to)}, f"{count:,} changes written to {to}.")


@contextmanager
def _whole(to: Path) -> Generator[IO[bytes]]:
    """A temporary file that is renamed to `to` when it is completely on disk. Raises `OSError`, `CommandFailed`."""
    if to.exists():
        raise CommandFailed(f"{to} already exists. Choose another file.")
    partial = to.with_name(f".{to.name}.{os.getpid()}.partial")
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.rename(to)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


@app.command("verify")
def verify(
    file: File = None,
    customer: OneCustomer = None,
    installation: Installation = False,
    epoch: Epoch = None,
    checkpoints: Checkpoints = None,
    directory: Directory = None,
    keys: Keys = None,
    tables: Tables = False,
    state: State = None,
    cell: CellName = None,
    as_json: Json = False,
) -> None:
    """Verify a change log in the database or in an export, and name the first inconsistency.

    Each change is compared with its record, and each record with the one before. Only a checkpoint that was stored
    elsewhere reveals a log that was rewritten from some number on.
    """

    def run() -> None:
        if (file is not None) + (customer is not None) + installation != 1:
            raise CommandFailed("Choose one log to verify: an export, --customer or --installation.")
        if file is not None and epoch is not None:
            raise CommandFailed("An export has only one epoch. Remove --epoch.")
        if tables and (file is not None or epoch is not None):
            raise CommandFailed("--tables compares the newest log in the database. Remove FILE and --epoch.")
        comparison, beside = CheckpointComparison(checkpoints or [], directory, keys or []), AuditContext()
        try:
            if file is None:
                verification, compared = asyncio.run(_stored(state, cell, customer, epoch, comparison, tables, beside))
            else:
                verification, compared = _exported(file, comparison)
        except Mismatch as error:
            raise CommandFailed(
                str(error), value={"valid": False, "change": error.number, "why": error.reason}
            ) from None
        except ReplayDifference as error:
            details = {"resource": error.resource, "resourceId": error.id, "member": error.member, "why": error.reason}
            raise CommandFailed(str(error), value={"valid": False, **details}) from None
        except (NotAnExport, NotComparable) as error:
            raise CommandFailed(f"{file or 'The log'} cannot be verified: {error}.") from None
        show(format_result(verification, compared, beside), as_json)

    explained(run, as_json=as_json)


async def _stored(
    state: Path | None,
    cell_name: str | None,
    customer: Any,
    epoch: UUID | None,
    comparison: CheckpointComparison,
    tables: bool,
    beside: AuditContext,
) -> tuple[Verification, VerifiedCheckpoints]:
    """Verify a log in the database, and store its other epochs and table comparison in `beside`.

    Raises as `Verification` does, `ReplayDifference` and `CommandFailed`.
    """
    verification: Verification | None = None
    compared, settings = VerifiedCheckpoints(), read_settings(state)
    cell = await cell_of_call(settings, cell_name, {"customer": customer})
    async with open_database(cell) as database:
        named = await resolved(database, {"customer": customer or 0})
        with progress() as tell:
            async with database.transaction() as sql:
                async for item in read(sql, named["customer"], epoch):
                    if isinstance(item, Head):
                        compared = await comparison.of_database(sql, settings, item)
                        verification = Verification(item, compared.notes)
                    elif verification is not None:
                        verification.take(item)
                        if verification.last % 1000 == 0:
                            tell(
                                f"{verification.last:,} of {verification.head.last:,} changes verified",
                                verification.last,
                                verification.head.last,
                            )
                if verification is None:
                    raise CommandFailed(_none(epoch))
                verification.end()
                over = await earlier(sql, named["customer"])
                beside.epochs = [row for row in over if row["epoch"] != verification.head.epoch]
                if tables:
                    beside.tables = await replay(sql, named["customer"], lambda count: tell(f"{count:,} rows compared"))
    return verification, compared


def _none(epoch: UUID | None) -> str:
    return NO_LOG if epoch is None else f"The log has no epoch {epoch}, or has dropped all of it."


def _exported(file: Path, comparison: CheckpointComparison) -> tuple[Verification, VerifiedCheckpoints]:
    """Verify an export. Raises as `verify` does, and `CommandFailed`."""
    try:
        with progress() as tell, _opened(file) as opened:
            lines = _lines(opened, tell)
            first = next(lines, b"")
            compared = comparison.compared(Head.read(first))
            return verified(chain([first], lines), compared.notes), compared
    except OSError as error:
        raise CommandFailed(f"{file} cannot be read: {error.strerror or error}.") from None


@command(app, "checkpoint")
async def checkpoint(
    session: DatabaseSession, customer: OneCustomer = None, installation: Installation = False
) -> CommandResult:
    """Create and print a checkpoint of a log, unless the newest checkpoint covers all of it."""
    if (customer is None) is not installation:
        raise CommandFailed("Choose a log with --customer or --installation.")
    made = await make(session.sql, session.settings, customer or 0)
    if made is None:
        raise CommandFailed(NO_LOG)
    return CommandResult(made.as_json(), made.note.removesuffix("\n"))


@command(app, "keys")
async def keys(
    session: DatabaseSession, customer: OneCustomer = None, installation: Installation = False
) -> CommandResult:
    """Print the keys that verify checkpoints: those of logs, and those of signing times.

    A node without a signing key creates its key file, KEYRACK_CHECKPOINT_KEY_FILE. Every worker needs the same file.
    """
    secrets, settings = checkpoint_keys.make(session.settings), session.settings
    if customer is not None and installation:
        raise CommandFailed("Choose one log: --customer or --installation.")
    logs = await session.sql.fetch(LOGS, 0 if installation else customer)
    if not logs and (installation or customer is not None):
        raise CommandFailed(NO_LOG)
    names = [row["origin"] or f"{checkpoint_keys.server(settings)}/{name_of(row['of'], row['epoch'])}" for row in logs]
    servers = {name.rpartition("/changes/")[0]: None for name in names} or {checkpoint_keys.server(settings): None}
    entries = [
        {"customerId": row["of"], "epoch": str(row["epoch"]), "use": "log", "key": str(signer.key)}
        for row, name in zip(logs, names, strict=True)
        for signer in checkpoint_keys.signers(secrets, name, name.rpartition("/changes/")[0])[::2]
    ] + [
        {"customerId": None, "epoch": None, "use": "time", "key": str(signer.key)}
        for server in servers
        for signer in checkpoint_keys.signers(secrets, server, server)[1::2]
    ]
    return CommandResult({"keys": entries}, "\n".join(str(entry["key"]) for entry in entries))


@contextmanager
def _opened(file: Path) -> Generator[IO[bytes]]:
    if str(file) == "-":
        yield sys.stdin.buffer
        return
    with file.open("rb") as opened:
        yield opened


def _lines(file: IO[bytes], tell: ProgressReporter) -> Iterator[bytes]:
    """The lines of a file, with reports of progress. Raises `NotAnExport` for a line that is too long."""
    count = 0
    while line := file.readline(LINE + 1):
        if len(line) > LINE:
            raise NotAnExport(f"line {count + 1} has more than {LINE} bytes")
        yield line
        count += 1
        if count % 1000 == 0:
            tell(f"{count:,} lines verified")
