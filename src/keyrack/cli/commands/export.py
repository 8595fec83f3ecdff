"""Exporting: a whole customer, written into files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from keyrack.cli.commands.import_customer import left_by_export
from keyrack.cli.database_session import CommandFailed, DatabaseSession, command
from keyrack.cli.options import Customer
from keyrack.cli.output import CommandResult
from keyrack.cli.progress import progress
from keyrack.ops.transfer.export_files import NotExported
from keyrack.ops.transfer.export_files import export as write_out

app = typer.Typer()

To = Annotated[Path, typer.Option("--to", metavar="DIR", help="A directory that is not there yet, or is empty.")]


@command(app, "export")
async def export(session: DatabaseSession, customer: Customer, to: To) -> CommandResult:
    """Write a whole customer into a directory: a file of JSON lines and one of CSV for each kind, and a manifest.

    All of it is of one moment. Passwords, keys and secrets are not in it.
    """
    target = to.absolute()
    with progress() as show_progress:
        try:
            manifest = await write_out(session.sql, customer, target, show_progress)
        except NotExported as error:
            raise CommandFailed(str(error)) from None
        except OSError as error:
            raise CommandFailed(f"{target} cannot be written: {error.strerror or error}.") from None
    rows = sum(file.rows for file in manifest.files if file.name.endswith(".jsonl"))
    value = manifest.model_dump(by_alias=True) | {"directory": str(target)}
    lines = [f"Customer {customer} exported to {target}: {rows:,} rows.", *left_by_export(manifest.left)]
    return CommandResult(value, "\n".join(lines))
