"""The schemas of errors that are not plain text."""

from __future__ import annotations

from collections.abc import Mapping

from keyrack.api.schema.json_schema import object_schema, text_schema
from keyrack.core.error_codes import FAULTS
from keyrack.http.openapi.member_schemas import Json

_TRACE = text_schema("The id of the request, which the server's log has, too.")
_GRANT = text_schema("Of the token endpoint: the code of RFC 6749, section 5.2.")
_GRANT_TEXT = text_schema("Of the token endpoint: the reason in words.")
_NUMBER = {"type": "integer", "format": "int64"}
_URI = {"format": "uri"}
CODE = "^[a-z]+(-[a-z]+)*$"  # kebab-case

ERRORS: Mapping[str, Json] = {
    "Unauthorized": object_schema(
        "The API key or the access token is missing or invalid.",
        {
            "statusCode": {"type": "integer", "const": 401, "description": "The status again."},
            "message": text_schema("Which of the two it is, and what to do about it."),
        },
        {"header": text_schema("Where the API key is expected, if that was refused.")},
    ),
    "NotPermitted": object_schema(
        "Whoever calls has not the permission that it takes.",
        {
            "statusCode": {"type": "integer", "const": 403, "description": "The status again."},
            "message": text_schema("Which permission is missing."),
        },
    ),
    "SignInRefused": object_schema(
        "The API key is missing or invalid, or the user name or the password is wrong.",
        {
            "statusCode": {"type": "integer", "const": 401, "description": "The status again."},
            "message": text_schema("Which of the two it is."),
        },
        {
            "error": _GRANT,
            "error_description": _GRANT_TEXT,
            "header": text_schema("Where the API key is expected, if that was refused."),
        },
    ),
    "GrantRefused": object_schema(
        "Why there is no access token: RFC 6749, section 5.2.", {"error": _GRANT}, {"error_description": _GRANT_TEXT}
    ),
    "UnsupportedMediaType": object_schema(
        "The body is of another media type than the endpoint takes.",
        {
            "type": text_schema("The address of what the status means.", **_URI),
            "title": text_schema("The status in words.", const="Unsupported Media Type"),
            "status": text_schema("The status as text.", const="415"),
            "traceId": _TRACE,
        },
        {"detail": text_schema("Which header came how, and what is taken.")},
    ),
    "TooManyRequests": object_schema(
        "A limit was exceeded; `Retry-After` says for how long to wait.",
        {
            "status": text_schema("The status as text.", const="429"),
            "message": text_schema("Which limit it is, and how many seconds to wait."),
        },
    ),
    "Problem": object_schema(
        "An error for programs (RFC 9457). The page at `type` explains the code and its remedy.",
        {
            "type": text_schema("The address of the code's entry.", **_URI),
            "title": text_schema("The code in words."),
            "status": {"type": "integer", "minimum": 400, "maximum": 599, "description": "The status again."},
            "detail": text_schema("The error message for this request."),
            "code": text_schema("The error code. A code never gets another meaning.", pattern=CODE),
            "traceId": _TRACE,
        },
        {
            "previousCode": text_schema(
                "The name of a renamed code in the previous release. The next release removes this member.",
                pattern=CODE,
            ),
            "errors": {
                "type": "array",
                "items": {"$ref": "#/components/schemas/Fault"},
                "description": "Each error in the request, with its place.",
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
    "Fault": object_schema(
        "One thing that is wrong with the request.",
        {
            "code": {"$ref": "#/components/schemas/FaultCode", "description": "What kind of fault it is."},
            "detail": text_schema("The fault in words."),
        },
        {
            "pointer": text_schema("Where in the body: a JSON Pointer (RFC 6901)."),
            "parameter": text_schema("The option of the query string."),
            "position": {
                "type": "integer",
                "minimum": 0,
                "description": "Where in the option's value, in characters from 0.",
            },
            "header": text_schema("The name of the header."),
            "valid": {
                "type": "array",
                "items": {},
                "description": "The values, or the names, that would have been right.",
            },
        },
    ),
    "FaultCode": {"type": "string", "enum": list(FAULTS), "description": "Kinds of faults."},
    "Created": object_schema(
        "What was made.",
        {"id": {"type": "integer", "format": "int32", "examples": [4], "description": "The number that it got."}},
    ),
}
