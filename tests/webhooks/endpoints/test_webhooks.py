"""Webhooks: registration, signed outcomes, the log of deliveries, and replay."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from keyrack.api.request_origin import checksum
from keyrack.api.schema.event_types import EVENTS, OUTCOMES
from keyrack.api.schema.request_body import invalid_member
from keyrack.assignments.failure_codes import NO_BOX, TEXTS
from keyrack.core.settings import Settings
from keyrack.webhooks.dialects import DEFAULT, DIALECTS
from keyrack.webhooks.endpoints.webhooks import DISABLED, NO_DELIVERY, NO_WEBHOOK
from keyrack.webhooks.outcome_payload import OutcomePayload
from tests.support.people import Person, Town, done, refused, web
from tests.support.servers import DEADLINE, SELDOM, RunningServer, eventually
from tests.webhooks.receiver import Received, Receiver

START = "2026-01-01T08:00:00Z"


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


class Hook:
    """A webhook with its own path at the receiver."""

    def __init__(self, person: Person, receiver: Receiver, name: str, **members: Any) -> None:
        self.person, self.receiver, self.path = person, receiver, f"/{name}"
        answer = person.put("/webhooks", {"url": receiver.url + self.path, **members})
        assert answer.status_code == 201, answer.text
        self.id, self.signing_secret = answer.json()["id"], answer.json()["signingSecret"]
        self.at = f"/webhooks/{self.id}"

    def __enter__(self) -> Hook:
        return self

    def __exit__(self, *_: object) -> None:
        self.person.delete(self.at)

    def got(self, count: int) -> list[Received]:
        """The requests at the path, once there are `count` of them."""
        eventually(lambda: len(self.receiver.of(self.path)) >= count, f"{count} at {self.path}")
        return self.receiver.of(self.path)

    def deliveries(self, query: str = "") -> list[dict[str, Any]]:
        return self.person.get(f"{self.at}/deliveries{query}").json()

    def row(self) -> dict[str, Any]:
        return self.person.get(self.at).json()


def create(person: Person, car: int, user: int, **members: Any) -> Any:
    answer = person.put("/assignments", {"carId": car, "userId": user, "start": START, **members})
    assert answer.status_code == 204, answer.text
    return answer


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


# Registration


def test_a_webhook_is_registered_read_changed_and_removed(alice: Person) -> None:
    answer = alice.put("/webhooks", {"url": "https://example.org/hook"})
    assert answer.status_code == 201
    assert answer.headers["cache-control"] == "no-store"
    id, secret = answer.json()["id"], answer.json()["signingSecret"]
    assert secret.startswith("whsec_")
    row = alice.get(f"/webhooks/{id}").json()
    assert row.pop("created")
    assert row == {
        "id": id,
        "url": "https://example.org/hook",
        "kinds": sorted(OUTCOMES),
        "dialect": "keyrack",
        "enabled": True,
        "disabledReason": None,
        "name": None,
        "pull": False,
        "deleteUnusedAfterDays": None,
        "pulled": None,
        "hasSecret": False,
        "oldSigningSecretUntil": None,
        "externalId": None,
        "metadata": None,
        "waiting": 0,
        "dead": 0,
    }
    patch = [
        {"op": "replace", "path": "/url", "value": "http://example.org:8080/other"},
        {"op": "replace", "path": "/secret", "value": "s3cret"},
        {"op": "replace", "path": "/kinds", "value": ["assignment.deleted"]},
        {"op": "replace", "path": "/enabled", "value": False},
    ]
    done(alice.patch(f"/webhooks/{id}", patch))
    row = alice.get(f"/webhooks/{id}").json()
    assert (row["url"], row["hasSecret"], row["kinds"], row["enabled"]) == (
        "http://example.org:8080/other",
        True,
        ["assignment.deleted"],
        False,
    )
    done(alice.patch(f"/webhooks/{id}", [{"op": "remove", "path": f"/{name}"} for name in ("secret", "kinds")]))
    row = alice.get(f"/webhooks/{id}").json()
    assert (row["hasSecret"], row["kinds"], row["enabled"]) == (False, sorted(OUTCOMES), False)
    everything = alice.get("/webhooks").text + alice.get(f"/webhooks/{id}").text
    assert secret not in everything and "s3cret" not in everything
    done(alice.delete(f"/webhooks/{id}"))
    refused(alice.get(f"/webhooks/{id}"), 404, NO_WEBHOOK)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_dialect_is_set_and_reset(dialect: str, alice: Person) -> None:
    id = alice.put("/webhooks", {"url": "https://example.org/", "dialect": dialect}).json()["id"]
    default = alice.put("/webhooks", {"url": "https://example.org/", "dialect": None}).json()["id"]
    path = f"/webhooks/{id}"
    assert alice.get(path).json()["dialect"] == dialect
    assert alice.get(f"/webhooks/{default}").json()["dialect"] == DEFAULT
    for step in ({"op": "remove"}, {"op": "replace", "value": None}):
        done(alice.patch(path, [{"op": "replace", "path": "/dialect", "value": dialect}]))
        assert id in [row["id"] for row in alice.get(f"/webhooks?$filter=dialect eq '{dialect}'").json()]
        done(alice.patch(path, [step | {"path": "/dialect"}]))
        assert alice.get(path).json()["dialect"] == DEFAULT

    def recorded() -> set[str | None]:
        changes = alice.get(f"/changes?$filter=resource eq 'webhook' and resourceId eq '{id}'").json()
        return {row["after"].get("dialect") for row in changes if row["after"]}

    expected = {None} if dialect == DEFAULT else {None, dialect}
    eventually(lambda: recorded() == expected, "the changes")
    for hook in (id, default):
        alice.delete(f"/webhooks/{hook}")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ftp://example.org", "The URL must begin with https:// or http://."),
        ("https://", "The URL must name a host."),
        ("https://[::1", "The URL must have a valid host."),
        ("https://user:pass@example.org/", "The URL must not contain a user name or a password."),
        ("https://example.org/#part", "The URL must not have a fragment."),
        ("https://example.org/a b", "The URL must not contain blanks. Write %20 instead."),
        (" https://example.org/", "The URL must not contain blanks. Write %20 instead."),
        ("https://example.org/a\u00a0b", "The URL must not contain blanks. Write %20 instead."),
        ("https://b\u00fccher.example/", "The host of the URL must be ASCII. Write xn--bcher-kva.example instead."),
        (
            "https://B\u00dcCHER.example:8443/x",
            "The host of the URL must be ASCII. Write xn--bcher-kva.example instead.",
        ),
        ("https://\u200b.example/", "The host of the URL must be ASCII."),
        ("https://example.org/b\u00fccher", "The URL must be printable ASCII. Percent-encode the other characters."),
        ("https://example.org/\u0007", "The URL must be printable ASCII. Percent-encode the other characters."),
        ("https://example.org:99999/", "The URL must have a port from 1 to 65535."),
        ("https://example.org:0/", "The URL must have a port from 1 to 65535."),
        ("https://example.org:x/", "The URL must have a port from 1 to 65535."),
        ("https://example.org:-1/", "The URL must have a port from 1 to 65535."),
    ],
)
def test_a_rejected_address_gets_the_reason(alice: Person, url: str, reason: str) -> None:
    text = f"{invalid_member('create webhook', 'url')} {reason}"
    refused(alice.put("/webhooks", {"url": url}), 400, text)
    problem = alice.put("/webhooks", {"url": url}, headers={"Accept": "application/problem+json"}).json()
    assert [(error["code"], error["detail"]) for error in problem["errors"]] == [("wrong-form", reason)]
    id = alice.put("/webhooks", {"url": "https://example.org/"}).json()["id"]
    answer = alice.patch(f"/webhooks/{id}", [{"op": "replace", "path": "/url", "value": url}])
    refused(answer, 400, f"{invalid_member('update webhook', 'url')} {reason}")
    assert alice.get(f"/webhooks/{id}").json()["url"] == "https://example.org/"


@pytest.mark.parametrize(
    "url",
    [
        "https://xn--bcher-kva.example/",
        "https://example.org:65535/",
        "http://[2001:db8::1]:8080/",
        "HTTPS://example.org",
    ],
)
def test_valid_addresses_are_accepted(alice: Person, url: str) -> None:
    assert alice.put("/webhooks", {"url": url}).status_code == 201


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("url", "ftp://example.org"),
        ("url", "https://"),
        ("url", "https://user:pass@example.org/"),
        ("url", "https://example.org/#part"),
        ("url", "https://example.org:99999/"),
        ("url", "https://example.org/a b"),
        ("url", 7),
        ("secret", "line\nbreak"),
        ("secret", ""),
        ("kinds", []),
        ("kinds", ["assignment.changed"]),
        ("dialect", "Keyrack"),
        ("dialect", ""),
        ("dialect", 1),
        ("enabled", "yes"),
    ],
)
def test_invalid_members_of_a_webhook_are_rejected(alice: Person, member: str, value: Any) -> None:
    body = {"url": "https://example.org/"} | {member: value}
    answer = alice.put("/webhooks", body)
    assert answer.status_code == 400
    if not isinstance(value, list):
        assert answer.text.startswith(invalid_member("create webhook", member).text)
    with_patch = alice.put("/webhooks", {"url": "https://example.org/"}).json()["id"]
    answer = alice.patch(f"/webhooks/{with_patch}", [{"op": "replace", "path": f"/{member}", "value": value}])
    assert answer.status_code == 400
    assert alice.get(f"/webhooks/{with_patch}").json()["url"] == "https://example.org/"
    refused(
        alice.patch(f"/webhooks/{with_patch}", [{"op": "remove", "path": "/url"}]),
        400,
        invalid_member("update webhook", "url"),
    )


def test_a_webhook_of_another_customer_gets_404(alice: Person, bob: Person, receiver: Receiver) -> None:
    with Hook(alice, receiver, "mine", enabled=False) as hook:
        for id in (hook.id, 2**31 - 1):
            at = f"/webhooks/{id}"
            refused(bob.get(at), 404, NO_WEBHOOK)
            refused(bob.get(f"{at}/deliveries"), 404, NO_WEBHOOK)
            refused(bob.patch(at, [{"op": "replace", "path": "/enabled", "value": True}]), 404, NO_WEBHOOK)
            refused(bob.delete(at), 404, NO_WEBHOOK)
            refused(bob.post(f"{at}/rotate-secret"), 404, NO_WEBHOOK)
            refused(bob.post(f"{at}/test"), 404, NO_WEBHOOK)
            refused(bob.post(f"{at}/deliveries/1/replay"), 404, NO_WEBHOOK)
            refused(bob.post(f"{at}/replay", {"from": START}), 404, NO_WEBHOOK)
        assert bob.get("/webhooks").json() == []
        assert not hook.row()["enabled"]


# Payload and signature


def test_each_event_type_has_the_same_members(alice: Person, receiver: Receiver) -> None:
    car, user = alice.car_with_box(), alice.user()
    with Hook(alice, receiver, "kinds", secret="open sesame") as hook:
        body = {"carId": car, "userId": user, "start": START, "end": None, "lifetime": 700_000}
        asked = alice.put("/assignments", body)
        first = hook.got(1)[0]
        payload = first.payload
        assignment = payload["assignmentId"]
        assert payload == {
            "type": "assignment.created",
            "operationId": asked.headers["Operation-Id"],
            "customerId": alice.customer,
            "operationSucceeded": True,
            "errorMessage": None,
            "checksum": checksum(asked.request.content, "PUT", "/assignments"),
            "assignmentId": assignment,
            "carId": car,
            "userId": user,
            "start": START,
            "end": None,
            "lifetime": 700_000,
            "renewableAfter": 350_000,
            "exclusive": False,
            "externalId": None,
            "metadata": None,
        }
        assert list(payload) == [field.alias for field in OutcomePayload.model_fields.values()]
        assert first.headers["secret"] == "open sesame"
        assert first.headers["content-type"] == "application/json"
        assert first.headers["webhook-id"] == asked.headers["Operation-Id"]
        assert abs(int(first.headers["webhook-timestamp"]) - time.time()) < 60

        alice.patch(f"/assignments/{assignment}", [{"op": "replace", "path": "/end", "value": "2027-01-01T00:00:00Z"}])
        alice.delete(f"/assignments/{assignment}")
        _, second, third = hook.got(3)
        assert (second.payload["type"], second.payload["end"]) == ("assignment.updated", "2027-01-01T00:00:00Z")
        assert (third.payload["type"], third.payload["assignmentId"]) == ("assignment.deleted", assignment)
        # The checksum of a request without a body is that of the method and the path
        assert third.payload["checksum"] == checksum(b"", "DELETE", f"/assignments/{assignment}")
        Webhook(hook.signing_secret).verify(third.body, third.headers)

        bare = alice.car()
        create(alice, bare, user)
        failed = hook.got(4)[3].payload
        assert (failed["operationSucceeded"], failed["errorMessage"]) == (False, TEXTS[NO_BOX])
        assert (failed["assignmentId"], failed["carId"], failed["start"]) == (None, bare, START)


def test_only_subscribed_event_types_are_sent(alice: Person, receiver: Receiver) -> None:
    car, user = alice.car_with_box(), alice.user()
    with (
        Hook(alice, receiver, "wanted", kinds=["assignment.deleted"]) as hook,
        Hook(alice, receiver, "all") as other,
    ):
        alice.delete(f"/assignments/{alice.assignment(car, user)}")
        assert [request.payload["type"] for request in other.got(2)] == ["assignment.created", "assignment.deleted"]
        assert [request.payload["type"] for request in hook.got(1)] == ["assignment.deleted"]


def test_outcomes_reach_only_their_own_customer(alice: Person, bob: Person, receiver: Receiver) -> None:
    with Hook(alice, receiver, "alices") as mine, Hook(bob, receiver, "bobs") as theirs:
        create(alice, alice.car_with_box(), alice.user())
        create(bob, bob.car_with_box(), bob.user())
        assert {request.payload["customerId"] for request in mine.got(1)} == {alice.customer}
        assert {request.payload["customerId"] for request in theirs.got(1)} == {bob.customer}


def test_after_a_rotation_both_secrets_verify(alice: Person, receiver: Receiver) -> None:
    with Hook(alice, receiver, "rotated") as hook:
        answer = alice.post(f"{hook.at}/rotate-secret").json()
        new, old = answer["signingSecret"], hook.signing_secret
        assert new != old
        until = datetime.fromisoformat(answer["oldSigningSecretUntil"])
        assert timedelta(hours=23) < until - datetime.now(UTC) < timedelta(hours=25)
        assert hook.row()["oldSigningSecretUntil"]
        alice.post(f"{hook.at}/test")
        request = hook.got(1)[0]
        for secret in (new, old):
            Webhook(secret).verify(request.body, request.headers)
        with pytest.raises(WebhookVerificationError):
            Webhook("whsec_AAAA").verify(request.body, request.headers)
        alice.sql.execute("update webhook set old_signing_secret_until = now() where webhook_id = $1", hook.id)
        alice.post(f"{hook.at}/test")
        request = hook.got(2)[1]
        Webhook(new).verify(request.body, request.headers)
        with pytest.raises(WebhookVerificationError):
            Webhook(old).verify(request.body, request.headers)


# Log and replay


def test_the_log_has_each_attempt(alice: Person, receiver: Receiver) -> None:
    seen = threading.Event()
    answers = iter([(500, b"broken \xff" + b"x" * 5_000, {})])

    def answer(request: Received) -> Any:
        if request.path != "/log":
            return 200, b"", {}
        failure = next(answers, None)
        if failure is None:
            seen.wait(DEADLINE)
        return failure or (200, b"fine", {})

    receiver.answer = answer
    with Hook(alice, receiver, "log") as hook:
        create(alice, alice.car_with_box(), alice.user())
        hook.got(1)
        failed = eventually(lambda: [row for row in hook.deliveries() if row["attempts"] == 1], "the first attempt")
        assert failed[0]["state"] == "Waiting"
        assert failed[0]["status"] == 500
        assert failed[0]["answer"].startswith("broken \ufffdxxx") and len(failed[0]["answer"]) == 1_000
        assert failed[0]["error"] == "The endpoint answered 500."
        assert failed[0]["nextAttempt"] is not None
        assert hook.row()["waiting"] == 1
        seen.set()
        eventually(lambda: hook.deliveries()[0]["state"] == "Delivered", "the second attempt")
        row = hook.deliveries()[0]
        assert (row["attempts"], row["status"], row["answer"], row["error"]) == (2, 200, "fine", None)
        assert row["nextAttempt"] is None and row["duration"] >= 0
        assert row["payload"] == hook.got(2)[1].payload
        assert hook.deliveries("?$filter=state eq 'Delivered'&$select=id") == [{"id": row["id"]}]
        assert [request.headers["webhook-id"] for request in hook.got(2)] == [row["messageId"]] * 2


def test_the_log_of_all_webhooks_names_each_webhook(alice: Person, bob: Person, receiver: Receiver) -> None:
    with Hook(alice, receiver, "all-1") as one, Hook(alice, receiver, "all-2") as two:
        ids = [alice.post(f"{hook.at}/test").json()["id"] for hook in (one, two)]
        of_both = {"$filter": f"webhookId in ({one.id},{two.id})", "$orderby": "id"}
        rows = alice.get("/deliveries", params=of_both).json()
        assert [(row["id"], row["webhookId"]) for row in rows] == [(ids[0], one.id), (ids[1], two.id)]
        for hook in (one, two):
            hook.got(1)
        (own,) = eventually(lambda: one.deliveries("?$filter=state eq 'Delivered'"))
        (shared,) = alice.get("/deliveries", params={"$filter": f"id eq {ids[0]}"}).json()
        url = alice.get(f"/webhooks/{one.id}").json()["url"]
        assert shared == {**own, "webhookId": one.id, "webhookUrl": url}
        newest = alice.get("/deliveries", params={"$orderby": "id desc", "$top": "1", "$select": "id"}).json()
        assert newest == [{"id": ids[1]}]
        dead = {"$filter": "state eq 'Dead'", "$count": "true", "$top": "0"}
        before = int(alice.get("/deliveries", params=dead).headers["x-total-count"])
        alice.sql.execute(
            "update delivery set state = 'Dead' where customer_id = $1 and delivery_id = $2", alice.customer, ids[0]
        )
        assert int(alice.get("/deliveries", params=dead).headers["x-total-count"]) == before + 1
        assert not {row["id"] for row in bob.get("/deliveries").json()} & {*ids}


def test_a_replayed_delivery_has_the_same_id(alice: Person, receiver: Receiver) -> None:
    with Hook(alice, receiver, "again") as hook:
        create(alice, alice.car_with_box(), alice.user())
        hook.got(1)
        id = eventually(lambda: [r["id"] for r in hook.deliveries() if r["state"] == "Delivered"], "the delivery")[0]
        done(alice.post(f"{hook.at}/deliveries/{id}/replay"))
        first, second = hook.got(2)
        assert (first.headers["webhook-id"], first.body) == (second.headers["webhook-id"], second.body)
        for wrong in (id + 1_000_000, "x", "9" * 30):
            refused(alice.post(f"{hook.at}/deliveries/{wrong}/replay"), 404, NO_DELIVERY)
        refused(alice.post(f"/webhooks/{2**31 - 1}/deliveries/{id}/replay"), 404, NO_WEBHOOK)


def test_a_time_range_is_replayed_to_a_newer_webhook(carol: Person, receiver: Receiver) -> None:
    begin = now()
    user = carol.user()
    cars = [carol.car_with_box() for _ in range(3)]
    ids = [carol.assignment(car, user) for car in cars]
    carol.delete(f"/assignments/{ids[0]}")
    eventually(lambda: carol.get(f"/assignments/{ids[0]}").status_code == 404, "the end")
    with Hook(carol, receiver, "late") as hook:
        answer = carol.post(f"{hook.at}/replay", {"from": begin, "to": "2100-01-01T00:00:00Z"})
        assert answer.json() == {"count": 4, "next": None}
        got = [(request.payload["type"], request.payload["assignmentId"]) for request in hook.got(4)]
        assert sorted(got) == sorted([("assignment.created", id) for id in ids] + [("assignment.deleted", ids[0])])
        assert got.index(("assignment.created", ids[0])) < got.index(("assignment.deleted", ids[0]))
        eventually(lambda: hook.row()["waiting"] == 0, "all of them")
        body = {"from": begin, "to": "2100-01-01T00:00:00Z", "undelivered": True}
        assert carol.post(f"{hook.at}/replay", body).json()["count"] == 0
        body["undelivered"] = False
        assert carol.post(f"{hook.at}/replay", body).json()["count"] == 4
        assert len(hook.got(8)) == 8
        assert carol.post(f"{hook.at}/replay", {"from": "2020-01-01T00:00:00Z", "to": begin}).status_code == 200
        answer = carol.post(f"{hook.at}/replay", {"from": begin, "to": begin})
        assert answer.status_code == 400
        assert carol.post(f"{hook.at}/replay", {"from": "yesterday"}).status_code == 400


def test_a_test_delivery_is_sent(alice: Person, receiver: Receiver) -> None:
    with Hook(alice, receiver, "test") as hook:
        answer = alice.post(f"{hook.at}/test")
        assert answer.status_code == 201
        request = hook.got(1)[0]
        Webhook(hook.signing_secret).verify(request.body, request.headers)
        assert set(request.payload) == {field.alias for field in OutcomePayload.model_fields.values()}
        OutcomePayload.model_validate_json(request.body)
        eventually(lambda: hook.deliveries()[0]["state"] == "Delivered", "the delivery")
        row = hook.deliveries()[0]
        assert (row["id"], row["type"], row["operationId"]) == (answer.json()["id"], "webhook.test", None)


def test_a_disabled_webhook_gets_nothing(alice: Person, receiver: Receiver) -> None:
    with Hook(alice, receiver, "disabled", enabled=False) as hook:
        refused(alice.post(f"{hook.at}/test"), 409, DISABLED)
        refused(alice.post(f"{hook.at}/replay", {"from": START}), 409, DISABLED)
        refused(alice.post(f"{hook.at}/deliveries/1/replay"), 409, DISABLED)
        alice.assignment(alice.car_with_box(), alice.user())
        assert hook.deliveries() == []
        done(alice.patch(hook.at, [{"op": "replace", "path": "/enabled", "value": True}]))
        alice.post(f"{hook.at}/test")
        assert [request.payload["type"] for request in hook.got(1)] == ["webhook.test"]


def test_410_disables_a_webhook_and_its_queue_waits(alice: Person, receiver: Receiver) -> None:
    gone = True
    receiver.answer = lambda request: (410 if gone and request.path == "/gone" else 200, b"", {})
    with Hook(alice, receiver, "gone") as hook:
        create(alice, alice.car_with_box(), alice.user())
        eventually(lambda: not hook.row()["enabled"], "the end of the webhook")
        assert hook.row()["disabledReason"] == "The endpoint answered 410 Gone."
        eventually(lambda: hook.deliveries()[0]["attempts"] == 1, "the log")
        assert hook.row()["waiting"] == 1
        gone = False
        done(alice.patch(hook.at, [{"op": "replace", "path": "/enabled", "value": True}]))
        eventually(lambda: hook.deliveries()[0]["state"] == "Delivered", "the delivery")
        assert hook.row()["disabledReason"] is None


def test_deliveries_of_a_removed_webhook_are_deleted(alice: Person, receiver: Receiver) -> None:
    from keyrack.db.connection import Connection
    from keyrack.db.transaction_database import InTransaction
    from keyrack.webhooks import cleanup

    with Hook(alice, receiver, "removed") as hook:
        alice.post(f"{hook.at}/test")
        hook.got(1)
        eventually(lambda: hook.row()["waiting"] == 0, "the delivery")
    left = "select count(*) from delivery where customer_id = $1 and webhook_id = $2"
    assert alice.sql.value(left, alice.customer, hook.id) == 1

    class One(InTransaction):
        """The connection of the test as the worker's database."""

    alice.sql.run(cleanup.removed_webhooks(One(Connection(alice.sql._connection)), Settings()))
    assert alice.sql.value(left, alice.customer, hook.id) == 0


