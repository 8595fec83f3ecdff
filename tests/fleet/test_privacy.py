"""Privacy: export and erasure of a person, and customers without stored positions."""

from __future__ import annotations

import json
import uuid

import httpx
import pytest

from tests.cli.test_operator_commands import Operator
from tests.support.people import Person, done
from tests.support.servers import eventually
from tests.telemetry.endpoints.test_ingest import ACCEPTED, ago, unit_of


@pytest.fixture
def operator(dsn: str) -> Operator:
    return Operator(dsn)


def test_an_export_has_everything_about_a_person(alice: Person, operator: Operator) -> None:
    car = alice.car_with_box()
    user = alice.user(email="Told@example.org", password="a long password", type="Normal")
    alice.put(f"/groups/{alice.group('Told')}/users", {"userId": user})
    alice.assignment(car, user)
    event = alice.event(car, user, latitude=52.5, longitude=13.4)
    told = operator.value("user", "export", "told@EXAMPLE.org")
    assert told["person"] | {"createdAt": ""} == {
        "id": user, "emailAddress": "Told@example.org", "firstName": "Uma", "lastName": "User", "type": "Normal",
        "hasPassword": True, "passwordCustomerId": alice.customer, "createdAt": "", "leftAt": None,
    }  # fmt: skip
    (customer,) = told["customers"]
    subject = customer.pop("subject")
    assert customer == {"id": alice.customer, "name": "alice's fleet", "externalId": None, "metadata": None}
    assert subject == str(uuid.UUID(subject))
    assert [group["name"] for group in told["groups"]] == ["Told"]
    assert [row["carId"] for row in told["assignments"]] == [car]
    assert [(row["id"], row["latitude"], row["userAgent"]) for row in told["events"]] == [(event, 52.5, "tests")]
    assert [row["kind"] for row in told["operations"]] == ["CreateAssignment"]
    assert "password" not in json.dumps(told).replace("hasPassword", "").replace("passwordCustomerId", "")


def test_hand_overs_are_exported_and_erased_with_both_users(alice: Person, operator: Operator) -> None:
    car, giver, taker = alice.car_with_box(), alice.user(), alice.user()
    assignment = alice.assignment(car, giver)
    done(alice.patch(f"/assignments/{assignment}", [{"op": "replace", "path": "/userId", "value": taker}]))
    eventually(lambda: alice.get(f"/assignments/{assignment}").json()["userId"] == taker, "the hand-over")
    for user in (giver, taker):
        operations = operator.value("user", "export", user)["operations"]
        assert "UpdateAssignment" in [row["kind"] for row in operations]
    operator.value("user", "erase", taker, "--yes")
    (moved,) = alice.get(f"/operations?$filter=assignmentId eq {assignment} and kind eq 'UpdateAssignment'").json()
    assert (moved["userId"], moved["newUserId"]) == (giver, None)


def test_events_remain_after_their_person_is_erased(alice: Person, bob: Person, operator: Operator) -> None:
    car = alice.car_with_box()
    user = alice.user(email="gone@example.org")
    done(bob.put("/users/assignments/customers", {"emailAddress": "gone@example.org"}))
    alice.assignment(car, user)
    event = alice.event(car, user, latitude=52.5, longitude=13.4)
    bobs = bob.event(bob.car(), user)
    assert "--yes" in operator.refused("user", "erase", user)
    assert operator.value("user", "erase", user, "--yes") == {"id": user, "events": 2}
    eventually(lambda: alice.get(f"/cars/{car}/assignments").json() == [], "the end of the assignment")
    assert alice.get(f"/users/{user}").status_code == 404
    for person, id in ((alice, event), (bob, bobs)):
        kept = person.get(f"/events/{id}").json()
        assert (kept["userId"], kept["userAgent"], kept["latitude"]) == (0, "erased", None)
        assert kept["utcDateTime"] == "2026-05-01T08:00:00Z"
    assert alice.get(f"/cars/{car}/events?$count=true").headers["X-Total-Count"] == "1"
    assert alice.sql.value("select count(*) from person where user_id = $1", user) == 0
    assert alice.sql.value("select count(*) from operation where user_id = $1 and kind = 'CreateAssignment'", user) == 0
    assert operator.refused("user", "export", user) == f"keyrack: There is no user {user}.\n"


def test_a_customer_may_stop_storing_positions(bob: Person, operator: Operator) -> None:
    unit = unit_of(bob)
    place = {"currentLatitude": 50.0, "currentLongitude": 8.0}
    unit.tell(9, odometer=1, **place)
    user = bob.user()
    event = bob.event(unit.car, user, latitude=1, longitude=1)
    operator.value("privacy", "positions", "--customer", bob.customer, "--stop", "--yes")
    assert unit.tell(8, odometer=2, **place) == ACCEPTED
    location = unit.get("location")
    assert (location["latitude"], location["date"], location["odometer"]) == (None, None, "2")
    assert unit.get(f"location/{ago(9)}")["latitude"] is None
    assert unit.get("telemetry")["currentLatitude"] is None
    assert bob.get(f"/events/{event}").json()["latitude"] is None
    assert bob.get(f"/events/{bob.event(unit.car, user, latitude=1, longitude=1)}").json()["latitude"] is None
    operator.value("privacy", "positions", "--customer", bob.customer, "--keep")
    unit.tell(7, **place)
    assert unit.get("location")["latitude"] == "50"


def test_a_customer_has_its_own_retention(bob: Person, operator: Operator) -> None:
    unit = unit_of(bob)
    operator.value("privacy", "history", "--customer", bob.customer, "--days", 2)
    assert unit.tell(60 * 24 * 3, odometer=1)["accepted"] == 0
    operator.value("privacy", "history", "--customer", bob.customer)
    assert unit.tell(60 * 24 * 3, odometer=1)["accepted"] == 1
    operator.refused("privacy", "history", "--customer", 2**31 - 1)


def test_device_keys_are_made_listed_and_revoked(bob: Person, operator: Operator) -> None:
    made = operator.value("device-key", "add", "--customer", bob.customer, "--gateway", "--name", "Gateway")
    headers = {"Device-Key": made["deviceKey"], "Content-Type": "application/json"}

    def deliver() -> httpx.Response:
        return bob.client.post("/ingest/telemetry", content=b"[]", headers=headers)

    assert deliver().status_code == 200
    (listed,) = [
        key for key in operator.value("device-key", "list", "--customer", bob.customer) if key["id"] == made["id"]
    ]
    assert (listed["name"], listed["isActive"]) == ("Gateway", True)
    assert bob.sql.value("select count(*) from device_key where hash = $1", made["deviceKey"].encode()) == 0
    operator.value("device-key", "revoke", made["id"])
    eventually(lambda: deliver().status_code == 401, "the revocation")
    operator.refused("device-key", "revoke", made["id"])
    operator.refused("device-key", "add", "--gateway", "--customer", 2**31 - 1)
