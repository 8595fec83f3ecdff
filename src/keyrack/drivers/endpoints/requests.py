"""Requests of drivers, and their decision by managers. Extensions of the spec."""

from __future__ import annotations

from typing import Annotated, Any, Literal, LiteralString, Self

from pydantic import Field, TypeAdapter, model_validator

from keyrack.api.auth_schemes import CustomerAuth, DriverAuth
from keyrack.api.endpoint import Doc, JsonBody, Responses, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import NO_CONTENT, Request, Response, answer, driver_of
from keyrack.api.permissions import Permission
from keyrack.api.principals import PrincipalKind
from keyrack.api.rate_limits import HOUR, RateLimit
from keyrack.api.schema.fields import Relation, Resource, date_time, int32, string
from keyrack.api.schema.group_scope import scoped_by
from keyrack.api.schema.request_body import IN_NFC, Body, Int32, Moment, StrictBody, WholeSecond, format_timestamp
from keyrack.assignments.booking_checks import CAR_BOOKED
from keyrack.assignments.endpoints.assignments import OPERATION_HEADERS, operation_headers
from keyrack.assignments.failure_codes import TEXT, text_of
from keyrack.core.error_codes import RATE_LIMITED
from keyrack.core.errors import NotFound
from keyrack.core.text import FREE_TEXT
from keyrack.db.connection import Row
from keyrack.db.worker_wakeup import WORK
from keyrack.drivers import requests
from keyrack.drivers.endpoints.session import TAG as APP
from keyrack.drivers.requests import LONGEST_COMMENT, NO_REQUEST, STATE, Wish
from keyrack.drivers.services import DriverServices
from keyrack.drivers.sign_in import NO_STORE
from keyrack.fleet.group_scope_checks import is_out_of_scope

TAG = Tag(
    "Assignment requests",
    "Drivers' requests to extend an assignment or to end it early, and their decision.",
    frozenset(("assignments",)),
)
endpoints = Endpoints[DriverServices](TAG, "assignments", is_extension=True, is_preview=True)

ERROR_TEXT: LiteralString = TEXT.replace("{t}.error_message", "null::text")
PER_HOUR = 30  # requests of one driver in one customer
STATES = ("open", "granted", "rejected", "withdrawn", "expired")
ASSIGNMENT_REQUEST = Resource(
    "AssignmentRequest",
    "assignment_request {t}",
    "{t}.customer_id = :customer",
    {
        "id": int32("{t}.request_id"),
        "assignmentId": int32("{t}.assignment_id"),
        "carId": int32("{t}.car_id"),
        "userId": int32("{t}.user_id"),
        "kind": string("{t}.kind", enum=("extend", "end")),
        "end": date_time("{t}.wanted_end", nullable=True),
        "comment": string("{t}.comment", nullable=True),
        "state": string(STATE, enum=STATES),
        "decidedBy": string("{t}.decided_by", nullable=True, enum=("manager", "client", "rule", "driver")),
        "decisionComment": string("{t}.decision_comment", nullable=True),
        "errorCode": string("{t}.error_code", nullable=True),
        "errorMessage": string(ERROR_TEXT, nullable=True),
        "created": date_time("{t}.created_at"),
        "decided": date_time("{t}.decided_at", nullable=True),
    },
    relations={
        "car": Relation("Car", "{t}.customer_id = {p}.customer_id and {t}.car_id = {p}.car_id", is_collection=False),
        "user": Relation(
            "User", "{t}.customer_id = {p}.customer_id and {t}.user_id = {p}.user_id", is_collection=False
        ),
    },
    group_scope=scoped_by("car", user=True),
    permission=Permission.ASSIGNMENTS_READ,
)
OWN: LiteralString = (
    "select t.request_id, t.customer_id, t.assignment_id, t.kind, t.wanted_end, t.comment, t.error_code, "
    + STATE.replace("{t}", "t")
    + " as state, t.decision_comment, t.created_at, t.decided_at"
    " from assignment_request t"
    " where t.user_id = $1 and t.customer_id = any($2) order by t.request_id desc limit $3"
)
CAR_AND_USER: LiteralString = """
select car_id, user_id from assignment_request where customer_id = $1 and request_id = $2
"""

Comment = Annotated[str, Field(max_length=LONGEST_COMMENT, pattern=FREE_TEXT), IN_NFC]


class DriverRequestBody(StrictBody):
    """A request of a driver. An extension needs an `end`, an early end has none."""

    assignment_id: Int32
    kind: Literal["extend", "end"]
    end: WholeSecond | None = None
    comment: Comment | None = None

    @model_validator(mode="after")
    def _has_end(self) -> Self:
        if (self.kind == "extend") != (self.end is not None):
            raise ValueError("`end` is required with the kind `extend`, and only with it.")
        return self


class DriverRequest(Body):
    id: Int32
    customer_id: Int32
    assignment_id: Int32
    kind: Literal["extend", "end"]
    end: Moment | None
    comment: str | None
    state: Literal["open", "granted", "rejected", "withdrawn", "expired"]
    reason: str | None
    error_code: str | None
    created: Moment
    decided: Moment | None


class RequestCreated(Body):
    id: Int32
    state: Literal["open", "granted"]


class RequestDecision(StrictBody):
    decision: Literal["grant", "reject"]
    comment: Comment | None = None


