"""Batches: each item as its single request; all or nothing, dry runs, conflicts, the rate limit, repeats, bounds."""

from __future__ import annotations

import hashlib
import json
import socket
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from keyrack.assignments import holds, overlaps
from keyrack.endpoints.batch_forms import ROWS
from keyrack.settings import Settings
from tests.assignments import model
from tests.conftest import Person, RunningServer, Sql, Town, eventually, nobody_works, refused, web
from tests.endpoints.test_races import at_once, call

Json = dict[str, Any]

START, END = "2026-01-01T08:00:00Z", "2026-01-05T08:00:00Z"
NO_CAR = "Unable to find a car for the given carId which is assigned to the given customerId."
NO_ASSIGNMENT = "Unable to find an assignment for the given assignmentId which is assigned to the given customerId."
NO_BOX = "There is no key box installed in the car."
OVERLAP = "The car has another assignment within this time."
NOBODY = 2147483647


def create(**body: Any) -> Json:
    return {"op": "create", "body": body}


def change(id: int, **values: Any) -> Json:
    return {
        "op": "change",
        "id": id,
        "patch": [{"op": "replace", "path": f"/{n}", "value": v} for n, v in values.items()],
    }


def end(id: int) -> Json:
    return {"op": "end", "id": id}


def send(person: Person, kind: str, *items: Json, status: int = 200, **members: Any) -> list[Json]:
    """The results of a batch."""
    headers = members.pop("headers", {})
    answer = person.post("/batch", {"kind": kind, "items": list(items), **members}, headers=headers)
    assert answer.status_code == status, answer.text
    told = answer.json()
    results = told["results"]
    assert len(results) == len(items)
    bad = sum(result["status"] >= 400 and result["status"] != 424 for result in results)
    done = sum(result["status"] < 400 for result in results)
    assert (told["done"], told["refused"]) == (done, bad)
    return results


def md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest().upper()


def statuses(results: list[Json]) -> list[int]:
    return [result["status"] for result in results]


def single(person: Person, kind: str, item: Json, **options: Any) -> httpx.Response:
    """The request that an item stands for."""
    row = ROWS[kind, item["op"]]
    path = row.path.format(**dict.fromkeys(row.parameters, item.get("id")))
    body = item.get("body", item.get("patch"))
    if row.method == "DELETE":
        body = None if row.body is None else {"userId": item["id"]}
    return person.call(row.method, path, body, **options)


@pytest.fixture(scope="module")
def user(alice: Person) -> int:
    return alice.user()


# Each kind and each op


def test_cars(alice: Person) -> None:
    kept, gone = alice.car("Old"), alice.car()
    made, changed, ended = send(
        alice, "cars", create(name="New", vin="WVW"), change(kept, name="Newer", brand=None), end(gone)
    )
    assert (made["status"], changed, ended) == (201, {"status": 204}, {"status": 204})
    assert alice.get(f"/cars/{made['id']}").json()["vin"] == "WVW"
    assert alice.get(f"/cars/{kept}").json()["name"] == "Newer"
    refused(alice.get(f"/cars/{gone}"), 404, NO_CAR)


def test_groups(alice: Person) -> None:
    kept, gone = alice.group(), alice.group()
    made, changed, ended = send(alice, "groups", create(name="Made"), change(kept, name="Renamed"), end(gone))
    assert (made["status"], changed, ended) == (201, {"status": 204}, {"status": 204})
    groups = {row["id"]: row["name"] for row in alice.get("/groups").json()}
    assert (groups[made["id"]], groups[kept], gone in groups) == ("Made", "Renamed", False)


def test_users(alice: Person) -> None:
    gone = alice.user()
    data = {"firstName": "A", "lastName": "B"}
    anonymous, normal, ended = send(
        alice,
        "users",
        create(emailAddress=f"a.{uuid.uuid4()}@example.org", userData=data),
        create(emailAddress=f"n.{uuid.uuid4()}@example.org", userData=data, type="Normal"),
        end(gone),
    )
    assert (anonymous["status"], anonymous["password"], ended) == (201, None, {"status": 204})
    assert len(normal["password"]) == 16
    ids = {row["id"] for row in alice.get("/users").json()}
    assert {anonymous["id"], normal["id"]} <= ids
    assert gone not in ids


def test_assignments_become_operations_in_the_order_of_the_items(alice: Person, user: int, sql: Sql) -> None:
    car = alice.car_with_box()
    old, older = alice.assignment(car, user), alice.assignment(car, user)
    items = [create(carId=car, userId=user, start=START), end(older), change(old, lifetime=700_000),
             create(carId=car, userId=user, start=START, end=END)]  # fmt: skip
    results = send(alice, "assignments", *items)
    assert statuses(results) == [204] * 4
    operations = [uuid.UUID(result["operationId"]) for result in results]
    assert [result["operationLocation"] for result in results] == [f"/v3/operations/{id}" for id in operations]
    seq = "select operation_id from operation where operation_id = any($1) order by seq"
    assert [row[0] for row in sql.rows(seq, operations)] == operations
    done = "select state from operation where operation_id = any($1) and state <> 'Pending'"
    assert eventually(lambda: len(rows := sql.rows(done, operations)) == 4 and rows) == [("Succeeded",)] * 4
    rows = {row["id"]: row for row in alice.get(f"/cars/{car}/assignments").json()}
    assert len(rows) == 3
    assert older not in rows
    assert alice.get(f"/assignments/{old}").json()["lifetime"] == 700_000


def test_the_checksum_of_an_item_is_that_of_its_canonical_body(alice: Person, user: int, sql: Sql) -> None:
    car = alice.car_with_box()
    old = alice.assignment(car, user)
    body = f'{{ "userId": {user},"start":"2026-01-01T08:00:00Z" , "carId": {car}, "end": null}}'
    whole = f'{{"items": [{{"op": "create", "body": {body}}}, {{"op": "end", "id": {old}}}], "kind": "assignments"}}'
    answer = alice.post("/batch", content=whole.encode(), headers={"Content-Type": "application/json"})
    created, ended = answer.json()["results"]
    canonical = f'{{"carId":{car},"end":null,"start":"2026-01-01T08:00:00Z","userId":{user}}}'
    assert created["checksum"] == md5(canonical)
    assert ended["checksum"] == md5(f"DELETE /assignments/{old}")
    row = sql.rows("select checksum from operation where operation_id = $1", uuid.UUID(created["operationId"]))
    assert row[0]["checksum"] == created["checksum"]


