"""Readers of the OpenAPI document for tests: resolved references, and all objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

Json = dict[str, Any]


def inlined(document: Json) -> Json:
    """The document with every reference to a header, parameter or error response resolved."""
    return _inlined(document, document)


def _inlined(document: Json, part: Any) -> Any:
    if isinstance(part, list):
        return [_inlined(document, inner) for inner in cast("list[Any]", part)]
    if not isinstance(part, dict):
        return part
    _, kind, name = cast("Json", part).get("$ref", "//").rsplit("/", 2)
    if kind in ("headers", "parameters", "responses"):
        return _inlined(document, document["components"][kind][name])
    return {key: _inlined(document, inner) for key, inner in cast("Json", part).items()}


def resolved(document: Json, schema: Json) -> Json:
    if "$ref" in schema:
        return document["components"]["schemas"][schema["$ref"].removeprefix("#/components/schemas/")]
    return schema


def objects(value: Any) -> Iterator[Json]:
    """Every object within the document, including the document itself."""
    if isinstance(value, dict):
        yield cast("Json", value)
    for inner in cast("Json", value).values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects(inner)
