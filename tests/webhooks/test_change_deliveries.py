"""Deliveries of changes: once, signed, in the order of each resource, equal to the feed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from standardwebhooks import Webhook

from keyrack.api.schema.event_types import CHANGES, OUTCOMES, TAKEN
from keyrack.core.settings import Settings
from keyrack.db.connection import Connection, Database
from keyrack.webhooks import change_deliveries
from keyrack.webhooks.delivery_errors import DISABLED_BY_TOO_MUCH
from keyrack.webhooks.endpoints.webhooks import NO_WEBHOOK
from tests.changelog.outbox import finish_erasing
from tests.changelog.transparency.checkpoints import settled
from tests.cli.test_operator_commands import Operator
from tests.support.people import Person, Town, done, refused
from tests.support.servers import Sql, eventually
from tests.webhooks.delivery_database import Office
from tests.webhooks.receiver import Received, Receiver, without_repetitions

LONG_AGO = {"from": "2020-01-01T00:00:00Z"}


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


class Hook:
    """A webhook with its own path, and the requests that arrived there."""

    def __init__(self, person: Person, receiver: Receiver, name: str, *kinds: str, **members: Any) -> None:
        self.person, self.receiver, self.path = person, receiver, f"/{name}-{person.customer}"
        answer = person.put("/webhooks", {"url": receiver.url + self.path, "kinds": list(kinds), **members})
        assert answer.status_code == 201, answer.text
        self.id, self.secret = answer.json()["id"], answer.json()["signingSecret"]
        self.at = f"/webhooks/{self.id}"

    def got(self) -> list[Received]:
        return self.receiver.of(self.path)

    def told(self) -> list[tuple[str, str]]:
        """Event types and ids of the received changes, once all have been sent."""
        settled(self.person)
        eventually(self.is_done, "everything sent")
        return [(one.payload["type"], one.payload["data"]["resourceId"]) for one in self.messages()]

    def messages(self) -> list[Received]:
        return without_repetitions(self.got())

    def row(self) -> dict[str, Any]:
        return self.person.get(self.at).json()

    def is_done(self) -> bool:
        """Whether no delivery waits for the webhook."""
        return not self.row()["waiting"]

    def deliveries(self) -> list[dict[str, Any]]:
        return self.person.get(f"{self.at}/deliveries?$orderby=id").json()


def renamed(person: Person, car: int, *names: str) -> None:
    for name in names:
        done(person.patch(f"/cars/{car}", [{"op": "replace", "path": "/name", "value": name}]))


def test_event_types_are_listed_with_wildcards(alice: Person) -> None:
    answer = alice.get("/webhooks/kinds")
    listed = {row["kind"]: row for row in answer.json()}
    assert listed.keys() == TAKEN.keys()
    assert listed["box.installed"] == {
        "kind": "box.installed", "resource": "product", "meaning": "A box was installed in a car.",
        "isWildcard": False, "takes": [],
    }  # fmt: skip
    assert listed["product.*"]["isWildcard"] and "box.installed" in listed["product.*"]["takes"]
    assert "*" not in listed and "webhook.test" not in listed
    assert alice.get("/webhooks/kinds", headers={"If-None-Match": answer.headers["ETag"]}).status_code == 304


@pytest.mark.parametrize(
    ("kind", "nearest"),
    [("car.craeted", "car.created"), ("cars.*", "car.*"), ("box.instaled", "box.installed"), ("*", "/webhooks/kinds"),
     ("apiKey.created", "sdkKey.created"), ("customer.deleted", "customer.updated"), ("", "/webhooks/kinds")],
)  # fmt: skip
def test_an_unknown_event_type_gets_a_suggestion(alice: Person, kind: str, nearest: str) -> None:
    hook = alice.put("/webhooks", {"url": "https://example.org/", "enabled": False}).json()["id"]
    body = {"url": "https://example.org/", "kinds": ["car.*", kind]}
    for answer in (
        alice.put("/webhooks", body),
        alice.patch(f"/webhooks/{hook}", [{"op": "replace", "path": "/kinds", "value": [kind]}]),
    ):
        assert answer.status_code == 400
        assert "is not an event type." in answer.text and nearest in answer.text
    problem = alice.put("/webhooks", body, headers={"Accept": "application/problem+json"}).json()
    assert [(one["pointer"], one["code"]) for one in problem["errors"]] == [("/kinds/1", "not-one-of")]
    assert alice.get(f"/webhooks/{hook}").json()["kinds"] == sorted(OUTCOMES)
    done(alice.delete(f"/webhooks/{hook}"))


def test_each_change_is_sent_once_in_the_order_of_its_resource(carol: Person, receiver: Receiver) -> None:
    every = [name for name, kind in TAKEN.items() if kind.takes and name not in ("assignment.*", "changes.*")]
    hook = Hook(carol, receiver, "families", *every)
    car, user, group = carol.car(), carol.user(), carol.group()
    box = carol.product()
    service = carol.service(box)
    renamed(carol, car, "Two", "Three")
    done(carol.put("/installations", {"carId": car, "productId": box}))
    done(carol.put(f"/groups/{group}/cars", {"carId": car}))
    assignment = carol.assignment(car, user)
    done(carol.delete("/installations", {"carId": car, "productId": box}))
    done(carol.delete(f"/cars/{car}"))

    told = hook.told()
    assert len(told) == len({one.payload["data"]["id"] for one in hook.got()}), "one message for each change"
    of = {id: [kind for kind, other in told if other == id] for _, id in told}
    assert [kind for kind in of[str(car)] if kind.startswith("car.")] == [
        "car.created", "car.updated", "car.updated", "car.deleted",
    ]  # fmt: skip
    assert [kind for kind in of[str(box)] if kind.startswith(("box.", "product."))] == [
        "product.created", "box.installed", "box.uninstalled",
    ]  # fmt: skip
    assert [kind for kind in of[str(group)] if kind.startswith("group.")] == [
        "group.created", "group.carAdded", "group.carRemoved",
    ]  # fmt: skip
    assert {("user.created", str(user)), ("service.created", str(service)), ("webhook.created", str(hook.id))} < {*told}
    assert str(assignment) not in [one.payload["data"]["resourceId"] for one in hook.got() if "assign" in one.path]
    assert not any(kind.startswith("assignment.") for kind, _ in told), "these are outcomes"

    # The data equal those of the feed; the envelope names the log
    feed = {row["id"]: row for row in carol.get("/changes").json()}
    head = carol.get("/changes?$top=0").headers
    for one in hook.got():
        body = one.payload
        assert list(body) == ["type", "timestamp", "customerId", "epoch", "data"]
        assert body["data"] == feed[body["data"]["id"]]
        assert (body["type"], body["timestamp"]) == (body["data"]["kind"], body["data"]["time"])
        assert (body["customerId"], body["epoch"]) == (carol.customer, head["Changes-Epoch"])
        Webhook(hook.secret).verify(one.body, one.headers)
        assert UUID(one.headers["webhook-id"]).version == 8
    rows = {row["messageId"]: row for row in hook.deliveries()}
    for one in hook.got():
        row = rows[one.headers["webhook-id"]]
        assert (row["type"], row["changeId"]) == (one.payload["type"], one.payload["data"]["id"])
        assert (row["operationId"], row["assignmentId"], row["payload"]) == (None, None, one.payload)
    done(carol.delete(hook.at))


def test_a_wildcard_covers_a_resource_and_an_event_type_only_itself(carol: Person, receiver: Receiver) -> None:
    products = Hook(carol, receiver, "products", "product.*")
    boxes = Hook(carol, receiver, "boxes", "box.*", "box.installed")
    taken = Hook(carol, receiver, "taken", "box.uninstalled")
    told = Hook(carol, receiver, "told", "assignment.*")
    assert told.row()["kinds"] == sorted(OUTCOMES), "as releases know them that know no wildcards"
    assert boxes.row()["kinds"] == ["box.*", "box.installed"]
    car = carol.car_with_box()
    box = int(carol.get(f"/cars/{car}/products").json()[0]["id"])
    carol.assignment(car, carol.user())
    done(carol.delete("/installations", {"carId": car, "productId": box}))
    assert products.told() == [(kind, str(box)) for kind in ("product.created", "box.installed", "box.uninstalled")]
    assert boxes.told() == [(kind, str(box)) for kind in ("box.installed", "box.uninstalled")]
    assert taken.told() == [("box.uninstalled", str(box))]
    eventually(lambda: len(told.messages()) >= 2, "both outcomes")
    assert [one.payload["type"] for one in told.messages()] == ["assignment.created", "assignment.deleted"]
    assert all("operationId" in one.payload for one in told.got())


def test_changes_of_other_customers_and_rolled_back_changes_are_not_sent(
    carol: Person, bob: Person, receiver: Receiver
) -> None:
    mine, theirs = Hook(carol, receiver, "mine", "car.*"), Hook(bob, receiver, "theirs", "car.*")
    car = carol.car()
    carol.sql.execute(
        "begin; insert into car (customer_id, name) values (" + str(carol.customer) + ", 'never'); rollback"
    )
    assert carol.put("/batch", {
        "kind": "cars", "atomic": True,
        "items": [{"op": "create", "body": {"name": "no"}}, {"op": "change", "id": 2**31 - 1, "patch": []}],
    }).status_code in (200, 400, 409, 405)  # fmt: skip
    other = bob.car()
    assert mine.told() == [("car.created", str(car))]
    assert theirs.told() == [("car.created", str(other))]
    assert {one.payload["customerId"] for one in theirs.got()} == {bob.customer}
    refused(bob.get(f"{mine.at}/deliveries"), 404, NO_WEBHOOK)
    done(bob.delete(theirs.at))


def test_a_failing_resource_keeps_its_order_and_delays_no_other(carol: Person, receiver: Receiver) -> None:
    hook = Hook(carol, receiver, "failing", "car.*")
    failed = list[str]()
    cars = [carol.car(), carol.car()]

    def answer(one: Received) -> Any:
        if one.path == hook.path and one.payload["data"]["resourceId"] == str(cars[0]) and len(failed) < 3:
            failed.append(one.headers["webhook-id"])
            return 500, b"", {}
        return 200, b"", {}

    receiver.answer = answer
    for car in cars:
        renamed(carol, car, "Two", "Three")
    hook.told()
    receiver.answer = lambda _: (200, b"", {})
    assert len(failed) == 3 and len(hook.messages()) == 6
    for car in cars:
        seen = [one for one in hook.got() if one.payload["data"]["resourceId"] == str(car)]
        numbers = [one.payload["data"]["id"] for one in seen]
        assert numbers == sorted(numbers) and len(set(numbers)) == 3
    repeated = [one.body for one in hook.got() if one.headers["webhook-id"] == failed[0]]
    assert len(repeated) > 1 and len(set(repeated)) == 1


def test_changes_are_replayed_singly_and_by_time_range(carol: Person, receiver: Receiver) -> None:
    car = carol.car_with_box()
    renamed(carol, car, "Two")
    carol.assignment(car, carol.user())
    settled(carol)
    hook = Hook(carol, receiver, "replayed", "car.*", "assignment.created")
    before = carol.post(f"{hook.at}/replay", LONG_AGO | {"undelivered": True}).json()
    assert before == {"count": 3, "next": None}, "also what was never written for it"
    eventually(lambda: len(hook.messages()) == 3, "what was before")
    types = [one.payload["type"] for one in hook.messages()]
    assert sorted(types) == ["assignment.created", "car.created", "car.updated"]
    assert [name for name in types if name.startswith("car.")] == ["car.created", "car.updated"]
    eventually(hook.is_done, "its record")
    assert carol.post(f"{hook.at}/replay", LONG_AGO | {"undelivered": True}).json()["count"] == 0
    row = next(row for row in hook.deliveries() if row["type"] == "car.created")
    done(carol.post(f"{hook.at}/deliveries/{row['id']}/replay"))
    created = eventually(
        lambda: (found := [one for one in hook.got() if one.payload["type"] == "car.created"])[1:] and found, "it again"
    )
    assert {one.headers["webhook-id"] for one in created} == {row["messageId"]}
    before_all = len(hook.got())
    assert carol.post(f"{hook.at}/replay", LONG_AGO).json()["count"] == 3
    eventually(lambda: len(without_repetitions(hook.got()[before_all:])) == 3, "all again")
    assert len(hook.deliveries()) == 3
    later = carol.get("/changes?$orderby=id desc&$top=1").json()[0]["recordedTime"]
    assert carol.post(f"{hook.at}/replay", {"from": later, "to": "2099-01-01T00:00:00Z"}).json()["count"] == 0


def test_deliveries_cause_no_changes_and_contain_no_secret(carol: Person, receiver: Receiver) -> None:
    """The webhook gets its own creation once: deliveries to it change no recorded member of it."""
    hook = Hook(carol, receiver, "itself", "webhook.*", secret="open sesame")
    eventually(lambda: hook.told() == [("webhook.created", str(hook.id))], "the first one's creation")
    watcher = Hook(carol, receiver, "watcher", "webhook.*")
    done(carol.patch(hook.at, [{"op": "replace", "path": "/secret", "value": "close sesame"}]))
    rotated = carol.post(f"{hook.at}/rotate-secret").json()["signingSecret"]
    expected = [
        ("webhook.created", str(hook.id)), ("webhook.created", str(watcher.id)),
        ("webhook.updated", str(hook.id)), ("webhook.updated", str(hook.id)),
    ]  # fmt: skip
    assert sorted(hook.told()) == expected
    for _ in range(3):  # deliveries cause no further changes
        assert sorted(hook.told()) == expected
        assert sorted(watcher.told()) == expected[1:]  # changes numbered before its creation are not sent to it
    for secret in ("sesame", hook.secret, rotated):
        assert secret.encode() not in b"".join(one.body for one in (*hook.got(), *watcher.got()))
    assert any(one.payload["data"]["after"] == {"secret": "***"} for one in hook.got())

    # Other webhooks get the change of one that Keyrack disables, once
    receiver.answer = lambda one: (410 if one.path == hook.path else 200, b"", {})
    carol.post(f"{hook.at}/test")
    eventually(lambda: not hook.row()["enabled"], "its end")
    told = watcher.told()
    receiver.answer = lambda _: (200, b"", {})
    assert len(told) == 4
    last = next(one.payload["data"] for one in watcher.got() if one.payload["data"]["before"] == {"isEnabled": True,
        "disabledReason": None})  # fmt: skip
    assert last["after"]["isEnabled"] is False and last["actor"]["type"] == "system"


def test_an_erased_person_is_removed_from_sent_and_waiting_deliveries(
    town: Town, receiver: Receiver, dsn: str, settings: Settings
) -> None:
    dora, address = town.person("dora"), f"gone{time.monotonic_ns()}@example.org"
    hook = Hook(dora, receiver, "erased", "user.*", "group.*")
    receiver.answer = lambda one: (500 if one.payload["type"] == "user.deleted" else 200, b"", {})
    user = dora.user(address)
    group = dora.group()
    dora.put(f"/groups/{group}/users", {"userId": user}).raise_for_status()
    settled(dora)
    eventually(hook.is_done, "what is known of the user")
    preview = dora.get(f"/users/{user}/erasure").json()
    assert {"kind": "deliveries", "how": "anonymous", "count": 2} in preview["goes"]
    assert address in json.dumps(hook.deliveries())
    assert address in json.dumps(Operator(dsn).value("user", "export", address))

    dora.post(f"/users/{user}/erase").raise_for_status()
    settled(dora)
    eventually(lambda: any(row["error"] for row in hook.deliveries()), "an attempt to tell of it")

    finish_erasing(dsn)
    kept = hook.deliveries()
    assert address not in json.dumps(kept) and "Uma" not in json.dumps(kept)
    assert {row["type"]: row["payload"]["data"]["after"] for row in kept if row["type"] != "group.created"} == {
        "user.created": {"type": "Anonymous"}, "group.userAdded": None, "group.userRemoved": None, "user.deleted": None,
    }  # fmt: skip
    feed = {row["id"]: row for row in dora.get("/changes").json()}
    assert all(row["payload"]["data"] == feed[row["changeId"]] for row in kept), "as the log shows it now"
    receiver.answer = lambda _: (200, b"", {})
    eventually(hook.is_done, "the rest")
    last = [one for one in hook.got() if one.payload["type"] == "user.deleted"][-1]
    assert address.encode() not in last.body and last.payload["data"]["before"] == {"type": "Anonymous"}
    Webhook(hook.secret).verify(last.body, last.headers)


def test_a_person_erased_by_the_operator_is_removed_from_deliveries(town: Town, receiver: Receiver, dsn: str) -> None:
    fay, address = town.person("fay"), f"all{time.monotonic_ns()}@example.org"
    hook = Hook(fay, receiver, "everywhere", "user.*")
    fay.user(address)
    assert [kind for kind, _ in hook.told()] == ["user.created"]
    Operator(dsn).value("user", "erase", address, "--yes")
    assert [kind for kind, _ in hook.told()] == ["user.created", "user.deleted"]
    assert address not in json.dumps(hook.deliveries())


def test_a_webhook_with_too_many_waiting_deliveries_is_disabled(own: str) -> None:
    """Deliveries beyond the limit are not written; a replay of the time range sends them."""

    async def main() -> None:
        with Receiver(lambda _: (500, b"", {})) as receiver:
            async with Office.open(own) as office:
                full, other = [await office.webhook(f"{receiver.url}/{n}", n) for n in (1, 2)]
                await office.sql.execute("update webhook set kinds = '{car.*,webhook.*}'")
                add = "insert into car (customer_id, name) select $1, n from generate_series(1, $2) n"
                async with office.worker(webhook_max_pending=5, webhook_retry_first=60.0, webhook_retry_max=60.0):
                    await office.numbered()
                    before = await office.count("Waiting")
                    await office.sql.execute(add, 1, 3)
                    await office.numbered()
                    assert await office.count("Waiting") == before + 3
                    await office.sql.execute(add, 1, 3)
                    await office.sql.execute(add, 2, 2)
                    await office.numbered()
                    row = await office.sql.fetchrow("select * from webhook where webhook_id = $1", full)
                    assert (row["is_enabled"], row["disabled_reason"]) == (False, DISABLED_BY_TOO_MUCH.text)
                    of = "select count(*) from delivery where webhook_id = $1 and type like 'car.%'"
                    assert (await office.sql.fetchval(of, full), await office.sql.fetchval(of, other)) == (3, 2)
                    disabled = "select count(*) from change where kind = 'webhook.updated' and customer_id = 1"
                    told = await office.sql.fetchval(disabled)
                    await office.sql.execute(add, 1, 4)
                    await office.numbered()
                    assert await office.sql.fetchval(of, full) == 3 and await office.sql.fetchval(disabled) == told

    asyncio.run(main())


def test_a_checkpoint_is_sent_once_and_in_order_to_subscribers(
    carol: Person, bob: Person, receiver: Receiver, dsn: str, settings: Settings
) -> None:
    hook = Hook(carol, receiver, "checkpoints", "changes.checkpoint")
    every = Hook(carol, receiver, "every", "changes.*")
    cars, theirs = Hook(carol, receiver, "cars", "car.*"), Hook(bob, receiver, "nobodys", "changes.*")

    async def publish() -> list[int]:
        database = await Database.connect(dsn, settings)
        try:
            async with database.transaction() as connection:
                assert isinstance(connection, Connection)
                return [
                    await change_deliveries.publish_checkpoints(
                        connection, {(carol.customer, f"epoch/{size}"): {"size": size}}
                    )
                    for size in (7, 9, 7)
                ]
        finally:
            await database.close()

    assert asyncio.run(publish()) == [2, 2, 0]
    carol.sql.execute("notify keyrack_deliver")
    for one in (hook, every):
        eventually(one.is_done, "both")
        sizes = [told.payload["data"] for told in one.messages()]
        # A checkpoint of the worker that was due meanwhile has further properties
        assert [data for data in sizes if list(data) == ["size"]] == [{"size": 7}, {"size": 9}]
        assert list(one.got()[0].payload) == ["type", "timestamp", "customerId", "data"]
    sent = [[told.headers["webhook-id"] for told in one.messages()] for one in (hook, every)]
    assert sent[0] == sent[1]
    assert {row["changeId"] for row in hook.deliveries()} == {None}
    assert cars.got() == theirs.got() == []
    done(bob.delete(theirs.at))


def test_a_sent_checkpoint_equals_the_one_of_the_api(carol: Person, receiver: Receiver, dsn: str) -> None:
    hook = Hook(carol, receiver, "proven", "changes.checkpoint")
    carol.car()
    settled(carol)
    Operator(dsn).value("audit", "checkpoint", "--customer", str(carol.customer))
    asked = carol.get("/changes/checkpoint").json()  # a checkpoint that was due meanwhile may arrive first
    told = eventually(lambda: [one for one in hook.got() if one.payload["data"]["size"] == asked["size"]], "its copy")
    assert told[0].payload["data"] | {"consistency": None} == asked


def test_no_delivery_is_written_without_a_subscriber(carol: Person, sql: Sql, receiver: Receiver) -> None:
    hook = Hook(carol, receiver, "outcomes", *OUTCOMES)
    off = Hook(carol, receiver, "disabled", "car.*", enabled=False)
    carol.car()
    settled(carol)
    assert sql.value("select count(*) from delivery where customer_id = $1", carol.customer) == 0
    assert hook.got() == off.got() == []
    assert set(CHANGES).isdisjoint(OUTCOMES)
