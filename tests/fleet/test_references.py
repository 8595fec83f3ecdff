"""`externalId` and `metadata` of cars, users, groups and webhooks."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from keyrack.api.reference_errors import TAKEN
from tests.changelog.test_audited_tables import changes
from tests.docs.code_blocks import block
from tests.support.people import Person
from tests.support.servers import NUMBERS, eventually

PROBLEM = {"Accept": "application/problem+json"}


def car(name: str = "Car") -> dict[str, Any]:
    return {"name": name}


def user(_name: str = "") -> dict[str, Any]:
    address = f"reference{next(NUMBERS)}@example.org"
    return {"emailAddress": address, "userData": {"firstName": "Una", "lastName": "User"}}


def group(_name: str = "") -> dict[str, Any]:
    return {"name": f"Referenced {next(NUMBERS)}"}


def webhook(_name: str = "") -> dict[str, Any]:
    return {"url": "https://example.org/references"}


BODIES: dict[str, Callable[..., dict[str, Any]]] = {
    "/cars": car, "/users": user, "/groups": group, "/webhooks": webhook,
}  # fmt: skip
RESOURCES = {"/cars": "car", "/users": "user", "/groups": "group", "/webhooks": "webhook"}
path = pytest.mark.parametrize("path", BODIES)


def program(person: Person, *scopes: str) -> Person:
    """A machine client of the person's customer."""
    made = person.put("/clients", {"name": f"Program {next(NUMBERS)}", "scopes": list(scopes)}).json()
    form = {"grant_type": "client_credentials", "client_id": made["clientId"], "client_secret": made["clientSecret"]}
    key = {"vendor-API-Key": person.api_key}
    token = eventually(
        lambda: person.client.post("/oauth2/token", data=form, headers=key).json().get("access_token"), "the token"
    )
    headers = person.headers | {"Authorization": f"Bearer {token}"}
    return Person(**{**vars(person), "token": token, "headers": headers})


def problem(person: Person, method: str, path: str, body: Any) -> tuple[int, dict[str, Any]]:
    answer = person.call(method, path, body, headers=PROBLEM)
    return answer.status_code, answer.json()


@path
def test_both_are_stored_filtered_and_ordered(path: str, alice: Person, bob: Person) -> None:
    reference = f"V-{next(NUMBERS)}"
    body = BODIES[path]() | {"externalId": reference, "metadata": {"plan": "gold", "site.no": "7", "A-b_c": ""}}
    id = alice.put(path, body).json()["id"]
    row = alice.get(f"{path}/{id}?$select=id,externalId,metadata").json()
    assert row == {"id": id, "externalId": reference, "metadata": body["metadata"]}
    other = alice.put(path, BODIES[path]()).json()["id"]

    def found(query: str, person: Person = alice) -> list[int]:
        return [row["id"] for row in person.get(f"{path}?{query}").json()]

    assert found(f"$filter=externalId eq '{reference}'") == [id]
    assert found(f"$filter=externalId eq '{reference.lower()}'") == []
    assert found(f"$filter=externalId eq '{reference}'", bob) == []
    assert found(f"$filter=metadata/plan eq 'gold' and id ge {id}") == [id]
    assert found(f"$filter=metadata/plan ne 'gold' and id ge {id}") == [other], "null is not equal to a text"
    assert found(f"$filter=metadata/plan eq null and id ge {id}") == [other]
    assert found(f"$filter=startswith(metadata/plan,'go') and id ge {id}") == [id]
    assert found(f"$filter=not(metadata/Plan eq 'gold') and id ge {id}") == [id, other], "keys are case-sensitive"
    assert found(f"$filter=id ge {id}&$orderby=externalId desc") == [id, other]
    assert found(f"$filter=id ge {id}&$orderby=metadata/plan") == [other, id]
    for query in ("$filter=metadata eq 'x'", "$orderby=metadata", "$filter=metadata/plan/more eq 'x'"):
        assert alice.get(f"{path}?{query}").status_code == 400, query


@path
def test_the_answers_of_the_spec_stay_the_same(path: str, alice: Person) -> None:
    body = BODIES[path]() | {"externalId": f"S-{next(NUMBERS)}", "metadata": {"a": "b"}}
    made = alice.put(path, body, headers={"Prefer": "return=representation"})
    id = made.json()["id"]
    reads = [made.json(), *[row for row in alice.get(path).json() if row["id"] == id]]
    # A representation is the single read, which the spec does not have for groups and webhooks
    shown = [path in ("/groups", "/webhooks"), path == "/webhooks"][: len(reads)]
    assert [("externalId" in row, "metadata" in row) for row in reads] == [(each, each) for each in shown]
    client = program(alice, "cars:read", "users:read", "groups:read", "webhooks:read")
    row = client.get(f"{path}/{id}").json()
    assert (row["externalId"], row["metadata"]) == (body["externalId"], {"a": "b"})


