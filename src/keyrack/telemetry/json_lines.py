"""Deliveries of many lines: parsing within limits, and the report of the results.

A few compressed bytes can expand to millions of lines, and a line can nest thousands of lists. So no line is parsed
before its length is known to be small, and only reported rejections use memory per line.
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

USUAL = 1_024  # bytes that are searched first for the end of an array's element
BLANK: Final = re.compile(rb"[ \t\r\n]*")
DECODER: Final = json.JSONDecoder(strict=False)


class InvalidLine(ValueError):
    """The reason why a line is invalid, as the report shows it."""


@dataclass(slots=True)
class Report:
    """The results of the lines of one delivery. `duplicates` contained nothing new.

    `refusals` counts all rejected lines. The first `max_reported` of them are kept with their reasons, by line number.
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
        """Add the results of other lines."""
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
    """The reason why the whole body is unusable."""


INVALID_LINES = ErrorCode(
    "invalid-lines", "The body is not valid JSON: {fault}.", "Send one JSON object per line, or one array of objects."
)
TOO_MANY_LINES = ErrorCode(
    "too-many-lines",
    "The body must have at most {most} lines or array elements.",
    "Split the lines into several deliveries.",
)


def too_many(settings: Settings) -> ContentTooLarge:
    """The error for a body with too many lines."""
    return ContentTooLarge(TOO_MANY_LINES.format(most=settings.ingest_max_lines))


def is_array(body: bytes) -> bool:
    """Whether a body is a JSON array instead of JSON lines."""
    return body.startswith(b"[", _behind_blank(body, 0))


def texts(body: bytes, settings: Settings) -> Iterator[tuple[int, bytes | InvalidLine]]:
    """The lines of a body, or the elements of its array, numbered from 1.

    Yields `InvalidLine` for a line that is too long. Before the first line it raises `NotALine` for an invalid array,
    and `ContentTooLarge` for too many lines.
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
    """The ranges of an array's elements. Each is parsed within its limit, and the value is dropped."""
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
        # Latin-1 has one character for each byte, and keeps all characters that structure JSON
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
    """The values of a body with their line numbers; `InvalidLine` for an invalid line. Raises as `texts`."""
    for number, text in texts(without_byte_order_mark(body), settings):
        yield number, text if isinstance(text, InvalidLine) else _value(text)


def _value(line: bytes) -> Any:
    try:
        value = from_json(line)
    except ValueError as error:
        return InvalidLine(f"The line is not valid JSON: {error}.")
    return repeated_member(line) or value


def repeated_member(line: bytes) -> InvalidLine | None:
    """The reason to reject a line for a repeated member, NaN or Infinity.

    See RFC 8259, sections 4 and 6. None for any other line.
    """
    try:
        _, name = parse(line)
    except ValueError as error:
        return InvalidLine(f"The line is not valid JSON: {error}.")
    return None if name is None else InvalidLine(f"The property '{_shown_name(name)}' is given more than once.")


def explained(error: ValidationError) -> str:
    """The first error of a line."""
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
    """A member's name for a reason: at most 60 characters, and printable."""
    return name if name.isprintable() and len(name) <= 60 else name[:60].encode("ascii", "replace").decode()
