"""Idempotency-Key: a repeated write gets its first response, on every node and after failures."""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import asyncpg
import httpx
import pytest

from keyrack.api.endpoint import Endpoint
from keyrack.api.idempotency import IN_FLIGHT, INVALID, OTHER_CALLER, OTHER_REQUEST
from keyrack.api.permissions import Role
from keyrack.core.settings import Settings
from keyrack.fleet.endpoints.cars import NO_CAR
from keyrack.http.routes import ALL
from tests.auth.group_scope import limit, limited, put
from tests.http.test_contract import name, over
from tests.http.test_tenant_isolation import ask, world
from tests.support.people import Person, Town, done, http_client, refused
from tests.support.servers import RunningServer, eventually

AT_THE_LOCK = "select pid from pg_stat_activity where wait_event_type = 'Lock' and query ~ '(from|update) car'"


def keyed(key: str | None = None) -> dict[str, Any]:
    return {"headers": {"Idempotency-Key": key or str(uuid.uuid4())}}


@contextlib.contextmanager
def locked(dsn: str, sql: str, *args: object) -> Iterator[None]:
    """A transaction of another client that holds the locks of the statement."""
    loop = asyncio.new_event_loop()

    async def begin() -> Any:
        connection = await asyncpg.connect(dsn)
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(sql, *args)
        return connection, transaction

    connection, transaction = loop.run_until_complete(begin())
    try:
        yield
    finally:
        loop.run_until_complete(transaction.rollback())
        loop.run_until_complete(connection.close())
        loop.close()


def test_a_repeated_creation_gets_the_first_response(alice: Person) -> None:
    options = keyed()
    first, second = (alice.put("/cars", {"name": "Once"}, **options) for _ in range(2))
    assert (first.status_code, first.content) == (second.status_code, second.content)
    assert first.status_code == 201
    assert "idempotency-replayed" not in first.headers
    assert second.headers["idempotency-replayed"] == "true"
    assert len(alice.get("/cars?$filter=name eq 'Once'").json()) == 1
    assert alice.put("/cars", {"name": "Once"}, **keyed()).json()["id"] != first.json()["id"]


def test_repeated_changes_get_the_first_response(alice: Person) -> None:
    car = alice.car("Changed")
    patch = [{"op": "replace", "path": "/name", "value": "New"}]
    options = keyed()
    assert alice.patch(f"/cars/{car}", patch, **options).status_code == 204
    alice.patch(f"/cars/{car}", [{"op": "replace", "path": "/name", "value": "Newer"}])
    assert alice.patch(f"/cars/{car}", patch, **options).status_code == 204
    assert alice.get(f"/cars/{car}").json()["name"] == "Newer"
    options = keyed()
    assert [alice.delete(f"/cars/{car}", **options).status_code for _ in range(2)] == [204, 204]
    assert alice.delete(f"/cars/{car}", **keyed()).status_code == 404
    user = alice.user()
    options = keyed()
    events = [
        alice.put(
            "/events",
            {
                "dateTime": "2026-05-01T10:00:00",
                "utcDateTime": "2026-05-01T08:00:00Z",
                "carId": alice_car,
                "userId": user,
                "type": "CarOpened",
                "userAgent": "tests",
            },
            **options,
        ).json()
        for alice_car in [alice.car()] * 2
    ]
    assert events[0] == events[1]


def test_a_repeated_assignment_request_creates_one_operation(alice: Person) -> None:
    car, user = alice.car_with_box(), alice.user()
    options = keyed()
    body = {"carId": car, "userId": user, "start": "2026-01-01T08:00:00Z"}
    first, second = (alice.put("/assignments", body, **options) for _ in range(2))
    assert first.status_code == second.status_code == 204
    for header in ("operation-id", "operation-location", "ratelimit"):
        assert first.headers[header] == second.headers[header]
    eventually(lambda: alice.get(f"/cars/{car}/assignments").json(), "the assignment")
    assert len(alice.get(f"/operations?$filter=carId eq {car}").json()) == 1