@path
def test_a_repeated_creation_gets_the_id(path: str, alice: Person, bob: Person) -> None:
    """The body has other unique values too."""
    body = BODIES[path]() | {"externalId": f"R-{next(NUMBERS)}"}
    id = alice.put(path, body).json()["id"]
    status, answer = problem(alice, "PUT", path, body)
    assert (status, answer["code"], answer["id"]) == (409, "external-id-taken", id)
    if path in ("/users", "/groups"):
        for other in (body | {"externalId": f"R-{next(NUMBERS)}"}, {**body, "externalId": None}):
            status, answer = problem(alice, "PUT", path, other)
            assert status == 409 and answer["code"] != "external-id-taken" and "id" not in answer
    if path == "/users":  # the person is not bob's user, and neither is the id
        status, answer = problem(bob, "PUT", path, body)
        assert (status, answer["code"], "id" in answer) == (409, "email-address-taken", False)


def test_a_repeated_creation_in_a_batch_gets_the_id(alice: Person) -> None:
    for kind, path in (("users", "/users"), ("groups", "/groups")):
        body = BODIES[path]() | {"externalId": f"RB-{next(NUMBERS)}"}
        id = alice.put(path, body).json()["id"]
        batch = {"kind": kind, "items": [{"op": "create", "body": body}, {"op": "create", "body": BODIES[path]()}]}
        results = alice.post("/batch", batch).json()["results"]
        assert [row["status"] for row in results] == [409, 201], kind
        assert (results[0]["code"], results[0]["id"]) == ("external-id-taken", id)


@path
def test_a_taken_number_is_refused_with_the_id_of_its_owner(path: str, alice: Person, bob: Person) -> None:
    reference = {"externalId": f"T-{next(NUMBERS)}"}
    id = alice.put(path, BODIES[path]() | reference).json()["id"]
    status, answer = problem(alice, "PUT", path, BODIES[path]() | reference)
    assert (status, answer["code"], answer["id"]) == (409, "external-id-taken", id)
    assert answer["errors"][0]["pointer"] == "/externalId"
    assert alice.put(path, BODIES[path]() | reference).text == str(TAKEN)
    other = alice.put(path, BODIES[path]()).json()["id"]
    step = {"op": "replace", "path": "/externalId", "value": reference["externalId"]}
    status, answer = problem(alice, "PATCH", f"{path}/{other}", [step])
    assert (status, answer["id"], answer["errors"][0]["pointer"]) == (409, id, "/0/value")
    assert bob.put(path, BODIES[path]() | reference).status_code == 201, "another customer's numbers do not matter"
    assert alice.patch(f"{path}/{id}", [{"op": "remove", "path": "/externalId"}]).status_code == 204
    assert alice.patch(f"{path}/{other}", [step]).status_code == 204, "a removed number is free"


@path
def test_one_of_two_concurrent_creations_gets_the_number(path: str, alice: Person) -> None:
    reference = {"externalId": f"C-{next(NUMBERS)}"}
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: alice.put(path, BODIES[path]() | reference, headers=PROBLEM), range(8)))
    made = [answer.json()["id"] for answer in answers if answer.status_code == 201]
    assert len(made) == 1
    assert {answer.json().get("id") for answer in answers} == set(made)
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 7


LIMITS: list[tuple[dict[str, Any], str, str]] = [
    ({"metadata": {f"k{number}": "" for number in range(21)}}, "/metadata", "too-long"),
    ({"metadata": {"k" * 41: "x"}}, f"/metadata/{'k' * 41}", "wrong-form"),
    ({"metadata": {"k" * 400: "x"}}, "/metadata", "wrong-form"),
    ({"metadata": {"": "x"}}, "/metadata/", "wrong-form"),
    ({"metadata": {"a b": "x"}}, "/metadata/a b", "wrong-form"),
    ({"metadata": {"plan": "x" * 501}}, "/metadata/plan", "too-long"),
    ({"metadata": {"plan": 1}}, "/metadata/plan", "wrong-type"),
    ({"metadata": {"plan": None}}, "/metadata/plan", "wrong-type"),
    ({"metadata": {"plan": {"a": "b"}}}, "/metadata/plan", "wrong-type"),
    ({"metadata": {"plan": "a\u202eb"}}, "/metadata/plan", "direction-control"),
    ({"metadata": {f"k{number}": "x" * 454 for number in range(9)}}, "/metadata", "too-long"),
    ({"metadata": ["a"]}, "/metadata", "wrong-type"),
    ({"metadata": "a"}, "/metadata", "wrong-type"),
    ({"externalId": ""}, "/externalId", "too-short"),
    ({"externalId": "x" * 129}, "/externalId", "too-long"),
    ({"externalId": " x"}, "/externalId", "wrong-form"),
    ({"externalId": "é\u00a0"}, "/externalId", "wrong-form"),
    ({"externalId": "a\tb"}, "/externalId", "wrong-form"),
    ({"externalId": "a\x7fb"}, "/externalId", "wrong-form"),
    ({"externalId": 7}, "/externalId", "wrong-type"),
]


