"""Random histories of exclusive assignments against a model."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from keyrack.assignments.bookings import BookingPolicy, CarBookings, of_assignment
from keyrack.assignments.failure_codes import CONFLICT
from keyrack.assignments.rules import Assignment, Decision, Operation, OperationState, decide_all

CARS = (1, 2)
GAP = 3600
HOURS = st.integers(0, 11)


def text(hour: int | None) -> str | None:
    return None if hour is None else f"2050-01-01T{hour:02}:00:00Z"


@dataclass
class Held:
    """An assignment of the model, in hours."""

    car: int
    start: int
    end: int | None
    exclusive: bool
    gap: int  # hours

    @property
    def hours(self) -> set[int]:
        """The hours for which the car is blocked."""
        if not self.exclusive or (self.end is not None and self.end <= self.start):
            return set()
        return set(range(self.start, 100 if self.end is None else self.end + self.gap))


class Model:
    """The rule in hours: two exclusive assignments share no hour."""

    def __init__(self, gap: int) -> None:
        self.gap = gap
        self.held: dict[int, Held] = {}
        self.last = 0

    def apply(self, step: dict[str, Any]) -> bool:
        wanted: int = step["id"] or 0
        before = self.held.get(wanted)
        if wanted and before is None:
            return False
        if step["kind"] == "end":
            del self.held[wanted]
            return True
        after = Held(**((before.__dict__ if before else {"gap": 0}) | step["values"]))
        if after.end is not None and after.end < after.start:
            return False
        if after.exclusive and not (before and before.exclusive):
            after.gap = self.gap
        if not after.exclusive:
            after.gap = 0
        own = before.hours if before and before.car == after.car else set[int]()
        others = [held for id, held in self.held.items() if id != wanted and held.car == after.car]
        if any((after.hours - own) & held.hours for held in others):
            return False
        self.last += before is None
        self.held[wanted or self.last] = after
        return True


def operation(step: dict[str, Any], batch: UUID | None = None) -> Operation:
    names = {"car": "carId", "start": "start", "end": "end", "exclusive": "exclusive"}
    values = step["values"]
    request = {names[name]: text(value) if name in ("start", "end") else value for name, value in values.items()}
    kind: Any = {"create": "CreateAssignment", "change": "UpdateAssignment", "end": "DeleteAssignment"}[step["kind"]]
    if kind == "CreateAssignment":
        request |= {"lifetime": None, "renewableAfter": None}
    return Operation(5, kind, "Request", values.get("car", 1), 9, step["id"], request, batch=batch)


class Rules:
    """The rules, with the state that a worker would read."""

    def __init__(self, gap: int) -> None:
        self.gap = gap
        self.assignments: dict[int, Assignment] = {}
        self.last = 0

    def apply(self, operations: list[Operation]) -> list[Decision]:
        ground = OperationState(
            {(5, id): one for id, one in self.assignments.items()},
            boxes={(5, car): "ready" for car in CARS},
            members={(5, 9)},
            policies={(5, car): BookingPolicy(gap=self.gap * GAP) for car in CARS},
            bookings={(5, car): CarBookings(self._bookings(car)) for car in CARS},
        )
        decisions, ground = decide_all(operations, ground)
        self.assignments = {id: one for (_, id), one in ground.assignments.items()}
        for _, made in ground.created:
            self.last += 1
            self.assignments[self.last] = Assignment(
                self.last, made.car, made.user, made.start, made.end, made.lifetime, None,
                is_exclusive=made.is_exclusive, gap=made.gap,
            )  # fmt: skip
        return decisions

    def _bookings(self, car: int) -> list[Any]:
        mine = [one for one in self.assignments.values() if one.car == car and one.is_exclusive]
        return [one.booking(of_assignment(one.id or 0)) for one in mine]

    def shown(self) -> dict[int, tuple[Any, ...]]:
        return {id: (one.car, one.start, one.end, one.is_exclusive) for id, one in self.assignments.items()}

    def check(self) -> None:
        """No two bookings of a car overlap."""
        for car in CARS:
            for one, other in combinations([b for b in self._bookings(car) if not b.is_empty], 2):
                assert not one.overlaps(other), (one, other)


ENDS = st.one_of(st.none(), HOURS)
CREATE = st.fixed_dictionaries(
    {"car": st.sampled_from(CARS), "start": HOURS, "end": HOURS, "exclusive": st.sampled_from([True, True, False])}
).filter(lambda values: values["end"] >= values["start"])
CHANGE = st.fixed_dictionaries(
    {}, optional={"car": st.sampled_from(CARS), "start": HOURS, "end": ENDS, "exclusive": st.booleans()}
)
IDS = st.integers(1, 8)
STEPS = st.one_of(
    st.builds(lambda values: {"kind": "create", "id": None, "values": values}, CREATE),
    st.builds(lambda id, values: {"kind": "change", "id": id, "values": values}, IDS, CHANGE),
    st.builds(lambda id: {"kind": "end", "id": id, "values": {}}, IDS),
)
GAPS = st.sampled_from([0, 0, 1, 2])


@given(GAPS, st.lists(STEPS, max_size=40), st.integers(1, 5))
def test_random_histories_end_as_the_model_says(gap: int, steps: list[dict[str, Any]], size: int) -> None:
    """The results do not depend on the size of the transactions."""
    model, rules = Model(gap), Rules(gap)
    for first in range(0, len(steps), size):
        part = steps[first : first + size]
        # A creation has no id before its transaction ends, and numbers follow the order of all creations
        expected: list[bool] = []
        known = set(model.held)
        for step in part:
            missing = step["id"] is not None and step["id"] not in known
            expected.append(False if missing else model.apply(step))
        decisions = rules.apply([operation(step) for step in part])
        assert [decision.failure is None for decision in decisions] == expected
        rules.check()
    assert rules.shown() == {
        id: (held.car, text(held.start), text(held.end), held.exclusive) for id, held in model.held.items()
    }


@given(GAPS, st.lists(STEPS, max_size=20), st.lists(STEPS, min_size=2, max_size=8))
def test_a_batch_never_leaves_an_overlap(gap: int, before: list[dict[str, Any]], items: list[dict[str, Any]]) -> None:
    rules, single = Rules(gap), Rules(gap)
    for step in before:
        rules.apply([operation(step)])
        single.apply([operation(step)])
    old = rules.shown()
    decisions = rules.apply([operation(step, UUID(int=1)) for step in items])
    rules.check()
    kept = {step["id"] for step in items if step["id"] is not None} - {
        step["id"] for step, one in zip(items, decisions, strict=True) if one.failure is None
    }
    assert all(rules.shown()[id] == old[id] for id in kept if id in old), "a failed item changes nothing"
    alone = single.apply([operation(step) for step in items])
    if all(decision.failure != CONFLICT for decision in alone):
        assert [one.failure for one in decisions] == [one.failure for one in alone]


@given(st.permutations(range(6)))
def test_a_batch_permutes_bookings(order: list[int]) -> None:
    rules = Rules(0)
    for slot in range(6):
        rules.apply([operation(_create(slot))])
    moves = [
        {"kind": "change", "id": id + 1, "values": {"start": slot, "end": slot + 1}} for id, slot in enumerate(order)
    ]
    assert [one.failure for one in rules.apply([operation(move, UUID(int=1)) for move in moves])] == [None] * 6
    rules.check()


def _create(slot: int) -> dict[str, Any]:
    return {"kind": "create", "id": None, "values": {"car": 1, "start": slot, "end": slot + 1, "exclusive": True}}
