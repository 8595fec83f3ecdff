"""Refused messages of the vectors, one change from a valid one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from keyrack.offline_keys.refusal_codes import BoxRefusalCode
from tests.offline_keys.vectors.message_recipes import Json


class Bad(NamedTuple):
    mends: str  # the valid one
    comment: str
    flags: tuple[str, ...]
    code: BoxRefusalCode
    change: Json


def bad(mends: str, path: str, value: Any, code: BoxRefusalCode, flags: str, comment: str) -> Bad:
    """The valid message with this value at this place of its input."""
    return Bad(mends, comment, tuple(flags.split()), code, {"path": path.split("/"), "value": value})


def several(mends: str, path: str, *rows: tuple[Any, BoxRefusalCode, str, str]) -> Iterator[Bad]:
    """Cases of one valid message at one place: value, code, flags and comment."""
    yield from (bad(mends, path, *row) for row in rows)


def instead(old: str, new: str) -> Json:
    return {"replace": old, "by": new}


def more(data: str) -> Json:
    return {"append": data}
