"""Confirmation of commands that delete much: a preview, and consent to it.

On a terminal the command asks; elsewhere it needs `--yes`. No transaction is open while the user decides.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from keyrack.cli.output import CommandFailed, CommandResult, visible

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the effect, and change nothing.")]
NO_WAY_BACK = "This cannot be undone."

# Words for members of `goes` whose names `--json` keeps
LABELS = {
    "stretches of positions": "position records",
    "places of events": "event locations",
    "newest positions of cars": "latest car positions",
    "service that stays without a product": "service that loses its product",
    "device keys that open nothing then": "device keys that stop working",
    "changes that are older": "older changes",
    "deliveries that wait": "waiting deliveries",
    "deliveries in its log": "finished deliveries",
    "managers who log in again": "managers who must log in again",
}


@dataclass(frozen=True, slots=True)
class ConfirmationPreview:
    """The effect of a command: a sentence without its subject, and the number of affected rows by kind."""

    text: str
    goes: Mapping[str, int] = field(default_factory=dict[str, int])
    then: str = NO_WAY_BACK
    shows_counts: bool = True  # false if the text already names everything that is affected
    cell: str | None = None  # its cell, if there are several

    @property
    def sentence(self) -> str:
        goes = [
            f"{count:,} {LABELS.get(kind, kind)}" for kind, count in self.goes.items() if count and self.shows_counts
        ]
        affected = f" Affected: {', '.join(goes[:-1]) + ' and ' * (len(goes) > 1) + goes[-1]}." if goes else ""
        place = f" in cell {self.cell}" if self.cell else ""
        return f"{self.text}{place}.{affected} {self.then}".rstrip()

    @property
    def said(self) -> CommandResult:
        """The result of `--dry-run`, which changes nothing."""
        place = {"cell": self.cell} if self.cell else {}
        value = {"dryRun": True, "would": self.text, "goes": dict(self.goes), **place}
        return CommandResult(value, f"This would {self.sentence}")


def agree(preview: ConfirmationPreview) -> None:
    """Ask for consent. Raises `CommandFailed` if it is denied, or if there is no terminal to ask on."""
    refused: dict[str, Any] = {"done": False, **{k: v for k, v in preview.said.value.items() if k != "dryRun"}}
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise CommandFailed(f"This would {preview.sentence} Confirm with --yes.", value=refused)
    typer.echo(visible(f"This would {preview.sentence}"), err=True)
    if not typer.confirm("Continue?", err=True):
        raise CommandFailed("Nothing was changed.", value=refused)
