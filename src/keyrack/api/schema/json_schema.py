"""Handwritten JSON schemas, for documents without a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class NamedSchema:
    """A schema with its name among the components of OpenAPI."""

    name: str
    schema: Json


def object_schema(description: str, required: Mapping[str, Json], optional: Mapping[str, Json] | None = None) -> Json:
    """An object with these properties."""
    members = {**required, **(optional or {})}
    return {"type": "object", "description": description, "required": list(required), "properties": members}


def text_schema(description: str, **more: object) -> Json:
    """A string, with further keywords of JSON Schema."""
    return {"type": "string", **more, "description": description}


def uri_schema(description: str, path: str) -> Json:
    """A URI of this server, with an example below `path`."""
    return text_schema(description, format="uri", examples=[f"https://keyrack.example.com{path}"])


def list_schemas(listed: Iterable[tuple[str, str, str]]) -> dict[str, Json]:
    """Properties that are lists of strings, each from its name, description and an example."""
    return {
        name: {"type": "array", "items": {"type": "string"}, "description": words, "examples": [[first]]}
        for name, words, first in listed
    }
