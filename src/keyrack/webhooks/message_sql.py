"""SQL of messages, made from the members of their models: each member is named once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import LiteralString

from pydantic import BaseModel

from keyrack.api.schema.fields import literal


def members(model: type[BaseModel]) -> tuple[str, ...]:
    """The JSON names of a model's members, in order."""
    return tuple(field.alias or name for name, field in model.model_fields.items())


def message_id_sql(hash: LiteralString) -> LiteralString:
    """SQL of a message id, from the first bytes of a hash.

    It is a UUID of version 8 (RFC 9562, section 5.8).
    """
    bytes: LiteralString = "substring(" + hash + " for 16)"
    return (
        "encode(set_byte(set_byte(" + bytes + ", 6, get_byte(" + bytes + ", 6) & 15 | 128), 8, get_byte(" + bytes
        + ", 8) & 63 | 128), 'hex')::uuid"
    )  # fmt: skip


def lane_sql(resource: LiteralString) -> LiteralString:
    """SQL of the lane of a resource.

    Bit 62 keeps these lanes apart from others: those of assignments have 32 bits, those of operations and tests are
    negative.
    """
    return "(hashtextextended(" + resource + ", 0) & 4611686018427387903 | 4611686018427387904)"


def message_sql(model: type[BaseModel], values: Mapping[str, LiteralString]) -> LiteralString:
    """SQL of a message as JSON text: the model's members in order, each with its SQL of `values`.

    Raises `ValueError` at import if a member has no SQL, or SQL has no member.
    """
    names = members(model)
    if differing := values.keys() ^ set(names):
        raise ValueError(f"{model.__name__} and its SQL differ in {sorted(differing)}")
    return "json_build_object(" + ", ".join([literal(name) + ", " + values[name] for name in names]) + ")::text"
