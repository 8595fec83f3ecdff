"""The permissions of roles, over the whole table of endpoints.

Their revocation takes effect everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import asyncpg
import httpx
import pytest

from keyrack.api.endpoint import Doc, Endpoint, JsonBody, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.grants import in_scope
from keyrack.api.permissions import GRANTED, MEANINGS, ROLES, Free, Permission, Role, closed
from keyrack.api.services import ReadServices
from keyrack.core.settings import Settings
from keyrack.fleet.schema import CAR
from keyrack.http.openapi.markdown_tables import roles_markdown
from keyrack.http.routes import ALL
from tests.cli.test_operator_commands import Operator
from tests.docs.code_blocks import ROOT, block
from tests.docs.page_commands import CUSTOMER, run_block
from tests.http.test_contract import ENDLESS, over, path_of
from tests.http.test_hostile_input import Line, head
from tests.support.event_stream import watching
from tests.support.people import Person, Town, http_client
from tests.support.servers import RunningServer, Sql, eventually

PAGE = "docs/access.md"
RIGHTS = [endpoint for endpoint in ALL if isinstance(endpoint.auth.permission, Permission)]
TAKE = "delete from manager_role using manager m where m.manager_id = manager_role.manager_id and m.username = $1"
GIVE = """
insert into manager_role (customer_id, manager_id, role)
select customer_id, manager_id, $2 from manager_customer join manager using (manager_id) where username = $1
on conflict (customer_id, manager_id) do update set role = excluded.role
"""


@pytest.fixture(scope="module")
def operator(dsn: str) -> Operator:
    return Operator(dsn)


@pytest.fixture(scope="module")
def people(town: Town) -> Iterator[dict[Role, Person]]:
    """A person in each role, each in a separate customer."""
    found = {role: town.person(f"the {role}", role) for role in Role}
    yield found
    for person in found.values():
        person.client.close()


@pytest.fixture(scope="module")
def other(dsn: str, settings: Settings) -> Iterator[RunningServer]:
    """A second server on the same database."""
    with RunningServer(settings, dsn, worker=False) as running:
        yield running


def missing(answer: httpx.Response, permission: str) -> bool:
    """Whether the answer names this permission as missing, in the form of the spec's 401."""
    if answer.status_code != 403 or not answer.headers["content-type"].startswith("application/json"):
        return False
    assert answer.json() == {"statusCode": 403, "message": f"The permission {permission} is missing."}
    return True


def asked(person: Person, endpoint: Endpoint) -> httpx.Response:
    """A request to an endpoint, with unknown ids and an invalid body."""
    method = "HEAD" if endpoint in ENDLESS else endpoint.method
    body = {} if isinstance(endpoint.body, JsonBody) else None
    return person.call(method, path_of(endpoint), body)


@over([row for row in ALL if row.auth.has_token and row.auth.permission is Free.CALLER and row.method == "GET"])
def test_endpoints_about_the_caller_need_no_role(people: dict[Role, Person], endpoint: Endpoint) -> None:
    assert {person.get(path_of(endpoint)).status_code for person in people.values()} == {200}


def test_a_row_without_a_permission_does_not_start() -> None:
    async def run(_request: Any) -> Any: ...

    for access in ("", "carz"):
        endpoints = Endpoints[ReadServices](Tag("Cars", "Cars."), access)
        with pytest.raises(ValueError, match="not a valid Permission"):
            endpoints.read("/x", CAR, Doc("listX", "x", "x"))
        with pytest.raises(ValueError, match="not a valid Permission"):
            endpoints.put("/x", Doc("putX", "x", "x"))(run)


def test_write_permissions_include_reading() -> None:
    for role in Role:
        assert closed(GRANTED[role]) == GRANTED[role]
    assert set(MEANINGS) == set(Permission) and set(ROLES) == set(GRANTED) == set(Role)
    of_who_may = {one for one in Permission if one.startswith(("managers:", "clients:"))}
    assert {row.auth.permission for row in RIGHTS} | of_who_may == set(Permission)


RELATIONS = [
    "/cars?$expand=assignments",
    "/products?$expand=car($expand=assignments)",
    "/cars?$filter=assignments/any(a:a/id gt 0)",
    "/cars?$filter=assignments/$count gt 0",
    "/cars?$orderby=assignments/$count",
    "/cars?$compute=assignments/$count as n",
    "/cars?$apply=filter(assignments/$count gt 0)",
    "/products?$filter=car/assignments/any()",
    "/groups?$expand=cars($filter=assignments/any())",
    "/groups?$filter=cars/any(c:c/assignments/any())",
    "/services?$filter=product/car/assignments/$count gt 0",
]


