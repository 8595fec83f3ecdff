"""Access history endpoints: who could open a car, and which cars a user could open. An extension."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from keyrack.api import conditional_requests
from keyrack.api.auth_schemes import CustomerAuth
from keyrack.api.endpoint import TAGGED, Doc, Responses, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import Request, Response
from keyrack.api.permissions import Permission
from keyrack.api.query_parameters import INVALID, MOMENT, QueryParameter, a_time, parse_parameters
from keyrack.api.schema.request_body import Body, Id, Moment
from keyrack.api.services import ReadServices
from keyrack.changelog import access_queries
from keyrack.changelog.access_queries import HistoryExtent, Thing
from keyrack.core.error_codes import EMPTY_RANGE, ErrorCode, FieldError
from keyrack.core.errors import BadRequest, Gone, NotFound, Unavailable
from keyrack.core.settings import Settings
from keyrack.fleet import group_scope_checks
from keyrack.fleet.endpoints.cars import NO_CAR
from keyrack.fleet.endpoints.users import NO_USER

OF_EVENTS = Permission.CHANGES_READ
endpoints = Endpoints[ReadServices](
    Tag("Access", "The users who can or could open a car, as far back as the history is retained."),
    CustomerAuth(Permission.ACCESS_READ, is_group_scoped=True, conditional={"`events`": OF_EVENTS}),
    is_extension=True,
)

AT_OR_RANGE = ErrorCode(
    "at-or-range",
    "Send `at`, or both `from` and `to`, or no time at all.",
    "Send `at` for one time, `from` and `to` for a time range, or none of them for now.",
)
IN_FUTURE = ErrorCode(
    "time-in-future",
    "`{name}` is in the future. Only past times can be queried.",
    "Send a past time, or none for now; `GET /assignments` returns future assignments.",
)
GONE = ErrorCode(
    "access-history-expired",
    "The access history starts at {oldest}.",
    "Request that time (`oldestTime` of the problem) or a later one.",
)
BEHIND = ErrorCode(
    "access-history-pending",
    "The change log does not yet contain all changes up to this time.",
    "Retry in a moment; if the error persists, `keyrack status` shows the cause.",
)
TOO_MANY = ErrorCode(
    "too-many-access-periods",
    "The time range has more than {most} access periods.",
    "Request a shorter time range, or the history of each user or car alone.",
)
AT = QueryParameter("at", a_time, "The time to look up. Default, without `from` and `to`: now.", MOMENT)
FROM = QueryParameter("from", a_time, "The start of the time range to look up, together with `to`.", MOMENT)
TO = QueryParameter("to", a_time, "The end of the time range, exclusive. A future time is replaced by now.", MOMENT)
OPTIONS = (AT, FROM, TO)

LONG = Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})]


class AccessPeriodBody(Body):
    """A period in which an assignment was in force."""

    model_config = ConfigDict(title="Stretch")

    assignment_id: Id
    car_id: Id
    user_id: Id
    since: Moment
    until: Moment | None
    known_from: Moment
    known_until: Moment | None
    box_id: Id | None
    service_id: Id | None


class AsOf(Body):
    change_id: LONG
    recorded_time: Moment


class _Access(Body):
    at: Moment | None = None
    begins: Annotated[Moment | None, Field(alias="from")] = None
    to: Moment | None = None
    as_of: AsOf
    assigned: list[AccessPeriodBody]
    events: list[dict[str, Any]]
    more_events: bool


class CarAccess(_Access):
    """The users who could open a car."""

    car_id: Id


class UserAccess(_Access):
    """The cars that a user could open."""

    user_id: Id


REFUSES = {400: (INVALID, AT_OR_RANGE, EMPTY_RANGE, IN_FUTURE, TOO_MANY), 410: (GONE,), 503: (BEHIND,)}


@endpoints.get(
    "/cars/{carId}/access",
    Doc(
        "getCarAccess",
        "Get the users who could open a car",
        "Returns the assignments that were in force at `at`, as they were known at that time. Assignments that have"
        " been changed or deleted since are included. With `from` and `to`, returns all that were in force between"
        " them; without a time, the current ones. `asOf` names the newest change that the response includes. `events`"
        " has the changes around that time, if the caller has `changes:read`. A time before the retained history is"
        " 410, never an empty list.",
    ),
    responses=Responses(200, CarAccess, headers=TAGGED, errors={**REFUSES, 404: (NO_CAR,)}),
    query_parameters=OPTIONS,
    is_primary_only=True,
)
async def of_car(request: Request, services: ReadServices) -> Response:
    return await _answer(request, "car", NO_CAR, services.settings)


@endpoints.get(
    "/users/{userId}/access",
    Doc(
        "getUserAccess",
        "Get the cars that a user could open",
        "Returns the cars that the user could open. Times work as in `GET /cars/{carId}/access`.",
    ),
    responses=Responses(200, UserAccess, headers=TAGGED, errors={**REFUSES, 404: (NO_USER,)}),
    query_parameters=OPTIONS,
    is_primary_only=True,
)
async def of_user(request: Request, services: ReadServices) -> Response:
    return await _answer(request, "user", NO_USER, services.settings)


async def _answer(request: Request, thing: Thing, missing: ErrorCode, settings: Settings) -> Response:
    """The answer from the access history. Raises `BadRequest`, `NotFound`, `Gone`, `Unavailable`."""
    given_at, since, until = _times(request.query)
    (id,) = request.ids
    extent = await access_queries.history_extent(request.db, request.customer, thing, id, until or given_at)
    since, until = _checked(extent, missing, since or given_at or extent.at, until)
    most = settings.access_max_periods
    of = (request.db, request.customer, request.scope, thing, id, since, until)
    rows = await access_queries.periods_at(*of, most + 1)
    if len(rows) > most:
        raise BadRequest(TOO_MANY.format(most=most))
    if request.scope is not None:
        rows = await _without_hidden_parts(request, request.scope, rows)
    events, more = list[str](), False
    if OF_EVENTS in request.grant.permissions:
        events, more = await access_queries.events(*of, extent.last)
    times = {"at": _utc(since)} if until is None else {"from": _utc(since), "to": _utc(until)}
    document = {
        f"{thing}Id": id,
        **times,
        "asOf": {"changeId": extent.last, "recordedTime": _utc(extent.recorded)},
        "assigned": [_shown(row) for row in rows],
    }
    body = json.dumps(document)[:-1] + f', "events": [{", ".join(events)}], "moreEvents": {json.dumps(more)}}}'
    return conditional_requests.created_response(request, body.encode())


async def _without_hidden_parts(
    request: Request, scope: int, rows: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """The rows with null for each box and service out of the caller's scope."""
    named = {(name, row[column]) for row in rows for column, name in PARTS.items() if row[column] is not None}
    hidden = await group_scope_checks.ids_out_of_scope(request.db, request.customer, scope, named)
    shown = [
        {**row, **{column: None for column, name in PARTS.items() if (name, row[column]) in hidden}} for row in rows
    ]
    return access_queries.join_periods(shown)  # a change between two hidden boxes begins no new period


