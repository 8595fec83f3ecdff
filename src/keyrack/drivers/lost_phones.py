"""Lost phones of a driver, and the cars that they may open.

A removal revokes the keys of a phone. A box accepts them until it has the revocation, or until their last moment.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import LiteralString, NamedTuple

from keyrack.api.schema.request_body import format_timestamp
from keyrack.core.error_codes import NO_DEVICE
from keyrack.core.errors import NotFound
from keyrack.db.connection import Connection
from keyrack.offline_keys.opening_deadline import CAN_POWER_LOSS_EXTEND, OPENS_UNTIL, WITH_EPOCH

# The lock serialises reports and registrations of one user. The removal of a user has the same order of locks
LOCK: LiteralString = """
select true from customer_user where customer_id = $1 and user_id = $2 for no key update
"""
PHONES: LiteralString = """
select device_id from app_device where customer_id = $1 and user_id = $2
union select device_id from removed_device where customer_id = $1 and user_id = $2
"""
# The mark is recorded as `device.lost`, and the removal as `device.deleted`
MARK: LiteralString = """
update app_device set is_lost = true where customer_id = $1 and user_id = $2 and device_id = any($3)
"""
REMOVE: LiteralString = "delete from app_device where customer_id = $1 and user_id = $2 and device_id = any($3)"
# `$4` is the group scope of the caller, or null
CARS: LiteralString = (
    (
        "select car_id, name, max(until) as opens_until, bool_or(is_extendable) as is_extendable from ("
        "select k.car_id, c.name, " + OPENS_UNTIL + " as until, " + CAN_POWER_LOSS_EXTEND + " as is_extendable"
        " from " + WITH_EPOCH + " join car c using (customer_id, car_id)"
        " where k.customer_id = $1 and k.user_id = $2 and k.device_id = any($3) and ($4::integer is null or exists ("
        "select from scope_member m where m.customer_id = $1 and m.scope_id = $4 and m.kind = 'car'"
        " and m.member_id = k.car_id))) k where until > now() group by car_id, name order by name, car_id"
    )
    .replace("{t}_e", "e")
    .replace("{t}", "k")
)  # fmt: skip


class OpenableCar(NamedTuple):
    """A car that a lost phone may still open."""

    id: int
    name: str
    until: datetime
    can_power_loss_extend: bool  # a loss of power in the box extends it without a limit


async def report(
    connection: Connection, customer: int, user: int, phones: Collection[bytes] | None, scope: int | None = None
) -> list[OpenableCar]:
    """Remove lost phones of a user. Returns the cars that they may open.

    None means all phones, also those that were removed before. A repeated report of a removed phone returns the cars
    again. Runs in the caller's transaction. Raises `NotFound` for a phone that the user never had.
    """
    await connection.fetchval(LOCK, customer, user)
    own = {row["device_id"] for row in await connection.fetch(PHONES, customer, user)}
    lost = sorted(own if phones is None else set(phones))
    if not own.issuperset(lost):
        raise NotFound(NO_DEVICE)
    await connection.execute(MARK, customer, user, lost)
    await connection.execute(REMOVE, customer, user, lost)
    return [OpenableCar(*row.values()) for row in await connection.fetch(CARS, customer, user, lost, scope)]


def shown(car: OpenableCar) -> dict[str, object]:
    """The car as both reports return it."""
    return {
        "carId": car.id, "name": car.name, "opensUntil": format_timestamp(car.until),
        "canPowerLossExtend": car.can_power_loss_extend,
    }  # fmt: skip
