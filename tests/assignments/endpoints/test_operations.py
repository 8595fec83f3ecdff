"""Operations: accepted with a 204, applied in the customer's order, each with a readable outcome."""

from __future__ import annotations

import asyncio
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from keyrack.assignments import failure_backfill, failure_codes
from keyrack.assignments.endpoints.operations import NO_OPERATION
from keyrack.assignments.failure_codes import (
    CONFLICT,
    EXTERNAL_ID_TAKEN,
    GIVEN_UP,
    GONE,
    METADATA_TOO_LARGE,
    NO_BOX,
    NO_CAR,
    NO_SERVICE,
    NO_USER,
    TERMINATED,
    TEXTS,
    text_of,
)
from keyrack.core.settings import Settings
from keyrack.db.connection import Database
from tests.auth.test_clients import Program
from tests.support.people import Person, nobody_works, web
from tests.support.servers import RunningServer, eventually, patient_settings

START = "2026-01-01T08:00:00Z"


def asked(answer: Any) -> str:
    """The operation of a 204."""
    assert answer.status_code == 204, answer.text
    id = answer.headers["Operation-Id"]
    assert answer.headers["Operation-Location"] == f"/v3/operations/{id}"
    return id


def outcome(person: Person, answer: Any) -> dict[str, Any]:
    """The finished operation of a 204."""
    id = asked(answer)

    def finished() -> Any:
        operation = person.get(f"/operations/{id}").json()
        return operation if operation["state"] != "Pending" else None

    return eventually(finished, "the outcome")


def new(car: int, user: int, **members: Any) -> dict[str, Any]:
    return {"carId": car, "userId": user, "start": START, **members}


def test_operation_location_includes_the_path_of_the_public_url(carol: Person, dsn: str, settings: Settings) -> None:
    """This holds for a single request and for each item of a batch."""
    body = {"carId": carol.car(), "userId": carol.user(), "start": "2026-01-01T08:00:00Z"}
    batch = {"kind": "assignments", "items": [{"op": "create", "body": body}]}
    with RunningServer(settings, dsn, worker=False, public_url="https://fleet.example/keys") as running:
        asked = web().put(running.url + "/v3/assignments", json=body, headers=carol.headers)
        id = asked.headers["Operation-Id"]
        assert asked.headers["Operation-Location"] == f"/keys/v3/operations/{id}"
        (told,) = web().post(running.url + "/v3/batch", json=batch, headers=carol.headers).json()["results"]
        assert told["operationLocation"] == f"/keys/v3/operations/{told['operationId']}"


def test_a_204_names_the_operation_with_its_outcome(alice: Person) -> None:
    car, user = alice.car_with_box(), alice.user()
    operation = outcome(alice, alice.put("/assignments", new(car, user)))
    id = operation.pop("assignmentId")
    assert alice.get(f"/assignments/{id}").json()["carId"] == car
    assert operation.pop("requested") <= operation.pop("finished")
    assert len(operation.pop("checksum")) == 32
    assert operation.pop("applied") == 1
    assert uuid.UUID(operation.pop("id"))
    assert operation == {
        "kind": "CreateAssignment",
        "cause": "Request",
        "state": "Succeeded",
        "errorMessage": None,
        "errorCode": None,
        "conflicts": None,
        "carId": car,
        "newCarId": None,
        "userId": user,
        "newUserId": None,
        "start": START,
        "end": None,
        "exclusive": False,
        "externalId": None,
        "metadata": None,
        "requestedBy": {"type": "manager", "id": operation["requestedBy"]["id"], "name": alice.username},
    }
    location = alice.patch(f"/assignments/{id}", [{"op": "replace", "path": "/lifetime", "value": 700000}])
    assert outcome(alice, location)["kind"] == "UpdateAssignment"
    assert outcome(alice, alice.delete(f"/assignments/{id}"))["kind"] == "DeleteAssignment"
    listed = alice.get("/operations?$filter=assignmentId eq " + str(id)).json()
    assert sorted(row["kind"] for row in listed) == ["CreateAssignment", "DeleteAssignment", "UpdateAssignment"]


def test_an_operation_of_another_customer_gets_404(alice: Person, bob: Person) -> None:
    id = asked(alice.put("/assignments", new(alice.car_with_box(), alice.user())))
    for wrong in (bob.get(f"/operations/{id}"), alice.get(f"/operations/{uuid.uuid4()}"), alice.get("/operations/x")):
        assert (wrong.status_code, wrong.text) == (404, NO_OPERATION.text)
    assert id not in bob.get("/operations").text


