"""Exclusive assignments: asked for, decided, extended, swapped, and asked for by settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from tests.assignments.test_order import change, outcome
from tests.auth.group_scope import limited
from tests.support.people import Person, Town, done, nobody_works
from tests.support.servers import Sql, eventually

PROBLEM = {"Accept": "application/problem+json"}
SHARED_SETTINGS = {"bookings": "shared", "bookingsEnforced": False, "bookingGap": 0}
CONFLICT = "assignment-conflict"


def at(hour: float) -> str:
    return f"2050-01-01T{int(hour):02}:{int(hour % 1 * 60):02}:00Z"


class Desk:
    """A caller that books one car."""

    def __init__(self, person: Person) -> None:
        self.person, self.car, self.user = person, person.car_with_box(), person.user()

    def body(self, start: float, end: float | None, **members: Any) -> dict[str, Any]:
        times = {"start": at(start), "end": None if end is None else at(end)}
        return {"carId": self.car, "userId": self.user, **times, "exclusive": True, **members}

    def ask(self, start: float, end: float | None, **members: Any) -> Any:
        return self.person.put("/assignments", self.body(start, end, **members), headers=PROBLEM)

    def book(self, start: float, end: float | None, **members: Any) -> int:
        row = outcome(self.person, self.ask(start, end, **members))
        assert row["state"] == "Succeeded", row
        id: int = row["assignmentId"]
        return id

    def patch(self, id: int, **members: Any) -> Any:
        return self.person.patch(f"/assignments/{id}", change(**members), headers=PROBLEM)

    def times(self, id: int) -> tuple[str, str | None]:
        row = self.person.get(f"/assignments/{id}").json()
        return row["start"], row["end"]


@pytest.fixture
def desk(alice: Person) -> Desk:
    return Desk(alice)


def conflicts(answer: Any) -> list[Any]:
    assert (answer.status_code, answer.json()["code"]) == (409, CONFLICT), answer.text
    return answer.json()["conflicts"]


def test_a_second_booking_is_rejected_with_the_first(desk: Desk) -> None:
    first = desk.book(8, 10)
    entry = {"assignmentId": first, "userId": desk.user, "start": at(8), "end": at(10)}
    assert conflicts(desk.ask(9, 11)) == [entry]
    assert conflicts(desk.ask(7, None)) == [entry]
    assert desk.ask(9, 9).status_code == 204, "no length, so nothing is blocked"
    desk.book(10, 11)
    desk.book(7, 8)


def test_a_pending_booking_is_seen(desk: Desk) -> None:
    with nobody_works(desk.person):
        first = desk.ask(8, 10)
        (entry,) = conflicts(desk.ask(9, 11))
        assert entry == {
            "operationId": first.headers["Operation-Id"], "userId": desk.user, "start": at(8), "end": at(10)
        }  # fmt: skip
    assert outcome(desk.person, first)["state"] == "Succeeded"


def test_a_pending_end_does_not_block(desk: Desk) -> None:
    first = desk.book(8, 10)
    with nobody_works(desk.person):
        ended = desk.person.delete(f"/assignments/{first}")
        second = desk.ask(9, 11)
    assert [outcome(desk.person, answer)["state"] for answer in (ended, second)] == ["Succeeded", "Succeeded"]


def test_shared_assignments_block_nobody(desk: Desk) -> None:
    desk.book(0, None, exclusive=False)
    desk.book(8, 10)
    desk.book(9, 11, exclusive=False)
    desk.book(9, 11, exclusive=None)


def test_another_car_and_another_customer_are_free(desk: Desk, bob: Person) -> None:
    desk.book(8, 10)
    desk.car = desk.person.car_with_box()
    desk.book(8, 10)
    Desk(bob).book(8, 10)


def test_a_late_return_loses_against_the_next_booking(desk: Desk) -> None:
    first, second = desk.book(8, 10), desk.book(12, 14)
    entry = {"assignmentId": second, "userId": desk.user, "start": at(12), "end": at(14)}
    assert conflicts(desk.patch(first, end=at(13))) == [entry]
    assert outcome(desk.person, desk.patch(first, end=at(12)))["state"] == "Succeeded"
    assert conflicts(desk.patch(first, end=None)) == [entry]


def test_the_outcome_names_the_next_booking(desk: Desk) -> None:
    """A booking that pending operations change is left to the operation."""
    first, second = desk.book(8, 10), desk.book(12, 14)
    with nobody_works(desk.person):
        moved = desk.patch(second, end=at(15))
        extended = desk.patch(first, end=at(12.5))
        assert extended.status_code == 409, "the pending booking is known"
        handed = desk.patch(second, start=at(16), end=at(17))
        extended = desk.patch(first, end=at(12.5))
        back = desk.patch(second, start=at(12), end=at(14))
    assert [outcome(desk.person, answer)["state"] for answer in (moved, handed)] == ["Succeeded", "Succeeded"]
    assert outcome(desk.person, extended)["state"] == "Succeeded"
    row = outcome(desk.person, back)
    assert (row["state"], row["errorCode"]) == ("Failed", CONFLICT)
    assert row["conflicts"] == [{"assignmentId": first, "userId": desk.user, "start": at(8), "end": at(12.5)}]
    assert desk.times(second) == (at(16), at(17))


def test_what_takes_no_new_time_is_never_rejected(desk: Desk, sql: Sql) -> None:
    first = desk.book(8, 10)
    other = desk.person.user()

    assert outcome(desk.person, desk.patch(first, userId=other))["state"] == "Succeeded"
    assert outcome(desk.person, desk.patch(first, end=at(9)))["state"] == "Succeeded"
    assert outcome(desk.person, desk.patch(first, start=at(8.5)))["state"] == "Succeeded"
    desk.book(9, 10)
    assert outcome(desk.person, desk.person.delete(f"/assignments/{first}"))["state"] == "Succeeded"


def test_a_patch_makes_an_assignment_exclusive_and_shared(desk: Desk) -> None:
    standing = desk.book(0, None, exclusive=False)
    path = f"/assignments/{standing}"
    booked = desk.book(8, 10)
    assert [entry["assignmentId"] for entry in conflicts(desk.patch(standing, exclusive=True))] == [booked]
    assert outcome(desk.person, desk.patch(booked, exclusive="false"))["state"] == "Succeeded"
    assert outcome(desk.person, desk.patch(standing, exclusive="true"))["state"] == "Succeeded"
    assert desk.person.get(path, params={"$select": "exclusive"}).json() == {"exclusive": True}
    assert "exclusive" not in desk.person.get(path).json(), "the spec has no such member"
    removed = desk.person.patch(path, [{"op": "remove", "path": "/exclusive"}])
    assert outcome(desk.person, removed)["state"] == "Succeeded"
    assert desk.person.get(path, params={"$select": "exclusive"}).json() == {"exclusive": False}
    desk.book(11, 12)


@pytest.mark.parametrize("value", ["yes", 1, "", {}])
def test_an_invalid_value_is_400(desk: Desk, value: Any) -> None:
    assert desk.ask(8, 10, exclusive=value).status_code == 400
    answer = desk.patch(1, exclusive=value)
    assert answer.status_code == 400, answer.text
    assert answer.json()["errors"][0]["pointer"] == "/0/value"


def test_a_change_of_the_car_is_checked(desk: Desk) -> None:
    first = desk.book(8, 10)
    other, desk.car = desk.car, desk.person.car_with_box()
    second = desk.book(8, 10)
    assert [entry["assignmentId"] for entry in conflicts(desk.patch(second, carId=other))] == [first]
    third = desk.book(10, 11)
    assert outcome(desk.person, desk.patch(third, carId=other))["state"] == "Succeeded"


# Many callers at once

ASKERS = 50


def test_one_of_many_askers_gets_a_slot(desk: Desk) -> None:
    """Single requests and batches over several connections."""

    def ask(number: int) -> Any:
        if number % 3:
            answer = desk.ask(8, 10)
            return answer.status_code, answer.headers.get("Operation-Id"), answer.json() if answer.content else {}
        (result,) = batch(desk, {"op": "create", "body": desk.body(9, 11)})
        return result["status"], result.get("operationId"), result

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(ask, range(ASKERS)))
    rejected = [answer for status, _, answer in answers if status == 409]
    assert {answer["code"] for answer in rejected} <= {CONFLICT}
    outcomes = Counter(state_of(desk, operation) for status, operation, _ in answers if status == 204)
    assert outcomes["Succeeded"] == 1
    assert outcomes[CONFLICT] + len(rejected) == ASKERS - 1
    assert len(desk.person.get(f"/cars/{desk.car}/assignments").json()) == 1


def state_of(desk: Desk, operation: str) -> str:
    row = eventually(lambda: (row := desk.person.get(f"/operations/{operation}").json())["state"] != "Pending" and row)
    code: str = row["errorCode"] or row["state"]
    return code


# Batches


def batch(desk: Desk, *items: Any, **members: Any) -> list[Any]:
    answer = desk.person.post("/batch", {"kind": "assignments", "items": list(items), **members})
    assert answer.status_code == 200, answer.text
    results: list[Any] = answer.json()["results"]
    return results


def change_item(id: int, **members: Any) -> dict[str, Any]:
    return {"op": "change", "id": id, "patch": change(**members)}


def finished(desk: Desk, results: list[Any]) -> list[str]:
    def state(result: Any) -> str:
        row = eventually(
            lambda: (
                (row := desk.person.get(result["operationLocation"].removeprefix("/v3")).json())["state"] != "Pending"
                and row
            )
        )
        return row["errorCode"] or row["state"]

    return [state(result) for result in results]


def test_a_batch_swaps_two_bookings(desk: Desk) -> None:
    first, second = desk.book(8, 10), desk.book(10, 12)
    swap = (change_item(first, start=at(10), end=at(12)), change_item(second, start=at(8), end=at(10)))
    assert finished(desk, batch(desk, *swap)) == ["Succeeded", "Succeeded"]
    assert (desk.times(first), desk.times(second)) == ((at(10), at(12)), (at(8), at(10)))
    assert [result["status"] for result in batch(desk, *reversed(swap), dryRun=True)] == [204, 204]


def test_a_swap_of_cars_and_a_rotation_of_three(desk: Desk) -> None:
    first = desk.book(8, 10)
    other, desk.car = desk.car, desk.person.car_with_box()
    second = desk.book(8, 10)
    third = desk.book(10, 12)
    swap = (change_item(first, carId=desk.car), change_item(second, carId=other))
    assert finished(desk, batch(desk, *swap)) == ["Succeeded", "Succeeded"]
    turn = (
        change_item(first, start=at(10), end=at(12)),
        change_item(third, carId=other, start=at(8), end=at(10)),
        change_item(second, carId=desk.car),
    )
    assert finished(desk, batch(desk, *turn)) == ["Succeeded"] * 3


def test_a_swap_whose_second_half_fails_leaves_both(desk: Desk) -> None:
    first, second = desk.book(8, 10), desk.book(10, 12)
    empty = desk.person.car()
    swap = (change_item(first, start=at(10), end=at(12)), change_item(second, carId=empty))
    assert finished(desk, batch(desk, *swap)) == [CONFLICT, "no-key-box"]
    assert (desk.times(first), desk.times(second)) == ((at(8), at(10)), (at(10), at(12)))


def test_a_batch_takes_the_time_of_an_end_and_gives_a_slot_once(desk: Desk) -> None:
    first = desk.book(8, 10)
    items = ({"op": "create", "body": desk.body(8, 9)}, {"op": "create", "body": desk.body(8.5, 10)},
             {"op": "end", "id": first})  # fmt: skip
    assert finished(desk, batch(desk, *items)) == ["Succeeded", CONFLICT, "Succeeded"]


def test_an_item_of_a_batch_lists_its_conflicts(desk: Desk) -> None:
    first = desk.book(8, 10)
    (result,) = batch(desk, {"op": "create", "body": desk.body(9, 11)})
    assert (result["status"], result["code"]) == (409, CONFLICT)
    assert result["conflicts"] == [{"assignmentId": first, "userId": desk.user, "start": at(8), "end": at(10)}]


def test_conflicts_of_a_batch_keeps_its_meaning(desk: Desk) -> None:
    shared = desk.book(8, 10, exclusive=False)
    item = {"op": "create", "body": desk.body(9, 11)}
    (result,) = batch(desk, item, conflicts="refuse")
    assert result["status"] == 409
    assert [entry["assignmentId"] for entry in result["conflicts"]] == [shared]
    (result,) = batch(desk, item, conflicts="report")
    assert result["status"] == 204
    assert finished(desk, [result]) == ["Succeeded"]


# Settings


def settings(desk: Desk, **members: Any) -> None:
    done(desk.person.put("/booking-settings", SHARED_SETTINGS | members))


@pytest.fixture
def own(carol: Person) -> Desk:
    """A desk whose customer no other test uses at the same time."""
    desk = Desk(carol)
    settings(desk)
    return desk


def is_exclusive(desk: Desk, id: int) -> bool:
    answer: bool = desk.person.get(f"/assignments/{id}", params={"$select": "exclusive"}).json()["exclusive"]
    return answer


def test_settings_of_customer_and_car_are_stored(own: Desk, bob: Person) -> None:
    path = f"/cars/{own.car}/booking-settings"
    assert own.person.get("/booking-settings").json() == SHARED_SETTINGS
    assert own.person.get(path).json() == {"bookings": None, "bookingGap": None}
    new = {"bookings": "exclusive", "bookingsEnforced": True, "bookingGap": 86_400}
    done(own.person.put("/booking-settings", new))
    done(own.person.put(path, {"bookings": "shared", "bookingGap": 0}))
    assert own.person.get("/booking-settings").json() == new
    assert own.person.get(path).json() == {"bookings": "shared", "bookingGap": 0}
    assert bob.get(path).status_code == bob.put(path, {"bookings": None, "bookingGap": None}).status_code == 404
    settings(own)


@pytest.mark.parametrize(
    ("member", "value"),
    [("bookingGap", -1), ("bookingGap", 86_401), ("bookingGap", None), ("bookings", "single"), ("bookings", None),
     ("bookingsEnforced", None), ("gap", 1)],
)  # fmt: skip
def test_an_invalid_setting_is_400_and_names_its_member(own: Desk, member: str, value: Any) -> None:
    answer = own.person.put("/booking-settings", SHARED_SETTINGS | {member: value}, headers=PROBLEM)
    assert answer.status_code == 400
    assert [error["pointer"] for error in answer.json()["errors"]] == [f"/{member}"]


def test_the_car_decides_over_the_customer(own: Desk) -> None:
    path = f"/cars/{own.car}/booking-settings"
    settings(own, bookings="exclusive")
    first = own.book(8, 10, exclusive=None)
    assert is_exclusive(own, first)
    assert own.ask(9, 11, exclusive=None).status_code == 409
    staff = own.book(0, None, exclusive=False)
    assert not is_exclusive(own, staff)
    done(own.person.put(path, {"bookings": "shared", "bookingGap": None}))
    assert not is_exclusive(own, own.book(9, 11, exclusive=None))
    assert is_exclusive(own, first), "an existing assignment keeps what it has"
    settings(own)
    done(own.person.put(path, {"bookings": "exclusive", "bookingGap": None}))
    assert is_exclusive(own, own.book(12, 13, exclusive=None))


def test_the_gap_counts_and_is_frozen(own: Desk) -> None:
    path = f"/cars/{own.car}/booking-settings"
    settings(own, bookingGap=1800)
    first = own.book(8, 10)
    assert [entry["assignmentId"] for entry in conflicts(own.ask(10.25, 11))] == [first]
    assert [entry["assignmentId"] for entry in conflicts(own.ask(6, 7.75))] == [first], "its own gap counts as well"
    assert own.times(first) == (at(8), at(10)), "times stay as asked"
    done(own.person.put(path, {"bookings": None, "bookingGap": 0}))
    assert own.ask(10.25, 11).status_code == 409, "the gap is that of the time of the booking"
    own.book(10.5, 11)
    own.book(11, 12)
    assert own.ask(7, 8).status_code == 204
    settings(own)


def test_a_gap_is_no_new_time_after_a_change_of_the_settings(own: Desk) -> None:
    first = own.book(8, 10)
    own.book(10, 12)
    settings(own, bookingGap=3600)
    assert outcome(own.person, own.patch(first, start=at(8.5)))["state"] == "Succeeded"
    assert outcome(own.person, own.patch(first, start=at(8)))["state"] == "Succeeded"
    settings(own)


@contextmanager
def enforced(desk: Desk) -> Iterator[None]:
    settings(desk, bookings="exclusive", bookingsEnforced=True)
    try:
        yield
    finally:
        settings(desk)


def test_an_enforced_setting_needs_the_permission_to_share(own: Desk, town: Town) -> None:
    dispatcher = town.colleague(own.person, "sharing", "Dispatcher")
    other = own.person.car_with_box()
    done(own.person.put(f"/cars/{other}/booking-settings", {"bookings": "shared", "bookingGap": None}))
    with enforced(own):
        denied = dispatcher.put("/assignments", own.body(8, 10, exclusive=False), headers=PROBLEM)
        assert (denied.status_code, denied.json()["permission"]) == (403, "assignments:share")
        assert outcome(own.person, dispatcher.put("/assignments", own.body(8, 10, exclusive=None)))
        elsewhere = own.body(8, 10, exclusive=None, carId=other)
        row = outcome(own.person, dispatcher.put("/assignments", elsewhere))
        assert not is_exclusive(own, row["assignmentId"])
        path = f"/assignments/{row['assignmentId']}"
        assert dispatcher.patch(path, change(carId=own.car)).status_code == 403, "no way round by a move"
        assert dispatcher.patch(path, change(end=at(9))).status_code == 204
        own.book(8, 10, exclusive=False)
    assert dispatcher.put("/booking-settings", SHARED_SETTINGS).status_code == 403
    assert dispatcher.get("/booking-settings").status_code == 200


def test_a_group_limited_manager_learns_that_the_car_is_booked_and_nothing_else(desk: Desk, town: Town) -> None:
    group = desk.person.group()
    for path, body in (
        (f"/groups/{group}/cars", {"carId": desk.car}),
        (f"/groups/{group}/users", {"userId": desk.user}),
    ):
        done(desk.person.put(path, body))
    manager = limited(town, desk.person, "booking", [group])
    desk.book(8, 10, userId=desk.person.user())
    answer = manager.put("/assignments", desk.body(9, 11), headers=PROBLEM)
    assert (answer.status_code, answer.json()["code"]) == (409, CONFLICT)
    assert "conflicts" not in answer.json()
    with nobody_works(desk.person):
        moved = desk.ask(14, 15)
        pending = outcome_later(manager, desk.body(14, 16))
    assert outcome(desk.person, moved)["state"] == "Succeeded"
    assert pending.status_code == 409
    assert manager.put("/booking-settings", SHARED_SETTINGS).status_code == 403
    path = f"/cars/{desk.car}/booking-settings"
    done(manager.put(path, {"bookings": None, "bookingGap": None}))
    assert manager.get(f"/cars/{desk.person.car()}/booking-settings").status_code == 404


def outcome_later(person: Person, body: Any) -> Any:
    return person.put("/assignments", body)


# An older release


def test_exclusive_bookings_need_that_no_older_process_runs(own: Desk, sql: Sql) -> None:
    old = (
        "insert into heartbeat (heartbeat_id, role, host, pid, version) values"
        " (gen_random_uuid(), 'work', 'old', 1, '0.3.0') returning heartbeat_id"
    )
    id = sql.value(old)
    try:
        answers = (
            own.ask(8, 10),
            own.person.put("/booking-settings", SHARED_SETTINGS | {"bookings": "exclusive"}, headers=PROBLEM),
            own.person.put(
                f"/cars/{own.car}/booking-settings", {"bookings": "exclusive", "bookingGap": None}, headers=PROBLEM
            ),
        )
        assert {(answer.status_code, answer.json()["code"]) for answer in answers} == {(409, "old-worker-running")}
        own.book(8, 10, exclusive=False)
        settings(own, bookingGap=60)
    finally:
        sql.execute("delete from heartbeat where heartbeat_id = $1", id)
    own.book(8, 10)
    settings(own)
