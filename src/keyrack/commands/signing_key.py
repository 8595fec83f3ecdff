"""Signing keys: what tokens are signed with. The newest signs; the others verify until their tokens have expired."""

from __future__ import annotations

from typing import LiteralString

import typer

from keyrack.access import auth
from keyrack.commands.session import Listed, Said, Session, command

app = typer.Typer()

LIST: LiteralString = """
select kid, created_at as "createdAt", row_number() over (order by created_at desc, kid) = 1 as signs
from signing_key order by created_at desc, kid
"""


@command(app, "rotate")
async def rotate(session: Session) -> Said:
    """Sign with a new key from now on; tokens that an older one signed stay good until they expire."""
    kid = await auth.rotate_signing_key(session.sql)
    return Said({"kid": kid}, f"Signing key {kid} signs from now on.")


@command(app, "list")
async def list_(session: Session) -> Listed:
    """List the signing keys, the newest first."""
    rows = await session.sql.fetch(LIST)
    return Listed([dict(row) for row in rows], {"KEY ID": "kid", "SIGNS": "signs", "SINCE": "createdAt"})
