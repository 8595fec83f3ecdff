"""In charge of what a caller may in a customer: its role there as permissions. What is unknown is nothing."""

from __future__ import annotations

from dataclasses import dataclass

from keyrack.model.permissions import GRANTED, Permission, Role


@dataclass(frozen=True, slots=True)
class Grant:
    """What somebody may in one customer."""

    permissions: frozenset[Permission] = frozenset()
    role: Role | None = None


NOTHING = Grant()
_OF_ROLE = {str(role): Grant(permissions, role) for role, permissions in GRANTED.items()}


def granted(role: str | None, *, is_limited: bool) -> Grant:
    """What a row of a role gives: nothing where there is no such role, or where it is limited to groups."""
    return NOTHING if is_limited else _OF_ROLE.get(role or "", NOTHING)
