"""The booking policies of a customer and of its cars, for forms."""

from __future__ import annotations

from dataclasses import dataclass

from keyrack.api.permissions import Permission
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


def minutes(seconds: int | None) -> str:
    """Seconds as the text of a field in minutes; "" for None."""
    return "" if seconds is None else f"{seconds / 60:.4f}".rstrip("0").rstrip(".")


async def is_exclusive_by_default(visit: Visit, car: str) -> bool:
    """Whether new bookings of the car are exclusive. `car` is "" before the choice."""
    if car:
        try:
            row = (await visit.call("GET", "/cars/{carId}", car, query={"$select": "bookings"})).json
        except (BadRequest, NotFound):
            row = {"bookings": None}
        if row["bookings"] is not None:
            return row["bookings"] == EXCLUSIVE
    return (await customer_policy(visit)).is_exclusive


def may_set_customer_policy(visit: Visit) -> bool:
    """Whether the person may change the policy of the customer."""
    return visit.may(Permission.CARS_WRITE) and not visit.is_limited
