"""In charge of what an operation makes of an assignment: a plain function of it and of the ground that it stands on.

Nothing here knows the database. Whoever applies operations reads the ground, asks for a decision on each, in order, and
writes what came of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from keyrack.assignments.failure_codes import (
    END_BEFORE_START,
    GONE,
    NO_BOX,
    NO_CAR,
    NO_SERVICE,
    NO_USER,
    RENEWABLE_TOO_LATE,
    TERMINATED,
)

LIFETIME = 604_800  # seconds: the default, and the bound that an explicit one must exceed (spec, "Limits")
LIFETIME_BOUND = 2_419_200  # seconds: an explicit lifetime is less

Box = Literal["ready", "none", "unserved", "terminated"]  # what a car's key box is, as far as access goes
NOT_READY: Mapping[Box | None, str] = {
    None: NO_CAR, "none": NO_BOX, "unserved": NO_SERVICE, "terminated": TERMINATED,
}  # fmt: skip

Key = tuple[int, int]  # customer, and the id of something within it


class Failure(Exception):
    """The code of why an operation came to nothing."""


def lifetimes(lifetime: int | None, renewable_after: int | None) -> tuple[int, int]:
    """Seconds of both, with the defaults for what is None (spec, "Assignment rules", 4)."""
    lifetime = LIFETIME if lifetime is None else lifetime
    return lifetime, lifetime // 2 if renewable_after is None else renewable_after


def as_request(assignment: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a `PUT /assignments` that makes an equal assignment.

    `assignment` has the members of `GET /assignments`. A default that cannot be chosen, or that was not, is None: the
    default lifetime lies below its own bound (spec, "Assignment rules", 3 and 4). Half of the lifetime is the default
    of `renewableAfter`, and follows the lifetime when that changes.
    """
    lifetime, renewable_after = assignment["lifetime"], assignment["renewableAfter"]
    chosen, _ = lifetimes(lifetime, None)
    return {name: assignment[name] for name in ("carId", "userId", "start", "end")} | {
        "lifetime": None if chosen == LIFETIME else lifetime,
        "renewableAfter": None if renewable_after == chosen // 2 else renewable_after,
    }


@dataclass(frozen=True, slots=True)
class Assignment:
    """An assignment; times are texts `yyyy-MM-ddTHH:mm:ssZ`, which sort as the times do."""

    id: int | None  # None: it has none yet
    car: int
    user: int
    start: str
    end: str | None  # None: without end
    lifetime: int  # seconds
    renewable_after: int | None  # seconds; None: never chosen, so half of the lifetime

    def as_json(self) -> dict[str, Any]:
        """As outcomes tell it."""
        lifetime, renewable_after = lifetimes(self.lifetime, self.renewable_after)
        return {
            "assignmentId": self.id,
            "carId": self.car,
            "userId": self.user,
            "start": self.start,
            "end": self.end,
            "lifetime": lifetime,
            "renewableAfter": renewable_after,
        }

    def patched(self, changes: Mapping[str, Any]) -> Assignment:
        """As a patch would make it; None stands for a member's default."""
        values = {MEMBERS[name]: value for name, value in changes.items()}
        if "lifetime" in values and values["lifetime"] is None:
            values["lifetime"] = LIFETIME
        return replace(self, **values)

    def widens(self, before: Assignment) -> bool:
        """Whether this gives anybody anything that `before` did not: another car or user, more time, a longer life."""
        return (
            (self.car, self.user) != (before.car, before.user)
            or self.start < before.start
            or (before.end is not None and (self.end is None or self.end > before.end))
            or self.lifetime > before.lifetime
        )


MEMBERS = {
    "carId": "car", "userId": "user", "start": "start", "end": "end", "lifetime": "lifetime",
    "renewableAfter": "renewable_after",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Operation:
    """What was asked for."""

    customer: int
    kind: Literal["CreateAssignment", "UpdateAssignment", "DeleteAssignment"]
    cause: str  # "Request", or what brought the end about
    car: int
    user: int | None
    assignment: int | None
    request: Mapping[str, Any]  # of a creation and of an end that was brought about: the assignment; else the changes
    is_limited: bool = False  # it is for the assignment as it was when it was asked for, of this car and user alone

    def applies_to(self, assignment: Assignment) -> bool:
        """Whether it is for this assignment as it is now: what was given another car or user before its turn may be
        out of the groups of who asked."""
        return not self.is_limited or (assignment.car, assignment.user) == (self.car, self.user)


@dataclass(slots=True)
class OperationState:
    """What operations stand on, and what they have made of it so far."""

    assignments: dict[Key, Assignment] = field(default_factory=dict[Key, Assignment])
    boxes: dict[Key, Box] = field(default_factory=dict[Key, Box])  # of every car that there is
    members: set[Key] = field(default_factory=set[Key])  # users
    created: list[tuple[int, Assignment]] = field(default_factory=list[tuple[int, Assignment]])  # with their customers
    changed: set[Key] = field(default_factory=set[Key])
    ended: set[Key] = field(default_factory=set[Key])

    def check(self, customer: int, assignment: Assignment) -> None:
        """Whether somebody may be given this. Raises `Failure`."""
        box = self.boxes.get((customer, assignment.car))
        if box != "ready":
            raise Failure(NOT_READY[box])
        if (customer, assignment.user) not in self.members:
            raise Failure(NO_USER)


@dataclass(frozen=True, slots=True)
class Decision:
    """What came of an operation: the assignment as it is now, was, or would have been, and why it is not."""

    assignment: dict[str, Any]
    failure: str | None = None  # a code of `failure_codes`
    created: int | None = None  # its place among the ground's `created`, while the assignment has no id


def decide(operation: Operation, ground: OperationState) -> Decision:
    """Apply an operation to the ground."""
    match operation.kind:
        case "CreateAssignment":
            return _create(operation, ground)
        case "UpdateAssignment":
            return _update(operation, ground)
        case "DeleteAssignment":
            return _delete(operation, ground)


def _create(operation: Operation, ground: OperationState) -> Decision:
    assert operation.user is not None  # noqa: S101 - every creation has one, or its row could not be written
    request = operation.request
    lifetime, _ = lifetimes(request["lifetime"], None)
    assignment = Assignment(
        None, operation.car, operation.user, request["start"], request["end"], lifetime, request["renewableAfter"]
    )
    try:
        ground.check(operation.customer, assignment)
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
        if assignment.widens(before):
            ground.check(operation.customer, assignment)
    except Failure as failure:
        return Decision(assignment.as_json(), str(failure))
    ground.assignments[key] = assignment
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
        return Decision(before.as_json())
    # What its car or user took with it has ended all the same, and this is how that is told
    return Decision(_as_asked(operation), GONE if operation.cause == "Request" else None)


def _as_asked(operation: Operation) -> dict[str, Any]:
    """The outcome's values where there is no assignment: what the request said, None for what nobody knows."""
    nothing = dict.fromkeys(("start", "end", "lifetime", "renewableAfter"))
    ids = {"assignmentId": operation.assignment, "carId": operation.car, "userId": operation.user}
    return ids | nothing | dict(operation.request)


def fail_permanently(operation: Operation) -> dict[str, Any]:
    """The outcome's values of an operation that could not even be decided."""
    try:
        return _as_asked(operation)
    except (TypeError, ValueError):  # its request is no object at all
        return _as_asked(replace(operation, request={}))
