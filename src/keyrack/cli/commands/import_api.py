"""Moving in from another server: `keyrack import api`, which reads a whole customer by the API."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from keyrack.api.schema.request_body import INT32_MAX
from keyrack.cli.commands.import_customer import app as app
from keyrack.cli.database_session import CommandFailed, Json, State, explained, open_database, read_settings, tell
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
from keyrack.ops.transfer.api_source import TOLD, ApiSource
from keyrack.ops.transfer.compare import RowComparison, compare
from keyrack.ops.transfer.import_api import NotImportable, begin, check_target, import_rows, missing_references
from keyrack.ops.transfer.row_writer import DuplicateAddress

TRIES, LONGEST, TOLD_WAIT = 30, 30.0, 900.0  # of a request: how often, and seconds that are waited for the source
NOT_TOLD = (
    "What the API does not tell, and what to do about it:",
    "- types and passwords of users: all are {type} users without one; PUT /users gives one only to who is new.",
    "- API keys, managers, SDK keys, device keys: keyrack api-key, manager, sdk-key and device-key make new ones.",
    "- webhooks and their secrets: register them here (keyrack webhook add), before the source is switched off.",
    "- telemetry and positions of the past: units tell new ones as soon as they deliver here.",
)
SECRETS = {"KEYRACK_SOURCE_API_KEY": "API key", "KEYRACK_SOURCE_PASSWORD": "Password"}

Url = Annotated[
    str, typer.Option("--url", envvar="KEYRACK_SOURCE_URL", help="The source, as in https://source.example/v3.")
]
Of = Annotated[
    int,
    typer.Option(
        "--source-customer", envvar="KEYRACK_SOURCE_CUSTOMER_ID", min=1, max=INT32_MAX, help="Its Customer-ID there."
    ),
]
User = Annotated[str, typer.Option("--username", envvar="KEYRACK_SOURCE_USERNAME", help="The manager's name there.")]
Brand = Annotated[str, typer.Option("--brand", envvar="KEYRACK_SOURCE_BRAND", help="Of the API key's header there.")]
Pace = Annotated[float, typer.Option("--per-second", min=0.1, max=1000, help="Requests to the source, at most.")]
Type = Annotated[
    Literal["Anonymous", "Normal"], typer.Option("--user-type", help="What users become: the API does not tell it.")
]
Merge = Annotated[
    bool, typer.Option("--merge", help="Import into a customer that has cars, users or other rows of its own.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Count what would come, and change nothing.")]


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
    as_json: Json = False,
) -> None:
    """Import a whole customer from any server that speaks this API, into an empty customer of this one.

    API key and password are those of KEYRACK_SOURCE_API_KEY and KEYRACK_SOURCE_PASSWORD, or in the files that the same
    names with _FILE say; they are asked for where there are none. Broken off, it goes on when it is run again, and
    writes nothing twice. It ends with a comparison of both sides; the exit status is 1 where they differ.
    """

    def run() -> None:
        key, password = (_secret(name) for name in SECRETS)
        server = ServerAddress(url, key, source_customer, brand)
        patience = RetryPolicy(attempts=TRIES, max_pause=LONGEST, max_retry_after=TOLD_WAIT, per_second=per_second)

        async def work() -> dict[str, Any]:
            async with (
                open_database(read_settings(state)) as db,
                Client(server, Login(username, password), patience=patience) as client,
            ):
                whose: int = (await resolved(db, {"customer": customer}))["customer"]
                source = ApiSource(client, user_type)
                await source.check(source_customer)
                origin = f"{server.base} customer {source_customer}"
                if dry_run:
                    await check_target(db, whose, origin, merge=merge)
                    return await _foretold(db, source, whose)
                await begin(db, whose, origin, merge=merge)
                return await _brought(db, read_settings(state), source, whose)

        try:
            result = asyncio.run(work())
        except (ApiError, DuplicateAddress, NotImportable) as error:
            raise CommandFailed(str(error)) from None
        _say(result, user_type, as_json)
        if result.get("agrees") is False:
            raise typer.Exit(1)

    explained(run)


def _secret(name: str) -> str:
    """A secret of the environment, of a file, or asked for. Raises `CommandFailed`."""
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
    raise CommandFailed(f"{name} is not set, nor {name}_FILE: the source asks for it.")


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


async def _foretold(db: Database, source: ApiSource, customer: int) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    with progress() as show_progress:
        for kind in TOLD:
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
        return table(ListResult(result["kinds"], {"KIND": "kind", "SOURCE": "source", "WOULD COME": "coming"}))
    columns = {"KIND": "kind", "SOURCE": "source", "HERE": "here", "DIFFERENT": "different", "NEW": "new"}
    wrong = [*result["refused"], *result["differences"]]
    verdict = (
        "Both sides agree." if result["agrees"] else "They do not agree. What can be mended, mend; then run it again:"
    )
    not_told = [line.format(type=user_type) for line in NOT_TOLD]
    return [*table(ListResult(result["kinds"], columns)), "", verdict, *wrong, "", *not_told]