endpoints.read(
    "/assignment-requests",
    ASSIGNMENT_REQUEST,
    Doc(
        "listAssignmentRequests",
        "List the requests of drivers",
        "Returns requests to extend an assignment or to end it early, for 90 days. The state `expired` means that the"
        " assignment or the requested time has ended without a decision.",
    ),
)
endpoints.read(
    "/assignment-requests/{requestId}",
    ASSIGNMENT_REQUEST,
    Doc("getAssignmentRequest", "Get a request of a driver", "Returns one request."),
    is_single=True,
    missing_error=NO_REQUEST,
)


@endpoints.put(
    "/assignment-requests/{requestId}/decision",
    Doc(
        "decideAssignmentRequest",
        "Grant or reject a request of a driver",
        "A grant changes the assignment asynchronously, with an operation of its own. If that operation fails, the"
        " request is rejected. The same decision again changes nothing.",
    ),
    auth=CustomerAuth(Permission.ASSIGNMENTS_WRITE, is_group_scoped=True),
    body=JsonBody(TypeAdapter(RequestDecision), "decide request"),
    responses=Responses(
        headers=OPERATION_HEADERS,
        descriptions={204: "Accepted: the outcome comes by `Operation-Id`, which only a grant has"},
        errors={404: (NO_REQUEST,), 409: (requests.DECIDED, CAR_BOOKED)},
    ),
)
async def decide(request: Request, body: RequestDecision, services: DriverServices) -> Response:
    (id,) = request.ids
    assert request.caller is not None  # noqa: S101 - the row needs a token
    by = "client" if request.caller.kind is PrincipalKind.CLIENT else "manager"
    async with request.db.transaction() as connection:
        row = await connection.fetchrow(CAR_AND_USER, request.customer, id)
        if row is None or await _is_hidden(request, row):
            raise NotFound(NO_REQUEST)
        operation = await requests.decide(
            connection, request.customer, id, is_granted=body.decision == "grant", by=by, comment=body.comment,
            checksum=request.checksum, asker=request.asker, is_limited=request.scope is not None,
        )  # fmt: skip
    if operation is None:
        return NO_CONTENT
    request.announce(WORK)
    return Response(204, headers=operation_headers(operation, services.settings))


async def _is_hidden(request: Request, row: Row) -> bool:
    """Whether the request is out of the caller's group scope."""
    return await is_out_of_scope(request, "carId", row["car_id"]) or await is_out_of_scope(
        request, "userId", row["user_id"]
    )


app = Endpoints[DriverServices](APP, DriverAuth(), is_extension=True, is_preview=True)


@app.get(
    "/drive/api/requests",
    Doc("listDriverRequests", "List the driver's requests", "Returns the last 100 requests, the newest first."),
    responses=Responses(200, list[DriverRequest]),
)
async def own(request: Request) -> Response:
    driver = driver_of(request)
    rows = await request.db.fetch(OWN, driver.user, list(driver.customers), requests.MOST_READ)
    return answer([_shown(row) for row in rows], headers=NO_STORE)


@app.put(
    "/drive/api/requests",
    Doc(
        "requestOfDriver",
        "Request to extend an assignment or to end it early",
        "An early end is granted at once. An extension waits for a manager, unless the customer's rule grants it. A new"
        " request replaces the open one of the assignment.",
    ),
    auth=DriverAuth(has_customer=True),
    body=JsonBody(TypeAdapter(DriverRequestBody), "create request"),
    responses=Responses(
        200,
        RequestCreated,
        errors={
            404: (requests.NO_ASSIGNMENT,),
            409: (requests.NO_END, requests.END_NOT_LATER),
            429: (RATE_LIMITED,),
        },
    ),
    topics=frozenset(("assignments",)),
    is_idempotent=False,
)
async def put(request: Request, body: DriverRequestBody) -> Response:
    user = driver_of(request).user
    wish = Wish(body.assignment_id, body.kind, body.end, body.comment or None)
    await RateLimit("driver-requests", PER_HOUR, PER_HOUR, HOUR).take(request.db, f"{request.customer} {user}")
    async with request.db.transaction() as connection:
        id, is_granted = await requests.put(connection, request.customer, user, wish, request.checksum, request.asker)
    if is_granted:
        request.announce(WORK)
    return answer({"id": id, "state": "granted" if is_granted else "open"})


@app.delete(
    "/drive/api/requests/{requestId}",
    Doc("withdrawDriverRequest", "Withdraw a request", "Withdraws an open request of the driver."),
    auth=DriverAuth(has_customer=True),
    responses=Responses(errors={404: (NO_REQUEST,), 409: (requests.DECIDED, CAR_BOOKED)}),
    topics=frozenset(("assignments",)),
    is_idempotent=False,
)
async def withdraw(request: Request) -> Response:
    (id,) = request.ids
    async with request.db.transaction() as connection:
        await requests.withdraw(connection, request.customer, id, driver_of(request).user)
    return NO_CONTENT


def _shown(row: Row) -> dict[str, Any]:
    return {
        "id": row["request_id"], "customerId": row["customer_id"], "assignmentId": row["assignment_id"],
        "kind": row["kind"], "end": row["wanted_end"] and format_timestamp(row["wanted_end"]),
        "comment": row["comment"], "state": row["state"],
        "reason": text_of(row["error_code"]) or row["decision_comment"], "errorCode": row["error_code"],
        "created": format_timestamp(row["created_at"]),
        "decided": row["decided_at"] and format_timestamp(row["decided_at"]),
    }  # fmt: skip
