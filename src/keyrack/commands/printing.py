"""In charge of what a command has to say: JSON for machines, text and tables for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import zip_longest
from typing import Any, cast

import typer


@dataclass(frozen=True, slots=True)
class Said:
    """One result: `value` for machines, `text` for people."""

    value: Mapping[str, Any]
    text: str


@dataclass(frozen=True, slots=True)
class Listed:
    """Rows: an array for machines, a table with these columns for people."""

    rows: Sequence[Mapping[str, Any]]
    columns: Mapping[str, str]  # heading -> member


def show(result: Said | Listed, as_json: bool) -> None:
    """Print a result: JSON for machines, else text for people."""
    if as_json:
        value = [dict(row) for row in result.rows] if isinstance(result, Listed) else dict(result.value)
        typer.echo(json.dumps(value, default=plain, ensure_ascii=False))
    elif isinstance(result, Said):
        typer.echo(result.text)
    else:
        for line in table(result):
            typer.echo(line)


def table(result: Listed) -> list[str]:
    """The rows in columns, below their headings; never cut, so that they can be searched."""
    if not result.rows:
        return ["None."]
    lines = [[_cell(row[member]) for member in result.columns.values()] for row in result.rows]
    lines.insert(0, list(result.columns))
    return columns(lines)


def columns(lines: Sequence[Sequence[str]]) -> list[str]:
    """Cells below one another; a line may have fewer of them."""
    widths = [max(map(len, column)) for column in zip_longest(*lines, fillvalue="")]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=False)).rstrip() for line in lines]


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%d %H:%M}"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, cast("list[object]", value))) or "-"
    return " ".join(str(value).split())


def plain(value: object) -> str:
    """What JSON has no form for: a time or a date, as RFC 3339 has it."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"no JSON for {type(value).__name__}")
