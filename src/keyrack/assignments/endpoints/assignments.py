"""Assignments of cars to users for a time. Changes are asynchronous; the outcome comes by webhook."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit
from uuid import UUID

from pydantic import TypeAdapter, WithJsonSchema

from keyrack.api import conditional_requests
from keyrack.api.auth_schemes import CustomerAuth
from keyrack.api.endpoint import Concurrency, Doc, JsonBody, Responses, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import Request, Response
from keyrack.api.grants import NotPermitted
from keyrack.api.permissions import Permission
from keyrack.api.rate_limits import RateLimit
from keyrack.api.reference_errors import EXTERNAL_ID, TAKEN, ExternalIdTaken
from keyrack.api.request_mode import RequestMode
from keyrack.api.request_origin import RequestOrigin
from keyrack.api.schema import text_maps
from keyrack.api.schema.declaration import patch_paths
from keyrack.api.schema.field_errors import at
from keyrack.api.schema.references import NAMES, ExternalId, Metadata
from keyrack.api.schema.request_body import (
    INVALID_MOMENT,
    Int32,
    Patch,
    StrictBody,
    WholeSecond,
    apply_patch,
    format_timestamp,
    invalid_member,
    moment,
    validate_body,
    whole_number,
)
from keyrack.api.services import ReadServices
from keyrack.assignments import submission
from keyrack.assignments.booking_checks import CAR_BOOKED, OLD_WORKER
from keyrack.assignments.customer_lock import apply_at_once, lock_and_flush
from keyrack.assignments.endpoints.operations import AWAITED_OPERATION, ONE_OPERATION
from keyrack.assignments.rules import LIFETIME, LIFETIME_BOUND, lifetimes
from keyrack.assignments.submission import OperationRequest, References
from keyrack.core.error_codes import RATE_LIMITED, ErrorCode, FieldError
from keyrack.core.errors import BadRequest, Conflict, NotFound, Refusal
from keyrack.core.settings import Settings
from keyrack.db.connection import Database, Statements
from keyrack.db.worker_wakeup import WORK
from keyrack.fleet.declarations import ASSIGNMENTS
from keyrack.fleet.endpoints.cars import NO_CAR
from keyrack.fleet.endpoints.users import NO_USER
from keyrack.fleet.schema import ASSIGNMENT, HIDDEN_ASSIGNMENT

endpoints = Endpoints[ReadServices](
    Tag(
        "Assignments",
        "Users' access to cars for a time. Changes are asynchronous: webhooks and operations report their outcome.",
        frozenset(("operations",)),
    ),
    "assignments",
)

ASYNCHRONOUS = (
    " The request is processed asynchronously: a 2xx only means that it is accepted. `Operation-Id` identifies the"
    " operation. A webhook and `GET /operations/{operationId}` report its outcome. With `Prefer: wait=N` the response"
    " waits for it."
)
NO_ASSIGNMENT = ErrorCode(
    "assignment-not-found",
    "Unable to find an assignment for the given assignmentId which is assigned to the given customerId.",
    "Use an id that `GET /cars/{carId}/assignments` returns; it does not list ended assignments.",
)
CREATE = "create assignment"
UPDATE = "update assignment"
EXTERNAL_ID_ALONE, METADATA_ALONE = ASSIGNMENTS.partial(EXTERNAL_ID), ASSIGNMENTS.partial("metadata")
END_BEFORE_START = ErrorCode(
    "end-before-start",
    "`end` must not be earlier than `start`.",
    "Send an `end` that is not earlier than `start`, or leave it out.",
)
LIFETIME_RANGE = ErrorCode(
    "lifetime-out-of-range",
    f"`lifetime` must be greater than {LIFETIME} and less than {LIFETIME_BOUND} seconds.",
    "Send seconds within these limits, or leave `lifetime` out for the default of 604800.",
)
RENEWABLE_RANGE = ErrorCode(
    "renewable-after-out-of-range",
    "`renewableAfter` must be at least 0 and less than `lifetime`.",
    "Send seconds from 0 to less than `lifetime`, or leave it out for half of `lifetime`.",
)

SHARED = {"a shared assignment of a car whose booking settings enforce exclusive ones": Permission.ASSIGNMENTS_SHARE}
OPERATION_HEADERS = {
    "Operation-Id": "The id of the operation. A webhook reports its outcome.",
    "Operation-Location": "The address of the operation.",
}

END_IN_PAST = "`end` must not be in the past."  # in strict mode

endpoints.read(
    "/assignments",
    ASSIGNMENT,
    Doc(
        "listAssignments",
        "List assignments",
        "Returns past, current and future assignments of all cars and users of the customer. They are ordered by id"
        " unless `$orderby` sets another order.",
        is_extension=True,
    ),
)
endpoints.read(
    "/assignments/{assignmentId}",
    ASSIGNMENT,
    Doc(
        "getAssignment",
        "Get an assignment",
        "Returns one assignment. An assignment exists once its operation is applied.",
    ),
    is_single=True,
    missing_error=NO_ASSIGNMENT,
)
endpoints.read(
    "/hidden-assignments",
    HIDDEN_ASSIGNMENT,
    Doc(
        "listHiddenAssignments",
        "List times at which users outside the groups have cars",
        "For group-limited callers. Returns only the car and the times of assignments whose car is in the caller's"
        " groups and whose user is not. If several of a car begin at the same time, the list has the longest one."
        " For all other callers the list is empty.",
        is_extension=True,
    ),
)

# Text, or a number, a boolean or an object for members of these types. Other values get an error that names the member
PatchValue = Annotated[
    Any,
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string"},
                {"type": "integer", "format": "int32"},
                {"type": "boolean"},
                {"type": "object", "additionalProperties": {"type": "string"}},
                {"type": "null"},
            ]
        }
    ),
]
_NUMBER = re.compile(r"-?[0-9]{1,10}")


class NewAssignment(StrictBody):
    car_id: Int32
    user_id: Int32
    start: WholeSecond
    end: WholeSecond | None = None
    lifetime: Int32 | None = None
    renewable_after: Int32 | None = None
    exclusive: bool | None = None
    external_id: ExternalId = None
    metadata: Metadata = None


class AssignmentPatch(StrictBody):
    op: Literal["remove", "replace"]
    path: Annotated[
        str, patch_paths(("carId", "userId", "start", "end", "lifetime", "renewableAfter", "exclusive", *NAMES))
    ]
    value: PatchValue = None


@dataclass(frozen=True, slots=True)
class AssignmentRequest:
    """A requested operation, and the rate limit of the customer that it counts for."""

    operation: OperationRequest
    limit: RateLimit


async def accept(
    db: Database, customer: int, parts: Sequence[Sequence[AssignmentRequest]]
) -> list[list[Mapping[str, str] | Refusal]]:
    """Accept requests of several callers of a customer.

    Returns the rate-limit headers or the error of each. The rate limit has a statement of its own. In the statement of
    the operations its row would stay locked until they are on disk, and the customer's requests would queue behind one
    another.
    """
    requests = [request for part in parts for request in part]
    taken = await requests[0].limit.take_many(db, customer, len(requests))
    allowed = [
        request.operation for request, headers in zip(requests, taken, strict=True) if not isinstance(headers, Refusal)
    ]
    references = iter(await submission.submit(db, customer, allowed) if allowed else ())
    results: list[Mapping[str, str] | Refusal] = []
    rejected = 0
    for request, headers in zip(requests, taken, strict=True):
        if isinstance(headers, Refusal):
            results.append(headers)
            continue
        refusal = rejection(next(references), customer, request.operation)
        rejected += refusal is not None
        results.append(refusal or headers)
    if rejected:
        await requests[0].limit.give_back(db, customer, rejected)
    rest = iter(results)
    return [[next(rest) for _ in part] for part in parts]


@endpoints.put(
    "/assignments",
    Doc(
        "createAssignment",
        "Create an assignment",
        "Lets a user open a car from `start` to `end`. Without an `end`, the assignment lasts until it is ended. The"
        " car needs a key box with a service when the assignment is applied. Two exclusive assignments of a car never"
        " overlap; without `exclusive`, the booking settings of the car decide. An `externalId` that another assignment"
        " has is 409, or the outcome has `external-id-taken`." + ASYNCHRONOUS,
    ),
    auth=CustomerAuth(Permission.ASSIGNMENTS_WRITE, is_group_scoped=True, conditional=SHARED),
    body=JsonBody(TypeAdapter(NewAssignment), CREATE, scoped_members=("carId", "userId")),
    responses=Responses(
        headers=OPERATION_HEADERS,
        errors={
            400: (END_BEFORE_START, LIFETIME_RANGE, RENEWABLE_RANGE),
            404: (NO_CAR, NO_USER),
            409: (TAKEN, CAR_BOOKED, OLD_WORKER),
            429: (RATE_LIMITED,),
        },
        representation=ONE_OPERATION,
    ),
    awaited=AWAITED_OPERATION,
)
async def create(request: Request, body: NewAssignment, services: ReadServices) -> Response:
    operation = creation(request, body, services.settings)
    (result,) = await request.batches.put(
        accept, request.customer, [AssignmentRequest(operation, limit(services.settings))]
    )
    if isinstance(result, Refusal):
        raise result
    return _accepted(request, operation, services.settings, result)


def limit(settings: Settings) -> RateLimit:
    """The rate limit on a customer's new assignments."""
    return RateLimit("assignments", settings.assignment_rate, settings.assignment_burst)


