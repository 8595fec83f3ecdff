"""Options that many commands share, with their checks."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from keyrack.api.schema import references, request_body
from keyrack.api.schema.request_body import INT32_MAX
from keyrack.cli.name_lookup import NOUNS, reference
from keyrack.core.settings.database import database_address
from keyrack.core.text import direction_control, email_address, nfc, trimmed

LONGEST = 250  # characters of a name
FORMS = "use 2026-01-31, or a time of RFC 3339 such as 2026-01-31T08:00:00Z or 2026-01-31T09:00:00+01:00"


def words(value: str | None) -> str | None:
    """A printable, non-empty text. Raises a usage error for any other text."""
    if value is None:
        return None
    stripped = nfc(trimmed(value))
    if wrong := wrong_words(stripped):
        raise typer.BadParameter(wrong)
    return stripped


def external_id(value: str | None) -> str | None:
    """A valid `externalId`; an empty text removes it. Raises a usage error for any other text."""
    if not value:
        return value
    try:
        return references.EXTERNAL_ID_TYPE.validate_python(value)
    except ValidationError:
        raise typer.BadParameter(
            f"must have 1 to {references.LONGEST_EXTERNAL_ID} characters without controls, and no blank at its ends"
        ) from None


def metadata(values: list[str] | None) -> dict[str, str | None]:
    """The texts by key of `KEY=TEXT`.

    `KEY=` has None, which removes the key. Raises a usage error.
    """
    texts = {key: text or None for key, _, text in (value.partition("=") for value in values or ())}
    if all("=" in value for value in values or ()):
        try:
            given = {key: text or "" for key, text in texts.items()}
            return {key: text or None for key, text in references.METADATA_TYPE.validate_python(given).items()}
        except ValidationError:
            pass
    raise typer.BadParameter(
        "must be KEY=TEXT: up to 20 keys with 1 to 40 letters, digits, _, . and -, and texts of up to 500 characters",
        param_hint="'--meta'",
    )


ExternalId = Annotated[
    str | None,
    typer.Option("--external-id", callback=external_id, help="The id in another system. An empty text removes it."),
]
Meta = Annotated[
    list[str] | None,
    typer.Option("--meta", metavar="KEY=TEXT", help="A text of the metadata. Without a text, the key is removed."),
]


def wrong_words(stripped: str) -> str | None:
    """The error of a text, or None if it is valid."""
    if not stripped:
        return "must not be empty"
    if len(stripped) > LONGEST:
        return f"has more than {LONGEST} characters"
    if control := direction_control(stripped):
        return f"contains {control}, which changes the direction of text"
    return None if stripped.isprintable() else "contains unprintable characters"


def mailbox(value: str) -> str:
    """A valid e-mail address. Raises a usage error for any other text."""
    try:
        return email_address(value)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def address(value: str | None) -> str | None:
    """The address of a database. Raises a usage error for any other text."""
    try:
        return database_address(value)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def moment(value: str | None) -> datetime | None:
    """The time of an option, in one of the forms of `read_moment`."""
    if value is None:
        return None
    try:
        return read_moment(value)
    except ValueError:
        raise typer.BadParameter(f"{value!r} is not a date or time: {FORMS}") from None


def read_moment(text: str) -> datetime:
    """The time of a text: a day, which means its start in UTC, or a time of RFC 3339. Raises `ValueError`."""
    text = text.strip()
    return request_body.moment(f"{text}T00:00:00Z" if len(text) == len("2026-01-31") else text)


Id = Annotated[int, typer.Argument(min=1, max=INT32_MAX, metavar="ID")]


def whose(help: str, name: str = "--customer") -> Any:
    """An option for the id or name of a customer, or of several."""
    return typer.Option(name, parser=reference("customer"), metavar="ID|NAME", help=help)


def which(noun: str) -> Any:
    """An argument for the id of `noun` or its name; one of `name_lookup.NOUNS`."""
    word = NOUNS[noun].called.removeprefix("with the ").replace("called", "name")
    return typer.Argument(parser=reference(noun), metavar="ID|NAME", help=f"The {NOUNS[noun].word}'s id or {word}.")


Customer = Annotated[int, whose("The customer's id or name.")]
OfCustomer = Annotated[int | None, whose("Show only those of this customer (id or name).")]
