"""Telemetry: corrections after a unit with a wrong clock, or a stolen key."""

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


SerialNumber = Annotated[str, typer.Option("--serial-number", callback=words, help="Serial number of the unit.")]
Since = Annotated[
    str | None,
    typer.Option("--from", metavar="TIME", help="Also discard history from this time on. Default: from now on."),
]


class _PreviewRollback(Exception):
    """Rolls the preview back."""


async def _preview(
    session: DatabaseSession, customer: int, serial_number: str, since: str | None
) -> ConfirmationPreview | None:
    """The data to discard: discard them, count, and roll back. Raises `CommandFailed`."""
    said = None
    with suppress(_PreviewRollback):
        async with session.sql.transaction():
            said = await _discard(session, customer, serial_number, moment(since) or datetime.now(UTC))
            raise _PreviewRollback
    if said is None or not (said.value["discarded"] or said.value["readings"]):
        return None
    goes = {"newest state": int(said.value["discarded"]), "readings of history": said.value["readings"]}
    return ConfirmationPreview(f"discard the newest state and later readings of car {said.value['carId']}", goes)


@command(app, "discard", preview=_preview, topics=TOPICS_CHANGED)
async def discard(
    session: DatabaseSession, customer: Customer, serial_number: SerialNumber, since: Since = None
) -> CommandResult:
    """Discard the newest state of a unit's car, and readings from a time on, so that the next readings count again."""
    return await _discard(session, customer, serial_number, moment(since) or datetime.now(UTC))


async def _discard(session: DatabaseSession, customer: int, serial_number: str, begin: datetime) -> CommandResult:
    row = await session.sql.fetchrow(UNIT, customer, serial_number)
    if row is None or row["kind"] != "IQ":
        raise CommandFailed(f"Customer {customer} has no IQ unit with the serial number {serial_number}.")
    car = row["car_id"]
    if car is None:
        raise CommandFailed(f"Unit {serial_number} is not installed in a car, so there is no state to discard.")
    result = await correction.discard(session.sql, customer, car, begin)
    text = (
        f"The newest state of car {car} is discarded" if result.state else f"Car {car} has no newest state to discard"
    )
    value = {"carId": car, "discarded": result.state, "readings": result.readings}
    return CommandResult(value, f"{text}. Discarded readings from {begin:%Y-%m-%d %H:%M:%S} UTC on: {result.readings}.")
