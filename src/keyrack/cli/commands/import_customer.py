"""Moving in: a customer from an export, and the table of old and new numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, LiteralString

import typer

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

# What an export does not have, and what to do about it
LEFT = {
    "passwords": "{count} users have a password, and none there: PUT /users gives one only to who is new.",
    "webhookSecrets": "{count} webhooks have secrets: they are imported disabled, with new signing secrets. Tell these"
    " to the receivers (keyrack webhook rotate-secret ID), then keyrack webhook change ID --enable.",
    "deviceKeys": "{count} device keys: make new ones with keyrack device-key add, and give them to the units.",
    "sdkKeys": "{count} SDK keys: make new ones with keyrack sdk-key add, and give them to the apps.",
    "boxes": "{count} boxes take keys without a network: reset them, and enrol them there (docs/keys.md).",
    "phones": "{count} phones of users get such keys: their apps register them there anew.",
    "managers": "{count} managers may act for the customer: keyrack manager add, or allow those that are there.",
}
IDS: LiteralString = """
select kind, old_id as "oldId", new_id as "newId" from imported_id
where customer_id = $1 and ($2::text is null or kind = $2) order by kind, old_id
"""


def left_by_export(left: dict[str, int]) -> list[str]:
    """What is in no file, in words."""
    lines = [f"- {text.format(count=left[name])}" for name, text in LEFT.items() if left.get(name)]
    return ["Secrets are never written. What is to be done where it is imported:", *lines] if lines else []


Directory = Annotated[Path, typer.Argument(metavar="DIR", help="What `keyrack export` has written.")]
NewName = Annotated[str | None, typer.Option("--name", callback=words, help="Another name for the customer.")]


@command(app, "customer", topics=TOPICS_CHANGED)
async def customer(session: DatabaseSession, directory: Directory, name: NewName = None) -> CommandResult:
    """Import what `keyrack export` has written, as a new customer. All or nothing; the same export only once.

    Everything gets new numbers: `keyrack import ids` lists them. Users who are there already, by their e-mail address,
    become users of the customer and stay as they are.
    """
    with progress() as show_progress:
        try:
            id, manifest, counts = await import_export(
                session.db, session.sql, await session.vault(), directory, name, show_progress
            )
        except (ExportIncomplete, ImportMismatch, DuplicateAddress) as error:
            raise CommandFailed(str(error)) from None
        except KeyError as error:
            raise CommandFailed(f"{directory}: a row lacks the member {error}.") from None
    value = {"id": id, "from": manifest.customer.id, "moment": manifest.moment, "rows": counts, "left": manifest.left}
    lines = [f"Customer {id} imported: all rows of the export are there.", *left_by_export(manifest.left)]
    return CommandResult(value, "\n".join([f"{count:>9,}  {kind}" for kind, count in counts.items()] + lines))


@command(app, "ids", topics=TOPICS_CHANGED)
async def ids(
    session: DatabaseSession,
    customer: Customer,
    kind: Annotated[str | None, typer.Option("--kind", help="Only this kind, such as cars.")] = None,
) -> ListResult:
    """List which number of the source became which one here."""
    rows = await session.sql.fetch(IDS, customer, kind)
    return ListResult([dict(row) for row in rows], {"KIND": "kind", "OLD": "oldId", "NEW": "newId"})
