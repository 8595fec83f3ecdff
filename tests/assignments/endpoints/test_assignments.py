"""Assignments: immediate errors, accepted operations and their outcomes."""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import Any

import httpx
import pytest

from keyrack.assignments.rules import as_request
from tests.support.people import Person, refused
from tests.support.servers import Sql, eventually

NO_ASSIGNMENT = "Unable to find an assignment for the given assignmentId which is assigned to the given customerId."
NO_CAR = "Unable to find a car for the given carId which is assigned to the given customerId."
NO_USER = "Unable to find a user for the given userId which is assigned to the given customerId."
START, LATER, END = "2026-01-01T08:00:00Z", "2026-02-01T08:00:00Z", "2026-03-01T08:00:00Z"
LIFETIME_RANGE = " `lifetime` must be greater than 604800 and less than 2419200 seconds."
RENEWABLE_RANGE = " `renewableAfter` must be at least 0 and less than `lifetime`."
END_BEFORE_START = " `end` must not be earlier than `start`."


@pytest.fixture(scope="module")
def car(alice: Person) -> int:
    """A car with a usable box."""
    return alice.car_with_box()


@pytest.fixture(scope="module")
def user(alice: Person) -> int:
    return alice.user()


def accepted(answer: httpx.Response) -> uuid.UUID:
    """The operation of an answer that accepts a request."""
    assert (answer.status_code, answer.content) == (204, b""), answer.text
    return uuid.UUID(answer.headers["operation-id"])


def outcome(sql: Sql, operation: uuid.UUID) -> tuple[str, str | None]:
    """State and error message of the operation, once it has finished."""
    rows = eventually(
        lambda: sql.rows(
            "select state, error_message from operation where operation_id = $1 and state <> 'Pending'", operation
        ),
        "the operation's outcome",
    )
    return tuple(rows[0])


def succeeded(sql: Sql, answer: httpx.Response) -> None:
    assert outcome(sql, accepted(answer)) == ("Succeeded", None)


def failed(sql: Sql, answer: httpx.Response, text: str) -> None:
    assert outcome(sql, accepted(answer)) == ("Failed", text)


# List


def test_all_assignments_are_listed_with_their_cars_and_users(carol: Person, bob: Person) -> None:
    assert carol.get("/assignments").json() == []
    one, two, user = carol.car_with_box("One"), carol.car_with_box("Two"), carol.user()
    past = carol.assignment(one, user, START, end=LATER)
    coming = carol.assignment(two, user, LATER, end=END)
    endless = carol.assignment(one, user, END)
    bob.assignment(bob.car_with_box(), bob.user())

    def found(query: str) -> list[int]:
        return [row["id"] for row in carol.get(f"/assignments?{query}").json()]

    assert found("") == [past, coming, endless]
    assert found("$orderby=start desc&$top=2") == [endless, coming]
    assert found(f"$filter=start lt {END} and (end eq null or end gt {LATER})") == [coming]
    assert found(f"$filter=start le {END} and (end eq null or end gt {END})") == [endless]
    assert found(f"$filter=carId in ({one},2147483647)&$orderby=start") == [past, endless]
    assert found(f"$filter=userId eq {user} and car/name eq 'Two'") == [coming]
    answer = carol.get(
        "/assignments?$top=1&$skip=1&$count=true&$select=id&$expand=car($select=name),user($select=userData)"
    )
    assert answer.headers["X-Total-Count"] == "3"
    whose = {"car": {"name": "Two"}, "user": {"userData": {"firstName": "Uma", "lastName": "User"}}}
    assert answer.json() == [{"id": coming} | whose]
    whole = carol.get(f"/assignments/{past}").json() | {"exclusive": False, "externalId": None, "metadata": None}
    assert carol.get(f"/assignments?$filter=id eq {past}").json() == [whole]
    assert bob.get(f"/assignments?$filter=id in ({past},{coming}) or carId eq {one} or userId eq {user}").json() == []


# Create


def test_create_an_assignment(alice: Person, car: int, user: int, sql: Sql) -> None:
    body = {"carId": car, "userId": user, "start": START, "end": END, "lifetime": 700_000, "renewableAfter": 600_000}
    operation = accepted(alice.put("/assignments", body))
    assert outcome(sql, operation) == ("Succeeded", None)
    row = sql.rows("select * from operation where operation_id = $1", operation)[0]
    assert (row["customer_id"], row["kind"], row["cause"]) == (alice.customer, "CreateAssignment", "Request")
    answer = alice.get(f"/assignments/{row['assignment_id']}")
    assert (answer.status_code, answer.json()) == (200, {"id": row["assignment_id"], **body})


