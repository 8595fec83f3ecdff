"""The errors of each endpoint, and the table of all error codes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from keyrack.api import conditional_requests, idempotency, list_responses, query_parameters, response_spool
from keyrack.api.auth_schemes import AppAuth, DrivePageAuth, DriverAuth, PublicAuth
from keyrack.api.endpoint import Endpoint, JsonBody, RawBody
from keyrack.api.grants import FACTOR_NEEDED, LIMITED, NOT_PERMITTED
from keyrack.api.odata import INVALID, NOT_SUPPORTED, TOO_MANY_EXPANDED
from keyrack.api.permissions import Free, Permission
from keyrack.api.principals import FOR_PEOPLE
from keyrack.api.schema import request_body, unknown_members
from keyrack.assignments import customer_lock
from keyrack.core import error_codes
from keyrack.core.error_codes import ErrorCode
from keyrack.db import fair_semaphore
from keyrack.db.encryption.cipher import CLOSED
from keyrack.db.replication import wal_positions
from keyrack.telemetry.json_lines import INVALID_LINES, TOO_MANY_LINES

ByStatus = Mapping[int, Sequence[ErrorCode]]


def is_list(endpoint: Endpoint[Any]) -> bool:
    return endpoint.read is not None and not endpoint.read.select.is_single


def _has_checked_parameters(row: Endpoint[Any]) -> bool:
    """Whether a query string can be rejected with the code of parameters that are not OData's."""
    if row.auth.permission is Free.PUBLIC or row.has_own_query_check:
        return False
    return bool(row.query_parameters) or not (row.read or row.responses.representation)