def creation(request: Request, body: NewAssignment, settings: Settings) -> OperationRequest:
    """The operation that the body requests. Raises `BadRequest`."""
    _check(CREATE, "/{}".format, body.start, body.end, body.lifetime, body.renewable_after)
    _check_past(request, settings, CREATE, "/{}".format, body.end)
    last = body.end and format_timestamp(body.end)
    values: dict[str, Any] = {
        "start": format_timestamp(body.start),
        "end": last,
        "lifetime": body.lifetime,
        "renewableAfter": body.renewable_after,
    }
    if body.exclusive is not None:
        values["exclusive"] = body.exclusive
    if body.external_id is not None:
        values["externalId"] = body.external_id
    if body.metadata:
        values["metadata"] = body.metadata
    return OperationRequest("CreateAssignment", None, body.car_id, body.user_id, values, *_origin(request))


@endpoints.patch(
    "/assignments/{assignmentId}",
    Doc(
        "updateAssignment",
        "Update an assignment",
        "A JSON Patch (RFC 6902) with `remove` and `replace`, which is applied completely or not at all. Numbers may"
        " be strings. `remove` restores the default: no end, a lifetime of one week, and half of the lifetime for"
        " `renewableAfter`, and what the booking settings of the car say for `exclusive`. A change that needs no new"
        " time is never rejected for another booking. An `externalId` that another assignment has is 409, or the"
        " outcome has `external-id-taken`." + ASYNCHRONOUS,
    ),
    auth=CustomerAuth(Permission.ASSIGNMENTS_WRITE, is_group_scoped=True, conditional=SHARED),
    body=JsonBody(TypeAdapter(Patch[AssignmentPatch]), UPDATE, scoped_members=("carId", "userId")),
    concurrency=Concurrency(
        if_match=ASSIGNMENT,
        serialized="with-if-match",
        precheck=conditional_requests.require_row(ASSIGNMENT, NO_ASSIGNMENT),
    ),
    responses=Responses(
        headers=OPERATION_HEADERS,
        errors={
            400: (END_BEFORE_START, LIFETIME_RANGE, RENEWABLE_RANGE),
            404: (NO_ASSIGNMENT, NO_CAR, NO_USER),
            409: (TAKEN, CAR_BOOKED, OLD_WORKER),
        },
        representation=ONE_OPERATION,
    ),
    awaited=AWAITED_OPERATION,
)
async def update(request: Request, patch: list[AssignmentPatch], services: ReadServices) -> Response:
    return await _accept(request, change(request, patch, services.settings), services.settings)


