"""Telemetry: what an operator puts right after a unit with a wrong clock, or a key in wrong hands."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, LiteralString

import typer

from keyrack.cli.confirmation import ConfirmationPreview
from keyrack.cli.database_session import DatabaseSession, command
from keyrack.cli.options import Customer, moment, words
from keyrack.cli.output import CommandFailed, CommandResult
from keyrack.db.change_notifier import Topics
from keyrack.telemetry import correction

TOPICS_CHANGED: Topics = frozenset(("positions",))

app = typer.Typer()

UNIT: LiteralString = "select car_id, kind from product where customer_id = $1 and serial_number = $2"


SerialNumber = Annotated[str, typer.Option("--serial-number", callback=words, help="The unit.")]
Since = Annotated[
    str | None,
    typer.Option("--from", metavar="TIME", help="Also all that history has from this time on. Default: from now on."),
]


class _PreviewRollback(Exception):
    """Takes back what was done to see how much it is."""


async def _preview(
    session: DatabaseSession, customer: int, serial_number: str, since: str | None
) -> ConfirmationPreview | None:
    """What would be discarded, found by doing it and taking it back. Raises `CommandFailed`."""
    said = None
    with suppress(_PreviewRollback):
        async with session.sql.transaction():
            said = await _discard(session, customer, serial_number, moment(since) or datetime.now(UTC))
            raise _PreviewRollback
    if said is None or not (said.value["discarded"] or said.value["readings"]):
        return None
    goes = {"newest state": int(said.value["discarded"]), "readings of history": said.value["readings"]}
    return ConfirmationPreview(f"go back to what car {said.value['carId']} was before, and do away", goes)


@command(app, "discard", preview=_preview, topics=TOPICS_CHANGED)
async def discard(
    session: DatabaseSession, customer: Customer, serial_number: SerialNumber, since: Since = None
) -> CommandResult:
    """Discard the newest state of the car that a unit is in, and readings of the future: the next ones count again."""
    return await _discard(session, customer, serial_number, moment(since) or datetime.now(UTC))


async def _discard(session: DatabaseSession, customer: int, serial_number: str, begin: datetime) -> CommandResult:
    row = await session.sql.fetchrow(UNIT, customer, serial_number)
    if row is None or row["kind"] != "IQ":
        raise CommandFailed(f"Customer {customer} has no IQ unit with the serial number {serial_number}.")
    car = row["car_id"]
    if car is None:
        raise CommandFailed(f"Unit {serial_number} is in no car, so it has no newest state.")
    result = await correction.discard(session.sql, customer, car, begin)
    text = (
        f"The newest state of car {car} is discarded" if result.state else f"Car {car} has no newest state to discard"
    )
    value = {"carId": car, "discarded": result.state, "readings": result.readings}
    return CommandResult(
        value, f"{text}, and {result.readings} readings of history from {begin:%Y-%m-%d %H:%M:%S} UTC on."
    )
