"""Assignment rules: pure functions from an operation and the current state to a decision.

Nothing here accesses the database. `apply` reads the state, requests a decision on each operation, in order, and writes
the results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from keyrack.api.schema import text_maps
from keyrack.assignments.failure_codes import (
    END_BEFORE_START,
    EXTERNAL_ID_TAKEN,
    GONE,
    METADATA_TOO_LARGE,
    NO_BOX,
    NO_CAR,
    NO_SERVICE,
    NO_USER,
    RENEWABLE_TOO_LATE,
    TERMINATED,
)

LIFETIME = 604_800  # seconds: the default, and the bound that an explicit lifetime must exceed (spec, "Limits")
LIFETIME_BOUND = 2_419_200  # seconds: an explicit lifetime must be less

Box = Literal["ready", "none", "unserved", "terminated"]  # the state of a car's key box, as far as access depends on it
NOT_READY: Mapping[Box | None, str] = {
    None: NO_CAR, "none": NO_BOX, "unserved": NO_SERVICE, "terminated": TERMINATED,
}  # fmt: skip

Key = tuple[int, int]  # customer, and an id within it


class Failure(Exception):
    """The error code of a failed operation."""


def lifetimes(lifetime: int | None, renewable_after: int | None) -> tuple[int, int]:
    """Both values in seconds, with the defaults instead of None (spec, "Assignment rules", 4)."""
    lifetime = LIFETIME if lifetime is None else lifetime
    return lifetime, lifetime // 2 if renewable_after is None else renewable_after


def as_request(assignment: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a `PUT /assignments` that creates an equal assignment.

    `assignment` has the members of `GET /assignments`. A value that equals its default becomes None:

    - `lifetime`: the default cannot be sent, because it lies below its own lower bound (spec, "Assignment rules", 3 and
      4).
    - `renewableAfter`: the default is half of the lifetime, and follows the lifetime when that changes.
    """
    lifetime, renewable_after = assignment["lifetime"], assignment["renewableAfter"]
    chosen, _ = lifetimes(lifetime, None)
    return {name: assignment[name] for name in ("carId", "userId", "start", "end")} | {
        "lifetime": None if chosen == LIFETIME else lifetime,
        "renewableAfter": None if renewable_after == chosen // 2 else renewable_after,
    }


@dataclass(frozen=True, slots=True)
class Assignment:
    """An assignment. Times are texts `yyyy-MM-ddTHH:mm:ssZ`, which sort chronologically."""

    id: int | None  # None: not created yet
    car: int
    user: int
    start: str
    end: str | None  # None: no end
    lifetime: int  # seconds
    renewable_after: int | None  # seconds; None: half of the lifetime
    external_id: str | None = None
    metadata: Mapping[str, str] | None = None

    def as_json(self) -> dict[str, Any]:
        """Its members in the form of outcomes."""
        lifetime, renewable_after = lifetimes(self.lifetime, self.renewable_after)
        return {
            "assignmentId": self.id,
            "carId": self.car,
            "userId": self.user,
            "start": self.start,
            "end": self.end,
            "lifetime": lifetime,
            "renewableAfter": renewable_after,
            "externalId": self.external_id,
            "metadata": self.metadata,
        }

    def patched(self, changes: Mapping[str, Any]) -> Assignment:
        """The assignment after a patch. None stands for a member's default."""
        values = {MEMBERS[name]: value for name, value in changes.items() if name != "metadata"}
        if "metadata" in changes:
            values["metadata"] = text_maps.patched(self.metadata, changes["metadata"])
        if "lifetime" in values and values["lifetime"] is None:
            values["lifetime"] = LIFETIME
        return replace(self, **values)

    def widens(self, before: Assignment) -> bool:
        """Whether this grants more than `before`: another car or user, more time, or a longer lifetime."""
        return (
            (self.car, self.user) != (before.car, before.user)
            or self.start < before.start
            or (before.end is not None and (self.end is None or self.end > before.end))
            or self.lifetime > before.lifetime
        )