def change(request: Request, patch: list[AssignmentPatch], settings: Settings) -> OperationRequest:
    """The operation that the patch requests. Raises `BadRequest`."""
    values = apply_patch(patch, UPDATE, required=("carId", "userId", "start"))
    maps = text_maps.changes_of(values, patch, UPDATE, lambda: METADATA_ALONE)
    changes: dict[str, Any] = {name: _value(name, value, patch) for name, value in values.items()} | maps
    _check(
        UPDATE,
        partial(at, patch),
        _moment(changes.get("start")),
        _moment(changes.get("end")),
        changes.get("lifetime"),
        changes.get("renewableAfter"),
        complete="lifetime" in changes,
    )
    _check_past(request, settings, UPDATE, partial(at, patch), _moment(changes.get("end")))
    (id,) = request.ids
    return OperationRequest(
        "UpdateAssignment",
        id,
        changes.get("carId"),
        changes.get("userId"),
        changes,
        *_origin(request),
        external_id_pointer=at(patch, EXTERNAL_ID),
    )


@endpoints.delete(
    "/assignments/{assignmentId}",
    Doc("deleteAssignment", "End an assignment", "Ends the access at once." + ASYNCHRONOUS),
    auth=CustomerAuth(Permission.ASSIGNMENTS_WRITE, is_group_scoped=True),
    concurrency=Concurrency(
        if_match=ASSIGNMENT,
        serialized="with-if-match",
        precheck=conditional_requests.require_row(ASSIGNMENT, NO_ASSIGNMENT),
    ),
    responses=Responses(headers=OPERATION_HEADERS, errors={404: (NO_ASSIGNMENT,)}, representation=ONE_OPERATION),
    awaited=AWAITED_OPERATION,
)
async def delete(request: Request, services: ReadServices) -> Response:
    return await _accept(request, end(request), services.settings)