@pytest.mark.parametrize("path", RELATIONS)
def test_a_related_resource_needs_its_own_permission(people: dict[Role, Person], path: str) -> None:
    assert missing(people[Role.TECHNICIAN].get(path), "assignments:read")
    assert people[Role.VIEWER].get(path).status_code == 200
    assert missing(people[Role.TECHNICIAN].get(path), "assignments:read"), "also from a cache"


def test_a_batch_needs_the_permission_of_its_kind(people: dict[Role, Person], sql: Sql) -> None:
    dispatcher = people[Role.DISPATCHER]
    cars = {"kind": "cars", "items": [{"op": "create", "body": {"name": "No"}}]}
    assert missing(dispatcher.post("/batch", cars), "cars:write")
    assert sql.value("select count(*) from car where customer_id = $1", dispatcher.customer) == 0
    people_ = {"kind": "users", "items": [{"op": "end", "id": 2147483647}]}
    assert dispatcher.post("/batch", people_).status_code == 200
    assert missing(people[Role.VIEWER].post("/batch", people_), "batch:write")


def test_a_stream_needs_the_permission_of_each_topic(people: dict[Role, Person]) -> None:
    technician = people[Role.TECHNICIAN]
    assert missing(technician.get("/live?topics=cars,users"), "users:read")
    assert technician.call("HEAD", "/live?topics=cars").status_code == 200


def test_an_id_token_needs_the_permission_in_the_customer_of_the_body(people: dict[Role, Person]) -> None:
    viewer = people[Role.VIEWER]
    body = {"customerId": viewer.customer, "sdkKey": "none", "userId": 1}
    assert missing(viewer.post("/sdk/token", body), "sdk:write")
    owner = people[Role.OWNER]
    assert owner.post("/sdk/token", body | {"customerId": owner.customer}).status_code == 400


def test_a_role_holds_in_one_customer(town: Town) -> None:
    both = town.person("both", "Viewer")
    owned = town.another_fleet(both, "Owner")
    assert missing(both.put("/cars", {"name": "No"}), "cars:write")
    assert owned.put("/cars", {"name": "Yes"}).status_code == 201
    assert missing(both.put("/cars", {"name": "No"}), "cars:write")


def test_a_manager_without_a_role_has_no_right(town: Town, sql: Sql) -> None:
    nobody = town.person("without a role")
    sql.execute(TAKE, nobody.username)
    eventually(lambda: missing(nobody.get("/cars"), "cars:read"), "the loss")
    assert [row["id"] for row in nobody.get("/customers").json()] == [str(nobody.customer)]
    for endpoint in RIGHTS:
        assert asked(nobody, endpoint).status_code == 403


def test_a_manager_limited_to_no_group_sees_nothing(town: Town, sql: Sql) -> None:
    limited = town.person("limited", Role.MANAGER)
    limited.car()
    limit = "update manager_role set groups = '{}', is_limited = true where customer_id = $1"
    sql.execute(limit, limited.customer)
    eventually(lambda: limited.get("/cars").json() == [], "the limit")
    with pytest.raises(asyncpg.CheckViolationError):  # nobody is limited to nothing that is named
        sql.execute("update manager_role set groups = null where customer_id = $1", limited.customer)


def test_an_owner_who_is_limited_by_hand_has_no_right(town: Town, sql: Sql) -> None:
    owner = town.person("an owner")
    with pytest.raises(asyncpg.CheckViolationError):
        sql.execute("update manager_role set groups = '{}', is_limited = true where customer_id = $1", owner.customer)
    assert in_scope("Owner", 1, [], lacks_factor=False).permissions == frozenset()


def test_a_lost_role_takes_effect_on_every_server(town: Town, sql: Sql, other: RunningServer) -> None:
    carol = town.person("carol")
    clients = [carol.client, http_client(base_url=f"{other.url}/v3")]

    def statuses() -> set[int]:
        return {client.get("/cars", headers=carol.headers).status_code for client in clients}

    assert statuses() == {200}
    sql.execute(TAKE, carol.username)
    eventually(lambda: statuses() == {403}, "the loss")
    sql.execute(GIVE, carol.username, "Viewer")
    eventually(lambda: statuses() == {200}, "the role")
    clients[1].close()


def test_a_stream_ends_when_permissions_change(town: Town, sql: Sql) -> None:
    """More, or less: a new connection gets what the caller may read now."""
    carol = town.person("carol")
    for role in ("Technician", "Manager"):
        with watching(carol) as watcher:
            sql.execute(GIVE, carol.username, role)
            assert watcher.ends() == "whole"