MEMBERS = {
    "carId": "car", "userId": "user", "start": "start", "end": "end", "lifetime": "lifetime",
    "renewableAfter": "renewable_after", "externalId": "external_id",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Operation:
    """A requested operation."""

    customer: int
    kind: Literal["CreateAssignment", "UpdateAssignment", "DeleteAssignment"]
    cause: str  # `Request`, or the change that caused the end
    car: int
    user: int | None
    assignment: int | None
    # of a creation, and of an end that another change caused: the assignment; else the changes
    request: Mapping[str, Any]
    is_limited: bool = False  # the caller is group-limited: valid only while the assignment has this car and user

    def applies_to(self, assignment: Assignment) -> bool:
        """Whether the operation may act on the assignment in its current state.

        This is False only for a group-limited caller: an earlier operation may have given the assignment another car or
        user, outside of the caller's groups.
        """
        return not self.is_limited or (assignment.car, assignment.user) == (self.car, self.user)


@dataclass(slots=True)
class OperationState:
    """The state that operations depend on, updated by each decision."""

    assignments: dict[Key, Assignment] = field(default_factory=dict[Key, Assignment])
    boxes: dict[Key, Box] = field(default_factory=dict[Key, Box])  # of existing cars
    members: set[Key] = field(default_factory=set[Key])  # existing users
    # Customer and `externalId` of the assignments that have one of those that operations name
    external_ids: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])
    former_external_ids: dict[Key, str | None] = field(default_factory=dict[Key, str | None])  # of changed assignments
    created: list[tuple[int, Assignment]] = field(default_factory=list[tuple[int, Assignment]])  # with their customers
    changed: set[Key] = field(default_factory=set[Key])
    ended: set[Key] = field(default_factory=set[Key])

    def check(self, customer: int, assignment: Assignment) -> None:
        """Check that the car is usable and the user a member of the customer. Raises `Failure`."""
        box = self.boxes.get((customer, assignment.car))
        if box != "ready":
            raise Failure(NOT_READY[box])
        if (customer, assignment.user) not in self.members:
            raise Failure(NO_USER)

    def take_external_id(self, customer: int, assignment: Assignment, before: Assignment | None = None) -> None:
        """Give the assignment its `externalId`, and release the one that it had. Raises `Failure`."""
        if before is not None and before.external_id == assignment.external_id:
            return
        if assignment.external_id is not None:
            if (customer, assignment.external_id) in self.external_ids:
                raise Failure(EXTERNAL_ID_TAKEN)
            self.external_ids.add((customer, assignment.external_id))
        if before is not None:
            self.release_external_id(customer, before)

    def release_external_id(self, customer: int, assignment: Assignment) -> None:
        """Release the `externalId` of an assignment that ends or gets another one."""
        if assignment.external_id is not None:
            self.external_ids.discard((customer, assignment.external_id))


@dataclass(frozen=True, slots=True)
class Decision:
    """The result of an operation: the assignment's actual, former or rejected values, and the error."""

    assignment: dict[str, Any]
    failure: str | None = None  # a code of `failure_codes`
    created: int | None = None  # index in `created` of the state, while the assignment has no id


def decide(operation: Operation, ground: OperationState) -> Decision:
    """Apply an operation to the state."""
    match operation.kind:
        case "CreateAssignment":
            return _create(operation, ground)
        case "UpdateAssignment":
            return _update(operation, ground)
        case "DeleteAssignment":
            return _delete(operation, ground)


def _create(operation: Operation, ground: OperationState) -> Decision:
    assert operation.user is not None  # noqa: S101 - every creation has a user, or its row could not be written
    request = operation.request
    lifetime, _ = lifetimes(request["lifetime"], None)
    assignment = Assignment(
        None, operation.car, operation.user, request["start"], request["end"], lifetime, request["renewableAfter"],
        request.get("externalId"), request.get("metadata"),
    )  # fmt: skip
    try:
        ground.check(operation.customer, assignment)
        ground.take_external_id(operation.customer, assignment)
    except Failure as failure:
        return Decision(assignment.as_json(), str(failure))
    ground.created.append((operation.customer, assignment))
    return Decision(assignment.as_json(), created=len(ground.created) - 1)


def _update(operation: Operation, ground: OperationState) -> Decision:
    key = (operation.customer, operation.assignment or 0)
    before = ground.assignments.get(key)
    if before is None or not operation.applies_to(before):
        return Decision(_as_asked(operation), GONE)
    assignment = before.patched(operation.request)
    try:
        _check_times(assignment)
        if assignment.metadata is not None and not text_maps.fits(assignment.metadata):
            raise Failure(METADATA_TOO_LARGE)
        if assignment.widens(before):
            ground.check(operation.customer, assignment)
        ground.take_external_id(operation.customer, assignment, before)
    except Failure as failure:
        return Decision(assignment.as_json(), str(failure))
    ground.assignments[key] = assignment
    ground.former_external_ids.setdefault(key, before.external_id)
    ground.changed.add(key)
    return Decision(assignment.as_json())


def _check_times(assignment: Assignment) -> None:
    if assignment.end is not None and assignment.end < assignment.start:
        raise Failure(END_BEFORE_START)
    if assignment.renewable_after is not None and assignment.renewable_after >= assignment.lifetime:
        raise Failure(RENEWABLE_TOO_LATE)


def _delete(operation: Operation, ground: OperationState) -> Decision:
    key = (operation.customer, operation.assignment or 0)
    before = ground.assignments.get(key)
    if before is not None and operation.applies_to(before):
        del ground.assignments[key]
        ground.changed.discard(key)
        ground.ended.add(key)
        ground.release_external_id(operation.customer, before)
        return Decision(before.as_json())
    # The deletion of a car or user also deletes its assignments. The end that it submitted then finds no row, and
    # succeeds: this outcome reports it
    return Decision(_as_asked(operation), GONE if operation.cause == "Request" else None)


def _as_asked(operation: Operation) -> dict[str, Any]:
    """The outcome's values without an assignment: those of the request, None for unknown ones."""
    nothing = dict.fromkeys(("start", "end", "lifetime", "renewableAfter", "externalId", "metadata"))
    ids = {"assignmentId": operation.assignment, "carId": operation.car, "userId": operation.user}
    asked = dict(operation.request)
    if operation.kind == "UpdateAssignment" and "metadata" in asked:
        asked["metadata"] = text_maps.patched(None, asked["metadata"])
    return ids | nothing | asked


def fail_permanently(operation: Operation) -> dict[str, Any]:
    """The outcome's values of an operation that failed without a decision."""
    try:
        return _as_asked(operation)
    except (TypeError, ValueError):  # the request is not an object
        return _as_asked(replace(operation, request={}))
