"""Batches: items like their single requests, atomic batches, repeats, isolation, order."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from keyrack.assignments import customer_lock
from keyrack.assignments.booking_checks import OLD_WORKER
from keyrack.assignments.endpoints.batch_models import ROWS
from keyrack.core.settings import Settings
from tests.assignments import model
from tests.assignments.endpoints.batch_requests import (
    END,
    HEAD,
    NO_CAR,
    NOBODY,
    START,
    Garage,
    Json,
    change,
    create,
    end,
    md5,
    send,
    single,
    statuses,
)
from tests.http.test_tenant_isolation import member_of
from tests.support.people import Person, nobody_works, refused, web
from tests.support.servers import RunningServer, Sql, eventually


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


# Errors of items are those of the single requests


def limiting(person: Person) -> int:
    """A group that restricts a manager's group scope."""
    group = person.group()
    steps = [{"op": "replace", "path": "/groups", "value": [group]}]
    assert person.patch(f"/managers/{member_of(person)}", steps).status_code == 204
    return group


def wrong_items(person: Person) -> list[tuple[str, Json]]:
    """Items for each error text of every endpoint in `ROWS`, and more."""
    car, user, group, taken = person.car_with_box(), person.user(), person.group(), person.group("Taken")
    id = person.assignment(car, user)
    person.assignment(car, user, exclusive=True)
    assert person.put(f"/groups/{group}/cars", {"carId": car}).status_code == 204
    data = {"firstName": "A", "lastName": "B"}
    address = person.get(f"/users/{user}").json()["emailAddress"]
    whole = {"carId": car, "userId": user, "start": START}
    reference = {"externalId": "Taken"}
    person.car(**reference)
    person.user(**reference)
    person.put("/groups", {"name": "Referenced", **reference}).raise_for_status()
    person.assignment(car, user, START, **reference)
    wrong: dict[str, list[Json]] = {
        "cars": [
            create(), create(name=" "), create(name="x" * 251), create(name=5), {"op": "create", "body": []},
            create(name="x", **reference), change(car, **reference),
            create(name="x", vin="\0"), change(NOBODY, name="x"), change(0, name="x"),
            change(-1, name="x"), change(car, name=""), change(car, vin="x" * 251), change(car, colour="red"),
            {"op": "change", "id": car, "patch": []}, {"op": "change", "id": car, "patch": {}},
            {"op": "change", "id": car, "patch": [{"op": "add", "path": "/name", "value": "x"}]},
            {"op": "change", "id": car, "patch": [{"op": "replace", "path": "/name"}]}, end(NOBODY), end(0),
        ],
        "groups": [
            create(), create(name=""), create(name="Taken"), change(NOBODY, name="x"), change(taken, name=" "),
            create(name="x", **reference), change(group, **reference),
            change(taken, name="x" * 251), change(group, name="Taken"), end(NOBODY), end(group),
            end(limiting(person)),
        ],
        "users": [
            create(), create(emailAddress="x", userData=data), create(emailAddress="a@example.org"),
            create(emailAddress="a@example.org", userData={}),
            create(emailAddress="a@example.org", userData={"lastName": "B"}),
            create(emailAddress="a@example.org", userData={"firstName": "A"}),
            create(emailAddress=address, userData=data),
            create(emailAddress=address.upper(), userData=data), end(NOBODY), end(0),
            create(emailAddress="taken@example.org", userData=data, **reference), change(user, **reference),
            change(user, externalId=" "), change(user, metadata=5), change(user, metadata={"k": "x" * 501}),
            change(NOBODY, externalId="x"),
        ],
        "assignments": [
            create(), create(**whole, ende=END), create(**whole, end="2025-01-01T00:00:00Z"),
            create(**whole, lifetime=1), create(**whole, renewableAfter=-1), create(**whole | {"carId": NOBODY}),
            create(**whole | {"userId": NOBODY}),
            create(**whole | {"carId": "1"}), create(**whole | {"start": "now"}), change(NOBODY, end=None),
            change(id, carId=NOBODY), change(id, userId=NOBODY), change(id, start=END, end=START),
            change(id, lifetime=5), change(id, renewableAfter=-1), change(id, ende=END), change(id, start="now"),
            {"op": "change", "id": id, "patch": []}, end(NOBODY), end(-5),
            create(**whole, **reference), change(id, **reference),
            create(**whole, exclusive=True), change(id, exclusive=True), change(id, exclusive="yes"),
        ],
    }  # fmt: skip
    return [(kind, item) for kind, items in wrong.items() for item in items]


