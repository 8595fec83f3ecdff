"""Error texts of setting values: the value, and what is valid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from keyrack.core.settings.config_file import masked
from keyrack.core.settings.secret_files import is_secret

LONGEST = 60  # characters of a value that an error shows
OWN = "Value error, "  # pydantic's prefix for errors of the validators in this package

NOUNS: Mapping[type, str] = {int: "a whole number", float: "a number", Path: "a path", str: "text"}


@dataclass(frozen=True, slots=True)
class ValueForm:
    """Annotation of a setting with a pattern: its valid values in words."""

    words: str


def explain(error: Mapping[str, Any], field: FieldInfo) -> str:
    """The error text of a setting for an error of pydantic, without secrets.

    >>> from keyrack.core.settings import Settings
    >>> explain({"type": "int_parsing", "input": "many", "msg": "..."}, Settings.model_fields["pool_size"])
    "'many' is not a whole number from 1 to 500"
    """
    message, value = str(error["msg"]), str(error["input"])
    if message.startswith(OWN):
        return message.removeprefix(OWN).replace(value, _shortened(value))
    is_hidden = is_secret(field) or "Secret" in str(field.annotation)
    shown = "the value" if is_hidden else f"'{_shortened(masked(value))}'"
    return f"{shown} is not {valid(field)}"


def _shortened(value: str) -> str:
    return value if len(value) <= LONGEST else value[:LONGEST] + "…"


def valid(field: FieldInfo) -> str:
    """The valid values of a setting, as a phrase after "is not"."""
    for form in field.metadata:
        if isinstance(form, ValueForm):
            return form.words
    kind = _kind(field.annotation)
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(str, get_args(kind)))
    if kind is bool:
        return "true or false"
    return NOUNS.get(kind, "text") + _bounds(field)


def _kind(annotation: Any) -> Any:
    """The type of a setting without `None`."""
    if get_origin(annotation) in (Union, UnionType):
        return next(part for part in get_args(annotation) if part is not type(None))
    return annotation


def _bounds(field: FieldInfo) -> str:
    """The range of a number or the maximum length of a text."""

    def bound(name: str) -> Any:
        return next((value for part in field.metadata if (value := getattr(part, name, None)) is not None), None)

    least, above, most, longest = (bound(name) for name in ("ge", "gt", "le", "max_length"))
    if least is not None:
        return f" of at least {least}" if most is None else f" from {least} to {most}"
    if above is not None:
        return f" above {above}" if most is None else f" above {above}, up to {most}"
    if most is not None:
        return f" of at most {most}"
    return "" if longest is None else f" of at most {longest} characters"