@pytest.mark.parametrize(
    ("members", "lifetime", "renewable_after"),
    [
        ({}, 604_800, 302_400),
        ({"end": None, "lifetime": None, "renewableAfter": None}, 604_800, 302_400),
        ({"lifetime": 604_801}, 604_801, 302_400),
        ({"lifetime": 2_419_199}, 2_419_199, 1_209_599),
        ({"renewableAfter": 0}, 604_800, 0),
        ({"renewableAfter": 604_799}, 604_800, 604_799),
        ({"lifetime": 700_001, "renewableAfter": 700_000}, 700_001, 700_000),
    ],
)
def test_defaults_and_bounds(
    alice: Person, car: int, user: int, members: dict[str, Any], lifetime: int, renewable_after: int
) -> None:
    id = alice.assignment(car, user, START, **members)
    assert alice.get(f"/assignments/{id}").json() == {
        "id": id,
        "carId": car,
        "userId": user,
        "start": START,
        "end": None,
        "lifetime": lifetime,
        "renewableAfter": renewable_after,
    }


@pytest.mark.parametrize(
    "members",
    [
        {}, {"end": END}, {"lifetime": 604_801}, {"lifetime": 700_001, "renewableAfter": 350_000},
        {"renewableAfter": 0}, {"renewableAfter": 302_400}, {"lifetime": 2_419_199, "renewableAfter": 2_419_198},
    ],
)  # fmt: skip
def test_an_assignment_can_be_copied_as_docs_batch_describes(
    alice: Person, car: int, user: int, members: dict[str, Any]
) -> None:
    read = alice.get(f"/assignments/{alice.assignment(car, user, START, **members)}").json()
    other = alice.car_with_box()
    body = as_request({**read, "carId": other})
    copy = alice.assignment(other, user, **{name: body[name] for name in body.keys() - {"carId", "userId"}})
    assert alice.get(f"/assignments/{copy}").json() == {**read, "id": copy, "carId": other}
    left_out = {name: value for name, value in body.items() if value is not None}
    accepted(alice.put("/assignments", left_out))


@pytest.mark.parametrize("lifetime", [604_800, 2_419_200, 0, -1, 1, 2**31 - 1])
def test_a_lifetime_out_of_range_is_rejected(alice: Person, car: int, user: int, lifetime: int) -> None:
    body = {"carId": car, "userId": user, "start": START, "lifetime": lifetime}
    text = "Couldn't create assignment. No valid lifetime provided." + LIFETIME_RANGE
    refused(alice.put("/assignments", body), 400, text)


@pytest.mark.parametrize(
    "members",
    [
        {"renewableAfter": 604_800},
        {"renewableAfter": -1},
        {"lifetime": 700_000, "renewableAfter": 700_000},
        {"lifetime": 700_000, "renewableAfter": 2**31 - 1},
    ],
)
def test_renewable_after_out_of_range_is_rejected(alice: Person, car: int, user: int, members: dict[str, Any]) -> None:
    body = {"carId": car, "userId": user, "start": START, **members}
    text = "Couldn't create assignment. No valid renewableAfter provided." + RENEWABLE_RANGE
    refused(alice.put("/assignments", body), 400, text)


RFC_3339 = "A time must have the format of RFC 3339, such as 2026-01-31T08:00:00Z or 2026-01-31T09:00:00+01:00."
WRONG_TIMES = [
    "2026-01-01",
    "2026-01-01T08:00:00",
    "2026-01-01 08:00:00Z",
    "2026-01-01T08:00:00.Z",
    "2026-01-01T08:00:00+0100",
    "2026-01-01T08:00:00+24:00",
    "2026-01-01T08:00:00+01:60",
    "2026-01-01T08:00Z",
    "0001-01-01T00:00:00+00:01",
    "9999-12-31T23:59:59-00:01",
    "2026-02-30T08:00:00Z",
    "2026-01-01T24:00:00Z",
    "2026-01-01T08:00:60Z",
    "0000-01-01T08:00:00Z",
    "2026-01-01T08:00:00Z\n",
    "٢٠٢٦-01-01T08:00:00Z",
    "",
    "now",
]


@pytest.mark.parametrize("member", ["start", "end"])
@pytest.mark.parametrize("value", [*WRONG_TIMES, 5, True, {}])
def test_an_invalid_time_is_rejected(alice: Person, car: int, user: int, member: str, value: Any) -> None:
    body = {"carId": car, "userId": user, "start": START, member: value}
    text = f"Couldn't create assignment. No valid {member} provided. {RFC_3339}"
    refused(alice.put("/assignments", body), 400, text)