def test_a_rejected_item_has_the_error_of_its_single_request(carol: Person) -> None:
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
        if key == ("users", "end"):  # this item identifies the user only by id, so some errors cannot occur
            continue
        texts = {str(reason) for status, reasons in row.responses.errors.items() if status != 429 for reason in reasons}
        texts.discard(OLD_WORKER.text)  # the server's processes are of this release
        missing = [text for text in texts if not any(text in one for one in told[key])]
        assert not missing, f"{key} has no item for {missing}"


def test_rejected_items_do_not_affect_the_others(carol: Person) -> None:
    """The batch has more items than share a savepoint."""
    names = [f"G{n}" if n % 3 else "Same" for n in range(120)]
    results = send(carol, "groups", *[create(name=name) for name in names])
    made = [name for name, result in zip(names, results, strict=True) if result["status"] == 201]
    assert sorted(made) == sorted(set(names))
    assert sorted(row["name"] for row in carol.get("/groups").json()) == sorted(set(names))


def test_an_item_sees_the_effect_of_earlier_items(carol: Person) -> None:
    car = carol.car()
    assert statuses(send(carol, "cars", end(car), end(car), change(car, name="x"))) == [204, 404, 404]


KINDS = "`kind` must be 'assignments', 'cars', 'groups' or 'users', but is"
WAYS = "`conflicts` must be 'allow', 'report' or 'refuse', but is 'ignore'."
NO_OP = "No valid op provided. `op` must be"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "No valid kind provided."),
        ({"kind": "trees", "items": [end(1)]}, f"No valid kind provided. {KINDS} 'trees'."),
        ({"kind": 5, "items": [end(1)]}, f"No valid kind provided. {KINDS} 5."),
        ({"kind": "cars"}, "No valid items provided."),
        ({"kind": "cars", "items": []}, "No valid items provided."),
        ({"kind": "cars", "items": {}}, "No valid items provided."),
        ({"kind": "cars", "items": [7]}, "No valid items provided."),
        ({"kind": "cars", "items": [{}]}, "No valid op provided."),
        (
            {"kind": "cars", "items": [{"op": "delete", "id": 1}]},
            f"{NO_OP} 'change', 'create' or 'end', but is 'delete'.",
        ),
        (
            {"kind": "users", "items": [{"op": "replace", "id": 1, "patch": []}]},
            f"{NO_OP} 'change', 'create' or 'end', but is 'replace'.",
        ),
        ({"kind": "cars", "items": [{"op": "create"}]}, "No valid body provided."),
        ({"kind": "cars", "items": [{"op": "change", "id": 1}]}, "No valid patch provided."),
        ({"kind": "cars", "items": [{"op": "end"}]}, "No valid id provided."),
        ({"kind": "cars", "items": [end(1) | {"id": "1"}]}, "No valid id provided."),
        (
            {"kind": "cars", "items": [end(2**31)]},
            "No valid id provided. `id` must be at most 2147483647, but is 2147483648.",
        ),
        ({"kind": "cars", "items": [end(1)], "atomic": "yes"}, "No valid atomic provided."),
        ({"kind": "cars", "items": [end(1)], "dryRun": 1}, "No valid dryRun provided."),
        ({"kind": "assignments", "items": [end(1)], "conflicts": "ignore"}, f"No valid conflicts provided. {WAYS}"),
        ({"kind": "cars", "items": [end(1)], "atomik": True}, "There is no property 'atomik'. Did you mean 'atomic'?"),
        ({"kind": "cars", "items": [end(1)], "conflicts": "refuse"}, "There is no property 'conflicts'."),
        (
            {"kind": "cars", "items": [{"op": "create", "boddy": {}}]},
            "There is no property 'boddy'. Did you mean 'body'?",
        ),
        ({"kind": "cars", "items": [end(1) | {"body": {}}]}, "There is no property 'body'."),
        ({"kind": "cars", "items": [end(1) | {"ifMatch": '"x"'}]}, "There is no property 'ifMatch'."),
    ],
)
def test_an_invalid_batch_does_nothing(alice: Person, body: Json, text: str) -> None:
    """Unknown or misspelt members make the whole batch fail."""
    refused(alice.post("/batch", body), 400, HEAD + text)


