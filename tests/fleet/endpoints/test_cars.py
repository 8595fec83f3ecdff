"""Cars, and the sub-resources of one car."""

from __future__ import annotations

from typing import Any

import pytest

from keyrack.fleet.declarations import CARS
from tests.support.people import Person, done, refused
from tests.support.servers import Sql, eventually

NO_CAR = "Unable to find a car for the given carId which is assigned to the given customerId."
FULL = {
    "name": "Pool 1",
    "description": "The blue one",
    "vin": "WVWZZZ1JZXW000001",
    "licensePlate": "B-KR 100",
    "brand": "Volkswagen",
    "model": "Golf",
}
OPTIONAL = ["description", "vin", "licensePlate", "brand", "model"]


# Create


def test_create_a_car(alice: Person) -> None:
    answer = alice.put("/cars", FULL)
    assert answer.status_code == 201
    assert answer.headers["content-type"] == "application/json"
    id = answer.json()["id"]
    assert answer.json() == {"id": id}
    assert isinstance(id, int)
    read = alice.get(f"/cars/{id}")
    assert (read.status_code, read.json()) == (200, {"id": id, **FULL})


def test_only_the_name_is_required(alice: Person) -> None:
    for members in ({}, dict.fromkeys(OPTIONAL)):
        car = alice.car("Bare", **members)
        assert alice.get(f"/cars/{car}").json() == {"id": car, "name": "Bare", **dict.fromkeys(OPTIONAL)}


def test_text_is_stored_unchanged(alice: Person) -> None:
    name = ' Ä "quoted" \\ 🚗 <b>&amp;\t'
    assert alice.get(f"/cars/{alice.car(name)}").json()["name"] == name


def test_unknown_members_are_ignored(alice: Person) -> None:
    assert alice.put("/cars", {"name": "A", "colour": "blue", "id": 7}).status_code == 201


@pytest.mark.parametrize("body", [{}, {"name": None}, {"name": ""}, {"name": " \t\n"}, {"name": 5}, {"name": "a\0b"}])
def test_a_missing_name_is_rejected(alice: Person, body: dict[str, Any]) -> None:
    refused(alice.put("/cars", body), 400, "Couldn't create car. No valid name provided.")


@pytest.mark.parametrize("member", OPTIONAL)
@pytest.mark.parametrize("value", [5, True, ["x"], {}, "a\0b"])
def test_a_member_of_the_wrong_type_is_rejected(alice: Person, member: str, value: Any) -> None:
    refused(alice.put("/cars", {"name": "A", member: value}), 400, f"Couldn't create car. No valid {member} provided.")


def test_all_invalid_members_are_named(alice: Person) -> None:
    body = {"vin": 1, "brand": 2}
    refused(alice.put("/cars", body), 400, "Couldn't create car. No valid name, vin and brand provided.")


def test_a_name_has_at_most_250_characters(alice: Person) -> None:
    assert alice.put("/cars", {"name": "🚗" * 250}).status_code == 201
    answer = alice.put("/cars", {"name": "x" * 251})
    assert answer.status_code == 400
    assert answer.text.startswith("Couldn't create car. No valid name provided.")
    assert "250" in answer.text


# Read


def test_cars_are_listed_by_id(carol: Person) -> None:
    assert (carol.get("/cars").status_code, carol.get("/cars").json()) == (200, [])
    ids = [carol.car(name) for name in ("B", "C", "A")]
    rows = carol.get("/cars").json()
    assert [row["id"] for row in rows] == ids
    assert rows[0] == {"id": ids[0], "name": "B", **dict.fromkeys(OPTIONAL)}


def test_the_neighbour_sees_no_car_of_hers(alice: Person, bob: Person) -> None:
    car = alice.car("Hers")
    assert car not in [row["id"] for row in bob.get("/cars").json()]
    refused(bob.get(f"/cars/{car}"), 404, NO_CAR)
    refused(bob.patch(f"/cars/{car}", [{"op": "replace", "path": "/name", "value": "His"}]), 404, NO_CAR)
    refused(bob.delete(f"/cars/{car}"), 404, NO_CAR)
    assert alice.get(f"/cars/{car}").json()["name"] == "Hers"


