"""The permission check of a caller."""

from __future__ import annotations

from collections.abc import Mapping

from keyrack.api.grants import forbidden_response
from keyrack.api.permissions import PROGRAMS, Free, Permission
from keyrack.api.principals import FOR_PEOPLE, AppUser, Caller, ClientCaller, Device, Driver, ManagerCaller
from keyrack.core.errors import Forbidden

Principals = tuple[type[ManagerCaller] | type[ClientCaller] | type[Device] | type[AppUser] | type[Driver], ...]
PRINCIPALS: Mapping[Free, Principals] = {
    Free.PUBLIC: (ManagerCaller, ClientCaller, Device, AppUser, Driver),
    Free.DEVICE: (Device,),
    Free.USER: (AppUser,),
    Free.DRIVER: (Driver,),
    Free.CALLER: (ManagerCaller, ClientCaller),
    Free.PERSON: (ManagerCaller,),
}


def principals(permission: Permission | Free) -> Principals:
    """The types of the principals that may call a row with this permission."""
    if isinstance(permission, Free):
        return PRINCIPALS[permission]
    return (ManagerCaller, ClientCaller) if permission in PROGRAMS else (ManagerCaller,)


def permit(caller: Caller | None, permission: Permission | Free, customer: int) -> None:
    """Check that the caller has the permission in the customer.

    Customer 0 means any customer of the caller. Raises `Forbidden` for a machine client if the row is for managers
    only, and `NotPermitted` if the permission is missing.
    """
    if isinstance(permission, Free):
        if caller is not None and not isinstance(caller, principals(permission)):
            raise Forbidden(FOR_PEOPLE)
        return
    if caller is None or not (caller.may(permission, customer) if customer else caller.customers_with(permission)):
        raise forbidden_response(caller.grants if caller else {}, permission, customer)