def end(request: Request) -> OperationRequest:
    """The operation that ends the path's assignment."""
    (id,) = request.ids
    return OperationRequest("DeleteAssignment", id, None, None, {}, *_origin(request))


def _origin(request: Request) -> tuple[str, RequestOrigin, bool, bool]:
    """The request's checksum and origin, and what its caller may do.

    The last two: whether the caller is group-limited, and whether it may share cars.
    """
    may_share = Permission.ASSIGNMENTS_SHARE in request.grant.permissions
    return request.checksum, request.asker, request.scope is not None, may_share


async def _accept(request: Request, operation: OperationRequest, settings: Settings) -> Response:
    """Write the operation; with `If-Match`, also apply it at once.

    With `If-Match` the operation comes after all that was accepted before it, and before all that is accepted during
    the comparison. It therefore changes exactly the state that the client has seen.

    Raises `NotFound`, `PreconditionFailed`, `Unavailable`.
    """
    if request.compares:
        async with request.db.transaction() as connection:
            await lock_and_flush(connection, request.customer)
            await conditional_requests.compare(connection, request, ASSIGNMENT, NO_ASSIGNMENT)
            await _write(connection, request, operation)
            await apply_at_once(connection, request.customer, operation.operation)
    else:
        await _write(request.db, request, operation)
    return _accepted(request, operation, settings)


async def _write(statements: Statements, request: Request, operation: OperationRequest) -> None:
    (references,) = await submission.submit(statements, request.customer, [operation])
    if (refusal := rejection(references, request.customer, operation)) is not None:
        raise refusal


