"""Event webhooks: openings and closings of cars, sent as they are recorded."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from standardwebhooks import Webhook

from keyrack.core.settings import Settings
from keyrack.webhooks.delivery_errors import DISABLED_BY_TOO_MUCH
from keyrack.webhooks.event_deliveries import EventPublisher
from tests.changelog.outbox import finish_erasing
from tests.offline_keys.test_box_logs import Drive, brought
from tests.support.people import Person, Town, done
from tests.support.servers import RunningServer, Sql, eventually
from tests.telemetry.endpoints.test_ingest import device_key
from tests.webhooks.receiver import Received, Receiver
from tests.webhooks.test_change_deliveries import LONG_AGO, Hook

FURTHER = ("carExternalId", "userExternalId", "recordedTime", "late", "assignmentId")
EVENT = {"dateTime": "2026-05-01T10:00:00", "utcDateTime": "2026-05-01T08:00:00Z", "userAgent": "tests"}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


def moment(seconds: float = 0) -> str:
    """The time so many seconds ago."""
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def numbers(hook: Hook, car: int | None = None) -> list[int]:
    """The numbers of the received events, of one car or of all."""
    events = [message.payload["data"] for message in hook.messages()]
    return [event["id"] for event in events if car in (None, event["carId"])]


def sent(hook: Hook, count: int) -> list[Received]:
    """The messages of the webhook, once none waits."""
    eventually(lambda: len(hook.messages()) >= count and hook.is_done(), "the messages")
    assert len(hook.messages()) == count
    return hook.messages()


def lines(person: Person, car: int, user: int, names: list[str]) -> bytes:
    """A delivery of events, one for each client id."""
    event = EVENT | {"utcDateTime": moment(3600), "carId": car, "userId": user}
    return b"".join(json.dumps(event | {"clientId": name}).encode() + b"\n" for name in names)


def deliver(person: Person, body: bytes) -> dict[str, Any]:
    headers = {"Device-Key": device_key(person), "Content-Type": "application/x-ndjson", "Authorization": None}
    answer = person.post("/ingest/events", content=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_an_event_is_sent_as_the_api_shows_it(carol: Person, receiver: Receiver) -> None:
    hook = Hook(carol, receiver, "events", "event.*")
    car, user = carol.car(), carol.user()
    for path, reference in ((f"/cars/{car}", "V-1"), (f"/users/{user}", "D-1")):
        patch = [{"op": "replace", "path": "/externalId", "value": reference}]
        assert carol.patch(path, json=patch).status_code == 204
    opened = carol.event(car, user, utcDateTime=moment())
    closed = carol.event(car, user, type="CarClosed", latitude=52.5, longitude=13.25)
    messages = sent(hook, 2)
    for message, id, kind, late in zip(messages, (opened, closed), ("opened", "closed"), (False, True), strict=True):
        Webhook(hook.secret).verify(message.body, message.headers)
        assert UUID(message.headers["webhook-id"]).version == 8
        body = message.payload
        assert list(body) == ["type", "timestamp", "customerId", "data"]
        assert (body["type"], body["customerId"]) == (f"event.{kind}", carol.customer)
        facts = {name: body["data"].pop(name) for name in FURTHER}
        references = {"carExternalId": "V-1", "userExternalId": "D-1"}
        assert facts == references | {"recordedTime": body["timestamp"], "late": late, "assignmentId": None}
        assert body["data"] == carol.get(f"/events/{id}").json()
    rows = hook.deliveries()
    assert [(row["type"], row["eventId"]) for row in rows] == [("event.opened", opened), ("event.closed", closed)]
    assert [(row["changeId"], row["operationId"]) for row in rows] == [(None, None)] * 2


def test_only_subscribers_get_events(carol: Person, bob: Person, receiver: Receiver) -> None:
    """`car.*` has no events, as a receiver of it expects."""
    cars = Hook(carol, receiver, "cars", "car.*", "assignment.*", "user.*")
    closings = Hook(carol, receiver, "closings", "event.closed")
    disabled = Hook(carol, receiver, "disabled", "event.*", enabled=False)
    foreign = Hook(bob, receiver, "foreign", "event.*")
    every = Hook(carol, receiver, "every", "event.*", "event.opened")
    car, user = carol.car(), carol.user()
    opened = carol.event(car, user)
    closed = carol.event(car, user, type="CarClosed")
    sent(every, 2)
    sent(closings, 1)
    assert (numbers(every), numbers(closings)) == ([opened, closed], [closed])
    eventually(lambda: cars.is_done() and cars.messages(), "the changes")
    assert not [message for message in cars.got() if message.payload["type"].startswith("event.")]
    assert disabled.got() == foreign.got() == []
    assert disabled.deliveries() == foreign.deliveries() == []
    listed = [row["eventId"] for row in carol.get("/deliveries?$filter=eventId ne null&$orderby=id").json()]
    assert sorted(listed) == [opened, closed, closed]
    done(bob.delete(foreign.at))


def test_a_thousand_openings_arrive_once_and_in_the_order_of_each_car(carol: Person, receiver: Receiver) -> None:
    chance = random.Random(1)
    accepted: list[str] = []

    def answer(request: Received) -> Any:
        if chance.random() < 0.1:
            return 500, b"", {}
        accepted.append(request.headers["webhook-id"])
        return 200, b"", {}

    receiver.answer = answer
    hook = Hook(carol, receiver, "thousand", "event.opened")
    cars, user = [carol.car() for _ in range(20)], carol.user()
    names = [f"opening {number}" for number in range(50)]
    for car in cars:
        report = deliver(carol, lines(carol, car, user, [f"{car} {name}" for name in names]))
        assert report["accepted"] == 50
    eventually(lambda: len(set(accepted)) == 1_000 and hook.is_done(), "all openings")
    assert sorted(numbers(hook)) == sorted(event["id"] for event in carol.get("/events").json())
    for car in cars:
        order = [
            request.payload["data"]["id"]
            for request in hook.got()
            if request.payload["data"]["carId"] == car and request.headers["webhook-id"] in accepted
        ]
        assert order == sorted(order)
        assert len(set(order)) == 50
    assert all(message.payload["data"]["late"] for message in hook.messages())


def test_a_repeated_delivery_of_a_device_is_sent_once(carol: Person, receiver: Receiver) -> None:
    hook = Hook(carol, receiver, "repeated", "event.*")
    body = lines(carol, carol.car(), carol.user(), ["one", "two", "one"])
    first, second = deliver(carol, body), deliver(carol, body)
    assert (first["accepted"], second["duplicates"]) == (2, 3)
    sent(hook, 2)


def test_the_log_of_a_box_names_the_assignment(carol: Person, receiver: Receiver) -> None:
    hook = Hook(carol, receiver, "box", "event.*")
    drive = Drive(carol)
    entries = [
        drive.book.opening(drive.key), drive.book.opening(drive.key, cti=uuid4().bytes), drive.book.entry(event=5),
        drive.book.opening(drive.key, event=2, command=2),
    ]  # fmt: skip
    for _ in range(2):
        brought(drive.kim, *entries)
    messages = sent(hook, 2)
    assert [message.payload["type"] for message in messages] == ["event.opened", "event.closed"]
    listed = carol.get(f"/cars/{drive.car}/events?$orderby=id").json()
    for message, event in zip(messages, listed, strict=True):
        data = message.payload["data"]
        assert {name: data[name] for name in event} == event
        assert (data["assignmentId"], data["userId"]) == (drive.assignment, drive.kim.user)


def test_a_rejected_event_is_not_sent(carol: Person, receiver: Receiver) -> None:
    hook = Hook(carol, receiver, "rejected", "event.*")
    car, user = carol.car(), carol.user()
    for wrong in ({"carId": 2_000_000_000}, {"userId": 2_000_000_000}):
        assert carol.put("/events", EVENT | {"carId": car, "userId": user} | wrong).status_code == 404
    id = carol.event(car, user)
    sent(hook, 1)
    assert numbers(hook) == [id]


def test_an_idempotent_request_is_sent_once(carol: Person, receiver: Receiver) -> None:
    hook = Hook(carol, receiver, "idempotent", "event.*")
    body = EVENT | {"carId": carol.car(), "userId": carol.user()}
    for _ in range(2):
        answer = carol.put("/events", body, headers={"Idempotency-Key": "once", "Prefer": "return=representation"})
        assert answer.status_code == 201
    sent(hook, 1)


def test_events_are_replayed_with_the_same_id(carol: Person, receiver: Receiver) -> None:
    car, user = carol.car(), carol.user()
    before = [carol.event(car, user) for _ in range(5)]
    hook = Hook(carol, receiver, "replayed", "event.opened")
    assert carol.post(f"{hook.at}/replay", LONG_AGO | {"undelivered": True}).json() == {"count": 5, "next": None}
    ids = [message.headers["webhook-id"] for message in sent(hook, 5)]
    assert numbers(hook) == before
    assert carol.post(f"{hook.at}/replay", LONG_AGO | {"undelivered": True}).json()["count"] == 0
    assert carol.post(f"{hook.at}/replay", LONG_AGO).json()["count"] == 5
    eventually(lambda: len(hook.got()) == 10, "all again")
    assert [request.headers["webhook-id"] for request in hook.got()[5:]] == ids
    third = hook.messages()[2].payload["data"]["recordedTime"]
    fourth = hook.messages()[3].payload["data"]["recordedTime"]
    eventually(hook.is_done, "the records")
    assert carol.post(f"{hook.at}/replay", {"from": third, "to": fourth}).json()["count"] == 1
    eventually(lambda: len(hook.got()) == 11, "the third")
    assert hook.got()[-1].headers["webhook-id"] == ids[2]
    row = hook.deliveries()[0]
    done(carol.post(f"{hook.at}/deliveries/{row['id']}/replay"))
    eventually(lambda: len(hook.got()) == 12, "the first")
    assert hook.got()[-1].headers["webhook-id"] == row["messageId"] == ids[0]


def test_events_of_a_disabled_webhook_are_replayed_later(carol: Person, receiver: Receiver) -> None:
    hook = Hook(carol, receiver, "later", "event.*", enabled=False)
    id = carol.event(carol.car(), carol.user())
    done(carol.patch(hook.at, [{"op": "replace", "path": "/enabled", "value": True}]))
    assert carol.post(f"{hook.at}/replay", LONG_AGO | {"undelivered": True}).json()["count"] == 1
    sent(hook, 1)
    assert numbers(hook) == [id]


def test_waiting_deliveries_lose_an_erased_person(carol: Person, receiver: Receiver, dsn: str) -> None:
    receiver.answer = lambda _: (500, b"", {})
    hook = Hook(carol, receiver, "erased", "event.*")
    car, user, other = carol.car(), carol.user(externalId="uma@shop"), carol.user()
    erased = carol.event(car, user, userAgent="the phone of Uma", latitude=52.5, longitude=13.25)
    kept = carol.event(car, other)
    goes = {row["kind"]: row["count"] for row in carol.get(f"/users/{user}/erasure").json()["goes"]}
    assert goes["deliveries"] == 1
    done(carol.patch(hook.at, [{"op": "replace", "path": "/enabled", "value": False}]))
    done(carol.post(f"/users/{user}/erase"))
    finish_erasing(dsn)
    receiver.answer = lambda _: (200, b"", {})
    done(carol.patch(hook.at, [{"op": "replace", "path": "/enabled", "value": True}]))
    eventually(hook.is_done, "the deliveries")
    last = {request.payload["data"]["id"]: request.payload["data"] for request in hook.got()}
    shown = carol.get(f"/events/{erased}").json()
    assert {name: last[erased][name] for name in shown} == shown
    assert (shown["userId"], shown["userAgent"], shown["latitude"]) == (0, "erased", None)
    assert last[erased]["userExternalId"] is None
    assert last[kept]["userId"] == other


def test_a_webhook_with_too_many_waiting_events_is_disabled(dsn: str, sql: Sql, settings: Settings) -> None:
    few = settings.model_copy(update={"webhook_max_pending": 3})
    with Receiver(lambda _: (500, b"", {})) as receiver, RunningServer(few, dsn, worker=False) as server:
        anna = Town(sql, server).person("anna")
        hook = Hook(anna, receiver, "full", "event.*")
        car, user = anna.car(), anna.user()
        for _ in range(5):
            anna.event(car, user)
        row = hook.row()
        assert (row["enabled"], row["disabledReason"], row["waiting"]) == (False, DISABLED_BY_TOO_MUCH.text, 3)
        assert len(anna.get("/events").json()) == 5
        eventually(lambda: disabling(anna), "the change of the webhook")
        (change,) = disabling(anna)
        assert (change["actor"]["type"], change["actor"]["name"]) == ("system", "server")


def disabling(person: Person) -> list[dict[str, Any]]:
    return person.get("/changes?$filter=kind eq 'webhook.updated'").json()


def test_dialects_name_the_car(carol: Person, receiver: Receiver) -> None:
    hook = Hook(carol, receiver, "cloud", "event.*", dialect="cloudevents")
    car = carol.car()
    id = carol.event(car, carol.user())
    (message,) = sent(hook, 1)
    body = message.payload
    assert (body["type"], body["subject"]) == ("keyrack.event.opened", f"car/{car}")
    assert (body["data"]["id"], body["data"]["type"], body["time"]) == (id, "CarOpened", body["data"]["recordedTime"])


def test_without_a_subscriber_one_statement_records_an_event(
    carol: Person, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("a further statement")

    Hook(carol, receiver, "unrelated", "car.*")
    car, user = carol.car(), carol.user()
    monkeypatch.setattr(EventPublisher, "publish", fail)
    carol.event(car, user)
    monkeypatch.undo()
    hook = Hook(carol, receiver, "events", "event.*")
    id = carol.event(car, user)
    sent(hook, 1)
    assert numbers(hook) == [id]
