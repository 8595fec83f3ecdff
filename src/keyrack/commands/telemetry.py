"""Telemetry: what an operator puts right after a unit with a wrong clock, or a key in wrong hands."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, LiteralString

import typer

from keyrack.commands.options import Customer, moment, words
from keyrack.commands.printing import Said
from keyrack.commands.session import Failed, Session, command
from keyrack.telemetry import correction

app = typer.Typer()

UNIT: LiteralString = "select car_id, kind from product where customer_id = $1 and serial_number = $2"


@command(app, "discard")
async def discard(
    session: Session,
    customer: Customer,
    serial_number: Annotated[str, typer.Option("--serial-number", callback=words, help="The unit.")],
    since: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="TIME", help="Also all that history has from this time on. Default: from now on."
        ),
    ] = None,
) -> Said:
    """Discard the newest state of the car that a unit is in, and readings of the future: the next ones count again."""
    begin = moment(since) or datetime.now(UTC)
    row = await session.sql.fetchrow(UNIT, customer, serial_number)
    if row is None or row["kind"] != "IQ":
        raise Failed(f"Customer {customer} has no IQ unit with the serial number {serial_number}.")
    car = row["car_id"]
    if car is None:
        raise Failed(f"Unit {serial_number} is in no car, so it has no newest state.")
    found = await correction.discard(session.sql, customer, car, begin)
    text = f"The newest state of car {car} is discarded" if found.state else f"Car {car} has no newest state to discard"
    value = {"carId": car, "discarded": found.state, "readings": found.readings}
    return Said(value, f"{text}, and {found.readings} readings of history from {begin:%Y-%m-%d %H:%M:%S} UTC on.")
