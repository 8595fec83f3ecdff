"""Readers of the OpenAPI document: resolved references, and all objects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

Json = dict[str, Any]


def inlined(document: Json) -> Json:
    """Return the document with resolved references to headers, parameters and error responses."""
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


REFERENCES = ("externalId", "metadata")  # callers of the spec do not get them


def strict(document: Json, schema: Json, expanded: int = 0) -> Json:
    """The schema without references. Only its properties are allowed, and required if in the spec."""
    whole = dict(resolved(document, schema))
    if "properties" in whole:
        added = {key for key, value in whole["properties"].items() if "$expand" in value.get("description", "")}
        members = {key: value for key, value in whole["properties"].items() if expanded or key not in added}
        whole["properties"] = {
            key: strict(document, value, expanded - (key in added)) for key, value in members.items()
        }
        required = [key for key in members if key not in REFERENCES]
        whole |= {"required": required, "additionalProperties": False}
    if "items" in whole:
        whole["items"] = strict(document, whole["items"], expanded)
    if "anyOf" in whole:
        whole["anyOf"] = [strict(document, option, expanded) for option in whole["anyOf"]]
    return whole


def objects(value: Any) -> Iterator[Json]:
    """Yield every object within the document, and the document itself."""
    if isinstance(value, dict):
        yield cast("Json", value)
    for inner in cast("Json", value).values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects(inner)
