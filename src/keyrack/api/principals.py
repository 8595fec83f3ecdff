"""Principals beside managers and machine clients: devices that deliver data, and apps that act for a user."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID


class Scope(StrEnum):
    """What may be delivered."""

    TELEMETRY = "telemetry"
    EVENTS = "events"


@dataclass(frozen=True, slots=True)
class Device:
    """Who delivers: the unit `product`, or, where that is None, a gateway, which forwards the data of all."""

    customer: int
    scopes: frozenset[str]
    key: int  # the id of the key
    name: str | None
    product: int | None = None
    names: frozenset[tuple[str, str]] | None = None  # by which the unit may call itself: member of a line, and value


@dataclass(frozen=True, slots=True)
class App:
    """Who calls: a user of a customer, by an app."""

    customer: int
    subject: UUID
    user: int
    until: float  # seconds since 1970
