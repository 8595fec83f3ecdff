"""The output of commands: JSON, text, tables and errors."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import zip_longest
from typing import Annotated, Any, cast

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

GAP = "  "  # between two columns
SHORTEST = 12  # minimum characters of prose, even on a narrow terminal
# Characters that control a terminal (CWE-150): all controls but line ends and tabs, and direction controls of text
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
NUMERIC = re.compile(r"[\d ,:.-]*")  # values such as times, which have a space but are not prose


@dataclass(frozen=True, slots=True)
class CommandResult:
    """One result: `value` for machines, `text` for people."""

    value: Mapping[str, Any]
    text: str


@dataclass(frozen=True, slots=True)
class ListResult:
    """Rows: an array for machines, a table with these columns for people."""

    rows: Sequence[Mapping[str, Any]]
    columns: Mapping[str, str]  # heading -> member


class CommandFailed(Exception):
    """The error of a command, for its user.

    `lines` are the details, and `value` is the JSON.
    """

    def __init__(self, text: str, lines: Sequence[str] = (), value: Mapping[str, Any] | None = None) -> None:
        super().__init__(text)
        self.lines = lines
        self.value = value


def show(result: CommandResult | ListResult, as_json: bool) -> None:
    """Print a result: JSON for machines, else text for people."""
    if as_json:
        value = [dict(row) for row in result.rows] if isinstance(result, ListResult) else dict(result.value)
        typer.echo(as_text(value))
    elif isinstance(result, CommandResult):
        typer.echo(visible(result.text))
    else:
        for line in table(result, width=terminal_width()):
            typer.echo(line)


def visible(text: str) -> str:
    """The text with control characters escaped. Names of cars and the like can come from attackers."""
    return CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def as_text(value: object, *, indent: int | None = None) -> str:
    """The value as JSON, with control characters escaped."""
    return visible(json.dumps(value, default=plain, ensure_ascii=False, indent=indent))


def terminal_width() -> int | None:
    """The columns of the terminal on standard output; None for a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def table(result: ListResult, *, width: int | None = None) -> list[str]:
    """The rows in columns, below their headings.

    Without a `width` no cell is cut, so that the output can be searched. With one, only prose is cut, because ids,
    numbers, times, addresses, lists and JSON are pasted into the next command. If the rows are still too wide, each row
    becomes a block of uncut lines.
    """
    if not result.rows:
        return ["None."]
    rows = [[row[member] for member in result.columns.values()] for row in result.rows]
    lines = [list(result.columns), *([_cell(value) for value in row] for row in rows)]
    if width is None:
        return columns(lines)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    least = [
        max(len(heading), *map(_least, values))
        for heading, values in zip(lines[0], zip(*rows, strict=True), strict=True)
    ]
    room = width - len(GAP) * (len(widths) - 1)
    if sum(least) > room:
        return _blocks(lines)
    fitting = _fitting(widths, least, room)
    return columns([[_cut(cell, most) for cell, most in zip(line, fitting, strict=True)] for line in lines])


def _least(value: object) -> int:
    """The minimum width of a value: part of prose, all of any other value."""
    cell = _cell(value)
    is_prose = isinstance(value, str) and " " in cell and cell[0] not in "{[" and not NUMERIC.fullmatch(cell)
    return min(len(cell), SHORTEST) if is_prose else len(cell)


def _fitting(widths: list[int], least: list[int], room: int) -> list[int]:
    """The widths of columns that fit. The widest column that may be cut is cut first."""
    column_widths = list(widths)
    while sum(column_widths) > room:
        giving = max(
            (n for n in range(len(column_widths)) if column_widths[n] > least[n]), key=lambda n: column_widths[n]
        )
        column_widths[giving] -= 1
    return column_widths


def _cut(cell: str, most: int) -> str:
    return cell if len(cell) <= most else cell[: most - 1].rstrip() + "…"


def _blocks(lines: list[list[str]]) -> list[str]:
    """Each row as lines of heading and value, with an empty line between rows; the terminal wraps long lines."""
    longest = max(map(len, lines[0]))
    blocks: list[str] = []
    for line in lines[1:]:
        blocks += [f"{heading:<{longest}}{GAP}{cell}" for heading, cell in zip(lines[0], line, strict=True)]
        blocks.append("")
    return blocks[:-1]


def columns(lines: Sequence[Sequence[str]]) -> list[str]:
    """Cells aligned in columns; a line may have fewer cells than others."""
    widths = [max(map(len, column)) for column in zip_longest(*lines, fillvalue="")]
    return [GAP.join(cell.ljust(width) for cell, width in zip(line, widths, strict=False)).rstrip() for line in lines]


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "minutes")
    if isinstance(value, list | tuple):
        return visible(", ".join(map(str, cast("list[object]", value)))) or "-"
    return visible(" ".join(str(value).split()))


def plain(value: object) -> str:
    """A time or a date as RFC 3339 text, for JSON."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"no JSON for {type(value).__name__}")
