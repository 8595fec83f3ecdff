"""The grants of a caller in a customer: the permissions of its role. An unknown role grants nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from keyrack.api.permissions import GRANTED, WITHIN_GROUPS, Permission, Role
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import JSON, Forbidden

NOT_PERMITTED = ErrorCode(
    "permission-missing",
    "The permission {permission} is missing.",
    "Ask an owner of the customer for a role, or a scope of the machine client, with this permission; docs/access.md"
    " lists the permissions of each role.",
)
LIMITED = ErrorCode(
    "limited-to-groups",
    "The permission {permission} is not available to managers who are limited to groups.",
    "Ask a manager who is not limited to groups; docs/access.md lists the permissions of group-limited managers.",
)
FACTOR_NEEDED = ErrorCode(
    "second-factor-needed",
    "Your role in this customer requires a second factor, and you have signed in without one.",
    "Sign in to the console with a passkey, or with a password and a code.",
)


@dataclass(frozen=True, slots=True)
class Grant:
    """The permissions of a caller in one customer."""

    permissions: frozenset[Permission] = frozenset()
    role: Role | None = None
    needs_factor: bool = False  # the role's permissions require a second factor, which is missing
    scope: int | None = None  # of a group-limited role: only rows in this scope exist
    groups: frozenset[int] = frozenset()  # of the scope


class NotPermitted(Forbidden):
    """403 in the form of the spec's 401: the caller lacks a permission."""

    media_type = JSON

    def __init__(self, permission: str, customer: int) -> None:
        super().__init__(NOT_PERMITTED.format(permission=permission))
        self.permission = permission
        self.customer = customer  # in which it is missing; 0 for all of the caller's

    def body(self, trace_id: str) -> bytes:
        return json.dumps({"statusCode": 403, "message": self.text}).encode()

    def extensions(self) -> dict[str, object]:
        return super().extensions() | {"permission": self.permission}


class FactorNeeded(NotPermitted):
    """403 for a caller that only lacks a second factor."""

    def __init__(self, permission: str, customer: int) -> None:
        super().__init__(permission, customer)
        self.reason = FACTOR_NEEDED


class LimitedToGroups(NotPermitted):
    """403 for a caller whose role has the permission only for the whole fleet."""

    def __init__(self, permission: str, customer: int) -> None:
        super().__init__(permission, customer)
        self.reason = LIMITED.format(permission=permission)


NOTHING = Grant()
_WITHOUT_FACTOR = Grant(needs_factor=True)
_OF_ROLE = {str(role): Grant(permissions, role) for role, permissions in GRANTED.items()}


def load_grants(role: str | None, *, is_limited: bool, lacks_factor: bool) -> Grant:
    """The grant of a role for the whole customer.

    It is empty for an unknown role, a group-limited one, and one that requires a missing second factor.
    """
    if lacks_factor:
        return _WITHOUT_FACTOR
    return NOTHING if is_limited else _OF_ROLE.get(role or "", NOTHING)


def in_scope(role: str | None, scope: int, groups: Iterable[int], *, lacks_factor: bool) -> Grant:
    """The grant of a group-limited role. It is empty for an owner, because owners cannot be group-limited."""
    whole = load_grants(role, is_limited=role == Role.OWNER, lacks_factor=lacks_factor)
    return replace(whole, permissions=whole.permissions & WITHIN_GROUPS, scope=scope, groups=frozenset(groups))


def forbidden_response(grants: Mapping[int, Grant], permission: Permission, customer: int) -> NotPermitted:
    """Build the 403 for a caller without `permission` in `customer` (0 for any customer)."""
    needs = [grants[customer]] if customer in grants else [] if customer else list(grants.values())
    if any(grant.needs_factor for grant in needs):
        return FactorNeeded(permission, customer)
    if any(grant.role and grant.scope is not None and permission in GRANTED[grant.role] for grant in needs):
        return LimitedToGroups(permission, customer)
    return NotPermitted(permission, customer)
