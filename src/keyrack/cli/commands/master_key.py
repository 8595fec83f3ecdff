"""The master key, which encrypts the secrets in the database and is stored outside it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

import typer

from keyrack.auth import signing_keys
from keyrack.cli.cell_choice import CellName, DefaultCell, cell_of_call
from keyrack.cli.confirmation import ConfirmationPreview, Yes, agree
from keyrack.cli.database_opening import open_database
from keyrack.cli.database_session import DatabaseSession, Json, State, command, explained, read_settings
from keyrack.cli.output import CommandFailed, CommandResult, ListResult, show
from keyrack.core.settings import Settings
from keyrack.db import worker_wakeup
from keyrack.db.connection import Database
from keyrack.db.encryption import master_keys, rotation
from keyrack.db.encryption.bootstrap import open_vault
from keyrack.db.encryption.master_keys import MasterKeyError
from keyrack.drivers import push_keys
from keyrack.offline_keys import issuing_keys
from keyrack.webhooks import subscriptions
from keyrack.webhooks.delivery_errors import SECRETS_LOST

app = typer.Typer()

RETIRED = "Nodes that have only this key can no longer read secrets."


def _on_database(
    state: Path | None,
    cell_name: str | None,
    as_json: bool,
    work: Callable[[Database, Settings], Awaitable[CommandResult]],
) -> None:
    """Run work that manages its own transactions."""

    async def run() -> CommandResult:
        cell = await cell_of_call(read_settings(state), cell_name, {})
        async with open_database(cell) as database:
            result = await work(database, cell.settings)
            await database.execute(worker_wakeup.ACCESS)
            return result

    explained(lambda: show(asyncio.run(run()), as_json), as_json=as_json)


@app.command("new")
def new(as_json: Json = False) -> None:
    """Print a new master key. Keyrack does not store it: keep it safe, apart from backups of the database."""
    key = master_keys.new()
    show(CommandResult({"key": key.text, "id": key.id}, key.text), as_json)


@command(app, "list", default=DefaultCell.ALL)
async def list_(session: DatabaseSession) -> ListResult:
    """List the master keys that decrypt the database, and which of them this node has."""
    key_ids = [key.id for key in master_keys.read(session.settings)]
    rows = [row | {"held": row["id"] in key_ids} for row in await rotation.masters(session.db)]
    return ListResult(rows, {"MASTER KEY": "id", "SINCE": "since", "OPENS": "opens", "HERE": "held"})


@app.command("rotate")
def rotate(state: State = None, cell: CellName = None, as_json: Json = False) -> None:
    """Re-encrypt all secrets for the first master key of this node; all nodes keep running."""

    async def work(database: Database, settings: Settings) -> CommandResult:
        rotated = await rotation.rotate(database, settings)
        text = f"{rotated.secrets} secrets re-encrypted. The master key is now {rotated.master}."
        if rotated.other_masters:
            others = ", ".join(rotated.other_masters)
            text += f" Give it to every node, then retire the other master keys: {others}."
        return CommandResult(
            {"secrets": rotated.secrets, "masterKey": rotated.master, "others": rotated.other_masters}, text
        )

    _on_database(state, cell, as_json, work)


@app.command("retire")
def retire(
    id: Annotated[str, typer.Argument(metavar="ID", help="Id of the key, from `master-key list`.")],
    yes: Yes = False,
    state: State = None,
    cell: CellName = None,
    as_json: Json = False,
) -> None:
    """Retire a master key, so that it decrypts nothing, once every node has another one."""

    async def work(database: Database, settings: Settings) -> CommandResult:
        if not yes:
            agree(ConfirmationPreview(f"retire master key {id}", then=RETIRED))
        await rotation.retire(database, settings, id)
        return CommandResult({"id": id}, f"Master key {id} is retired.")

    _on_database(state, cell, as_json, work)


@command(app, "reset")
async def reset(
    session: DatabaseSession,
    lose: Annotated[
        bool, typer.Option("--lose-secrets", help="Confirm the loss of all secrets that the key encrypted.")
    ] = False,
) -> CommandResult:
    """Start over after the loss of the master key: new signing keys, and disabled webhooks with new secrets."""
    try:
        await open_vault(session.db, session.settings)
    except MasterKeyError as error:
        if not lose:
            raise CommandFailed(
                f"{error} If it is lost for good, add --lose-secrets: it revokes all signing keys, and disables every "
                "webhook, with a new signing secret."
            ) from None
    else:
        raise CommandFailed(
            "The master key is available, so nothing is lost. To change it, run keyrack master-key rotate"
        )
    vault = await rotation.replace_all_keys(session.sql, session.settings)
    kid = await signing_keys.revoke_all(session.sql, vault)
    webhooks = await subscriptions.replace_all(session.sql, vault, SECRETS_LOST.text)
    authorities = await issuing_keys.lose_all(session.sql)
    await push_keys.lose(session.sql)
    text = f"Signing key {kid} now signs, and every older token is rejected. {webhooks} webhooks are disabled."
    if authorities:
        text += f" {authorities} customers have lost their key authority: enrol their boxes again."
    return CommandResult({"kid": kid, "webhooks": webhooks, "authorities": authorities}, text)
