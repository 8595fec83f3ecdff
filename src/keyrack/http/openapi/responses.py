"""The OpenAPI responses of an endpoint: its success, and each error with its messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from pydantic import TypeAdapter

from keyrack.api.endpoint import TAGGED, Endpoint, FormBody, JsonBody, RawBody
from keyrack.api.event_stream import EVENTS
from keyrack.api.grants import FACTOR_NEEDED, LIMITED, NOT_PERMITTED
from keyrack.api.read_endpoint import ReadEndpoint
from keyrack.core.error_codes import INVALID_TOKEN, RATE_LIMITED, WRONG_CREDENTIALS, ErrorCode
from keyrack.core.errors import JSON, PLAIN_TEXT, PROBLEM
from keyrack.http import ignored_members, request_mode
from keyrack.http.openapi import examples
from keyrack.http.openapi.error_catalog import refusals, special
from keyrack.http.openapi.member_schemas import Json
from keyrack.http.openapi.schemas import model, rows

REASONS = {
    200: "Success",
    201: "Created",
    202: "Accepted; the work continues after the response",
    204: "Success without a body",
    304: "Not modified, because a tag in `If-None-Match` is still current",
    400: "The request is not valid",
    401: "The API key or the access token is missing or invalid",
    403: "The caller lacks the permission",
    404: "Not found",
    405: "The path does not support the method",
    408: "The request took too long to arrive",
    409: "Conflict with the current state",
    410: "No longer available",
    412: "A precondition of the request failed",
    413: "The body is too large",
    414: "The query string is too long",
    415: "The media type of the body is not supported",
    422: "The request is valid, but cannot be processed",
    424: "A batch item that was not carried out because of another item",
    429: "Too many requests",
    431: "The head of the request is too large",
    500: "Internal error of the server",
    501: "Not supported",
    503: "Temporarily unavailable (with `Retry-After`, the request had no effect)",
}
# The 204 of requests that a worker applies: the operation in the header has the outcome
ACCEPTED = "Accepted: the outcome comes by `Operation-Id`. `GET /operations/{operationId}` and webhooks report it"
AWAITED = "Success. With `Prefer: wait=N`: every operation has its outcome, which may be `Failed`"
STILL_PENDING = "Accepted. With `Prefer: wait=N`: the time has passed, and an operation is still pending"
LIST = (
    "Success. A long list is sent in chunks that are read at different moments; unchanged rows appear exactly once."
    " If an error occurs midway, the final chunk is missing."
)


def responses(endpoint: Endpoint[Any], schemas: dict[str, Json], public_url: str) -> dict[str, Json]:
    """The responses of an endpoint, by status."""
    success = _success(endpoint, schemas)
    responses_by_status: dict[str, Json] = {
        str(status): {**success, "description": text} for status, text in endpoint.responses.descriptions.items()
    }
    responses_by_status[str(endpoint.responses.status)] = success
    if endpoint.has_etag:
        responses_by_status["304"] = {"description": REASONS[304], "headers": _headers(TAGGED)}
    if endpoint.representation_read is not None:
        _add_shown(endpoint, endpoint.representation_read, responses_by_status, schemas)
    if endpoint.awaited is not None:
        _add_awaited(endpoint, responses_by_status)
    for status, reasons in refusals(endpoint).items():
        responses_by_status[str(status)] = _error(endpoint, status, reasons, schemas, public_url)
    return responses_by_status


def _success(endpoint: Endpoint[Any], schemas: dict[str, Json]) -> Json:
    many = endpoint.read is not None and not endpoint.read.select.is_single
    response: Json = {"description": LIST if many else _reason(endpoint)}
    headers = _success_headers(endpoint)
    if headers:
        response["headers"] = _headers(headers)
    schema: Json | None = None
    if endpoint.read is not None:
        schema = rows(endpoint.read, schemas)
    elif endpoint.responses.model is not None:
        schema = model(TypeAdapter(endpoint.responses.model), schemas)
    elif endpoint.responses.schema is not None:
        name, schemas[name] = endpoint.responses.schema.name, endpoint.responses.schema.schema
        schema = {"$ref": f"#/components/schemas/{name}"}
    elif endpoint.responses.status == 201:
        schema = {"$ref": "#/components/schemas/Created"}
    elif endpoint.responses.status == 200 and endpoint.responses.media_type:
        schema = {"type": "string"}
    if schema is not None:
        response["content"] = {endpoint.responses.media_type.split(";")[0]: {"schema": schema}}
        if endpoint.responses.alternative:
            response["content"][endpoint.responses.alternative.split(";")[0]] = {"schema": {"type": "string"}}
        if endpoint.can_stream_events:
            response["content"][EVENTS] = {"schema": {"type": "string"}}
    return response


def _success_headers(endpoint: Endpoint[Any]) -> dict[str, str]:
    """The headers of the endpoint's success with their descriptions."""
    headers = dict(endpoint.responses.headers)
    if endpoint.read is not None and not endpoint.read.select.is_single:
        headers["X-Total-Count"] = "With `$count=true`: the total number of rows, regardless of `$top` and `$skip`."
    if endpoint.read is not None and endpoint.read.select.paged:
        headers["Link"] = 'If there are more rows: the address of the next page, with rel="next".'
    if endpoint.read is not None:
        headers |= TAGGED
    if isinstance(endpoint.body, JsonBody):
        headers[ignored_members.HEADER] = ignored_members.MEANING
    if request_mode.has_mode(endpoint):
        headers[request_mode.HEADER] = request_mode.MEANING
    if endpoint.auth.has_customer:
        headers["Keyrack-Position"] = (
            "The position in the history that the response includes. Only sent by servers that read from replicas."
        )
    if (
        endpoint.concurrency.if_match is not None
        and endpoint.concurrency.serialized != "with-if-match"
        and endpoint.method == "PATCH"
    ):
        headers["ETag"] = "The entity tag of the changed resource."
    return headers


