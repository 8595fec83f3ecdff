"""SQL of messages, made from the members of their models: each member is named once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import LiteralString

from pydantic import BaseModel

from keyrack.api.schema.fields import literal


def members(model: type[BaseModel]) -> tuple[str, ...]:
    """The JSON names of a model's members, in order."""
    return tuple(field.alias or name for name, field in model.model_fields.items())


def message_sql(model: type[BaseModel], values: Mapping[str, LiteralString]) -> LiteralString:
    """SQL of a message as JSON text: the model's members in order, each with its SQL of `values`.

    Raises `ValueError` at import if a member has no SQL, or SQL has no member.
    """
    names = members(model)
    if differing := values.keys() ^ set(names):
        raise ValueError(f"{model.__name__} and its SQL differ in {sorted(differing)}")
    return "json_build_object(" + ", ".join([literal(name) + ", " + values[name] for name in names]) + ")::text"
