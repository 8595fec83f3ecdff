"""In charge of consent to what removes much: what would go is shown, and somebody has to want it.

On a terminal the user is asked; elsewhere `--yes` has to be said. Nothing is held or locked while somebody thinks.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from keyrack.cli.output import CommandFailed, CommandResult, visible

Yes = Annotated[bool, typer.Option("--yes", help="Do it without being asked.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would go, and change nothing.")]
NO_WAY_BACK = "There is no way back."


@dataclass(frozen=True, slots=True)
class ConfirmationPreview:
    """What a command would do: a sentence without its end, and how many of what would go."""

    text: str
    goes: Mapping[str, int] = field(default_factory=dict[str, int])
    then: str = NO_WAY_BACK

    @property
    def sentence(self) -> str:
        goes = [f"{count:,} {noun}" for noun, count in self.goes.items() if count]
        with_it = f" with {', '.join(goes[:-1]) + ' and ' * (len(goes) > 1) + goes[-1]}" if goes else ""
        return f"{self.text}{with_it}. {self.then}".rstrip()

    @property
    def said(self) -> CommandResult:
        """For `--dry-run`: nothing is done, and this is what would be."""
        return CommandResult(
            {"dryRun": True, "would": self.text, "goes": dict(self.goes)}, f"This would {self.sentence}"
        )


def agree(preview: ConfirmationPreview) -> None:
    """Ask whether it is to be done. Raises `CommandFailed`: it is not wanted, or there is nobody to be asked."""
    refused: dict[str, Any] = {"done": False, **{k: v for k, v in preview.said.value.items() if k != "dryRun"}}
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise CommandFailed(f"This would {preview.sentence} To do it, add --yes.", value=refused)
    typer.echo(visible(f"This would {preview.sentence}"), err=True)
    if not typer.confirm("Do it?", err=True):
        raise CommandFailed("Nothing was changed.", value=refused)