# What is refused: item by item, as the single request would be


def wrong_items(person: Person) -> list[tuple[str, Json]]:
    """For every row an item for each text that it may be refused with, and more."""
    car, user, group, taken = person.car_with_box(), person.user(), person.group(), person.group("Taken")
    id = person.assignment(car, user)
    assert person.put(f"/groups/{group}/cars", {"carId": car}).status_code == 204
    data = {"firstName": "A", "lastName": "B"}
    address = person.get(f"/users/{user}").json()["emailAddress"]
    whole = {"carId": car, "userId": user, "start": START}
    wrong: dict[str, list[Json]] = {
        "cars": [
            create(), create(name=" "), create(name="x" * 251), create(name=5), {"op": "create", "body": []},
            create(name="x", vin="\0"), change(NOBODY, name="x"), change(0, name="x"),
            change(-1, name="x"), change(car, name=""), change(car, vin="x" * 251), change(car, colour="red"),
            {"op": "change", "id": car, "patch": []}, {"op": "change", "id": car, "patch": {}},
            {"op": "change", "id": car, "patch": [{"op": "add", "path": "/name", "value": "x"}]},
            {"op": "change", "id": car, "patch": [{"op": "replace", "path": "/name"}]}, end(NOBODY), end(0),
        ],
        "groups": [
            create(), create(name=""), create(name="Taken"), change(NOBODY, name="x"), change(taken, name=" "),
            change(taken, name="x" * 251), change(group, name="Taken"), end(NOBODY), end(group),
        ],
        "users": [
            create(), create(emailAddress="x", userData=data), create(emailAddress="a@example.org"),
            create(emailAddress="a@example.org", userData={}),
            create(emailAddress="a@example.org", userData={"lastName": "B"}),
            create(emailAddress="a@example.org", userData={"firstName": "A"}),
            create(emailAddress=address, userData=data),
            create(emailAddress=address.upper(), userData=data), end(NOBODY), end(0),
        ],
        "assignments": [
            create(), create(**whole, ende=END), create(**whole, end="2025-01-01T00:00:00Z"),
            create(**whole, lifetime=1), create(**whole, renewableAfter=-1), create(**whole | {"carId": NOBODY}),
            create(**whole | {"userId": NOBODY}),
            create(**whole | {"carId": "1"}), create(**whole | {"start": "now"}), change(NOBODY, end=None),
            change(id, carId=NOBODY), change(id, userId=NOBODY), change(id, start=END, end=START),
            change(id, lifetime=5), change(id, renewableAfter=-1), change(id, ende=END), change(id, start="now"),
            {"op": "change", "id": id, "patch": []}, end(NOBODY), end(-5),
        ],
    }  # fmt: skip
    return [(kind, item) for kind, items in wrong.items() for item in items]


def test_a_refused_item_is_told_what_its_request_would_be_told(carol: Person) -> None:
    told: dict[tuple[str, str], set[str]] = {key: set() for key in ROWS}
    wrong = wrong_items(carol)
    for kind in ("cars", "groups", "users", "assignments"):
        items = [item for its, item in wrong if its == kind]
        for item, result in zip(items, send(carol, kind, *items), strict=True):
            answer = single(carol, kind, item)
            assert (result["status"], result["detail"]) == (answer.status_code, answer.text), item
            problem = single(carol, kind, item, headers={"Accept": "application/problem+json"}).json()
            assert (result["code"], result.get("errors")) == (problem["code"], problem.get("errors")), item
            assert answer.status_code >= 400, item
            told[kind, item["op"]].add(answer.text)
    for key, row in ROWS.items():
        if key == ("users", "end"):  # who is meant is said by the id alone, so it cannot be said in two ways
            continue
        texts = {str(reason) for status, reasons in row.refuses.items() if status != 429 for reason in reasons}
        missing = [text for text in texts if not any(text in one for one in told[key])]
        assert not missing, f"{key} has no item for {missing}"


def test_what_is_refused_leaves_the_others_alone(carol: Person) -> None:
    """More of them than share a savepoint."""
    names = [f"G{n}" if n % 3 else "Same" for n in range(120)]
    results = send(carol, "groups", *[create(name=name) for name in names])
    made = [name for name, result in zip(names, results, strict=True) if result["status"] == 201]
    assert sorted(made) == sorted(set(names))
    assert sorted(row["name"] for row in carol.get("/groups").json()) == sorted(set(names))


def test_one_item_may_be_about_what_one_before_it_did(carol: Person) -> None:
    car = carol.car()
    assert statuses(send(carol, "cars", end(car), end(car), change(car, name="x"))) == [204, 404, 404]


