"""Signing keys: what tokens are signed with. The newest signs; the others verify until their tokens have expired."""

from __future__ import annotations

from typing import Annotated, LiteralString

import typer

from keyrack.auth import signing_keys
from keyrack.cli.confirmation import NO_WAY_BACK, ConfirmationPreview
from keyrack.cli.database_session import DatabaseSession, command
from keyrack.cli.output import CommandFailed, CommandResult, ListResult

app = typer.Typer()

LIST: LiteralString = """
select kid, created_at as "createdAt", revoked_at as "revokedAt",
  row_number() over (partition by revoked_at is null order by created_at desc, kid) = 1 and revoked_at is null as signs
from signing_key order by created_at desc, kid
"""

# Of a key that is good: whether it is the one that signs, and how many there are who may have signed in with it
GOOD: LiteralString = """
select (select count(*) from manager where not is_disabled) as managers,
  kid = (select kid from signing_key where revoked_at is null order by created_at desc, kid limit 1) as signs
from signing_key where kid = $1 and revoked_at is null
"""

Kid = Annotated[str, typer.Argument(metavar="KID", help="Its id, as `signing-key list` shows it.")]


@command(app, "rotate")
async def rotate(session: DatabaseSession) -> CommandResult:
    """Sign with a new key from now on; tokens that an older one signed stay good until they expire."""
    kid = await signing_keys.rotate(session.sql, await session.vault())
    return CommandResult({"kid": kid}, f"Signing key {kid} signs from now on.")


async def _preview(session: DatabaseSession, kid: str) -> ConfirmationPreview | None:
    """Whose tokens would be refused; nobody's, if the key is revoked already or there is none."""
    row = await session.sql.fetchrow(GOOD, kid)
    if row is None:
        return None
    action = f"revoke signing key {kid} and have every token refused that it has signed"
    goes = {"managers who log in again": row["managers"]}
    return ConfirmationPreview(action, goes if row["signs"] else {}, NO_WAY_BACK)


@command(app, "revoke", preview=_preview)
async def revoke(session: DatabaseSession, kid: Kid) -> CommandResult:
    """Have every token that a key has signed refused at once. If it is the one that signs, a new one takes over."""
    revoked = await signing_keys.revoke(session.sql, await session.vault(), kid)
    if revoked is None:
        raise CommandFailed(f"There is no signing key {kid}.")
    since = f"was revoked at {revoked.at:%Y-%m-%d %H:%M} UTC already" if revoked.before else "is revoked"
    text = f"Signing key {kid} {since}: tokens that it signed are refused. {revoked.signs} signs."
    return CommandResult({"kid": kid, "revokedAt": revoked.at, "signs": revoked.signs}, text)


@command(app, "list")
async def list_(session: DatabaseSession) -> ListResult:
    """List the signing keys, the newest first."""
    rows = await session.sql.fetch(LIST)
    columns = {"KEY ID": "kid", "SIGNS": "signs", "SINCE": "createdAt", "REVOKED": "revokedAt"}
    return ListResult([dict(row) for row in rows], columns)