def test_another_request_with_the_same_key_gets_422(alice: Person) -> None:
    key = str(uuid.uuid4())
    assert alice.put("/cars", {"name": "Mine"}, **keyed(key)).status_code == 201
    refused(alice.put("/cars", {"name": "Other"}, **keyed(key)), 422, OTHER_REQUEST)
    refused(alice.put("/groups", {"name": "Mine"}, **keyed(key)), 422, OTHER_REQUEST)
    refused(alice.delete(f"/cars/{alice.car()}", **keyed(key)), 422, OTHER_REQUEST)


def test_an_error_response_is_replayed(alice: Person) -> None:
    options = keyed()
    name = f"Taken {uuid.uuid4()}"
    taken = alice.group(name)
    first = alice.put("/groups", {"name": name}, **options)
    assert first.status_code == 409
    alice.delete(f"/groups/{taken}")
    second = alice.put("/groups", {"name": name}, **options)
    assert (second.status_code, second.text, second.headers["content-type"]) == (
        409, first.text, first.headers["content-type"],
    )  # fmt: skip
    assert alice.put("/groups", {"name": name}, **keyed()).status_code == 201


def test_a_rate_limited_request_can_be_retried(town: Any, dsn: str, settings: Settings) -> None:
    carol: Person = town.person("carol")
    with RunningServer(settings.model_copy(update={"assignment_burst": 1, "assignment_rate": 60}), dsn) as node:
        client = http_client(base_url=node.url + "/v3", headers=carol.headers)
        body = {"carId": carol.car(), "userId": carol.user(), "start": "2026-01-01T08:00:00Z"}

        def limited() -> dict[str, Any] | None:
            options = keyed()
            return options if client.put("/assignments", json=body, **options).status_code == 429 else None

        options = eventually(limited, "two requests within the second that gives room to one")
        eventually(lambda: client.put("/assignments", json=body, **options).status_code == 204, "its turn")


@pytest.mark.parametrize("key", ["", "x" * 256, "\u00e9"])
def test_an_invalid_key_is_rejected(alice: Person, key: str) -> None:
    headers = {"Idempotency-Key": key.encode("latin-1")}
    refused(alice.put("/cars", {"name": "X"}, headers=headers), 400, INVALID)
    assert alice.put("/cars", {"name": "X"}, **keyed(str(uuid.uuid4()).ljust(255, "x"))).status_code == 201


def test_keys_belong_to_a_customer(alice: Person, bob: Person) -> None:
    options = keyed()
    mine, theirs = (person.put("/cars", {"name": "Same"}, **options) for person in (alice, bob))
    assert mine.json() != theirs.json()
    assert bob.get(f"/cars/{theirs.json()['id']}").status_code == 200


def test_two_nodes_share_keys(alice: Person, dsn: str, settings: Settings) -> None:
    with RunningServer(settings, dsn, worker=False) as node:
        other = http_client(base_url=node.url + "/v3", headers=alice.headers)
        for _ in range(5):
            options = keyed()
            name = str(uuid.uuid4())

            def put(number: int, name: str = name, options: Any = options) -> httpx.Response:
                if number % 2:
                    return other.put("/cars", json={"name": name}, **options)
                return alice.put("/cars", {"name": name}, **options)

            with ThreadPoolExecutor(8) as threads:
                answers = list(threads.map(put, range(16)))
            assert {answer.status_code for answer in answers} <= {201, 409}
            assert {answer.text for answer in answers if answer.status_code == 409} <= {IN_FLIGHT.text}
            assert len({answer.text for answer in answers if answer.status_code == 201}) == 1
            assert len(alice.get(f"/cars?$filter=name eq '{name}'").json()) == 1
            assert {put(number).status_code for number in range(2)} == {201}


RENAMED = [{"op": "replace", "path": "/name", "value": "renamed"}]


def test_a_repeat_during_the_first_request_gets_409(alice: Person, dsn: str) -> None:
    car, options = alice.car(), keyed()
    with ThreadPoolExecutor(1) as threads:
        with locked(dsn, "select from car where customer_id = $1 and car_id = $2 for update", alice.customer, car):
            slow = threads.submit(alice.patch, f"/cars/{car}", RENAMED, **options)
            eventually(lambda: alice.sql.value(AT_THE_LOCK), "the request at the lock")
            answer = alice.patch(f"/cars/{car}", RENAMED, **options)
            refused(answer, 409, IN_FLIGHT)
            assert answer.headers["retry-after"] == "1"
            assert not slow.done()
        assert slow.result().status_code == 204
    again = alice.patch(f"/cars/{car}", RENAMED, **options)
    assert (again.status_code, again.headers["idempotency-replayed"]) == (204, "true")


