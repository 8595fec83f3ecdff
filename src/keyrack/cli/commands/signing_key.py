"""Signing keys of tokens. The newest key signs; older keys verify until their tokens have expired."""

from __future__ import annotations

from typing import Annotated, LiteralString

import typer

from keyrack.auth import signing_keys
from keyrack.cli.cell_choice import DefaultCell
from keyrack.cli.confirmation import NO_WAY_BACK, ConfirmationPreview
from keyrack.cli.database_session import DatabaseSession, command
from keyrack.cli.output import CommandFailed, CommandResult, ListResult

app = typer.Typer()

LIST: LiteralString = """
select kid, created_at as "createdAt", revoked_at as "revokedAt",
  row_number() over (partition by revoked_at is null order by created_at desc, kid) = 1 and revoked_at is null as signs
from signing_key order by created_at desc, kid
"""

# For a valid key: whether it signs, and the number of managers who may have logged in with it
GOOD: LiteralString = """
select (select count(*) from manager where not is_disabled) as managers,
  kid = (select kid from signing_key where revoked_at is null order by created_at desc, kid limit 1) as signs
from signing_key where kid = $1 and revoked_at is null
"""

Kid = Annotated[str, typer.Argument(metavar="KID", help="Id of the key, from `signing-key list`.")]


@command(app, "rotate")
async def rotate(session: DatabaseSession) -> CommandResult:
    """Create a new signing key; tokens signed by an older key stay valid until they expire."""
    kid = await signing_keys.rotate(session.sql, await session.vault())
    return CommandResult({"kid": kid}, f"Signing key {kid} now signs.")


async def _preview(session: DatabaseSession, kid: str) -> ConfirmationPreview | None:
    """The managers whose tokens are rejected; None if the key is unknown or already revoked."""
    row = await session.sql.fetchrow(GOOD, kid)
    if row is None:
        return None
    action = f"revoke signing key {kid} and reject every token that it has signed"
    goes = {"managers who log in again": row["managers"]}
    return ConfirmationPreview(action, goes if row["signs"] else {}, NO_WAY_BACK)


@command(app, "revoke", preview=_preview)
async def revoke(session: DatabaseSession, kid: Kid) -> CommandResult:
    """Revoke a signing key and reject its tokens at once. If it is the one that signs, a new key replaces it."""
    revoked = await signing_keys.revoke(session.sql, await session.vault(), kid)
    if revoked is None:
        raise CommandFailed(f"There is no signing key {kid}.")
    since = f"was already revoked at {revoked.at:%Y-%m-%d %H:%M} UTC" if revoked.before else "is revoked"
    text = f"Signing key {kid} {since}: tokens that it signed are rejected. {revoked.signs} now signs."
    return CommandResult({"kid": kid, "revokedAt": revoked.at, "signs": revoked.signs}, text)


@command(app, "list", default=DefaultCell.ALL)
async def list_(session: DatabaseSession) -> ListResult:
    """List the signing keys, newest first."""
    rows = await session.sql.fetch(LIST)
    columns = {"KEY ID": "kid", "SIGNS": "signs", "SINCE": "createdAt", "REVOKED": "revokedAt"}
    return ListResult([dict(row) for row in rows], columns)
