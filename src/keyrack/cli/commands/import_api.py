"""The command `import api`, which reads a whole customer from another server by its API."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from keyrack.api.schema.request_body import INT32_MAX
from keyrack.cli.cell_choice import CellName, cell_of_call
from keyrack.cli.commands.import_customer import app as app
from keyrack.cli.database_opening import open_database
from keyrack.cli.database_session import CommandFailed, Json, State, explained, read_settings, tell
from keyrack.cli.name_lookup import resolved
from keyrack.cli.options import Customer
from keyrack.cli.output import CommandResult, ListResult, show, table, visible
from keyrack.cli.progress import progress
from keyrack.core.api_client.credentials import Login, ServerAddress
from keyrack.core.api_client.responses import ApiError
from keyrack.core.api_client.retries import RetryPolicy
from keyrack.core.api_client.session import Client
from keyrack.db.change_notifier import TOPICS
from keyrack.db.connection import Database
from keyrack.ops.transfer.api_source import API_RECORD_TYPES, ApiSource
from keyrack.ops.transfer.compare import RowComparison, compare
from keyrack.ops.transfer.import_api import NotImportable, begin, check_target, import_rows, missing_references
from keyrack.ops.transfer.row_writer import DuplicateAddress

# Limits of a request to the source: attempts, and seconds of a pause and of Retry-After
TRIES, LONGEST, MAX_RETRY_AFTER = 30, 30.0, 900.0
NOT_IN_API = (
    "The API does not provide these; set them up here:",
    "- types and passwords of users: all are {type} users without a password; PUT /users sets one only for new users.",
    "- API keys, managers, SDK keys, device keys: create new ones with keyrack api-key, manager, sdk-key, device-key.",
    "- webhooks and their secrets: register them with keyrack webhook add before you stop the source.",
    "- past telemetry and positions: units deliver new data as soon as they are connected here.",
)
SECRETS = {"KEYRACK_SOURCE_API_KEY": "API key", "KEYRACK_SOURCE_PASSWORD": "Password"}

Url = Annotated[
    str, typer.Option("--url", envvar="KEYRACK_SOURCE_URL", help="The source, such as https://source.example/v3.")
]
Of = Annotated[
    int,
    typer.Option(
        "--source-customer",
        envvar="KEYRACK_SOURCE_CUSTOMER_ID",
        min=1,
        max=INT32_MAX,
        help="The Customer-ID at the source.",
    ),
]
User = Annotated[
    str, typer.Option("--username", envvar="KEYRACK_SOURCE_USERNAME", help="The manager's user name at the source.")
]
Brand = Annotated[
    str, typer.Option("--brand", envvar="KEYRACK_SOURCE_BRAND", help="Brand of the API key header at the source.")
]
Pace = Annotated[
    float, typer.Option("--per-second", min=0.1, max=1000, help="Maximum requests per second to the source.")
]
Type = Annotated[
    Literal["Anonymous", "Normal"],
    typer.Option("--user-type", help="Type of the imported users, which the API does not provide."),
]
Merge = Annotated[bool, typer.Option("--merge", help="Import into a customer that already has data.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Count the rows to import, and change nothing.")]


@app.command("api")
def api(
    url: Url,
    customer: Customer,
    source_customer: Of,
    username: User,
    brand: Brand = "vendor",
    per_second: Pace = 20,
    user_type: Type = "Anonymous",
    merge: Merge = False,
    dry_run: DryRun = False,
    state: State = None,
    cell: CellName = None,
    as_json: Json = False,
) -> None:
    """Import a whole customer from another server with this API into an empty customer.

    API key and password come from KEYRACK_SOURCE_API_KEY and KEYRACK_SOURCE_PASSWORD, from the files in the same
    variables with _FILE, or from a prompt. To continue an interrupted import, run it again. At the end both sides are
    compared; the exit status is 1 if they differ.
    """

    def run() -> None:
        key, password = (_secret(name) for name in SECRETS)
        server = ServerAddress(url, key, source_customer, brand)
        patience = RetryPolicy(
            attempts=TRIES, max_pause=LONGEST, max_retry_after=MAX_RETRY_AFTER, per_second=per_second
        )

        async def work() -> dict[str, Any]:
            of_call = await cell_of_call(read_settings(state), cell, {"customer": customer})
            async with (
                open_database(of_call) as db,
                Client(server, Login(username, password), patience=patience) as client,
            ):
                whose: int = (await resolved(db, {"customer": customer}))["customer"]
                source = ApiSource(client, user_type)
                await source.check(source_customer)
                origin = f"{server.base} customer {source_customer}"
                if dry_run:
                    await check_target(db, whose, origin, merge=merge)
                    return await _dry_run(db, source, whose)
                await begin(db, whose, origin, merge=merge)
                return await _brought(db, of_call.settings, source, whose)

        try:
            result = asyncio.run(work())
        except (ApiError, DuplicateAddress, NotImportable) as error:
            raise CommandFailed(str(error)) from None
        _say(result, user_type, as_json)
        if result.get("agrees") is False:
            raise typer.Exit(1)

    explained(run)


def _secret(name: str) -> str:
    """A secret from the environment, a file or a prompt. Raises `CommandFailed`."""
    by_file = os.environ.get(f"{name}_FILE")
    if by_file:
        try:
            return Path(by_file).read_text("utf-8").strip()
        except (OSError, ValueError) as error:
            raise CommandFailed(f"{name}_FILE, {by_file}, cannot be read: {error}.") from None
    if given := os.environ.get(name):
        return given
    if sys.stdin.isatty():
        return typer.prompt(SECRETS[name], hide_input=True, err=True)
    raise CommandFailed(f"{name} is not set. Set it, or set {name}_FILE to the path of a file.")


async def _brought(db: Database, settings: Any, source: ApiSource, customer: int) -> dict[str, Any]:
    with progress() as show_progress:
        arrived = await import_rows(
            db, settings, source, customer, lambda kind, done: show_progress(f"{kind}: {done:,} read")
        )
    await tell(db, customer, frozenset(TOPICS))
    with progress() as show_progress:
        compared = await compare(db, source, customer, lambda kind, done: show_progress(f"{kind}: {done:,} compared"))
    return {
        "kinds": [_row(comparison) | {"new": arrived.new[comparison.kind]} for comparison in compared],
        "refused": arrived.refused,
        "differences": [text for comparison in compared for text in comparison.messages],
        "agrees": all(comparison.agrees for comparison in compared),
    }


def _row(comparison: RowComparison) -> dict[str, Any]:
    return {
        "kind": comparison.kind,
        "source": comparison.source,
        "here": comparison.here,
        "different": comparison.different,
    }


async def _dry_run(db: Database, source: ApiSource, customer: int) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    with progress() as show_progress:
        for kind in API_RECORD_TYPES:
            row: dict[str, Any] = {"kind": kind.name, "source": 0, "coming": 0}
            async for page in source.pages(kind):
                row["source"] += len(page)
                row["coming"] += len(await missing_references(db, customer, kind, page))
                show_progress(f"{kind.name}: {row['source']:,} counted")
            rows.append(row)
    return {"kinds": rows, "dryRun": True}


def _say(result: dict[str, Any], user_type: str, as_json: bool) -> None:
    if as_json:
        show(CommandResult(result, ""), as_json)
        return
    for line in _lines(result, user_type):
        typer.echo(visible(line))


def _lines(result: dict[str, Any], user_type: str) -> Sequence[str]:
    if "dryRun" in result:
        return table(ListResult(result["kinds"], {"KIND": "kind", "SOURCE": "source", "TO IMPORT": "coming"}))
    columns = {"KIND": "kind", "SOURCE": "source", "HERE": "here", "DIFFERENT": "different", "NEW": "new"}
    wrong = [*result["refused"], *result["differences"]]
    verdict = (
        "Both sides agree." if result["agrees"] else "The sides differ. Fix the causes, then run the import again:"
    )
    not_in_api = [line.format(type=user_type) for line in NOT_IN_API]
    return [*table(ListResult(result["kinds"], columns)), "", verdict, *wrong, "", *not_in_api]