@path
@pytest.mark.parametrize(("members", "pointer", "code"), LIMITS)
def test_limits_of_a_body(path: str, members: dict[str, Any], pointer: str, code: str, alice: Person) -> None:
    status, answer = problem(alice, "PUT", path, BODIES[path]() | members)
    assert (status, answer["code"]) == (400, "invalid-members"), answer
    assert [(fault["pointer"], fault["code"]) for fault in answer["errors"]] == [(pointer, code)], answer
    assert f"No valid {next(iter(members))} provided." in answer["detail"]


@path
@pytest.mark.parametrize(("members", "pointer", "code"), LIMITS)
def test_limits_of_a_patch(path: str, members: dict[str, Any], pointer: str, code: str, alice: Person) -> None:
    row = f"{path}/{_one(alice, path)}"
    [(name, value)] = members.items()
    steps = [{"op": "replace", "path": f"/{name}", "value": value}]
    status, answer = problem(alice, "PATCH", row, steps)
    place = "/0/value" + pointer.removeprefix(f"/{name}")
    assert status == 400, answer
    if not isinstance(value, str | dict):
        code = "wrong-type"
    assert [(fault["pointer"], fault["code"]) for fault in answer["errors"]] == [(place, code)], answer


def test_largest_values(alice: Person) -> None:
    texts = {f"k{number:02}": "x" * 452 for number in range(9)} | {"y" * 1: "z" * 0}
    assert sum(len(key) + len(text) for key, text in texts.items()) == 4_096
    body = {"externalId": "ü" * 128, "metadata": texts}
    id = alice.put("/cars", car() | body).json()["id"]
    assert alice.get(f"/cars/{id}?$select=externalId,metadata").json() == body
    one_more = [{"op": "replace", "path": "/metadata/y", "value": "z"}]
    status, answer = problem(alice, "PATCH", f"/cars/{id}", one_more)
    assert (status, answer["errors"][0]["pointer"]) == (400, "/0/value")
    full = {"k" * 40 if number == 0 else f"k{number}": "v" for number in range(20)}
    assert alice.patch(f"/cars/{id}", [{"op": "replace", "path": "/metadata", "value": full}]).status_code == 204
    status, answer = problem(alice, "PATCH", f"/cars/{id}", one_more)
    assert (status, answer["errors"][0]["code"]) == (400, "too-long")
    assert alice.get(f"/cars/{id}?$select=metadata").json() == {"metadata": full}
    steps = [{"op": "remove", "path": "/metadata/k1"}, *one_more]
    assert alice.patch(f"/cars/{id}", steps).status_code == 204


def _one(person: Person, path: str) -> int:
    return person.put(path, BODIES[path]()).json()["id"]


@path
def test_a_patch_replaces_the_metadata_or_one_key(path: str, alice: Person, bob: Person) -> None:
    id = _one(alice, path)
    row = f"{path}/{id}"

    def patched(*steps: tuple[str, str, Any]) -> Any:
        patch = [
            {"op": op, "path": f"/metadata{key}"} | ({"value": value} if op == "replace" else {})
            for op, key, value in steps
        ]
        answer = alice.patch(row, patch)
        assert answer.status_code == 204, answer.text
        return alice.get(f"{row}?$select=metadata").json()["metadata"]

    assert patched(("replace", "/plan", "gold")) == {"plan": "gold"}
    assert patched(("replace", "/site", "7")) == {"plan": "gold", "site": "7"}
    assert patched(("remove", "/plan", None), ("replace", "/c", "d")) == {"site": "7", "c": "d"}
    assert patched(("remove", "/absent", None)) == {"site": "7", "c": "d"}
    assert patched(("replace", "", {"a": "1"}), ("replace", "/b", "2"), ("remove", "/a", None)) == {"b": "2"}
    assert patched(("replace", "/x", "1"), ("replace", "", {"a": "1"})) == {"a": "1"}
    assert patched(("remove", "/a", None)) is None
    assert patched(("replace", "", {"a": "1"}), ("remove", "", None)) is None
    assert patched(("replace", "", {})) is None
    assert patched(("replace", "", None)) is None
    step = {"op": "replace", "path": "/metadata/plan", "value": "gold"}
    assert bob.patch(row, [step]).status_code == 404
    for bad in ("/metadata/", "/metadata/" + "k" * 41, "/metadata/a/b", "/metadata/a b"):
        status, answer = problem(alice, "PATCH", row, [step | {"path": bad}])
        assert (status, answer["errors"][0]["pointer"]) == (400, "/0/path"), bad
    for value in (1, None, {"a": "b"}, "x" * 501):
        status, answer = problem(alice, "PATCH", row, [step, step | {"value": value}])
        assert (status, answer["errors"][0]["pointer"]) == (400, "/1/value"), value


