"""Failures of operations: the translated reason, and a link to the page that fixes the cause."""

from __future__ import annotations

from dataclasses import dataclass

from keyrack.api.permissions import Permission
from keyrack.assignments.failure_codes import NO_BOX, NO_SERVICE, TERMINATED, text_of
from keyrack.console.choices import Choice
from keyrack.console.rendering import base, gettext
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


def failure_hint(visit: Visit, code: str | None, car: Choice | None) -> FailureHint | None:
    """The link that fixes a failure of this code; None if only another car, person or time helps."""
    if car is not None and code == NO_BOX and visit.may(Permission.INSTALLATIONS_WRITE):
        return FailureHint(
            f"{base(visit)}/cars/{car.value}", gettext(visit, "Put a key box into %(car)s", car=car.label)
        )
    if code in (NO_SERVICE, TERMINATED):
        return FailureHint(f"{base(visit)}/boxes", gettext(visit, "Check the service of the key box"))
    return None
