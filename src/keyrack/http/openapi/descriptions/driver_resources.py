"""Descriptions of drivers' cars and phones, app access and settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keyrack.offline_keys.public_key import EXAMPLE_THUMBPRINT

_PHONE = ("The id of the phone: the thumbprint of its key (RFC 9679).", EXAMPLE_THUMBPRINT)
_END_SESSIONS = ("Whether the driver's sessions in the app end, except the session of the request.", True)
_CAR = {
    "name": ("The name of the car.", "Pool 1"),
    "opensUntil": (
        "The last moment at which the box may accept a key of the phones, apart from the delay of its clock.",
        "2026-05-08T08:00:00Z",
    ),
    "canPowerLossExtend": ("Whether a loss of power in the box extends `opensUntil` without a limit.", False),
}
_CARS: tuple[str, Any] = ("The cars that the phones may still open, by name.", [])

OF_DRIVER_RESOURCES: Mapping[str, Mapping[str, tuple[str, Any]]] = {
    "DriverCar": {
        "name": ("The name of the car.", "Pool 1"),
        "licensePlate": ("The license plate; null if it is not given.", "B-KR 1234"),
        "brand": ("The brand; null if it is not given.", "Volkswagen"),
        "model": ("The model; null if it is not given.", "ID.3"),
        "start": ("When the assignment begins.", "2026-05-01T08:00:00Z"),
        "end": ("When the assignment ends; null for none.", "2026-05-01T18:00:00Z"),
        "state": ("`now` if the assignment runs, `next` if it comes.", "now"),
        "isTaken": ("Whether another driver has the car now.", False),
        "takenUntil": ("When the other driver's assignment ends; null without an end.", None),
        "place": ("The place of the car; null if it is not shown.", None),
        "productId": ("The box of the car; null for none.", 3),
        "boxName": ("The name of the box in messages; null if the box is not enrolled.", "box:3:1"),
        "opensUntil": (
            "The last moment at which the box accepts a key of the driver's phones; null without a key.",
            "2026-05-08T08:05:00Z",
        ),
        "fleetPhone": ("The customer's phone number for help; null for none.", "+49 30 123456"),
    },
    "CarPlace": {"time": ("When the car reported the position.", "2026-05-01T08:15:00Z")},
    "DriverPhone": {
        "id": _PHONE,
        "name": ("The name of the phone, as the app has sent it.", "Pixel 9"),
        "registered": ("When the phone was registered.", "2026-05-01T08:00:00Z"),
        "isApproved": ("Whether the phone gets keys; false while it waits for a manager.", True),
    },
    "LostPhone": {"id": _PHONE},
    "LossReport": {"phones": ("The lost phones, at most 100.", []), "endSessions": _END_SESSIONS},
    "LossOutcome": {"cars": _CARS},
    "StillOpenableCar": _CAR,
    "AppInvitationRequest": {"mail": ("Whether the link is mailed to the user instead of returned.", False)},
    "AppInvitation": {
        "link": (
            "The link to the app. It works once, and no other response contains it. Null if it is mailed.",
            "https://keyrack.example.com/drive/#link=Xk7dQ2l4bq0YpVwT3nA9rS6uE1zC8hJ5mG0fL2iB7oD",
        ),
        "expires": ("When the link expires; null if it is mailed.", "2026-05-04T08:00:00Z"),
    },
    "AppAccessState": {
        "canBeInvited": ("Whether the user can be invited: only `Normal` users sign in to the app.", True),
        "hasAccess": ("Whether the user has access to the app for this customer.", True),
        "isInvited": ("Whether an invitation is open.", False),
        "invitationExpires": ("When the open invitation expires; null without one.", None),
        "lastSeen": (
            "When a session of the user that sees this customer was last used; null without a session.",
            "2026-05-01T08:15:00Z",
        ),
        "isWithdrawn": ("Whether the access was withdrawn. An invitation gives it back.", False),
    },
    "UserLossReport": {
        "phones": ("The lost phones, at most 100; null for all phones of the user.", [EXAMPLE_THUMBPRINT]),
        "endSessions": ("Whether the user's sessions in the app that see this customer end.", True),
    },
    "UserLossOutcome": {
        "cars": ("The cars that the phones may still open; null without `access:read`.", []),
    },
    "OpenableCarOfUser": _CAR,
    "BookingSettings": {
        "bookings": (
            "Whether new assignments are `exclusive` or `shared` unless they say otherwise. Null of a car stands"
            " for the setting of the customer.",
            "exclusive",
        ),
        "bookingsEnforced": (
            "Whether a shared assignment of an exclusive car requires the permission `assignments:share`.",
            False,
        ),
        "bookingGap": (
            "The seconds after an exclusive assignment in which the car stays blocked, at most 86400. Null of a car"
            " stands for the setting of the customer.",
            1800,
        ),
    },
    "DriverSettings": {
        "phone": ("The phone number that the app dials for help; null for none.", "+49 30 123456"),
        "showsPlace": ("Whether a driver sees where the car stands while the assignment runs.", False),
        "extensionHours": (
            "The hours by which a driver's request extends an assignment without a manager, at most 720. With"
            " 0, a manager decides each request.",
            4,
        ),
    },
}
