"""`Prefer`: a write returns the created or changed resource as the single read returns it."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from keyrack.api.endpoint import Endpoint
from keyrack.api.idempotency import OTHER_REQUEST
from keyrack.http.routes import ALL
from tests.api.test_idempotency import locked
from tests.http.test_contract import name, over
from tests.http.test_hostile_input import Line, head
from tests.http.test_tenant_isolation import client, member_of
from tests.support.people import Person, done, nobody_works, refused
from tests.support.servers import RunningServer, Sql, eventually

REPRESENTATION = {"Prefer": "return=representation"}
MINIMAL = {"Prefer": "return=minimal"}
NO_CAR = "Unable to find a car for the given carId which is assigned to the given customerId."
SHOWING = [endpoint for endpoint in ALL if endpoint.responses.representation is not None]


@dataclass
class Write:
    """A successful request: path, body, and the read that shows the result later."""

    path: str
    body: Any = None


def rename(path: str, value: str = "Renamed") -> Write:
    return Write(path, [{"op": "replace", "path": "/name", "value": value}])


def assignment(person: Person) -> int:
    return person.assignment(person.car_with_box(), person.user())


def event(person: Person) -> dict[str, Any]:
    times = {"dateTime": "2026-05-01T10:00:00", "utcDateTime": "2026-05-01T08:00:00Z"}
    return {**times, "carId": person.car(), "userId": person.user(), "userAgent": "tests"}


def webhook(person: Person) -> int:
    return person.put("/webhooks", {"url": "https://hooks.example.org/made"}).json()["id"]


def user() -> dict[str, Any]:
    address = f"{uuid.uuid4()}@example.org"
    return {"emailAddress": address, "userData": {"firstName": "Uma", "lastName": "User"}}


METADATA = {"op": "replace", "path": "/metadata", "value": {"plan": "gold"}}
WRITES: dict[str, Callable[[Person], Write]] = {
    "PUT /cars": lambda person: Write("/cars", {"name": "Made", "vin": "V1"}),
    "PATCH /cars/{carId}": lambda person: rename(f"/cars/{person.car()}"),
    "PUT /users": lambda person: Write("/users", user()),
    "PATCH /users/{userId}": lambda person: Write(f"/users/{person.user()}", [METADATA]),
    "PATCH /products/{productId}": lambda person: Write(f"/products/{person.product()}", [METADATA]),
    "PUT /assignments": lambda person: Write(
        "/assignments", {"carId": person.car_with_box(), "userId": person.user(), "start": "2026-01-01T08:00:00Z"}
    ),
    "PATCH /assignments/{assignmentId}": lambda person: Write(
        f"/assignments/{assignment(person)}", [{"op": "replace", "path": "/end", "value": "2030-01-01T08:00:00Z"}]
    ),
    "DELETE /assignments/{assignmentId}": lambda person: Write(f"/assignments/{assignment(person)}"),
    "PUT /groups": lambda person: Write("/groups", {"name": f"Made {uuid.uuid4()}"}),
    "PATCH /groups/{groupId}": lambda person: rename(f"/groups/{person.group()}", f"Renamed {uuid.uuid4()}"),
    "PUT /events": lambda person: Write("/events", event(person)),
    "PUT /webhooks": lambda person: Write("/webhooks", {"url": "https://hooks.example.org/made"}),
    "PATCH /webhooks/{webhookId}": lambda person: Write(
        f"/webhooks/{webhook(person)}", [{"op": "replace", "path": "/url", "value": "https://hooks.example.org/new"}]
    ),
    "PATCH /managers/{managerId}": lambda person: Write(
        f"/managers/{member_of(person)}", [{"op": "replace", "path": "/role", "value": "Auditor"}]
    ),
    "PUT /clients": lambda person: Write("/clients", {"name": "Made", "scopes": ["cars:read"]}),
    "PATCH /clients/{clientId}": lambda person: rename(f"/clients/{client(person)}"),
}
ONCE = {
    "PUT /users": {"password"}, "PUT /webhooks": {"signingSecret"}, "PUT /clients": {"clientSecret"},
}  # fmt: skip


def call(person: Person, endpoint: Endpoint, write: Write, headers: dict[str, str]) -> httpx.Response:
    return person.call(endpoint.method, write.path, write.body, headers=headers)


def test_every_write_with_a_representation_has_a_case() -> None:
    assert {name(endpoint) for endpoint in SHOWING} == set(WRITES)
    for endpoint in SHOWING:
        assert endpoint.responses.representation in ALL
        assert endpoint.representation_read is not None and endpoint.representation_read.select.is_single


@over(SHOWING)
def test_the_representation_equals_the_single_read(endpoint: Endpoint, alice: Person) -> None:
    write = WRITES[name(endpoint)](alice)
    with nobody_works(alice):
        answer = call(alice, endpoint, write, REPRESENTATION)
        shown = answer.json()
        assert endpoint.responses.representation is not None
        read = alice.get(f"{endpoint.responses.representation.path.partition('{')[0]}{shown['id']}")
    secrets = {member: shown.pop(member) for member in ONCE.get(name(endpoint), ())}
    assert (answer.status_code, shown) == (endpoint.representation_status, read.json())
    if not secrets:
        assert answer.content == read.content
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["preference-applied"] == "return=representation"
    assert answer.headers["vary"] == "Prefer"
    assert ("location" in answer.headers) == (endpoint.responses.status == 201)
    if endpoint.responses.status == 201:
        assert alice.get(answer.headers["location"]).json() == read.json()
    for header in endpoint.responses.headers:
        assert header in answer.headers


@over(SHOWING)
def test_responses_without_the_preference_are_minimal(endpoint: Endpoint, alice: Person) -> None:
    for headers in ({}, {"Prefer": "respond-async, return=nonsense"}, MINIMAL):
        answer = call(alice, endpoint, WRITES[name(endpoint)](alice), headers)
        assert answer.status_code == endpoint.responses.status
        if endpoint.responses.status == 204:
            done(answer)
        else:
            # the id with which the client authenticates
            named = {"clientId"} if name(endpoint) == "PUT /clients" else set[str]()
            assert set(answer.json()) == {"id"} | named | ONCE.get(name(endpoint), set())
        assert "location" not in answer.headers
        assert answer.headers.get("preference-applied") == ("return=minimal" if headers == MINIMAL else None)


IGNORING = [row for row in ALL if row.responses.representation is None and row.method != "GET"]


def test_writes_without_a_representation_ignore_the_preference(alice: Person) -> None:
    assert {name(row) for row in IGNORING if row.method == "PATCH"} == set()
    assert {name(row) for row in IGNORING if row.responses.status == 201 and row.tag.name != "Driver app"} == {
        "POST /users/{userId}/app-invitation",
        "POST /webhooks/{webhookId}/test", "PUT /managers", "PUT /clients/{clientId}/secrets", "PUT /me/passkeys",
    }  # fmt: skip
    car, group = alice.car(), alice.group()
    done(alice.put(f"/groups/{group}/cars", {"carId": car}, headers=REPRESENTATION))
    answer = alice.delete(f"/groups/{group}/cars/{car}", headers=REPRESENTATION)
    done(answer)
    assert "preference-applied" not in answer.headers
    done(alice.delete(f"/cars/{car}", headers=REPRESENTATION))


def test_secrets_shown_once_are_added_to_the_representation(alice: Person) -> None:
    made = alice.put("/users", {**user(), "type": "Normal"}, headers=REPRESENTATION).json()
    assert len(made["password"]) >= 16
    assert made["userData"] == {"firstName": "Uma", "lastName": "User"}
    narrow = alice.put("/webhooks?$select=url", {"url": "https://hooks.example.org/once"}, headers=REPRESENTATION)
    assert set(narrow.json()) == {"url", "signingSecret"}
    assert narrow.headers["cache-control"] == "no-store"


def test_query_options_apply_to_the_representation(alice: Person) -> None:
    car = alice.car_with_box("Before")
    write = rename(f"/cars/{car}?$select=name&$expand=products($select=id)")
    answer = alice.patch(write.path, write.body, headers=REPRESENTATION)
    assert answer.status_code == 200
    assert answer.content == alice.get(write.path).content
    assert answer.json()["name"] == "Renamed"
    done(alice.patch(f"/cars/{car}?$select=nonsense", write.body))  # ignored without the preference


@pytest.mark.parametrize("query", ["$select=nonsense", "$filter=id eq 1", "$expand=", "$top=x"])
def test_invalid_query_options_prevent_the_write(alice: Person, query: str) -> None:
    car = alice.car("Before")
    answer = alice.patch(f"/cars/{car}?{query}", rename("").body, headers=REPRESENTATION)
    refused(answer, 400, alice.get(f"/cars/{car}?{query}").text)
    assert alice.get(f"/cars/{car}").json()["name"] == "Before"
    count = len(alice.get("/cars").json())
    assert alice.put(f"/cars?{query}", {"name": "Never"}, headers=REPRESENTATION).status_code == 400
    assert len(alice.get("/cars").json()) == count


def test_a_conditional_change_returns_the_representation(alice: Person) -> None:
    """The condition applies to the change. The new representation has another ETag."""
    path = f"/cars/{alice.car('Before')}"
    seen = {"If-Match": tag} if (tag := alice.get(path).headers.get("etag")) else {}
    answer = alice.patch(path, rename("", "Changed").body, headers=REPRESENTATION | seen)
    assert (answer.status_code, answer.json()["name"]) == (200, "Changed")
    assert answer.headers.get("etag") == alice.get(path).headers.get("etag")


def test_errors_are_the_same_with_the_preference(alice: Person, bob: Person) -> None:
    refused(bob.patch(f"/cars/{alice.car()}", rename("").body, headers=REPRESENTATION), 404, NO_CAR)
    refused(bob.patch("/cars/2147483647", rename("").body, headers=REPRESENTATION), 404, NO_CAR)
    group = alice.put("/groups", {"name": f"Taken {os.getpid()}"}, headers=REPRESENTATION)
    again = alice.put("/groups", {"name": group.json()["name"]}, headers=REPRESENTATION)
    refused(again, 409, "A group with the same name already exists.")
    assert "preference-applied" not in again.headers


def test_the_representation_excludes_concurrent_changes(alice: Person, dsn: str, sql: Sql) -> None:
    """The write and its representation share a transaction. A concurrent change of the same row waits for its end."""
    car = alice.car("Before")
    # Waits for the product table after a write to a car. Other readers of products wait for the same lock
    reads = """
      select count(*) from pg_locks waits join pg_locks has using (pid)
      where waits.relation = 'product'::regclass and not waits.granted
        and has.relation = 'car'::regclass and has.mode = 'RowExclusiveLock' and has.granted"""
    writes = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%update car%'"
    with ThreadPoolExecutor(2) as threads:
        # blocks the representation of the first write, not the write
        with locked(dsn, "lock table product in access exclusive mode"):
            first = rename(f"/cars/{car}?$expand=products", "First")
            one = threads.submit(lambda: alice.patch(first.path, first.body, headers=REPRESENTATION))
            eventually(lambda: sql.value(reads) == 1, "the first one's read")
            two = threads.submit(lambda: alice.patch(f"/cars/{car}", rename("", "Second").body))
            eventually(lambda: sql.value(writes) == 1, "the second one's wait")
        assert one.result().json()["name"] == "First"
        done(two.result())
    assert alice.get(f"/cars/{car}").json()["name"] == "Second"


def test_the_representation_is_stored_with_the_idempotency_key(alice: Person) -> None:
    car, key = alice.car("Before"), {"Idempotency-Key": str(uuid.uuid4())}
    write = rename(f"/cars/{car}", "First")
    first = alice.patch(write.path, write.body, headers=REPRESENTATION | key)
    done(alice.patch(f"/cars/{car}", rename("", "Second").body))
    again = alice.patch(write.path, write.body, headers=REPRESENTATION | key)
    assert (again.status_code, again.content) == (200, first.content)
    assert again.headers["preference-applied"] == "return=representation"
    assert again.headers["idempotency-replayed"] == "true"
    for other in ({}, MINIMAL):
        refused(alice.patch(write.path, write.body, headers=other | key), 422, OTHER_REQUEST)
    made = alice.put("/cars", {"name": "X"}, headers=REPRESENTATION | (key := {"Idempotency-Key": str(uuid.uuid4())}))
    again = alice.put("/cars", {"name": "X"}, headers={"Prefer": 'Return = "representation"'} | key)
    assert (again.status_code, again.content, again.headers["location"]) == (
        201,
        made.content,
        made.headers["location"],
    )


def test_an_assignment_with_the_preference_is_applied_and_counted_once(alice: Person) -> None:
    write = WRITES["PUT /assignments"](alice)
    answer = alice.put(write.path, write.body, headers=REPRESENTATION)
    assert answer.status_code == 202
    assert answer.json()["id"] == answer.headers["operation-id"]
    assert "ratelimit" in answer.headers
    operation = f"/operations/{answer.json()['id']}"
    eventually(lambda: alice.get(operation).json()["state"] == "Succeeded", "the outcome")
    assert len(alice.get(f"/cars/{write.body['carId']}/assignments").json()) == 1


@pytest.mark.parametrize(
    ("header", "applied"),
    [
        ("return=representation", "representation"),
        ('foo="a,return=minimal;\\"", RETURN = "Representation" ; x=1 , handling = strict', "representation"),
        ("handling=lenient;return=minimal, wait=10, return=representation", "representation"),
        ("return=minimal, return=representation", "minimal"),
        ("return=nonsense, return=representation", None),
        ('return="representation', None),
        ('"return=representation"', None),
        ("return", None),
        ("return=", None),
        ("xreturn=representation", None),
        ("return=representationx", None),
        (",;=,," * 2_000, None),
        ('"' * 30_000, None),
        ('a="' + '\\"' * 14_000, None),
        ("a=b," * 7_000 + "return=representation", "representation"),
        ("\xff\xfe", None),
    ],
    ids=range(16),
)
def test_spellings_of_the_preference(alice: Person, header: str, applied: str | None) -> None:
    answer = alice.put("/groups", {"name": str(uuid.uuid4())}, headers={"Prefer": header.encode("latin-1")})
    assert answer.status_code == 201
    assert answer.headers.get("preference-applied") == (applied and f"return={applied}")


@pytest.mark.parametrize(
    "lines",
    [
        ("Prefer: return=representation", "Prefer: handling=strict"),
        ("Prefer: handling=strict; x", "prefer: return=representation"),
        ('Prefer: Handling="STRICT", return=representation',),
    ],
)
def test_preferences_may_come_in_several_headers(server: RunningServer, alice: Person, lines: tuple[str, ...]) -> None:
    for body, status in (({"name": "Strict"}, 201), ({"name": "Strict", "wheels": 4}, 400)):
        text = json.dumps(body).encode()
        with Line(server) as line:
            kind = "Content-Type: application/json"
            line.send(head(alice, "PUT", "/v3/cars", kind, f"Content-Length: {len(text)}", *lines) + text)
            answer = line.reply()
        assert answer.status == status, answer.text
        assert answer.headers.get("preference-applied") == ("return=representation" if status == 201 else None)


def test_a_computed_member_does_not_duplicate_a_secret(alice: Person) -> None:
    answer = alice.put(
        "/webhooks?$compute='x' as signingSecret",
        {"url": "https://example.org/z"},
        headers={"Prefer": "return=representation"},
    )
    assert answer.status_code == 201
    assert answer.text.count('"signingSecret"') == 1
    assert answer.json()["signingSecret"].startswith("whsec_")


def test_an_accepted_change_has_no_etag(alice: Person) -> None:
    id = alice.assignment(alice.car_with_box(), alice.user())
    patch = [{"op": "replace", "path": "/end", "value": "2030-01-01T00:00:00Z"}]
    answer = alice.patch(f"/assignments/{id}", patch, headers={"Prefer": "return=representation"})
    assert (answer.status_code, "etag" in answer.headers) == (202, False)
