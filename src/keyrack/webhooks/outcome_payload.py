"""Resources of operations, webhooks and deliveries, and the webhook payload of outcomes."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, LiteralString
from uuid import UUID

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from keyrack.api.permissions import Permission
from keyrack.api.schema.event_types import SENT, TEST
from keyrack.api.schema.fields import (
    Complex,
    Field,
    OwnRows,
    Relation,
    Resource,
    boolean,
    date_time,
    guid,
    int32,
    int64,
    literal,
    opaque,
    string,
    text_map,
)
from keyrack.api.schema.group_scope import in_scope_sql
from keyrack.api.schema.request_body import Int32, Moment
from keyrack.assignments.failure_codes import CODE, TEXT, TEXTS
from keyrack.fleet.schema import ASSIGNMENT
from keyrack.webhooks.declarations import WEBHOOKS
from keyrack.webhooks.message_sql import members, message_sql

Sent = Literal["assignment.created", "assignment.updated", "assignment.deleted", "webhook.test"]

_OF_CUSTOMER: LiteralString = "{t}.customer_id = :customer"


# The outcome; before there is one, the request
_DOCUMENT: LiteralString = "coalesce({t}.result, {t}.request)"


def _time(name: LiteralString, column: LiteralString, condition: LiteralString = "") -> LiteralString:
    """SQL of a time of an operation's assignment, or null.

    The document (outcome or request) has it, or else the assignment `a` under this condition. The pattern only protects
    the cast: a checked request has no other text.
    """
    text: LiteralString = "(" + _DOCUMENT + "->>'" + name + "')"
    return (
        "(case when " + _DOCUMENT + " ? '" + name + "' then case when " + text + " ~ '^[0-9T:-]{{19}}Z$' then " + text
        + "::timestamptz end else (select a." + column + " from assignment a where a.customer_id = {t}.customer_id"
        " and a.assignment_id = {t}.assignment_id" + condition + ") end)"
    )  # fmt: skip


def _new(name: LiteralString, column: LiteralString, row: LiteralString = "{t}") -> LiteralString:
    """SQL of the new car or user of a change; null if it keeps the one in the column."""
    value: LiteralString = _DOCUMENT.replace("{t}", row) + "->'" + name + "'"
    return (
        "(case when " + row + ".kind = 'UpdateAssignment' and jsonb_typeof(" + value + ") = 'number'"
        " then nullif((" + value + ")::integer, " + row + "." + column + ") end)"
    )  # fmt: skip


def _property(name: LiteralString, column: LiteralString, condition: LiteralString) -> LiteralString:
    """SQL of a property of an operation's assignment, as JSON.

    It comes from the outcome or the creation, or from the assignment.
    """
    return (
        "nullif(case when {t}.result ? '" + name + "' then {t}.result->'" + name + "' when {t}.request ? '" + name
        + "' and {t}.kind <> 'UpdateAssignment' then {t}.request->'" + name + "' when {t}.kind <> 'CreateAssignment'"
        " then (select to_jsonb(a." + column + ") from assignment a where a.customer_id = {t}.customer_id"
        " and a.assignment_id = {t}.assignment_id" + condition + ") end, 'null')"
    )  # fmt: skip


def _extensions(condition: LiteralString = "") -> dict[str, Field | Complex]:
    """The properties of an operation's assignment that are not in the spec."""
    external_id = _property("externalId", "external_id", condition)
    return {
        "exclusive": boolean("(" + _property("exclusive", "is_exclusive", condition) + ")::boolean", nullable=True),
        "externalId": string("(" + external_id + " #>> '{{}}')", nullable=True),
        "metadata": text_map(_property("metadata", "metadata", condition), nullable=True),
    }


def _start_and_end(condition: LiteralString = "") -> dict[str, Field | Complex]:
    return {
        "start": date_time(_time("start", "starts_at", condition), nullable=True),
        "end": date_time(_time("end", "ends_at", condition), nullable=True),
    }


