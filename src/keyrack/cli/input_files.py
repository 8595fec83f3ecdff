"""Reads import files: the rows of a CSV or JSON file, each with its line number."""

from __future__ import annotations

import csv
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO, cast

from keyrack.api.schema.request_body import INT32_MAX
from keyrack.cli.options import FORMS, read_moment, wrong_words
from keyrack.cli.output import CommandFailed
from keyrack.core.text import nfc, trimmed

DELIMITERS = ",;\t"
JSON_NAMES = (".json", ".jsonl", ".ndjson")


@dataclass(slots=True)
class InputRow:
    """One row of a file; `problems` collects its errors."""

    line: int
    values: dict[str, str]
    problems: list[str] = field(default_factory=list[str])

    def text(self, name: str, *, needed: bool = True) -> str | None:
        """A text of the row, or None."""
        value = nfc(trimmed(self.values.get(_plain(name), "")))
        if not value:
            if needed:
                self.problems.append(f"{name} is missing")
            return None
        if wrong := wrong_words(value):
            self.problems.append(f"{name} {wrong}")
            return None
        return value

    def number(self, name: str, default: int | None = None) -> int | None:
        """A whole number from 0 to the maximum of int32, or `default` if the cell is empty."""
        value = self.text(name, needed=False)
        if value is None:
            return default
        if value.isascii() and value.isdigit() and len(value) <= 10 and int(value) <= INT32_MAX:
            return int(value)
        self.problems.append(f"{name} must be a whole number from 0 to {INT32_MAX}, not {value!r}")
        return None

    def moment(self, name: str) -> Any:
        """A time in one of the forms of `read_moment`, or None."""
        value = self.text(name, needed=False)
        if value is None:
            return None
        try:
            return read_moment(value)
        except ValueError:
            self.problems.append(f"{name} is not a date or time: {value!r}; {FORMS}")
            return None


def read_rows(path: Path, format: str | None, columns: Collection[str]) -> Iterator[InputRow]:
    """The rows of a file. Raises `CommandFailed` if it is unreadable or has a column outside `columns`."""
    column_names = {_plain(name): name for name in columns}
    as_json = format == "json" if format else path.suffix.lower() in JSON_NAMES
    if not as_json and not format and path.suffix.lower() not in (".csv", ".tsv", ".txt"):
        raise CommandFailed(f"The format of {path} is unknown. Add --format csv or --format json.")
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from _json_rows(file, path, column_names) if as_json else _csv_rows(file, path, column_names)
    except UnicodeDecodeError as error:
        raise CommandFailed(f"{path} is not UTF-8: {error.reason} at byte {error.start}.") from None
    except OSError as error:
        raise CommandFailed(f"{path} cannot be read: {error.strerror}.") from None


def _csv_rows(file: TextIO, path: Path, column_names: dict[str, str]) -> Iterator[InputRow]:
    head = file.readline()
    file.seek(0)
    delimiter = max(DELIMITERS, key=head.count)
    reader = csv.reader(file, delimiter=delimiter, strict=True)
    try:
        names = [_plain(name) for name in next(reader, list[str]())]
        _check_columns(path, names, column_names)
        for cells in reader:
            if any(cells):
                row = InputRow(reader.line_num, dict(zip(names, cells, strict=False)))
                if len(cells) > len(names):
                    row.problems.append(f"has {len(cells)} cells, but the header has {len(names)}")
                yield row
    except csv.Error as error:
        raise CommandFailed(f"{path}, line {reader.line_num}: {error}.") from None


def _json_rows(file: TextIO, path: Path, column_names: dict[str, str]) -> Iterator[InputRow]:
    text = file.read()
    try:
        if path.suffix.lower() in JSON_NAMES[1:]:
            items: Any = [json.loads(line) for line in text.splitlines() if line.strip()]
        else:
            items = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CommandFailed(f"{path} is not valid JSON: {error}.") from None
    if not isinstance(items, list):
        raise CommandFailed(f"{path} must contain an array of objects.")
    for number, item in enumerate(cast("list[object]", items), 1):
        if not isinstance(item, dict):
            yield InputRow(number, {}, ["is not an object"])
            continue
        row = InputRow(number, {})
        for name, value in cast("dict[str, object]", item).items():
            if _plain(name) not in column_names:
                row.problems.append(f"has an unknown property: {name!r}")
            elif isinstance(value, str | int) and not isinstance(value, bool):
                row.values[_plain(name)] = str(value)
            elif value is not None:
                row.problems.append(f"{name} must be text or a whole number")
        yield row


def _check_columns(path: Path, names: list[str], column_names: dict[str, str]) -> None:
    wrong = [name or "(empty)" for name in names if name not in column_names]
    if not names or wrong or len(set(names)) < len(names):
        problem = f"has unknown columns: {', '.join(wrong)}" if wrong else "has no header, or a duplicate column"
        raise CommandFailed(f"{path} {problem}. Valid columns: {', '.join(column_names.values())}.")


def _plain(name: str) -> str:
    """A column's name in a form that ignores case and separators: serialNumber, serial_number, Serial number."""
    return "".join(character for character in name.lower() if character.isalnum())
