"""Requests of drivers, and their decision."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from keyrack.api.permissions import Role
from tests.auth.group_scope import limited, put
from tests.auth.test_clients import Program
from tests.support.drivers import Booking, SignedInDriver, at, signed_in_driver
from tests.support.people import Person, Town, done, nobody_works
from tests.support.servers import eventually


@pytest.fixture(scope="module")
def driver(alice: Person) -> SignedInDriver:
    return signed_in_driver(alice)


@pytest.fixture
def booking(alice: Person, driver: SignedInDriver) -> Booking:
    return Booking(alice, driver)


def own(driver: SignedInDriver, id: int) -> dict[str, Any]:
    return next(row for row in driver.get("/requests").json() if row["id"] == id)


def test_an_extension_waits_for_a_manager(alice: Person, booking: Booking) -> None:
    answer = booking.ask(kind="extend", end=at(6), comment="Train is late")
    assert (answer.status_code, answer.json()["state"]) == (200, "open"), answer.text
    id = answer.json()["id"]
    shown = alice.get(f"/assignment-requests/{id}").json()
    assert (shown["comment"], shown["end"], shown["state"]) == ("Train is late", at(6), "open")
    granted = alice.put(f"/assignment-requests/{id}/decision", {"decision": "grant", "comment": "Fine"})
    done(granted)
    eventually(lambda: booking.end == at(6), "the extension")
    operation = alice.get(f"/operations/{granted.headers['Operation-Id']}").json()
    assert (operation["kind"], operation["state"]) == ("UpdateAssignment", "Succeeded")
    assert (own(booking.driver, id)["state"], own(booking.driver, id)["reason"]) == ("granted", "Fine")
    again = alice.put(f"/assignment-requests/{id}/decision", {"decision": "grant"})  # changes nothing
    done(again)
    assert again.headers["Operation-Location"] == granted.headers["Operation-Location"]
    other = alice.put(f"/assignment-requests/{id}/decision", {"decision": "reject"})
    assert other.status_code == 409


def test_a_rejected_extension_changes_nothing(alice: Person, booking: Booking) -> None:
    id = booking.ask(kind="extend", end=at(6)).json()["id"]
    rejected = alice.put(f"/assignment-requests/{id}/decision", {"decision": "reject", "comment": "Needed"})
    done(rejected)
    assert "Operation-Id" not in rejected.headers
    assert (own(booking.driver, id)["state"], own(booking.driver, id)["reason"]) == ("rejected", "Needed")
    assert booking.end == at(4)


def test_an_early_end_is_granted_at_once(booking: Booking) -> None:
    answer = booking.ask(kind="end")
    assert answer.json()["state"] == "granted"
    eventually(lambda: booking.end == "ended", "the end")
    assert own(booking.driver, answer.json()["id"])["state"] == "granted"


def test_a_new_request_replaces_the_open_one(booking: Booking) -> None:
    first = booking.ask(kind="extend", end=at(6)).json()["id"]
    assert booking.ask(kind="extend", end=at(7)).json()["id"] == first
    assert own(booking.driver, first)["end"] == at(7)


def test_the_rule_grants_extensions_of_free_cars(alice: Person, driver: SignedInDriver) -> None:
    alice.sql.execute("update customer set driver_extension_hours = 2 where customer_id = $1", alice.customer)
    try:
        booking = Booking(alice, driver)
        assert booking.ask(kind="extend", end=at(5)).json()["state"] == "granted"
        eventually(lambda: booking.end == at(5), "the extension")
        assert booking.ask(kind="extend", end=at(7)).json()["state"] == "open"  # the rule counts from the first end
        taken = Booking(alice, driver)
        alice.assignment(taken.car, alice.user(), at(4.5), end=at(8))
        assert taken.ask(kind="extend", end=at(5)).json()["state"] == "open"
    finally:
        alice.sql.execute("update customer set driver_extension_hours = 0 where customer_id = $1", alice.customer)


def test_a_request_is_withdrawn(alice: Person, booking: Booking) -> None:
    id = booking.ask(kind="extend", end=at(6)).json()["id"]
    done(booking.driver.delete(f"/requests/{id}", customer=alice.customer))
    assert own(booking.driver, id)["state"] == "withdrawn"
    assert alice.put(f"/assignment-requests/{id}/decision", {"decision": "grant"}).status_code == 409


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"kind": "extend"}, 400),
        ({"kind": "end", "end": at(6)}, 400),
        ({"kind": "extend", "end": at(4)}, 409),
        ({"kind": "extend", "end": at(24 * 40)}, 409),
        ({"kind": "extend", "end": at(6), "comment": "x" * 251}, 400),
        ({"kind": "extend", "end": at(6), "assignmentId": 2**31 - 1}, 404),
    ],
)
def test_invalid_requests_are_rejected(booking: Booking, body: dict[str, Any], status: int) -> None:
    assert booking.ask(**body).status_code == status


def test_an_assignment_without_an_end_cannot_be_extended(alice: Person, driver: SignedInDriver) -> None:
    assert Booking(alice, driver, end=None).ask(kind="extend", end=at(6)).status_code == 409


def test_nobody_else_sees_or_changes_a_request(alice: Person, bob: Person, booking: Booking) -> None:
    id = booking.ask(kind="extend", end=at(6)).json()["id"]
    stranger = signed_in_driver(alice)
    assert stranger.get("/requests").json() == []
    body = {"assignmentId": booking.id, "kind": "end"}
    assert stranger.put("/requests", body, customer=alice.customer).status_code == 404
    assert stranger.delete(f"/requests/{id}", customer=alice.customer).status_code == 404
    assert bob.get(f"/assignment-requests/{id}").status_code == 404
    assert bob.put(f"/assignment-requests/{id}/decision", {"decision": "grant"}).status_code == 404
    assert signed_in_driver(bob).put("/requests", body, customer=alice.customer).status_code == 404


def test_an_undecided_request_expires_with_its_assignment(alice: Person, booking: Booking) -> None:
    id = booking.ask(kind="extend", end=at(6)).json()["id"]
    done(alice.delete(f"/assignments/{booking.id}"))
    eventually(lambda: own(booking.driver, id)["state"] == "expired", "the expiry")
    assert alice.put(f"/assignment-requests/{id}/decision", {"decision": "grant"}).status_code == 409


def test_an_early_end_replaces_the_open_request(alice: Person, booking: Booking) -> None:
    first = booking.ask(kind="extend", end=at(6)).json()["id"]
    assert booking.ask(kind="end").json()["id"] != first
    assert own(booking.driver, first)["state"] == "withdrawn"


def test_a_grant_that_fails_later_is_shown_as_rejected(alice: Person, booking: Booking) -> None:
    """The accepted end of the assignment precedes the grant."""
    id = booking.ask(kind="extend", end=at(6)).json()["id"]
    with nobody_works(alice):
        done(alice.delete(f"/assignments/{booking.id}"))
        done(alice.put(f"/assignment-requests/{id}/decision", {"decision": "grant", "comment": "Fine"}))
    eventually(lambda: own(booking.driver, id)["state"] == "rejected", "the failure")
    shown = alice.get(f"/assignment-requests/{id}").json()
    assert (shown["state"], shown["errorCode"], shown["errorMessage"]) == (
        "rejected", "assignment-gone", "The assignment does not exist any more.",
    )  # fmt: skip
    assert own(booking.driver, id)["reason"] == shown["errorMessage"]
    query = f"resource eq 'assignmentRequest' and resourceId eq '{id}'"

    def kinds() -> list[str]:
        rows = alice.get("/changes", params={"$filter": query, "$orderby": "id"}).json()
        return [row["kind"].removeprefix("assignmentRequest.") for row in rows]

    eventually(lambda: kinds() == ["created", "granted", "rejected"], "the changes")


def test_a_request_expires_when_the_assignment_gets_another_car(alice: Person, booking: Booking) -> None:
    id = booking.ask(kind="extend", end=at(6)).json()["id"]
    move = [{"op": "replace", "path": "/carId", "value": alice.car_with_box()}]
    done(alice.patch(f"/assignments/{booking.id}", move))
    eventually(lambda: own(booking.driver, id)["state"] == "expired", "the expiry")
    assert alice.put(f"/assignment-requests/{id}/decision", {"decision": "grant"}).status_code == 409


def test_of_two_decisions_at_once_one_wins(alice: Person, booking: Booking) -> None:
    id = booking.ask(kind="extend", end=at(6)).json()["id"]

    def decide(decision: str) -> int:
        return alice.put(f"/assignment-requests/{id}/decision", {"decision": decision}).status_code

    with ThreadPoolExecutor(2) as threads:
        answers = dict(zip(("grant", "reject"), threads.map(decide, ("grant", "reject")), strict=True))
    assert sorted(answers.values()) == [204, 409]
    won = "granted" if answers["grant"] == 204 else "rejected"
    assert own(booking.driver, id)["state"] == won


def test_a_request_and_its_replacement_are_decided_without_a_deadlock(alice: Person, booking: Booking) -> None:
    """A manager decides while the driver replaces the request."""
    id = booking.ask(kind="extend", end=at(6)).json()["id"]
    with ThreadPoolExecutor(2) as threads:
        decided = threads.submit(alice.put, f"/assignment-requests/{id}/decision", {"decision": "reject"})
        replaced = threads.submit(booking.ask, kind="extend", end=at(7))
    assert (decided.result().status_code, replaced.result().status_code) == (204, 200)


def test_a_group_limited_manager_decides_about_the_groups_alone(town: Town) -> None:
    whole = town.person("requests")
    driver, group = signed_in_driver(whole), whole.group()
    seen, hidden = Booking(whole, driver), Booking(whole, driver)
    put(whole, group, "carId", seen.car)
    put(whole, group, "userId", driver.user)
    gina = limited(town, whole, "gina", [group], Role.DISPATCHER)
    ids = [booking.ask(kind="extend", end=at(6)).json()["id"] for booking in (seen, hidden)]
    assert [row["id"] for row in gina.get("/assignment-requests").json()] == ids[:1]
    assert gina.get(f"/assignment-requests/{ids[1]}").status_code == 404
    assert gina.put(f"/assignment-requests/{ids[1]}/decision", {"decision": "grant"}).status_code == 404
    done(gina.put(f"/assignment-requests/{ids[0]}/decision", {"decision": "grant"}))
    eventually(lambda: seen.end == at(6), "the extension")
    assert hidden.end == at(4)
    for person in (gina, whole):
        person.client.close()


def test_machine_clients_need_the_permission(alice: Person, booking: Booking) -> None:
    id = booking.ask(kind="extend", end=at(6)).json()["id"]
    path, body = f"/assignment-requests/{id}/decision", {"decision": "reject"}
    reader, writer = (Program(alice, f"assignments:{word}").headers() for word in ("read", "write"))
    assert alice.get("/assignment-requests", headers=reader).status_code == 200
    assert alice.put(path, body, headers=reader).status_code == 403
    done(alice.put(path, body, headers=writer))
    assert alice.get(f"/assignment-requests/{id}").json()["decidedBy"] == "client"