HEAD = "Couldn't carry out the batch. "


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "No valid kind provided."),
        ({"kind": "trees", "items": [end(1)]}, "No valid kind provided."),
        ({"kind": 5, "items": [end(1)]}, "No valid kind provided."),
        ({"kind": "cars"}, "No valid items provided."),
        ({"kind": "cars", "items": []}, "No valid items provided."),
        ({"kind": "cars", "items": {}}, "No valid items provided."),
        ({"kind": "cars", "items": [7]}, "No valid items provided."),
        ({"kind": "cars", "items": [{}]}, "No valid op provided."),
        ({"kind": "cars", "items": [{"op": "delete", "id": 1}]}, "No valid op provided."),
        ({"kind": "users", "items": [{"op": "change", "id": 1, "patch": []}]}, "No valid op provided."),
        ({"kind": "cars", "items": [{"op": "create"}]}, "No valid body provided."),
        ({"kind": "cars", "items": [{"op": "change", "id": 1}]}, "No valid patch provided."),
        ({"kind": "cars", "items": [{"op": "end"}]}, "No valid id provided."),
        ({"kind": "cars", "items": [end(1) | {"id": "1"}]}, "No valid id provided."),
        (
            {"kind": "cars", "items": [end(2**31)]},
            "No valid id provided. Input should be less than or equal to 2147483647.",
        ),
        ({"kind": "cars", "items": [end(1)], "atomic": "yes"}, "No valid atomic provided."),
        ({"kind": "cars", "items": [end(1)], "dryRun": 1}, "No valid dryRun provided."),
        ({"kind": "assignments", "items": [end(1)], "conflicts": "ignore"}, "No valid conflicts provided."),
        ({"kind": "cars", "items": [end(1)], "atomik": True}, "There is no member atomik. Did you mean atomic?"),
        ({"kind": "cars", "items": [end(1)], "conflicts": "refuse"}, "There is no member conflicts."),
        ({"kind": "cars", "items": [{"op": "create", "boddy": {}}]}, "There is no member boddy. Did you mean body?"),
        ({"kind": "cars", "items": [end(1) | {"body": {}}]}, "There is no member body."),
        ({"kind": "cars", "items": [end(1) | {"ifMatch": '"x"'}]}, "There is no member ifMatch."),
    ],
)
def test_a_batch_of_another_form_does_nothing(alice: Person, body: Json, text: str) -> None:
    """It fails closed: what is unknown or misspelt is refused as a whole."""
    refused(alice.post("/batch", body), 400, HEAD + text)


@pytest.mark.parametrize(
    ("body", "place", "code", "valid"),
    [
        ({"kind": "trees", "items": [end(1)]}, "/kind", "not-one-of", ["assignments", "cars", "groups", "users"]),
        ({"items": [end(1)]}, "/kind", "missing", None),
        (
            {"kind": "users", "items": [end(1), {"op": "change", "id": 1}]},
            "/items/1/op",
            "not-one-of",
            ["create", "end"],
        ),
        ({"kind": "cars", "items": [end(1), {"op": "end"}]}, "/items/1/id", "missing", None),
        ({"kind": "cars", "items": [7]}, "/items/0", "wrong-type", None),
        ({"kind": "cars", "items": [end(1) | {"bdy": 1}]}, "/items/0/bdy", "unknown", ["op", "id"]),
        (
            {"kind": "assignments", "items": [end(1)], "conflicts": "ignore"},
            "/conflicts",
            "not-one-of",
            ["allow", "report", "refuse"],
        ),
    ],
)
def test_where_a_batch_is_wrong(alice: Person, body: Json, place: str, code: str, valid: list[str] | None) -> None:
    answer = alice.post("/batch", body, headers={"Accept": "application/problem+json"})
    (fault,) = answer.json()["errors"]
    assert (fault["pointer"], fault["code"], fault.get("valid")) == (place, code, valid)


def test_an_item_that_is_refused_is_told_where(alice: Person) -> None:
    (result,) = send(alice, "cars", create(name="x" * 251))
    assert result["errors"] == [{"pointer": "/name", "code": "too-long", "detail": result["errors"][0]["detail"]}]


# All or nothing


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (
            '{"kind": "cars", "dryRun": true, "dryRun": false, "items": [{"op": "end", "id": 1}]}',
            "dryRun",
        ),
        ('{"kind": "cars", "atomic": true, "atomic": false, "items": [{"op": "end", "id": 1}]}', "atomic"),
        ('{"kind": "cars", "kind": "users", "items": [{"op": "end", "id": 1}]}', "kind"),
        ('{"kind": "cars", "items": [{"op": "end", "id": 2, "id": 1}]}', "id"),
        ('{"kind": "cars", "items": [{"op": "create", "body": {"name": "x", "name": "y"}}]}', "name"),
    ],
)
def test_what_stands_twice_in_a_batch_is_refused(alice: Person, body: str, name: str) -> None:
    before = alice.get("/cars").content
    answer = alice.post("/batch", content=body, headers={"Content-Type": "application/json"})
    refused(answer, 400, f"Couldn't carry out the batch. The member {name} is given more than once.")
    assert alice.get("/cars").content == before


def test_a_batch_takes_no_query_string(alice: Person) -> None:
    before = alice.get("/cars").content
    answer = alice.post("/batch?dryRun=true", {"kind": "cars", "items": [create(name="x")]})
    refused(answer, 400, "Couldn't carry out the batch. It takes no query string: what is wanted stands in the body.")
    assert alice.get("/cars").content == before


def test_a_refused_dry_run_says_so(alice: Person) -> None:
    answer = alice.post("/batch", {"kind": "cars", "atomic": True, "dryRun": True, "items": [end(NOBODY)]})
    assert (answer.status_code, answer.json()["dryRun"], answer.json()["refused"]) == (422, True, 1)


def test_atomic(carol: Person) -> None:
    there = carol.group("There")
    answer = carol.post(
        "/batch",
        {
            "kind": "groups",
            "atomic": True,
            "items": [create(name="New"), create(name="There"), end(there), end(NOBODY)],
        },
    )
    assert answer.status_code == 422
    told = answer.json()
    assert told["message"] == "The batch was not carried out, because an item was refused."
    assert (told["done"], told["refused"]) == (0, 2)
    undone = {"status": 424, "code": "item-undone", "detail": "Not done, because another item was refused."}
    assert [told["results"][0], told["results"][2]] == [undone, undone]
    assert told["results"][1]["detail"] == "A group with the same name already exists."
    assert [row["name"] for row in carol.get("/groups").json()] == ["There"]
    assert statuses(send(carol, "groups", create(name="New"), end(there), atomic=True)) == [201, 204]


def test_atomic_assignments(carol: Person, sql: Sql) -> None:
    car, user = carol.car_with_box(), carol.user()
    good = create(carId=car, userId=user, start=START)
    results = send(carol, "assignments", good, create(carId=NOBODY, userId=user, start=START), atomic=True, status=422)
    assert statuses(results) == [424, 404]
    count = "select count(*) from operation where customer_id = $1"
    assert sql.value(count, carol.customer) == 0
    assert statuses(send(carol, "assignments", good, good, atomic=True)) == [204, 204]
    assert sql.value(count, carol.customer) == 2


