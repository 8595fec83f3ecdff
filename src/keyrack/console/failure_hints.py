"""Failures of operations: the translated reason, and a link to the page that fixes the cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from keyrack.api.permissions import Permission
from keyrack.assignments.failure_codes import CONFLICT, NO_BOX, NO_SERVICE, TERMINATED, text_of
from keyrack.console.choices import Choice
from keyrack.console.rendering import base, clock, gettext
from keyrack.http.page_router import Visit


@dataclass(frozen=True, slots=True)
class FailureHint:
    """A link to a page that fixes the cause."""

    href: str
    text: str


def failure_reason(visit: Visit, code: str | None, message: str | None) -> str:
    """The translated reason of a failed operation; "" if it did not fail.

    A message without a known code is returned unchanged.
    """
    text = text_of(code)
    return (message or "") if text is None else gettext(visit, text)


def failure_hint(
    visit: Visit, code: str | None, car: Choice | None, request: Mapping[str, Any] | None = None
) -> FailureHint | None:
    """The link that fixes a failure of this code; None if only another car, person or time helps.

    `request` has the `userId`, `start` and `end` of a new booking.
    """
    if car is not None and code == NO_BOX and visit.may(Permission.INSTALLATIONS_WRITE):
        return FailureHint(
            f"{base(visit)}/cars/{car.value}", gettext(visit, "Put a key box into %(car)s", car=car.label)
        )
    if code in (NO_SERVICE, TERMINATED):
        return FailureHint(f"{base(visit)}/boxes", gettext(visit, "Check the service of the key box"))
    if code == CONFLICT and request is not None and request["start"] and visit.may(Permission.ASSIGNMENTS_WRITE):
        address = free_car_form(visit, str(request["userId"] or ""), request["start"], request["end"])
        return FailureHint(address, gettext(visit, "Book a free car instead"))
    return None


def free_car_form(visit: Visit, user: str, start: str, end: str | None) -> str:
    """The address of a form that books a free car exclusively. Times are in UTC."""
    time = clock(visit)
    fields = {"user": user, "start": time.field(start), "free": "true", "exclusive": "true"}
    more = {"end": time.field(end)} if end else {"no_end": "true"}
    return f"{base(visit)}/assignments/new?{urlencode(fields | more)}"
