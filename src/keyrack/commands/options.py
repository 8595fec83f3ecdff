"""The options that many commands share, checked where they enter."""

from __future__ import annotations

from typing import Annotated

import typer

INT32_MAX = 2**31 - 1
LONGEST = 250  # characters of a name


def words(value: str | None) -> str | None:
    """A text that says something. Raises a usage error for an empty, an overlong or an unprintable one."""
    if value is None:
        return None
    stripped = value.strip()
    if not stripped:
        raise typer.BadParameter("must not be empty")
    if len(stripped) > LONGEST:
        raise typer.BadParameter(f"has more than {LONGEST} characters")
    if not stripped.isprintable():
        raise typer.BadParameter("holds characters that cannot be printed")
    return stripped


Id = Annotated[int, typer.Argument(min=1, max=INT32_MAX, metavar="ID")]
Customer = Annotated[
    int, typer.Option("--customer", min=1, max=INT32_MAX, metavar="ID", help="The customer it belongs to.")
]
OfCustomer = Annotated[
    int | None, typer.Option("--customer", min=1, max=INT32_MAX, metavar="ID", help="Only those of this customer.")
]
