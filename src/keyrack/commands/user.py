"""Users: what is stored about a person, and how it is erased."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from keyrack.access import privacy
from keyrack.commands.printing import Said
from keyrack.commands.session import Failed, Session, command

app = typer.Typer()

Who = Annotated[str, typer.Argument(metavar="USER", help="The user's id or e-mail address.")]


async def _found(session: Session, who: str) -> int:
    id = await privacy.find(session.sql, who)
    if id is None:
        raise Failed(f"There is no user {who}.")
    return id


@command(app, "export")
async def export(session: Session, who: Who) -> Said:
    """Print everything that is stored about a person, as JSON."""
    value = await privacy.export(session.sql, await _found(session, who))
    return Said(value, json.dumps(value, indent=2, ensure_ascii=False))


@command(app, "erase")
async def erase(
    session: Session,
    who: Who,
    yes: Annotated[bool, typer.Option("--yes", help="Do it: there is no way back.")] = False,
) -> Said:
    """Erase a person everywhere; assignments end by webhook, events stay without the person."""
    id = await _found(session, who)
    if not yes:
        raise Failed("This erases the person everywhere and cannot be undone. To do it, add --yes.")
    held = await privacy.memberships(session.sql, id)
    await session.settle(*held)
    await privacy.lock(session.sql, id)
    if await privacy.memberships(session.sql, id) != held:
        raise Failed("The person has just been added to another customer. Nothing was erased; please try again.")
    events = await privacy.erase(session.sql, id)
    return Said({"id": id, "events": events}, f"User {id} erased; {events} events stay without the person.")