def _reason(endpoint: Endpoint[Any]) -> str:
    described = endpoint.responses.descriptions.get(endpoint.responses.status)
    if described is not None:
        return described
    return ACCEPTED if "Operation-Id" in endpoint.responses.headers else REASONS[endpoint.responses.status]


def _headers(meanings: Mapping[str, str]) -> Json:
    return {name: {"description": meaning, "schema": {"type": "string"}} for name, meaning in meanings.items()}


def _add_shown(
    endpoint: Endpoint[Any], read: ReadEndpoint, responses_by_status: dict[str, Json], schemas: dict[str, Json]
) -> None:
    """Add the response to `Prefer: return=representation`: a separate status, or another form of the existing one."""
    status = str(endpoint.representation_status)
    shown = rows(read, schemas)
    if status not in responses_by_status:
        responses_by_status[status] = {
            "description": REASONS[endpoint.representation_status],
            "content": {JSON: {"schema": shown}},
        }
        if endpoint.responses.headers:
            responses_by_status[status]["headers"] = dict(
                responses_by_status[str(endpoint.responses.status)]["headers"]
            )
    else:
        content = responses_by_status[status]["content"][JSON]
        shown = _with_more(content["schema"], shown, schemas)
        content["schema"] = {"anyOf": [content["schema"], shown]}
    descriptions = {"Preference-Applied": "The preference that was applied."}
    if endpoint.responses.status == 201:
        descriptions["Location"] = "With `return=representation`: the address of the created resource."
    for each in {status, str(endpoint.responses.status)}:
        headers = responses_by_status[each].setdefault("headers", {})
        headers |= _headers(descriptions)


def _add_awaited(endpoint: Endpoint[Any], responses_by_status: dict[str, Json]) -> None:
    """Add the responses to `Prefer: wait`: 200 with the outcome, or 202."""
    shown = responses_by_status["202" if "202" in responses_by_status else "200"]
    headers = shown.get("headers", {}) | _headers({"Preference-Applied": "The preferences that were applied."})
    for status, description in ("200", AWAITED), ("202", STILL_PENDING):
        known = responses_by_status.get(status, {**shown, "description": description})
        responses_by_status[status] = deepcopy({**known, "headers": headers})


def _with_more(write_schema: Json, shown: Json, schemas: dict[str, Json]) -> Json:
    """The schema of the representation, with the properties that only the write returns."""
    written, row = _name(write_schema), _name(shown)
    more = {name: schema for name, schema in schemas[written]["properties"].items() if name != "id"}
    if not more:
        return shown
    name = row + "With" + "And".join(member[:1].upper() + member[1:] for member in sorted(more))
    schemas[name] = {"allOf": [shown, {"type": "object", "properties": more}]}
    return {"$ref": f"#/components/schemas/{name}"}


