"""Suggestions for misspelt names in messages."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

LONGEST = 60  # characters of a name that are compared: the comparison is slow


def closest(name: str, names: Iterable[str]) -> str | None:
    """The one of the names that was probably meant, regardless of case; None if none is close."""
    by_lower_name = {valid_name.lower(): valid_name for valid_name in names}
    close = get_close_matches(name[:LONGEST].lower(), by_lower_name, 1)
    return by_lower_name[close[0]] if close else None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """A question with a blank before it, to be appended to a sentence; empty if no name is close."""
    suggestion = closest(name, names)
    return "" if suggestion is None else f" Did you mean '{suggestion}'?"
