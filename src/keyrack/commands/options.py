"""The options that many commands share, checked where they enter."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from keyrack.model.bodies import INT32_MAX

LONGEST = 250  # characters of a name


def words(value: str | None) -> str | None:
    """A text that says something. Raises a usage error for an empty, an overlong or an unprintable one."""
    if value is None:
        return None
    stripped = value.strip()
    if wrong := wrong_words(stripped):
        raise typer.BadParameter(wrong)
    return stripped


def wrong_words(stripped: str) -> str | None:
    """What is wrong with a text, or None."""
    if not stripped:
        return "must not be empty"
    if len(stripped) > LONGEST:
        return f"has more than {LONGEST} characters"
    return None if stripped.isprintable() else "holds characters that cannot be printed"


def moment(value: str | None) -> datetime | None:
    """The time of a text `YYYY-MM-DD`, the beginning of that day in UTC, or `YYYY-MM-DDTHH:MM:SS` with an offset."""
    if value is None:
        return None
    try:
        return read_moment(value)
    except ValueError:
        raise typer.BadParameter(f"{value!r} is no date: the form is YYYY-MM-DD") from None


def read_moment(text: str) -> datetime:
    """The same for a text of a file. Raises `ValueError`."""
    try:
        time = datetime.fromisoformat(text.strip())
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError:
        raise ValueError("the year lies outside 0001 to 9999") from None


Id = Annotated[int, typer.Argument(min=1, max=INT32_MAX, metavar="ID")]
Customer = Annotated[
    int, typer.Option("--customer", min=1, max=INT32_MAX, metavar="ID", help="The customer it belongs to.")
]
OfCustomer = Annotated[
    int | None, typer.Option("--customer", min=1, max=INT32_MAX, metavar="ID", help="Only those of this customer.")
]