def test_an_aborted_request_leaves_nothing(alice: Person, dsn: str) -> None:
    """The database connection dies during the request.

    There is no effect and no stored response, and the key is free at once.
    """
    car, options = alice.car(), keyed()
    with ThreadPoolExecutor(1) as threads:
        with locked(dsn, "select from car where customer_id = $1 and car_id = $2 for update", alice.customer, car):
            slow = threads.submit(alice.delete, f"/cars/{car}", **options)
            pid = eventually(lambda: alice.sql.value(AT_THE_LOCK), "the request at the lock")
            alice.sql.value("select pg_terminate_backend($1)", pid)
            assert slow.result().status_code == 503
        assert alice.get(f"/cars/{car}").status_code == 200
        first, second = (alice.delete(f"/cars/{car}", **options) for _ in range(2))
        assert (first.status_code, second.status_code) == (204, 204)
        assert "idempotency-replayed" not in first.headers


def test_a_key_expires(alice: Person) -> None:
    options = keyed()
    first = alice.put("/cars", {"name": "Old"}, **options)
    alice.sql.execute(
        "update idempotency_key set created_at = now() - interval '25 hours' where customer_id = $1", alice.customer
    )
    second = alice.put("/cars", {"name": "Old"}, **options)
    assert first.json() != second.json()
    assert alice.put("/cars", {"name": "Old"}, **options).json() == second.json()


def test_secrets_in_stored_responses_are_encrypted(alice: Person) -> None:
    key = str(uuid.uuid4())
    body = {
        "emailAddress": f"{key}@example.org",
        "userData": {"firstName": "Una", "lastName": "Once"},
        "type": "Normal",
    }
    first, second = (alice.put("/users", body, **keyed(key)) for _ in range(2))
    assert first.json() == second.json()
    assert first.json()["password"]
    rows = alice.sql.rows("select * from idempotency_key where customer_id = $1", alice.customer)
    kept = b"".join(value for row in rows for value in row.values() if isinstance(value, bytes))
    assert first.json()["password"].encode() not in kept
    assert key.encode() not in kept


def test_every_write_of_a_customer_accepts_a_key() -> None:
    """Writes about the caller alone have no customer to store a response for."""
    without = {
        (row.method, row.path)
        for row in ALL
        if row.method != "GET" and row.auth.has_token and not row.has_idempotency_key
    }
    own = {("POST", "/sdk/token"), ("DELETE", "/sessions"), ("DELETE", "/sessions/{sessionId}")}
    assert without == own | {row for row in without if row[1].startswith("/me/")}
    assert not any(row.has_idempotency_key for row in ALL if row.path.startswith("/me/"))


KEYED = [row for row in ALL if row.has_idempotency_key]
CREATED: dict[str, Any] = {
    "PUT /cars": {"name": "New"},
    "PUT /users": {"emailAddress": "new@KEY", "userData": {"firstName": "N", "lastName": "N"}, "type": "Normal"},
    "PUT /groups": {"name": "KEY"},
    "POST /batch": {"kind": "cars", "items": [{"op": "create", "body": {"name": "New"}}]},
    "PUT /webhooks": {"url": "https://hooks.invalid/keyrack"},
    "PUT /managers": {"emailAddress": "new.manager@KEY", "role": "Viewer"},
    "PUT /factor-rules": {"roles": []},
    "PUT /clients": {"name": "New", "scopes": ["cars:read"]},
}
# A relation of the shown row whose permission the row's own does not include
RELATIONS = {"/cars/{carId}": "assignments", "/users/{userId}": "assignments", "/groups/{groupId}": "cars",
             "/events/{eventId}": "car"}  # fmt: skip


@pytest.fixture(scope="module")
def owner(town: Town, alice: Person) -> Person:
    """Another owner of alice's customer."""
    return town.colleague(alice, "another owner", Role.OWNER)