@pytest.mark.parametrize(
    ("body", "place", "code", "valid"),
    [
        ({"kind": "trees", "items": [end(1)]}, "/kind", "not-one-of", ["assignments", "cars", "groups", "users"]),
        ({"items": [end(1)]}, "/kind", "missing", None),
        (
            {"kind": "users", "items": [end(1), {"op": "replace", "id": 1}]},
            "/items/1/op",
            "not-one-of",
            ["change", "create", "end"],
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
def test_an_invalid_batch_names_the_place_of_the_error(
    alice: Person, body: Json, place: str, code: str, valid: list[str] | None
) -> None:
    answer = alice.post("/batch", body, headers={"Accept": "application/problem+json"})
    (fault,) = answer.json()["errors"]
    assert (fault["pointer"], fault["code"], fault.get("valid")) == (place, code, valid)


def test_a_rejected_item_names_the_place_of_the_error(alice: Person) -> None:
    (result,) = send(alice, "cars", create(name="x" * 251))
    assert result["errors"] == [{"pointer": "/name", "code": "too-long", "detail": result["errors"][0]["detail"]}]


# Atomic batches


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
def test_a_repeated_member_in_a_batch_is_rejected(alice: Person, body: str, name: str) -> None:
    before = alice.get("/cars").content
    answer = alice.post("/batch", content=body, headers={"Content-Type": "application/json"})
    refused(answer, 400, f"Couldn't carry out the batch. The property '{name}' is given more than once.")
    assert alice.get("/cars").content == before


def test_a_batch_takes_no_query_string(alice: Person) -> None:
    before = alice.get("/cars").content
    answer = alice.post("/batch?dryRun=true", {"kind": "cars", "items": [create(name="x")]})
    refused(answer, 400, "Couldn't carry out the batch. The endpoint takes no query string.")
    assert alice.get("/cars").content == before


def test_a_rejected_dry_run_is_marked_as_dry_run(alice: Person) -> None:
    answer = alice.post("/batch", {"kind": "cars", "atomic": True, "dryRun": True, "items": [end(NOBODY)]})
    assert (answer.status_code, answer.json()["dryRun"], answer.json()["refused"]) == (422, True, 1)


def test_an_atomic_batch_is_all_or_nothing(carol: Person) -> None:
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
    assert told["message"] == "The batch was not carried out because an item was rejected."
    assert (told["done"], told["refused"]) == (0, 2)
    undone = {
        "status": 424,
        "code": "item-undone",
        "detail": "The item was not carried out because another item was rejected.",
    }
    assert [told["results"][0], told["results"][2]] == [undone, undone]
    assert told["results"][1]["detail"] == "A group with the same name already exists."
    assert [row["name"] for row in carol.get("/groups").json()] == ["There"]
    assert statuses(send(carol, "groups", create(name="New"), end(there), atomic=True)) == [201, 204]


def test_an_atomic_batch_of_assignments_is_all_or_nothing(carol: Person, sql: Sql) -> None:
    car, user = carol.car_with_box(), carol.user()
    good = create(carId=car, userId=user, start=START)
    results = send(carol, "assignments", good, create(carId=NOBODY, userId=user, start=START), atomic=True, status=422)
    assert statuses(results) == [424, 404]
    count = "select count(*) from operation where customer_id = $1"
    assert sql.value(count, carol.customer) == 0
    assert statuses(send(carol, "assignments", good, good, atomic=True)) == [204, 204]
    assert sql.value(count, carol.customer) == 2


# Repeated requests


def test_a_repeated_batch_with_its_idempotency_key_has_one_effect(carol: Person) -> None:
    garage = Garage(carol)
    key = {"Idempotency-Key": str(uuid.uuid4())}
    body = {"kind": "assignments", "items": [garage.wants(1, 2), garage.wants(1, 2), create()]}
    first, again = (carol.post("/batch", body, headers=key) for _ in range(2))
    assert (first.status_code, again.status_code, first.content) == (200, 200, again.content)
    assert again.headers["idempotency-replayed"] == "true"
    assert carol.sql.value("select count(*) from operation where customer_id = $1", carol.customer) == 2
    other = carol.post("/batch", body | {"atomic": True}, headers=key)
    refused(other, 422, "This Idempotency-Key was used for another request.")


def test_a_repeated_rejected_batch_gets_the_same_answer(carol: Person) -> None:
    key = {"Idempotency-Key": str(uuid.uuid4())}
    body = {"kind": "groups", "atomic": True, "items": [create(name="A"), end(NOBODY)]}
    first, again = (carol.post("/batch", body, headers=key) for _ in range(2))
    assert (first.status_code, again.status_code, first.content) == (422, 422, again.content)
    assert carol.get("/groups").json() == []
    problem = carol.post("/batch", body, headers=key | {"Accept": "application/problem+json"}).json()
    assert (problem["code"], problem["status"]) == ("batch-refused", 422)
    assert problem["results"] == first.json()["results"]


def test_simultaneous_repeats_of_a_batch_have_one_effect(carol: Person) -> None:
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


# Tenant isolation


def test_ids_of_another_customer_get_the_answer_of_missing_ids(alice: Person, bob: Person, user: int) -> None:
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


# The order of operations


def test_operations_of_batches_are_applied_in_order(carol: Person, sql: Sql) -> None:
    garage = Garage(carol)
    with nobody_works(carol):
        first = garage.send(garage.wants(1, 2), garage.wants(3, 4))
        between = carol.put("/assignments", garage.wants(5, 6)["body"])
        last = garage.send(garage.wants(7, 8))
        ids = [one["operationId"] for one in first] + [between.headers["operation-id"], last[0]["operationId"]]
        gone = carol.car()
        assert send(carol, "cars", create(name="x"), end(gone)) != []  # applies the pending operations
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
    """A kind, an id with many assignments, and another id.

    The assignments are more than one batch of a flush applies.
    """
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


def test_other_ends_may_follow_an_end_of_many_assignments(carol: Person, crowded: tuple[str, int, int]) -> None:
    """No other transaction could apply the ends that the batch's own transaction has submitted."""
    kind, full, other = crowded
    with nobody_works(carol):
        assert statuses(send(carol, kind, end(full), end(other), dryRun=True)) == [204, 204]
        assert statuses(send(carol, kind, end(full), end(full), end(other))) == [204, 404, 204]
        state = "select state, count(*) from operation where customer_id = $1 and cause <> 'Request' group by 1"
        assert [tuple(row) for row in carol.sql.rows(state, carol.customer)] == [("Succeeded", 1200)]
    assert carol.sql.value("select count(*) from assignment where customer_id = $1", carol.customer) == 0


def test_a_batch_that_ends_too_many_assignments_is_undone(
    carol: Person, dsn: str, settings: Settings, crowded: tuple[str, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Applied one by one, the ends take longer than the batch may."""
    kind, full, other = crowded
    monkeypatch.setattr(customer_lock, "PIECE", 1)
    body = {"kind": kind, "items": [end(full), end(other)]}
    with RunningServer(settings.model_copy(update={"batch_seconds": 0.3}), dsn, worker=False) as running:
        answer = web().post(running.url + "/batch", json=body, headers=carol.headers)
    refused(answer, 503, "The batch took too long and was rolled back. Send fewer items at once.")
    assert carol.sql.value("select count(*) from assignment where customer_id = $1", carol.customer) == 1200
    assert {full, other} <= {row["id"] for row in carol.get(f"/{kind}").json()}
