"""Group-limited callers: only things in their groups exist, in reads and writes.

The cases are derived from the table of endpoints.
"""

from __future__ import annotations

import json
import shlex
import uuid
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from keyrack.api.endpoint import JsonBody
from keyrack.api.grants import LIMITED
from keyrack.api.permissions import GRANTED, WITHIN_GROUPS, Role
from keyrack.fleet.group_scope_checks import NOBODY
from keyrack.http.routes import ALL
from tests.auth.group_scope import as_meant, into, limit, limited, number, put
from tests.auth.test_invitations import code_of, posted
from tests.cli.test_operator_commands import Operator
from tests.docs.code_blocks import block
from tests.http.test_contract import ENDLESS, name, over, path_of
from tests.http.test_tenant_isolation import BY, NOWHERE, ask, member, sdk_user, slots, world
from tests.support.people import PASSWORD, Person, Town, done
from tests.support.servers import Sql

PAGE = "docs/group-scope.md"
OF_CUSTOMER = [row for row in ALL if row.auth.has_customer]
HONOURING = [row for row in OF_CUSTOMER if row.is_group_scoped and row.auth.permission in WITHIN_GROUPS]
REFUSING = [row for row in OF_CUSTOMER if row not in HONOURING]
WITH_SLOTS = [row for row in HONOURING if slots(row)]


class House(NamedTuple):
    """A customer with an unlimited person, and one person for each of two groups."""

    whole: Person
    mine: int  # the groups
    theirs: int
    gina: Person  # of the first one
    theo: Person  # of the other


@pytest.fixture(scope="module")
def house(town: Town) -> House:
    whole = town.person("whole")
    mine, theirs = whole.group("Mine"), whole.group("Theirs")
    return House(whole, mine, theirs, limited(town, whole, "gina", [mine]), limited(town, whole, "theo", [theirs]))


@over(WITH_SLOTS)
def test_things_outside_of_the_groups_are_answered_like_missing_ones(endpoint: Any, house: House) -> None:
    whole, gina = house.whole, house.gina
    hers, his = world(endpoint, whole), world(endpoint, whole)
    if name(endpoint) == "PUT /users/assignments/customers":
        hers = member(whole)  # a manager of the customer, and of the other group
    else:
        into(whole, house.mine, his)
    into(whole, house.theirs, hers)
    limit(whole, gina, [house.mine, *([his["groupId"]] if "groupId" in his else [])])
    limit(whole, house.theo, [house.theirs, *([hers["groupId"]] if "groupId" in hers else [])])
    for slot in slots(endpoint):
        by = {"by": slot} if name(endpoint) in BY else {}
        answers = [ask(gina, endpoint, his | {slot: id} | by) for id in (hers[slot], NOWHERE.get(slot, 2147483646))]
        assert [answer.status_code for answer in answers] == [404, 404], (slot, answers[0].text)
        assert answers[0].content == answers[1].content
        assert answers[0].headers["content-type"] == answers[1].headers["content-type"]
    own = ask(gina, endpoint, his | {"by": "emailAddress"})
    assert own.status_code not in (400, 403, 404), own.text
    assert as_meant(whole.sql, whole.customer)


def test_new_things_join_the_groups(house: House, sql: Sql) -> None:
    whole, gina = house.whole, house.gina
    second = whole.group("Second")
    limit(whole, gina, [house.mine, second])
    car, user = gina.car("Made"), gina.user()
    batch = {"kind": "cars", "items": [{"op": "create", "body": {"name": f"Car {n}"}} for n in range(2)]}
    answer = gina.post("/batch", batch)
    assert answer.status_code == 200, answer.text
    made = [one["id"] for one in answer.json()["results"]]
    for group in (house.mine, second):
        cars = [row["id"] for row in whole.get(f"/groups/{group}/cars").json()]
        assert {car, *made} <= set(cars)
        assert user in [row["id"] for row in whole.get(f"/groups/{group}/users").json()]
    shown = gina.put("/cars", {"name": "Shown"}, headers={"Prefer": "return=representation"})
    assert (shown.status_code, shown.json()["name"]) == (201, "Shown")
    assert gina.get(f"/cars/{car}").status_code == 200
    assert house.theo.get(f"/cars/{car}").status_code == 404
    assert whole.car("By somebody else") not in [row["id"] for row in gina.get("/cars").json()]
    assert as_meant(sql, whole.customer)