def _name(reference: Json) -> str:
    return reference["$ref"].rpartition("/")[2]


def _error(
    endpoint: Endpoint[Any], status: int, reasons: Iterable[ErrorCode], schemas: dict[str, Json], public_url: str
) -> Json:
    several = list(dict.fromkeys(reasons))
    listed = [reason.text for reason in special(several) if "{" not in reason.text]
    description = REASONS[status] + (": " + " / ".join(dict.fromkeys(listed)) if listed else "")
    schema: Json = {"type": "string"}
    media_type = PLAIN_TEXT.split(";")[0]
    named = {401: "Unauthorized", 415: "UnsupportedMediaType", 429: "TooManyRequests"}.get(status)
    named = "NotPermitted" if NOT_PERMITTED in several else named
    if isinstance(endpoint.body, FormBody):
        named = {400: "GrantRefused", 401: "SignInRefused"}.get(status, named)
    if named is not None:
        schema, media_type = {"$ref": f"#/components/schemas/{named}"}, JSON
    response: Json = {"description": description, "content": {media_type: {"schema": schema}}}
    others = {*several} - {NOT_PERMITTED, FACTOR_NEEDED, LIMITED}  # errors of the status that are plain text
    if (isinstance(endpoint.body, FormBody) and status == 400) or (named and status == 403 and others):
        response["content"][PLAIN_TEXT.split(";")[0]] = {"schema": {"type": "string"}}
    problem: Json = {
        "allOf": [
            {"$ref": "#/components/schemas/Problem"},
            {"properties": {"code": {"enum": list(dict.fromkeys(reason.code for reason in several))}}},
        ]
    }
    if not special(several):  # shared by many endpoints
        schemas[f"Problem{status}"] = problem
        problem = {"$ref": f"#/components/schemas/Problem{status}"}
    response["content"][PROBLEM] = {"schema": problem}
    likely = [*endpoint.responses.errors.get(status, ()), *special(several), *several]
    _add_examples(endpoint, response["content"], status, examples.refusal(status, likely, public_url))
    if status in endpoint.responses.error_models:
        response["content"][JSON] = {"schema": model(TypeAdapter(endpoint.responses.error_models[status]), schemas)}
    content = response["content"]
    response["content"] = {PROBLEM: content.pop(PROBLEM), **content}  # first: strict mode has no other form
    if status in (429, 503):
        response["headers"] = {
            "Retry-After": {"description": ("The seconds to wait before a retry"), "schema": {"type": "integer"}}
        }
    return response


# Bodies of errors with their own schema
_FORMS: Mapping[int, Json] = {
    401: {"statusCode": 401, "message": INVALID_TOKEN.text},
    415: {
        "type": "https://tools.ietf.org/html/rfc7231#section-6.5.13",
        "title": "Unsupported Media Type",
        "status": "415",
        "traceId": examples.TRACE,
        "detail": "The header Content-Type is missing. It must be application/json.",
    },
    403: {"statusCode": 403, "message": NOT_PERMITTED.format(permission="cars:write").text},
    429: {"status": "429", "message": RATE_LIMITED.format(seconds=6).text},
}
# Bodies of errors of the token endpoint (RFC 6749, section 5.2)
_GRANTS: Mapping[int, Json] = {
    400: {
        "error": "unsupported_grant_type",
        "error_description": "The only grant_type here is password or client_credentials.",
    },
    401: {
        "statusCode": 401,
        "message": WRONG_CREDENTIALS.text,
        "error": "invalid_grant",
        "error_description": WRONG_CREDENTIALS.text,
    },
}


def _add_examples(
    endpoint: Endpoint[Any], content: dict[str, Json], status: int, example_values: Mapping[str, Any]
) -> None:
    """Add examples of an error, as the spec's body and as a problem."""
    forms = {**_FORMS, **_GRANTS} if isinstance(endpoint.body, FormBody) else _FORMS
    if status in forms and JSON in content:
        other = ("detail",) if isinstance(endpoint.body, FormBody | RawBody) else ()  # they take other media types
        content[JSON]["example"] = {key: value for key, value in forms[status].items() if key not in other}
    for media_type, value in example_values.items():
        if media_type in content:
            content[media_type]["example"] = value
