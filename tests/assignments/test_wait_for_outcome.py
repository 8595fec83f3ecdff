"""`Prefer: wait`: a response that waits for the outcome of its operations."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from keyrack.core.settings import Settings
from keyrack.http import prefer_header
from tests.support.people import Person, Town, done, nobody_works
from tests.support.servers import RunningServer, Sql, eventually

WAIT = {"Prefer": "wait=30"}
SHORT = {"Prefer": "wait=1"}
NO_BOX = "no-key-box"


def booking(person: Person, car: int | None = None) -> dict[str, Any]:
    car = person.car_with_box() if car is None else car
    return {"carId": car, "userId": person.user(), "start": "2026-01-01T08:00:00Z"}


def pending(person: Person) -> str:
    """An operation that is pending. Call it within `nobody_works`."""
    answer = person.put("/assignments", booking(person))
    done(answer)
    return answer.headers["operation-id"]


def shown(answer: httpx.Response, status: int, state: str, seconds: int = 30) -> dict[str, Any]:
    """Check the response with an operation, and return it."""
    operation = answer.json()
    assert (answer.status_code, operation["state"]) == (status, state)
    assert answer.headers["preference-applied"] == f"wait={seconds}"
    assert answer.headers["vary"] == "Prefer"
    return operation


@contextmanager
def meanwhile(call: Callable[[], httpx.Response]) -> Iterator[Future[httpx.Response]]:
    """Send a request in a thread within the context."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(call)


def test_a_creation_waits_for_its_outcome(alice: Person) -> None:
    answer = alice.put("/assignments", booking(alice), headers=WAIT)
    operation = shown(answer, 200, "Succeeded")
    assert operation["id"] == answer.headers["operation-id"]
    assert operation == alice.get(f"/operations/{operation['id']}").json()
    assert alice.get(f"/assignments/{operation['assignmentId']}").status_code == 200
    assert "etag" not in answer.headers
    assert "ratelimit" in answer.headers


def test_changes_and_ends_wait_for_their_outcomes(alice: Person) -> None:
    assignment = alice.put("/assignments", booking(alice), headers=WAIT).json()["assignmentId"]
    patch = [{"op": "replace", "path": "/end", "value": "2030-01-01T08:00:00Z"}]
    changed = shown(alice.patch(f"/assignments/{assignment}", patch, headers=WAIT), 200, "Succeeded")
    assert (changed["kind"], changed["end"]) == ("UpdateAssignment", "2030-01-01T08:00:00Z")
    tag = alice.get(f"/assignments/{assignment}").headers["etag"]
    ended = shown(alice.delete(f"/assignments/{assignment}", headers=WAIT | {"If-Match": tag}), 200, "Succeeded")
    assert ended["kind"] == "DeleteAssignment"


def test_a_failed_operation_is_no_error(alice: Person) -> None:
    operation = shown(alice.put("/assignments", booking(alice, alice.car()), headers=WAIT), 200, "Failed")
    assert operation["errorCode"] == NO_BOX


def test_a_rejected_request_does_not_wait(alice: Person) -> None:
    answer = alice.put("/assignments", booking(alice) | {"carId": 2_000_000_000}, headers=WAIT)
    assert answer.status_code == 404
    assert "preference-applied" not in answer.headers


def test_an_operation_without_an_outcome_is_accepted(alice: Person) -> None:
    with nobody_works(alice):
        answer = alice.put("/assignments", booking(alice), headers=SHORT)
        operation = shown(answer, 202, "Pending", 1)
        assert operation["id"] == answer.headers["operation-id"]
        read = alice.get(f"/operations/{operation['id']}", params={"wait": "1"})
        assert shown(read, 202, "Pending", 1) == operation
    assert shown(alice.get(f"/operations/{operation['id']}?wait=30"), 200, "Succeeded")["id"] == operation["id"]


def test_an_outcome_ends_the_wait_of_a_read(alice: Person) -> None:
    with nobody_works(alice):
        operation = pending(alice)
        waiting = alice.get(f"/operations/{operation}", headers=SHORT)
        assert shown(waiting, 202, "Pending", 1)["id"] == operation
    assert shown(alice.get(f"/operations/{operation}", headers=WAIT), 200, "Succeeded")["id"] == operation