def test_openapi_describes_deliveries(alice: Person) -> None:
    document = json.loads(alice.get("/openapi.json").content)
    assert set(document["webhooks"]) == {*OUTCOMES, *EVENTS, "change", "changes.checkpoint", "webhook.test"}
    sent = document["webhooks"]["assignment.created"]["post"]
    assert sent["requestBody"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Outcome"}
    assert {p["name"] for p in sent["parameters"]} == {
        "webhook-id", "webhook-timestamp", "webhook-signature", "secret",
    }  # fmt: skip


def test_the_number_of_webhooks_is_limited(town: Town, settings: Settings) -> None:
    carol = town.person("carol")
    body = {"url": "https://example.org/keyrack", "enabled": False}
    ids = [carol.put("/webhooks", body).json()["id"] for _ in range(settings.webhook_limit)]
    one_more = carol.put("/webhooks", body)
    assert one_more.status_code == 409
    assert one_more.text == "The customer has reached its limit of webhooks. Remove one first."
    assert carol.delete(f"/webhooks/{ids[0]}").status_code == 204
    assert carol.put("/webhooks", body).status_code == 201


def test_tests_and_replays_have_a_rate_limit(carol: Person, bob: Person, dsn: str, settings: Settings) -> None:
    """B4: four calls of all three kinds together are allowed; calls that get an error do not count."""
    few = settings.model_copy(update={"webhook_replay_rate": SELDOM, "webhook_replay_burst": 4})
    hooks = [who.put("/webhooks", {"url": "https://example.org/"}).json()["id"] for who in (carol, bob)]
    carol.put("/webhooks", {"url": "https://example.org/", "enabled": False})
    with RunningServer(few, dsn, worker=False) as running:

        def post(who: Person, path: str, body: Any = None) -> httpx.Response:
            return web().post(f"{running.url}/v3/webhooks/{path}", headers=who.headers, json=body)

        at, since = hooks[0], {"from": START}
        first = post(carol, f"{at}/test")
        assert first.status_code == 201
        for missing in (f"{2**31 - 1}/test", f"{at}/deliveries/{10**17}/replay", f"{at + 1}/test"):
            assert {post(carol, missing).status_code for _ in range(5)} <= {404, 409}
        assert post(carol, f"{at}/replay", {"from": "yesterday"}).status_code == 400
        answers = [
            first,
            post(carol, f"{at}/deliveries/{first.json()['id']}/replay"),
            post(carol, f"{at}/replay", since),
            post(carol, f"{at}/test"),
        ]
        assert [answer.status_code for answer in answers] == [201, 204, 200, 201]
        for number, answer in enumerate(answers):
            assert answer.headers["ratelimit-policy"] == f'"webhooks";q=4;w={round(240 / SELDOM)}'
            assert answer.headers["ratelimit"].startswith(f'"webhooks";r={3 - number};t=')
        for path, body in (
            (f"{at}/test", None), (f"{at}/deliveries/{first.json()['id']}/replay", None), (f"{at}/replay", since),
        ):  # fmt: skip
            answer = post(carol, path, body)
            assert answer.status_code == 429
            seconds = int(answer.headers["retry-after"])
            assert 1 <= seconds <= 60 / SELDOM
            assert answer.json() == {"status": "429", "message": f"Rate limit exceeded. Retry in {seconds} seconds."}
            assert answer.headers["ratelimit"].startswith('"webhooks";r=0;t=')
        sent = "select count(*) from delivery where customer_id = $1"
        assert carol.sql.value(sent, carol.customer) == 2
        assert post(bob, f"{hooks[1]}/test").status_code == 201  # another customer has its own limit
    bob.delete(f"/webhooks/{hooks[1]}")