PARTS = {"box_id": "productId", "service_id": "serviceId"}
MEMBERS = {
    "assignmentId": "assignment_id", "carId": "car_id", "userId": "user_id", "since": "since", "until": "until",
    "knownFrom": "known_from", "knownUntil": "known_until", "boxId": "box_id", "serviceId": "service_id",
}  # fmt: skip
TIMES = ("since", "until", "knownFrom", "knownUntil")


def _times(query: bytes) -> tuple[datetime | None, datetime | None, datetime | None]:
    """`at`, `from` and `to`. Raises `BadRequest` unless it is `at` alone, both others, or none."""
    values = parse_parameters(query, OPTIONS)
    at, since, until = (values.get(option.name) for option in OPTIONS)
    if (since is None) != (until is None) or (at is not None and since is not None):
        wrong = ("not-supported", "at") if at is not None else ("missing", "from" if since is None else "to")
        raise BadRequest(AT_OR_RANGE, errors=[FieldError(wrong[0], AT_OR_RANGE.text, parameter=wrong[1])])
    if since is not None and until is not None and until <= since:
        raise BadRequest(EMPTY_RANGE, errors=[FieldError("out-of-range", EMPTY_RANGE.text, parameter="to")])
    return at, since, until


def _checked(
    extent: HistoryExtent, missing: ErrorCode, since: datetime, until: datetime | None
) -> tuple[datetime, datetime | None]:
    """The times, limited to the past. Raises the error of an invalid one."""
    if since > extent.now:
        name = "at" if until is None else "from"
        reason = IN_FUTURE.format(name=name)
        raise BadRequest(reason, errors=[FieldError("out-of-range", reason.text, parameter=name)])
    if extent.waits:
        raise Unavailable(BEHIND)
    if not extent.has:
        raise NotFound(missing)
    if since < extent.since:
        oldest = _utc(extent.since)
        raise Gone(GONE.format(oldest=oldest), {"oldestTime": oldest}, {})
    return since, until and min(until, extent.now)


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """A period as JSON. A week of a car has hundreds of times, so the others are not asked for their type."""
    shown = {name: row[column] for name, column in MEMBERS.items()}
    for name in TIMES:
        if shown[name] is not None:
            shown[name] = _utc(shown[name])
    return shown


def _utc(time: datetime) -> str:
    """A time as lists show it: with a fraction only if it has one."""
    text = time.astimezone(UTC).isoformat().removesuffix("+00:00")
    return (text.rstrip("0") if "." in text else text) + "Z"
