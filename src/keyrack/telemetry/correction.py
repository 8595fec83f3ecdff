"""In charge of taking back what a wrong clock or a hostile key has told of a car."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from keyrack.database.connection import Statements

# Whoever stores readings of the car locks this row first; so nothing comes in between
DISCARD_STATE: LiteralString = "delete from car_state where customer_id = $1 and car_id = $2 returning true"
DISCARD_POSITIONS: LiteralString = """
with gone as (delete from position where customer_id = $1 and car_id = $2 and at >= $3 returning 1)
select count(*)::integer from gone
"""
DISCARD_ODOMETERS: LiteralString = """
with gone as (delete from odometer where customer_id = $1 and car_id = $2 and at >= $3 returning 1)
select count(*)::integer from gone
"""
# What history knows is the newest now; the other values have no history, and come when they are told again
BEGIN_ANEW: LiteralString = """
insert into car_state (customer_id, car_id, position_at, latitude, longitude, odometer_at, odometer)
select $1, $2, p.at, p.latitude, p.longitude, o.at, o.odometer
from (select) one
left join (
  select at, latitude, longitude from position
  where customer_id = $1 and car_id = $2 order by at desc limit 1) p on true
left join (
  select at, odometer from odometer where customer_id = $1 and car_id = $2 order by at desc limit 1) o on true
where p.at is not null or o.at is not null
on conflict do nothing
"""


@dataclass(frozen=True, slots=True)
class Discarded:
    """Whether there was a newest state, and how many readings of history are gone."""

    state: bool
    readings: int


async def discard(statements: Statements, customer: int, car: int, since: datetime) -> Discarded:
    """Throw the newest state of a car away, and what history has from `since` on; in the caller's transaction.

    Position and odometer then show what history knew before; all other values are unknown until they are told again.
    """
    state: bool | None = await statements.fetchval(DISCARD_STATE, customer, car)
    positions: int = await statements.fetchval(DISCARD_POSITIONS, customer, car, since)
    odometers: int = await statements.fetchval(DISCARD_ODOMETERS, customer, car, since)
    await statements.execute(BEGIN_ANEW, customer, car)
    return Discarded(bool(state), positions + odometers)
