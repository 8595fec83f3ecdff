"""Assignment rules: pure functions from an operation and the current state to a decision.

Nothing here accesses the database. `apply` reads the state, requests a decision on each operation, in order, and writes
the results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal
from uuid import UUID

from keyrack.api.schema import text_maps
from keyrack.assignments.bookings import (
    Booking,
    BookingPolicy,
    BookingReference,
    CarBookings,
    booking,
    of_assignment,
    of_created,
)
from keyrack.assignments.failure_codes import (
    CONFLICT,
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


class BookingConflict(Failure):
    """The car is booked within the time that an exclusive assignment needs."""

    def __init__(self, bookings: Sequence[Booking]) -> None:
        super().__init__(CONFLICT)
        self.bookings = bookings


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
    return (
        {name: assignment[name] for name in ("carId", "userId", "start", "end")}
        | {
            "lifetime": None if chosen == LIFETIME else lifetime,
            "renewableAfter": None if renewable_after == chosen // 2 else renewable_after,
        }
        | ({"exclusive": assignment["exclusive"]} if "exclusive" in assignment else {})
    )


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
    is_exclusive: bool = False
    gap: int = 0  # seconds after an exclusive assignment in which the car stays blocked
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
            "exclusive": self.is_exclusive,
            "externalId": self.external_id,
            "metadata": self.metadata,
        }

    def patched(self, changes: Mapping[str, Any]) -> Assignment:
        """The assignment after a patch, except for exclusivity. None stands for a member's default."""
        values = {MEMBERS[name]: value for name, value in changes.items() if name in MEMBERS and name != "metadata"}
        if "metadata" in changes:
            values["metadata"] = text_maps.patched(self.metadata, changes["metadata"])
        if "lifetime" in values and values["lifetime"] is None:
            values["lifetime"] = LIFETIME
        return replace(self, **values)

    def with_policy(self, chosen: bool | None, policy: BookingPolicy) -> Assignment:
        """The assignment as exclusive or shared. None stands for the default of the car.

        The gap is that of the time at which the assignment becomes exclusive.
        """
        is_exclusive = policy.is_exclusive if chosen is None else chosen
        if is_exclusive == self.is_exclusive:
            return self
        return replace(self, is_exclusive=is_exclusive, gap=policy.gap if is_exclusive else 0)

    def booking(self, reference: BookingReference) -> Booking | None:
        """The booking of an exclusive assignment; None for a shared one."""
        return booking(reference, self.start, self.end, self.gap) if self.is_exclusive else None

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
    batch: UUID | None = None  # operations that follow one another and have the same batch are decided together

    @property
    def key(self) -> Key:
        """The key of the operation's assignment. A creation has none: its id is 0."""
        return self.customer, self.assignment or 0

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
    policies: dict[Key, BookingPolicy] = field(default_factory=dict[Key, BookingPolicy])  # of existing cars
    bookings: dict[Key, CarBookings] = field(default_factory=dict[Key, CarBookings])  # of cars
    # Assignments that a later operation of the same batch moves or ends: their bookings count no longer
    vacated: set[Key] = field(default_factory=set[Key])
    has_booked: bool = False  # whether an exclusive assignment was created or changed

    def copied(self) -> OperationState:
        """A copy that later decisions do not change."""
        values = {one.name: copy(getattr(self, one.name)) for one in fields(self)}
        values["bookings"] = {key: bookings.copy() for key, bookings in self.bookings.items()}
        return OperationState(**values)

    def resulting(self, customer: int, before: Assignment, request: Mapping[str, Any]) -> Assignment:
        """The assignment after a patch."""
        after = before.patched(request)
        if "exclusive" not in request:
            return after
        return after.with_policy(request["exclusive"], self.policies.get((customer, after.car), BookingPolicy()))

    def of_car(self, customer: int, car: int) -> CarBookings:
        """The bookings of a car."""
        return self.bookings.setdefault((customer, car), CarBookings())

    def book(self, customer: int, assignment: Assignment, reference: BookingReference, *, is_new: bool) -> None:
        """Book the car for an exclusive assignment. `is_new`: it needs time that it did not have.

        Raises `BookingConflict`.
        """
        wanted = assignment.booking(reference)
        if wanted is None:
            return
        bookings = self.of_car(customer, assignment.car)
        if is_new and (conflicts := bookings.overlapping(wanted)):
            raise BookingConflict(conflicts)
        bookings.add(wanted)
        self.has_booked = True

    def release(self, key: Key, assignment: Assignment) -> None:
        """Remove the booking of an assignment, if it has one."""
        if (old := assignment.booking(of_assignment(key[1]))) is not None:
            self.of_car(key[0], assignment.car).remove(old)

    def check(self, customer: int, assignment: Assignment) -> None:
        """Check that the car is usable and the user a member of the customer. Raises `Failure`."""
        box = self.boxes.get((customer, assignment.car))
        if box != "ready":
            raise Failure(NOT_READY[box])
        if (customer, assignment.user) not in self.members:
            raise Failure(NO_USER)

    def check_external_id(self, customer: int, assignment: Assignment, before: Assignment | None = None) -> None:
        """Check that no other assignment has the `externalId`. Raises `Failure`."""
        if before is not None and before.external_id == assignment.external_id:
            return
        if assignment.external_id is not None and (customer, assignment.external_id) in self.external_ids:
            raise Failure(EXTERNAL_ID_TAKEN)

    def take_external_id(self, customer: int, assignment: Assignment, before: Assignment | None = None) -> None:
        """Give the assignment its `externalId`, and release the one that it had."""
        if before is not None:
            self.release_external_id(customer, before)
        if assignment.external_id is not None:
            self.external_ids.add((customer, assignment.external_id))

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
    conflicts: Sequence[Booking] = ()  # the bookings that an exclusive assignment conflicts with

    @classmethod
    def rejected(cls, assignment: Assignment, failure: Failure) -> Decision:
        """The decision of an operation that fails by a rule."""
        conflicts = failure.bookings if isinstance(failure, BookingConflict) else ()
        return cls(assignment.as_json(), str(failure), conflicts=conflicts)


