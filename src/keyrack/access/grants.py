"""In charge of what a caller may in a customer: its role there as permissions. What is unknown is nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass

from keyrack.errors import JSON, Forbidden
from keyrack.model.permissions import GRANTED, Permission, Role
from keyrack.reasons import Reason

NOT_PERMITTED = Reason(
    "permission-missing",
    "The permission {permission} is missing.",
    "Ask an owner of the customer for a role that has it: docs/access.md lists what each role may.",
)


@dataclass(frozen=True, slots=True)
class Grant:
    """What somebody may in one customer."""

    permissions: frozenset[Permission] = frozenset()
    role: Role | None = None


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


NOTHING = Grant()
_OF_ROLE = {str(role): Grant(permissions, role) for role, permissions in GRANTED.items()}


def granted(role: str | None, *, is_limited: bool) -> Grant:
    """What a row of a role gives: nothing where there is no such role, or where it is limited to groups."""
    return NOTHING if is_limited else _OF_ROLE.get(role or "", NOTHING)
