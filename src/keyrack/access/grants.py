"""In charge of what a caller may in a customer: its role there as permissions. What is unknown is nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from keyrack.errors import JSON, Forbidden
from keyrack.model.permissions import GRANTED, Permission, Role
from keyrack.reasons import Reason

NOT_PERMITTED = Reason(
    "permission-missing",
    "The permission {permission} is missing.",
    "Ask an owner of the customer for a role that has it: docs/access.md lists what each role may.",
)
FACTOR_NEEDED = Reason(
    "second-factor-needed",
    "Your role in this customer needs a second factor, and you have signed in without one.",
    "Sign in to the console with a passkey, or with a password and a code; set one up in its settings first.",
)


@dataclass(frozen=True, slots=True)
class Grant:
    """What somebody may in one customer."""

    permissions: frozenset[Permission] = frozenset()
    role: Role | None = None
    needs_factor: bool = False  # the role's permissions are for who has shown a second factor


class NotPermitted(Forbidden):
    """403 in the form of the spec's 401: who calls has not the permission that it takes."""

    media_type = JSON

    def __init__(self, permission: str, customer: int) -> None:
        super().__init__(NOT_PERMITTED.format(permission=permission))
        self.permission = permission
        self.customer = customer  # in which it is missing; 0: in all of the caller's

    def body(self, trace_id: str) -> bytes:
        return json.dumps({"statusCode": 403, "message": self.text}).encode()

    def extensions(self) -> dict[str, object]:
        return super().extensions() | {"permission": self.permission}


class FactorNeeded(NotPermitted):
    """The same for who has the permission as soon as there is a second factor."""

    def __init__(self, permission: str, customer: int) -> None:
        super().__init__(permission, customer)
        self.reason = FACTOR_NEEDED


NOTHING = Grant()
_WITHOUT_FACTOR = Grant(needs_factor=True)
_OF_ROLE = {str(role): Grant(permissions, role) for role, permissions in GRANTED.items()}


def granted(role: str | None, *, is_limited: bool, lacks_factor: bool) -> Grant:
    """What a row of a role gives: nothing where there is no such role, where it is limited to groups, or where it needs
    a second factor that was not shown."""
    if lacks_factor:
        return _WITHOUT_FACTOR
    return NOTHING if is_limited else _OF_ROLE.get(role or "", NOTHING)


def refusal(grants: Mapping[int, Grant], wanted: Permission, customer: int) -> NotPermitted:
    """What somebody is told who has not what is wanted, in the customer or, for 0, in any."""
    needs = [grants[customer]] if customer in grants else [] if customer else grants.values()
    return (FactorNeeded if any(grant.needs_factor for grant in needs) else NotPermitted)(wanted, customer)
