"""API keys: every call of the API needs one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, LiteralString

import typer

from keyrack.cli.cell_choice import DefaultCell
from keyrack.cli.database_session import SHOWN_ONCE, DatabaseSession, command
from keyrack.cli.key_revocation import revocable
from keyrack.cli.options import words
from keyrack.cli.output import CommandResult, ListResult
from keyrack.core import secret_hashes

app = typer.Typer()

LAST_DAY = datetime(9999, 12, 30, 23, 59, 59, tzinfo=UTC)  # a day before the end of the calendar

INSERT: LiteralString = "insert into api_key (name, hash, expires_at) values ($1, $2, $3) returning api_key_id"
LIST: LiteralString = """
select api_key_id as id, name, created_at as "createdAt", expires_at as "expiresAt", revoked_at as "revokedAt",
  revoked_at is null and (expires_at is null or expires_at > now()) as "isActive"
from api_key order by api_key_id
"""


def last_day(value: str | None) -> str | None:
    """A date that is not in the past."""
    if value is None:
        return None
    try:
        over = end_of_day(value)
    except ValueError:
        raise typer.BadParameter(f"{value!r} is not a date such as 2026-01-31") from None
    if over <= datetime.now(UTC):
        raise typer.BadParameter(f"{value} is in the past")
    return value


def end_of_day(day: str) -> datetime:
    """The end of a day in UTC, at most the last second of the calendar. Raises `ValueError`."""
    begins = datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=UTC)
    return min(begins, LAST_DAY) + timedelta(days=1)


@command(app, "add")
async def add(
    session: DatabaseSession,
    name: Annotated[str, typer.Argument(metavar="NAME", callback=words, help="The user and the purpose of the key.")],
    expires: Annotated[
        str | None,
        typer.Option("--expires", metavar="YYYY-MM-DD", callback=last_day, help="Last day of validity (UTC)."),
    ] = None,
) -> CommandResult:
    """Add an API key."""
    end = None if expires is None else end_of_day(expires)
    secret = secret_hashes.new_secret()
    id = await session.sql.fetchval(INSERT, name, secret_hashes.digest(secret), end)
    return CommandResult({"id": id, "apiKey": secret}, f"API key {id} added: {secret}\n{SHOWN_ONCE}")


@command(app, "list", default=DefaultCell.ALL)
async def list_(session: DatabaseSession) -> ListResult:
    """List all API keys."""
    rows = await session.sql.fetch(LIST)
    columns = {
        "ID": "id", "NAME": "name", "ACTIVE": "isActive", "SINCE": "createdAt", "EXPIRES": "expiresAt",
        "REVOKED": "revokedAt",
    }  # fmt: skip
    return ListResult([dict(row) for row in rows], columns)


revocable(app, "api_key", "API key")