_CLIENT: LiteralString = "(select {c} from client c where c.client_id = {t}.asked_by)"
_REQUESTER = Complex(
    {
        "type": string(
            "(case when {t}.asked_by is null then null when exists " + _CLIENT.replace("{c}", "")
            + " then 'client' else 'manager' end)",
            nullable=True,
        ),
        "id": string("{t}.asked_by::text", nullable=True),
        "name": string(
            "coalesce((select m.username from manager m where m.manager_id = {t}.asked_by), "
            + _CLIENT.replace("{c}", "c.name") + ")",
            nullable=True,
        ),
    },
    is_present="{t}.asked_by is not null",
)  # fmt: skip


class OperationConflict(BaseModel):
    """An exclusive assignment with which a failed operation conflicted."""

    model_config = ConfigDict(alias_generator=to_camel)

    assignment_id: Int32
    user_id: Int32 | None
    start: Moment
    end: Moment | None


# The bookings that a failed operation conflicted with, and who has them now
_CONFLICTS: LiteralString = (
    "(select jsonb_agg(e.value || jsonb_build_object('userId', a.user_id) order by e.place)"
    " from jsonb_array_elements({t}.conflicts) with ordinality e (value, place)"
    " left join assignment a on a.customer_id = {t}.customer_id"
    " and a.assignment_id = (e.value->>'assignmentId')::integer)"
)


def _moved_to(target: str, id: LiteralString) -> Relation:
    """The car or user to which a change moves the assignment."""
    link: LiteralString = "{t}.customer_id = {p}.customer_id and {t}." + id + "_id = "
    return Relation(target, link + _new(id + "Id", id + "_id", "{p}"), is_collection=False)


OPERATION = Resource(
    "Operation",
    "operation {t}",
    _OF_CUSTOMER,
    {
        "id": guid("{t}.operation_id"),
        "kind": string("{t}.kind", enum=("CreateAssignment", "UpdateAssignment", "DeleteAssignment")),
        "cause": string("{t}.cause", enum=("Request", "Uninstallation", "CarDeleted", "UserRemoved")),
        "state": string("{t}.state", enum=("Pending", "Succeeded", "Failed")),
        "errorMessage": string(TEXT, nullable=True),
        "errorCode": string(CODE, nullable=True, enum=tuple(TEXTS)),
        "conflicts": opaque(_CONFLICTS),
        "checksum": string("{t}.checksum"),
        "applied": int64("{t}.applied", nullable=True),
        "assignmentId": int32("{t}.assignment_id", nullable=True),
        "carId": int32("{t}.car_id"),
        "newCarId": int32(_new("carId", "car_id"), nullable=True),
        "userId": int32("{t}.user_id", nullable=True),
        "newUserId": int32(_new("userId", "user_id"), nullable=True),
        **_start_and_end(),
        **_extensions(),
        "requested": date_time("{t}.requested_at"),
        "requestedBy": _REQUESTER,
        "finished": date_time("{t}.finished_at", nullable=True),
    },
    relations={
        "car": ASSIGNMENT.relations["car"],
        "newCar": _moved_to("Car", "car"),
        "user": ASSIGNMENT.relations["user"],
        "newUser": _moved_to("User", "user"),
    },
    walks=("requested",),
    permission=Permission.OPERATIONS_READ,
)
# A caller may always read the operations that it requested. Ends that another change caused do not belong to them: they
# name users and cars that may be out of the caller's scope. For the same reason the times of an assignment are hidden
# if it was moved out of the scope since
_STILL_IN_SCOPE: LiteralString = (
    " and " + in_scope_sql("car", "a.car_id")
    + " and (a.user_id is null or " + in_scope_sql("user", "a.user_id") + ")"
)  # fmt: skip
OWN_OPERATIONS = OwnRows(
    "{t}.asked_by = :caller and {t}.cause = 'Request'",
    _start_and_end(_STILL_IN_SCOPE) | _extensions(_STILL_IN_SCOPE) | {"conflicts": opaque("null::jsonb")},
)

WEBHOOK = Resource(
    "Webhook",
    "webhook {t}",
    _OF_CUSTOMER,
    {"id": int32("{t}.webhook_id"), **WEBHOOKS.fields},
    hidden_columns=("{t}.secret", "{t}.signing_secret"),
    permission=Permission.WEBHOOKS_READ,
)

