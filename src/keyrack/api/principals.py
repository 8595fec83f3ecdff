"""Principals, each with its own type."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import ClassVar, NamedTuple, NewType
from uuid import UUID

from keyrack.api.grants import NOTHING, Grant
from keyrack.api.permissions import Permission
from keyrack.api.request_mode import RequestMode
from keyrack.core.error_codes import NO_CUSTOMER, ErrorCode
from keyrack.core.errors import Forbidden, NotFound

FOR_PEOPLE = ErrorCode(
    "for-people-only",
    "Machine clients cannot use this endpoint.",
    "Use the token of a manager.",
)

ManagerId = NewType("ManagerId", int)
ClientId = NewType("ClientId", int)


class PrincipalKind(StrEnum):
    """The kind of a principal, as the change log names it."""

    MANAGER = "manager"
    CLIENT = "client"
    DEVICE = "device"
    APP_USER = "user"


class CallerKey(NamedTuple):
    """The identity of a caller: a number alone does not identify one."""

    kind: PrincipalKind
    number: int


@dataclass(frozen=True, slots=True)
class Caller:
    """A manager or a machine client, with its grants by customer."""

    kind: ClassVar[PrincipalKind]
    id: int
    name: str
    grants: Mapping[int, Grant]
    expires_at: float = math.inf  # when the caller expires, in seconds since 1970

    @property
    def key(self) -> CallerKey:
        return CallerKey(self.kind, self.id)

    @property
    def manager(self) -> ManagerCaller:
        """The caller as a manager. Raises `Forbidden` for a machine client."""
        raise Forbidden(FOR_PEOPLE)

    def check(self, customer: int) -> None:
        """Raises `NotFound` unless the caller may act for the customer."""
        if customer not in self.grants:
            raise NotFound(NO_CUSTOMER)

    def may(self, permission: Permission, customer: int) -> bool:
        return permission in self.grant(customer).permissions

    def grant(self, customer: int) -> Grant:
        """The caller's grant in the customer; an empty one if the customer is not the caller's."""
        return self.grants.get(customer, NOTHING)

    def customers_with(self, permission: Permission) -> list[int]:
        """The customers in which the caller has the permission."""
        return [customer for customer, grant in self.grants.items() if permission in grant.permissions]


@dataclass(frozen=True, slots=True)
class ManagerCaller(Caller):
    """A manager: a person with an account."""

    kind: ClassVar[PrincipalKind] = PrincipalKind.MANAGER
    id: ManagerId
    sign_outs: int = 0  # tokens with a lower number have expired
    amr: tuple[str, ...] = ()  # how the manager has signed in (RFC 8176)
    began: float = 0.0  # when, in seconds since 1970

    @property
    def manager(self) -> ManagerCaller:
        return self


@dataclass(frozen=True, slots=True)
class ClientCaller(Caller):
    """A machine client."""

    kind: ClassVar[PrincipalKind] = PrincipalKind.CLIENT
    id: ClientId
    secrets: frozenset[int] = field(default_factory=frozenset[int])  # a token of another secret has ended
    mode: RequestMode = RequestMode.SPEC  # of its requests, unless a header says otherwise


class Scope(StrEnum):
    """The data that a device key may deliver."""

    TELEMETRY = "telemetry"
    EVENTS = "events"


@dataclass(frozen=True, slots=True)
class Device:
    """A delivering device: the unit `product`, or a gateway for all units if `product` is None."""

    kind: ClassVar[PrincipalKind] = PrincipalKind.DEVICE
    customer: int
    scopes: frozenset[str]
    key: int  # the id of the key
    name: str | None
    product: int | None = None
    names: frozenset[tuple[str, str]] | None = None  # valid identifications of the unit in a line: property and value


@dataclass(frozen=True, slots=True)
class AppUser:
    """A user of a customer who calls by an app with an id token."""

    kind: ClassVar[PrincipalKind] = PrincipalKind.APP_USER
    customer: int
    subject: UUID
    user: int
    issued_at: float  # when the id token was issued, in seconds since 1970
    expires_at: float  # when it expires
    driver_session: int | None = None  # the token ends with this session of the app at `/drive`


@dataclass(frozen=True, slots=True)
class Driver:
    """A driver who is signed in to the app.

    `customers` are those that the session sees.
    """

    kind: ClassVar[PrincipalKind] = PrincipalKind.APP_USER  # the same user, who also has apps
    user: int
    session: int
    customers: frozenset[int]
    signed_in_at: datetime
    provider_customer: int | None = None  # of the provider that has signed the driver in

    def check(self, customer: int) -> None:
        """Raises `NotFound` unless the session sees the customer."""
        if customer not in self.customers:
            raise NotFound(NO_CUSTOMER)
