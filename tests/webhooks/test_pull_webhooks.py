"""Pull webhooks: equal messages, acknowledgement, order, bounds and isolation."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook

from keyrack.api.schema.request_body import invalid_member
from keyrack.core.settings import Settings
from keyrack.db.audit_context import acting, system
from keyrack.server.worker import connect
from keyrack.webhooks import cleanup, pull_queue
from keyrack.webhooks.delivery_errors import DISABLED_BY_TOO_MUCH, NOT_PULLED
from keyrack.webhooks.dialects import DIALECTS
from keyrack.webhooks.endpoints.messages import LONGEST, MOST, PUSHED
from keyrack.webhooks.endpoints.webhooks import DISABLED, NO_WEBHOOK, PULLED
from tests.cli.test_operator_commands import Operator
from tests.support.people import Person, Town, done, refused
from tests.support.servers import RunningServer, Sql, eventually
from tests.webhooks.delivery_database import LOCAL, Office
from tests.webhooks.receiver import Receiver

START = "2026-01-01T08:00:00Z"
KINDS = ["assignment.created", "assignment.deleted", "car.updated"]


class Pulled:
    """A pull webhook of a person."""

    def __init__(self, person: Person, **members: Any) -> None:
        self.person = person
        answer = person.put("/webhooks", {"pull": True, "kinds": KINDS, **members})
        assert answer.status_code == 201, answer.text
        self.id, self.secret = answer.json()["id"], answer.json()["signingSecret"]
        self.at = f"/webhooks/{self.id}"

    def fetch(self, query: str = "") -> list[dict[str, Any]]:
        answer = self.person.get(f"{self.at}/messages{query}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def fetched(self, count: int) -> list[dict[str, Any]]:
        """All waiting messages, once there are `count` of them."""
        return eventually(lambda: len(found := self.fetch()) >= count and found, f"{count} messages")

    def acknowledge(self, upto: int) -> int:
        answer = self.person.post(f"{self.at}/messages/ack", {"upto": upto})
        assert answer.status_code == 200, answer.text
        return answer.json()["count"]

    def states(self) -> list[str]:
        return [row["state"] for row in self.person.get(f"{self.at}/deliveries?$orderby=id").json()]


@pytest.fixture
def hook(alice: Person) -> Iterator[Pulled]:
    pulled = Pulled(alice)
    yield pulled
    alice.delete(pulled.at)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_pulled_message_has_the_bytes_of_a_pushed_one(alice: Person, dialect: str) -> None:
    with Receiver() as receiver:
        pulled = Pulled(alice, dialect=dialect, secret="open sesame")
        pushed = alice.put(
            "/webhooks", {"url": receiver.url, "kinds": KINDS, "dialect": dialect, "secret": "open sesame"}
        ).json()
        car = alice.car_with_box()
        alice.assignment(car, alice.user())
        done(alice.patch(f"/cars/{car}", [{"op": "replace", "path": "/description", "value": "Gr\u00fcn"}]))
        got = eventually(lambda: len(messages := receiver.messages()) >= 2 and messages, "two pushed messages")
        by_id = {request.headers["webhook-id"]: request for request in got}
        messages = pulled.fetched(2)
        for message in messages:
            request = by_id[message["headers"]["webhook-id"]]
            assert message["body"].encode() == request.body
            assert message["headers"].keys() <= {name.lower() for name in request.headers} | {"Content-Type"}
            assert message["headers"]["Content-Type"] == request.headers["content-type"]
            assert message["headers"].get("secret") == request.headers.get("secret")
            Webhook(pulled.secret).verify(message["body"], message["headers"])
        assert {message["type"] for message in messages} == {"assignment.created", "car.updated"}
        assert alice.sql.value("select count(*) from delivery_lane where webhook_id = $1", pulled.id) == 0
        for id in (pulled.id, pushed["id"]):
            alice.delete(f"/webhooks/{id}")


def test_a_message_waits_until_it_is_acknowledged(hook: Pulled, alice: Person) -> None:
    sent = [alice.post(f"{hook.at}/test").json()["id"] for _ in range(3)]
    first, second, third = [message["number"] for message in hook.fetch()]
    assert first < second < third
    assert [message["number"] for message in hook.fetch("?top=2")] == [first, second]
    assert [message["number"] for message in hook.fetch(f"?after={first}")] == [second, third]
    assert alice.get(hook.at).json()["waiting"] == 3
    assert (hook.acknowledge(second), hook.acknowledge(second)) == (2, 0)
    assert [message["number"] for message in hook.fetch()] == [third]
    assert hook.states() == ["Delivered", "Delivered", "Waiting"]
    log = alice.get(f"{hook.at}/deliveries?$filter=id eq {sent[0]}").json()[0]
    assert log["attempts"] == 1 and log["attempted"] and log["error"] is None
    done(alice.post(f"{hook.at}/deliveries/{sent[0]}/replay"))
    again = hook.fetch()
    assert again[0]["number"] == third and again[1]["number"] > third


def test_an_acknowledgement_leaves_messages_that_nobody_has_fetched(hook: Pulled, alice: Person) -> None:
    alice.post(f"{hook.at}/test")
    assert hook.acknowledge(2**63 - 1) == 0
    (message,) = hook.fetch()
    assert hook.acknowledge(message["number"]) == 1
    assert hook.fetch() == []


def test_messages_of_an_assignment_are_in_order(hook: Pulled, alice: Person) -> None:
    car, user = alice.car_with_box(), alice.user()
    for _ in range(5):
        alice.delete(f"/assignments/{alice.assignment(car, user)}")
    messages = hook.fetched(10)
    order: dict[str, list[str]] = {}
    for message in messages:
        body = json.loads(message["body"])
        order.setdefault(str(body["assignmentId"]), []).append(message["type"])
    assert list(order.values()) == [["assignment.created", "assignment.deleted"]] * 5


def test_a_waiting_request_gets_the_next_message(hook: Pulled, alice: Person) -> None:
    got: list[Any] = []
    waiting = threading.Thread(target=lambda: got.append(hook.fetch("?wait=60")))
    waiting.start()
    eventually(
        lambda: alice.sql.value("select pulled_at from webhook where webhook_id = $1", hook.id), "the waiting request"
    )
    alice.post(f"{hook.at}/test")
    waiting.join()
    assert [message["type"] for message in got[0]] == ["webhook.test"]
    assert hook.fetch(f"?after={got[0][0]['number']}&wait=1") == []


def test_a_disabled_pull_webhook_keeps_its_messages(hook: Pulled, alice: Person) -> None:
    alice.post(f"{hook.at}/test")
    done(alice.patch(hook.at, [{"op": "replace", "path": "/enabled", "value": False}]))
    refused(alice.get(f"{hook.at}/messages"), 409, DISABLED)
    refused(alice.post(f"{hook.at}/test"), 409, DISABLED)
    done(alice.patch(hook.at, [{"op": "replace", "path": "/enabled", "value": True}]))
    assert len(hook.fetch()) == 1


def test_after_a_rotation_messages_have_both_signatures(hook: Pulled, alice: Person) -> None:
    new = alice.post(f"{hook.at}/rotate-secret").json()["signingSecret"]
    alice.post(f"{hook.at}/test")
    (message,) = hook.fetch()
    for secret in (new, hook.secret):
        Webhook(secret).verify(message["body"], message["headers"])


# Registration


def test_a_pull_webhook_has_no_address(hook: Pulled, alice: Person) -> None:
    row = alice.get(hook.at).json()
    assert (row["url"], row["pull"], row["name"], row["deleteUnusedAfterDays"]) == (None, True, None, None)
    assert row["pulled"] is None
    assert alice.get("/webhooks?$filter=pull eq true and url eq null&$select=id").json() == [{"id": hook.id}]
    refused(alice.patch(hook.at, [{"op": "replace", "path": "/url", "value": "https://example.org/"}]), 409, PULLED)
    assert alice.patch(hook.at, [{"op": "replace", "path": "/pull", "value": False}]).status_code == 400
    alice.post(f"{hook.at}/test")
    hook.fetch()
    assert alice.get(hook.at).json()["pulled"] is not None
    listed = alice.get(f"/deliveries?$filter=webhookId eq {hook.id}").json()
    assert [delivery["webhookUrl"] for delivery in listed] == [None]


@pytest.mark.parametrize(
    ("body", "member", "sentence"),
    [
        ({"pull": True, "url": "https://example.org/"}, "url", "A pull webhook has no `url`. Leave one of them out."),
        ({}, "url", ""),
        ({"pull": False}, "url", ""),
        ({"url": None}, "url", ""),
        (
            {"url": "https://example.org/", "deleteUnusedAfterDays": 7},
            "deleteUnusedAfterDays",
            "Only a pull webhook has `deleteUnusedAfterDays`.",
        ),
    ],
)
def test_a_webhook_has_an_address_or_is_pulled(alice: Person, body: dict[str, Any], member: str, sentence: str) -> None:
    refused(alice.put("/webhooks", body), 400, f"{invalid_member('create webhook', member)} {sentence}".strip())


def test_a_pushed_webhook_has_no_messages_to_fetch(alice: Person) -> None:
    id = alice.put("/webhooks", {"url": "https://example.org/"}).json()["id"]
    refused(alice.get(f"/webhooks/{id}/messages"), 409, PUSHED)
    refused(alice.post(f"/webhooks/{id}/messages/ack", {"upto": 1}), 409, PUSHED)
    assert alice.patch(f"/webhooks/{id}", [{"op": "replace", "path": "/pull", "value": True}]).status_code == 400
    answer = alice.patch(f"/webhooks/{id}", [{"op": "replace", "path": "/url", "value": None}])
    refused(answer, 400, invalid_member("update webhook", "url"))
    alice.delete(f"/webhooks/{id}")


@pytest.mark.parametrize(
    "query", ["after=-1", "after=x", f"wait={LONGEST + 1}", "wait=-1", "top=0", f"top={MOST + 1}", "limit=5"]
)
def test_invalid_query_parameters_are_rejected(hook: Pulled, alice: Person, query: str) -> None:
    answer = alice.get(f"{hook.at}/messages?{query}", headers={"Accept": "application/problem+json"})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid-query-parameter")


@pytest.mark.parametrize("body", [{}, {"upto": -1}, {"upto": "1"}, {"upto": 2**63}, {"upto": 1, "from": 0}, []])
def test_invalid_acknowledgements_are_rejected(hook: Pulled, alice: Person, body: Any) -> None:
    assert alice.post(f"{hook.at}/messages/ack", body).status_code == 400


def test_another_customer_sees_no_message(hook: Pulled, alice: Person, bob: Person) -> None:
    alice.post(f"{hook.at}/test")
    hook.fetch()
    refused(bob.get(f"{hook.at}/messages"), 404, NO_WEBHOOK)
    refused(bob.post(f"{hook.at}/messages/ack", {"upto": 2**40}), 404, NO_WEBHOOK)
    assert len(hook.fetch()) == 1


def test_messages_need_the_permission_to_change_webhooks(hook: Pulled, alice: Person, town: Town) -> None:
    viewer = town.colleague(alice, "viewer", "Viewer")
    assert viewer.get(f"{hook.at}/messages").status_code == 403
    assert viewer.post(f"{hook.at}/messages/ack", {"upto": 1}).status_code == 403


# Bounds


def test_an_erased_user_is_in_no_waiting_message(alice: Person) -> None:
    pulled = Pulled(alice, kinds=["user.created", "assignment.created"])
    user = alice.user(f"gone-{pulled.id}@example.org")
    alice.assignment(alice.car_with_box(), user)
    waiting = pulled.fetched(2)
    assert f"gone-{pulled.id}" in "".join(message["body"] for message in waiting)
    alice.post(f"/users/{user}/erase").raise_for_status()
    eventually(lambda: f"gone-{pulled.id}" not in "".join(message["body"] for message in pulled.fetch()), "the erasure")
    assert len(pulled.fetch()) >= 2
    alice.delete(pulled.at)


def test_a_test_message_is_json_that_every_reader_takes(alice: Person, hook: Pulled, dsn: str) -> None:
    """PostgreSQL reads the messages in lists, exports and erasures."""

    def test(type: str, name: str, value: str) -> httpx.Response:
        body = f'{{"type": "{type}", "set": {{"{name}": {value}}}}}'
        headers = {"Content-Type": "application/json"}
        return alice.call("POST", f"{hook.at}/test", content=body.encode(), headers=headers)

    invalid = [
        ("event.opened", "latitude", "1e400"), ("event.opened", "userId", "-1e400"),
        ("event.opened", "userId", "1.5"), ("assignment.created", "userId", str(2**31)),
        ("assignment.created", "errorMessage", r'"\u0000"'), ("assignment.created", "errorMessage", f'"{"x" * 1_001}"'),
    ]  # fmt: skip
    for type, name, value in invalid:
        answer = test(type, name, value)
        assert (answer.status_code, f"`{name}`" in answer.text) == (400, True), (value, answer.text)
    assert test("assignment.created", "userId", str(2**31 - 1)).status_code == 201
    assert [json.loads(message["body"])["userId"] for message in hook.fetched(1)] == [2**31 - 1]
    assert alice.get(f"{hook.at}/deliveries").status_code == 200
    assert alice.get("/deliveries").status_code == 200
    user = alice.user()
    Operator(dsn).value("user", "export", user)
    Operator(dsn).value("user", "erase", user, "--yes")


def test_messages_that_nobody_fetches_become_dead(dsn: str) -> None:
    async def main() -> None:
        async with Office.open(dsn) as office:
            webhook = await office.webhook(None)
            await office.deliver(webhook, lane=1, count=3)
            assert await office.sql.fetchval("select count(*) from delivery_lane") == 0
            database = await connect(dsn, LOCAL)
            try:
                assert len(await pull_queue.fetch(database, 1, webhook, 0, 10)) == 3
                await office.sql.execute("update delivery set since = now() - interval '73 hours' where applied < 3")
                await cleanup.pulled_messages(database, LOCAL)
                dead = await office.sql.fetch("select error from delivery where state = 'Dead'")
                assert [row["error"] for row in dead] == [NOT_PULLED.text] * 2
                assert len(await pull_queue.fetch(database, 1, webhook, 0, 10)) == 1
                assert await office.sql.fetchval("select count(*) from pulled_message") == 1
            finally:
                await database.close()

    asyncio.run(main())


def test_at_the_bound_the_webhook_is_disabled_and_a_replay_sends_the_rest(
    dsn: str, sql: Sql, settings: Settings
) -> None:
    few = settings.model_copy(update={"webhook_max_pending": 3})
    with RunningServer(few, dsn, worker=False) as server:
        anna = Town(sql, server).person("anna")
        hook = Pulled(anna, kinds=["event.*"])
        car, user = anna.car(), anna.user()
        begun = anna.get(hook.at).json()["created"]
        events = [anna.event(car, user) for _ in range(5)]
        row = anna.get(hook.at).json()
        assert (row["enabled"], row["disabledReason"], row["waiting"]) == (False, DISABLED_BY_TOO_MUCH.text, 3)
        refused(anna.get(f"{hook.at}/messages"), 409, DISABLED.text)
        assert hook.acknowledge(2**63 - 1) == 0, "nobody has fetched a message"

        done(anna.patch(hook.at, [{"op": "replace", "path": "/enabled", "value": True}]))
        first = hook.fetch()
        assert [ids_of(message) for message in first] == events[:3]
        assert hook.acknowledge(first[-1]["number"]) == 3
        replay = anna.post(f"{hook.at}/replay", {"from": begun, "undelivered": True})
        assert replay.json()["count"] == 2, replay.text
        rest = hook.fetch()
        assert [ids_of(message) for message in rest] == events[3:]
        assert hook.acknowledge(rest[-1]["number"]) == 2
        assert anna.get(hook.at).json()["waiting"] == 0


def ids_of(message: dict[str, Any]) -> int:
    """The event of a message."""
    return json.loads(message["body"])["data"]["id"]


def test_an_unused_pull_webhook_is_deleted(dsn: str) -> None:
    async def main() -> None:
        async with Office.open(dsn) as office:
            unused, used, kept = [await office.webhook(None, delete_unused_after_days=days) for days in (7, 7, None)]
            await office.sql.execute("update webhook set created_at = now() - interval '8 days'")
            await office.sql.execute(
                "update webhook set pulled_at = now() - interval '6 days' where webhook_id = $1", used
            )
            database = await connect(dsn, LOCAL)
            try:
                acting.set(system("housekeeping"))
                await cleanup.unused_webhooks(database, LOCAL)
            finally:
                await database.close()
            left = await office.sql.fetch("select webhook_id from webhook order by 1")
            assert [row["webhook_id"] for row in left] == [used, kept]
            assert await office.sql.fetchval("select webhook_id from removed_webhook") == unused

    asyncio.run(main())


def test_no_worker_sends_the_messages(dsn: str) -> None:
    """The database leaves out the lanes that an earlier release writes."""

    async def main() -> None:
        with Receiver() as receiver:
            async with Office.open(dsn) as office, office.worker():
                pulled, pushed = await office.webhook(None), await office.webhook(receiver.url)
                await office.deliver(pulled, lane=1)
                await office.deliver(pushed, lane=1)
                await office.drained()
                assert await office.count("Delivered") == 1
                assert await office.sql.fetchval("select webhook_id from delivery where state = 'Waiting'") == pulled

    asyncio.run(main())


def test_numbers_follow_the_order_of_each_lane(dsn: str) -> None:
    async def main() -> None:
        async with Office.open(dsn) as office:
            webhook = await office.webhook(None)
            for lane in (1, 2):
                await office.deliver(webhook, lane=lane, count=20)
            await office.deliver(webhook, lane=1, count=20)
            database = await connect(dsn, LOCAL)
            try:
                rows = await pull_queue.fetch(database, 1, webhook, 0, 100)
            finally:
                await database.close()
            order: dict[int, list[int]] = {}
            for row in rows:
                payload = json.loads(row["payload"])
                order.setdefault(payload["lane"], []).append(payload["n"])
            assert order == {1: [*range(1, 21), *range(1, 21)], 2: [*range(1, 21)]}

    asyncio.run(main())
