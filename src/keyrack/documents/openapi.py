"""In charge of the OpenAPI 3.1 document: made from the table of endpoints, the resources and the bodies' models."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import TypeAdapter

from keyrack import __version__
from keyrack.api.endpoint import Endpoint, Read
from keyrack.documents.components import ERRORS
from keyrack.documents.headers import parameters
from keyrack.documents.members import Json
from keyrack.documents.operations import TAGS, description, operation_id
from keyrack.documents.responses import responses
from keyrack.documents.schemas import model
from keyrack.errors import JSON
from keyrack.model.meanings import EVERYWHERE
from keyrack.odata import OPTIONS
from keyrack.settings import Settings
from keyrack.webhooks.outcomes import SENT, Outcome

ABOUT = (
    "Version 3 of the interface. Errors are plain text unless said otherwise; where `Accept` names"
    " application/problem+json they are problems (RFC 9457). A member that a schema requires is in every plain answer,"
    " as null where it has no value; `$select`, `$compute` and `$apply` make answers with fewer members, and with"
    " others. What `$expand` adds is never required. `Customer.id` is text, and the header"
    " `Customer-ID` is the same number."
)


def document(endpoints: Iterable[Endpoint], settings: Settings) -> Json:
    """The OpenAPI 3.1 document of these endpoints."""
    schemas: dict[str, Json] = dict(ERRORS)
    paths: dict[str, Json] = {}
    table = list(endpoints)
    for endpoint in table:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, schemas)
    _name_products(schemas, settings)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Keyrack: vehicle access and key boxes",
            "version": __version__,
            "summary": "Who may open which vehicle, when.",
            "description": ABOUT + _coding(settings),
            "contact": {"name": "The operator of this server", "url": settings.public_url},
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": f"{settings.public_url}/v3"}],
        "tags": [{"name": tag, "description": TAGS[tag]} for tag in dict.fromkeys(row.tag for row in table)],
        "paths": paths,
        "webhooks": _webhooks(schemas),
        "components": {
            "securitySchemes": _schemes(settings),
            "schemas": dict(sorted(schemas.items())),
        },
    }


def _schemes(settings: Settings) -> Json:
    """Who calls: an application, a manager, or a device. The address of tokens is whole, so no reader has to guess
    against which base it is relative."""
    token_url = f"{settings.public_url}/v3/oauth2/token"
    return {
        "apiKey": {
            "type": "apiKey",
            "in": "header",
            "name": f"{settings.brand}-API-Key",
            "description": "The key of an application, which the operator of the server makes.",
        },
        "oauth2": {
            "type": "oauth2",
            "description": "A manager's access token as `Authorization: Bearer ...`. It is had by the password grant,"
            " with the API key, and good for an hour. There are no scopes, and no refresh token: ask again.",
            "flows": {"password": {"tokenUrl": token_url, "scopes": {}}},
        },
        "device": {
            "type": "apiKey",
            "in": "header",
            "name": "Device-Key",
            "description": "The key of a unit, a box or a gateway: it says for which customer it speaks, and opens only"
            " what its scopes name.",
        },
    }


def _name_products(schemas: dict[str, Json], settings: Settings) -> None:
    """The types of products, which the operator's brand names."""
    schemas["ProductType"] = {"type": "string", "enum": [settings.box, settings.iq]}
    for name in ("Product", "ProductListed"):
        member = schemas[name]["properties"]["type"]
        schemas[name]["properties"]["type"] = {
            "$ref": "#/components/schemas/ProductType",
            "description": member["description"],
        }


def _coding(settings: Settings) -> str:
    if not settings.gzip_bytes:
        return ""
    return (
        f" An answer of {settings.gzip_bytes} bytes or more comes in gzip where the header Accept-Encoding names it,"
        " unless it shows a secret."
    )


SENT_HEADERS = {
    "webhook-id": "The same in every attempt, and when it is sent again: what was seen before can be passed over.",
    "webhook-timestamp": "Seconds since 1970 of this attempt.",
    "webhook-signature": "`v1,` and the base64 HMAC-SHA256 of id, timestamp and body, joined by dots; during a "
    "rotation one for each of two secrets, with a blank between them (Standard Webhooks).",
    "secret": "The webhook's static secret, where it has one.",
}


