"""Schemas of batches: their bodies by kind, the endpoint of each item, and their answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, SkipValidation, WithJsonSchema
from pydantic.alias_generators import to_camel

from keyrack.api.auth_schemes import CustomerAuth
from keyrack.api.endpoint import Endpoint
from keyrack.api.permissions import Permission
from keyrack.api.schema.request_body import Int32, Patch, StrictBody
from keyrack.assignments.endpoints import assignments
from keyrack.assignments.endpoints.assignments import AssignmentPatch, NewAssignment
from keyrack.fleet.endpoints import cars, groups, users
from keyrack.fleet.endpoints.cars import CarPatch, NewCar
from keyrack.fleet.endpoints.groups import GroupPatch, NewGroup
from keyrack.fleet.endpoints.users import NewUser, UserPatch
from keyrack.fleet.services import FleetServices

Form = TypeVar("Form")


class BatchCreation(StrictBody, Generic[Form]):
    """A creation: `body` is that of the kind's `PUT`, and is validated in the same way, item by item."""

    op: Literal["create"]
    body: SkipValidation[Form]


class BatchChange(StrictBody, Generic[Form]):
    """A change: `patch` is the body of the kind's `PATCH`."""

    op: Literal["change"]
    id: Int32
    patch: SkipValidation[Patch[Form]]


class BatchEnd(StrictBody):
    """Equivalent to the `DELETE` of the kind. For a user, it ends the membership in the customer."""

    model_config = ConfigDict(title="End")

    op: Literal["end"]
    id: Int32


class AssignmentCreation(BatchCreation[NewAssignment]): ...


class AssignmentChange(BatchChange[AssignmentPatch]): ...


class CarCreation(BatchCreation[NewCar]): ...


class CarChange(BatchChange[CarPatch]): ...


class UserCreation(BatchCreation[NewUser]): ...


class UserChange(BatchChange[UserPatch]): ...


class GroupCreation(BatchCreation[NewGroup]): ...


class GroupChange(BatchChange[GroupPatch]): ...


class Batch(StrictBody):
    """The members of every batch. `atomic`: all items or none. `dryRun`: report the results and roll back."""

    atomic: bool = False
    dry_run: bool = False


Item = TypeVar("Item")
ByOp = Annotated[Item, Field(discriminator="op")]
Items = Annotated[list[ByOp[Item]], Field(min_length=1)]


class AssignmentBatch(Batch):
    kind: Literal["assignments"]
    items: Items[AssignmentCreation | AssignmentChange | BatchEnd]
    conflicts: Literal["allow", "report", "refuse"] = "allow"


class CarBatch(Batch):
    kind: Literal["cars"]
    items: Items[CarCreation | CarChange | BatchEnd]


class UserBatch(Batch):
    kind: Literal["users"]
    items: Items[UserCreation | UserChange | BatchEnd]


class GroupBatch(Batch):
    kind: Literal["groups"]
    items: Items[GroupCreation | GroupChange | BatchEnd]


OneBatch = AssignmentBatch | CarBatch | UserBatch | GroupBatch
AnyBatch = Annotated[OneBatch, Field(discriminator="kind", json_schema_extra={"type": "object"})]


def _row(method: str, path: str) -> Endpoint[FleetServices]:
    rows = [row for module in (assignments, cars, groups, users) for row in module.endpoints.rows]
    return next(row for row in rows if (row.method, row.path) == (method, path))


# The endpoint that an item calls, by kind and op
ROWS: Mapping[tuple[str, str], Endpoint[FleetServices]] = {
    ("assignments", "create"): _row("PUT", "/assignments"),
    ("assignments", "change"): _row("PATCH", "/assignments/{assignmentId}"),
    ("assignments", "end"): _row("DELETE", "/assignments/{assignmentId}"),
    ("cars", "create"): _row("PUT", "/cars"),
    ("cars", "change"): _row("PATCH", "/cars/{carId}"),
    ("cars", "end"): _row("DELETE", "/cars/{carId}"),
    ("users", "create"): _row("PUT", "/users"),
    ("users", "change"): _row("PATCH", "/users/{userId}"),
    ("users", "end"): _row("DELETE", "/users/assignments/customers"),
    ("groups", "create"): _row("PUT", "/groups"),
    ("groups", "change"): _row("PATCH", "/groups/{groupId}"),
    ("groups", "end"): _row("DELETE", "/groups/{groupId}"),
}


OF_KINDS: Mapping[str, Permission] = {
    f"the kind `{kind}`": row.auth.permission for (kind, _), row in ROWS.items() if isinstance(row.auth, CustomerAuth)
}


def ways(batch: OneBatch) -> Iterator[tuple[Endpoint[FleetServices], tuple[int, ...], Any]]:
    """The endpoint of each item, with its path ids and its body."""
    for item in batch.items:
        row = ROWS[batch.kind, item.op]
        if isinstance(item, BatchCreation):
            yield row, (), item.body
        elif isinstance(item, BatchChange):
            yield row, (item.id,), item.patch
        elif row.body is not None:
            yield row, (), {"userId": item.id}
        else:
            yield row, (item.id,), None


class _BatchResponse(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)


class AssignmentConflict(_BatchResponse):
    """An overlapping assignment of the same car.

    It exists, or a pending request or a previous item asks for it.
    """

    assignment_id: Int32 | None = None
    operation_id: str | None = None
    item: Int32 | None = None
    user_id: Int32
    start: str
    end: str | None


class ItemFault(_BatchResponse):
    """An error in the body or patch of the item, if its place is known."""

    code: str
    detail: str
    pointer: str | None = None
    valid: list[Any] | None = None


OperationObject = Annotated[dict[str, Any], WithJsonSchema({"type": "object"})]


class ItemResult(_BatchResponse):
    """The result of an item, as of the equivalent single request."""

    status: Int32
    id: Int32 | None = None
    password: str | None = None
    operation_id: str | None = None
    operation_location: str | None = None
    checksum: str | None = None
    operation: OperationObject | None = None
    would_fail: str | None = None
    conflicts: list[AssignmentConflict] | None = None
    more_conflicts: bool | None = None
    code: str | None = None
    detail: str | None = None
    errors: list[ItemFault] | None = None


class BatchResult(_BatchResponse):
    """The numbers of accepted and rejected items, and the result of each item in order."""

    done: Int32
    refused: Int32
    dry_run: bool = False
    results: list[ItemResult]


class BatchReport(BatchResult):
    """The result of a batch that was not carried out as a whole, and the reason."""

    message: str
