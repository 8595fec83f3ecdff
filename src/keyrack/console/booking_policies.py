"""The booking policies of a customer and of its cars, for forms."""

from __future__ import annotations

from dataclasses import dataclass

from keyrack.core.errors import BadRequest, NotFound
from keyrack.http.page_router import Visit

EXCLUSIVE = "exclusive"


@dataclass(frozen=True, slots=True)
class CustomerPolicy:
    """The policy of the customer. `gap` is in seconds."""

    is_exclusive: bool
    gap: int
    is_enforced: bool


async def customer_policy(visit: Visit) -> CustomerPolicy:
    row = (await visit.call("GET", "/booking-settings")).json
    return CustomerPolicy(row["bookings"] == EXCLUSIVE, row["bookingGap"], row["bookingsEnforced"])


async def is_exclusive_by_default(visit: Visit, car: str) -> bool:
    """Whether a booking of the car is exclusive unless the person decides otherwise. `car`: "" for none yet."""
    if car:
        try:
            row = (await visit.call("GET", "/cars/{carId}", car, query={"$select": "bookings"})).json
        except (BadRequest, NotFound):
            row = {"bookings": None}
        if row["bookings"] is not None:
            return row["bookings"] == EXCLUSIVE
    return (await customer_policy(visit)).is_exclusive