RECEIVING = (
    "Sent to every webhook of the customer that wants it, signed as Standard Webhooks says. It may come more than once:"
    " `webhook-id` tells. Whatever answer but a 2xx, 410 or one with `Retry-After` has it sent again, for three days."
)


def _webhooks(schemas: dict[str, Json]) -> dict[str, Json]:
    """What Keyrack itself sends."""
    reference = model(TypeAdapter(Outcome), schemas)
    parameters = [
        {
            "name": name,
            "in": "header",
            "required": name != "secret",
            "description": meaning,
            "schema": {"type": "string"},
        }
        for name, meaning in SENT_HEADERS.items()
    ]
    return {
        name: {
            "post": {
                "operationId": "on" + "".join(word.capitalize() for word in name.split(".")),
                "description": RECEIVING,
                "security": [],
                "tags": ["Webhooks"],
                "summary": summary,
                "parameters": parameters,
                "requestBody": {"required": True, "content": {JSON: {"schema": reference}}},
                "responses": {
                    "2XX": {"description": "Received"},
                    "410": {"description": "Not wanted any more: the webhook is disabled"},
                    "429": {"description": "Later, as `Retry-After` says"},
                    "503": {"description": "Later, as `Retry-After` says"},
                    "default": {"description": "Not received: it is sent again"},
                },
            }
        }
        for name, summary in SENT.items()
    }


def _operation(endpoint: Endpoint, schemas: dict[str, Json]) -> Json:
    operation: Json = {
        "operationId": operation_id(endpoint),
        "tags": [endpoint.tag],
        "summary": endpoint.summary,
        "description": description(endpoint),
        "security": _security(endpoint),
        "parameters": [*_path_parameters(endpoint), *parameters(endpoint), *_query_parameters(endpoint)],
        "responses": responses(endpoint, schemas),
    }
    if endpoint.ours:
        operation["x-keyrack-extension"] = True
    if endpoint.body is not None:
        media_type = "application/x-www-form-urlencoded" if endpoint.form else JSON
        schema = model(endpoint.body, schemas)
        operation["requestBody"] = {"required": True, "content": {media_type: {"schema": schema}}}
    if endpoint.raw:
        item = model(endpoint.item, schemas) if endpoint.item is not None else {}
        operation["requestBody"] = {
            "required": True,
            "description": "One JSON object a line, or an array of them; gzip is accepted.",
            "content": {
                JSON: {"schema": {"type": "array", "items": item}},
                "application/x-ndjson": {"schema": {"type": "string"}},
            },
        }
    return operation


def _security(endpoint: Endpoint) -> list[Json]:
    needed: Json = {}
    if endpoint.key:
        needed["apiKey"] = []
    if endpoint.token:
        needed["oauth2"] = []
    if endpoint.device:
        needed["device"] = []
    return [needed] if needed else []


def _path_parameters(endpoint: Endpoint) -> list[Json]:
    parameters: list[Json] = []
    for name in endpoint.parameters:
        schema: Json = (
            {"type": "integer", "format": "int32", "minimum": 1} if name.endswith("Id") else {"type": "string"}
        )
        if name == "operationId":
            schema = {"type": "string", "format": "uuid"}
        if name == "deliveryId":
            schema["format"] = "int64"
        if name == "searchDate":
            schema = {"type": "string", "format": "date-time"}
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


def _query_parameters(endpoint: Endpoint) -> list[Json]:
    return _own_parameters(endpoint) if endpoint.options else _odata_parameters(endpoint)


def _own_parameters(endpoint: Endpoint) -> list[Json]:
    return [
        {
            "name": option.name,
            "in": "query",
            "required": False,
            "description": option.meaning,
            "schema": dict(option.schema),
        }
        for option in endpoint.options
    ]


def _odata_parameters(endpoint: Endpoint) -> list[Json]:
    read = endpoint.read if endpoint.shows is None else endpoint.shows.read
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


def _relations(read: Read, option: str) -> str:
    names = read.select.resource.relations if option == "expand" else ()
    return f" Relations: {', '.join(names)}." if names else ""
