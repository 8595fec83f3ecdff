"""The command `export`, which writes a whole customer to files."""

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

To = Annotated[Path, typer.Option("--to", metavar="DIR", help="A new or empty directory.")]


@command(app, "export")
async def export(session: DatabaseSession, customer: Customer, to: To) -> CommandResult:
    """Export a whole customer to a directory: JSON lines and CSV for each kind of row, and a manifest.

    The export is one snapshot. It contains no passwords, keys or secrets.
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