# Errors that several endpoints share: the name of these endpoints, the condition, and the errors by status
SHARED: tuple[tuple[str, Callable[[Endpoint[Any]], object], ByStatus], ...] = (
    (
        "every endpoint",
        lambda _: True,
        {
            400: (
                error_codes.NO_HTTP, error_codes.ONE_HOST, error_codes.INVALID_HOST, error_codes.QUERY_NOT_ASCII,
                error_codes.INVALID_HEADER,
            ),
            408: (error_codes.HEAD_TOO_SLOW,),
            414: (error_codes.QUERY_TOO_LONG,),
            431: (error_codes.HEAD_TOO_LARGE,),
            500: (error_codes.INTERNAL_ERROR,),
            501: (error_codes.TRANSFER_CODING,),
            503: (
                error_codes.DATABASE_AWAY, error_codes.NOT_NOW, error_codes.DATABASE_TOO_SLOW,
                fair_semaphore.TOO_MANY, fair_semaphore.TOO_LONG,
                error_codes.FULL, error_codes.FULL_OF_ONE, error_codes.OVERLOADED, CLOSED, customer_lock.BUSY,
            ),
        },
    ),
    (
        "every endpoint that authenticates its caller, and `GET /health`",
        lambda row: not isinstance(row.auth, PublicAuth) or row.path == "/health",
        {503: (error_codes.PRIMARY_UNCONFIRMED,)},
    ),
    ("every write", lambda row: row.method != "GET", {503: (error_codes.OUTCOME_UNKNOWN,)}),
    ("every endpoint that needs an API key", lambda row: row.auth.has_api_key, {401: (error_codes.INVALID_KEY,)}),
    (
        "every endpoint that needs an access token, or an app's id token",
        lambda row: row.auth.has_token or isinstance(row.auth, AppAuth),
        {401: (error_codes.INVALID_TOKEN,)},
    ),
    (
        "every endpoint of the drivers' app that needs a session",
        lambda row: isinstance(row.auth, DriverAuth),
        {401: (error_codes.SIGNED_OUT,)},
    ),
    (
        "every write of the drivers' app",
        lambda row: isinstance(row.auth, DriverAuth | DrivePageAuth) and row.method != "GET",
        {403: (error_codes.OTHER_ORIGIN,)},
    ),
    ("every endpoint that needs an access token", lambda row: row.auth.has_token, {404: (error_codes.NO_MANAGER,)}),
    (
        "every endpoint that needs `Customer-ID`",
        lambda row: row.auth.has_customer,
        {
            400: (error_codes.NO_CUSTOMER_ID, error_codes.INVALID_CUSTOMER_ID, wal_positions.INVALID),
            404: (error_codes.NO_CUSTOMER,),
        },
    ),
    (
        "every endpoint that needs a permission",
        lambda row: isinstance(row.auth.permission, Permission),
        {403: (NOT_PERMITTED, FACTOR_NEEDED, LIMITED)},
    ),
    (
        "every endpoint for managers only",
        lambda row: row.auth.permission is Free.PERSON or row.is_for_people,
        {403: (FOR_PEOPLE,)},
    ),
    (
        "every endpoint with query options",
        lambda row: row.read or row.responses.representation,
        {
            400: (INVALID, error_codes.QUERY_OUT_OF_RANGE, error_codes.QUERY_TOO_SLOW, TOO_MANY_EXPANDED),
            501: (NOT_SUPPORTED,),
        },
    ),
    (
        "every endpoint with query parameters of its own",
        lambda row: row.query_parameters,
        {400: (error_codes.QUERY_TOO_SLOW,)},
    ),
    (
        "every endpoint that is not public, and has query parameters of its own or no query options",
        _has_checked_parameters,
        {400: (query_parameters.INVALID,)},
    ),
    ("every list", is_list, {400: (list_responses.TOO_SLOW, response_spool.TOO_LONG), 503: (response_spool.NO_ROOM,)}),
    (
        "every endpoint with a body",
        lambda row: row.body,
        {408: (error_codes.BODY_TOO_SLOW,), 413: (error_codes.BODY_TOO_LARGE,), 415: (error_codes.UNSUPPORTED_TYPE,)},
    ),
    (
        "every endpoint with a JSON body",
        lambda row: isinstance(row.body, JsonBody),
        {
            400: (
                request_body.INVALID_JSON, request_body.WRONG_FORM,
                request_body.INVALID_MEMBERS,
                unknown_members.UNKNOWN_MEMBERS,
                unknown_members.REPEATED,
                request_body.TOO_MANY_ERRORS,
            )
        },
    ),
    ("every PATCH", lambda row: row.method == "PATCH", {400: (request_body.NO_STEPS, request_body.TOO_MANY_STEPS)}),
    (
        "every endpoint with `Idempotency-Key`",
        lambda row: row.has_idempotency_key,
        {
            400: (idempotency.INVALID,),
            409: (idempotency.IN_FLIGHT,),
            422: (idempotency.OTHER_REQUEST, idempotency.OTHER_CALLER),
        },
    ),
    ("every read with an `ETag`", lambda row: row.has_etag, {

        400: (conditional_requests.INVALID,), 412: (conditional_requests.CHANGED,)}),
    (
        "every change of a resource with a read of its own",
        lambda row: row.concurrency.if_match,
        {400: (conditional_requests.INVALID,), 412: (conditional_requests.CHANGED,)},
    ),
    (
        "every other write",
        lambda row: row.method != "GET" and not row.concurrency.if_match,
        {412: (conditional_requests.NOTHING_TO_COMPARE,)},
    ),
    ("every call of a page of the console", lambda row: row.auth.has_token, {401: (error_codes.SIGNED_OUT,)}),
    (
        "every write of a page of the console",
        lambda row: row.auth.has_token and row.method != "GET",
        {403: (error_codes.OTHER_ORIGIN,)},
    ),
    ("every write", lambda row: row.method != "GET", {412: (conditional_requests.ONLY_FOR_READS,)}),
    (
        "every change of an assignment with `If-Match`",
        lambda row: row.concurrency.serialized == "with-if-match",
        {503: (customer_lock.STUCK,)},
    ),
    (
        "every change of the state that assignments depend on",
        lambda row: row.concurrency.serialized == "always",
        {503: (customer_lock.STUCK,)},
    ),
    (
        "every delivery of telemetry or events by a unit",
        lambda row: isinstance(row.body, RawBody),
        {
            400: (INVALID_LINES, error_codes.NO_GZIP),
            401: (error_codes.INVALID_DEVICE_KEY,),
            403: (error_codes.NO_SCOPE,),
            413: (error_codes.BODY_TOO_PACKED, TOO_MANY_LINES),
            503: (error_codes.TOO_MUCH, error_codes.TOO_MUCH_OF_KEY),
        },
    ),
)  # fmt: skip
# Errors of requests that reach no endpoint
ELSEWHERE: ByStatus = {404: (error_codes.NOTHING_HERE,), 405: (error_codes.NOT_ALLOWED,)}