def sent(person: Person, endpoint: Endpoint, ids: dict[str, Any], query: str = "", **headers: str) -> httpx.Response:
    """Send the row's request as the person, with these headers."""
    person = replace(person, headers=person.headers | headers)
    if name(endpoint) in CREATED:
        unique = headers["Idempotency-Key"][:8] + ".example.org"
        body = json.loads(json.dumps(CREATED[name(endpoint)]).replace("KEY", unique))
        return person.call(endpoint.method, endpoint.path + query, body)
    return ask(person, endpoint, ids, query)


@over(KEYED)
def test_a_stored_response_belongs_to_its_caller(endpoint: Endpoint, alice: Person, owner: Person) -> None:
    ids, key = world(endpoint, alice), {"Idempotency-Key": str(uuid.uuid4())}
    first = sent(alice, endpoint, ids, **key)
    assert first.status_code < 400 or endpoint.path == "/webhooks/{webhookId}/deliveries/{deliveryId}/replay", (
        first.text
    )
    refused(sent(owner, endpoint, ids, **key), 422, OTHER_CALLER)
    refused(sent(owner, endpoint, ids, Prefer="return=minimal", **key), 422, OTHER_CALLER)
    again = sent(alice, endpoint, ids, **key)
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert again.headers["idempotency-replayed"] == "true"


def test_a_replay_requires_the_original_permissions(town: Town, alice: Person) -> None:
    """A manager with a lower role gets no response from the higher role."""
    key = {"Idempotency-Key": str(uuid.uuid4())}
    hook = {"url": "https://hooks.invalid/keyrack"}
    kim = town.colleague(alice, "kim", Role.OWNER)
    first = kim.put("/webhooks", hook, headers=key)
    assert first.json()["signingSecret"]
    role = "update manager_role set role = $2 where manager_id = (select manager_id from manager where username = $1)"
    alice.sql.execute(role, kim.username, Role.MANAGER)
    eventually(lambda: kim.get("/managers").status_code == 403, "the lower role")
    refused(kim.put("/webhooks", hook, headers=key), 422, OTHER_CALLER)
    alice.sql.execute(role, kim.username, Role.OWNER)
    eventually(lambda: kim.get("/managers").status_code == 200, "the role of before")
    assert kim.put("/webhooks", hook, headers=key).content == first.content


def test_a_response_about_a_now_hidden_row_is_not_replayed(town: Town, alice: Person) -> None:
    group, car = alice.group(), alice.car("Once ours")
    put(alice, group, "carId", car)
    gina = limited(town, alice, "gina", [group])
    steps = [{"op": "replace", "path": "/name", "value": "Ours"}]
    headers = {"Idempotency-Key": str(uuid.uuid4()), "Prefer": "return=representation"}
    assert gina.patch(f"/cars/{car}", steps, headers=headers).json()["name"] == "Ours"
    done(alice.delete(f"/groups/{group}/cars/{car}"))
    eventually(lambda: gina.get(f"/cars/{car}").status_code == 404, "the limit")
    refused(gina.patch(f"/cars/{car}", steps, headers=headers), 404, NO_CAR)
    other = alice.group()
    limit(alice, gina, [other])
    made = {"Idempotency-Key": str(uuid.uuid4())}
    first = gina.put("/cars", {"name": "In the other"}, headers=made)
    limit(alice, gina, [group])
    refused(gina.put("/cars", {"name": "In the other"}, headers=made), 422, OTHER_CALLER)
    limit(alice, gina, [group, other])
    assert gina.put("/cars", {"name": "In the other"}, headers=made).content == first.content


def test_a_response_stored_without_an_owner_is_replayed(alice: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    options = keyed()
    with monkeypatch.context() as patch:
        dumps = json.dumps
        patch.setattr(
            "keyrack.api.idempotency.json.dumps",
            lambda value: dumps({name: member for name, member in value.items() if name != "owner"}),
        )
        first = alice.put("/groups", {"name": "Of before"}, **options)
    assert alice.put("/groups", {"name": "Of before"}, **options).content == first.content


def test_reads_ignore_the_key(alice: Person) -> None:
    assert alice.get("/cars", headers={"Idempotency-Key": "x" * 300}).status_code == 200
