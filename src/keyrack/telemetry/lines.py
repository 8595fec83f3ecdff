"""In charge of deliveries of many lines: reading them, each on its own, and the report of what became of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json


class Invalid(ValueError):
    """Why a line is not what it should be: the reason that the report tells."""


@dataclass(slots=True)
class Report:
    """What became of the lines of one delivery. `duplicates` told nothing that was not known already."""

    accepted: int = 0
    duplicates: int = 0
    refused: list[tuple[int, str]] = field(default_factory=list[Any])

    def refuse(self, line: int, reason: str) -> None:
        self.refused.append((line, reason))

    def add(self, other: Report) -> None:
        self.accepted += other.accepted
        self.duplicates += other.duplicates
        self.refused += other.refused


class NotALine(ValueError):
    """Why the whole body is unusable."""


def lines(body: bytes) -> Iterable[tuple[int, Any]]:
    """The values of a body, JSON lines or one array, with their numbers from 1 on; `Invalid` for a line that is none.

    Raises `NotALine` for an array that is not valid.
    """
    start = body.lstrip(b" \t\r\n")
    if start.startswith(b"["):
        try:
            values: list[Any] = from_json(start)
        except ValueError as error:
            raise NotALine(f"The body is not valid JSON: {error}.") from None
        yield from enumerate(values, 1)
        return
    for number, line in enumerate(body.split(b"\n"), 1):
        if line.strip():
            yield number, _value(line)


def _value(line: bytes) -> Any:
    try:
        return from_json(line)
    except ValueError as error:
        return Invalid(f"The line is not valid JSON: {error}.")


def explained(error: ValidationError) -> str:
    """The first thing that is wrong with a line."""
    problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
    name = next((part for part in problem["loc"] if isinstance(part, str)), None)
    if problem["type"] == "json_invalid":
        return f"The line is not valid JSON: {problem['msg'].removeprefix('Invalid JSON: ')}."
    if name is None:
        return "The line must be a JSON object."
    name = name if name.isprintable() and len(name) <= 60 else name[:60].encode("ascii", "replace").decode()
    if problem["type"] == "extra_forbidden":
        return f"Unknown field {name}."
    return f"No valid {name}: {problem['msg'][:1].lower()}{problem['msg'][1:]}."