def refusals(endpoint: Endpoint[Any]) -> dict[int, list[ErrorCode]]:
    """All errors of the endpoint by status: its own, and those that it shares."""
    errors_by_status: dict[int, list[ErrorCode]] = {}
    for _, is_one, shared in SHARED:
        if is_one(endpoint):
            _add(errors_by_status, shared)
    _add(errors_by_status, endpoint.responses.errors)
    return dict(sorted(errors_by_status.items()))


def special(several: Iterable[ErrorCode]) -> list[ErrorCode]:
    """The errors that are not common to all endpoints."""
    _, _, every = SHARED[0]
    common = {reason for shared in every.values() for reason in shared}
    return [reason for reason in several if reason not in common]


def _add(errors_by_status: dict[int, list[ErrorCode]], more: ByStatus) -> None:
    for status, several in more.items():
        errors_by_status.setdefault(status, []).extend(several)


@dataclass
class ErrorCatalogEntry:
    """One row of the table of codes."""

    status: int
    code: str
    title: str
    remedy: str
    texts: list[str] = field(default_factory=list[str])
    endpoints: list[Endpoint[Any]] = field(default_factory=list[Endpoint[Any]])
    places: str = ""
    previous: str | None = None


def codes(endpoints: Iterable[Endpoint[Any]]) -> list[ErrorCatalogEntry]:
    """The table of all codes, by status and name."""
    table = list(endpoints)
    entries_by_code: dict[str, ErrorCatalogEntry] = {}
    for endpoint in table:
        for status, several in (*refusals(endpoint).items(), *endpoint.responses.item_errors.items()):
            for reason in several:
                row = entries_by_code.setdefault(
                    reason.code,
                    ErrorCatalogEntry(status, reason.code, reason.title, reason.remedy, previous=reason.previous),
                )
                row.texts.append(reason.text)
                row.endpoints.append(endpoint)
    for status, several in ELSEWHERE.items():
        for reason in several:
            entries_by_code[reason.code] = ErrorCatalogEntry(
                status, reason.code, reason.title, reason.remedy, [reason.text]
            )
    for row in entries_by_code.values():
        row.texts = _distinct_texts(row.texts)
        row.places = _places(row.endpoints, table)
    return sorted(entries_by_code.values(), key=lambda row: (row.status, row.code))


def _distinct_texts(texts: list[str]) -> list[str]:
    """The distinct texts. A text with places represents the filled ones."""
    several = list(dict.fromkeys(texts))
    return [text for text in several if "{" in text] or several


def _places(users: list[Endpoint[Any]], table: list[Endpoint[Any]]) -> str:
    """The endpoints of an error: the name of a group of endpoints, or their list."""
    paths = list(dict.fromkeys((row.method, row.path) for row in users))
    for words, is_one, _ in SHARED:
        if paths == [(row.method, row.path) for row in table if is_one(row)]:
            return words
    return ", ".join(f"`{method} {path}`" for method, path in paths) or "every path"