def test_the_state_when_an_operation_is_applied_decides(alice: Person) -> None:
    bare, user = alice.car("bare"), alice.user()
    assert outcome(alice, alice.put("/assignments", new(bare, user)))["errorMessage"] == TEXTS[NO_BOX]

    car = alice.car("box")
    box = alice.product()
    service = alice.service(box)
    assert alice.put("/installations", {"carId": car, "productId": box}).status_code == 204
    alice.sql.execute("update service set is_terminated = true where service_id = $1", service)
    assert outcome(alice, alice.put("/assignments", new(car, user)))["errorMessage"] == TEXTS[TERMINATED]
    alice.sql.execute("update service set product_id = null where service_id = $1", service)
    failed = outcome(alice, alice.put("/assignments", new(car, user)))
    assert (failed["state"], failed["errorMessage"], failed["assignmentId"]) == ("Failed", TEXTS[NO_SERVICE], None)


ASKED = """
insert into operation (customer_id, kind, car_id, user_id, request, checksum)
values ($1, 'CreateAssignment', $2, $3, $4::text::jsonb, 'X') returning operation_id::text
"""
REQUEST = '{"start": "2026-01-01T08:00:00Z", "end": null, "lifetime": null, "renewableAfter": null}'


@pytest.mark.parametrize(("gone", "message"), [("car", TEXTS[NO_CAR]), ("user", TEXTS[NO_USER])])
def test_an_operation_fails_if_its_car_or_user_was_deleted_meanwhile(alice: Person, gone: str, message: str) -> None:
    """The accepting statement still saw the car or the user, and commits after the deletion."""
    car, user = alice.car_with_box(), alice.user()
    if gone == "car":
        assert alice.delete(f"/cars/{car}").status_code == 204
    else:
        assert alice.delete("/users/assignments/customers", {"userId": user}).status_code == 204
    id = alice.sql.value(ASKED, alice.customer, car, user, REQUEST)
    operation = eventually(
        lambda: (row := alice.get(f"/operations/{id}").json())["state"] != "Pending" and row, "the outcome"
    )
    assert (operation["state"], operation["errorMessage"]) == ("Failed", message)


def test_a_change_of_an_ended_assignment_fails(alice: Person) -> None:
    car, user = alice.car_with_box(), alice.user()
    assignment = alice.assignment(car, user)
    with nobody_works(alice):
        first, second = alice.delete(f"/assignments/{assignment}"), alice.delete(f"/assignments/{assignment}")
        third = alice.patch(f"/assignments/{assignment}", [{"op": "remove", "path": "/end"}])
    assert outcome(alice, first)["state"] == "Succeeded"
    assert [outcome(alice, answer)["errorMessage"] for answer in (second, third)] == [TEXTS[GONE], TEXTS[GONE]]


def test_the_three_cascades_end_assignments_once_each(alice: Person) -> None:
    for cause in ("Uninstallation", "CarDeleted", "UserRemoved"):
        car = alice.car()
        box = alice.box_in(car)
        user = alice.user()
        ids = {alice.assignment(car, user), alice.assignment(car, user)}
        if cause == "Uninstallation":
            answer = alice.delete("/installations", {"carId": car, "productId": box})
        elif cause == "CarDeleted":
            answer = alice.delete(f"/cars/{car}")
        else:
            answer = alice.delete("/users/assignments/customers", {"userId": user})
        assert answer.status_code == 204

        def ended(car: int = car, cause: str = cause) -> Any:
            rows = alice.get(f"/operations?$filter=carId eq {car} and cause eq '{cause}'").json()
            return len(rows) == 2 and all(row["state"] == "Succeeded" for row in rows) and rows

        rows = eventually(ended, cause)
        assert {row["assignmentId"] for row in rows} == ids
        assert all(alice.get(f"/assignments/{id}").status_code == 404 for id in ids)


END = "2026-01-03T08:00:00Z"


