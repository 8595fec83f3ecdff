"""API keys: the subscriptions that may call the API at all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, LiteralString

import typer

from keyrack.cli.database_session import SHOWN_ONCE, DatabaseSession, command
from keyrack.cli.options import which, words
from keyrack.cli.output import CommandFailed, CommandResult, ListResult
from keyrack.core import secret_hashes

app = typer.Typer()

LAST_DAY = datetime(9999, 12, 30, 23, 59, 59, tzinfo=UTC)  # from here it is a day to the end of the calendar

INSERT: LiteralString = "insert into api_key (name, hash, expires_at) values ($1, $2, $3) returning api_key_id"
LIST: LiteralString = """
select api_key_id as id, name, created_at as "createdAt", expires_at as "expiresAt", revoked_at as "revokedAt",
  revoked_at is null and (expires_at is null or expires_at > now()) as "isActive"
from api_key order by api_key_id
"""
REVOKE: LiteralString = """
with k as (select revoked_at from api_key where api_key_id = $1 for update),
u as (update api_key set revoked_at = now() where api_key_id = $1 and revoked_at is null)
select revoked_at from k
"""


def last_day(value: str | None) -> str | None:
    """A day that has not passed."""
    if value is None:
        return None
    try:
        over = end_of_day(value)
    except ValueError:
        raise typer.BadParameter(f"{value!r} is no date: the form is YYYY-MM-DD") from None
    if over <= datetime.now(UTC):
        raise typer.BadParameter(f"{value} has passed")
    return value


def end_of_day(day: str) -> datetime:
    """When a day is over in UTC, at most the last second of the calendar. Raises `ValueError`."""
    begins = datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=UTC)
    return min(begins, LAST_DAY) + timedelta(days=1)


@command(app, "add")
async def add(
    session: DatabaseSession,
    name: Annotated[str, typer.Argument(metavar="NAME", callback=words, help="Who uses the key, and for what.")],
    expires: Annotated[
        str | None,
        typer.Option("--expires", metavar="YYYY-MM-DD", callback=last_day, help="The last day (UTC) that it is good."),
    ] = None,
) -> CommandResult:
    """Add an API key."""
    end = None if expires is None else end_of_day(expires)
    secret = secret_hashes.new_secret()
    id = await session.sql.fetchval(INSERT, name, secret_hashes.digest(secret), end)
    return CommandResult({"id": id, "apiKey": secret}, f"API key {id} added: {secret}\n{SHOWN_ONCE}")


@command(app, "list")
async def list_(session: DatabaseSession) -> ListResult:
    """List all API keys."""
    rows = await session.sql.fetch(LIST)
    columns = {
        "ID": "id", "NAME": "name", "ACTIVE": "isActive", "SINCE": "createdAt", "EXPIRES": "expiresAt",
        "REVOKED": "revokedAt",
    }  # fmt: skip
    return ListResult([dict(row) for row in rows], columns)


@command(app, "revoke")
async def revoke(session: DatabaseSession, id: Annotated[int, which("api_key")]) -> CommandResult:
    """Revoke an API key; it is refused at once."""
    row = await session.sql.fetchrow(REVOKE, id)
    if row is None:
        raise CommandFailed(f"There is no API key {id}.")
    if row["revoked_at"] is not None:
        raise CommandFailed(f"API key {id} is revoked already, since {row['revoked_at']:%Y-%m-%d %H:%M} UTC.")
    return CommandResult({"id": id}, f"API key {id} revoked.")