def test_an_end_before_the_start_is_rejected(alice: Person, car: int, user: int) -> None:
    body = {"carId": car, "userId": user, "start": START, "end": "2026-01-01T07:59:59Z"}
    text = "Couldn't create assignment. No valid end provided." + END_BEFORE_START
    refused(alice.put("/assignments", body), 400, text)


def test_an_end_at_the_start_is_valid(alice: Person, car: int, user: int) -> None:
    id = alice.assignment(car, user, START, end=START)
    assert alice.get(f"/assignments/{id}").json()["end"] == START


@pytest.mark.parametrize(
    ("body", "members"),
    [
        ({}, "carId, userId and start"),
        ({"carId": None, "userId": 1, "start": START}, "carId"),
        ({"carId": "1", "userId": 1, "start": START}, "carId"),
        ({"carId": 1, "userId": 1.5, "start": START}, "userId"),
        ({"carId": 1, "userId": 1}, "start"),
        ({"carId": 1, "userId": 1, "start": START, "lifetime": "700000"}, "lifetime"),
        ({"carId": 1, "userId": 1, "start": START, "renewableAfter": True}, "renewableAfter"),
    ],
)
def test_missing_and_invalid_members_are_named(alice: Person, body: dict[str, Any], members: str) -> None:
    refused(alice.put("/assignments", body), 400, f"Couldn't create assignment. No valid {members} provided.")


def test_a_missing_car_or_user_gets_404(alice: Person, bob: Person, car: int, user: int) -> None:
    for id in (2147483647, 0, -1):
        refused(alice.put("/assignments", {"carId": id, "userId": user, "start": START}), 404, NO_CAR)
        refused(alice.put("/assignments", {"carId": car, "userId": id, "start": START}), 404, NO_USER)
        refused(alice.put("/assignments", {"carId": id, "userId": id, "start": START}), 404, NO_CAR)
    his_car, his_user = bob.car_with_box(), bob.user()
    refused(bob.put("/assignments", {"carId": car, "userId": his_user, "start": START}), 404, NO_CAR)
    refused(bob.put("/assignments", {"carId": his_car, "userId": user, "start": START}), 404, NO_USER)


def test_a_rejected_request_writes_no_operation(alice: Person, car: int, sql: Sql) -> None:
    count = "select count(*) from operation where customer_id = $1"
    before = sql.value(count, alice.customer)
    refused(alice.put("/assignments", {"carId": car, "userId": 2147483647, "start": START}), 404, NO_USER)
    refused(alice.delete("/assignments/2147483647"), 404, NO_ASSIGNMENT)
    assert sql.value(count, alice.customer) == before


def test_the_outcome_depends_on_the_box(alice: Person, user: int, sql: Sql) -> None:
    def put(car: int) -> httpx.Response:
        return alice.put("/assignments", {"carId": car, "userId": user, "start": START})

    car = alice.car()
    failed(sql, put(car), "There is no key box installed in the car.")
    alice.box_in(car, "IQ")
    failed(sql, put(car), "There is no key box installed in the car.")
    box = alice.box_in(car)
    succeeded(sql, put(car))
    service = alice.get(f"/products/{box}/services").json()["id"]
    sql.execute("update service set is_terminated = true where service_id = $1", service)
    failed(sql, put(car), "The service of the key box in the car is terminated.")
    assert alice.delete("/pairings", {"serviceId": service, "productId": box}).status_code == 204
    failed(sql, put(car), "The key box in the car has no service assigned.")
    assert len(alice.get(f"/cars/{car}/assignments").json()) == 1


def test_the_checksum_is_that_of_the_body(alice: Person, car: int, user: int, sql: Sql) -> None:
    body = json.dumps({"carId": car, "userId": user, "start": START}).encode()
    put = alice.put("/assignments", content=body, headers={"Content-Type": "application/json"})
    stored = "select checksum from operation where operation_id = $1"
    assert sql.value(stored, accepted(put)) == hashlib.md5(body).hexdigest().upper()  # noqa: S324 - the spec's checksum
    id = alice.assignment(car, user)
    deleted = sql.value(stored, accepted(alice.delete(f"/assignments/{id}")))
    assert deleted == hashlib.md5(f"DELETE /assignments/{id}".encode()).hexdigest().upper()  # noqa: S324 - the spec's checksum


# Read


