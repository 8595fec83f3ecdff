"""Remedies of failed operations: links to the page that fixes the cause."""

from __future__ import annotations

from dataclasses import dataclass

from keyrack.api.permissions import Permission
from keyrack.console.choices import Choice
from keyrack.console.rendering import base, gettext
from keyrack.core.text import N_
from keyrack.http.page_router import Visit

# The API's texts for failed operations
NO_BOX = N_("There is no key box installed in the car.")
OF_SERVICE = (
    N_("The key box in the car has no service assigned."),
    N_("The service of the key box in the car is terminated."),
)
REASONS = (
    NO_BOX,
    *OF_SERVICE,
    N_("The car does not exist or is not assigned to the customer."),
    N_("The user does not exist or is not assigned to the customer."),
    N_("The assignment does not exist any more."),
    N_("The end lies before the start."),
    N_("renewableAfter must be less than lifetime."),
    N_("The operation could not be carried out for an internal reason."),
)


@dataclass(frozen=True, slots=True)
class FailureHint:
    """A link to a page that fixes the cause."""

    href: str
    text: str


def reason(visit: Visit, failure: str) -> str:
    """The reason of a failure, translated."""
    return gettext(visit, failure) if failure in REASONS else failure


def failure_hint(visit: Visit, failure: str, car: Choice | None) -> FailureHint | None:
    """The link that fixes a failure, by its text; None if only another car, person or time helps."""
    if car is not None and failure == NO_BOX and visit.may(Permission.INSTALLATIONS_WRITE):
        return FailureHint(
            f"{base(visit)}/cars/{car.value}", gettext(visit, "Put a key box into %(car)s", car=car.label)
        )
    if failure in OF_SERVICE:
        return FailureHint(f"{base(visit)}/boxes", gettext(visit, "Check the service of the key box"))
    return None