@pytest.mark.parametrize(
    "id", ["2147483647", "0", "-1", "2147483648", "99999999999999999999", "abc", "1.0", "%00", "1e3", "1%2F1"]
)
@pytest.mark.parametrize("rest", ["", "/products", "/telemetry", "/location", "/assignments", "/events"])
def test_a_missing_car_gets_404(alice: Person, id: str, rest: str) -> None:
    refused(alice.get(f"/cars/{id}{rest}"), 404, NO_CAR)


# Change


def test_change_a_car(alice: Person) -> None:
    car = alice.car(**FULL)
    done(alice.patch(f"/cars/{car}", [{"op": "replace", "path": "/name", "value": "Pool 2"}]))
    assert alice.get(f"/cars/{car}").json() == {"id": car, **FULL, "name": "Pool 2"}


def test_change_every_member_at_once(alice: Person) -> None:
    car = alice.car()
    done(alice.patch(f"/cars/{car}", [{"op": "replace", "path": f"/{name}", "value": FULL[name]} for name in FULL]))
    assert alice.get(f"/cars/{car}").json() == {"id": car, **FULL}


@pytest.mark.parametrize("member", OPTIONAL)
def test_remove_a_member(alice: Person, member: str) -> None:
    for step in ({"op": "remove"}, {"op": "replace", "value": None}, {"op": "remove", "value": "x"}):
        car = alice.car(**FULL)
        done(alice.patch(f"/cars/{car}", [{**step, "path": f"/{member}"}]))
        assert alice.get(f"/cars/{car}").json() == {"id": car, **FULL, member: None}


def test_the_last_step_counts(alice: Person) -> None:
    car = alice.car(vin="old")
    steps = [{"op": "replace", "path": "/vin", "value": "new"}, {"op": "remove", "path": "/vin"}]
    done(alice.patch(f"/cars/{car}", steps))
    assert alice.get(f"/cars/{car}").json()["vin"] is None
    done(alice.patch(f"/cars/{car}", steps[::-1]))
    assert alice.get(f"/cars/{car}").json()["vin"] == "new"


def test_a_change_of_a_missing_car_gets_404(alice: Person) -> None:
    refused(alice.patch("/cars/2147483647", [{"op": "remove", "path": "/vin"}]), 404, NO_CAR)


def test_a_patch_may_have_the_json_patch_media_type(alice: Person) -> None:
    headers = {"Content-Type": "application/json-patch+json"}
    done(alice.patch(f"/cars/{alice.car()}", content=b'[{"op": "remove", "path": "/vin"}]', headers=headers))
    assert alice.put("/cars", content=b'{"name": "A"}', headers=headers).status_code == 415


@pytest.mark.parametrize(
    "step",
    [
        {"op": "replace", "path": "/name", "value": None},
        {"op": "replace", "path": "/name", "value": ""},
        {"op": "replace", "path": "/name", "value": " \t"},
        {"op": "remove", "path": "/name"},
    ],
)
def test_a_patch_cannot_remove_the_name_and_is_all_or_nothing(alice: Person, step: dict[str, Any]) -> None:
    car = alice.car(**FULL)
    steps = [{"op": "replace", "path": "/vin", "value": "new"}, step]
    refused(alice.patch(f"/cars/{car}", steps), 400, "Couldn't update car. No valid name provided.")
    assert alice.get(f"/cars/{car}").json() == {"id": car, **FULL}


OP = " `op` must be 'remove' or 'replace', but is "
*_FIRST, _LAST = [f"'/{name}'" for name in CARS.by_name]
PATH = f" `path` must be {', '.join(_FIRST)} or {_LAST}, but is "


