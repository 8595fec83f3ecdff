"""Shared parts of operations, moved once into the components."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

from keyrack.http.openapi.member_schemas import Json

# Names of shared error responses, by status
REFUSALS = {
    "304": "NotModified",
    "400": "BadRequest",
    "401": "Unauthorized",
    "403": "Forbidden",
    "404": "NotFound",
    "408": "RequestTimeout",
    "409": "Conflict",
    "410": "Gone",
    "412": "PreconditionFailed",
    "413": "ContentTooLarge",
    "414": "UriTooLong",
    "415": "UnsupportedMediaType",
    "422": "UnprocessableContent",
    "429": "TooManyRequests",
    "431": "RequestHeaderFieldsTooLarge",
    "500": "InternalServerError",
    "501": "NotImplemented",
    "503": "ServiceUnavailable",
}


Place = tuple[str, Any, Any]  # a name, its container, and its key or index


def share(document: Json) -> None:
    """Move each header, error response and parameter that several operations use into the components.

    The most frequent form gets the plain name; other forms get a number as suffix.
    """
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    responses = [response for operation in operations for response in operation["responses"].values()]
    headers = [response["headers"] for response in responses if "headers" in response]
    _put(document, "headers", ((name, place, name) for place in headers for name in place))
    refusals = ((REFUSALS[key], row["responses"], key) for row in operations for key in row["responses"] if key > "3")
    _put(document, "responses", refusals)
    parameters = [operation["parameters"] for operation in operations]
    _put(
        document,
        "parameters",
        ((parameter["name"].strip("$"), place, key) for place in parameters for key, parameter in enumerate(place)),
    )


def _put(document: Json, kind: str, candidates: Iterable[Place]) -> None:
    """Replace repeated parts of one kind with references to a shared component."""
    places = list(candidates)
    forms: dict[str, Counter[str]] = {}
    for name, place, key in places:
        forms.setdefault(name, Counter())[json.dumps(place[key])] += 1
    shared = {
        (name, form): name + str(number + 1) * (number > 0)
        for name, counts in sorted(forms.items())
        for number, (form, count) in enumerate(counts.most_common())
        if count > 1
    }
    for name, place, key in places:
        called = shared.get((name, json.dumps(place[key])))
        if called is not None:
            place[key] = {"$ref": f"#/components/{kind}/{called}"}
    document["components"][kind] = {called: json.loads(form) for (_, form), called in shared.items()}


def whole(document: Json, part: Json) -> Json:
    """A part of the document, with its reference resolved."""
    if "$ref" not in part:
        return part
    kind, name = part["$ref"].split("/")[-2:]
    return document["components"][kind][name]
