"""Conflicts: overlaps of a car's assignments within a batch and with others, reported or rejected."""

from __future__ import annotations

from collections import Counter

import pytest

from keyrack.assignments import overlaps
from keyrack.core.settings import Settings
from tests.assignments.endpoints.batch_requests import HEAD, OVERLAP, Garage, change, day, end, statuses, told
from tests.fleet.endpoints.test_concurrent_writes import at_once, call
from tests.support.people import Person, nobody_works, refused
from tests.support.servers import Sql, eventually


@pytest.fixture
def garage(alice: Person) -> Garage:
    return Garage(alice)


def test_overlaps_are_between_half_open_periods_of_one_car(garage: Garage) -> None:
    id = garage.person.assignment(garage.car, garage.user, day(10), end=day(20))
    other = garage.person.car_with_box()
    open_end = garage.person.assignment(other, garage.user, day(10))
    results = garage.send(
        garage.wants(5, 10), garage.wants(20, None), garage.wants(5, 11), garage.wants(19, None), garage.wants(12, 13),
        garage.wants(12, 12), garage.wants(5, 10, carId=other), garage.wants(25, None, carId=other),
        conflicts="report", dryRun=True,
    )  # fmt: skip
    mine = [[one for one in told(result) if one[0] == "id"] for result in results]
    assert mine == [[], [], [("id", id)], [("id", id)], [("id", id)], [], [], [("id", open_end)]]
    assert results[2]["conflicts"] == [
        {"assignmentId": id, "userId": garage.user, "start": day(10), "end": day(20)},
        {"item": 0, "userId": garage.user, "start": day(5), "end": day(10)},
    ]


def test_report_lists_overlaps_and_accepts_the_items(garage: Garage) -> None:
    first, second = garage.send(garage.wants(1, 5), garage.wants(4, 6), conflicts="report")
    assert (first["status"], second["status"], told(first), told(second)) == (204, 204, [], [("item", 0)])
    assert "operationId" in second


def test_refuse_rejects_overlapping_items(garage: Garage, sql: Sql) -> None:
    results = garage.send(garage.wants(1, 5), garage.wants(4, 6), garage.wants(5, 6), conflicts="refuse")
    assert statuses(results) == [204, 409, 204]
    assert (results[1]["code"], results[1]["detail"]) == ("assignment-conflict", OVERLAP)
    assert results[1]["conflicts"] == [{"item": 0, "userId": garage.user, "start": day(1), "end": day(5)}]
    mine = "select count(*) from operation where customer_id = $1 and car_id = $2"
    assert sql.value(mine, garage.person.customer, garage.car) == 2


def test_a_rejected_item_causes_no_conflict(garage: Garage) -> None:
    id = garage.person.assignment(garage.car, garage.user, day(10), end=day(20))
    free = garage.person.car_with_box()
    results = garage.send(
        garage.wants(15, 25), garage.wants(20, 25), change(id, end=day(22)), change(id, userId=garage.user),
        change(id, carId=free), garage.wants(10, 20), conflicts="refuse",
    )  # fmt: skip
    assert [(result["status"], told(result)) for result in results] == [
        (409, [("id", id)]), (204, []), (409, [("item", 1)]), (204, []), (204, []), (204, []),
    ]  # fmt: skip


def test_an_assignment_does_not_conflict_with_itself(garage: Garage) -> None:
    id = garage.person.assignment(garage.car, garage.user, day(10), end=day(20))
    results = garage.send(change(id, end=day(25)), change(id, start=day(1), end=None), conflicts="refuse")
    assert statuses(results) == [204, 204]


def test_an_ended_assignment_causes_no_conflict(garage: Garage) -> None:
    id = garage.person.assignment(garage.car, garage.user, day(10), end=day(20))
    assert statuses(garage.send(end(id), garage.wants(10, 20), conflicts="refuse")) == [204, 204]