# Dry runs


@pytest.fixture(scope="module")
def place(own: str, settings: Settings) -> Iterator[tuple[Person, Sql]]:
    """A server whose database nobody else writes to, not even a worker; and somebody with a fleet."""
    sql = Sql(own)
    with RunningServer(settings, own, worker=False) as running:
        person = Town(sql, running).person("dora")
        yield person, sql
        person.client.close()
    sql.close()


TABLES = """
select c.relname from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
and not c.relispartition and c.relname <> 'rate_limit' order by 1
"""


def digest(sql: Sql) -> dict[str, str]:
    """Of every table, but for the buckets of limits: a dry run takes from one of its own."""
    return {
        table: sql.value(f"select md5(coalesce(string_agg(t::text, chr(10) order by t::text), '')) from \"{table}\" t")
        for (table,) in sql.rows(TABLES)
    }


def applied(person: Person, sql: Sql) -> None:
    """What is pending is applied, by a request that changes the ground."""
    person.delete(f"/cars/{person.car()}")
    assert not sql.value("select exists (select from operation where state = 'Pending')")


def test_a_dry_run_tells_what_would_happen_and_writes_nothing(place: tuple[Person, Sql]) -> None:
    dora, sql = place
    car, bare, user, group = dora.car_with_box(), dora.car(), dora.user(), dora.group("There")
    dora.put("/webhooks", {"url": "https://hooks.invalid/keyrack"})
    dora.put("/assignments", {"carId": car, "userId": user, "start": START})
    applied(dora, sql)
    id = dora.get(f"/cars/{car}/assignments").json()[0]["id"]
    data = {"firstName": "A", "lastName": "B"}
    before = digest(sql)
    key = {"Idempotency-Key": str(uuid.uuid4())}
    assert send(
        dora,
        "assignments",
        create(carId=car, userId=user, start=START),
        create(carId=bare, userId=user, start=START),
        create(carId=NOBODY, userId=user, start=START),
        change(id, renewableAfter=700_000, lifetime=800_000),
        change(id, carId=bare),
        end(id),
        change(id, lifetime=800_000),
        dryRun=True,
        conflicts="report",
        headers=key,
    ) == [
        {"status": 204, "checksum": checksum(carId=car, userId=user, start=START),
         "conflicts": [{"assignmentId": id, "userId": user, "start": START, "end": None}]},
        {"status": 204, "checksum": checksum(carId=bare, userId=user, start=START), "wouldFail": NO_BOX},
        {"status": 404, "code": "car-not-found", "detail": NO_CAR},
        {"status": 204, "checksum": checksum_of(change(id, renewableAfter=700_000, lifetime=800_000)["patch"]),
         "conflicts": [{"item": 0, "userId": user, "start": START, "end": None}]},
        {"status": 204, "checksum": checksum_of(change(id, carId=bare)["patch"]), "wouldFail": NO_BOX,
         "conflicts": [{"item": 1, "userId": user, "start": START, "end": None}]},
        {"status": 204, "checksum": md5(f"DELETE /assignments/{id}")},
        {"status": 204, "checksum": checksum_of(change(id, lifetime=800_000)["patch"]),
         "wouldFail": "The assignment does not exist any more."},
    ]  # fmt: skip
    cars = send(dora, "cars", create(name="x"), change(car, name="x"), end(car), end(car), dryRun=True, headers=key)
    assert cars == [
        {"status": 201},
        {"status": 204},
        {"status": 204},
        {"status": 404, "code": "car-not-found", "detail": NO_CAR},
    ]
    users = send(
        dora, "users", create(emailAddress="dry@example.org", userData=data, type="Normal"), end(user), dryRun=True
    )
    assert users == [{"status": 201}, {"status": 204}]
    assert statuses(send(dora, "groups", create(name="There"), end(group), dryRun=True)) == [409, 204]
    results = send(dora, "groups", create(name="There"), end(group), dryRun=True, atomic=True, status=422, headers=key)
    assert statuses(results) == [409, 424]
    assert digest(sql) == before


def checksum(**body: Any) -> str:
    return checksum_of(body)


def checksum_of(body: object) -> str:
    return md5(json.dumps(body, sort_keys=True, separators=(",", ":")))


def test_a_digest_sees_what_is_written(place: tuple[Person, Sql]) -> None:
    """What the proof above is trusted with."""
    dora, sql = place
    before = digest(sql)
    send(dora, "cars", create(name="x"))
    assert [table for table, one in digest(sql).items() if one != before[table]] == ["car"]


def test_a_dry_run_says_so(alice: Person) -> None:
    answer = alice.post("/batch", {"kind": "cars", "items": [create(name="x")], "dryRun": True})
    assert answer.json() == {"done": 1, "refused": 0, "dryRun": True, "results": [{"status": 201}]}


def test_what_was_asked_for_before_counts_in_a_dry_run(alice: Person, user: int) -> None:
    car = alice.car_with_box()
    id = alice.assignment(car, user)
    with nobody_works(alice):
        assert alice.delete(f"/assignments/{id}").status_code == 204
        assert alice.get(f"/assignments/{id}").status_code == 200
        refused_now = send(alice, "assignments", end(id), dryRun=True)
    assert refused_now == [{"status": 404, "code": "assignment-not-found", "detail": NO_ASSIGNMENT}]


