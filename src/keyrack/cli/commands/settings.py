"""The command `settings`: effective settings and their sources."""

from __future__ import annotations

import textwrap
from typing import Annotated, Any

import typer

from keyrack.cli.commands.reference import Markdown
from keyrack.cli.database_session import Json, explained, read_settings
from keyrack.cli.environment import warn_of_names
from keyrack.cli.output import CommandFailed, CommandResult, ListResult, show
from keyrack.core.settings import RENAMED, Settings, nearest, origins_of, printable, sections, variable

app = typer.Typer()

WIDTH = 100
COLUMNS = {"SETTING": "name", "VALUE": "value", "FROM": "where"}


def _names(incomplete: str) -> list[str]:
    return [name for name in Settings.model_fields if name.startswith(incomplete)]


Name = Annotated[
    str | None,
    typer.Argument(metavar="[NAME]", help="Show this setting, with its description.", autocompletion=_names),
]


@app.command("settings")
def settings(
    name: Name = None,
    changed: Annotated[
        bool, typer.Option("--changed", help="Show only settings whose source is not the default.")
    ] = False,
    as_json: Json = False,
    markdown: Markdown = False,
) -> None:
    """Show the effective settings and their sources; secrets are shown as ***."""

    def run() -> None:
        if markdown:
            from keyrack.http.openapi.markdown_tables import settings_markdown

            print(settings_markdown(), end="")
            return
        rows = _rows()
        warn_of_names()
        if name is not None:
            show(_one(rows, name), as_json)
            return
        kept = [row for row in rows if not changed or row["from"] != "default"]
        show(ListResult(kept if as_json else [row | {"where": _where(row)} for row in kept], COLUMNS), as_json)

    explained(run)


def _rows() -> list[dict[str, Any]]:
    values, origins, places = read_settings(), origins_of(Settings), sections(Settings)
    return [
        {
            "name": name,
            "variable": variable(name),
            "section": places[name] or None,
            "value": printable(getattr(values, name)),
            "from": origins[name].kind,
            "where": origins[name].where,
            "default": printable(field.get_default(call_default_factory=True)),
            "meaning": field.description,
        }
        for name, field in Settings.model_fields.items()
    ]


def _where(row: dict[str, Any]) -> str:
    return row["where"] or row["from"]


def _one(rows: list[dict[str, Any]], wanted: str) -> CommandResult:
    bare = wanted.lower().removeprefix("keyrack_")
    current = RENAMED.get(bare, bare)
    for row in rows:
        if row["name"] == current:
            value, default = ("none" if row[key] is None else row[key] for key in ("value", "default"))
            lines = [f"{row['variable']} = {value}", f"From      {_where(row)}", f"Default   {default}"]
            lines += [f"Section   [{row['section']}]"] if row["section"] else []
            text = "\n".join([*lines, "", *textwrap.wrap(row["meaning"], WIDTH)])
            return CommandResult(row, text)
    meant = nearest(bare, [*(row["name"] for row in rows), *RENAMED])
    meant = RENAMED.get(meant, meant) if meant else None
    raise CommandFailed(
        f"There is no setting {wanted}." + (f" Did you mean {meant}?" if meant else " See docs/settings.md.")
    )
