"""Erasure of a person from a customer: preview, erasure, and the data of other customers."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from keyrack.core.settings import Settings
from keyrack.db.connection import Database
from keyrack.fleet import global_erasure, person_erasure
from keyrack.fleet.endpoints.users import NO_USER
from tests.fleet.endpoints.test_users import MEMBERSHIP
from tests.support.people import Person, Town, done, nobody_works, refused
from tests.support.servers import Sql, eventually

START, END = "2026-01-01T08:00:00Z", "2026-01-03T08:00:00Z"


@pytest.fixture
def tidy(dsn: str, settings: Settings) -> Any:
    """Run the two steps of housekeeping that finish an erasure."""
    sql = Sql(dsn)

    async def run() -> None:
        db = await Database.connect(dsn, settings)
        await person_erasure.finish(db, settings)
        await global_erasure.erase_orphans(db, settings)
        await db.close()

    yield lambda: sql.run(run())
    sql.close()


def address() -> str:
    return f"{uuid.uuid4()}@example.org"


def counted(person: Person, user: int) -> dict[str, int]:
    """The counts of the preview, without the membership."""
    goes = person.get(f"/users/{user}/erasure").json()["goes"]
    assert goes.pop(0) == {"kind": "membership", "how": "removed", "count": 1}
    return {each["kind"]: each["count"] for each in goes}


def erase(person: Person, user: int) -> None:
    done(person.post(f"/users/{user}/erase"))


def ended(person: Person, user: int) -> None:
    """Wait until nothing of the user is pending."""
    eventually(lambda: person.get(f"/operations?$filter=userId eq {user} and state eq 'Pending'").json() == [], "ends")


def exists(sql: Sql, user: int) -> bool:
    return sql.value("select exists (select from person where user_id = $1)", user)


def whole(person: Person, email: str | None = None) -> tuple[int, int, int]:
    """A user with a group, an assignment, an event and an operation.

    Returns the ids of the user, the car and the event.
    """
    car, user = person.car_with_box(), person.user(email)
    done(person.put(f"/groups/{person.group()}/users", {"userId": user}))
    person.assignment(car, user, START, end=END)
    return user, car, person.event(car, user, latitude=52.5, longitude=13.4)


def test_the_preview_lists_what_erasure_removes(carol: Person, tidy: Any) -> None:
    hook = carol.put("/webhooks", {"url": "http://127.0.0.1:9/nobody"}).json()["id"]
    email = address()
    user, car, event = whole(carol, email)
    carol.sql.execute("update delivery set state = 'Dead', answer = 'no' where customer_id = $1", carol.customer)
    told = carol.get(f"/users/{user}/erasure")
    goes = {"groups": 1, "assignments": 1, "devices": 0, "keys": 0, "events": 1, "operations": 1, "deliveries": 1}
    # the creation of the user, its membership in a group, and the creation of the assignment
    assert counted(carol, user) == goes | {"changes": 3}
    assert [each["kind"] for each in told.json()["stays"]] == ["person", "answers", "receivers"]
    assert told.json()["customers"] == []
    assert carol.get(f"/users/{user}/erasure", headers={"If-None-Match": told.headers["ETag"]}).status_code == 304

    erase(carol, user)
    refused(carol.get(f"/users/{user}"), 404, NO_USER)
    refused(carol.get(f"/users/{user}/erasure"), 404, NO_USER)
    refused(carol.post(f"/users/{user}/erase"), 404, NO_USER)
    ended(carol, user)
    assert carol.get(f"/cars/{car}/assignments").json() == []
    (end,) = carol.get("/operations?$filter=cause eq 'UserRemoved'").json()
    assert (end["userId"], end["state"]) == (user, "Succeeded")
    (sent,) = carol.get(f"/webhooks/{hook}/deliveries?$filter=operationId eq {end['id']}").json()
    assert sent["payload"]["userId"] == user

    tidy()
    kept = carol.get(f"/events/{event}").json()
    assert (kept["userId"], kept["userAgent"], kept["latitude"]) == (0, "erased", None)
    operations = carol.get("/operations").json()
    waiting = [row["id"] for row in operations if row["userId"] is not None]
    assert waiting == [end["id"]], "who still has to be told of the end needs to know whose it is"
    carol.sql.execute("update delivery set state = 'Dead' where customer_id = $1", carol.customer)
    tidy()
    assert {row["userId"] for row in carol.get("/operations").json()} == {None}
    payloads = [row["payload"] for row in carol.get(f"/webhooks/{hook}/deliveries").json()]
    assert [payload["userId"] for payload in payloads] == [None, None]
    assert "userId" not in carol.sql.value(
        "select string_agg(request::text || coalesce(result::text, ''), '') from operation where customer_id = $1",
        carol.customer,
    )
    assert not exists(carol.sql, user)
    assert carol.user(email) != user
    forgotten = "select count(*) from erasure where customer_id = $1"
    assert carol.sql.value(forgotten, carol.customer) == 1, "somebody may be writing still"
    carol.sql.execute("update erasure set asked_at = asked_at - interval '2 minutes'")
    tidy()
    assert carol.sql.value(forgotten, carol.customer) == 0


def test_a_hand_over_loses_only_the_erased_user(carol: Person, tidy: Any) -> None:
    hook = carol.put("/webhooks", {"url": "http://127.0.0.1:9/nobody"}).json()["id"]
    car, giver, taker = carol.car_with_box(), carol.user(), carol.user()
    assignment = carol.assignment(car, giver, START, end=END)
    done(carol.patch(f"/assignments/{assignment}", [{"op": "replace", "path": "/userId", "value": taker}]))
    in_order = "/operations?$filter=kind eq 'UpdateAssignment'"
    eventually(lambda: [row["state"] for row in carol.get(in_order).json()] == ["Succeeded"], "the hand-over")
    carol.sql.execute("update delivery set state = 'Dead', answer = 'no' where customer_id = $1", carol.customer)
    assert counted(carol, taker)["operations"] == 1

    erase(carol, taker)
    ended(carol, taker)
    carol.sql.execute("update delivery set state = 'Dead' where customer_id = $1", carol.customer)
    tidy()
    (moved,) = carol.get(in_order).json()
    assert (moved["userId"], moved["newUserId"]) == (giver, None)
    payloads = [row["payload"] for row in carol.get(f"/webhooks/{hook}/deliveries").json()]
    assert {payload["userId"] for payload in payloads} == {giver, None}
    stored = "select string_agg(request::text || coalesce(result::text, ''), '') from operation where customer_id = $1"
    assert f'"userId": {taker}' not in carol.sql.value(stored, carol.customer)
    assert f'"userId": {giver}' in carol.sql.value(stored, carol.customer)

    erase(carol, giver)
    carol.sql.execute("update delivery set state = 'Dead' where customer_id = $1", carol.customer)
    tidy()
    assert "userId" not in carol.sql.value(stored, carol.customer)


def test_another_customer_keeps_the_person_and_is_not_revealed(alice: Person, bob: Person, tidy: Any) -> None:
    alone = alice.user()
    nothing = alice.get(f"/users/{alone}/erasure").json()
    email = address()
    user = alice.user(email)
    assert alice.get(f"/users/{user}/erasure").json() == nothing | {"userId": user}
    done(bob.put(MEMBERSHIP, {"emailAddress": email}))
    car = bob.car_with_box()
    assignment = bob.assignment(car, user, START)
    event = bob.event(car, user, latitude=52.5, longitude=13.4)
    before = [bob.get(path).text for path in (f"/users/{user}", f"/assignments/{assignment}", f"/events/{event}")]
    assert alice.get(f"/users/{user}/erasure").json() == nothing | {"userId": user}

    erase(alice, user)
    erase(alice, alone)
    tidy()
    ended(bob, user)
    after = [bob.get(path).text for path in (f"/users/{user}", f"/assignments/{assignment}", f"/events/{event}")]
    assert after == before
    assert [row["userId"] for row in bob.get("/operations").json()] == [user]
    assert counted(bob, user)["events"] == 1
    assert (exists(bob.sql, user), exists(bob.sql, alone)) == (True, False)
    refused(alice.get(f"/users/{user}/erasure"), 404, NO_USER)


def test_the_preview_lists_other_customers_of_the_manager(carol: Person, town: Town) -> None:
    user = carol.user()
    other = town.another_fleet(carol)
    done(other.put(MEMBERSHIP, {"userId": user}))
    (told,) = carol.get(f"/users/{user}/erasure").json()["customers"]
    assert told == {"id": str(other.customer), "name": "carol's other"}
    erase(carol, user)
    assert other.get(f"/users/{user}/erasure").json()["customers"] == []


def test_a_recently_removed_person_can_be_added_again_despite_an_erasure(alice: Person, bob: Person, tidy: Any) -> None:
    """A customer can add a person by address alone. Erasure there must not take the person from other customers."""
    email = address()
    user = bob.user(email)
    event = bob.event(bob.car(), user)
    done(bob.delete(MEMBERSHIP, {"userId": user}))
    done(alice.put(MEMBERSHIP, {"emailAddress": email}))
    erase(alice, user)
    tidy()
    assert bob.get(f"/events/{event}").json()["userId"] == user
    done(bob.put(MEMBERSHIP, {"emailAddress": email}))
    assert bob.get(f"/users/{user}").json()["emailAddress"] == email


def test_a_person_who_returns_keeps_later_data(carol: Person, alice: Person, tidy: Any) -> None:
    email = address()
    user, car, event = whole(carol, email)
    done(alice.put(MEMBERSHIP, {"emailAddress": email}))
    erase(carol, user)
    done(carol.put(MEMBERSHIP, {"emailAddress": email}))
    later = carol.event(car, user)
    assignment = carol.assignment(car, user, START)
    tidy()
    assert [carol.get(f"/events/{id}").json()["userId"] for id in (event, later)] == [0, user]
    (operation,) = carol.get(f"/operations?$filter=userId eq {user}").json()
    assert operation["assignmentId"] == assignment


def test_pending_operations_precede_an_erasure(carol: Person) -> None:
    car, user = carol.car_with_box(), carol.user()
    with nobody_works(carol):
        answer = carol.put("/assignments", {"carId": car, "userId": user, "start": START})
        assert answer.status_code == 204
        erase(carol, user)
    ended(carol, user)
    rows = carol.get(f"/operations?$filter=userId eq {user}&$orderby=applied").json()
    assert [(row["kind"], row["state"]) for row in rows] == [
        ("CreateAssignment", "Succeeded"),
        ("DeleteAssignment", "Succeeded"),
    ]


def test_a_repeated_erasure_with_its_key_gets_the_first_answer(carol: Person) -> None:
    user = carol.user()
    key = {"Idempotency-Key": str(uuid.uuid4())}
    done(carol.post(f"/users/{user}/erase", headers=key))
    again = carol.post(f"/users/{user}/erase", headers=key)
    done(again)
    assert again.headers["Idempotency-Replayed"] == "true"


def test_the_preview_of_a_user_without_data_is_empty(carol: Person) -> None:
    counts = counted(carol, carol.user())
    assert counts.pop("changes") == 1  # its creation
    assert set(counts.values()) == {0}
