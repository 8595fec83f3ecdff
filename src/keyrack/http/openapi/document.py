"""The OpenAPI 3.1 document, generated from the endpoints, resources and body models."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from keyrack import __version__
from keyrack.api.auth_schemes import AppAuth, DeviceAuth, DriverAuth
from keyrack.api.endpoint import Endpoint, FormBody, JsonBody, OptionalBody, RawBody
from keyrack.api.permissions import MEANINGS, PROGRAMS, Permission
from keyrack.core.errors import JSON
from keyrack.core.settings import Settings
from keyrack.http.openapi import examples
from keyrack.http.openapi.components import ERRORS
from keyrack.http.openapi.headers import parameters
from keyrack.http.openapi.member_schemas import Json
from keyrack.http.openapi.parameters import of_path, of_query
from keyrack.http.openapi.responses import responses
from keyrack.http.openapi.schemas import model
from keyrack.http.openapi.shared_components import share
from keyrack.http.openapi.webhooks import webhooks

ABOUT = (
    "Version 3 of the API. Errors are plain text unless a response documents another type. With `Accept:"
    " application/problem+json`, they are problem details (RFC 9457). Required properties are always present,"
    " possibly null, unless the request uses `$select`, `$compute` or `$apply`. These options change the properties"
    " of the response. Properties that `$expand` adds are never required. `Customer.id` is a string; the header"
    " `Customer-ID` has the same value as a number."
)


def document(endpoints: Iterable[Endpoint[Any]], settings: Settings) -> Json:
    """The OpenAPI 3.1 document of these endpoints."""
    schemas: dict[str, Json] = dict(ERRORS)
    paths: dict[str, Json] = {}
    table = list(endpoints)
    for endpoint in table:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(
            endpoint, schemas, settings.public_url
        )
    _name_products(schemas, settings)
    sent = webhooks(schemas)
    for methods in paths.values():
        for operation in methods.values():
            examples.add(operation, schemas)
    made: Json = {
        "openapi": "3.1.0",
        "info": {
            "title": "Keyrack: vehicle access and key boxes",
            "version": __version__,
            "summary": "Controls who can open which vehicle, and when.",
            "description": ABOUT + _coding(settings),
            "contact": {"name": "The operator of this server", "url": settings.public_url},
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": f"{settings.public_url}/v3"}],
        "tags": [{"name": tag.name, "description": tag.description} for tag in dict.fromkeys(row.tag for row in table)],
        "paths": paths,
        "webhooks": sent,
        "components": {
            "securitySchemes": _schemes(settings),
            "schemas": dict(sorted(schemas.items())),
        },
    }
    share(made)
    return made


def _schemes(settings: Settings) -> Json:
    """The security schemes. The token URL is absolute, so that no reader has to guess its base."""
    token_url = f"{settings.public_url}/v3/oauth2/token"
    return {
        "apiKey": {
            "type": "apiKey",
            "in": "header",
            "name": f"{settings.brand}-API-Key",
            "description": "The API key of an application. The operator of the server creates it.",
        },
        "oauth2": {
            "type": "oauth2",
            "description": (
                "The access token of a manager or a machine client in `Authorization: Bearer ...`, valid for one"
                " hour. A manager gets a token with the password grant and the API key. It has the permissions of the"
                " manager's role in the customer, so request no scope. A machine client gets a token with its id and"
                " secret, for all or some of its scopes. There is no refresh token: request a new token."
            ),
            "flows": {
                "password": {
                    "tokenUrl": token_url,
                    "scopes": {str(permission): MEANINGS[permission] for permission in Permission},
                },
                "clientCredentials": {
                    "tokenUrl": token_url,
                    "scopes": {str(permission): MEANINGS[permission] for permission in PROGRAMS},
                },
            },
        },
        "device": {
            "type": "apiKey",
            "in": "header",
            "name": "Device-Key",
            "description": (
                "The key of a unit, a box or a gateway. It identifies the customer, and gives access only to the"
                " endpoints of its scopes."
            ),
        },
        "sdkToken": {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "JWT",
            "description": (
                "The id token of a user, for requests of an app. It identifies the customer and the user, so no other"
                " header is needed. A server of the customer gets it from `POST /sdk/token` and passes it to the app."
                " It is valid for one hour."
            ),
        },
        "driverSession": {
            "type": "apiKey",
            "in": "cookie",
            "name": "__Host-keyrack-drive",
            "description": "The session of a driver in the app at `/drive`. Only pages of the app can use it.",
        },
    }


def _name_products(schemas: dict[str, Json], settings: Settings) -> None:
    """Add the types of products, which contain the operator's brand."""
    schemas["ProductType"] = {"type": "string", "enum": [settings.box, settings.iq]}
    for name in ("Product", "ProductListed"):
        member = schemas[name]["properties"]["type"]
        schemas[name]["properties"]["type"] = {
            "$ref": "#/components/schemas/ProductType",
            "description": member["description"],
        }


