"""In charge of what OpenAPI says of the parameters of paths and query strings."""

from __future__ import annotations

from typing import Any

from keyrack.api.endpoint import Endpoint
from keyrack.api.odata import OPTIONS
from keyrack.api.read_endpoint import ReadEndpoint
from keyrack.http.openapi.descriptions.fleet import EVERYWHERE
from keyrack.http.openapi.member_schemas import Json


def of_path(endpoint: Endpoint[Any]) -> list[Json]:
    """The ids, and what else stands in the path."""
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


# OData's options: the schema of each one's value, and what it is for
_OPTIONS: dict[str, tuple[Json, str]] = {
    "filter": ({"type": "string"}, "Only the rows for which this is true, as `name eq 'Golf' and not (vin eq null)`."),
    "orderby": ({"type": "string"}, "The order of the rows, as `name desc,id`."),
    "top": ({"type": "integer", "minimum": 0}, "This many rows at most."),
    "skip": ({"type": "integer", "minimum": 0}, "Without this many rows of the beginning."),
    "count": ({"type": "boolean"}, "With `true` the header X-Total-Count says how many rows there are."),
    "select": ({"type": "string"}, "Only these members: others that the schema requires are not there then."),
    "expand": ({"type": "string"}, "With these relations, as `products($select=type)`; the number: `products/$count`."),
    "search": ({"type": "string"}, "Only the rows whose texts hold these words."),
    "compute": (
        {"type": "string", "examples": ["length(name) as letters"]},
        "More properties, as `length(name) as letters`, for the other options and the answer.",
    ),
    "apply": (
        {"type": "string", "examples": ["groupby((brand),aggregate($count as cars))"]},
        "Figures in place of the rows, as `groupby((brand),aggregate($count as cars))`.",
    ),
    "format": ({"type": "string"}, "`json`, the only format there is."),
}


def of_query(endpoint: Endpoint[Any]) -> list[Json]:
    """OData's options, and the endpoint's own."""
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