def test_a_read_with_a_tag_waits_until_it_differs(alice: Person) -> None:
    with nobody_works(alice):
        operation = pending(alice)
        tag = alice.get(f"/operations/{operation}").headers["etag"]
        same = alice.get(f"/operations/{operation}?wait=1", headers={"If-None-Match": tag})
        assert (same.status_code, same.content) == (304, b"")
    changed = alice.get(f"/operations/{operation}?wait=30", headers={"If-None-Match": tag})
    assert shown(changed, 200, "Succeeded")["id"] == operation


def test_a_batch_waits_for_all_outcomes(alice: Person) -> None:
    items = [booking(alice), booking(alice, alice.car()), booking(alice) | {"userId": 2_000_000_000}]
    body = {"kind": "assignments", "items": [{"op": "create", "body": item} for item in items]}
    answer = alice.post("/batch", body, headers=WAIT)
    report = answer.json()
    assert answer.status_code == 200
    assert answer.headers["preference-applied"] == "wait=30"
    assert (report["done"], report["refused"]) == (2, 1)
    assert [result["status"] for result in report["results"]] == [200, 200, 404]
    first, second, _ = report["results"]
    assert [first["operation"]["state"], second["operation"]["state"]] == ["Succeeded", "Failed"]
    assert second["operation"]["errorCode"] == NO_BOX
    for result in (first, second):
        assert result["operation"] == alice.get(f"/operations/{result['operationId']}").json()


def test_a_batch_shows_what_is_pending(alice: Person) -> None:
    body = {"kind": "assignments", "items": [{"op": "create", "body": booking(alice)}]}
    with nobody_works(alice):
        answer = alice.post("/batch", body, headers=SHORT)
        (result,) = answer.json()["results"]
        assert (answer.status_code, result["status"], result["operation"]["state"]) == (202, 202, "Pending")


def test_a_long_batch_waits_for_each_item(alice: Person) -> None:
    car, user = alice.car_with_box(), alice.user()
    item = {"carId": car, "userId": user, "start": "2026-01-01T08:00:00Z"}
    body = {"kind": "assignments", "items": [{"op": "create", "body": item} for _ in range(70)]}
    answer = alice.post("/batch", body, headers=WAIT)
    assert answer.status_code == 200
    assert {result["operation"]["state"] for result in answer.json()["results"]} == {"Succeeded"}


def test_batches_without_operations_do_not_wait(alice: Person) -> None:
    for body in (
        {"kind": "cars", "items": [{"op": "create", "body": {"name": "Made"}}]},
        {"kind": "assignments", "dryRun": True, "items": [{"op": "create", "body": booking(alice)}]},
    ):
        answer = alice.post("/batch", body, headers=WAIT)
        assert answer.status_code == 200
        assert "preference-applied" not in answer.headers
        assert "operation" not in answer.json()["results"][0]


def test_callers_without_the_preference_get_the_response_of_the_spec(alice: Person) -> None:
    body = booking(alice)
    for headers in ({}, {"Prefer": "wait"}, {"Prefer": "wait=0"}, {"Prefer": "wait=-1"}, {"Prefer": "wait=1.5"}):
        answer = alice.put("/assignments", body, headers=headers)
        done(answer)
        assert "preference-applied" not in answer.headers
    minimal = alice.put("/assignments", body, headers={"Prefer": "return=minimal, wait=30"})
    done(minimal)
    assert minimal.headers["preference-applied"] == "return=minimal"


def test_a_longer_wait_is_shortened(alice: Person) -> None:
    shown(alice.put("/assignments", booking(alice), headers={"Prefer": "wait=3600"}), 200, "Succeeded")


@pytest.mark.parametrize("value", ["0", "31", "-1", "1.5", "x", ""])
def test_a_query_outside_of_the_range_is_an_error(alice: Person, value: str) -> None:
    answer = alice.get(f"/operations/{uuid.uuid4()}", params={"wait": value})
    assert answer.status_code == 400
    assert "1 to 30" in answer.text


def test_query_options_shape_the_operation(alice: Person) -> None:
    answer = alice.put("/assignments?$select=state,carId", booking(alice), headers=WAIT)
    assert answer.json() == {"state": "Succeeded", "carId": answer.json()["carId"]}
    before = len(alice.get("/operations").json())
    assert alice.put("/assignments?$select=nonsense", booking(alice), headers=WAIT).status_code == 400
    assert len(alice.get("/operations").json()) == before