@pytest.mark.parametrize(
    ("step", "member", "right"),
    [
        ({"op": "add", "path": "/vin", "value": "x"}, "op", OP + "'add'."),
        ({"op": None, "path": "/vin", "value": "x"}, "op", OP + "null."),
        ({"path": "/vin", "value": "x"}, "op", ""),
        ({"op": "replace", "path": "/id", "value": "7"}, "path", PATH + "'/id'."),
        ({"op": "replace", "path": "vin", "value": "x"}, "path", PATH + "'vin'."),
        ({"op": "replace", "value": "x"}, "path", ""),
        ({"op": "replace", "path": "/vin", "value": 5}, "value", ""),
        ({"op": "replace", "path": "/vin", "value": "a\0b"}, "value", ""),
        ({"op": "add", "path": "/id", "value": "7"}, "op and path", f"{OP}'add'.{PATH}'/id'."),
        ({}, "op and path", ""),
    ],
)
def test_an_invalid_patch_step_is_rejected(alice: Person, step: dict[str, Any], member: str, right: str) -> None:
    """The error names the valid values, also for several members."""
    refused(
        alice.patch(f"/cars/{alice.car()}", [step]), 400, f"Couldn't update car. No valid {member} provided.{right}"
    )


def test_values_that_are_too_long_are_rejected(alice: Person) -> None:
    car = alice.car()
    done(alice.patch(f"/cars/{car}", [{"op": "replace", "path": "/description", "value": "x" * 4000}]))
    for member in ("vin", "name", "licensePlate", "brand", "model"):
        done(alice.patch(f"/cars/{car}", [{"op": "replace", "path": f"/{member}", "value": "x" * 250}]))
        for length in (251, 4001):
            answer = alice.patch(f"/cars/{car}", [{"op": "replace", "path": f"/{member}", "value": "x" * length}])
            sentence = f"`{member}` must have at most 250 characters, but has {length}."
            refused(answer, 400, f"Couldn't update car. No valid {member} provided. {sentence}")
    answer = alice.patch(f"/cars/{car}", [{"op": "replace", "path": "/description", "value": "x" * 4001}])
    sentence = "`description` must have at most 4000 characters, but has 4001."
    refused(answer, 400, f"Couldn't update car. No valid description provided. {sentence}")


# Delete


def test_delete_a_car(alice: Person, sql: Sql) -> None:
    car, user, group = alice.car_with_box(), alice.user(), alice.group()
    (box,) = alice.get(f"/cars/{car}/products").json()
    assignment = alice.assignment(car, user)
    event = alice.event(car, user)
    done(alice.put(f"/groups/{group}/cars", {"carId": car}))
    done(alice.delete(f"/cars/{car}"))
    refused(alice.get(f"/cars/{car}"), 404, NO_CAR)
    refused(alice.delete(f"/cars/{car}"), 404, NO_CAR)
    assert alice.get(f"/products/{box['id']}/cars").status_code == 404
    assert alice.get(f"/products/{box['id']}").status_code == 200
    assert alice.get(f"/groups/{group}/cars").json() == []
    assert alice.get(f"/events/{event}").json()["carId"] == car
    ended = eventually(
        lambda: sql.rows(
            "select cause, state, error_message from operation where customer_id = $1 and assignment_id = $2"
            " and kind = 'DeleteAssignment' and state <> 'Pending'",
            alice.customer,
            assignment,
        ),
        "the assignment's end",
    )
    assert [tuple(row) for row in ended] == [("CarDeleted", "Succeeded", None)]
    assert alice.get(f"/assignments/{assignment}").status_code == 404


# Products


def test_the_products_of_a_car(alice: Person) -> None:
    car = alice.car()
    box, iq = alice.box_in(car), alice.box_in(car, "IQ")
    answer = alice.get(f"/cars/{car}/products")
    assert answer.status_code == 200
    rows = answer.json()
    assert [row["id"] for row in rows] == [box, iq]
    assert [row["type"] for row in rows] == ["vendor Box", "vendor IQ"]
    assert list(rows[0]) == ["id", "uniqueId", "serialNumber", "sapNumber", "dongleTerminationTimeStamp", "type"]
    assert rows[0]["dongleTerminationTimeStamp"] is None


def test_a_car_without_products_gets_404(alice: Person) -> None:
    answer = alice.get(f"/cars/{alice.car()}/products")
    refused(answer, 404, "Unable to find any products which are assigned to the given carId.")