def test_the_commands_of_the_document_work(house: House, dsn: str) -> None:
    whole, operator = house.whole, Operator(dsn)
    groups = [whole.group(name) for name in ("North", "South")]
    whole.sql.execute("update customer set name = 'Example Fleet' where customer_id = $1", whole.customer)
    lines = block(PAGE, "limit").text.splitlines()
    for line, limits in zip(lines, (groups[:1], groups, None), strict=True):
        operator.value(*shlex.split(line)[1:])
        (noor,) = [row for row in whole.get("/managers").json() if row["username"] == "noor@example.com"]
        assert (noor["role"], noor["groups"], noor["isLimited"]) == ("Dispatcher", limits, limits is not None)
    steps = json.loads(block(PAGE, "patch").text)
    steps[0]["value"] = groups
    assert whole.patch(f"/managers/{noor['id']}", steps).status_code == 204
    assert whole.get(f"/managers/{noor['id']}").json()["groups"] == groups


def test_a_limit_is_lifted_only_explicitly(house: House) -> None:
    """A misspelt, missing or null value lifts no limit."""
    whole, one = house.whole, number(house.theo)
    before = whole.get(f"/managers/{one}").json()
    assert before["groups"] and before["isLimited"]
    for value in (None, [], [0], ["x"], "all", [2147483647], list(range(1, 200))):
        step = {"op": "replace", "path": "/groups", "value": value}
        assert whole.patch(f"/managers/{one}", [step]).status_code in (400, 404), value
    assert whole.patch(f"/managers/{one}", [{"op": "replace", "path": "/groups"}]).status_code == 400
    assert whole.patch(f"/managers/{one}", [{"op": "remove", "path": "/role"}]).status_code == 400
    assert whole.patch(f"/managers/{one}", [{"op": "replace", "path": "/role", "value": "Viewer"}]).is_success
    assert whole.get(f"/managers/{one}").json() == {**before, "role": "Viewer"}
    for body in ({"group": [1]}, {"groups": []}, {"groups": [2147483647]}, {"groups": "all"}):
        invited = {"emailAddress": "n@example.com", "role": "Viewer", **body}
        assert whole.put("/managers", invited).status_code in (400, 404), body
    assert whole.patch(f"/managers/{one}", [{"op": "remove", "path": "/groups"}]).is_success
    assert not whole.get(f"/managers/{one}").json()["isLimited"]
    limit(whole, house.theo, before["groups"])


def test_an_invited_manager_is_limited_from_the_beginning(house: House, dsn: str) -> None:
    whole, group = house.whole, house.whole.group("Of the invited")
    body = {"emailAddress": f"kim.{whole.customer}@example.com", "role": "Dispatcher", "groups": [group, house.mine]}
    assert whole.put("/managers", body).status_code == 201
    (invitation,) = [row for row in whole.get("/invitations").json() if row["emailAddress"] == body["emailAddress"]]
    assert invitation["groups"] == body["groups"]
    assert whole.delete(f"/groups/{group}").status_code == 204  # it limits no manager yet
    made = whole.put("/managers", {**body, "groups": [house.mine]}).json()
    operator = Operator(dsn)
    posted(whole, "/invitation/accept", code=code_of(made), new="yes", new_password=PASSWORD)
    (kim,) = [row for row in whole.get("/managers").json() if row["username"] == body["emailAddress"]]
    assert (kim["role"], kim["groups"], kim["isLimited"]) == ("Dispatcher", [house.mine], True)
    of_role = ("manager", "change", kim["id"], "--customer", whole.customer, "--role", "Viewer")
    operator.value(*of_role, "--group", "Theirs")
    assert whole.get(f"/managers/{kim['id']}").json()["groups"] == [house.theirs]
    operator.value("manager", "change", kim["id"], "--customer", whole.customer, "--role", "Manager")
    assert whole.get(f"/managers/{kim['id']}").json()["groups"] == [house.theirs]  # a role alone lifts no limit
    told = operator.refused("manager", "change", kim["id"], "--customer", whole.customer, "--role", "Owner")
    assert "cannot be limited" in told
    (listed,) = [row for row in operator.value("manager", "list") if row["id"] == kim["id"]]
    assert (listed["roles"], listed["groups"]) == (["Manager"], [str(house.theirs)])
    assert "no group called ?" in operator.refused(*of_role, "--group", "?")
    operator.value("manager", "change", kim["id"], "--customer", whole.customer, "--role", "Owner", "--whole-fleet")
    assert whole.get(f"/managers/{kim['id']}").json()["isLimited"] is False


