"""Privacy settings of a customer: whether positions are stored, and how long its history is kept."""

from __future__ import annotations

from typing import LiteralString

from keyrack.db.connection import Statements
from keyrack.webhooks.erasure import remove_positions

KEEP_POSITIONS: LiteralString = "update customer set keeps_positions = $2 where customer_id = $1 returning true"
STATES_WITHOUT: LiteralString = """
update car_state set position_at = null, latitude = null, longitude = null, position_since = null, position_times = null
where customer_id = $1 and (position_at is not null or position_since is not null)
"""
HISTORY_WITHOUT: LiteralString = "delete from position where customer_id = $1"
EVENTS_WITHOUT: LiteralString = """
update event set latitude = null, longitude = null
where customer_id = $1 and (latitude is not null or longitude is not null)
"""
SET_HISTORY: LiteralString = "update customer set history_days = $2 where customer_id = $1 returning true"


async def set_positions_stored(statements: Statements, customer: int, keep: bool) -> bool:
    """Store a customer's positions, or delete them and store none. Returns False if there is no such customer."""
    if not await statements.fetchval(KEEP_POSITIONS, customer, keep):
        return False
    if not keep:
        await statements.execute(STATES_WITHOUT, customer)
        await statements.execute(HISTORY_WITHOUT, customer)
        await statements.execute(EVENTS_WITHOUT, customer)
        await remove_positions(statements, customer)
    return True


async def set_history_days(statements: Statements, customer: int, days: int | None) -> bool:
    """Set the days for which a customer's history is stored; None: the setting `telemetry_retention_days` applies.

    Returns False if there is no such customer.
    """
    return bool(await statements.fetchval(SET_HISTORY, customer, days))
