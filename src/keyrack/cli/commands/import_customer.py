"""Import of a customer from an export, and the table of old and new ids."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, LiteralString

import typer

from keyrack.cli.cell_choice import DefaultCell
from keyrack.cli.commands.import_catalog import app
from keyrack.cli.database_session import CommandFailed, DatabaseSession, command
from keyrack.cli.options import Customer, words
from keyrack.cli.output import CommandResult, ListResult
from keyrack.cli.progress import progress
from keyrack.db.change_notifier import TOPICS, Topics
from keyrack.ops.transfer.import_files import ImportMismatch, import_export
from keyrack.ops.transfer.manifest import ExportIncomplete
from keyrack.ops.transfer.row_writer import DuplicateAddress

TOPICS_CHANGED: Topics = frozenset(TOPICS)

# Things that an export omits, and what to do about each
LEFT = {
    "passwords": "{count} users had a password, and have none here: PUT /users sets one only for new users.",
    "webhookSecrets": "{count} webhooks have secrets: they are imported disabled, with new signing secrets. Give these"
    " to the receivers (keyrack webhook rotate-secret ID), then run keyrack webhook change ID --enable.",
    "deviceKeys": "{count} device keys: create new ones with keyrack device-key add, and install them in the units.",
    "sdkKeys": "{count} SDK keys: create new ones with keyrack sdk-key add, and install them in the apps.",
    "boxes": "{count} boxes accept offline keys: reset them, and enrol them here (docs/keys.md).",
    "phones": "{count} phones get offline keys: their apps must register them again.",
    "driverAccounts": "{count} users had an account of the drivers' app: invite them to the app again.",
    "managers": "{count} managers may act for the customer: add them with keyrack manager add or manager change.",
}
IDS: LiteralString = """
select kind, old_id as "oldId", new_id as "newId" from imported_id
where customer_id = $1 and ($2::text is null or kind = $2) order by kind, old_id
"""


def left_by_export(left: dict[str, int]) -> list[str]:
    """The to-do list for data that no file contains."""
    lines = [f"- {text.format(count=left[name])}" for name, text in LEFT.items() if left.get(name)]
    return ["An export contains no secrets. To do after the import:", *lines] if lines else []


Directory = Annotated[Path, typer.Argument(metavar="DIR", help="A directory written by `keyrack export`.")]
NewName = Annotated[str | None, typer.Option("--name", callback=words, help="New name of the customer.")]


@command(app, "customer", topics=TOPICS_CHANGED, default=DefaultCell.FEWEST_CUSTOMERS)
async def customer(session: DatabaseSession, directory: Directory, name: NewName = None) -> CommandResult:
    """Import an export as a new customer: all of it or nothing, and each export only once.

    All rows get new ids: `keyrack import ids` lists them. A user whose e-mail address already exists becomes a user of
    the customer, and stays unchanged.
    """
    with progress() as show_progress:
        try:
            id, manifest, counts = await import_export(
                session.db, session.sql, await session.vault(), directory, name, show_progress
            )
        except (ExportIncomplete, ImportMismatch, DuplicateAddress) as error:
            raise CommandFailed(str(error)) from None
        except KeyError as error:
            raise CommandFailed(f"{directory}: a row lacks the field {error}.") from None
    value = {"id": id, "from": manifest.customer.id, "moment": manifest.moment, "rows": counts, "left": manifest.left}
    lines = [f"Customer {id} imported, with all rows of the export.", *left_by_export(manifest.left)]
    return CommandResult(value, "\n".join([f"{count:>9,}  {kind}" for kind, count in counts.items()] + lines))


@command(app, "ids", topics=TOPICS_CHANGED)
async def ids(
    session: DatabaseSession,
    customer: Customer,
    kind: Annotated[str | None, typer.Option("--kind", help="Show only this kind, such as cars.")] = None,
) -> ListResult:
    """List the old and new ids of an imported customer."""
    rows = await session.sql.fetch(IDS, customer, kind)
    return ListResult([dict(row) for row in rows], {"KIND": "kind", "OLD": "oldId", "NEW": "newId"})
