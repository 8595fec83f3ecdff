"""In charge of how a group of commands explains itself: below headings, each command with a whole sentence.

Nothing is imported here but what every command line has loaded already.
"""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperGroup

COMMANDS = "Commands"  # the heading of those that have none
END = re.compile(r"(?<=[.?!])\s+(?=[A-Z`-])")


def sentence(command: Any) -> str:
    """The first sentence of a command's help."""
    paragraph = " ".join((command.short_help or command.help or "").strip().partition("\n\n")[0].split())
    return END.split(paragraph, maxsplit=1)[0]


class HelpGroup(TyperGroup):
    """A group whose commands are told by whole sentences, on as many lines as it takes."""

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

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        items: Any = super().shell_complete(ctx, incomplete)
        for item in items:
            if item.value in self.commands:
                item.help = sentence(self.commands[item.value])
        return items
