"""Persons: change the address, export the stored data, erase a person."""

from __future__ import annotations

import json
from typing import Annotated, LiteralString

import typer

from keyrack.cli.confirmation import NO_WAY_BACK, ConfirmationPreview
from keyrack.cli.database_session import DatabaseSession, command
from keyrack.cli.options import mailbox
from keyrack.cli.output import CommandFailed, CommandResult
from keyrack.core.addresses import address_form
from keyrack.core.errors import Conflict, on_constraint
from keyrack.db.change_notifier import APPLIED, Topics
from keyrack.db.other_cells import OtherCells
from keyrack.fleet import global_erasure, person_copies, person_export
from keyrack.fleet.person_lookup import SAME_ADDRESS, UNIQUE_ADDRESS

TOPICS_CHANGED: Topics = frozenset(("users", "groups")) | APPLIED

app = typer.Typer()

CHANGE: LiteralString = """
update person set email_address = $2, address_form = $3, has_address_conflict = false where user_id = $1
"""
STORED: LiteralString = """
select (select count(*) from customer_user where user_id = $1) as "memberships of customers",
  (select count(*) from group_user where user_id = $1) as "memberships of groups",
  (select count(*) from assignment where user_id = $1) as assignments,
  (select count(*) from operation where user_id = $1) as operations
"""

UserArgument = Annotated[str, typer.Argument(metavar="USER", help="The user's id or e-mail address.")]


async def _find_user(session: DatabaseSession, id_or_address: str) -> int:
    id = await person_export.find(session.sql, id_or_address)
    if id is None:
        raise CommandFailed(f"There is no user {id_or_address}.")
    return id


async def _is_in_other_cell(session: DatabaseSession, id: int, form: str) -> bool:
    """Whether another person of another cell has the address. Raises `Unavailable` unless all cells answer."""
    other_cells = OtherCells(session.settings)
    try:
        ids = await person_copies.ids_in_other_cells(other_cells, form, form, must_all_answer=True)
    finally:
        await other_cells.close()
    return any(other != id for other in ids.values())


@command(app, "change", topics=TOPICS_CHANGED)
async def change(
    session: DatabaseSession,
    user: UserArgument,
    address: Annotated[str, typer.Option("--address", metavar="ADDRESS", callback=mailbox, help="New e-mail address.")],
) -> CommandResult:
    """Change a person's e-mail address, for all customers."""
    id = await _find_user(session, user)
    form = address_form(address)
    if await _is_in_other_cell(session, id, form):
        raise Conflict(SAME_ADDRESS)
    with on_constraint(dict.fromkeys(UNIQUE_ADDRESS, (Conflict, SAME_ADDRESS))):
        await session.sql.execute(CHANGE, id, address, form)
    return CommandResult({"id": id, "emailAddress": address}, f"User {id} has the address {address}.")


@command(app, "export", topics=TOPICS_CHANGED)
async def export(session: DatabaseSession, user: UserArgument) -> CommandResult:
    """Print all stored data of a person as JSON."""
    value = await person_export.export(session.sql, await _find_user(session, user))
    return CommandResult(value, json.dumps(value, indent=2, ensure_ascii=False))


async def _preview(session: DatabaseSession, user: str) -> ConfirmationPreview:
    """The stored data of the person. Raises `CommandFailed`."""
    id = await _find_user(session, user)
    row = await session.sql.fetchrow(STORED, id)
    then = f"Events stay, without the person. {NO_WAY_BACK}"
    return ConfirmationPreview(f"erase person {id} everywhere", {} if row is None else dict(row), then)


@command(app, "erase", preview=_preview, topics=TOPICS_CHANGED)
async def erase(session: DatabaseSession, user: UserArgument) -> CommandResult:
    """Erase a person everywhere. Webhooks report ended assignments; events stay, without the person."""
    id = await _find_user(session, user)
    customers = await global_erasure.memberships(session.sql, id)
    await session.settle(*customers)
    await global_erasure.lock_person(session.sql, id)
    if await global_erasure.memberships(session.sql, id) != customers:
        raise CommandFailed("The person has just been added to another customer. Nothing was erased; try again.")
    events = await global_erasure.erase(session.sql, id)
    return CommandResult({"id": id, "events": events}, f"User {id} erased; {events} events stay, without the person.")
