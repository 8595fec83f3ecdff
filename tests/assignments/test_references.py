"""`externalId` and `metadata` of assignments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from keyrack.assignments.failure_codes import EXTERNAL_ID_TAKEN, METADATA_TOO_LARGE, NO_BOX
from tests.auth.group_scope import limited
from tests.changelog.test_audited_tables import changes
from tests.fleet.test_references import LIMITS, problem, program
from tests.support.people import Person, Town, nobody_works
from tests.support.servers import NUMBERS, eventually
from tests.webhooks.receiver import Receiver

START = "2026-01-01T08:00:00Z"


@pytest.fixture(scope="module")
def car(alice: Person) -> int:
    return alice.car_with_box()


@pytest.fixture(scope="module")
def user(alice: Person) -> int:
    return alice.user()


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


def number() -> str:
    return f"A-{next(NUMBERS)}"


def booked(person: Person, car: int, user: int, **members: Any) -> httpx.Response:
    answer = person.put("/assignments", {"carId": car, "userId": user, "start": START, **members})
    assert answer.status_code == 204, answer.text
    return answer


def outcome(person: Person, answer: httpx.Response) -> dict[str, Any]:
    """The finished operation of an accepted request."""
    path = f"/operations/{answer.headers['operation-id']}"
    return eventually(lambda: (row := person.get(path).json())["state"] != "Pending" and row, "the outcome")


def references(row: dict[str, Any]) -> tuple[str | None, dict[str, str] | None]:
    return row["externalId"], row["metadata"]


def replace(path: str, value: Any) -> dict[str, Any]:
    return {"op": "replace", "path": path, "value": value}


def test_an_assignment_has_both(alice: Person, car: int, user: int, bob: Person) -> None:
    given = (number(), {"booking": "B-1"})
    answer = booked(alice, car, user, externalId=given[0], metadata=given[1])
    done = outcome(alice, answer)
    assert (done["state"], references(done)) == ("Succeeded", given)
    [row] = alice.get(f"/assignments?$filter=externalId eq '{given[0]}'").json()
    assert references(row) == given, "GET /assignments is an extension"
    id = row["id"]
    path = f"/assignments/{id}"
    assert {"externalId", "metadata"}.isdisjoint(alice.get(path).json()), "the spec's read has the spec's members"
    assert references(alice.get(f"{path}?$select=externalId,metadata").json()) == given
    for listed in (f"/cars/{car}/assignments", f"/users/{user}/assignments"):
        assert "externalId" not in alice.get(listed).json()[0]
        [found] = alice.get(f"{listed}?$filter=metadata/booking eq 'B-1' and id eq {id}&$select=externalId").json()
        assert found == {"externalId": given[0]}
    client = program(alice, "assignments:read")
    assert references(client.get(path).json()) == given
    assert bob.get(f"/assignments?$filter=externalId eq '{given[0]}'").json() == []
    created = changes(alice, "assignment", id)[0]
    assert references(created["after"]) == given


def test_a_patch_changes_both(alice: Person, car: int, user: int) -> None:
    first = number()
    done = outcome(alice, booked(alice, car, user, externalId=first, metadata={"a": "1"}))
    path, second = f"/assignments/{done['assignmentId']}", number()
    steps = [replace("/externalId", second), replace("/metadata/b", "2")]
    changed = outcome(alice, alice.patch(path, steps))
    assert (changed["state"], references(changed)) == ("Succeeded", (second, {"a": "1", "b": "2"}))
    change = changes(alice, "assignment", done["assignmentId"])[-1]
    assert (change["before"], change["after"]) == (
        {"externalId": first, "metadata": {"a": "1"}},
        {"externalId": second, "metadata": {"a": "1", "b": "2"}},
    )
    steps = [{"op": "remove", "path": "/externalId"}, {"op": "remove", "path": "/metadata/a"}]
    assert references(outcome(alice, alice.patch(path, steps))) == (None, {"b": "2"})
    assert references(outcome(alice, alice.patch(path, [replace("/metadata", {"c": "3"})]))) == (None, {"c": "3"})
    assert references(outcome(alice, alice.patch(path, [replace("/lifetime", 700_000)]))) == (None, {"c": "3"})
    assert references(outcome(alice, alice.patch(path, [{"op": "remove", "path": "/metadata"}]))) == (None, None)
    full = {f"k{place}": "v" for place in range(20)}
    outcome(alice, alice.patch(path, [replace("/metadata", full)]))
    more = outcome(alice, alice.patch(path, [replace("/metadata/more", "v")]))
    assert (more["state"], more["errorCode"]) == ("Failed", METADATA_TOO_LARGE)
    assert alice.get(f"{path}?$select=metadata").json() == {"metadata": full}
    ended = outcome(alice, alice.delete(path))
    assert references(ended) == (None, full), "the outcome of an end has them, too"


@pytest.mark.parametrize(("members", "pointer", "code"), LIMITS)
def test_limits(members: dict[str, Any], pointer: str, code: str, alice: Person, car: int, user: int) -> None:
    body = {"carId": car, "userId": user, "start": START, **members}
    status, answer = problem(alice, "PUT", "/assignments", body)
    assert status == 400, answer
    assert [(fault["pointer"], fault["code"]) for fault in answer["errors"]] == [(pointer, code)]
    [(name, value)] = members.items()
    status, answer = problem(alice, "PATCH", "/assignments/1", [replace(f"/{name}", value)])
    assert status == 400, answer
    place = "/0/value" + pointer.removeprefix(f"/{name}")
    assert [(fault["pointer"], fault["code"]) for fault in answer["errors"]] == [(place, code)]


def test_a_failed_booking_releases_its_number(
    alice: Person, car: int, user: int, receiver: Receiver, bob: Person
) -> None:
    url = receiver.url + "/failed"
    alice.put("/webhooks", {"url": url, "kinds": ["assignment.*"]}).raise_for_status()
    given = (number(), {"booking": "B-7"})
    without_box = alice.car()
    failed = outcome(alice, booked(alice, without_box, user, externalId=given[0], metadata=given[1]))
    assert (failed["state"], failed["errorCode"], references(failed)) == ("Failed", NO_BOX, given)
    succeeded = outcome(alice, booked(alice, car, user, externalId=given[0], metadata=given[1]))
    assert (succeeded["state"], references(succeeded)) == ("Succeeded", given)

    def sent() -> list[dict[str, Any]]:
        return [request.payload for request in receiver.of("/failed") if request.payload["externalId"] == given[0]]

    payloads = eventually(lambda: len(sent()) >= 2 and sent(), "both outcomes")
    assert {payload["operationSucceeded"] for payload in payloads} == {True, False}
    assert all(references(payload) == given for payload in payloads)
    assert outcome(bob, booked(bob, bob.car_with_box(), bob.user(), externalId=given[0]))["state"] == "Succeeded"


def test_a_taken_number_is_refused_at_once(alice: Person, car: int, user: int) -> None:
    taken = number()
    done = outcome(alice, booked(alice, car, user, externalId=taken))
    body = {"carId": car, "userId": user, "start": START, "externalId": taken}
    status, answer = problem(alice, "PUT", "/assignments", body)
    assert (status, answer["code"], answer["id"]) == (409, "external-id-taken", done["assignmentId"])
    other = outcome(alice, booked(alice, car, user))["assignmentId"]
    status, answer = problem(alice, "PATCH", f"/assignments/{other}", [replace("/externalId", taken)])
    assert (status, answer["id"], answer["errors"][0]["pointer"]) == (409, done["assignmentId"], "/0/value")
    own = alice.patch(f"/assignments/{done['assignmentId']}", [replace("/externalId", taken)])
    assert outcome(alice, own)["state"] == "Succeeded", "an assignment may keep its own number"
    items = [{"op": "create", "body": body}, {"op": "change", "id": other, "patch": [replace("/externalId", taken)]}]
    results = alice.post("/batch", {"kind": "assignments", "items": items}).json()["results"]
    assert [(result["status"], result["id"]) for result in results] == [(409, done["assignmentId"])] * 2


def test_the_second_of_two_pending_ones_fails(alice: Person, car: int, user: int) -> None:
    taken = number()
    with nobody_works(alice):
        first, second = (booked(alice, car, user, externalId=taken) for _ in range(2))
    assert outcome(alice, first)["state"] == "Succeeded"
    failed = outcome(alice, second)
    assert (failed["state"], failed["errorCode"], failed["externalId"]) == ("Failed", EXTERNAL_ID_TAKEN, taken)
    items = [{"op": "create", "body": {"carId": car, "userId": user, "start": START, "externalId": number()}}] * 2
    dry = alice.post("/batch", {"kind": "assignments", "items": items, "dryRun": True}).json()["results"]
    assert ["wouldFail" in result for result in dry] == [False, True]


def test_numbers_move_between_assignments_in_their_order(alice: Person, car: int, user: int) -> None:
    one, two, three = number(), number(), number()
    first, second = (outcome(alice, booked(alice, car, user, externalId=id))["assignmentId"] for id in (one, two))
    with nobody_works(alice):
        answers = [
            alice.patch(f"/assignments/{first}", [replace("/externalId", three)]),
            alice.patch(f"/assignments/{second}", [replace("/externalId", one)]),
            alice.patch(f"/assignments/{first}", [replace("/externalId", two)]),
        ]
        ended = alice.delete(f"/assignments/{second}")
        again = booked(alice, car, user, externalId=one)
    assert [outcome(alice, answer)["state"] for answer in (*answers, ended, again)] == ["Succeeded"] * 5
    rows = alice.get(f"/assignments?$filter=externalId in ('{one}','{two}','{three}')&$orderby=id").json()
    assert [(row["id"], row["externalId"]) for row in rows] == [
        (first, two), (outcome(alice, again)["assignmentId"], one),
    ]  # fmt: skip


def test_the_ends_of_a_removed_car_name_both(alice: Person, user: int) -> None:
    car, given = alice.car_with_box(), (number(), {"a": "1"})
    id = outcome(alice, booked(alice, car, user, externalId=given[0], metadata=given[1]))["assignmentId"]
    assert alice.delete(f"/cars/{car}").status_code == 204
    query = f"/operations?$filter=assignmentId eq {id} and kind eq 'DeleteAssignment'"
    [row] = eventually(lambda: (rows := alice.get(query).json()) and rows[0]["state"] != "Pending" and rows, "the end")
    assert references(row) == given
    assert outcome(alice, booked(alice, alice.car_with_box(), user, externalId=given[0]))["state"] == "Succeeded"


def test_a_limited_manager_learns_no_id(alice: Person, town: Town) -> None:
    group, car, user = alice.group(), alice.car_with_box(), alice.user()
    alice.put(f"/groups/{group}/cars", {"carId": car}).raise_for_status()
    alice.put(f"/groups/{group}/users", {"userId": user}).raise_for_status()
    caller = limited(town, alice, "limited", [group])
    taken = number()
    outcome(alice, booked(alice, alice.car_with_box(), alice.user(), externalId=taken))
    body = {"carId": car, "userId": user, "start": START, "externalId": taken}
    taken_by_a_car = number()
    alice.put("/cars", {"name": "Hidden", "externalId": taken_by_a_car}).raise_for_status()
    requests = (("/assignments", body), ("/cars", {"name": "Own", "externalId": taken_by_a_car}))
    for path, sent in requests:
        status, answer = problem(caller, "PUT", path, sent)
        assert (status, answer["code"]) == (409, "external-id-taken"), answer
        assert "id" not in answer