def _coding(settings: Settings) -> str:
    if not settings.gzip_min_bytes:
        return ""
    return (
        f" Responses of {settings.gzip_min_bytes} bytes or more are compressed if the request has"
        " `Accept-Encoding: gzip`, unless they contain a secret."
    )


def _operation(endpoint: Endpoint[Any], schemas: dict[str, Json], public_url: str) -> Json:
    operation: Json = {
        "operationId": endpoint.doc.operation_id,
        "tags": [endpoint.tag.name],
        "summary": endpoint.doc.summary,
        "description": endpoint.doc.description + _parts(endpoint),
        "security": _security(endpoint),
        "parameters": [*of_path(endpoint), *parameters(endpoint), *of_query(endpoint)],
        "responses": responses(endpoint, schemas, public_url),
    }
    if endpoint.doc.is_extension:
        operation["x-keyrack-extension"] = True
    operation["x-keyrack-stability"] = "preview" if endpoint.doc.is_preview else "stable"
    if isinstance(endpoint.body, JsonBody | FormBody):
        media_type = "application/x-www-form-urlencoded" if isinstance(endpoint.body, FormBody) else JSON
        schema = model(endpoint.body.adapter, schemas)
        operation["requestBody"] = {"required": True, "content": {media_type: {"schema": schema}}}
    if isinstance(endpoint.body, OptionalBody):
        schema = model(endpoint.body.adapter, schemas)
        operation["requestBody"] = {"required": False, "content": {JSON: {"schema": schema}}}
    if isinstance(endpoint.body, RawBody):
        item = model(endpoint.body.item, schemas)
        operation["requestBody"] = {
            "required": True,
            "description": "One JSON object per line, or an array of objects. gzip is supported.",
            "content": {
                JSON: {"schema": {"type": "array", "items": item}},
                "application/x-ndjson": {"schema": {"type": "string"}},
            },
        }
    return operation


def _parts(endpoint: Endpoint[Any]) -> str:
    """A sentence with the permissions that parts of a request or response need; empty if there are none."""
    needs = [f"{part} requires `{permission}`" for part, permission in endpoint.conditional_permissions.items()]
    return f" In addition to the scopes of the operation, {', '.join(needs)}." if needs else ""


def _security(endpoint: Endpoint[Any]) -> list[Json]:
    needed: Json = {}
    if endpoint.auth.has_api_key:
        needed["apiKey"] = []
    if endpoint.auth.has_token:
        needed["oauth2"] = list(map(str, endpoint.permissions))
    if isinstance(endpoint.auth, DeviceAuth):
        needed["device"] = []
    if isinstance(endpoint.auth, AppAuth):
        needed["sdkToken"] = []
    if isinstance(endpoint.auth, DriverAuth):
        needed["driverSession"] = []
    if endpoint.read is not None and endpoint.read.own_rows is not None:  # the caller's own rows
        return [needed, {**needed, "oauth2": []}]
    return [needed] if needed else []
