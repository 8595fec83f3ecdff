"""The form of an assignment: values, errors, and the request."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from keyrack.console.booking_policies import is_exclusive_by_default
from keyrack.console.choices import Choice, of_car, of_user
from keyrack.console.local_times import NoSuchTime
from keyrack.console.rendering import clock, gettext
from keyrack.core.errors import BadRequest, NotFound
from keyrack.http.page_router import Visit

DAY = 86_400  # seconds
SHORTEST, LONGEST = 7, 28  # days of a lifetime: the default, and the exclusive maximum
FIELDS = {  # field of the request -> field of the form
    "carId": "car", "userId": "user", "start": "start", "end": "end", "lifetime": "lifetime",
    "renewableAfter": "renewable_after", "exclusive": "exclusive",
}  # fmt: skip
TEXTS = (
    "car", "user", "start", "end", "lifetime", "renewable_after", "start_exact", "end_exact", "exclusive_for",
)  # fmt: skip
NO_CAR = "none"  # in `exclusive_for`


@dataclass(frozen=True)
class FormValues:
    """The values of a form: texts of its fields, times in the person's zone.

    `start_exact` and `end_exact` are the times in UTC that the fields showed first, "" if they showed none. A field has
    a lower precision than a stored time: minutes, and less at the ends of the calendar.

    `exclusive_for` is the car, or `NO_CAR`, whose default `exclusive` had first. It is "" for an existing assignment.
    """

    car: str = ""
    user: str = ""
    start: str = ""
    end: str = ""
    no_end: bool = False
    lifetime: str = ""  # days
    renewable_after: str = ""  # days
    start_exact: str = ""
    end_exact: str = ""
    exclusive: bool = False
    exclusive_for: str = ""


@dataclass
class ParsedAssignmentForm:
    """The parsed form: the fields of the request, and the errors of the form."""

    filled: FormValues
    members: dict[str, Any] = field(default_factory=dict[str, Any])
    errors: dict[str, str] = field(default_factory=dict[str, str])
    car: Choice | None = None
    user: Choice | None = None


def filled(fields: Mapping[str, list[str]]) -> FormValues:
    """The form with values of a request."""
    texts = {name: fields.get(name, [""])[-1].strip() for name in TEXTS}
    return FormValues(**texts, no_end="no_end" in fields, exclusive="exclusive" in fields)


def of_assignment(visit: Visit, assignment: Mapping[str, Any]) -> FormValues:
    """The form of an existing assignment."""
    time = clock(visit)
    return FormValues(
        str(assignment["carId"]), str(assignment["userId"] or ""), time.field(assignment["start"]),
        time.field(assignment["end"]), assignment["end"] is None, days(assignment["lifetime"]),
        days(assignment["renewableAfter"]), assignment["start"], assignment["end"] or "", assignment["exclusive"],
    )  # fmt: skip


async def read(visit: Visit, form: FormValues) -> ParsedAssignmentForm:
    """Parse the form. Car and user are read, so that the page can name them."""
    draft = ParsedAssignmentForm(form)
    draft.car = await _chosen(visit, draft, "car", "/cars/{carId}", gettext(visit, "Choose a car."), of_car)
    draft.user = await _chosen(visit, draft, "user", "/users/{userId}", gettext(visit, "Choose a person."), of_user)
    draft.members["carId"] = draft.car and draft.car.value
    draft.members["userId"] = draft.user and draft.user.value
    draft.members["start"] = _time(visit, draft, "start", form.start_exact, gettext(visit, "Enter the start."))
    draft.members["end"] = (
        None
        if form.no_end
        else _time(visit, draft, "end", form.end_exact, gettext(visit, "Enter the end, or tick Without end."))
    )
    draft.members["exclusive"] = form.exclusive
    _order(visit, draft)
    _lives(visit, draft)
    return draft


async def with_default(visit: Visit, form: FormValues) -> FormValues:
    """The form with the default of its car for `exclusive`.

    A form that shows this default already is unchanged: the person may have decided otherwise.
    """
    chosen = form.car or NO_CAR
    if form.exclusive_for == chosen:
        return form
    return replace(form, exclusive=await is_exclusive_by_default(visit, form.car), exclusive_for=chosen)


def _order(visit: Visit, draft: ParsedAssignmentForm) -> None:
    start, end = draft.members["start"], draft.members["end"]
    if start and end and end <= start:
        draft.errors["end"] = gettext(visit, "The end must be later than the start.")


def _lives(visit: Visit, draft: ParsedAssignmentForm) -> None:
    """Parse `lifetime` and `renewableAfter`. Empty fields have their defaults."""
    form = draft.filled
    lifetime = draft.members["lifetime"] = _seconds(visit, draft, "lifetime", form.lifetime)
    if lifetime is not None and lifetime == SHORTEST * DAY:
        lifetime = draft.members["lifetime"] = None  # the default
    if lifetime is not None and not SHORTEST * DAY < lifetime < LONGEST * DAY:
        draft.errors["lifetime"] = gettext(visit, "Enter at least 7 and less than 28 days.")
    renewable = draft.members["renewableAfter"] = _seconds(visit, draft, "renewable_after", form.renewable_after)
    if renewable is not None and not 0 <= renewable < (lifetime or SHORTEST * DAY):
        draft.errors["renewable_after"] = gettext(visit, "Enter less than “Key valid offline for”.")


async def _chosen(
    visit: Visit, draft: ParsedAssignmentForm, name: str, path: str, missing: str, named: Any
) -> Choice | None:
    value = getattr(draft.filled, name)
    if not value:
        draft.errors[name] = missing
        return None
    try:
        return named((await visit.call("GET", path, value)).json)
    except (BadRequest, NotFound):
        draft.errors[name] = gettext(visit, "This no longer exists. Choose another one.")
        return None


def _time(visit: Visit, draft: ParsedAssignmentForm, name: str, exact: str, missing: str) -> str | None:
    """The time of a field in UTC: `exact` as long as the field shows it."""
    time, text = clock(visit), getattr(draft.filled, name)
    if not text:
        draft.errors[name] = missing
        return None
    try:
        return time.read_field(text, exact)
    except NoSuchTime:
        draft.errors[name] = gettext(
            visit, "This time does not exist in %(zone)s: the clocks are put forward over it. Enter an earlier or a"
                " later time.",
            zone=time.name,
        )  # fmt: skip
    except (ValueError, OverflowError):
        draft.errors[name] = gettext(visit, "Enter a date and a time.")
    return None


def _seconds(visit: Visit, draft: ParsedAssignmentForm, name: str, text: str) -> int | None:
    """Days as seconds, None if empty."""
    if not text:
        return None
    try:
        number = float(text.replace(",", "."))
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or abs(number) > LONGEST * 2:
        draft.errors[name] = gettext(visit, "Enter a number of days, for example 10 or 7.5.")
        return None
    return round(number * DAY)


def days(seconds: int | None) -> str:
    """Seconds as the text of a field in days."""
    return "" if seconds is None else f"{seconds / DAY:.6f}".rstrip("0").rstrip(".")


def twice(visit: Visit, form: FormValues) -> list[str]:
    """Notes on times that occur twice, when the clocks are put back."""
    time = clock(visit)
    zone = {"zone": time.name}
    start = gettext(
        visit, "The start occurs twice in %(zone)s, because the clocks are put back. The first one is used.", **zone
    )
    end = gettext(
        visit, "The end occurs twice in %(zone)s, because the clocks are put back. The first one is used.", **zone
    )
    pairs = [(form.start, start), ("" if form.no_end else form.end, end)]
    return [text for typed, text in pairs if typed and time.comes_twice(typed)]
