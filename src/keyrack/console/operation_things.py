"""The car and the user of an operation, before and after it, and its requester."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from keyrack.api.permissions import Permission
from keyrack.console.choices import Choice, of_car, of_user
from keyrack.console.rendering import gettext
from keyrack.core.text import N_
from keyrack.http.page_router import Visit

CAR_REMOVED = N_("a removed car")
USER_REMOVED = N_("a removed person")
CAR_OUTSIDE = N_("a car outside your groups, or a removed car")
USER_OUTSIDE = N_("a person outside your groups, or a removed person")


@dataclass(frozen=True, slots=True)
class OperationThings:
    """The car and the user of an operation.

    `new_car` and `new_user` are those of a change, "" if they stay. `car_after` and `user_after` are the resulting
    ones, None if they are not shown.
    """

    car: str
    new_car: str
    user: str
    new_user: str
    car_after: Choice | None
    user_after: Choice | None


def things_expand(visit: Visit) -> str:
    """The `$expand` of operations for their cars and users."""
    return "car,newCar,user,newUser" if visit.may(Permission.USERS_READ) else "car,newCar"


def operation_things(visit: Visit, operation: Mapping[str, Any]) -> OperationThings:
    """The car and the user of an operation that was read with `things_expand`."""

    def choice(relation: str, named: Any) -> Choice | None:
        row = operation.get(relation)
        return named(row) if row else None

    no_car = gettext(visit, CAR_OUTSIDE if visit.is_limited else CAR_REMOVED)
    no_user = gettext(visit, USER_OUTSIDE if visit.is_limited else USER_REMOVED)
    car, new_car = choice("car", of_car), choice("newCar", of_car)
    user, new_user = choice("user", of_user), choice("newUser", of_user)
    has_new_car, has_new_user = operation["newCarId"] is not None, operation["newUserId"] is not None
    return OperationThings(
        car.label if car else no_car,
        (new_car.label if new_car else no_car) if has_new_car else "",
        user.label if user else no_user,
        (new_user.label if new_user else no_user) if has_new_user else "",
        new_car if has_new_car else car,
        new_user if has_new_user else user,
    )


def requester(visit: Visit, operation: Mapping[str, Any]) -> str:
    """The name of the account or the client that requested an operation."""
    caller = operation["requestedBy"]
    if caller is None:
        return gettext(visit, "The operator of this server")
    if caller["name"] is None:
        return gettext(visit, "A person without an account")
    return caller["name"]
