"""The common parts of SDK keys and device keys: the name, and the command `revoke`."""

from __future__ import annotations

from typing import Annotated, LiteralString

import typer

from keyrack.cli.database_session import DatabaseSession, command
from keyrack.cli.options import which, words
from keyrack.cli.output import CommandFailed, CommandResult

REVOKE: LiteralString = """
with k as (select revoked_at from {table} where {table}_id = $1 for update),
u as (update {table} set revoked_at = now() where {table}_id = $1 and revoked_at is null)
select revoked_at from k
"""

Name = Annotated[str, typer.Option("--name", callback=words, help="The user of the key.")]


def revocable(app: typer.Typer, table: LiteralString, noun: str) -> None:
    """Add the command `revoke` for the keys in `table`; messages call them `noun`."""
    revoked: LiteralString = REVOKE.replace("{table}", table)

    async def revoke(session: DatabaseSession, id: int) -> CommandResult:
        """Revoke a key; it is rejected at once."""
        row = await session.sql.fetchrow(revoked, id)
        if row is None:
            raise CommandFailed(f"There is no {noun} {id}.")
        if row["revoked_at"] is not None:
            raise CommandFailed(f"{noun} {id} was already revoked at {row['revoked_at']:%Y-%m-%d %H:%M} UTC.")
        return CommandResult({"id": id}, f"{noun} {id} revoked.")

    revoke.__annotations__["id"] = Annotated[int, which(table)]
    command(app, "revoke")(revoke)