@pytest.mark.parametrize("id", ["2147483647", "0", "-1", "2147483648", "x"])
def test_a_missing_assignment_gets_404(alice: Person, id: str) -> None:
    refused(alice.get(f"/assignments/{id}"), 404, NO_ASSIGNMENT)
    refused(alice.patch(f"/assignments/{id}", remove("end")), 404, NO_ASSIGNMENT)
    refused(alice.delete(f"/assignments/{id}"), 404, NO_ASSIGNMENT)


def test_another_customer_sees_no_assignment(alice: Person, bob: Person, car: int, user: int) -> None:
    id = alice.assignment(car, user)
    before = alice.get(f"/assignments/{id}").json()
    refused(bob.get(f"/assignments/{id}"), 404, NO_ASSIGNMENT)
    refused(bob.patch(f"/assignments/{id}", replace(start=LATER)), 404, NO_ASSIGNMENT)
    refused(bob.delete(f"/assignments/{id}"), 404, NO_ASSIGNMENT)
    assert alice.get(f"/assignments/{id}").json() == before


# Change


def replace(**members: Any) -> list[dict[str, Any]]:
    return [{"op": "replace", "path": f"/{name}", "value": value} for name, value in members.items()]


def remove(*members: str) -> list[dict[str, Any]]:
    return [{"op": "remove", "path": f"/{name}"} for name in members]


@pytest.mark.parametrize("form", [str, int], ids=["text", "numbers"])
def test_change_every_member(alice: Person, car: int, user: int, sql: Sql, form: type) -> None:
    id = alice.assignment(car, user)
    other_car, other_user = alice.car_with_box(), alice.user()
    steps = replace(
        carId=form(other_car),
        userId=form(other_user),
        start=LATER,
        end=END,
        lifetime=form(800_000),
        renewableAfter=form(700_000),
    )
    succeeded(sql, alice.patch(f"/assignments/{id}", steps))
    assert alice.get(f"/assignments/{id}").json() == {
        "id": id,
        "carId": other_car,
        "userId": other_user,
        "start": LATER,
        "end": END,
        "lifetime": 800_000,
        "renewableAfter": 700_000,
    }


@pytest.mark.parametrize("step", [{"op": "remove"}, {"op": "replace", "value": None}])
def test_a_removed_member_gets_its_default(alice: Person, car: int, user: int, sql: Sql, step: dict[str, Any]) -> None:
    id = alice.assignment(car, user, START, end=END, lifetime=900_000, renewableAfter=100_000)

    def after(*members: str) -> tuple[Any, ...]:
        succeeded(sql, alice.patch(f"/assignments/{id}", [{**step, "path": f"/{name}"} for name in members]))
        shown = alice.get(f"/assignments/{id}").json()
        return shown["end"], shown["lifetime"], shown["renewableAfter"]

    assert after("end") == (None, 900_000, 100_000)
    assert after("renewableAfter") == (None, 900_000, 450_000)
    assert after("lifetime") == (None, 604_800, 302_400)


@pytest.mark.parametrize("member", ["carId", "userId", "start"])
@pytest.mark.parametrize("step", [{"op": "remove"}, {"op": "replace", "value": None}, {"op": "replace"}])
def test_a_required_member_cannot_be_removed(
    alice: Person, car: int, user: int, member: str, step: dict[str, Any]
) -> None:
    id = alice.assignment(car, user)
    steps = [*replace(end=END), {**step, "path": f"/{member}"}]
    text = f"Couldn't update assignment. No valid {member} provided."
    answer = alice.patch(f"/assignments/{id}", steps)
    assert answer.status_code == 400
    assert answer.text.startswith(text)
    assert alice.get(f"/assignments/{id}").json()["end"] is None


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        (replace(lifetime=604_800), "No valid lifetime provided." + LIFETIME_RANGE),
        (replace(lifetime="2419200"), "No valid lifetime provided." + LIFETIME_RANGE),
        (replace(renewableAfter="-1"), "No valid renewableAfter provided." + RENEWABLE_RANGE),
        (replace(renewableAfter=2_419_200), "No valid renewableAfter provided." + RENEWABLE_RANGE),
        (replace(lifetime=700_000, renewableAfter=700_000), "No valid renewableAfter provided." + RENEWABLE_RANGE),
        (
            [*remove("lifetime"), *replace(renewableAfter=604_800)],
            "No valid renewableAfter provided." + RENEWABLE_RANGE,
        ),
        (replace(start=LATER, end=START), "No valid end provided." + END_BEFORE_START),
        (replace(carId="x"), "No valid carId provided."),
        (replace(carId=""), "No valid carId provided."),
        (replace(carId="1_0"), "No valid carId provided."),
        (replace(carId=" 1"), "No valid carId provided."),
        (replace(carId="1.0"), "No valid carId provided."),
        (replace(carId="٣"), "No valid carId provided."),
        (replace(userId="2147483648"), "No valid userId provided."),
        (replace(userId="1\0"), "No valid userId provided."),
        (replace(lifetime="9" * 40), "No valid lifetime provided."),
        (replace(lifetime=2**31), "No valid lifetime provided."),
        (replace(carId=1.5), "No valid carId provided."),
        (replace(carId=True), "No valid carId provided."),
        (replace(carId={}), "No valid carId provided."),
        (replace(renewableAfter=[]), "No valid renewableAfter provided."),
        (
            [{"op": "add", "path": "/end", "value": END}],
            "No valid op provided. `op` must be 'remove' or 'replace', but is 'add'.",
        ),
        (
            [{"op": "replace", "path": "/id", "value": "1"}],
            "No valid path provided. `path` must be '/carId', '/userId', '/start', '/end', '/lifetime',"
            " '/renewableAfter', '/exclusive', '/externalId' or '/metadata', but is '/id'.",
        ),
    ],
)
def test_an_invalid_patch_is_rejected(
    alice: Person, car: int, user: int, steps: list[dict[str, Any]], text: str
) -> None:
    id = alice.assignment(car, user)
    before = alice.get(f"/assignments/{id}").json()
    refused(alice.patch(f"/assignments/{id}", [*replace(end=END), *steps]), 400, "Couldn't update assignment. " + text)
    assert alice.get(f"/assignments/{id}").json() == before