def test_an_idempotency_key_of_another_caller_is_another_key(house: House) -> None:
    """The answer to another caller may name things that do not exist here."""
    key = {"Idempotency-Key": "everybody's"}
    first = house.whole.put("/cars", {"name": "Kept"}, headers=key)
    mine = house.gina.put("/cars", {"name": "Kept"}, headers=key)
    assert first.json()["id"] != mine.json()["id"]
    assert house.gina.put("/cars", {"name": "Kept"}, headers=key).json() == mine.json()
    assert house.gina.put("/cars", {"name": "Other"}, headers=key).status_code == 422


def test_an_id_token_is_for_callers_without_a_limit(house: House) -> None:
    """The app that has it gets the keys of all cars of its user, also of hidden ones."""
    ids = sdk_user(house.whole)
    hidden, known = ids["userId"], house.whole.user()
    put(house.whole, house.mine, "userId", known)
    limit(house.whole, house.gina, [house.mine])
    answers = [house.gina.post("/sdk/token", ids | {"userId": user}) for user in (hidden, NOBODY, known)]
    assert [answer.status_code for answer in answers] == [403, 403, 403]
    assert len({answer.content for answer in answers}) == 1
    assert house.whole.post("/sdk/token", ids | {"userId": known}).status_code == 200


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
@pytest.mark.parametrize("path", ["/installations", "/pairings"])
@pytest.mark.parametrize("slot", ["serialNumber", "uniqueId"])
def test_one_name_finds_no_product_out_of_the_groups(house: House, method: str, path: str, slot: str) -> None:
    """With `productId` as well, the request would name two products."""
    whole = house.whole
    limit(whole, house.gina, [house.mine])
    hidden = whole.get(f"/products/{whole.box_in(whole.car())}").json()
    other = {"carId": house.gina.car()}
    if path == "/pairings":
        other = {"serviceId": whole.service()}
        put(whole, house.mine, "serviceId", other["serviceId"])
    answers = [house.gina.call(method, path, other | {slot: name}) for name in (hidden[slot], "nobody's")]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert answers[0].content == answers[1].content


def test_a_batch_is_limited_to_the_groups(house: House) -> None:
    whole, gina = house.whole, house.gina
    limit(whole, gina, [house.mine])
    car, user = whole.car_with_box("Out of reach"), whole.user()
    ids = {"car": car, "user": user, "assignment": whole.assignment(car, user)}
    patch = [{"op": "replace", "path": "/name", "value": "Reached"}]
    own = {"carId": gina.car(), "userId": gina.user(), "start": "2026-01-01T00:00:00Z"}
    items: list[tuple[str, str, Any]] = [
        ("cars", "car", lambda id: {"op": "change", "id": id, "patch": patch}),
        ("cars", "car", lambda id: {"op": "end", "id": id}),
        ("users", "user", lambda id: {"op": "end", "id": id}),
        ("assignments", "assignment", lambda id: {"op": "end", "id": id}),
        ("assignments", "car", lambda id: {"op": "create", "body": own | {"carId": id}}),
        ("assignments", "user", lambda id: {"op": "create", "body": own | {"userId": id}}),
    ]
    for kind, thing, item in items:
        for more in ({}, {"dryRun": True}, {"atomic": True}):
            batches = [{"kind": kind, "items": [item(id)], **more} for id in (ids[thing], NOBODY)]
            answers = [gina.post("/batch", batch) for batch in batches]
            assert [answer.json()["results"][0]["status"] for answer in answers] == [404, 404], (kind, more)
            assert answers[0].content == answers[1].content
    assert whole.get(f"/cars/{car}").json()["name"] == "Out of reach"
    assert [whole.get(f"/{thing}s/{id}").status_code for thing, id in ids.items()] == [200] * 3


