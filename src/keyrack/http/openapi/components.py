"""In charge of the schemas that no table has: those of errors that are no plain text, and of public documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from keyrack import __version__
from keyrack.core.error_codes import FAULTS
from keyrack.http.openapi.member_schemas import Json


def _object(description: str, required: Mapping[str, Json], optional: Mapping[str, Json] | None = None) -> Json:
    members = {**required, **(optional or {})}
    return {"type": "object", "description": description, "required": list(required), "properties": members}


def _text(description: str, **more: object) -> Json:
    return {"type": "string", **more, "description": description}


_TRACE = _text("The id of the request, which the server's log has, too.")
_GRANT = _text("Of the token endpoint: the code of RFC 6749, section 5.2.")
_GRANT_TEXT = _text("Of the token endpoint: the reason in words.")
_NUMBER = {"type": "integer", "format": "int64"}
_URI = {"format": "uri"}


def _uri(path: str) -> Json:
    return {"format": "uri", "examples": [f"https://keyrack.example.com{path}"]}


_HOW = "How a client shows itself there."
# Name of a list in the metadata, what it is, and one of it
SERVER = (
    ("token_endpoint_auth_methods_supported", _HOW, "client_secret_basic"),
    ("revocation_endpoint_auth_methods_supported", _HOW, "client_secret_basic"),
    ("grant_types_supported", "The grants of the token endpoint.", "password"),
    ("scopes_supported", "All scopes that clients may have.", "cars:read"),
)


def _lists(listed: Iterable[tuple[str, str, str]]) -> dict[str, Json]:
    """Members that are lists of texts."""
    return {
        name: {"type": "array", "items": {"type": "string"}, "description": words, "examples": [[first]]}
        for name, words, first in listed
    }


ERRORS: Mapping[str, Json] = {
    "Unauthorized": _object(
        "The API key or the access token is missing or invalid.",
        {
            "statusCode": {"type": "integer", "const": 401, "description": "The status again."},
            "message": _text("Which of the two it is, and what to do about it."),
        },
        {"header": _text("Where the API key is expected, if that was refused.")},
    ),
    "NotPermitted": _object(
        "Whoever calls has not the permission that it takes.",
        {
            "statusCode": {"type": "integer", "const": 403, "description": "The status again."},
            "message": _text("Which permission is missing."),
        },
    ),
    "SignInRefused": _object(
        "The API key is missing or invalid, or the user name or the password is wrong.",
        {
            "statusCode": {"type": "integer", "const": 401, "description": "The status again."},
            "message": _text("Which of the two it is."),
        },
        {
            "error": _GRANT,
            "error_description": _GRANT_TEXT,
            "header": _text("Where the API key is expected, if that was refused."),
        },
    ),
    "GrantRefused": _object(
        "Why there is no access token: RFC 6749, section 5.2.", {"error": _GRANT}, {"error_description": _GRANT_TEXT}
    ),
    "UnsupportedMediaType": _object(
        "The body is of another media type than the endpoint takes.",
        {
            "type": _text("The address of what the status means.", **_URI),
            "title": _text("The status in words.", const="Unsupported Media Type"),
            "status": _text("The status as text.", const="415"),
            "traceId": _TRACE,
        },
        {"detail": _text("Which header came how, and what is taken.")},
    ),
    "TooManyRequests": _object(
        "A limit was exceeded; `Retry-After` says for how long to wait.",
        {
            "status": _text("The status as text.", const="429"),
            "message": _text("Which limit it is, and how many seconds to wait."),
        },
    ),
    "Problem": _object(
        "A refusal for programs (RFC 9457). What the code means, and what to do about it, is at the address in `type`.",
        {
            "type": _text("The address of the code's entry.", **_URI),
            "title": _text("The code in words."),
            "status": {"type": "integer", "minimum": 400, "maximum": 599, "description": "The status again."},
            "detail": _text("What is wrong with this request."),
            "code": _text("The code, which keeps its meaning.", pattern="^[a-z]+(-[a-z]+)*$"),
            "traceId": _TRACE,
        },
        {
            "errors": {
                "type": "array",
                "items": {"$ref": "#/components/schemas/Fault"},
                "description": "What is wrong with the request, fault by fault.",
            },
            "retryAfter": {"type": "integer", "minimum": 1, "description": "Seconds to wait, as in `Retry-After`."},
            "error": _GRANT,
            "error_description": _GRANT_TEXT,
            "epoch": {"type": ["string", "null"], "format": "uuid", "description": "The epoch of the log of changes."},
            "oldest": {**_NUMBER, "description": "The oldest change that is kept."},
            "newest": {**_NUMBER, "description": "The newest change."},
            "oldestTime": {"type": "string", "format": "date-time", "description": "The oldest time that is known."},
        },
    ),
    "Fault": _object(
        "One thing that is wrong with the request.",
        {
            "code": {"$ref": "#/components/schemas/FaultCode", "description": "What kind of fault it is."},
            "detail": _text("The fault in words."),
        },
        {
            "pointer": _text("Where in the body: a JSON Pointer (RFC 6901)."),
            "parameter": _text("The option of the query string."),
            "position": {
                "type": "integer",
                "minimum": 0,
                "description": "Where in the option's value, in characters from 0.",
            },
            "header": _text("The name of the header."),
            "valid": {
                "type": "array",
                "items": {},
                "description": "The values, or the names, that would have been right.",
            },
        },
    ),
    "FaultCode": {"type": "string", "enum": list(FAULTS), "description": "Kinds of faults."},
    "Created": _object(
        "What was made.",
        {"id": {"type": "integer", "format": "int32", "examples": [4], "description": "The number that it got."}},
    ),
}

# What operations answer that are no resource and have no model, by their ids
ANSWERS: Mapping[str, tuple[str, Json]] = {
    "getAbout": (
        "About",
        _object(
            "What this server is.",
            {
                "name": _text("Always `Keyrack`.", const="Keyrack"),
                "version": _text("The version of the server.", examples=[__version__]),
                "apiVersion": _text("The version of the interface.", examples=["3"]),
                "baseUrl": _text("Where the interface begins.", **_uri("/v3")),
                "documentation": _text("Where the interface is explained.", **_uri("/docs")),
                "openapi": _text("Where its OpenAPI document is.", **_uri("/openapi.json")),
                "preview": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "The ids of the operations that may still change in a minor release; all others are"
                    " stable.",
                    "examples": [["enrolBox"]],
                },
            },
        ),
    ),
    "getJwks": (
        "JsonWebKeySet",
        _object(
            "The keys that verify tokens (RFC 7517).",
            {
                "keys": {
                    "type": "array",
                    "items": {"type": "object", "additionalProperties": {"type": "string"}},
                    "description": "Public keys; a token's header names its own by `kid`.",
                    "examples": [[{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "1", "n": "AQAB", "e": "AQAB"}]],
                }
            },
        ),
    ),
    "getOpenIdConfiguration": (
        "OpenIdConfiguration",
        _object(
            "OpenID Connect Discovery 1.0, section 3, as far as it applies.",
            {
                "issuer": _text("Who issues tokens: their claim `iss`.", **_uri("")),
                "token_endpoint": _text("Where access tokens are had.", **_uri("/v3/oauth2/token")),
                "revocation_endpoint": _text("Where they are revoked.", **_uri("/v3/oauth2/revoke")),
                "jwks_uri": _text("Where the keys are that verify tokens.", **_uri("/.well-known/jwks.json")),
                **_lists(
                    (
                        *SERVER,
                        ("response_types_supported", "What is had by a grant.", "id_token"),
                        ("subject_types_supported", "Each customer knows a user by another subject.", "pairwise"),
                        ("claims_supported", "The claims of tokens.", "sub"),
                        ("id_token_signing_alg_values_supported", "The algorithms of signatures.", "RS256"),
                    )
                ),
            },
        ),
    ),
    "getAuthorizationServer": (
        "AuthorizationServer",
        _object(
            "The metadata of an authorization server (RFC 8414, section 2).",
            {
                "issuer": _text("Who issues tokens: their claim `iss`.", **_uri("")),
                "token_endpoint": _text("Where access tokens are had.", **_uri("/v3/oauth2/token")),
                "revocation_endpoint": _text("Where they are revoked.", **_uri("/v3/oauth2/revoke")),
                "jwks_uri": _text("Where the keys are that verify tokens.", **_uri("/.well-known/jwks.json")),
                **_lists(SERVER),
                "response_types_supported": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "None: there is no page to sign in.",
                    "examples": [[]],
                },
            },
        ),
    ),
    "getHealth": ("Healthy", _object("The server is ready.", {"status": _text("Always `ok`.", const="ok")})),
    "getLiveness": ("Healthy", _object("The server is ready.", {"status": _text("Always `ok`.", const="ok")})),
    "getReadiness": (
        "Ready",
        _object(
            "The server is ready.",
            {"status": _text("Always `ok`.", const="ok")},
            {
                "warnings": {
                    "type": "array",
                    "items": {"$ref": "#/components/schemas/Why"},
                    "description": "What is wrong and keeps this server from nothing; there only if something is.",
                }
            },
        ),
    ),
    "getOpenApi": (
        "OpenApiDocument",
        {"type": "object", "description": "An OpenAPI 3.1 document.", "examples": [{"openapi": "3.1.0"}]},
    ),
}
