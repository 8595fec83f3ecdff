"""Properties of the assignment rules, for any assignment and patch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from keyrack.assignments.rules import (
    END_BEFORE_START,
    LIFETIME,
    LIFETIME_BOUND,
    NOT_READY,
    RENEWABLE_TOO_LATE,
    Assignment,
    Box,
    Operation,
    OperationState,
    as_request,
    decide,
    lifetimes,
)

TIMES = [f"2026-01-{day:02}T08:00:00Z" for day in range(1, 6)]
LIFETIMES = [604_800, 700_000, 900_000]

assignments = st.builds(
    Assignment,
    id=st.just(7),
    car=st.sampled_from([1, 2]),
    user=st.sampled_from([1, 2]),
    start=st.sampled_from(TIMES[:2]),
    end=st.sampled_from([*TIMES[2:], None]),
    lifetime=st.sampled_from(LIFETIMES),
    renewable_after=st.sampled_from([None, 1, 600_000]),
)
patches = st.fixed_dictionaries(
    {},
    optional={
        "carId": st.sampled_from([1, 2]),
        "userId": st.sampled_from([1, 2]),
        "start": st.sampled_from(TIMES),
        "end": st.sampled_from([*TIMES, None]),
        "lifetime": st.sampled_from([*LIFETIMES, None]),
        "renewableAfter": st.sampled_from([None, 1, 650_000]),
    },
)
boxes = st.fixed_dictionaries({}, optional={(5, n): st.sampled_from(["ready", "none", "unserved", "terminated"])
                                            for n in (1, 2)})  # fmt: skip
members = st.sets(st.sampled_from([(5, 1), (5, 2)]))


def patch(before: Assignment, changes: dict[str, Any], ground: OperationState) -> str | None:
    """Apply the patch; return its error."""
    ground.assignments[5, 7] = before
    return decide(Operation(5, "UpdateAssignment", "Request", before.car, before.user, 7, changes), ground).failure


def possible(wanted: Assignment) -> bool:
    shown = wanted.as_json()
    return not (wanted.end and wanted.end < wanted.start) and shown["renewableAfter"] < shown["lifetime"]


@given(assignments, patches, boxes, members)
def test_a_narrowing_patch_needs_no_box_or_service(
    before: Assignment, changes: dict[str, Any], boxes: dict[Any, Box], members: set[Any]
) -> None:
    wanted = before.patched(changes)
    narrows = (
        (wanted.car, wanted.user) == (before.car, before.user)
        and wanted.start >= before.start
        and (before.end is None or (wanted.end is not None and wanted.end <= before.end))
        and wanted.lifetime <= before.lifetime
    )
    failure = patch(before, changes, OperationState(boxes=boxes, members=members))
    if narrows:
        assert failure in (None, END_BEFORE_START, RENEWABLE_TOO_LATE)
        assert (failure is None) == possible(wanted)


@given(assignments, patches, boxes, members)
def test_a_widening_patch_needs_a_usable_box(
    before: Assignment, changes: dict[str, Any], boxes: dict[Any, Box], members: set[Any]
) -> None:
    """Each grant after a patch existed before, or depends on a usable box."""
    ground = OperationState(boxes=boxes, members=members)
    failure = patch(before, changes, ground)
    after = ground.assignments[5, 7]
    if failure is not None:
        assert after == before
        return
    may = boxes.get((5, after.car)) == "ready" and (5, after.user) in members
    same = (after.car, after.user) == (before.car, before.user)
    earlier, later = after.start < before.start, (after.end or "~") > (before.end or "~")
    assert may or (same and not earlier and not later and after.lifetime <= before.lifetime)


@given(assignments, patches, boxes, members)
def test_the_outcome_has_the_requested_values(
    before: Assignment, changes: dict[str, Any], boxes: dict[Any, Box], members: set[Any]
) -> None:
    ground = OperationState(boxes=boxes, members=members)
    ground.assignments[5, 7] = before
    operation = Operation(5, "UpdateAssignment", "Request", before.car, before.user, 7, changes)
    decision = decide(operation, ground)
    assert decision.assignment == before.patched(changes).as_json()
    for name, value in changes.items():
        if value is not None:
            assert decision.assignment[name] == value


@given(assignments, st.sampled_from(LIFETIMES))
def test_a_default_renewable_after_follows_the_lifetime(before: Assignment, lifetime: int) -> None:
    before = replace(before, renewable_after=None)
    assert before.patched({"lifetime": lifetime}).as_json()["renewableAfter"] == lifetime // 2
    chosen = replace(before, renewable_after=1)
    assert chosen.patched({"lifetime": lifetime}).as_json()["renewableAfter"] == 1
    assert chosen.patched({"renewableAfter": None}).as_json()["renewableAfter"] == before.lifetime // 2


@given(boxes, members, st.sampled_from([1, 2]), st.sampled_from([1, 2]))
def test_a_creation_needs_box_service_and_user(boxes: dict[Any, Box], members: set[Any], car: int, user: int) -> None:
    request = {"start": TIMES[0], "end": None, "lifetime": None, "renewableAfter": None}
    ground = OperationState(boxes=boxes, members=members)
    decision = decide(Operation(5, "CreateAssignment", "Request", car, user, None, request), ground)
    ready = boxes.get((5, car)) == "ready"
    assert (decision.failure is None) == (ready and (5, user) in members) == (len(ground.created) == 1)
    if not ready:
        assert decision.failure == NOT_READY[boxes.get((5, car))]
    assert decision.assignment["lifetime"] == 604_800


@given(assignments, st.integers(LIFETIME, LIFETIME_BOUND - 1), st.integers(0, LIFETIME - 1) | st.none())
def test_a_read_assignment_can_be_sent_to_create_an_equal_one(
    assignment: Assignment, lifetime: int, renewable_after: int | None
) -> None:
    read = replace(assignment, lifetime=lifetime, renewable_after=renewable_after).as_json()
    body = as_request(read)
    assert lifetimes(body["lifetime"], body["renewableAfter"]) == (read["lifetime"], read["renewableAfter"])
    assert body["lifetime"] is None or LIFETIME < body["lifetime"] < LIFETIME_BOUND
    assert {name: body[name] for name in ("carId", "userId", "start", "end")} == {
        name: read[name] for name in ("carId", "userId", "start", "end")
    }
    assert body.keys() == {"carId", "userId", "start", "end", "lifetime", "renewableAfter", "exclusive"}
    assert body["exclusive"] == read["exclusive"]
