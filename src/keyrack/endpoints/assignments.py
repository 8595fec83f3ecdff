"""Assignments: who may use which car, and when. Changes are asynchronous; the outcome comes by webhook."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import WithJsonSchema

from keyrack.access.limits import Limit
from keyrack.api.endpoint import Answer, Endpoints, Request
from keyrack.assignments import operations
from keyrack.assignments.operations import LIFETIME, LIFETIME_BOUND, checksum, lifetimes, stamp
from keyrack.endpoints.cars import NO_CAR
from keyrack.endpoints.users import NO_USER
from keyrack.errors import BadRequest, NotFound
from keyrack.model.bodies import INVALID_MOMENT, Body, Int32, Moment, moment, no_valid, patched
from keyrack.model.resources import ASSIGNMENT

endpoints = Endpoints("Assignments")

NO_ASSIGNMENT = "Unable to find an assignment for the given assignmentId which is assigned to the given customerId."
CREATE = "create assignment"
UPDATE = "update assignment"
END_BEFORE_START = "The end must not lie before the start."
LIFETIME_RANGE = f"The lifetime must be greater than {LIFETIME} and less than {LIFETIME_BOUND} seconds."
RENEWABLE_RANGE = "renewableAfter must be 0 or more and less than lifetime."

OPERATION_HEADERS = {
    "Operation-Id": "The operation that was asked for; its outcome comes by webhook.",
    "Operation-Location": "Where to ask for the outcome.",
}

endpoints.get("/assignments/{assignmentId}", ASSIGNMENT, "One assignment", one=True, missing=NO_ASSIGNMENT)

# Text, or a number where the member is one; what is neither is refused by the member's own name
PatchValue = Annotated[
    Any, WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "integer", "format": "int32"}, {"type": "null"}]})
]
_NUMBER = re.compile(r"-?[0-9]{1,10}")


class NewAssignment(Body):
    car_id: Int32
    user_id: Int32
    start: Moment
    end: Moment | None = None
    lifetime: Int32 | None = None
    renewable_after: Int32 | None = None


class AssignmentPatch(Body):
    op: Literal["remove", "replace"]
    path: Literal["/carId", "/userId", "/start", "/end", "/lifetime", "/renewableAfter"]
    value: PatchValue = None


@endpoints.put(
    "/assignments",
    "Ask for an assignment",
    body=NewAssignment,
    what=CREATE,
    refuses={400: (END_BEFORE_START, LIFETIME_RANGE, RENEWABLE_RANGE), 404: (NO_CAR, NO_USER), 429: ()},
    headers=OPERATION_HEADERS,
)
async def create(request: Request, wanted: NewAssignment) -> Answer:
    _check(CREATE, wanted.start, wanted.end, wanted.lifetime, wanted.renewable_after)
    limits = await _limit(request).take(request.db, request.customer)
    asked = {
        "start": stamp(wanted.start),
        "end": wanted.end and stamp(wanted.end),
        "lifetime": wanted.lifetime,
        "renewableAfter": wanted.renewable_after,
    }
    row = await request.db.fetchrow(
        operations.ASK_CREATE, request.customer, wanted.car_id, wanted.user_id, asked, _checksum(request)
    )
    return _accepted(request, row, {"car": NO_CAR, "user": NO_USER}, limits)


@endpoints.patch(
    "/assignments/{assignmentId}",
    "Ask for a change of an assignment",
    body=list[AssignmentPatch],
    what=UPDATE,
    refuses={
        400: (END_BEFORE_START, LIFETIME_RANGE, RENEWABLE_RANGE),
        404: (NO_ASSIGNMENT, NO_CAR, NO_USER),
    },
    headers=OPERATION_HEADERS,
)
async def update(request: Request, patch: list[AssignmentPatch]) -> Answer:
    changes: dict[str, Any] = {name: _value(name, value) for name, value in patched(patch).items()}
    _check(
        UPDATE,
        _moment(changes.get("start")),
        _moment(changes.get("end")),
        changes.get("lifetime"),
        changes.get("renewableAfter"),
        complete="lifetime" in changes,
    )
    row = await request.db.fetchrow(
        operations.ASK_UPDATE, request.customer, *request.ids, changes.get("carId"), changes.get("userId"), changes,
        _checksum(request),
    )  # fmt: skip
    return _accepted(request, row, {"assignment": NO_ASSIGNMENT, "car": NO_CAR, "user": NO_USER})


@endpoints.delete(
    "/assignments/{assignmentId}",
    "Ask for the end of an assignment",
    refuses={404: (NO_ASSIGNMENT,)},
    headers=OPERATION_HEADERS,
)
async def delete(request: Request) -> Answer:
    row = await request.db.fetchrow(operations.ASK_DELETE, request.customer, *request.ids, _checksum(request))
    if row is None:
        raise NotFound(NO_ASSIGNMENT)
    return _accepted(request, row, {})


def _limit(request: Request) -> Limit:
    settings = request.service.settings
    return Limit("assignments", settings.assignment_rate, settings.assignment_burst)


def _checksum(request: Request) -> str:
    return checksum(request.body, request.method, request.path)


def _accepted(
    request: Request, row: Any, missing: Mapping[str, str], headers: Mapping[str, str] | None = None
) -> Answer:
    """204 for what was written down; `missing` says which flag of the row stands for which 404."""
    for flag, text in missing.items():
        if not row[flag]:
            raise NotFound(text)
    request.service.announce()
    id = row["operation_id"]
    told = {"Operation-Id": str(id), "Operation-Location": f"/v3/operations/{id}"}
    return Answer(204, headers={**told, **(headers or {})})


def _check(
    what: str,
    start: datetime | None,
    end: datetime | None,
    lifetime: int | None,
    renewable_after: int | None,
    *,
    complete: bool = True,
) -> None:
    """What the body alone shows to be wrong. Raises `BadRequest`. Without `complete` the lifetime stays as it is."""
    if start is not None and end is not None and end < start:
        raise BadRequest(no_valid(what, "end") + " " + END_BEFORE_START)
    if lifetime is not None and not LIFETIME < lifetime < LIFETIME_BOUND:
        raise BadRequest(no_valid(what, "lifetime") + " " + LIFETIME_RANGE)
    if renewable_after is not None:
        bound = lifetimes(lifetime, None)[0] if complete else LIFETIME_BOUND
        if not 0 <= renewable_after < bound:
            raise BadRequest(no_valid(what, "renewableAfter") + " " + RENEWABLE_RANGE)


def _value(name: str, value: object) -> str | int | None:
    """A patch's value as its member's type: numbers may come as text (spec). Raises `BadRequest`."""
    if value is None and name in ("end", "lifetime", "renewableAfter"):
        return None
    if name in ("start", "end"):
        try:
            return stamp(moment(value if isinstance(value, str) else ""))
        except ValueError:
            raise BadRequest(f"{no_valid(UPDATE, name)} {INVALID_MOMENT}.") from None
    number = int(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else value
    if isinstance(number, bool) or not isinstance(number, int) or not -(2**31) <= number < 2**31:
        raise BadRequest(no_valid(UPDATE, name))
    return number


def _moment(text: str | int | None) -> datetime | None:
    return None if text is None else moment(str(text))