ROUNDS = 8  # attempts to decide a batch as a whole


def decide_all(operations: Sequence[Operation], ground: OperationState) -> tuple[list[Decision], OperationState]:
    """Decide operations in order. Returns the decisions and the resulting state.

    A batch may swap two bookings: an operation may take the time that a later one of its batch gives up.
    """
    decisions: list[Decision] = []
    first = 0
    while first < len(operations):
        batch = operations[first].batch
        last = first + 1
        while batch is not None and last < len(operations) and _is_of_batch(operations[last], operations[first]):
            last += 1
        part = operations[first:last]
        if last - first > 1 and ground.bookings:
            made, ground = _decide_batch(part, ground)
        else:
            made = [decide(operation, ground) for operation in part]
        decisions += made
        first = last
    return decisions, ground


def _is_of_batch(operation: Operation, first: Operation) -> bool:
    return (operation.customer, operation.batch) == (first.customer, first.batch)


def _decide_batch(operations: Sequence[Operation], before: OperationState) -> tuple[list[Decision], OperationState]:
    """Decide the operations of a batch.

    The first attempt assumes that each operation succeeds. An assignment whose operation fails keeps its booking in the
    next attempt.
    """
    changed = {operation.key for operation in operations if operation.assignment is not None}
    kept: set[Key] = set()
    for _ in range(ROUNDS):
        ground = before.copied()
        for key in changed - kept:
            if (assignment := ground.assignments.get(key)) is not None and assignment.is_exclusive:
                ground.release(key, assignment)
                ground.vacated.add(key)
        decisions = [decide(operation, ground) for operation in operations]
        if not ground.vacated:
            return decisions, ground
        kept |= ground.vacated  # their operations failed
    return [decide(operation, before) for operation in operations], before


