"""Each dialect over real HTTP: a signed test, outcome and change; `keyrack webhook listen` as receiver."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from standardwebhooks import Webhook

from keyrack.api.request_origin import checksum
from keyrack.webhooks.dialects import DEFAULT, DIALECTS
from keyrack.webhooks.signature_check import diagnose_signature
from tests.support.people import Person, done
from tests.support.servers import DEADLINE, Process, eventually
from tests.webhooks.receiver import Received, Receiver, without_repetitions

KINDS = ["assignment.created", "car.updated"]


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


def register(person: Person, url: str, dialect: str) -> tuple[int, str]:
    answer = person.put("/webhooks", {"url": url, "kinds": KINDS, "dialect": dialect})
    assert answer.status_code == 201, answer.text
    return answer.json()["id"], answer.json()["signingSecret"]


def data_of(request: Received, dialect: str) -> dict[str, Any]:
    """The members of the message other than its type and time."""
    return request.payload if dialect == DEFAULT else request.payload["data"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_test_an_outcome_and_a_change_arrive_in_the_dialect(dialect: str, alice: Person, receiver: Receiver) -> None:
    path = f"/{dialect}"
    id, secret = register(alice, receiver.url + path, dialect)
    try:
        car, user = alice.car_with_box(), alice.user()
        alice.post(f"/webhooks/{id}/test")
        asked = alice.put("/assignments", {"carId": car, "userId": user, "start": "2026-01-01T08:00:00Z"})
        done(alice.patch(f"/cars/{car}", [{"op": "replace", "path": "/description", "value": "Gr\u00fcn"}]))
        got = eventually(lambda: len(r := without_repetitions(receiver.of(path))) >= 3 and r, "three messages")
        by_id = {row["messageId"]: row for row in alice.get(f"/webhooks/{id}/deliveries").json()}
        for request in got:
            assert request.headers["content-type"] == DIALECTS[dialect].content_type
            assert diagnose_signature(request.headers, request.body, secret, datetime.now(UTC)).genuine
            Webhook(secret).verify(request.body, request.headers)
        data = {by_id[request.headers["webhook-id"]]["type"]: data_of(request, dialect) for request in got}
        assert data.keys() == {"webhook.test", "assignment.created", "car.updated"}
        assert data["webhook.test"]["customerId"] == alice.customer
        outcome = data["assignment.created"]
        assert outcome["operationId"] == asked.headers["Operation-Id"]
        assert outcome["checksum"] == checksum(asked.request.content, "PUT", "/assignments")
        change = data["car.updated"]["data"] if dialect == DEFAULT else data["car.updated"]
        assert (change["resourceId"], change["after"]) == (str(car), {"description": "Gr\u00fcn"})
    finally:
        alice.delete(f"/webhooks/{id}")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_webhook_listen_verifies_each_dialect(dialect: str, alice: Person) -> None:
    id, secret = register(alice, "https://example.org/", dialect)
    process = Process("webhook", "listen", "--port", "0", "--secret", secret, "--count", "1", "--json")
    stop = threading.Timer(DEADLINE, process.popen.kill)
    stop.start()
    try:
        out: Any = process.popen.stdout
        url = json.loads(out.readline())["url"]
        done(alice.patch(f"/webhooks/{id}", [{"op": "replace", "path": "/url", "value": url}]))
        alice.post(f"/webhooks/{id}/test")
        arrived = json.loads(out.readline())
        assert (arrived["genuine"], arrived["reasons"]) == (True, [])
        assert arrived["headers"]["Content-Type"] == DIALECTS[dialect].content_type
    finally:
        stop.cancel()
        process.popen.kill()
        process.popen.communicate()
        alice.delete(f"/webhooks/{id}")


def test_a_waiting_delivery_uses_the_current_dialect(alice: Person, receiver: Receiver) -> None:
    receiver.answer = lambda request: (204, b"", {})
    id, _ = register(alice, receiver.url + "/waits", DEFAULT)
    try:
        delivery = alice.post(f"/webhooks/{id}/test").json()["id"]
        eventually(lambda: receiver.of("/waits"), "the test")
        done(alice.patch(f"/webhooks/{id}", [{"op": "replace", "path": "/dialect", "value": "standard-webhooks"}]))
        alice.post(f"/webhooks/{id}/deliveries/{delivery}/replay")
        again = eventually(lambda: len(r := receiver.of("/waits")) >= 2 and r[-1], "the replay")
        first = receiver.of("/waits")[0]
        assert again.headers["webhook-id"] == first.headers["webhook-id"]
        assert (next(iter(first.payload)), list(again.payload)) == ("type", ["type", "timestamp", "data"])
    finally:
        alice.delete(f"/webhooks/{id}")


def test_a_delivery_in_an_unknown_dialect_is_not_sent(alice: Person, receiver: Receiver) -> None:
    id, _ = register(alice, receiver.url + "/unknown", DEFAULT)
    try:
        alice.sql.execute("update webhook set dialect = 'of-a-later-release' where webhook_id = $1", id)
        alice.post(f"/webhooks/{id}/test")
        row = eventually(
            lambda: [row for row in alice.get(f"/webhooks/{id}/deliveries").json() if row["error"]], "the attempt"
        )[0]
        assert row["state"] == "Waiting" and row["error"].startswith("The worker's release does not know the dialect")
        assert receiver.of("/unknown") == []
    finally:
        alice.delete(f"/webhooks/{id}")
