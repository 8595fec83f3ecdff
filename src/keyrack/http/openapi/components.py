"""The schemas of errors that are not plain text."""

from __future__ import annotations

from collections.abc import Mapping

from keyrack.api.schema.json_schema import object_schema, text_schema
from keyrack.core.error_codes import FAULTS
from keyrack.http.openapi.member_schemas import Json

_TRACE = text_schema("The id of the request, which the log of the server also contains.")
_GRANT = text_schema("The error code of RFC 6749, section 5.2. Only the token endpoint has it.")
_GRANT_TEXT = text_schema("The error message. Only the token endpoint has it.")
_NUMBER = {"type": "integer", "format": "int64"}
_URI = {"format": "uri"}
CODE = "^[a-z]+(-[a-z]+)*$"  # kebab-case

ERRORS: Mapping[str, Json] = {
    "Unauthorized": object_schema(
        "The API key or the access token is missing or invalid.",
        {
            "statusCode": {"type": "integer", "const": 401, "description": "The status again."},
            "message": text_schema("The error message: which of the two it is."),
        },
        {"header": text_schema("The header of the API key, if the key is missing or invalid.")},
    ),
    "NotPermitted": object_schema(
        "The caller lacks the permission.",
        {
            "statusCode": {"type": "integer", "const": 403, "description": "The status again."},
            "message": text_schema("The error message with the missing permission."),
        },
    ),
    "SignInRefused": object_schema(
        "The API key is missing or invalid, or the user name or the password is wrong.",
        {
            "statusCode": {"type": "integer", "const": 401, "description": "The status again."},
            "message": text_schema("The error message: which of the two it is."),
        },
        {
            "error": _GRANT,
            "error_description": _GRANT_TEXT,
            "header": text_schema("The header of the API key, if the key is missing or invalid."),
        },
    ),
    "GrantRefused": object_schema(
        "The token request is rejected (RFC 6749, section 5.2).", {"error": _GRANT}, {"error_description": _GRANT_TEXT}
    ),
    "UnsupportedMediaType": object_schema(
        "The endpoint does not support the media type of the body.",
        {
            "type": text_schema("The URI of the meaning of the status.", **_URI),
            "title": text_schema("The status in words.", const="Unsupported Media Type"),
            "status": text_schema("The status as text.", const="415"),
            "traceId": _TRACE,
        },
        {"detail": text_schema("The value of the header, and the valid values.")},
    ),
    "TooManyRequests": object_schema(
        "A limit is exceeded. `Retry-After` has the seconds to wait.",
        {
            "status": text_schema("The status as text.", const="429"),
            "message": text_schema("The error message with the seconds to wait."),
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
            "epoch": {"type": ["string", "null"], "format": "uuid", "description": "The epoch of the change log."},
            "oldest": {**_NUMBER, "description": "The oldest available change."},
            "newest": {**_NUMBER, "description": "The newest change."},
            "oldestTime": {"type": "string", "format": "date-time", "description": "The oldest available time."},
        },
    ),
    "Fault": object_schema(
        "One error in the request.",
        {
            "code": {"$ref": "#/components/schemas/FaultCode", "description": "The kind of the error."},
            "detail": text_schema("The error message."),
        },
        {
            "pointer": text_schema("The place in the body: a JSON Pointer (RFC 6901)."),
            "parameter": text_schema("The name of the query parameter."),
            "position": {
                "type": "integer",
                "minimum": 0,
                "description": "The place in the value of the parameter, in characters from 0.",
            },
            "header": text_schema("The name of the header."),
            "valid": {
                "type": "array",
                "items": {},
                "description": "The valid values or names.",
            },
        },
    ),
    "FaultCode": {"type": "string", "enum": list(FAULTS), "description": "Kinds of errors."},
    "Created": object_schema(
        "The created resource.",
        {"id": {"type": "integer", "format": "int32", "examples": [4], "description": "Its id."}},
    ),
}