def test_a_permission_lost_during_the_upload_of_the_body_is_missing(
    town: Town, sql: Sql, server: RunningServer
) -> None:
    carol = town.person("slow")
    body = b'{"name": "Late"}'
    with Line(server) as line:
        line.send(head(carol, "PUT", "/v3/cars", "Content-Type: application/json", f"Content-Length: {len(body)}"))
        line.send(body[:5])
        sql.execute(GIVE, carol.username, "Viewer")
        eventually(lambda: missing(carol.put("/cars", {}), "cars:write"), "the loss")
        line.send(body[5:])
        assert line.reply().status == 403
    assert sql.value("select count(*) from car where customer_id = $1", carol.customer) == 0


def test_the_change_log_records_roles(town: Town, operator: Operator) -> None:
    owner = town.person("owner")
    name = f"kim-{owner.customer}@example.com"
    added = operator.value("manager", "add", name, "--customer", owner.customer, "--role", "dispatcher")
    operator.value("manager", "change", added["id"], "--customer", owner.customer, "--role", "VIEWER")
    operator.value("manager", "change", added["id"], "--remove-customer", owner.customer)
    query = f"/changes?$filter=resource eq 'role' and resourceId eq '{added['id']}'"
    eventually(lambda: len(owner.get(query).json()) == 3, "the changes")
    told = owner.get(query).json()
    assert [row["kind"] for row in told] == ["role.granted", "role.updated", "role.withdrawn"]
    assert [row["after"] and row["after"]["role"] for row in told] == ["Dispatcher", "Viewer", None]


def test_denials_are_counted_in_the_change_log(town: Town, dsn: str, settings: Settings) -> None:
    """One change for many equal denials, and none is lost when the process ends."""
    viewer = town.person("curious", "Viewer")
    owner = town.another_fleet(viewer)
    with RunningServer(settings.model_copy(update={"denial_log_interval_seconds": 3_600}), dsn, worker=False) as server:
        web = http_client(base_url=f"{server.url}/v3", headers=viewer.headers)
        for _ in range(5):
            assert web.put("/cars", json={"name": "No"}).status_code == 403
        assert web.get("/changes").status_code == 403
        web.close()
    asked = "/changes?$filter=kind eq 'permission.refused'&$orderby=resourceId"
    owned = viewer.sql.value("select manager_id from manager where username = $1", viewer.username)
    viewer.sql.execute(GIVE, viewer.username, "Auditor")
    eventually(lambda: viewer.get(asked).status_code == 200 and len(viewer.get(asked).json()) == 2, "the refusals")
    told = viewer.get(asked).json()
    assert [(row["resourceId"], row["after"]) for row in told] == [
        ("cars:write", {"count": 5}), ("changes:read", {"count": 1}),
    ]  # fmt: skip
    assert {row["actor"]["type"] for row in told} == {"manager"}
    assert {row["actor"]["id"] for row in told} == {str(owned)}
    assert owner.get(asked).json() == []


def test_a_role_is_named_with_its_customer(operator: Operator) -> None:
    customer = operator.value("customer", "add", "Roles")["id"]
    assert "--role" in operator.refused("manager", "add", "nobody", "--customer", customer, status=2)
    assert "'viewer'" in operator.refused("manager", "add", "x", "--customer", customer, "--role", "boss", status=2)
    id = operator.value("manager", "add", f"one-{customer}", "--customer", customer, "--role", "viewer")["id"]
    assert "need each other" in operator.refused("manager", "change", id, "--role", "owner", status=2)
    assert "need each other" in operator.refused("manager", "change", id, "--customer", customer, status=2)
    (row,) = [row for row in operator.value("manager", "list") if row["id"] == id]
    assert (row["customers"], row["roles"]) == ([customer], ["Viewer"])


def test_the_commands_of_the_page_grant_roles(database_server: str) -> None:
    output = run_block(database_server, PAGE, "give", before=CUSTOMER)
    assert "Manager 1 added: kim@example.com." in output and "Viewer" in output.splitlines()[-1]


def test_the_page_shows_the_refusal(people: dict[Role, Person]) -> None:
    answer = people[Role.VIEWER].put("/cars", {"name": "No"})
    assert answer.text == block(PAGE, "refused").text.strip()
    problem = people[Role.VIEWER].put("/cars", {"name": "No"}, headers={"Accept": "application/problem+json"}).json()
    assert (problem["code"], problem["permission"]) == ("permission-missing", "cars:write")


def test_the_page_shows_the_table() -> None:
    page = (ROOT / PAGE).read_text()
    assert roles_markdown() in page, "paste what keyrack roles --markdown prints"
    for role, meaning in ROLES.items():
        assert f"| {role} | {meaning} |" in page