def test_a_change_without_new_time_is_never_rejected(garage: Garage) -> None:
    """Two assignments overlap already. A change that shortens one, or gives it to another user, takes no new time."""
    first = garage.person.assignment(garage.car, garage.user, day(10), end=day(20))
    second = garage.person.assignment(garage.car, garage.user, day(15), end=day(25))
    other = garage.person.user()
    results = garage.send(
        change(first, end=day(18)), change(first, userId=other), change(first, end=day(19)), conflicts="refuse"
    )
    assert [(result["status"], told(result)) for result in results] == [
        (204, [("id", second)]), (204, [("id", second)]), (409, [("id", second)]),
    ]  # fmt: skip


def test_pending_operations_cause_conflicts(garage: Garage) -> None:
    with nobody_works(garage.person):
        assert garage.send(garage.wants(1, 5))[0]["status"] == 204
        assert statuses(garage.send(garage.wants(1, 5), conflicts="refuse")) == [409]


def test_requests_without_overlap_detection_are_accepted(garage: Garage) -> None:
    """Later batches that detect overlaps see these assignments."""
    assert statuses(garage.send(garage.wants(1, 5), conflicts="refuse")) == [204]
    assert garage.person.put("/assignments", garage.wants(4, 8)["body"]).status_code == 204
    assert statuses(garage.send(garage.wants(4, 9))) == [204]
    later = garage.send(garage.wants(7, 8), garage.wants(8, 9), garage.wants(9, 10), conflicts="refuse")
    assert statuses(later) == [409, 409, 204]


def test_an_atomic_batch_with_a_conflict_does_nothing(garage: Garage, sql: Sql) -> None:
    results = garage.send(garage.wants(1, 5), garage.wants(4, 6), conflicts="refuse", atomic=True, status=422)
    assert statuses(results) == [424, 409]
    assert told(results[1]) == [("item", 0)]
    mine = "select count(*) from operation where customer_id = $1 and car_id = $2"
    assert sql.value(mine, garage.person.customer, garage.car) == 0


def test_listed_conflicts_are_limited(garage: Garage, settings: Settings) -> None:
    most = settings.batch_conflicts
    results = garage.send(*[garage.wants(1, 5) for _ in range(most + 2)], conflicts="report")
    assert [len(told(result)) for result in results] == [*range(most + 1), most]
    assert ["moreConflicts" in result for result in results] == [False] * (most + 1) + [True]


def test_a_batch_with_too_many_assignments_to_compare_is_rejected(
    garage: Garage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in (1, 3, 5):
        garage.person.assignment(garage.car, garage.user, day(n), end=day(n + 1))
    monkeypatch.setattr(overlaps, "COMPARED", 2)
    assert told(garage.send(garage.wants(3, 6), conflicts="report")[0]) != []
    body = {"kind": "assignments", "conflicts": "report", "items": [garage.wants(1, 2), garage.wants(5, 6)]}
    text = "Its cars have more than 2 assignments between its first start and its last end."
    refused(garage.person.post("/batch", body), 400, HEAD + text)


def test_one_of_many_exclusive_batches_wins(carol: Person) -> None:
    garage = Garage(carol)
    body = {"kind": "assignments", "conflicts": "refuse", "items": [garage.wants(n, n + 4) for n in (1, 5, 9)]}
    answers = at_once(call(carol, "POST", "/batch", body) for _ in range(10))
    found = Counter(tuple(statuses(answer.json()["results"])) for answer in answers)
    assert found == {(204, 204, 204): 1, (409, 409, 409): 9}
    assert len(eventually(lambda: len(rows := carol.get(f"/cars/{garage.car}/assignments").json()) == 3 and rows)) == 3


def test_assignments_of_another_customer_cause_no_conflict(alice: Person, bob: Person, garage: Garage) -> None:
    alice.assignment(garage.car, garage.user, day(1))
    his = Garage(bob)
    assert his.send(his.wants(1, 5), conflicts="refuse")[0]["status"] == 204
