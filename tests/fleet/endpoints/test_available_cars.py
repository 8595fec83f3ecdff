"""Cars that are free within a period."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.auth.group_scope import limited, put
from tests.support.people import Person, Town, done, nobody_works
from tests.support.servers import Sql, eventually

PROBLEM = {"Accept": "application/problem+json"}
DAY = datetime(2031, 5, 1, tzinfo=UTC)
SEED, CARS, PERIODS = 41, 25, 40
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def at(hours: float) -> datetime:
    return DAY + hours * HOUR


def text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def period(start: float, end: float, **options: Any) -> dict[str, Any]:
    """The query of a period in hours after `DAY`."""
    return {"from": text(at(start)), "to": text(at(end)), **options}


def available(person: Person, start: float, end: float, **options: Any) -> list[dict[str, Any]]:
    answer = person.get("/cars/available", params=period(start, end, **options))
    assert answer.status_code == 200, answer.text
    return answer.json()


def free(person: Person, start: float, end: float, **options: Any) -> list[int]:
    return [row["id"] for row in available(person, start, end, **options)]


def book(person: Person, car: int, start: float, end: float | None, *, exclusive: bool = True) -> int:
    times = {"start": text(at(start)), "end": None if end is None else text(at(end))}
    return person.assignment(car, person.user(), exclusive=exclusive, **times)


def change(person: Person, assignment: int, **members: Any) -> None:
    steps = [{"op": "replace", "path": f"/{name}", "value": value} for name, value in members.items()]
    done(person.patch(f"/assignments/{assignment}", steps))


def set_gap(person: Person, car: int | None, seconds: int) -> None:
    """Set the gap of a car, or of the customer."""
    if car is None:
        statement, arguments = "update customer set booking_gap = $2 where customer_id = $1", (seconds,)
    else:
        statement, arguments = "update car set booking_gap = $3 where customer_id = $1 and car_id = $2", (car, seconds)
    person.execute_unrecorded(statement, *arguments)


@pytest.fixture
def dora(town: Town) -> Person:
    """A person whose cars are only those of the test."""
    return town.person("dora")


# Bookings


def test_after_a_booking_the_car_is_gone(dora: Person) -> None:
    car, other = dora.car_with_box("Car"), dora.car_with_box("Other")
    assert free(dora, 8, 10) == [car, other]
    book(dora, car, 8, 10)
    assert free(dora, 8, 10) == [other]
    assert free(dora, 9.5, 12) == [other]
    assert free(dora, 0, 24) == [other]


def test_touching_periods_are_free(dora: Person) -> None:
    car = dora.car_with_box()
    book(dora, car, 8, 10)
    assert free(dora, 6, 8) == free(dora, 10, 12) == [car]


def test_rows_name_the_neighbouring_bookings(dora: Person) -> None:
    car = dora.car_with_box()
    (row,) = available(dora, 8, 10)
    assert (row["freeFrom"], row["freeUntil"]) == (None, None)
    for start in (2, 5, 12, 15):
        book(dora, car, start, start + 1)
    (row,) = available(dora, 8, 10)
    assert (row["freeFrom"], row["freeUntil"]) == (text(at(6)), text(at(12)))
    shown_car = dora.get(f"/cars/{car}").json()
    assert {name: row[name] for name in shown_car} == shown_car


def test_a_standing_shared_assignment_does_not_block(dora: Person) -> None:
    car = dora.car_with_box()
    book(dora, car, 0, None, exclusive=False)
    (row,) = available(dora, 8, 10)
    assert (row["id"], row["freeFrom"], row["freeUntil"]) == (car, None, None)


def test_an_exclusive_booking_without_end_blocks_for_ever(dora: Person) -> None:
    car = dora.car_with_box()
    book(dora, car, 8, None)
    assert free(dora, 6, 8) == [car]
    assert free(dora, 2_000, 2_010) == []


def test_an_ended_booking_frees_the_car(dora: Person) -> None:
    car = dora.car_with_box()
    assignment = book(dora, car, 8, 10)
    assert free(dora, 8, 10) == []
    done(dora.delete(f"/assignments/{assignment}"))
    eventually(lambda: free(dora, 8, 10) == [car], "the end of the booking")


# Pending operations


def test_a_pending_booking_counts(dora: Person) -> None:
    car, other = dora.car_with_box("Car"), dora.car_with_box("Other")
    body = {"carId": car, "userId": dora.user(), "start": text(at(8)), "end": text(at(10))}
    with nobody_works(dora):
        done(dora.put("/assignments", {**body, "exclusive": True}))
        done(dora.put("/assignments", {**body, "carId": other}))
        assert free(dora, 9, 11) == [other]
        assert [(row["id"], row["freeFrom"]) for row in available(dora, 10, 12)] == [
            (car, text(at(10))), (other, None),
        ]  # fmt: skip
        assert [(row["id"], row["freeUntil"]) for row in available(dora, 6, 8)] == [(car, text(at(8))), (other, None)]
    eventually(lambda: dora.get(f"/cars/{car}/assignments").json(), "the assignment")
    assert free(dora, 9, 11) == [other]


def test_a_pending_change_counts_before_and_after(dora: Person) -> None:
    """The change may fail, so the present times stay taken."""
    car, other = dora.car_with_box("Car"), dora.car_with_box("Other")
    assignment = book(dora, car, 8, 10)
    with nobody_works(dora):
        change(dora, assignment, start=text(at(12)), end=text(at(14)))
        assert free(dora, 8, 10) == free(dora, 12, 14) == [other]
        assert free(dora, 10, 12) == [car, other]
    eventually(lambda: free(dora, 8, 10) == [car, other], "the change")
    with nobody_works(dora):
        change(dora, assignment, carId=other)
        assert free(dora, 12, 14) == []
    eventually(lambda: free(dora, 12, 14) == [car], "the other car")


def test_the_policy_of_the_car_is_the_default_of_a_pending_booking(dora: Person) -> None:
    shared, exclusive = dora.car_with_box("Shared"), dora.car_with_box("Exclusive")
    dora.execute_unrecorded(
        "update car set bookings = 'exclusive', booking_gap = 3600 where customer_id = $1 and car_id = $2", exclusive
    )
    with nobody_works(dora):
        for car in (shared, exclusive):
            body = {"carId": car, "userId": dora.user(), "start": text(at(8)), "end": text(at(10))}
            done(dora.put("/assignments", body))
        assert free(dora, 8, 10) == free(dora, 10.5, 12) == [shared]
        assert free(dora, 11, 12) == [shared, exclusive]


def test_a_pending_end_frees_nothing(dora: Person) -> None:
    car = dora.car_with_box()
    assignment = book(dora, car, 8, 10)
    with nobody_works(dora):
        done(dora.delete(f"/assignments/{assignment}"))
        assert free(dora, 8, 10) == []
    eventually(lambda: free(dora, 8, 10) == [car], "the end of the booking")


# Gap and key box


def test_the_gap_counts_on_both_sides(dora: Person) -> None:
    car = dora.car_with_box()
    set_gap(dora, None, 1_800)
    book(dora, car, 8, 10)
    assert free(dora, 10, 12) == free(dora, 6, 8) == []
    assert free(dora, 10.5, 12) == free(dora, 6, 7.5) == [car]
    set_gap(dora, car, 3_600)  # the booking keeps its own gap after it
    assert free(dora, 10.5, 12) == [car]
    assert free(dora, 6, 7.5) == []
    set_gap(dora, car, 0)
    assert free(dora, 6, 8) == [car]


def test_a_requested_gap_only_extends_that_of_the_car(dora: Person) -> None:
    car = dora.car_with_box()
    book(dora, car, 8, 10)
    assert free(dora, 10, 12, gap=0) == free(dora, 10.5, 12, gap=1_800) == free(dora, 6, 7.5, gap=1_800) == [car]
    assert free(dora, 10.5, 12, gap=3_600) == free(dora, 6, 7.5, gap=3_600) == []
    set_gap(dora, None, 3_600)
    assert free(dora, 6, 7.5, gap=0) == []


def test_only_a_ready_key_box_is_listed(dora: Person) -> None:
    ready, bare, terminated, unserved, unit = (dora.car(name) for name in ("A", "B", "C", "D", "E"))
    dora.box_in(ready)
    dora.box_in(unit, "IQ")
    ended = dora.product()
    dora.service(ended, terminated=True)
    for car, product in ((terminated, ended), (unserved, dora.product())):
        dora.execute_unrecorded(
            "update product set car_id = $2 where customer_id = $1 and product_id = $3", car, product
        )
    assert free(dora, 8, 10) == free(dora, 8, 10, box="ready") == [ready]
    assert free(dora, 8, 10, box="any") == [ready, bare, terminated, unserved, unit]


# Options of lists


def test_options_of_lists(dora: Person) -> None:
    cars = [dora.car_with_box(f"Car {number}") for number in range(4)]
    book(dora, cars[1], 12, 14)
    book(dora, cars[2], 11, 13)
    book(dora, cars[3], 9, 11)
    assert free(dora, 8, 10, **{"$filter": "contains(name,'Car 1')"}) == [cars[1]]
    assert free(dora, 8, 10, **{"$filter": f"freeUntil lt {text(at(12))}"}) == [cars[2]]
    assert free(dora, 8, 10, **{"$filter": "freeUntil eq null"}) == [cars[0]]
    assert free(dora, 8, 10, **{"$orderby": "freeUntil desc,name"}) == [cars[1], cars[2], cars[0]]
    assert free(dora, 8, 10, **{"$orderby": "name desc", "$top": "1", "$skip": "1"}) == [cars[1]]
    assert available(dora, 8, 10, **{"$select": "name,freeUntil", "$filter": f"id eq {cars[2]}"}) == [
        {"name": "Car 2", "freeUntil": text(at(11))}
    ]
    answer = dora.get("/cars/available", params=period(8, 10, **{"$count": "true", "$top": "1"}))
    assert (answer.headers["X-Total-Count"], len(answer.json())) == ("3", 1)
    (row,) = available(dora, 8, 10, **{"$expand": "products($select=type)", "$filter": f"id eq {cars[0]}"})
    assert row["products"] == [{"type": "vendor Box"}]
    apply = {"$apply": "aggregate($count as n)"}
    assert dora.get("/cars/available", params=period(8, 10, **apply)).json() == [{"n": 3}]
    assert free(dora, 8, 10, **{"$search": "Car", "$orderby": "name"}) == cars[:3]


def test_an_etag_changes_with_a_booking(dora: Person) -> None:
    car = dora.car_with_box()
    first = dora.get("/cars/available", params=period(8, 10))
    tag = {"If-None-Match": first.headers["ETag"]}
    assert dora.get("/cars/available", params=period(8, 10), headers=tag).status_code == 304
    book(dora, car, 12, 14)
    assert dora.get("/cars/available", params=period(8, 10), headers=tag).status_code == 200


def test_a_page_has_a_thousand_cars(dora: Person) -> None:
    dora.execute_unrecorded(
        "insert into car (customer_id, name) select $1, 'Car ' || n from generate_series(1, 1001) n"
    )
    answer = dora.get("/cars/available", params=period(8, 10, box="any"))
    assert len(answer.json()) == 1_000
    (address,) = [part[1:-1] for part in answer.headers["Link"].split(";") if part.startswith("<")]
    rest = dora.get("/cars/available?" + address.partition("?")[2]).json()
    assert len(rest) == 1
    assert rest[0]["id"] > answer.json()[-1]["id"]


def test_the_etag_of_a_page_tells_whether_a_page_follows(dora: Person) -> None:
    dora.execute_unrecorded(
        "insert into car (customer_id, name) select $1, 'Car ' || n from generate_series(1, 1001) n"
    )
    params = period(8, 10, box="any")
    with_next = dora.get("/cars/available", params=params)
    tag = {"If-None-Match": with_next.headers["ETag"]}
    assert dora.get("/cars/available", params=params, headers=tag).status_code == 304
    dora.execute_unrecorded(
        "delete from car where customer_id = $1 and car_id = (select max(car_id) from car where customer_id = $1)"
    )
    last = dora.get("/cars/available", params=params, headers=tag)
    assert last.status_code == 200
    assert last.content == with_next.content
    assert "Link" not in last.headers
    tag = {"If-None-Match": last.headers["ETag"]}
    assert dora.get("/cars/available", params=params, headers=tag).status_code == 304


# Errors


@pytest.mark.parametrize(
    ("query", "parameter", "code"),
    [
        ("", "from", "missing"),
        ("from=2031-05-01T08:00:00Z", "to", "missing"),
        ("to=2031-05-01T08:00:00Z", "from", "missing"),
        ("from=2031-05-01T08:00:00&to=2031-05-01T10:00:00Z", "from", "wrong-form"),
        ("from=2031-05-01T08:00:00Z&to=soon", "to", "wrong-form"),
        ("from=2031-05-01T08:00:00Z&to=2031-05-01T08:00:00Z", "to", "out-of-range"),
        ("from=2031-05-01T08:00:00Z&to=2031-05-01T09:00:00%2B02:00", "to", "out-of-range"),
        ("from=2031-05-01T08:00:00Z&to=2032-05-02T08:00:01Z", "to", "out-of-range"),
        ("from=2031-05-01T08:00:00Z&to=2031-05-01T10:00:00Z&gap=-1", "gap", "wrong-form"),
        ("from=2031-05-01T08:00:00Z&to=2031-05-01T10:00:00Z&gap=86401", "gap", "wrong-form"),
        ("from=2031-05-01T08:00:00Z&to=2031-05-01T10:00:00Z&gap=1h", "gap", "wrong-form"),
        ("from=2031-05-01T08:00:00Z&to=2031-05-01T10:00:00Z&box=good", "box", "not-one-of"),
        ("from=2031-05-01T08:00:00Z&from=2031-05-01T08:00:00Z&to=2031-05-01T10:00:00Z", "from", "repeated"),
    ],
)
def test_an_invalid_period_is_rejected(alice: Person, query: str, parameter: str, code: str) -> None:
    answer = alice.get(f"/cars/available?{query}", headers=PROBLEM)
    assert answer.status_code == 400, answer.text
    (error,) = answer.json()["errors"]
    assert (error["parameter"], error["code"]) == (parameter, code)


def test_an_unknown_option_is_rejected(alice: Person) -> None:
    answer = alice.get("/cars/available", params=period(8, 10, boxes="any"), headers=PROBLEM)
    assert answer.status_code == 400
    assert "'box'" in answer.json()["detail"]


# Callers


def test_another_customer_s_cars_and_bookings_do_not_exist(dora: Person, bob: Person) -> None:
    mine, his = dora.car_with_box(), bob.car_with_box()
    book(dora, mine, 8, 10)
    set_gap(bob, None, 3_600)
    assert free(bob, 8, 10) == [his]
    assert free(dora, 10, 12) == [mine]
    set_gap(bob, None, 0)


def test_a_group_limited_manager_sees_the_cars_of_its_groups(dora: Person, town: Town) -> None:
    group = dora.group()
    inside, taken, outside = (dora.car_with_box(name) for name in ("Inside", "Taken", "Outside"))
    for car in (inside, taken):
        put(dora, group, "carId", car)
    gina = limited(town, dora, "gina", [group])
    assert free(gina, 8, 10) == [inside, taken]
    book(dora, taken, 8, 10)  # the user is not in the group: the manager learns only that the car is taken
    assert free(gina, 8, 10) == [inside]
    (row,) = available(gina, 10, 12, **{"$filter": f"id eq {taken}"})
    assert row["freeFrom"] == text(at(10))
    assert free(gina, 8, 10, **{"$count": "true", "$orderby": "name desc"}) == [inside]
    assert outside in free(dora, 8, 10)


def test_it_needs_the_permissions_for_cars_and_for_assignments(town: Town, dora: Person) -> None:
    roles = {
        role: town.colleague(dora, role.lower(), role).get("/cars/available", params=period(8, 10)).status_code
        for role in ("Viewer", "Dispatcher", "Technician")
    }
    assert roles["Viewer"] == roles["Dispatcher"] == 200


# A random fleet


@dataclass(frozen=True)
class Booking:
    """A booking in minutes after `DAY`."""

    car: int
    start: int
    end: int | None
    gap: int


def random_bookings(chance: random.Random, cars: list[int]) -> list[Booking]:
    """Bookings that do not overlap, each with a gap of its own."""
    bookings: list[Booking] = []
    for car in cars:
        minute = chance.randrange(0, 300)
        for _ in range(chance.randrange(0, 8)):
            length, gap = chance.randrange(10, 400), chance.choice((0, 0, 15, 45))
            is_endless = chance.random() < 0.03
            bookings.append(Booking(car, minute, None if is_endless else minute + length, gap))
            if is_endless:
                break
            minute += length + gap + chance.choice((0, 5, 60, 300))
    return bookings


def expected(bookings: list[Booking], gaps: dict[int, int], start: int, end: int, gap: int) -> list[tuple[Any, ...]]:
    """The free cars with their neighbours, by a comparison with every booking."""
    rows: list[tuple[Any, ...]] = []
    for car, own in gaps.items():
        widest = max(gap, own)
        mine = [booking for booking in bookings if booking.car == car]
        if any(
            booking.start < end + widest and (booking.end is None or booking.end + max(booking.gap, gap) > start)
            for booking in mine
        ):
            continue
        before = [booking.end for booking in mine if booking.end is not None and booking.end <= start]
        after = [booking.start for booking in mine if booking.start >= end]
        rows.append((car, shown(max(before, default=None)), shown(min(after, default=None))))
    return rows


def shown(minute: int | None) -> str | None:
    return None if minute is None else text(DAY + minute * MINUTE)


def test_it_equals_a_comparison_with_every_booking(dora: Person, sql: Sql) -> None:
    chance = random.Random(SEED)
    cars = [dora.car(f"Car {number}") for number in range(CARS)]
    set_gap(dora, None, 600)
    gaps = {car: chance.choice((10, 10, 0, 30)) for car in cars}
    for car, minutes in gaps.items():
        if minutes != 10:
            set_gap(dora, car, minutes * 60)
    bookings = random_bookings(chance, cars)
    user = dora.user()
    dora.execute_unrecorded(
        "insert into assignment (customer_id, car_id, user_id, starts_at, ends_at, lifetime, is_exclusive, booking_gap)"
        " select $1, car, $2, starts, ends, 604800, is_exclusive, gap from unnest($3::integer[], $4::timestamptz[],"
        " $5::timestamptz[], $6::integer[], $7::boolean[]) u (car, starts, ends, gap, is_exclusive)",
        user,
        [booking.car for booking in bookings] + cars,
        [DAY + booking.start * MINUTE for booking in bookings] + [DAY] * CARS,
        [None if booking.end is None else DAY + booking.end * MINUTE for booking in bookings] + [None] * CARS,
        [booking.gap * 60 for booking in bookings] + [0] * CARS,
        [True] * len(bookings) + [False] * CARS,
    )
    found = 0
    for _ in range(PERIODS):
        start = chance.randrange(-200, 3_000)
        end, gap = start + chance.randrange(1, 500), chance.choice((0, 0, 20, 60))
        rows = available(dora, start / 60, end / 60, box="any", gap=gap * 60)
        answer = [(row["id"], row["freeFrom"], row["freeUntil"]) for row in rows]
        assert answer == expected(bookings, gaps, start, end, gap), (start, end, gap)
        found += len(answer)
    assert 0 < found < PERIODS * CARS