class CarBooked(Conflict):
    """409 for an exclusive assignment of a booked car. `conflicts` are the bookings that the caller may see."""

    def __init__(self, conflicts: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(CAR_BOOKED)
        self.conflicts = conflicts

    def extensions(self) -> dict[str, object]:
        return super().extensions() | ({"conflicts": self.conflicts} if self.conflicts else {})


def rejection(references: References, customer: int, operation: OperationRequest) -> Refusal | None:
    """The error for a request that was not submitted, or None.

    A group-limited caller learns that the car is booked or the `externalId` taken, and nothing else.
    """
    for there, reason in ((references.assignment, NO_ASSIGNMENT), (references.car, NO_CAR), (references.user, NO_USER)):
        if not there:
            return NotFound(reason)
    if references.holder is not None:
        return ExternalIdTaken(None if operation.is_limited else references.holder, operation.external_id_pointer)
    if references.is_denied:
        return NotPermitted(Permission.ASSIGNMENTS_SHARE, customer)
    if references.is_early:
        return Conflict(OLD_WORKER)
    if references.conflicts:
        return CarBooked(() if operation.is_limited else references.conflicts)
    return None


def _accepted(
    request: Request, operation: OperationRequest, settings: Settings, more: Mapping[str, str] | None = None
) -> Response:
    """204 for an operation that was written."""
    request.announce(WORK)
    headers = {**operation_headers(operation.operation, settings), **(more or {})}
    return Response(204, headers=headers, created_id=operation.operation)


def operation_headers(operation: UUID, settings: Settings) -> dict[str, str]:
    """The headers that identify an operation."""
    return {"Operation-Id": str(operation), "Operation-Location": operations(settings) + str(operation)}


def operations(settings: Settings) -> str:
    """The path prefix of operations, for `Operation-Location`. A proxy may have put a path before Keyrack's."""
    return urlsplit(settings.public_url).path + "/v3/operations/"


def _check(
    action: str,
    place: Callable[[str], str],
    start: datetime | None,
    end: datetime | None,
    lifetime: int | None,
    renewable_after: int | None,
    *,
    complete: bool = True,
) -> None:
    """Check the values that need no database; `place` maps a member to its pointer. Raises `BadRequest`.

    Without `complete` the assignment keeps its lifetime, so the check of `renewableAfter` assumes the longest one.
    """
    if start is not None and end is not None and end < start:
        raise _of_member(END_BEFORE_START, action, "end", place)
    if lifetime is not None and not LIFETIME < lifetime < LIFETIME_BOUND:
        raise _of_member(LIFETIME_RANGE, action, "lifetime", place)
    if renewable_after is not None:
        bound = lifetimes(lifetime, None)[0] if complete else LIFETIME_BOUND
        if not 0 <= renewable_after < bound:
            raise _of_member(RENEWABLE_RANGE, action, "renewableAfter", place)


def _check_past(
    request: Request, settings: Settings, action: str, place: Callable[[str], str], end: datetime | None
) -> None:
    """Raises `BadRequest` for an `end` in the past, in strict mode. The clock of the client may be behind."""
    latest = timedelta(seconds=settings.max_clock_skew_seconds)
    if request.mode is RequestMode.STRICT and end is not None and end < datetime.now(UTC) - latest:
        fault = FieldError("out-of-range", END_IN_PAST, place("end"))
        raise BadRequest(invalid_member(action, "end", hint=END_IN_PAST), errors=[fault])


def _of_member(reason: ErrorCode, action: str, member: str, place: Callable[[str], str]) -> BadRequest:
    """The error for this reason, prefixed with the member's name."""
    fault = FieldError("out-of-range", reason.text, place(member))
    return BadRequest(reason.with_text(f"{invalid_member(action, member)} {reason}"), errors=[fault])


def _value(name: str, value: object, patch: Sequence[AssignmentPatch]) -> str | int | None:
    """A patch's value in the type of its member. Raises `BadRequest`.

    Numbers and booleans may be strings (spec).
    """
    if name == EXTERNAL_ID:
        body = validate_body(EXTERNAL_ID_ALONE, json.dumps({name: value}).encode(), UPDATE, patch=patch)
        return body.external_id
    place = at(patch, name)
    if value is None and name in ("end", "lifetime", "renewableAfter", "exclusive"):
        return None
    if name == "exclusive":
        chosen = {"true": True, "false": False}.get(value) if isinstance(value, str) else value
        if not isinstance(chosen, bool):
            fault = FieldError("wrong-type", "`exclusive` must be true or false, as a boolean or as a string.", place)
            raise BadRequest(invalid_member(UPDATE, name), errors=[fault])
        return chosen
    if name in ("start", "end"):
        try:
            return format_timestamp(moment(value if isinstance(value, str) else ""))
        except ValueError:
            fault = FieldError("wrong-form", INVALID_MOMENT, place)
            raise BadRequest(invalid_member(UPDATE, name, hint=INVALID_MOMENT), errors=[fault]) from None
    number = int(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else whole_number(value)
    if isinstance(number, bool) or not isinstance(number, int) or not -(2**31) <= number < 2**31:
        fault = FieldError("wrong-type", f"`{name}` must be an integer of 32 bits, as a number or as a string.", place)
        raise BadRequest(invalid_member(UPDATE, name), errors=[fault])
    return number


def _moment(text: str | int | None) -> datetime | None:
    return None if text is None else moment(str(text))