def test_a_pending_operation_shows_the_requested_values(carol: Person) -> None:
    car, user = carol.car_with_box("Pool 1"), carol.user()
    assignment = carol.assignment(car, user, START, end=END)
    with nobody_works(carol):
        later = {"op": "replace", "path": "/end", "value": "2026-01-09T08:00:00Z"}
        for answer in (
            carol.put("/assignments", new(car, user)),
            carol.patch(f"/assignments/{assignment}", [later]),
            carol.delete(f"/assignments/{assignment}"),
        ):
            asked(answer)
        names = "$expand=car($select=name),user($select=userData)"
        path = f"/operations?$filter=state eq 'Pending' and carId eq {car}&$orderby=requested&{names}"
        rows = carol.get(path).json()
    assert [(row["kind"], row["start"], row["end"], row["finished"]) for row in rows] == [
        ("CreateAssignment", START, None, None),
        ("UpdateAssignment", START, "2026-01-09T08:00:00Z", None),
        ("DeleteAssignment", START, END, None),
    ]
    assert {row["car"]["name"] for row in rows} == {"Pool 1"}
    assert {row["user"]["userData"]["lastName"] for row in rows} == {"User"}
    eventually(lambda: carol.get(path).json() == [], "the work")
    ended = carol.get("/operations?$filter=kind eq 'DeleteAssignment'").json()
    assert [(row["start"], row["end"]) for row in ended] == [(START, "2026-01-09T08:00:00Z")]


def test_a_failed_operation_has_an_error_code(carol: Person) -> None:
    car, user = carol.car("bare"), carol.user()
    failed = outcome(carol, carol.put("/assignments", new(car, user, end=END)))
    assert (failed["errorMessage"], failed["errorCode"]) == (TEXTS[NO_BOX], "no-key-box")
    assert (failed["start"], failed["end"]) == (START, END)
    asks = ("state eq 'Failed'", f"carId eq {car}", f"userId eq {user}", "errorCode eq 'no-key-box'", f"end eq {END}")
    for ask in asks:
        assert [row["id"] for row in carol.get(f"/operations?$filter={ask}").json()] == [failed["id"]]
    for ask in ("state eq 'Pending'", f"carId eq {car + 1}", "errorCode eq 'no-user'", "start eq null"):
        assert carol.get(f"/operations?$filter={ask}").json() == []


def test_every_error_code_has_a_distinct_text() -> None:
    public = {name: value for name, value in vars(failure_codes).items() if name.isupper() and name[0] != "_"}
    assert {public[name] for name in public.keys() - {"CODE", "TEXT", "TEXTS"}} == set(TEXTS)
    assert len(set(TEXTS.values())) == len(TEXTS)


def test_a_code_is_stored_and_its_text_is_made_from_it(carol: Person) -> None:
    car, user = carol.car("bare"), carol.user()
    failed = outcome(carol, carol.put("/assignments", new(car, user)))
    stored = "select error_code, error_message from operation where operation_id = $1::text::uuid"
    assert tuple(carol.sql.rows(stored, failed["id"])[0]) == (NO_BOX, TEXTS[NO_BOX])
    carol.sql.execute("update operation set error_message = 'Old words.' where operation_id::text = $1", failed["id"])
    shown = carol.get(f"/operations/{failed['id']}").json()
    assert (shown["errorMessage"], shown["errorCode"]) == (TEXTS[NO_BOX], NO_BOX)
    carol.sql.execute("update operation set error_code = 'of-later' where operation_id::text = $1", failed["id"])
    shown = carol.get(f"/operations/{failed['id']}").json()
    assert (shown["errorMessage"], shown["errorCode"]) == ("Old words.", "of-later"), "of a later release"


# Codes that an older release does not know
OF_THIS_RELEASE = (CONFLICT, EXTERNAL_ID_TAKEN, METADATA_TOO_LARGE)


@pytest.mark.parametrize("code", [code for code in TEXTS if code not in OF_THIS_RELEASE])
def test_a_process_of_an_older_release_writes_a_text_that_gets_its_code(carol: Person, code: str) -> None:
    car, user = carol.car("bare"), carol.user()
    older = "update operation set error_code = null, error_message = null where operation_id::text = $1"
    failed = outcome(carol, carol.put("/assignments", new(car, user)))["id"]
    carol.sql.execute(older, failed)
    write = "update operation set state = 'Failed', error_message = $2 where operation_id::text = $1"
    carol.sql.execute(write, failed, text_of(code))
    stored = carol.sql.value("select error_code from operation where operation_id::text = $1", failed)
    assert (stored, carol.get(f"/operations/{failed}").json()["errorCode"]) == (code, code)


