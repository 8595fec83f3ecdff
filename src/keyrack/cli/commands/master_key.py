"""The master key: what closes the secrets in the database, and is not in it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

import typer

from keyrack.auth import signing_keys
from keyrack.cli.confirmation import ConfirmationPreview, Yes, agree
from keyrack.cli.database_session import DatabaseSession, Json, State, command, explained, open_database, read_settings
from keyrack.cli.output import CommandFailed, CommandResult, ListResult, show
from keyrack.core.settings import Settings
from keyrack.db import worker_wakeup
from keyrack.db.connection import Database
from keyrack.db.encryption import master_keys, rotation
from keyrack.db.encryption.bootstrap import open_vault
from keyrack.db.encryption.master_keys import MasterKeyError
from keyrack.offline_keys import issuing_keys
from keyrack.webhooks import subscriptions
from keyrack.webhooks.delivery_errors import SECRETS_LOST

app = typer.Typer()

RETIRED = "A node that has no other key reads no secrets then."


def _on_database(
    state: Path | None, as_json: bool, work: Callable[[Database, Settings], Awaitable[CommandResult]]
) -> None:
    """Run what has transactions of its own."""

    async def run() -> CommandResult:
        settings = read_settings(state)
        async with open_database(settings) as database:
            result = await work(database, settings)
            await database.execute(worker_wakeup.ACCESS)
            return result

    explained(lambda: show(asyncio.run(run()), as_json), as_json=as_json)


@app.command("new")
def new(as_json: Json = False) -> None:
    """Print a new master key. It is stored nowhere: keep it safe, and apart from the database's backups."""
    key = master_keys.new()
    show(CommandResult({"key": key.text, "id": key.id}, key.text), as_json)


@command(app, "list")
async def list_(session: DatabaseSession) -> ListResult:
    """List the master keys that the database opens with, and which of them this node has."""
    key_ids = [key.id for key in master_keys.read(session.settings)]
    rows = [row | {"held": row["id"] in key_ids} for row in await rotation.masters(session.db)]
    return ListResult(rows, {"MASTER KEY": "id", "SINCE": "since", "OPENS": "opens", "HERE": "held"})


@app.command("rotate")
def rotate(state: State = None, as_json: Json = False) -> None:
    """Seal all secrets anew, for the first master key of this node; every other node goes on meanwhile."""

    async def work(database: Database, settings: Settings) -> CommandResult:
        rotated = await rotation.rotate(database, settings)
        text = f"{rotated.secrets} secrets sealed anew. The master key is {rotated.master} from now on."
        if rotated.other_masters:
            others = ", ".join(rotated.other_masters)
            text += f" Give it to every node, then retire what still opens the database: {others}."
        return CommandResult(
            {"secrets": rotated.secrets, "masterKey": rotated.master, "others": rotated.other_masters}, text
        )

    _on_database(state, as_json, work)


@app.command("retire")
def retire(
    id: Annotated[str, typer.Argument(metavar="ID", help="The key's id, as `master-key list` shows it.")],
    yes: Yes = False,
    state: State = None,
    as_json: Json = False,
) -> None:
    """Have a master key open nothing any more, once every node has another one."""

    async def work(database: Database, settings: Settings) -> CommandResult:
        if not yes:
            agree(ConfirmationPreview(f"have master key {id} open nothing any more", then=RETIRED))
        await rotation.retire(database, settings, id)
        return CommandResult({"id": id}, f"Master key {id} is retired.")

    _on_database(state, as_json, work)


@command(app, "reset")
async def reset(
    session: DatabaseSession,
    lose: Annotated[bool, typer.Option("--lose-secrets", help="Yes: give up everything that the key closed.")] = False,
) -> CommandResult:
    """Start anew after the master key was lost: new signing keys, and new signing secrets for disabled webhooks."""
    try:
        await open_vault(session.db, session.settings)
    except MasterKeyError as error:
        if not lose:
            raise CommandFailed(
                f"{error} If it is lost for good: --lose-secrets revokes all signing keys, gives every webhook a new "
                "signing secret, and disables it."
            ) from None
    else:
        raise CommandFailed("The master key is here: nothing is lost. To change it: keyrack master-key rotate")
    vault = await rotation.replace_all_keys(session.sql, session.settings)
    kid = await signing_keys.revoke_all(session.sql, vault)
    webhooks = await subscriptions.replace_all(session.sql, vault, SECRETS_LOST)
    authorities = await issuing_keys.lose_all(session.sql)
    text = f"Signing key {kid} signs from now on; every token of before is refused. {webhooks} webhooks are disabled."
    if authorities:
        text += f" {authorities} customers have lost their authority for keys: their boxes are to be enrolled anew."
    return CommandResult({"kid": kid, "webhooks": webhooks, "authorities": authorities}, text)
