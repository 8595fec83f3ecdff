"""The booking settings of a customer and of its cars, for forms."""

from __future__ import annotations

from dataclasses import dataclass

from keyrack.api.permissions import Permission
from keyrack.core.errors import BadRequest, NotFound
from keyrack.http.page_router import Visit

EXCLUSIVE = "exclusive"


@dataclass(frozen=True, slots=True)
class CustomerPolicy:
    """The settings of the customer. `gap` is in seconds."""

    is_exclusive: bool
    gap: int
    is_enforced: bool


@dataclass(frozen=True, slots=True)
class CarPolicy:
    """The settings of a car. None stands for those of the customer."""

    is_exclusive: bool | None
    gap: int | None


async def customer_policy(visit: Visit) -> CustomerPolicy:
    row = (await visit.call("GET", "/booking-settings")).json
    return CustomerPolicy(row["bookings"] == EXCLUSIVE, row["bookingGap"], row["bookingsEnforced"])


async def car_policy(visit: Visit, car: object) -> CarPolicy:
    """Raises `NotFound`."""
    row = (await visit.call("GET", "/cars/{carId}/booking-settings", car)).json
    kind = row["bookings"]
    return CarPolicy(None if kind is None else kind == EXCLUSIVE, row["bookingGap"])


async def is_exclusive_by_default(visit: Visit, car: str) -> bool:
    """Whether new bookings of the car are exclusive. `car` is "" before the choice."""
    if car:
        try:
            policy = await car_policy(visit, car)
        except (BadRequest, NotFound):
            policy = CarPolicy(None, None)
        if policy.is_exclusive is not None:
            return policy.is_exclusive
    return (await customer_policy(visit)).is_exclusive


def minutes(seconds: int | None) -> str:
    """Seconds as the text of a field in minutes; "" for None."""
    return "" if seconds is None else f"{seconds / 60:.4f}".rstrip("0").rstrip(".")


def may_set_customer_policy(visit: Visit) -> bool:
    """Whether the person may change the settings of the customer."""
    return visit.may(Permission.ASSIGNMENTS_SHARE) and not visit.is_limited