def test_both_preferences_are_applied(alice: Person) -> None:
    answer = alice.put("/assignments", booking(alice), headers={"Prefer": "return=representation, wait=30"})
    assert (answer.status_code, answer.json()["state"]) == (200, "Succeeded")
    assert answer.headers["preference-applied"] == "return=representation, wait=30"


def test_a_repeated_request_gets_the_outcome(alice: Person) -> None:
    body, key = booking(alice), {"Idempotency-Key": str(uuid.uuid4())}
    with nobody_works(alice):
        first = alice.put("/assignments", body, headers=key | SHORT)
        shown(first, 202, "Pending", 1)
    again = alice.put("/assignments", body, headers=key | WAIT)
    operation = shown(again, 200, "Succeeded")
    assert operation["id"] == first.json()["id"]
    assert again.headers["idempotency-replayed"] == "true"
    without = alice.put("/assignments", body, headers=key)
    done(without)
    assert without.headers["operation-id"] == operation["id"]


def test_a_repeated_batch_gets_the_outcomes(alice: Person) -> None:
    body = {"kind": "assignments", "items": [{"op": "create", "body": booking(alice)}]}
    key = {"Idempotency-Key": str(uuid.uuid4())}
    first = alice.post("/batch", body, headers=key)
    again = alice.post("/batch", body, headers=key | WAIT)
    (result,) = again.json()["results"]
    assert result["operationId"] == first.json()["results"][0]["operationId"]
    assert (result["status"], result["operation"]["state"]) == (200, "Succeeded")


def test_another_customer_cannot_wait_for_an_operation(alice: Person, bob: Person) -> None:
    with nobody_works(alice):
        operation = pending(alice)
        there = bob.get(f"/operations/{operation}?wait=30")
        missing = bob.get(f"/operations/{uuid.uuid4()}?wait=30")
        assert (there.status_code, there.text) == (missing.status_code, missing.text) == (404, missing.text)


def test_a_caller_without_the_permission_sees_its_own_operation(alice: Person, town: Town) -> None:
    driver_desk = town.colleague(alice, "desk", "Dispatcher")
    operation = shown(driver_desk.put("/assignments", booking(alice), headers=WAIT), 200, "Succeeded")
    assert operation["requestedBy"]["name"] == driver_desk.username


def waited(answer: httpx.Response) -> httpx.Response | None:
    return answer if answer.status_code == 404 or "preference-applied" in answer.headers else None


def not_waited(answer: httpx.Response) -> httpx.Response | None:
    return answer if "preference-applied" not in answer.headers else None


def test_requests_above_the_limit_do_not_wait(dsn: str, sql: Sql, settings: Settings) -> None:
    few = settings.model_copy(update={"outcome_waits_per_customer": 1})
    with RunningServer(few, dsn, worker=False) as server:
        anna = Town(sql, server).person("anna")
        body = booking(anna)  # first, because an installation applies what is pending
        with nobody_works(anna):
            operation = pending(anna)
            read = f"/operations/{operation}?wait="
            # Each of the two repeats until it gets what it is there for, since either may come first
            with meanwhile(lambda: eventually(lambda: waited(anna.get(read + "30")), "the wait")) as waiting:
                answer = eventually(lambda: not_waited(anna.get(read + "1")), "the limit")
                assert (answer.status_code, answer.json()["state"]) == (200, "Pending")
                created = anna.put("/assignments", body, headers=WAIT)
                done(created)
                assert "preference-applied" not in created.headers
                sql.execute("delete from operation where customer_id = $1", anna.customer)
                assert waiting.result().status_code == 404  # the end of the wait


def test_shutdown_ends_the_wait(dsn: str, sql: Sql, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefer_header, "LONGEST_WAIT", 3_600)
    with RunningServer(settings, dsn, worker=False) as server:
        anna = Town(sql, server).person("anna")
        body = booking(anna)
        with (
            nobody_works(anna),
            meanwhile(lambda: anna.put("/assignments", body, headers={"Prefer": "wait=3600"})) as waiting,
        ):
            eventually(lambda: anna.get("/operations").json(), "the operation")
            server.begin_shutdown()
            answer = waiting.result()
    assert (answer.status_code, answer.json()["state"]) == (202, "Pending")