def test_old_failed_operations_get_codes_in_batches(carol: Person, dsn: str) -> None:
    car, user = carol.car("bare"), carol.user()
    older = [outcome(carol, carol.put("/assignments", new(car, user)))["id"] for _ in range(3)]
    mine = "where customer_id = $1 and operation_id = any($2::text[]::uuid[])"
    carol.sql.execute("alter table operation disable trigger add_failure_code")
    try:
        carol.sql.execute(f"update operation set error_code = null {mine}", carol.customer, older)
        carol.sql.execute(
            "update operation set error_message = 'In no list.' where operation_id::text = $1", unknown := older.pop()
        )
    finally:
        carol.sql.execute("alter table operation enable trigger add_failure_code")
    shown = carol.get(f"/operations?$filter=errorCode eq '{NO_BOX}' and carId eq {car}").json()
    assert {row["id"] for row in shown} == {*older}, "before housekeeping, too"

    async def fill() -> None:
        database = await Database.connect(dsn, patient_settings())
        try:
            await failure_backfill.fill(database, Settings().model_copy(update={"housekeeping_rows": 1}))
        finally:
            await database.close()

    asyncio.run(fill())
    stored = f"select operation_id::text, error_code from operation {mine}"
    codes = carol.sql.rows(stored, carol.customer, [*older, unknown])
    assert {row[0]: row[1] for row in codes} == {**dict.fromkeys(older, NO_BOX), unknown: None}
    assert carol.get(f"/operations/{unknown}").json()["errorMessage"] == "In no list."


def test_the_order_per_car_holds_under_load(alice: Person) -> None:
    user = alice.user()
    cars = [alice.car_with_box() for _ in range(4)]
    ids = {car: alice.assignment(car, user) for car in cars}

    def change(car: int) -> list[str]:
        return [
            asked(
                alice.patch(
                    f"/assignments/{ids[car]}", [{"op": "replace", "path": "/lifetime", "value": 700_000 + step}]
                )
            )
            for step in range(25)
        ]

    with ThreadPoolExecutor(4) as threads:
        wanted = dict(zip(cars, threads.map(change, cars), strict=True))
    for car in cars:
        eventually(lambda car=car: alice.get(f"/assignments/{ids[car]}").json()["lifetime"] == 700_024, "the last one")
        rows = alice.sql.rows(
            "select operation_id::text as id from operation where car_id = $1 and kind = 'UpdateAssignment'"
            " order by applied",
            car,
        )
        assert [row["id"] for row in rows] == wanted[car]


@pytest.mark.parametrize(
    "request_",
    [
        '{"start": "not a time", "end": null, "lifetime": null, "renewableAfter": null}',
        '{"start": "2026-01-01T08:00:00Z", "end": null, "lifetime": 1099511627776, "renewableAfter": 1}',
        "[]",
    ],
)
def test_a_faulty_operation_fails_alone_after_three_attempts(carol: Person, request_: str) -> None:
    car, other, user = carol.car_with_box(), carol.car_with_box(), carol.user()
    with nobody_works(carol):
        poisoned = carol.sql.value(ASKED, carol.customer, car, user, request_)
        behind = carol.put("/assignments", new(other, user))
    assert outcome(carol, behind)["state"] == "Succeeded"
    row = carol.sql.rows(
        "select state, error_message, attempts, applied from operation where operation_id::text = $1", poisoned
    )[0]
    shown = carol.get(f"/operations/{poisoned}").json()
    assert (shown["errorCode"], shown["end"]) == ("internal-error", None)
    assert tuple(row) == ("Failed", TEXTS[GIVEN_UP], 2, 1), "two tries that were repeated, and the third"


