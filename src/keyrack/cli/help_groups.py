"""Groups of commands: help below headings, and plain error messages for options.

It imports only modules that every command line has already loaded.
"""

from __future__ import annotations

import re
from typing import Any

import typer
from typer.core import TyperGroup

COMMANDS = "Commands"  # the heading of commands without a heading
END = re.compile(r"(?<=[.?!])\s+(?=[A-Z`-])")


def sentence(command: Any) -> str:
    """The first sentence of a command's help."""
    paragraph = " ".join((command.short_help or command.help or "").strip().partition("\n\n")[0].split())
    return END.split(paragraph, maxsplit=1)[0]


def plain_option_error(error: typer.BadParameter) -> str:
    """The message of an option's error, without texts of the validation library."""
    from pydantic import ValidationError  # slow to import, needed only for an error

    if not isinstance(error.__cause__, ValidationError):
        return error.message
    problem: Any = error.__cause__.errors()[0]
    value, bounds = f"{str(problem['input'])!r}", problem.get("ctx", {})
    match problem["type"]:
        case "int_parsing" | "int_parsing_size" | "int_from_float" | "int_type":
            return f"{value} is not a whole number"
        case "float_parsing" | "float_type" | "finite_number":
            return f"{value} is not a number"
        case "greater_than_equal":
            return f"{value} is less than {bounds['ge']}"
        case "less_than_equal":
            return f"{value} is more than {bounds['le']}"
        case _:
            return str(problem["msg"]).removeprefix("Value error, ")


class HelpGroup(TyperGroup):
    """A group that shows the first sentence of each command's help, wrapped and never cut."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        headings: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            if not command.hidden:
                heading = getattr(command, "rich_help_panel", None)
                rows = headings.setdefault(heading if isinstance(heading, str) else COMMANDS, [])
                rows.append((name, sentence(command)))
        longest = max((len(name) for rows in headings.values() for name, _ in rows), default=0)
        for heading, rows in headings.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(longest), summary) for name, summary in rows])

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = plain_option_error(error)
            raise

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        items: Any = super().shell_complete(ctx, incomplete)
        for item in items:
            if item.value in self.commands:
                item.help = sentence(self.commands[item.value])
        return items