# Telemetry and location

NO_IQ = "Unable to find an IQ product which is assigned to the given carId."
NOTHING = {"latitude": None, "longitude": None, "date": None, "odometerDate": None, "odometer": None}


@pytest.mark.parametrize("rest", ["telemetry", "location", "location/2026-01-01T00:00:00Z"])
def test_a_car_without_an_iq_product_gets_404(alice: Person, rest: str) -> None:
    for car in (alice.car(), alice.car_with_box()):
        refused(alice.get(f"/cars/{car}/{rest}"), 404, NO_IQ)


def car_with_iq(person: Person) -> int:
    car = person.car("With IQ")
    person.box_in(car, "IQ")
    return car


def test_an_iq_product_without_reports_has_no_values(alice: Person) -> None:
    car = car_with_iq(alice)
    for rest in ("location", "location/2026-01-01T00:00:00Z"):
        answer = alice.get(f"/cars/{car}/{rest}")
        assert (answer.status_code, answer.json()) == (200, NOTHING)
    refused(alice.get(f"/cars/{car}/telemetry"), 404, "There is no telemetry yet for the given carId.")


@pytest.mark.parametrize(
    "date",
    ["yesterday", "2026-01-01", "2026-01-01T00:00:00", "2026-01-01T00:00:00+0000", "2026-02-30T00:00:00Z",
     "2026-01-01T25:00:00Z", "2026-01-01T00:00:00.Z", "0000-01-01T00:00:00Z", "2026-01-01T00:00:00Z%0A", "%00"],
)  # fmt: skip
def test_an_invalid_search_date_is_rejected(alice: Person, date: str) -> None:
    form = "A time must have the format of RFC 3339, such as 2026-01-31T08:00:00Z or 2026-01-31T09:00:00+01:00."
    text = f"Invalid searchDate provided. {form}"
    refused(alice.get(f"/cars/{car_with_iq(alice)}/location/{date}"), 400, text)
    refused(alice.get(f"/cars/2147483647/location/{date}"), 400, text)


def test_the_date_may_be_percent_encoded(alice: Person) -> None:
    assert alice.get(f"/cars/{car_with_iq(alice)}/location/2026-01-01T00%3A00%3A00Z").status_code == 200


@pytest.mark.parametrize("date", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_the_first_and_the_last_date(alice: Person, date: str) -> None:
    assert alice.get(f"/cars/{car_with_iq(alice)}/location/{date}").json() == NOTHING


# Assignments and events, whose creation has its own tests


def test_the_assignments_of_a_car(alice: Person, bob: Person) -> None:
    car, user = alice.car_with_box(), alice.user()
    answer = alice.get(f"/cars/{car}/assignments")
    assert (answer.status_code, answer.json()) == (200, [])
    first = alice.assignment(car, user, end="2026-02-01T00:00:00Z")
    second = alice.assignment(car, user)
    assert alice.get(f"/cars/{car}/assignments").json() == [
        {"id": first, "userId": user, "start": "2026-01-01T08:00:00Z", "end": "2026-02-01T00:00:00Z"},
        {"id": second, "userId": user, "start": "2026-01-01T08:00:00Z", "end": None},
    ]
    refused(bob.get(f"/cars/{car}/assignments"), 404, NO_CAR)


def test_the_events_of_a_car(alice: Person, bob: Person) -> None:
    car, other, user = alice.car(), alice.car(), alice.user()
    answer = alice.get(f"/cars/{car}/events")
    assert (answer.status_code, answer.json()) == (200, [])
    events = [alice.event(car, user, type=kind) for kind in ("CarOpened", "CarClosed")]
    alice.event(other, user)
    rows = alice.get(f"/cars/{car}/events").json()
    assert [(row["id"], row["type"], row["carId"], row["userId"]) for row in rows] == [
        (events[0], "CarOpened", car, user),
        (events[1], "CarClosed", car, user),
    ]
    refused(bob.get(f"/cars/{car}/events"), 404, NO_CAR)