def owned(house: House) -> Person:
    """Gina in the customer that she owns."""
    own = [row["id"] for row in house.gina.get("/customers").json() if row["id"] != str(house.whole.customer)]
    return replace(house.gina, customer=int(own[0]), headers=house.gina.headers | {"Customer-ID": own[0]})


def test_a_number_finds_no_hidden_user_from_another_customer(house: House) -> None:
    """Each caller here is the owner of another customer."""
    elsewhere = owned(house)
    answers = [elsewhere.put("/users/assignments/customers", {"userId": user}) for user in (house.whole.user(), NOBODY)]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert answers[0].content == answers[1].content
    assert elsewhere.get("/users").json() == []


def test_the_preview_of_an_erasure_in_another_customer_reveals_no_hidden_user(house: House) -> None:
    """The caller owns another customer, which adds the user by address."""
    elsewhere = owned(house)
    email = f"{uuid.uuid4()}@example.org"
    user = house.whole.user(email)
    done(elsewhere.put("/users/assignments/customers", {"emailAddress": email}))
    assert house.gina.get(f"/users/{user}").status_code == 404
    assert elsewhere.get(f"/users/{user}/erasure").json()["customers"] == []


def test_parts_of_requests_are_limited_to_the_groups(house: House) -> None:
    """Cases that a row's own permission does not decide."""
    gina = house.gina
    assignment = {"carId": gina.car(), "userId": gina.user(), "start": "2026-01-01T00:00:00Z"}
    group = {"kind": "groups", "items": [{"op": "create", "body": {"name": "Another"}}]}
    problem = {"Accept": "application/problem+json"}
    answers = {
        "groups:write": gina.post("/batch", group, headers=problem),
        "webhooks:read": gina.call("HEAD", "/live?topics=webhooks"),
    }
    assert [answer.status_code for answer in answers.values()] == [403] * 2
    # The caller may always read its own operation
    assert gina.put("/assignments", assignment, headers={"Prefer": "return=representation"} | problem).is_success
    for permission, answer in answers.items():
        problem_of = answer.json() if answer.content else {"code": LIMITED.code, "permission": permission}
        assert (problem_of["code"], problem_of["permission"]) == (LIMITED.code, permission)


def test_an_owner_is_not_limited(house: House) -> None:
    whole = house.whole
    steps = [{"op": "replace", "path": "/role", "value": "Owner"}]
    answer = whole.patch(f"/managers/{number(house.gina)}", steps)
    assert (answer.status_code, "cannot be limited" in answer.text) == (409, True)
    body = {"emailAddress": "o@example.com", "role": "Owner", "groups": [house.mine]}
    assert whole.put("/managers", body).status_code == 409


def test_the_last_to_leave_a_group_sees_nothing_of_it(house: House) -> None:
    whole, gina = house.whole, house.gina
    limit(whole, gina, [house.mine])
    car = gina.car("Comes and goes")
    assert whole.delete(f"/groups/{house.mine}/cars/{car}").status_code == 204
    assert gina.get(f"/cars/{car}").status_code == 404
    put(whole, house.mine, "carId", car)
    assert gina.get(f"/cars/{car}").status_code == 200


@pytest.mark.parametrize("role", [role for role in Role if role is not Role.OWNER])
def test_each_role_keeps_its_permissions_within_groups(role: Role, town: Town, house: House) -> None:
    person = limited(town, house.whole, f"a {role}", [house.mine], role)
    for endpoint in OF_CUSTOMER:
        if endpoint in ENDLESS:
            continue
        answer = person.call(endpoint.method, path_of(endpoint), {} if isinstance(endpoint.body, JsonBody) else None)
        own = endpoint.read is not None and endpoint.read.own_rows is not None
        may = own or (endpoint in HONOURING and endpoint.auth.permission in GRANTED[role])
        assert (answer.status_code != 403) == may, (name(endpoint), answer.text)
    person.client.close()