@pytest.mark.parametrize("member", ["start", "end"])
@pytest.mark.parametrize("value", [*(time for time in WRONG_TIMES if time), "", 5])
def test_a_patch_with_an_invalid_time_is_rejected(alice: Person, car: int, user: int, member: str, value: Any) -> None:
    answer = alice.patch("/assignments/2147483647", replace(**{member: value}))
    text = f"Couldn't update assignment. No valid {member} provided. {RFC_3339}"
    refused(answer, 400, text)


def test_a_patch_to_a_missing_car_or_user_gets_404(alice: Person, bob: Person, car: int, user: int) -> None:
    id = alice.assignment(car, user)
    for other in (2147483647, 0, bob.car_with_box()):
        refused(alice.patch(f"/assignments/{id}", replace(carId=other)), 404, NO_CAR)
    for other in (2147483647, 0, bob.user()):
        refused(alice.patch(f"/assignments/{id}", replace(userId=str(other))), 404, NO_USER)
    refused(alice.patch("/assignments/2147483647", replace(carId=2147483647)), 404, NO_ASSIGNMENT)


def test_a_patch_fails_later_if_the_assignment_does_not_allow_it(alice: Person, car: int, user: int, sql: Sql) -> None:
    id = alice.assignment(car, user, START, end=LATER, lifetime=900_000, renewableAfter=800_000)
    before = alice.get(f"/assignments/{id}").json()
    path = f"/assignments/{id}"
    failed(sql, alice.patch(path, replace(start=END, lifetime=950_000)), "The end lies before the start.")
    failed(sql, alice.patch(path, replace(lifetime=700_000)), "renewableAfter must be less than lifetime.")
    failed(sql, alice.patch(path, replace(carId=alice.car())), "There is no key box installed in the car.")
    assert alice.get(path).json() == before


# Delete, and the order of operations


def test_delete_an_assignment(alice: Person, car: int, user: int, sql: Sql) -> None:
    id = alice.assignment(car, user)
    succeeded(sql, alice.delete(f"/assignments/{id}"))
    refused(alice.get(f"/assignments/{id}"), 404, NO_ASSIGNMENT)
    assert id not in [row["id"] for row in alice.get(f"/cars/{car}/assignments").json()]
    refused(alice.delete(f"/assignments/{id}"), 404, NO_ASSIGNMENT)


def test_operations_on_a_car_are_applied_in_order(alice: Person, user: int, sql: Sql) -> None:
    car = alice.car_with_box()
    id = alice.assignment(car, user)
    days = [f"2026-04-{day:02}T00:00:00Z" for day in range(1, 21)]
    operations = [accepted(alice.patch(f"/assignments/{id}", replace(end=day))) for day in days]
    operations.append(accepted(alice.delete(f"/assignments/{id}")))
    for operation in operations:
        assert outcome(sql, operation) == ("Succeeded", None)
    rows = sql.rows(
        "select operation_id from operation where operation_id = any($1) order by finished_at, seq", operations
    )
    assert [row["operation_id"] for row in rows] == operations