def decide(operation: Operation, ground: OperationState) -> Decision:
    """Apply an operation to the state."""
    match operation.kind:
        case "CreateAssignment":
            return _create(operation, ground)
        case "UpdateAssignment":
            return _update(operation, ground)
        case "DeleteAssignment":
            return _delete(operation, ground)


def creation(operation: Operation, ground: OperationState) -> Assignment:
    """The assignment that an operation asks to create."""
    assert operation.user is not None  # noqa: S101 - every creation has a user, or its row could not be written
    request = operation.request
    lifetime, _ = lifetimes(request["lifetime"], None)
    policy = ground.policies.get((operation.customer, operation.car), BookingPolicy())
    return Assignment(
        None, operation.car, operation.user, request["start"], request["end"], lifetime, request["renewableAfter"],
        external_id=request.get("externalId"), metadata=request.get("metadata"),
    ).with_policy(request.get("exclusive"), policy)  # fmt: skip


def _create(operation: Operation, ground: OperationState) -> Decision:
    assignment = creation(operation, ground)
    try:
        ground.check(operation.customer, assignment)
        ground.check_external_id(operation.customer, assignment)
        ground.book(operation.customer, assignment, of_created(len(ground.created)), is_new=True)
        ground.take_external_id(operation.customer, assignment)
    except Failure as failure:
        return Decision.rejected(assignment, failure)
    ground.created.append((operation.customer, assignment))
    return Decision(assignment.as_json(), created=len(ground.created) - 1)


def _update(operation: Operation, ground: OperationState) -> Decision:
    key = operation.key
    before = ground.assignments.get(key)
    if before is None or not operation.applies_to(before):
        return Decision(_as_asked(operation), GONE)
    assignment = ground.resulting(operation.customer, before, operation.request)
    try:
        _check_times(assignment)
        if assignment.metadata is not None and not text_maps.fits(assignment.metadata):
            raise Failure(METADATA_TOO_LARGE)
        if assignment.widens(before):
            ground.check(operation.customer, assignment)
        ground.check_external_id(operation.customer, assignment, before)
        _rebook(key, before, assignment, ground)
        ground.take_external_id(operation.customer, assignment, before)
    except Failure as failure:
        return Decision.rejected(assignment, failure)
    ground.assignments[key] = assignment
    ground.former_external_ids.setdefault(key, before.external_id)
    ground.changed.add(key)
    return Decision(assignment.as_json())


def _rebook(key: Key, before: Assignment, after: Assignment, ground: OperationState) -> None:
    """Move the booking of a changed assignment. A change without new time is never rejected.

    Raises `BookingConflict`, and then keeps the booking.
    """
    reference = of_assignment(key[1])
    old, new = before.booking(reference), after.booking(reference)
    is_within = old is not None and new is not None and before.car == after.car and new.lies_in(old)
    if key not in ground.vacated:
        ground.release(key, before)
    elif new is not None:
        is_within = False  # an earlier operation of the batch may have taken the time
    try:
        ground.book(key[0], after, reference, is_new=not is_within)
    except BookingConflict:
        if old is not None and key not in ground.vacated:
            ground.of_car(key[0], before.car).add(old)
        raise
    ground.vacated.discard(key)


def _check_times(assignment: Assignment) -> None:
    if assignment.end is not None and assignment.end < assignment.start:
        raise Failure(END_BEFORE_START)
    if assignment.renewable_after is not None and assignment.renewable_after >= assignment.lifetime:
        raise Failure(RENEWABLE_TOO_LATE)


def _delete(operation: Operation, ground: OperationState) -> Decision:
    key = operation.key
    before = ground.assignments.get(key)
    if before is not None and operation.applies_to(before):
        if key in ground.vacated:
            ground.vacated.discard(key)
        else:
            ground.release(key, before)
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
    nothing = dict.fromkeys(("start", "end", "lifetime", "renewableAfter", "exclusive", "externalId", "metadata"))
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
