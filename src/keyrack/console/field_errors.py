"""Errors of single form fields, translated."""

from __future__ import annotations

from keyrack.console.rendering import gettext
from keyrack.core.error_codes import FieldError
from keyrack.core.text import N_
from keyrack.http.page_router import Visit

EMPTY = N_("This field is required.")
TOO_LONG = N_("It has at most %(most)s characters.")
OTHER = N_("This value is not valid here: it has characters or a form that are not allowed.")
WORDS = {
    "missing": EMPTY,
    "blank": EMPTY,
    "direction-control": N_("An invisible character here changes the direction of the text. Type the text again."),
    "out-of-range": N_("This number is too small or too large."),
    "not-one-of": N_("Choose one of the options."),
    "taken": N_("This value is already taken."),
}


def words(visit: Visit, fault: FieldError, longest: int) -> str:
    """The error of a field with `longest` characters at most. The error's own text is for programs."""
    if fault.code == "too-long":
        return gettext(visit, TOO_LONG, most=longest)
    return gettext(visit, WORDS.get(fault.code, OTHER))