_OF_OUTCOME: LiteralString = "({t}.type like 'assignment.%')"
_OF_EVENT: LiteralString = "({t}.type like 'event.%')"
_CHANGE: LiteralString = (
    "(case when not " + _OF_OUTCOME + " and not " + _OF_EVENT + " and {t}.applied > 0 then {t}.applied end)"
)
DELIVERY = Resource(
    "Delivery",
    "delivery {t}",
    _OF_CUSTOMER,
    {
        "id": int64("{t}.delivery_id"),
        "messageId": guid("{t}.message_id"),
        "type": string("{t}.type", enum=SENT),
        "operationId": guid("(case when " + _OF_OUTCOME + " then {t}.message_id end)", nullable=True),
        "changeId": int64(_CHANGE, nullable=True),
        "eventId": int32("(case when " + _OF_EVENT + " then {t}.applied::integer end)", nullable=True),
        "assignmentId": int32("{t}.assignment_id", nullable=True),
        "state": string("{t}.state", enum=("Waiting", "Delivered", "Dead")),
        "attempts": int32("{t}.attempts"),
        "attempted": date_time("{t}.attempted_at", nullable=True),
        "nextAttempt": date_time("{t}.next_attempt_at", nullable=True),
        "status": int32("{t}.status", nullable=True),
        "duration": int32("{t}.duration", nullable=True),
        "answer": string("{t}.answer", nullable=True),
        "error": string("{t}.error", nullable=True),
        "created": date_time("{t}.created_at"),
        "payload": opaque("{t}.payload::jsonb"),
    },
    permission=Permission.WEBHOOKS_READ,
)
_URL: LiteralString = (
    "(select case when not w.is_pull then w.url end from webhook w where w.customer_id = {t}.customer_id"
    " and w.webhook_id = {t}.webhook_id)"
)
# Deliveries of all webhooks in one list also name their webhook
DELIVERY_LISTED = replace(
    DELIVERY,
    name="DeliveryListed",
    fields={
        "id": DELIVERY.fields["id"],
        "webhookId": int32("{t}.webhook_id"),
        "webhookUrl": string(_URL, nullable=True),
        **DELIVERY.without("id").fields,
    },
)


class OutcomePayload(BaseModel):
    """The message about the outcome of an operation. All event types have the same properties."""

    model_config = ConfigDict(title="Outcome", alias_generator=to_camel)

    type: Sent
    operation_id: UUID | None
    customer_id: Int32
    operation_succeeded: bool
    error_message: str | None
    checksum: str | None
    assignment_id: Int32 | None
    car_id: Int32 | None
    user_id: Int32 | None
    start: Moment | None
    end: Moment | None
    lifetime: Int32 | None
    renewable_after: Int32 | None
    exclusive: bool | None
    external_id: str | None
    metadata: dict[str, str] | None


# The same in SQL, of the row `o` of `operation`
TYPE: LiteralString = (
    "case o.kind when 'CreateAssignment' then 'assignment.created' when 'UpdateAssignment' then 'assignment.updated'"
    " else 'assignment.deleted' end"
)
_OF_RESULT = (
    "assignmentId", "carId", "userId", "start", "end", "lifetime", "renewableAfter", "exclusive", "externalId",
    "metadata",
)  # fmt: skip
PAYLOAD: LiteralString = message_sql(
    OutcomePayload,
    {
        "type": TYPE,
        "operationId": "o.operation_id",
        "customerId": "o.customer_id",
        "operationSucceeded": "o.state = 'Succeeded'",
        "errorMessage": TEXT.replace("{t}", "o"),
        "checksum": "o.checksum",
        **{name: "o.result->" + literal(name) for name in _OF_RESULT},
    },
)
# A test belongs to no operation. SQL of the row `w` of `webhook`
TEST_PAYLOAD: LiteralString = message_sql(
    OutcomePayload,
    {
        **dict.fromkeys(members(OutcomePayload), "null"),
        "type": "'" + TEST + "'",
        "customerId": "w.customer_id",
        "operationSucceeded": "true",
    },
)
LANE: LiteralString = "coalesce(o.assignment_id::bigint, -o.seq)"