def test_dry_runs_have_a_limit_of_their_own(carol: Person, dsn: str, settings: Settings) -> None:
    few = settings.model_copy(update={"dry_run_rate": 1, "dry_run_burst": 60, "assignment_burst": 1})
    body = {"kind": "cars", "items": [create(name="x")], "dryRun": True}
    with RunningServer(few, dsn, worker=False) as running:
        answers = [web().post(running.url + "/batch", json=body, headers=carol.headers) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert 1 <= int(answers[3].headers["retry-after"]) <= 60
        assert answers[3].headers["ratelimit-policy"] == '"dry-runs";q=60;w=3600'
        assert (
            web().post(running.url + "/batch", json=body | {"dryRun": False}, headers=carol.headers).status_code == 200
        )


# Conflicts


class Garage:
    """A car with a box, and users who want it."""

    def __init__(self, person: Person) -> None:
        self.person, self.car, self.user = person, person.car_with_box(), person.user()

    def wants(self, start: int, end: int | None, **members: Any) -> Json:
        """Days of January."""
        body = {"carId": self.car, "userId": self.user, "start": day(start), "end": end and day(end)}
        return create(**body | members)

    def send(self, *items: Json, **members: Any) -> list[Json]:
        return send(self.person, "assignments", *items, **members)


def day(number: int) -> str:
    return f"2026-01-{number:02}T00:00:00Z"


def told(result: Json) -> list[tuple[str, int]]:
    """With whom an item overlaps."""
    return [
        ("item", one["item"]) if "item" in one else ("id", one["assignmentId"]) for one in result.get("conflicts", ())
    ]


@pytest.fixture
def garage(alice: Person) -> Garage:
    return Garage(alice)


def test_overlaps_are_those_of_half_open_times_of_one_car(garage: Garage) -> None:
    id = garage.person.assignment(garage.car, garage.user, day(10), end=day(20))
    other = garage.person.car_with_box()
    open_end = garage.person.assignment(other, garage.user, day(10))
    results = garage.send(
        garage.wants(5, 10), garage.wants(20, None), garage.wants(5, 11), garage.wants(19, None), garage.wants(12, 13),
        garage.wants(12, 12), garage.wants(5, 10, carId=other), garage.wants(25, None, carId=other),
        conflicts="report", dryRun=True,
    )  # fmt: skip
    mine = [[one for one in told(result) if one[0] == "id"] for result in results]
    assert mine == [[], [], [("id", id)], [("id", id)], [("id", id)], [], [], [("id", open_end)]]
    assert results[2]["conflicts"] == [
        {"assignmentId": id, "userId": garage.user, "start": day(10), "end": day(20)},
        {"item": 0, "userId": garage.user, "start": day(5), "end": day(10)},
    ]


def test_report_tells_and_does(garage: Garage) -> None:
    first, second = garage.send(garage.wants(1, 5), garage.wants(4, 6), conflicts="report")
    assert (first["status"], second["status"], told(first), told(second)) == (204, 204, [], [("item", 0)])
    assert "operationId" in second


def test_refuse_refuses_what_overlaps(garage: Garage, sql: Sql) -> None:
    results = garage.send(garage.wants(1, 5), garage.wants(4, 6), garage.wants(5, 6), conflicts="refuse")
    assert statuses(results) == [204, 409, 204]
    assert (results[1]["code"], results[1]["detail"]) == ("assignment-conflict", OVERLAP)
    assert results[1]["conflicts"] == [{"item": 0, "userId": garage.user, "start": day(1), "end": day(5)}]
    mine = "select count(*) from operation where customer_id = $1 and car_id = $2"
    assert sql.value(mine, garage.person.customer, garage.car) == 2


def test_what_was_refused_is_in_nobodys_way(garage: Garage) -> None:
    id = garage.person.assignment(garage.car, garage.user, day(10), end=day(20))
    free = garage.person.car_with_box()
    results = garage.send(
        garage.wants(15, 25), garage.wants(20, 25), change(id, end=day(22)), change(id, userId=garage.user),
        change(id, carId=free), garage.wants(10, 20), conflicts="refuse",
    )  # fmt: skip
    assert [(result["status"], told(result)) for result in results] == [
        (409, [("id", id)]), (204, []), (409, [("item", 1)]), (204, []), (204, []), (204, []),
    ]  # fmt: skip


def test_an_assignment_does_not_stand_in_its_own_way(garage: Garage) -> None:
    id = garage.person.assignment(garage.car, garage.user, day(10), end=day(20))
    results = garage.send(change(id, end=day(25)), change(id, start=day(1), end=None), conflicts="refuse")
    assert statuses(results) == [204, 204]


def test_what_ends_makes_room(garage: Garage) -> None:
    id = garage.person.assignment(garage.car, garage.user, day(10), end=day(20))
    assert statuses(garage.send(end(id), garage.wants(10, 20), conflicts="refuse")) == [204, 204]


def test_taking_back_is_never_refused(garage: Garage) -> None:
    """Two overlap already; who makes one of them shorter, or gives it to somebody else, takes no time anew."""
    first = garage.person.assignment(garage.car, garage.user, day(10), end=day(20))
    second = garage.person.assignment(garage.car, garage.user, day(15), end=day(25))
    other = garage.person.user()
    results = garage.send(
        change(first, end=day(18)), change(first, userId=other), change(first, end=day(19)), conflicts="refuse"
    )
    assert [(result["status"], told(result)) for result in results] == [
        (204, [("id", second)]), (204, [("id", second)]), (409, [("id", second)]),
    ]  # fmt: skip


def test_what_is_pending_counts(garage: Garage) -> None:
    with nobody_works(garage.person):
        assert garage.send(garage.wants(1, 5))[0]["status"] == 204
        assert statuses(garage.send(garage.wants(1, 5), conflicts="refuse")) == [409]


def test_who_does_not_look_is_not_refused(garage: Garage) -> None:
    """What they ask for is seen by who comes later."""
    assert statuses(garage.send(garage.wants(1, 5), conflicts="refuse")) == [204]
    assert garage.person.put("/assignments", garage.wants(4, 8)["body"]).status_code == 204
    assert statuses(garage.send(garage.wants(4, 9))) == [204]
    later = garage.send(garage.wants(7, 8), garage.wants(8, 9), garage.wants(9, 10), conflicts="refuse")
    assert statuses(later) == [409, 409, 204]


def test_an_atomic_batch_with_a_conflict_does_nothing(garage: Garage, sql: Sql) -> None:
    results = garage.send(garage.wants(1, 5), garage.wants(4, 6), conflicts="refuse", atomic=True, status=422)
    assert statuses(results) == [424, 409]
    assert told(results[1]) == [("item", 0)]
    mine = "select count(*) from operation where customer_id = $1 and car_id = $2"
    assert sql.value(mine, garage.person.customer, garage.car) == 0


def test_so_many_conflicts_are_told_at_most(garage: Garage, settings: Settings) -> None:
    most = settings.batch_conflicts
    results = garage.send(*[garage.wants(1, 5) for _ in range(most + 2)], conflicts="report")
    assert [len(told(result)) for result in results] == [*range(most + 1), most]
    assert ["moreConflicts" in result for result in results] == [False] * (most + 1) + [True]


def test_a_batch_that_would_be_compared_with_too_many(garage: Garage, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in (1, 3, 5):
        garage.person.assignment(garage.car, garage.user, day(n), end=day(n + 1))
    monkeypatch.setattr(overlaps, "COMPARED", 2)
    assert told(garage.send(garage.wants(3, 6), conflicts="report")[0]) != []
    body = {"kind": "assignments", "conflicts": "report", "items": [garage.wants(1, 2), garage.wants(5, 6)]}
    text = "Its cars have more than 2 assignments between its first start and its last end."
    refused(garage.person.post("/batch", body), 400, HEAD + text)


def test_only_one_of_many_gets_what_all_refuse_to_share(carol: Person) -> None:
    garage = Garage(carol)
    body = {"kind": "assignments", "conflicts": "refuse", "items": [garage.wants(n, n + 4) for n in (1, 5, 9)]}
    answers = at_once(call(carol, "POST", "/batch", body) for _ in range(10))
    found = Counter(tuple(statuses(answer.json()["results"])) for answer in answers)
    assert found == {(204, 204, 204): 1, (409, 409, 409): 9}
    assert len(eventually(lambda: len(rows := carol.get(f"/cars/{garage.car}/assignments").json()) == 3 and rows)) == 3


# The rate limit


def test_each_creation_counts(carol: Person, dsn: str, settings: Settings) -> None:
    few = settings.model_copy(update={"assignment_rate": 60, "assignment_burst": 5})
    garage = Garage(carol)
    id = carol.assignment(garage.car, garage.user)
    with RunningServer(few, dsn, worker=False) as running:

        def ask(*items: Json, **members: Any) -> httpx.Response:
            body = {"kind": "assignments", "items": list(items), **members}
            return web().post(running.url + "/batch", json=body, headers=carol.headers)

        carol.sql.execute("delete from rate_limit where key = $1", f"assignments:{carol.customer}")
        assert (
            ask(*[change(id, lifetime=700_000)] * 20, create(), create(carId=NOBODY, userId=1, start=START)).status_code
            == 200
        )
        assert ask(*[garage.wants(1, 2)] * 50, garage.wants(1, None, carId=NOBODY), atomic=True).status_code == 422
        assert ask(*[garage.wants(1, 2)] * 50, dryRun=True).status_code == 200
        let_in = ask(*[garage.wants(1, 2)] * 50)
        assert let_in.status_code == 200  # nothing of all that was counted, and one call may borrow
        assert let_in.headers["ratelimit-policy"] == '"assignments";q=5;w=5'
        name, left, reset = let_in.headers["ratelimit"].split(";")
        assert (name, left) == ('"assignments"', "r=0")
        assert 48 <= int(reset.removeprefix("t=")) <= 50
        for answer in (
            ask(garage.wants(1, 2)),
            ask(garage.wants(1, 2), conflicts="refuse"),
            web().put(running.url + "/assignments", json=garage.wants(1, 2)["body"], headers=carol.headers),
        ):
            seconds = int(answer.headers["retry-after"])
            assert (answer.status_code, 40 <= seconds <= 46) == (429, True), answer.text
            assert answer.json() == {"status": "429", "message": f"Rate limit exceeded. Retry in {seconds} seconds."}
        assert ask(end(id)).status_code == 200  # what takes access back is not limited
        paid = "update rate_limit set full_at = full_at - interval '48 seconds' where key = $1"
        carol.sql.execute(paid, f"assignments:{carol.customer}")
        assert ask(*[garage.wants(1, 2)] * 2).status_code == 200


def test_the_average_is_exact_over_two_servers_at_once(carol: Person, dsn: str, settings: Settings) -> None:
    """Of batches that come at once, one may borrow; the others wait for what it owes."""
    few = settings.model_copy(update={"assignment_rate": 1, "assignment_burst": 5})
    garage = Garage(carol)
    body = {"kind": "assignments", "items": [garage.wants(1, 2)] * 20}
    with RunningServer(few, dsn, worker=False) as one, RunningServer(few, dsn, worker=False) as two:
        urls = [one.url, two.url] * 4
        with ThreadPoolExecutor(8) as threads:
            answers = list(threads.map(lambda url: web().post(url + "/batch", json=body, headers=carol.headers), urls))
    assert Counter(answer.status_code for answer in answers) == {200: 1, 429: 7}
    count = "select count(*) from operation where customer_id = $1"
    assert carol.sql.value(count, carol.customer) == 20


def test_a_clock_that_was_set_back_leaves_one(carol: Person, dsn: str, settings: Settings) -> None:
    """What is owed is no such clock, what lies beyond it is."""
    few = settings.model_copy(update={"assignment_rate": 60, "assignment_burst": 5})
    garage = Garage(carol)
    bucket = f"assignments:{carol.customer}"
    with RunningServer(few, dsn, worker=False) as running:

        def ask(*items: Json) -> int:
            body = {"kind": "assignments", "items": list(items)}
            return web().post(running.url + "/batch", json=body, headers=carol.headers).status_code

        assert ask(*[garage.wants(1, 2)] * 50) == 200
        assert ask(garage.wants(1, 2)) == 429
        carol.sql.execute("update rate_limit set full_at = full_at + interval '1 hour' where key = $1", bucket)
        assert ask(garage.wants(1, 2)) == 200
        assert ask(garage.wants(1, 2)) == 429


# Sent again


def test_a_batch_sent_again_with_its_key_has_one_effect(carol: Person) -> None:
    garage = Garage(carol)
    key = {"Idempotency-Key": str(uuid.uuid4())}
    body = {"kind": "assignments", "items": [garage.wants(1, 2), garage.wants(1, 2), create()]}
    first, again = (carol.post("/batch", body, headers=key) for _ in range(2))
    assert (first.status_code, again.status_code, first.content) == (200, 200, again.content)
    assert again.headers["idempotency-replayed"] == "true"
    assert carol.sql.value("select count(*) from operation where customer_id = $1", carol.customer) == 2
    other = carol.post("/batch", body | {"atomic": True}, headers=key)
    refused(other, 422, "This Idempotency-Key was used for another request.")


def test_a_refused_batch_sent_again_is_refused_alike(carol: Person) -> None:
    key = {"Idempotency-Key": str(uuid.uuid4())}
    body = {"kind": "groups", "atomic": True, "items": [create(name="A"), end(NOBODY)]}
    first, again = (carol.post("/batch", body, headers=key) for _ in range(2))
    assert (first.status_code, again.status_code, first.content) == (422, 422, again.content)
    assert carol.get("/groups").json() == []
    problem = carol.post("/batch", body, headers=key | {"Accept": "application/problem+json"}).json()
    assert (problem["code"], problem["status"]) == ("batch-refused", 422)
    assert problem["results"] == first.json()["results"]


def test_sent_many_times_at_once_it_has_one_effect(carol: Person) -> None:
    key = str(uuid.uuid4())
    body = {"kind": "cars", "items": [create(name=f"C{n}") for n in range(200)]}
    url = str(carol.client.base_url).rstrip("/") + "/batch"

    def ask(_: int) -> httpx.Response:
        while True:
            answer = web().post(url, json=body, headers=carol.headers | {"Idempotency-Key": key})
            if answer.status_code != 409:
                return answer

    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(ask, range(6)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert len(carol.get("/cars").json()) == 200


# Neighbours


def test_what_is_anothers_is_answered_like_what_does_not_exist(alice: Person, bob: Person, user: int) -> None:
    car, group = alice.car_with_box(), alice.group()
    id = alice.assignment(car, user)
    his_car, his_user = bob.car_with_box(), bob.user()

    def asked(car: int, user: int, group: int, id: int) -> list[httpx.Response]:
        batches = {
            "cars": [change(car, name="Mine"), end(car)],
            "groups": [change(group, name="Mine"), end(group)],
            "users": [end(user)],
            "assignments": [
                create(carId=car, userId=his_user, start=START), create(carId=his_car, userId=user, start=START),
                change(id, end=None), end(id),
            ],
        }  # fmt: skip
        return [
            bob.post("/batch", {"kind": kind, "items": items, **more})
            for kind, items in batches.items()
            for more in ({}, {"atomic": True}, {"dryRun": True})
        ] + [bob.post("/batch", {"kind": "assignments", "conflicts": "refuse", "items": batches["assignments"]})]

    for hers, nobodys in zip(asked(car, user, group, id), asked(*[NOBODY] * 4), strict=True):
        assert (hers.status_code, hers.content) == (nobodys.status_code, nobodys.content)
        assert all(result["status"] == 404 for result in hers.json()["results"])
    assert alice.get(f"/cars/{car}").json()["name"] == "Car"
    assert alice.get(f"/assignments/{id}").status_code == 200


def test_a_neighbours_times_are_in_nobodys_way(alice: Person, bob: Person, garage: Garage) -> None:
    alice.assignment(garage.car, garage.user, day(1))
    his = Garage(bob)
    assert his.send(his.wants(1, 5), conflicts="refuse")[0]["status"] == 204


# Bounds


def test_faults_of_an_item_that_are_told(alice: Person) -> None:
    steps = [{"op": "add", "path": "/colour"}] * 30
    (result,) = send(alice, "cars", {"op": "change", "id": 1, "patch": steps})
    assert len(result["errors"]) == 10


def test_too_many_items(alice: Person) -> None:
    body = {"kind": "cars", "items": [end(NOBODY)] * 1_001}
    refused(alice.post("/batch", body), 400, HEAD + "It has too many items: at most 1000 are possible.")
    assert statuses(send(alice, "cars", *[end(NOBODY)] * 1_000)) == [404] * 1_000


def test_too_many_passwords(alice: Person) -> None:
    body = {"kind": "users", "items": [create(type="Normal")] * 51}
    text = "It has too many users with a password: at most 50 are possible."
    refused(alice.post("/batch", body), 400, HEAD + text)


def test_the_body_has_a_bound_of_its_own(alice: Person, dsn: str, settings: Settings) -> None:
    few = settings.model_copy(update={"batch_bytes": 3_000, "max_body": 2_000})
    body = {"kind": "cars", "items": [create(name="x", description="y" * 2_500)]}
    with RunningServer(few, dsn, worker=False) as running:
        assert web().post(running.url + "/batch", json=body, headers=alice.headers).status_code == 200
        answer = web().post(running.url + "/batch", json=body | {"items": body["items"] * 2}, headers=alice.headers)
        refused(answer, 413, "The body must be smaller than 3000 bytes.")


def test_a_batch_that_takes_too_long_is_undone(carol: Person, dsn: str, settings: Settings) -> None:
    """It waits for a row that somebody else has."""
    quick = settings.model_copy(update={"batch_seconds": 0.3})
    car = carol.car("Old")
    body = {"kind": "cars", "items": [create(name="New"), change(car, name="x")]}
    other = Sql(dsn)
    with RunningServer(quick, dsn, worker=False) as running:
        other.execute("begin")
        other.execute("select from car where customer_id = $1 for update", carol.customer)
        answer = web().post(running.url + "/batch", json=body, headers=carol.headers)
        other.execute("rollback")
    other.close()
    refused(answer, 503, "The batch took too long, and was undone. Please send fewer items at once.")
    assert answer.headers["retry-after"] == "1"
    assert [row["name"] for row in carol.get("/cars").json()] == ["Old"]


def test_batches_that_touch_the_same_rows_in_any_order(carol: Person) -> None:
    cars = [carol.car() for _ in range(60)]
    bodies = [
        {"kind": "cars", "items": [change(car, name=f"N{n}") for car in (cars if n % 2 else reversed(cars))]}
        for n in range(8)
    ] + [{"kind": "groups", "items": [create(name=f"G{m}") for m in ((1, 2) if n % 2 else (2, 1))]} for n in range(8)]
    answers = at_once(call(carol, "POST", "/batch", body) for body in bodies)
    assert {answer.status_code for answer in answers} == {200}
    assert len({row["name"] for row in carol.get("/cars").json()}) == 1
    assert sorted(row["name"] for row in carol.get("/groups").json()) == ["G1", "G2"]


def test_a_client_that_leaves_midway_leaves_all_of_it(carol: Person, server: RunningServer, dsn: str) -> None:
    """Or nothing, where it was not there as a whole: a write that has begun goes on."""
    body = json.dumps({"kind": "cars", "items": [create(name=f"C{n}") for n in range(300)]}).encode()
    headers = carol.headers | {"Content-Type": "application/json", "Content-Length": str(len(body)), "Host": "x"}
    head = "POST /batch HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers.items()) + "\r\n"
    other = Sql(dsn)
    other.execute("begin")
    other.execute("select pg_advisory_xact_lock(hashtext('batch cars'), $1)", carol.customer)
    with socket.create_connection(("127.0.0.1", server.port)) as gone:
        gone.sendall(head.encode() + body)
        waits = "select exists (select from pg_locks where locktype = 'advisory' and objid = $1 and not granted)"
        eventually(lambda: carol.sql.value(waits, carol.customer), "the batch's turn")
    other.execute("rollback")
    other.close()
    assert eventually(lambda: len(carol.get("/cars").json()), "the cars") == 300


# The order of work


def test_what_was_asked_for_in_batches_has_its_place_in_the_order(carol: Person, sql: Sql) -> None:
    garage = Garage(carol)
    with nobody_works(carol):
        first = garage.send(garage.wants(1, 2), garage.wants(3, 4))
        between = carol.put("/assignments", garage.wants(5, 6)["body"])
        last = garage.send(garage.wants(7, 8))
        ids = [one["operationId"] for one in first] + [between.headers["operation-id"], last[0]["operationId"]]
        gone = carol.car()
        assert send(carol, "cars", create(name="x"), end(gone)) != []  # applies what was asked for before
        rows = {row["id"]: row["applied"] for row in sql.rows(model.OPERATIONS, carol.customer)}
    assert [rows[id] for id in ids] == [1, 2, 3, 4]


def test_ending_cars_ends_their_assignments(carol: Person, sql: Sql) -> None:
    garages = [Garage(carol) for _ in range(3)]
    for garage in garages:
        carol.assignment(garage.car, garage.user)
    ends = [end(garage.car) for garage in garages]
    assert statuses(send(carol, "cars", *ends, end(NOBODY), status=422, atomic=True)) == [424, 424, 424, 404]
    assert len(carol.get("/cars").json()) == 3
    assert statuses(send(carol, "cars", *ends)) == [204, 204, 204]
    done = (
        "select car_id from operation where customer_id = $1 and cause = 'CarDeleted' and state = 'Succeeded'"
        " order by applied"
    )
    found = eventually(lambda: len(rows := sql.rows(done, carol.customer)) == 3 and rows, "the outcomes")
    assert [row[0] for row in found] == [garage.car for garage in garages]


@pytest.fixture(params=["cars", "users"])
def crowded(request: pytest.FixtureRequest, carol: Person) -> tuple[str, int, int]:
    """A kind, one of it with more assignments than are applied at once, and another one."""
    car, user, other = carol.car_with_box(), carol.user(), carol.car_with_box()
    carol.sql.execute(
        "insert into assignment (customer_id, car_id, user_id, starts_at, lifetime)"
        " select $1, $2, $3, timestamptz '2026-01-01T00:00:00Z' + n * interval '1 hour', 700000"
        " from generate_series(1, 1200) n",
        carol.customer,
        car,
        user,
    )
    return ("cars", car, other) if request.param == "cars" else ("users", user, carol.user())


def test_what_ends_many_assignments_is_followed_by_other_ends(carol: Person, crowded: tuple[str, int, int]) -> None:
    """Nobody else could apply the ends that the batch's own transaction has brought about."""
    kind, full, other = crowded
    with nobody_works(carol):
        assert statuses(send(carol, kind, end(full), end(other), dryRun=True)) == [204, 204]
        assert statuses(send(carol, kind, end(full), end(full), end(other))) == [204, 404, 204]
        state = "select state, count(*) from operation where customer_id = $1 and cause <> 'Request' group by 1"
        assert [tuple(row) for row in carol.sql.rows(state, carol.customer)] == [("Succeeded", 1200)]
    assert carol.sql.value("select count(*) from assignment where customer_id = $1", carol.customer) == 0


def test_ends_of_too_many_assignments_are_undone(
    carol: Person, dsn: str, settings: Settings, crowded: tuple[str, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One by one, they take more than the time that the batch has."""
    kind, full, other = crowded
    monkeypatch.setattr(holds, "PIECE", 1)
    body = {"kind": kind, "items": [end(full), end(other)]}
    with RunningServer(settings.model_copy(update={"batch_seconds": 0.3}), dsn, worker=False) as running:
        answer = web().post(running.url + "/batch", json=body, headers=carol.headers)
    refused(answer, 503, "The batch took too long, and was undone. Please send fewer items at once.")
    assert carol.sql.value("select count(*) from assignment where customer_id = $1", carol.customer) == 1200
    assert {full, other} <= {row["id"] for row in carol.get(f"/{kind}").json()}
