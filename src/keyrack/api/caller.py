"""In charge of who calls, once it is known: a manager or a machine client, and what it may in which customer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from keyrack.api.grants import NOTHING, Grant, forbidden_response
from keyrack.api.permissions import Free, Permission
from keyrack.core.error_codes import NO_CUSTOMER, ErrorCode
from keyrack.core.errors import Forbidden, NotFound

FOR_PEOPLE = ErrorCode(
    "for-people-only",
    "This is about the account of a person, and a machine client has none.",
    "Ask with the token of a person. What a client may, GET /clients/{clientId} says to who may see clients.",
)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, and what it may in which customer. Managers and clients are numbered together."""

    id: int
    name: str
    grants: Mapping[int, Grant]
    sign_outs: int = 0  # of a manager: before it signed in. More of them end what it signed in to
    is_client: bool = False
    secrets: frozenset[int] = frozenset()  # of a client: tokens that were had by another one are over
    until: float = math.inf  # seconds since 1970, when it may call no longer
    amr: tuple[str, ...] = ()  # of a manager: how it has signed in (RFC 8176)
    began: float = 0.0  # of a manager: when, in seconds since 1970

    def check(self, customer: int) -> None:
        """Raises `NotFound` for a customer that is none of the caller's."""
        if customer not in self.grants:
            raise NotFound(NO_CUSTOMER)

    def may(self, permission: Permission, customer: int) -> bool:
        return permission in self.grant(customer).permissions

    def grant(self, customer: int) -> Grant:
        """What the caller may in the customer; nothing where that is none of its own."""
        return self.grants.get(customer, NOTHING)

    def where(self, permission: Permission) -> list[int]:
        """The customers in which the caller has it."""
        return [customer for customer, grant in self.grants.items() if permission in grant.permissions]


def permit(caller: Caller | None, wanted: Permission | Free, customer: int) -> None:
    """Raises `NotPermitted` unless who calls has what is wanted: in the customer, or, of what belongs to none (0), in
    one of its own; `Forbidden` for a client where only people have something."""
    if wanted is Free.PERSON and caller is not None and caller.is_client:
        raise Forbidden(FOR_PEOPLE)
    if isinstance(wanted, Free):
        return
    if caller is None or not (caller.may(wanted, customer) if customer else caller.where(wanted)):
        raise forbidden_response(caller.grants if caller else {}, wanted, customer)
