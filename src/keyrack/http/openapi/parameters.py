"""The OpenAPI descriptions of path and query parameters."""

from __future__ import annotations

from typing import Any

from keyrack.api.endpoint import Endpoint
from keyrack.api.odata import OPTIONS
from keyrack.api.read_endpoint import ReadEndpoint
from keyrack.http.openapi.descriptions.fleet import EVERYWHERE
from keyrack.http.openapi.member_schemas import Json


def of_path(endpoint: Endpoint[Any]) -> list[Json]:
    """The parameters of the path."""
    parameters: list[Json] = []
    for name in endpoint.parameters:
        schema: Json = (
            {"type": "integer", "format": "int32", "minimum": 1} if name.endswith("Id") else {"type": "string"}
        )
        if name == "operationId":
            schema = {"type": "string", "format": "uuid"}
        if name in ("changeId", "deliveryId"):
            schema["format"] = "int64"
        if name == "searchDate":
            schema = {"type": "string", "format": "date-time"}
        if name == "deviceId":
            schema = {"type": "string", "format": "base64url"}
        words, example = EVERYWHERE[name]
        parameters.append(
            {
                "name": name,
                "in": "path",
                "required": True,
                "description": words,
                "schema": schema,
                "example": example,
            }
        )
    return parameters


# OData options: the schema of the value, and the description
_OPTIONS: dict[str, tuple[Json, str]] = {
    "filter": (
        {"type": "string"},
        "Returns only rows that match this condition, such as `name eq 'Golf' and not (vin eq null)`.",
    ),
    "orderby": ({"type": "string"}, "The order of the rows, such as `name desc,id`."),
    "top": ({"type": "integer", "minimum": 0}, "The maximum number of rows."),
    "skip": ({"type": "integer", "minimum": 0}, "The number of rows to skip."),
    "count": ({"type": "boolean"}, "`true` adds the header X-Total-Count with the total number of rows."),
    "select": ({"type": "string"}, "Returns only these properties, without other properties that the schema requires."),
    "expand": (
        {"type": "string"},
        "Adds these relations, such as `products($select=type)`, or their number, such as `products/$count`.",
    ),
    "search": ({"type": "string"}, "Returns only rows that contain these words."),
    "compute": (
        {"type": "string", "examples": ["length(name) as letters"]},
        "Adds computed properties, such as `length(name) as letters`, for the other options and the response.",
    ),
    "apply": (
        {"type": "string", "examples": ["groupby((brand),aggregate($count as cars))"]},
        "Returns aggregates instead of rows, such as `groupby((brand),aggregate($count as cars))`.",
    ),
    "format": ({"type": "string"}, "The format of the response. Only `json` is supported."),
}


def of_query(endpoint: Endpoint[Any]) -> list[Json]:
    """OData options, and the endpoint's own parameters."""
    return [*_odata_parameters(endpoint), *_own_parameters(endpoint)]


def _own_parameters(endpoint: Endpoint[Any]) -> list[Json]:
    return [
        {
            "name": option.name,
            "in": "query",
            "required": option.is_required,
            "description": option.meaning,
            "schema": dict(option.schema),
        }
        for option in endpoint.query_parameters
    ]


def _odata_parameters(endpoint: Endpoint[Any]) -> list[Json]:
    read = endpoint.read or endpoint.representation_read
    if read is None:
        return []
    shape = read.select.shape
    return [
        {
            "name": f"${name}",
            "in": "query",
            "required": False,
            "description": _OPTIONS[name][1] + _relations(read, name),
            "schema": _OPTIONS[name][0],
        }
        for name, shapes in OPTIONS.items()
        if shape in shapes
    ]


def _relations(read: ReadEndpoint, option: str) -> str:
    names = read.select.resource.relations if option == "expand" else ()
    return f" Relations: {', '.join(names)}." if names else ""