def test_a_change_names_the_old_and_the_new_car_and_user(carol: Person) -> None:
    old, new_car, user, new_user = carol.car_with_box("Old"), carol.car_with_box("New"), carol.user(), carol.user()
    id = carol.assignment(old, user)
    expand = "?$expand=car($select=name),newCar($select=name),user($select=id),newUser($select=id)"

    def changed(**members: Any) -> dict[str, Any]:
        steps = [{"op": "replace", "path": f"/{name}", "value": value} for name, value in members.items()]
        operation = outcome(carol, carol.patch(f"/assignments/{id}", steps))
        return carol.get(f"/operations/{operation['id']}{expand}").json()

    shown = changed(carId=new_car, userId=new_user)
    assert (shown["carId"], shown["newCarId"], shown["userId"], shown["newUserId"]) == (old, new_car, user, new_user)
    assert [shown[name] and shown[name]["name"] for name in ("car", "newCar")] == ["Old", "New"]
    assert [shown[name]["id"] for name in ("user", "newUser")] == [user, new_user]
    shown = changed(carId=new_car, end="2031-01-01T00:00:00Z")  # it already has this car
    assert (shown["newCarId"], shown["newUserId"], shown["newCar"], shown["newUser"]) == (None, None, None, None)
    boxless = carol.car("Boxless")
    shown = changed(carId=boxless)
    assert (shown["state"], shown["carId"], shown["newCarId"]) == ("Failed", new_car, boxless)
    with nobody_works(carol):
        pending = asked(carol.patch(f"/assignments/{id}", [{"op": "replace", "path": "/userId", "value": str(user)}]))
        shown = carol.get(f"/operations/{pending}").json()
        assert (shown["state"], shown["userId"], shown["newUserId"]) == ("Pending", new_user, user)
    ended = outcome(carol, carol.delete(f"/assignments/{id}"))
    assert (ended["newCarId"], ended["newUserId"]) == (None, None)


def test_an_operation_names_its_requester(carol: Person, bob: Person) -> None:
    car, user = carol.car_with_box(), carol.user()
    program = Program(carol, "assignments:write")
    ids = {
        "manager": asked(carol.put("/assignments", new(car, user))),
        "client": asked(replace(carol, headers=carol.headers | program.headers()).put("/assignments", new(car, user))),
    }
    for kind, id in ids.items():
        requester = carol.get(f"/operations/{id}").json()["requestedBy"]
        assert (requester["type"], set(requester)) == (kind, {"type", "id", "name"})
        assert bob.get(f"/operations/{id}").status_code == 404
    name = carol.get(f"/operations/{ids['manager']}").json()["requestedBy"]["name"]
    assert name == carol.username
    mine = carol.get(f"/operations?$filter=requestedBy/name eq '{name}'&$select=id").json()
    assert ids["manager"] in [row["id"] for row in mine] and ids["client"] not in [row["id"] for row in mine]


def test_a_caller_may_always_read_its_own_operations(carol: Person, bob: Person) -> None:
    """The client may write assignments, and has no permission for operations."""
    car, user = carol.car_with_box(), carol.user()
    narrow, other = (
        replace(carol, headers=carol.headers | Program(carol, "assignments:write").headers()) for _ in range(2)
    )
    id = asked(narrow.put("/assignments", new(car, user)))
    own = eventually(lambda: (row := narrow.get(f"/operations/{id}").json())["state"] == "Succeeded" and row, "it")
    assert own == carol.get(f"/operations/{id}").json()
    for caller, status in ((other, 404), (bob, 404), (narrow, 200)):
        assert caller.get(f"/operations/{id}").status_code == status
    assert narrow.get(f"/operations/{asked(carol.put('/assignments', new(car, user)))}").status_code == 404
    assert narrow.get("/operations").status_code == 403
    assert narrow.get(f"/operations/{id}?$expand=car").status_code == 403  # `cars:read` is missing
    shown = narrow.put("/assignments", new(car, user), headers={"Prefer": "return=representation"})
    assert (shown.status_code, shown.json()["requestedBy"]["type"]) == (202, "client")
    nothing = Program(carol, "cars:read")
    none = replace(carol, headers=carol.headers | nothing.headers())
    assert none.get(f"/operations/{id}").status_code == 404


def test_ends_caused_by_a_removed_user_are_not_the_callers_own(carol: Person) -> None:
    """They name cars that may be out of the caller's scope."""
    car, user = carol.car_with_box(), carol.user()
    carol.assignment(car, user)
    narrow = replace(carol, headers=carol.headers | Program(carol, "users:write").headers())
    assert narrow.delete("/users/assignments/customers", {"userId": user}).status_code == 204
    (end,) = carol.get(f"/operations?$filter=cause eq 'UserRemoved' and userId eq {user}").json()
    assert end["requestedBy"]["type"] == "client"
    assert narrow.get(f"/operations/{end['id']}").status_code == 404