@path
def test_changes_of_both_are_in_the_change_log(path: str, alice: Person) -> None:
    reference = f"L-{next(NUMBERS)}"
    id = alice.put(path, BODIES[path]() | {"externalId": reference, "metadata": {"a": "1"}}).json()["id"]
    alice.patch(f"{path}/{id}", [{"op": "replace", "path": "/metadata/b", "value": "2"}]).raise_for_status()
    alice.patch(f"{path}/{id}", [{"op": "remove", "path": "/externalId"}]).raise_for_status()
    created, merged, freed = changes(alice, RESOURCES[path], id)
    assert (created["after"]["externalId"], created["after"]["metadata"]) == (reference, {"a": "1"})
    assert merged["kind"] == f"{RESOURCES[path]}.updated"
    assert (merged["before"], merged["after"]) == ({"metadata": {"a": "1"}}, {"metadata": {"a": "1", "b": "2"}})
    assert (freed["before"], freed["after"]) == ({"externalId": reference}, {"externalId": None})


def test_batches_have_both(alice: Person) -> None:
    reference = f"B-{next(NUMBERS)}"
    for kind, path in (("cars", "/cars"), ("users", "/users"), ("groups", "/groups")):
        bodies = [BODIES[path]() | {"externalId": f"{reference}-{number}"} for number in (1, 2, 1)]
        answer = alice.post("/batch", {"kind": kind, "items": [{"op": "create", "body": body} for body in bodies]})
        first, second, third = answer.json()["results"]
        assert (first["status"], second["status"], third["status"]) == (201, 201, 409), answer.text
        assert (third["code"], third["id"]) == ("external-id-taken", first["id"])
        steps = [{"op": "replace", "path": "/metadata/plan", "value": "gold"}]
        items = [{"op": "change", "id": first["id"], "patch": steps}]
        answer = alice.post("/batch", {"kind": kind, "items": items})
        assert [result["status"] for result in answer.json()["results"]] == [204], answer.text
        row = alice.get(f"{path}?$filter=id eq {first['id']}&$select=metadata").json()
        assert row == [{"metadata": {"plan": "gold"}}]


def test_a_search_finds_the_reference(alice: Person) -> None:
    for path in ("/cars", "/groups"):
        id = alice.put(path, BODIES[path]() | {"externalId": f"Fleetio-{next(NUMBERS)}", "metadata": {"a": "mauve"}})
        number = alice.get(f"{path}/{id.json()['id']}?$select=externalId").json()["externalId"]
        assert [row["id"] for row in alice.get(f"{path}?$search={number}").json()] == [id.json()["id"]]
        assert alice.get(f"{path}?$search=mauve").json() == []


def found_users(person: Person, word: str) -> list[int]:
    answer = person.get("/users", params={"$search": f'"{word}"', "$select": "id"})
    return [row["id"] for row in answer.json()] if answer.status_code == 200 else []


def test_a_search_finds_users_by_the_reference_of_this_customer(alice: Person, bob: Person) -> None:
    reference = f"Kundin {next(NUMBERS)}"
    id, other = alice.user(externalId=reference), alice.user(externalId=f"{reference}b")
    theirs = bob.user(externalId=reference)
    assert found_users(alice, reference) == [id, other] and found_users(bob, reference) == [theirs]
    assert found_users(alice, f"{reference}b") == [other] and found_users(alice, reference.lower()) == []
    assert found_users(alice, "Ku") == [], "a short word is the whole reference"
    short = alice.user(externalId="Q7")
    assert found_users(alice, "Q7") == [short]
    by_name = alice.user(userData={"firstName": "Ada", "lastName": reference})
    assert found_users(alice, reference) == sorted((id, other, by_name))
    for user in (id, other, short, by_name):
        alice.patch(f"/users/{user}", [{"op": "remove", "path": "/externalId"}])
    assert found_users(alice, reference) == [by_name]


def test_the_examples_of_the_page(carol: Person) -> None:
    body, steps = (json.loads(block("docs/references.md", name).text) for name in ("car", "patch"))
    id = carol.put("/cars", body).json()["id"]
    assert problem(carol, "PUT", "/cars", body)[1]["id"] == id
    assert [row["id"] for row in carol.get("/cars?$filter=externalId eq 'V-1001'").json()] == [id]
    assert carol.patch(f"/cars/{id}", steps).status_code == 204
    shown = carol.get(f"/cars/{id}?$select=externalId,metadata").json()
    assert shown == {"externalId": None, "metadata": {"plan": "silver"}}
