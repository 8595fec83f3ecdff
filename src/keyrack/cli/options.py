"""The options that many commands share, checked where they enter."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import typer

from keyrack.api.schema import request_body
from keyrack.api.schema.request_body import INT32_MAX
from keyrack.cli.name_lookup import NOUNS, reference
from keyrack.core.text import direction_control, email_address, nfc, trimmed

LONGEST = 250  # characters of a name
FORMS = "the form is 2026-01-31, or that of RFC 3339, as 2026-01-31T08:00:00Z or 2026-01-31T09:00:00+01:00"


def words(value: str | None) -> str | None:
    """A text that says something. Raises a usage error for an empty, an overlong or an unprintable one."""
    if value is None:
        return None
    stripped = nfc(trimmed(value))
    if wrong := wrong_words(stripped):
        raise typer.BadParameter(wrong)
    return stripped


def wrong_words(stripped: str) -> str | None:
    """What is wrong with a text, or None."""
    if not stripped:
        return "must not be empty"
    if len(stripped) > LONGEST:
        return f"has more than {LONGEST} characters"
    if control := direction_control(stripped):
        return f"holds {control}, which changes the direction of the text behind it"
    return None if stripped.isprintable() else "holds characters that cannot be printed"


def mailbox(value: str) -> str:
    """An e-mail address. Raises a usage error for a text that is none."""
    try:
        return email_address(value)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def moment(value: str | None) -> datetime | None:
    """The time of an option, as `read_moment` takes it."""
    if value is None:
        return None
    try:
        return read_moment(value)
    except ValueError:
        raise typer.BadParameter(f"{value!r} is no date: {FORMS}") from None


def read_moment(text: str) -> datetime:
    """The time of a text: a day, meaning its beginning in UTC, or a time as in RFC 3339. Raises `ValueError`."""
    text = text.strip()
    return request_body.moment(f"{text}T00:00:00Z" if len(text) == len("2026-01-31") else text)


Id = Annotated[int, typer.Argument(min=1, max=INT32_MAX, metavar="ID")]


def whose(help: str, name: str = "--customer") -> Any:
    """An option that takes a customer's id or name, or several of them."""
    return typer.Option(name, parser=reference("customer"), metavar="ID|NAME", help=help)


def which(noun: str) -> Any:
    """An argument that takes the id of `noun` or what it is called by; of `names.NOUNS`."""
    word = NOUNS[noun].called.removeprefix("with the ").replace("called", "name")
    return typer.Argument(parser=reference(noun), metavar="ID|NAME", help=f"Its id or its {word}.")


Customer = Annotated[int, whose("The customer it belongs to: its id or its name.")]
OfCustomer = Annotated[int | None, whose("Only those of this customer: its id or its name.")]
