"""In charge of deliveries of many lines: taking them apart within bounds, and the report of what became of them.

A few bytes can be packed into millions of lines, and a line can nest thousands of lists: nothing is parsed before it is
known to be short, and nothing is kept for each line but what the report tells.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import from_json

from keyrack.api.schema.field_errors import sentence
from keyrack.api.schema.unknown_members import parse
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import ContentTooLarge
from keyrack.core.settings import Settings
from keyrack.core.text import without_byte_order_mark

USUAL = 1_024  # bytes in which the end of an array's element is looked for first
BLANK: Final = re.compile(rb"[ \t\r\n]*")
DECODER: Final = json.JSONDecoder(strict=False)


class InvalidLine(ValueError):
    """Why a line is not what it should be: the reason that the report tells."""


@dataclass(slots=True)
class Report:
    """What became of the lines of one delivery. `duplicates` told nothing that was not known already.

    Of the refused ones, `refusals`, the first `max_reported` are kept with their reasons, in the order of their lines.
    """

    max_reported: int
    accepted: int = 0
    duplicates: int = 0
    refusals: int = 0
    _rejections: list[tuple[int, str]] = field(default_factory=list[Any])

    def refuse(self, line: int, reason: str) -> None:
        self.refusals += 1
        self._rejections.append((line, reason))
        if len(self._rejections) >= 2 * self.max_reported:
            self._cut()

    def add(self, other: Report) -> None:
        """Count what became of some of the lines."""
        self.accepted += other.accepted
        self.duplicates += other.duplicates
        self.refusals += other.refusals
        self._rejections += other._rejections
        self._cut()

    @property
    def rejections(self) -> list[tuple[int, str]]:
        self._cut()
        return self._rejections

    def _cut(self) -> None:
        self._rejections.sort()
        del self._rejections[self.max_reported :]


class NotALine(ValueError):
    """Why the whole body is unusable."""


INVALID_LINES = ErrorCode(
    "invalid-lines", "The body is not valid JSON: {fault}.", "Send one JSON object per line, or one array of objects."
)
TOO_MANY_LINES = ErrorCode(
    "too-many-lines",
    "The body must have at most {most} lines or array elements.",
    "Split the lines into several deliveries.",
)


def too_many(settings: Settings) -> ContentTooLarge:
    """The refusal of a body with more lines than are taken."""
    return ContentTooLarge(TOO_MANY_LINES.format(most=settings.ingest_max_lines))


def is_array(body: bytes) -> bool:
    """Whether a body is one array, and not JSON lines."""
    return body.startswith(b"[", _behind_blank(body, 0))


def texts(body: bytes, settings: Settings) -> Iterator[tuple[int, bytes | InvalidLine]]:
    """The lines of a body, JSON lines or the elements of one array, with their numbers from 1 on.

    `InvalidLine` for a line that is too long. Raises `NotALine` for an array that is not valid, and `ContentTooLarge`
    for too many lines, before the first one is given.
    """
    if is_array(body):
        for number, (start, end) in enumerate(_elements(body, settings), 1):
            yield number, body[start:end]
        return
    if body.count(b"\n") + (not body.endswith(b"\n")) > settings.ingest_max_lines:
        raise too_many(settings)
    for number, line in enumerate(BytesIO(body), 1):
        if len(line) > settings.ingest_max_line_bytes:
            yield number, InvalidLine(f"The line is longer than {settings.ingest_max_line_bytes} bytes.")
        elif not line.isspace():
            yield number, line


def _elements(body: bytes, settings: Settings) -> list[tuple[int, int]]:
    """Where the elements of an array begin and end. Each is read within its bound, and forgotten."""
    ranges: list[tuple[int, int]] = []
    at = _behind_blank(body, body.index(b"[") + 1)
    is_more = not body.startswith(b"]", at)
    while is_more:
        if len(ranges) == settings.ingest_max_lines:
            raise too_many(settings)
        end = _end(body, at, len(ranges) + 1, settings.ingest_max_line_bytes)
        ranges.append((at, end))
        at = _behind_blank(body, end)
        is_more = body.startswith(b",", at)
        if is_more:
            at = _behind_blank(body, at + 1)
    if not body.startswith(b"]", at) or _behind_blank(body, at + 1) != len(body):
        raise NotALine(f"The body is not valid JSON: the array does not end after element {len(ranges)}.")
    return ranges


def _end(body: bytes, at: int, number: int, longest: int) -> int:
    for size in (min(USUAL, longest), longest):
        # Latin-1: a character for each byte, and all that gives JSON its structure is the same
        window = body[at : at + size].decode("latin-1")
        try:
            return at + DECODER.raw_decode(window)[1]
        except (ValueError, RecursionError):
            continue
    if len(body) > at + longest:
        raise NotALine(
            f"The body is not valid JSON: element {number} of the array is not valid or exceeds {longest} bytes."
        )
    raise NotALine(f"The body is not valid JSON: element {number} of the array is not valid.")


def _behind_blank(body: bytes, at: int) -> int:
    return BLANK.match(body, at).end()  # pyright: ignore[reportOptionalMemberAccess] - it always matches


def lines(body: bytes, settings: Settings) -> Iterable[tuple[int, Any]]:
    """The values of a body, with the numbers of their lines; `InvalidLine` for a line that is none. Raises as
    `texts`."""
    for number, text in texts(without_byte_order_mark(body), settings):
        yield number, text if isinstance(text, InvalidLine) else _value(text)


def _value(line: bytes) -> Any:
    try:
        value = from_json(line)
    except ValueError as error:
        return InvalidLine(f"The line is not valid JSON: {error}.")
    return repeated_member(line) or value


def repeated_member(line: bytes) -> InvalidLine | None:
    """The reason to refuse a line with a repeated member, or with NaN or Infinity (RFC 8259, sections 4 and 6).

    None for any other line.
    """
    try:
        _, name = parse(line)
    except ValueError as error:
        return InvalidLine(f"The line is not valid JSON: {error}.")
    return None if name is None else InvalidLine(f"The property {_shown_name(name)} is given more than once.")


def explained(error: ValidationError) -> str:
    """The first thing that is wrong with a line."""
    problem = error.errors(include_url=False)[0]
    name = next((part for part in problem["loc"] if isinstance(part, str)), None)
    if problem["type"] == "json_invalid":
        return f"The line is not valid JSON: {problem['msg'].removeprefix('Invalid JSON: ')}."
    if name is None:
        return "The line must be a JSON object."
    if problem["type"] == "extra_forbidden":
        return f"There is no property '{_shown_name(name)}'."
    return sentence(problem)


def _shown_name(name: str) -> str:
    """The name of a member as a reason shows it: it may be of any length, with any characters."""
    return name if name.isprintable() and len(name) <= 60 else name[:60].encode("ascii", "replace").decode()
