"""Privacy: which data of a customer are stored, and for how long."""

from __future__ import annotations

from typing import Annotated, Literal, LiteralString

import typer

from keyrack.changelog import retention
from keyrack.cli.commands.customer import no_customer
from keyrack.cli.confirmation import ConfirmationPreview
from keyrack.cli.database_session import DatabaseSession, command
from keyrack.cli.options import Customer
from keyrack.cli.output import CommandResult
from keyrack.db.change_notifier import APPLIED, Topics
from keyrack.fleet import privacy_settings

TOPICS_CHANGED: Topics = frozenset(("users", "events", "groups")) | APPLIED

app = typer.Typer()

Days = Literal["100", "400", "800", "3660"]

STORED: LiteralString = """
select (select count(*) from position where customer_id = $1) as "stretches of positions",
  (select count(*) from event where customer_id = $1 and latitude is not null) as "places of events",
  (select count(*) from car_state where customer_id = $1 and position_at is not null) as "newest positions of cars"
"""
Keep = Annotated[bool, typer.Option("--keep/--stop", help="Store positions, or stop and delete the stored ones.")]


async def _preview(session: DatabaseSession, customer: int, keep: bool) -> ConfirmationPreview | None:
    """The rows that would be deleted."""
    row = None if keep else await session.sql.fetchrow(STORED, customer)
    goes = {} if row is None else dict(row)
    return (
        ConfirmationPreview(f"stop storing positions of customer {customer}, and delete the stored ones", goes)
        if any(goes.values())
        else None
    )


@command(app, "positions", preview=_preview, topics=TOPICS_CHANGED)
async def positions(session: DatabaseSession, customer: Customer, keep: Keep) -> CommandResult:
    """Set whether the positions of a customer's cars and events are stored."""
    if not await privacy_settings.set_positions_stored(session.sql, customer, keep):
        raise no_customer(customer)
    text = "are stored" if keep else "are no longer stored, and the stored ones are deleted"
    return CommandResult({"id": customer, "keepsPositions": keep}, f"Positions of customer {customer} {text}.")


async def _erased(session: DatabaseSession, customer: int, days: Days | None) -> ConfirmationPreview | None:
    """The changes whose contents would be erased."""
    kept = int(days or session.settings.changelog_retention_days)
    goes = await retention.older(session.sql, customer, kept)
    text = f"keep the changes of customer {customer} for {kept} days, and erase older ones"
    return ConfirmationPreview(text, {"changes that are older": goes}) if goes else None


@command(app, "changes", preview=_erased, topics=TOPICS_CHANGED)
async def changes(
    session: DatabaseSession,
    customer: Customer,
    days: Annotated[
        Days | None, typer.Option("--days", help="Days. Default: KEYRACK_CHANGELOG_RETENTION_DAYS.")
    ] = None,
) -> CommandResult:
    """Set the retention of a customer's changes in days: older contents are erased, and later the rows dropped."""
    if not await retention.choose(session.sql, customer, None if days is None else int(days)):
        raise no_customer(customer)
    text = f"for {days} days" if days else "as long as KEYRACK_CHANGELOG_RETENTION_DAYS"
    return CommandResult(
        {"id": customer, "changesDays": None if days is None else int(days)},
        f"Changes of customer {customer} are kept {text}.",
    )


@command(app, "history", topics=TOPICS_CHANGED)
async def history(
    session: DatabaseSession,
    customer: Customer,
    days: Annotated[
        int | None,
        typer.Option("--days", min=1, max=36_500, help="Days. Default: KEYRACK_TELEMETRY_RETENTION_DAYS."),
    ] = None,
) -> CommandResult:
    """Set the retention of a customer's positions and odometer readings in days."""
    if not await privacy_settings.set_history_days(session.sql, customer, days):
        raise no_customer(customer)
    text = f"for {days} days" if days else "as long as KEYRACK_TELEMETRY_RETENTION_DAYS"
    return CommandResult({"id": customer, "historyDays": days}, f"History of customer {customer} is kept {text}.")
