"""Errors in both forms, for every endpoint, with codes, documentation page and error lists."""

from __future__ import annotations

import gzip
import json
import random
import re
import uuid
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import httpx
import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyrack.api import idempotency
from keyrack.api.endpoint import Endpoint, JsonBody
from keyrack.api.odata import OPTIONS
from keyrack.core import error_codes
from keyrack.core.errors import IdempotentReplay, NotFound
from keyrack.core.settings import Settings
from keyrack.http.openapi.error_catalog import codes, refusals
from keyrack.http.problem_details import problem_body
from keyrack.http.routes import ALL
from tests.assignments.endpoints.test_batch import limiting
from tests.auth.test_clients import Program
from tests.changelog.transparency.checkpoints import settled, signed
from tests.http import offline_key_errors
from tests.http.openapi.document_reader import inlined
from tests.http.test_contract import (
    KEYED,
    OF_APPS,
    TOKENED,
    WITH_CUSTOMER,
    calling,
    content,
    over,
    path_of,
    unknown_method,
)
from tests.http.test_hostile_input import Line, head
from tests.http.test_tenant_isolation import connected, fixed_paths
from tests.support.drivers import COOKIE, Booking, at, page_headers, signed_in_driver
from tests.support.people import JOIN, Person, Town, http_client, web
from tests.support.servers import SELDOM, RunningServer, Sql, eventually
from tests.telemetry.endpoints.test_ingest import unit_of

PROBLEM = "application/problem+json"
OLD_CODES = {new: old for old, new in error_codes.RENAMED.items()}
NOT_OF_EVERY_ROW = {405, 404}  # responses of a path to an unknown method, or of an unknown path
Json = dict[str, Any]
Ask = Callable[..., httpx.Response]


@pytest.fixture(scope="module")
def document(server: RunningServer) -> Json:
    return inlined(web().get(server.url + "/openapi.json").json())


@pytest.fixture(scope="module")
def page(server: RunningServer) -> str:
    return web().get(server.url + "/docs/errors").text


@pytest.fixture(scope="module")
def ghost(town: Town, sql: Sql) -> Iterator[Person]:
    person = town.person("ghost")
    sql.execute("delete from manager where username = $1", person.username)
    yield person
    person.client.close()


def text_of(answer: httpx.Response) -> str:
    """The message of an error in the spec's form."""
    if answer.headers["content-type"].startswith("text/plain"):
        return answer.text
    body = answer.json()
    return body.get("message") or body.get("error_description") or body["title"]


def both(ask: Ask, *args: Any, headers: Json | None = None, **options: Any) -> Json:
    """Return the problem of a request.

    Checks that the error in the spec's form is the same.
    """
    given = headers or {}
    plain = ask(*args, headers={**given, "Accept": None}, **options)
    star = ask(*args, headers={**given, "Accept": "*/*"}, **options)
    answer = ask(*args, headers={**given, "Accept": PROBLEM}, **options)
    assert answer.headers["content-type"] == PROBLEM, (answer.status_code, answer.text)
    problem: Json = answer.json()
    assert plain.status_code == star.status_code == answer.status_code == problem["status"] >= 400
    assert without_trace(plain) == without_trace(star)
    assert text_of(plain) == problem["detail"]
    assert plain.headers["content-type"] == star.headers["content-type"] != PROBLEM
    for each in (plain, star, answer):
        assert "Accept" in each.headers["vary"]
        for header in ("www-authenticate", "retry-after", "allow", "cache-control", "idempotency-replayed"):
            assert each.headers.get(header) == answer.headers.get(header)
    assert problem["traceId"] == answer.headers["x-request-id"]
    assert problem.get("retryAfter") == (
        int(answer.headers["retry-after"]) if "retry-after" in answer.headers else None
    )
    return problem


def without_trace(answer: httpx.Response) -> bytes:
    """The body without the id of the request."""
    return answer.content.replace(answer.headers["x-request-id"].encode(), b"")


def told(problem: Json, endpoint: Endpoint, document: Json, page: str, server: RunningServer) -> None:
    """Check that the documents list the problem for this endpoint."""
    status, code = problem["status"], problem["code"]
    reasons = [reason for reason in refusals(endpoint)[status] if reason.code == code]
    assert reasons, problem
    assert "`errors`" not in reasons[0].remedy or problem["errors"], "the remedy refers to the list of errors"
    assert problem["type"] == f"{server.url}/docs/errors#{code}"
    assert problem.get("previousCode") == OLD_CODES.get(code)
    assert f'<article id="{code}">' in page
    response = document["paths"][endpoint.path][endpoint.method.lower()]["responses"][str(status)]
    schema = {**response["content"][PROBLEM]["schema"], "components": document["components"]}
    jsonschema.validate(problem, schema)
    jsonschema.validate(problem, {"$ref": "#/components/schemas/Problem", "components": document["components"]})


# Errors of every endpoint


@over(KEYED)
def test_rejected_callers_of_every_endpoint(
    endpoint: Endpoint, alice: Person, ghost: Person, document: Json, page: str, server: RunningServer
) -> None:
    def check(person: Person, code: str, **headers: Any) -> None:
        problem = both(person.call, endpoint.method, path_of(endpoint), headers=headers)
        assert problem["code"] == code
        told(problem, endpoint, document, page, server)

    check(alice, "invalid-api-key", **{"vendor-API-Key": "nonsense"})
    if endpoint.auth.has_token:
        check(alice, "invalid-token", Authorization=None)
        check(ghost, "manager-not-found")
    if endpoint.auth.has_customer:
        check(alice, "missing-customer-id", **{"Customer-ID": None})
        check(alice, "invalid-customer-id", **{"Customer-ID": "nonsense"})
        check(alice, "customer-not-found", **{"Customer-ID": "2147483647"})


@over(OF_APPS)
def test_app_endpoints_reject_managers(
    endpoint: Endpoint, alice: Person, document: Json, page: str, server: RunningServer
) -> None:
    problem = both(alice.call, endpoint.method, path_of(endpoint))
    assert problem["code"] == "invalid-token"
    told(problem, endpoint, document, page, server)


@over([endpoint for endpoint in ALL if isinstance(endpoint.body, JsonBody)])
def test_invalid_bodies(endpoint: Endpoint, alice: Person, document: Json, page: str, server: RunningServer) -> None:
    assert endpoint.body_adapter is not None
    is_patch = endpoint.body_adapter.json_schema()["type"] == "array"

    def check(code: str, body: bytes, **headers: str) -> Json:
        options = {"content": body, "headers": content(endpoint) | headers}
        problem = both(calling(endpoint, alice).call, endpoint.method, path_of(endpoint), **options)
        assert problem["code"] == code, problem
        told(problem, endpoint, document, page, server)
        return problem

    assert check("invalid-json", b"{")["errors"][0]["code"] == "invalid-json"
    assert check("invalid-json", b" ")["detail"].endswith("The body is not valid JSON: the body is empty.")
    assert check("wrong-form-of-body", b"0")["errors"][0] | {"detail": ""} == {
        "code": "wrong-type", "detail": "", "pointer": "",
    }  # fmt: skip
    check("body-too-large", b" " * 1_000_000)
    unsupported = check("unsupported-media-type", b"{}", **{"Content-Type": "text/plain"})
    (fault,) = unsupported["errors"]
    assert (fault["header"], fault["code"], fault["valid"][0]) == ("Content-Type", "not-one-of", "application/json")
    if is_patch:
        check("no-steps", b"[]")
        check("too-many-steps", json.dumps([{}] * 51).encode())
        faults = check("invalid-members", b'[{"op": "replace", "path": "/nothing", "value": 1}]')["errors"]
        (fault,) = [fault for fault in faults if fault["pointer"] == "/0/path"]
        assert fault["code"] == "not-one-of"
        assert all(value.startswith("/") for value in fault["valid"]) and fault["valid"]
        form = check("wrong-form-of-body", b'["x"]')
        assert form["detail"].endswith("The body must be a JSON array of objects.")
    elif endpoint.body_adapter.json_schema().get("required"):
        faults = check("invalid-members", b"{}")["errors"]
        assert {(fault["pointer"], fault["code"]) for fault in faults} == {
            (f"/{member}", "missing") for member in endpoint.body_adapter.json_schema()["required"]
        }


@over([endpoint for endpoint in ALL if isinstance(endpoint.body, JsonBody)])
def test_values_beyond_an_enumeration(endpoint: Endpoint, alice: Person) -> None:
    assert endpoint.body_adapter is not None
    for body, pointer, valid in enumerated(endpoint.body_adapter.json_schema()):
        options = {"content": json.dumps(body), "headers": content(endpoint)}
        problem = both(calling(endpoint, alice).call, endpoint.method, path_of(endpoint), **options)
        (fault,) = [fault for fault in problem["errors"] if fault["pointer"] == pointer]
        assert (fault["code"], set(fault["valid"])) == ("not-one-of", valid), fault
        assert "'nonsense'" in fault["detail"] and fault["detail"] in problem["detail"]


def enumerated(whole: Json) -> Iterator[tuple[Any, str, set[str]]]:
    """A body with an invalid value for each member with an enumeration, the pointer to it, and the valid values."""
    is_patch = whole["type"] == "array" if "type" in whole else False
    resource = resolved(whole, whole["items"] if is_patch else whole)
    for name, member in resource.get("properties", {}).items():
        schema = resolved(whole, member)
        is_list = schema.get("type") == "array"
        valid = resolved(whole, schema["items"] if is_list else schema)
        if "enum" in valid or "const" in valid:
            body = {name: ["nonsense"] if is_list else "nonsense"}
            pointer = f"/{name}/0" if is_list else f"/{name}"
            yield [body] if is_patch else body, "/0" * is_patch + pointer, set(valid.get("enum", [valid.get("const")]))


def resolved(whole: Json, schema: Json) -> Json:
    """The schema behind a reference, and behind the choice of null."""
    for choice in schema.get("anyOf", ()):
        if choice.get("type") != "null":
            return resolved(whole, choice)
    return whole["$defs"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


@over([endpoint for endpoint in ALL if endpoint.method == "PATCH"])
def test_required_members_cannot_be_removed(endpoint: Endpoint, alice: Person) -> None:
    assert endpoint.body_adapter is not None
    whole = endpoint.body_adapter.json_schema()
    step = resolved(whole, whole["items"])["properties"]
    if "remove" not in step["op"].get("enum", ()):
        return
    paths = fixed_paths(step["path"])
    if set(paths) == {"/externalId", "/metadata"}:  # no member is required
        return
    rejected = 0
    for path in paths:
        body = json.dumps([{"op": "remove", "path": path}])
        problem = both(alice.call, "PATCH", path_of(endpoint), content=body, headers=content(endpoint))
        if problem["status"] == 400:
            detail = f"`{path[1:]}` is required, so it cannot be removed."
            assert problem["errors"] == [{"pointer": "/0", "code": "missing", "detail": detail}]
            rejected += 1
    assert rejected, "no member is required"


@over([endpoint for endpoint in ALL if endpoint.read is not None and not endpoint.parameters])
def test_invalid_query_options(
    endpoint: Endpoint, alice: Person, document: Json, page: str, server: RunningServer
) -> None:
    def check(query: str, status: int, code: str, fault: Json) -> None:
        problem = both(alice.call, "GET", f"{endpoint.path}?{query}")
        assert (problem["status"], problem["code"]) == (status, code)
        (found,) = problem["errors"]
        assert found == fault | {"detail": found["detail"]}
        told(problem, endpoint, document, page, server)

    at = {"parameter": "$filter", "code": "syntax", "position": 4}
    check("$filter=name eq", 400, "invalid-query", at)
    check("$filter=not%20(", 400, "invalid-query", at | {"position": 5})
    check("$top=1&$top=2", 400, "invalid-query", {"parameter": "$top", "code": "repeated"})
    check("$filter=", 400, "invalid-query", {"parameter": "$filter", "code": "missing"})
    if endpoint.read is not None and not endpoint.read.select.is_single:
        check("$filter=1", 400, "invalid-query", {"parameter": "$filter", "code": "wrong-type"})
        check("$top=9999999", 400, "invalid-query", {"parameter": "$top", "code": "out-of-range"})
    check("$format=xml", 400, "invalid-query", {"parameter": "$format", "code": "not-one-of", "valid": ["json"]})
    check("$schemaversion=1", 501, "query-not-supported", {"parameter": "$schemaversion", "code": "not-supported"})
    problem = both(alice.call, "GET", f"{endpoint.path}?$nonsense=1")
    valid = {f"${name}" for name, shapes in OPTIONS.items() if endpoint.read and endpoint.read.select.shape in shapes}
    assert problem["errors"][0]["code"] == "unknown"
    assert set(problem["errors"][0]["valid"]) == valid | {option.name for option in endpoint.query_parameters}


@over([endpoint for endpoint in ALL if endpoint.has_idempotency_key])
def test_invalid_idempotency_keys(
    endpoint: Endpoint, alice: Person, document: Json, page: str, server: RunningServer
) -> None:
    if endpoint.body_adapter is not None or endpoint.concurrency.serialized == "always" or endpoint.prepare is not None:
        return  # other errors of these endpoints come first
    problem = both(alice.call, endpoint.method, path_of(endpoint), headers={"Idempotency-Key": "x" * 256})
    assert problem["code"] == "invalid-idempotency-key"
    assert problem["errors"][0]["header"] == "Idempotency-Key"
    told(problem, endpoint, document, page, server)


@over([endpoint for endpoint in TOKENED if endpoint.parameters and endpoint.body_adapter is None])
def test_unknown_ids(endpoint: Endpoint, alice: Person, document: Json, page: str, server: RunningServer) -> None:
    problem = both(alice.call, endpoint.method, path_of(endpoint))
    assert problem["status"] == 404 and problem["code"] in {reason.code for reason in endpoint.responses.errors[404]}
    told(problem, endpoint, document, page, server)


@over(WITH_CUSTOMER)
def test_unknown_paths_and_methods(endpoint: Endpoint, alice: Person, page: str) -> None:
    for method, path, status, code in (
        (unknown_method(endpoint.path), path_of(endpoint), 405, "method-not-allowed"),
        (endpoint.method, path_of(endpoint).partition("?")[0] + "/nothing/here", 404, "path-not-found"),
    ):
        problem = both(alice.call, method, path)
        assert (problem["status"], problem["code"]) == (status, code)
        assert f'<article id="{code}">' in page


# Errors that depend on stored data: each case prepares it and returns the request


def grouped(person: Person, thing: str) -> tuple[str, str, Json]:
    group, item = person.group(), {"car": person.car, "user": person.user}.get(thing, getattr(person, thing))()
    assert person.put(f"/groups/{group}/{thing}s", {f"{thing}Id": item}).status_code == 204
    return "PUT", f"/groups/{group}/{thing}s", {f"{thing}Id": item}


def not_grouped(person: Person, thing: str) -> tuple[str, str]:
    return "DELETE", f"/groups/{person.group()}/{thing}s/2147483647"


def taken_name(person: Person) -> tuple[str, str, Json]:
    group = {"name": f"Taken {uuid.uuid4()}"}
    assert person.put("/groups", group).status_code == 201
    return "PUT", "/groups", group


def taken_external_id(person: Person) -> tuple[str, str, Json]:
    group = {"name": f"Taken {uuid.uuid4()}", "externalId": str(uuid.uuid4())}
    assert person.put("/groups", group).status_code == 201
    return "PUT", "/groups", group | {"name": f"Free {uuid.uuid4()}"}


def user_of(person: Person) -> Json:
    address = f"{uuid.uuid4()}@example.org"
    return {"emailAddress": address, "userData": {"firstName": "U", "lastName": "U"}}


def same_user(person: Person) -> tuple[str, str, Json]:
    user = user_of(person)
    assert person.put("/users", user).status_code == 201
    return "PUT", "/users", user


def installation(person: Person, car: int, product: int) -> Json:
    return {"carId": car, "productId": product}


def box(person: Person) -> tuple[int, int]:
    car = person.car()
    return car, person.box_in(car)


def served(person: Person) -> int:
    product = person.product()
    person.service(product)
    return product


def webhook(person: Person, **members: Any) -> int:
    return person.put("/webhooks", {"url": "https://hooks.invalid/x", **members}).json()["id"]


def full(person: Person) -> tuple[str, str, Json]:
    body = {"url": "https://hooks.invalid/x"}
    while person.put("/webhooks", body).status_code == 201:
        pass
    return "PUT", "/webhooks", body


def asked(person: Person, **members: Any) -> tuple[str, str, Json]:
    body = {"carId": person.car(), "userId": person.user(), "start": "2026-01-02T00:00:00Z", **members}
    return "PUT", "/assignments", body


def form(text: str) -> tuple[str, str, None, Json]:
    media_type = {"Content-Type": "application/x-www-form-urlencoded"}
    return "POST", "/oauth2/token", None, {"content": text, "headers": media_type}


def by_header(text: str) -> tuple[str, str, None, Json]:
    *request, options = form(text)
    return (*request, {**options, "headers": {**options["headers"], "Authorization": "Basic eDp5"}})


def client(person: Person) -> int:
    return person.put("/clients", {"name": "X", "scopes": ["cars:read"]}).json()["id"]


def already(person: Person) -> tuple[str, str, Json]:
    address = f"already.{person.customer}@example.com"
    person.sql.execute("update manager set username = $2 where username = $1", person.username, address)
    return "PUT", "/managers", {"emailAddress": address, "role": "Viewer"}


def two_secrets(person: Person) -> tuple[str, str]:
    path = f"/clients/{client(person)}/secrets"
    assert person.put(path).status_code == 201
    return "PUT", path


def elsewhere(person: Person) -> tuple[str, str]:
    """A client that the operator manages."""
    number = client(person)
    person.sql.execute("update client set managed_by = null where client_id = $1", number)
    return "PUT", f"/clients/{number}/secrets"


def batched(kind: str, items: list[Json], **members: Any) -> tuple[str, str, Json]:
    return "POST", "/batch", {"kind": kind, "items": items, **members}


def ahead(person: Person) -> tuple[str, str]:
    signed(person)
    return "GET", "/changes/checkpoint?since=999999999999"


def without_a_role(person: Person) -> tuple[Any, ...]:
    """A customer in which the manager has no role."""
    customer = person.sql.value("insert into customer (name) values ('No role') returning customer_id")
    role = (
        "insert into manager_customer (manager_id, customer_id) select manager_id, $2 from manager where username = $1"
    )
    person.sql.execute(role, person.username, customer)
    asked = {"headers": {"Customer-ID": str(customer)}}
    eventually(lambda: person.get("/cars", **asked).status_code == 403, "the membership")
    return "GET", "/cars", None, asked


def with_rule(person: Person) -> tuple[Any, ...]:
    """A customer whose owners need a second factor."""
    customer = person.sql.value("insert into customer (name) values ('Careful') returning customer_id")
    person.sql.execute(JOIN, person.username, customer, "Owner")
    person.sql.execute("insert into factor_rule (customer_id, role) values ($1, 'Owner')", customer)
    asked = {"headers": {"Customer-ID": str(customer)}}
    eventually(lambda: person.get("/cars", **asked).status_code == 403, "the membership")
    return "GET", "/cars", None, asked


def signed_in(person: Person, username: str = "") -> Json:
    """The headers of a fresh sign-in."""
    given = {"username": username or person.username, "password": person.password, "grant_type": "password"}
    answer = person.client.post("/oauth2/token", data=given, headers={"vendor-API-Key": person.api_key})
    return {"headers": {"Authorization": f"Bearer {answer.json()['access_token']}"}}


def just_now(person: Person, method: str, path: str, body: Json | None = None) -> tuple[Any, ...]:
    person.sql.execute(
        "delete from totp using manager m where m.manager_id = totp.manager_id and username = $1", person.username
    )
    return method, path, body, signed_in(person)


def guessed(person: Person) -> tuple[Any, ...]:
    case = just_now(person, "PUT", "/me/totp", {"code": "none"})
    assert person.call("POST", "/me/totp", **case[3]).status_code == 200
    return case


def with_passkey(person: Person) -> tuple[str, Json]:
    """Another manager with a passkey, and a token from before the passkey.

    The password is the same.
    """
    username = f"passkey-{uuid.uuid4()}"
    manager = person.sql.value(
        "insert into manager (username, password_hash) select $2, password_hash from manager where username = $1"
        " returning manager_id",
        person.username, username,
    )  # fmt: skip
    before = signed_in(person, username)
    person.sql.execute(
        "insert into passkey"
        " (manager_id, credential_id, public_key, sign_count, transports, aaguid, name, is_backed_up)"
        " values ($1, convert_to($2, 'UTF8'), '', 0, '{}', '', 'Laptop', false)",
        manager, username,
    )  # fmt: skip
    return username, before


def past_the_end(person: Person) -> tuple[str, str]:
    return "GET", f"/changes?$filter=id gt {settled(person) + 1}"


def only_way_in(person: Person) -> int:
    """The account of a manager without a password."""
    whose = f"where username = '{person.username}'"  # one transaction, which keeps the token valid
    person.sql.execute(f"update manager set password_hash = null {whose}; update manager set sign_outs = 0 {whose}")
    return int(str(connected(person)["identityId"]))


NOWHERE = 2147483647


def limiting_group(person: Person) -> tuple[Any, ...]:
    return "DELETE", f"/groups/{limiting(person)}"


def decided_request(person: Person) -> tuple[Any, ...]:
    id = Booking(person, signed_in_driver(person)).ask(kind="extend", end=at(6)).json()["id"]
    path = f"/assignment-requests/{id}/decision"
    assert person.put(path, {"decision": "reject"}).status_code == 204
    return "PUT", path, {"decision": "grant"}


def asked_by_driver(person: Person, last: float | None, end: float, **more: Any) -> tuple[Any, ...]:
    """An extension of a driver's assignment, which ends in `last` hours, to `end` hours."""
    driver = signed_in_driver(person)
    body = {"assignmentId": Booking(person, driver, last).id, "kind": "extend", "end": at(end), **more}
    own = page_headers(person) | {"Cookie": f"{COOKIE}={driver.cookie}", "Customer-ID": str(person.customer)}
    return "PUT", "/drive/api/requests", body, {"headers": dict.fromkeys(person.headers) | own}


def booked(person: Person) -> tuple[str, str, Json]:
    body = {"carId": person.car_with_box(), "userId": person.user(), "start": "2050-01-01T08:00:00Z", "exclusive": True}
    assert person.put("/assignments", body).status_code == 204
    return "PUT", "/assignments", body


CASES: dict[str, Callable[[Person], tuple[Any, ...]]] = {
    "wrong-password": lambda p: (
        "PUT", "/me/password", {"currentPassword": "another one", "newPassword": "long enough"},
    ),
    "second-factor-needed": with_rule,
    "password-not-enough": lambda p: form(
        f"grant_type=password&username={with_passkey(p)[0]}&password={quote(p.password)}"
    ),
    "sign-in-again": lambda p: ("POST", "/me/totp", None, with_passkey(p)[1]),
    "passkey-not-found": lambda p: just_now(p, "DELETE", "/me/passkeys/2147483647"),
    "totp-not-set-up": lambda p: just_now(p, "PUT", "/me/totp", {"code": "123456"}),
    "wrong-code": guessed,
    "no-second-factor": lambda p: just_now(p, "POST", "/me/recovery-codes"),
    "passkeys-unavailable": lambda p: just_now(p, "POST", "/me/passkeys/options"),
    "passkey-not-verified": lambda p: just_now(p, "PUT", "/me/passkeys", {"name": "Laptop", "credential": {}}),
    "second-factor-not-used": lambda p: ("PUT", "/factor-rules", {"roles": ["Owner"]}),
    "session-not-found": lambda p: ("DELETE", "/sessions/1"),
    "identity-not-found": lambda p: ("DELETE", "/me/identities/1"),
    "last-sign-in-method": lambda p: ("DELETE", f"/me/identities/{only_way_in(p)}"),
    "invalid-if-match": lambda p: (
        "PATCH", f"/cars/{p.car()}", [step("/name", "x")], {"headers": {"If-Match": "no tag"}},
    ),
    "invalid-position": lambda p: ("GET", "/cars", None, {"headers": {"Keyrack-Position": "0/0"}}),
    "precondition-failed": lambda p: (
        "PATCH", f"/cars/{p.car()}", [step("/name", "x")], {"headers": {"If-Match": '"another"'}},
    ),
    "precondition-only-for-reads": lambda p: ("PUT", "/cars", {"name": "x"}, {"headers": {"If-None-Match": "*"}}),
    "precondition-unsupported": lambda p: ("PUT", "/cars", {"name": "x"}, {"headers": {"If-Match": '"another"'}}),
    "repeated-members": lambda p: (
        "PUT", "/assignments", None,
        {
            "content": b'{"carId": 1, "userId": 1, "start": "2026-01-01T08:00:00Z", "carId": 2}',
            "headers": {"Content-Type": "application/json"},
        },
    ),
    "batch-with-query": lambda p: ("POST", "/batch?dryRun=true", {"kind": "cars", "items": [{"op": "end", "id": 1}]}),
    "too-many-items": lambda p: batched("cars", [{"op": "end", "id": NOWHERE}] * 1_001),
    "too-many-passwords": lambda p: batched("users", [{"op": "create", "body": {"type": "Normal"}}] * 51),
    "batch-refused": lambda p: batched("cars", [{"op": "end", "id": NOWHERE}], atomic=True),
    "access-history-expired": lambda p: ("GET", f"/cars/{p.car()}/access?at=2001-01-01T00:00:00Z"),
    "at-or-range": lambda p: ("GET", f"/cars/{p.car()}/access?from=2001-01-01T00:00:00Z"),
    "time-in-future": lambda p: ("GET", f"/users/{p.user()}/access?at=2999-01-01T00:00:00Z"),
    "permission-missing": without_a_role,
    "cursor-gone": past_the_end,
    "change-not-found": lambda _: ("GET", "/changes/999999999999/proof"),
    "checkpoint-ahead": ahead,
    "empty-time-range": lambda p: (
        "POST", f"/webhooks/{webhook(p)}/replay", {"from": "2026-01-02T00:00:00Z", "to": "2026-01-01T00:00:00Z"},
    ),
    "invalid-query-parameter": lambda p: ("GET", f"/cars/{p.car()}/track?points=many"),
    "time-range-too-long": lambda p: (
        "GET", f"/cars/{p.car()}/track?from=2001-01-01T00:00:00Z&to=2026-01-01T00:00:00Z",
    ),
    "end-before-start": lambda p: asked(p, end="2026-01-01T00:00:00Z"),
    "lifetime-out-of-range": lambda p: asked(p, lifetime=1),
    "renewable-after-out-of-range": lambda p: asked(p, renewableAfter=-1),
    "form-too-long": lambda _: form("username=" + "x" * 40_000),
    "invalid-form": lambda _: form("username=%ff"),
    "parameter-given-twice": lambda _: form("username=a&username=b"),
    "missing-parameter": lambda _: form("grant_type=password"),
    "invalid-parameter": lambda _: form("grant_type=password&password=x&username=" + "x" * 2_000),
    "unsupported-grant-type": lambda _: form("grant_type=refresh_token"),
    "invalid-scope": lambda _: form("grant_type=client_credentials&scope=cars:raed"),
    "invalid-client": lambda _: form("grant_type=client_credentials&client_id=x&client_secret=y"),
    "two-client-authentications": lambda _: by_header("grant_type=client_credentials&client_secret=y"),
    "manager-of-customer-not-found": lambda _: ("DELETE", f"/managers/{NOWHERE}"),
    "invitation-not-found": lambda _: ("DELETE", f"/invitations/{NOWHERE}"),
    "already-a-manager": already,
    "group-limits-managers": limiting_group,
    "owner-not-limited": lambda p: (
        "PUT", "/managers", {"emailAddress": "x@example.com", "role": "Owner", "groups": [p.group()]},
    ),
    "last-owner": lambda p: ("DELETE", f"/managers/{p.get('/me').json()['id']}"),
    "client-not-found": lambda _: ("DELETE", f"/clients/{NOWHERE}"),
    "client-secret-not-found": lambda p: ("DELETE", f"/clients/{client(p)}/secrets/{NOWHERE}"),
    "too-many-client-secrets": two_secrets,
    "client-managed-elsewhere": elsewhere,

    "wrong-credentials": lambda p: form(f"grant_type=password&username={p.username}&password=x"),
    "group-name-too-long": lambda p: (
        "PATCH", f"/groups/{p.group()}", [{"op": "replace", "path": "/name", "value": "x" * 251}],
    ),
    "external-id-taken": taken_external_id,
    "group-name-taken": taken_name,
    "group-not-empty": lambda p: ("DELETE", grouped(p, "car")[1].removesuffix("/cars")),
    "invalid-brand": lambda p: ("GET", "/brands/%20/keys"),
    "invalid-search-date": lambda p: ("GET", f"/cars/{p.car()}/location/yesterday"),
    "invalid-sdk-combination": lambda p: ("POST", "/sdk/token", {"customerId": 1, "sdkKey": "x", "userId": 1}),
    "invalid-user-parameters": lambda p: ("PUT", "/users/assignments/customers", {}),
    "no-product-named": lambda p: ("PUT", "/installations", {"carId": p.car()}),
    "too-many-errors": lambda _: ("PATCH", "/assignments/1", [dict.fromkeys("abcdefg", 1)] * 50),
    "unknown-members": lambda p: asked(p, ende="2026-01-03T00:00:00Z"),
    "query-value-out-of-range": lambda p: p.car() and ("GET", "/cars?$filter=id mul 9223372036854775807 gt 1"),
    "named-product-not-found": lambda p: ("PUT", "/installations", installation(p, p.car(), NOWHERE)),
    "named-user-not-found": lambda p: ("PUT", "/users/assignments/customers", {"userId": NOWHERE}),
    "user-not-in-customer": lambda p: ("DELETE", "/users/assignments/customers", {"userId": NOWHERE}),
    "user-already-in-customer": lambda p: ("PUT", "/users/assignments/customers", {"userId": p.user()}),
    "email-address-taken": same_user,
    "user-without-app": lambda p: ("POST", f"/users/{p.user()}/app-invitation", {}),
    "mail-not-configured": lambda p: ("POST", f"/users/{p.user(type='Normal')}/app-invitation", {"mail": True}),
    "no-car-of-product": lambda p: ("GET", f"/products/{p.product()}/cars"),
    "no-service-of-product": lambda p: ("GET", f"/products/{p.product()}/services"),
    "no-product-of-service": lambda p: ("GET", f"/services/{p.service()}/products"),
    "no-contract-of-service": lambda p: ("GET", f"/services/{p.service()}/contracts"),
    "no-iq-in-car": lambda p: ("GET", f"/cars/{p.car()}/telemetry"),
    "no-products-in-car": lambda p: ("GET", f"/cars/{p.car()}/products"),
    "no-telemetry-yet": lambda p: ("GET", f"/cars/{unit_of(p).car}/telemetry"),
    "delivery-not-found": lambda p: ("POST", f"/webhooks/{webhook(p)}/deliveries/1/replay"),
    "webhook-disabled": lambda p: ("POST", f"/webhooks/{webhook(p, enabled=False)}/test"),
    "webhook-is-pushed": lambda p: ("GET", f"/webhooks/{webhook(p)}/messages"),
    "webhook-is-pulled": lambda p: (
        "PATCH", f"/webhooks/{webhook(p, pull=True, url=None)}", [step("/url", "https://hooks.invalid/x")],
    ),
    "too-many-webhooks": full,
    "car-already-in-group": lambda p: grouped(p, "car"),
    "user-already-in-group": lambda p: grouped(p, "user"),
    "service-already-in-group": lambda p: grouped(p, "service"),
    "product-already-in-group": lambda p: grouped(p, "product"),
    "car-not-in-group": lambda p: not_grouped(p, "car"),
    "user-not-in-group": lambda p: not_grouped(p, "user"),
    "service-not-in-group": lambda p: not_grouped(p, "service"),
    "product-not-in-group": lambda p: not_grouped(p, "product"),
    "product-already-installed": lambda p: ("PUT", "/installations", installation(p, *box(p))),
    "product-without-service": lambda p: ("PUT", "/installations", installation(p, p.car(), p.product())),
    "product-type-already-in-car": lambda p: ("PUT", "/installations", installation(p, box(p)[0], served(p))),
    "product-not-installed": lambda p: ("DELETE", "/installations", installation(p, p.car(), served(p))),
    "product-in-other-car": lambda p: ("DELETE", "/installations", installation(p, p.car(), box(p)[1])),
    "service-already-paired": lambda p: (
        "PUT", "/pairings", {"serviceId": p.service(p.product()), "productId": p.product()},
    ),
    "product-already-paired": lambda p: ("PUT", "/pairings", {"serviceId": p.service(), "productId": served(p)}),
    "service-not-paired": lambda p: ("DELETE", "/pairings", {"serviceId": p.service(), "productId": p.product()}),
    "idempotency-key-reused": lambda p: reused(p),
    "idempotency-key-of-other-caller": lambda p: used_by_another(p),
    "query-too-long": lambda p: ("GET", "/cars?$filter=" + "x" * 9_000),
    "product-not-found": lambda p: ("PUT", f"/groups/{p.group()}/products", {"productId": NOWHERE}),
    "assignment-request-not-found": lambda p: ("GET", f"/assignment-requests/{NOWHERE}"),
    "assignment-request-decided": decided_request,
    "assignment-of-driver-not-found": lambda p: asked_by_driver(p, 4, 6, assignmentId=NOWHERE),
    "assignment-without-end": lambda p: asked_by_driver(p, None, 6),
    "extension-out-of-range": lambda p: asked_by_driver(p, 4, 3),
    "path-not-found": lambda p: ("GET", "/nothing"),
    "assignment-conflict": booked,
    **offline_key_errors.CASES,
}  # fmt: skip
# Codes of the tests above
OVER_THE_TABLE = {
    "invalid-api-key", "invalid-token", "manager-not-found", "missing-customer-id", "invalid-customer-id",
    "customer-not-found", "invalid-json", "wrong-form-of-body", "body-too-large", "unsupported-media-type", "no-steps",
    "too-many-steps", "invalid-members", "invalid-query", "query-not-supported", "invalid-idempotency-key",
    "method-not-allowed", "assignment-not-found", "brand-not-found", "car-not-found", "drawing-not-found",
    "event-not-found", "group-not-found", "operation-not-found", "service-not-found", "user-not-found",
    "webhook-not-found",
}  # fmt: skip
# Codes of the tests below
BELOW = {
    "head-too-large", "head-too-slow", "invalid-http", "invalid-gzip", "invalid-lines",
    "missing-scope", "invalid-device-key", "too-many-lines", "body-too-packed", "rate-limited",
    "body-too-slow", "expansion-too-large", "signed-out", "other-origin", "host-header", "invalid-host",
    "transfer-coding",
}  # fmt: skip
# Codes that need a broken database, many clients, or bytes that the HTTP parser rejects. Other tests check the spec's
# form. The same function makes the other form
IN_TROUBLE = {
    "old-worker-running", "box-keys-inconsistent", "limited-to-groups", "no-stream-for-limited",
    "similar-address-invited", "too-many-invitations", "too-many-clients", "for-people-only", "token-of-another",
    "client-authentication-required",
    "internal-error", "database-unreachable", "database-interrupted", "database-too-slow", "database-read-only",
    "query-too-slow", "answer-too-slow", "answer-too-long", "too-many-long-answers", "too-many-waiting",
    "waited-too-long", "customer-busy", "operation-retried", "secrets-unavailable", "too-many-connections",
    "ingest-overloaded", "ingest-overloaded-by-key", "idempotency-key-in-flight", "invalid-header",
    "too-many-connections-of-address", "overloaded", "query-not-ascii", "batch-too-slow", "too-many-overlaps",
    "too-many-streams", "too-many-streams-of-customer", "too-many-streams-of-caller", "http-too-old",
    "stream-with-options", "access-history-pending", "too-many-access-periods",
    "totp-already-set-up", "last-factor-needed", "passkey-known", "too-many-passkeys",
    "schema-not-current", "stopping", "not-ready", "database-silent",
    "primary-unconfirmed", "outcome-unknown", "no-checkpoint", "change-not-proven", "log-altered",
}  # fmt: skip
# Codes of the app at `/drive`, which tests/drivers shows
OF_DRIVERS = {
    "driver-account-exists",
    "driver-account-of-other-fleets",
    "driver-passkey-not-found",
    "driver-provider-not-found",
    "driver-session-not-found",
    "invitation-needed",
    "link-expired",
    "no-app-access",
    "no-credential-given",
    "provider-account-unknown",
    "provider-session-limited",
    "provider-sign-in-failed",
    "push-disabled",
    "push-keys-invalid",
    "push-service-not-allowed",
    "too-many-driver-passkeys",
    "driver-sign-in-again",
    "wrong-driver-password",
}
# Codes of batch items, and codes in a response of /health/ready
IN_PART = {"item-undone", "no-worker", "archive-late"}


def reused(person: Person) -> tuple[str, str, Json, Json]:
    headers = {"Idempotency-Key": str(uuid.uuid4())}
    assert person.put("/cars", {"name": "Mine"}, headers=headers).status_code == 201
    return "PUT", "/cars", {"name": "Other"}, {"headers": headers}


def used_by_another(person: Person) -> tuple[str, str, Json, Json]:
    headers, body = {"Idempotency-Key": str(uuid.uuid4())}, {"name": "A program's"}
    program = Program(person, "cars:write").headers()
    assert person.put("/cars", body, headers=headers | program).status_code == 201
    return "PUT", "/cars", body, {"headers": headers}


@pytest.mark.parametrize("code", CASES)
def test_errors_that_depend_on_stored_data(
    code: str, carol: Person, document: Json, page: str, server: RunningServer
) -> None:
    case = CASES[code](carol)
    method, path, body, options = (*case, *(None, {})[len(case) - 2 :])
    problem = both(carol.call, method, path, body, **options)
    assert problem["code"] == code, problem
    rows = [row for row in ALL if row.method == method and matches(row, path)]
    for row in rows:
        told(problem, row, document, page, server)
    if path == "/oauth2/token":
        plain = carol.call(method, path, headers={**options["headers"]}, content=options["content"]).json()
        assert {key: problem[key] for key in ("error", "error_description")} == {
            key: plain[key] for key in ("error", "error_description")
        }


def test_a_renamed_code_names_its_old_one(alice: Person, page: str) -> None:
    path = f"/cars/{alice.car()}/access?at=2001-01-01T00:00:00Z"
    problem = both(alice.call, "GET", path)
    assert (problem["code"], problem["previousCode"]) == ("access-history-expired", "access-gone")
    assert "previousCode" not in both(alice.call, "GET", "/nothing")
    for old, new in error_codes.RENAMED.items():
        assert f'<article id="{new}"><a id="{old}"></a>' in page


def test_a_replay_stored_by_an_older_release_has_the_new_code() -> None:
    """The previous release stored responses with the old codes."""
    head = {
        "status": 409, "headers": {}, "mediaType": "text/plain",
        "refusal": {"code": "two-secrets", "text": "Old text.", "errors": [], "extensions": {}},
    }  # fmt: skip
    with pytest.raises(IdempotentReplay) as replay:
        idempotency.replayed(head, b"Old text.")
    reason = replay.value.reason
    assert (reason.code, reason.previous, reason.text) == ("too-many-client-secrets", "two-secrets", "Old text.")


def matches(endpoint: Endpoint, path: str) -> bool:
    return re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", endpoint.path), path.partition("?")[0]) is not None


def test_every_code_has_a_test() -> None:
    known = {row.code for row in codes(ALL)}
    shown_here = set(CASES) | OVER_THE_TABLE | BELOW | IN_TROUBLE | IN_PART | OF_DRIVERS
    assert known - shown_here == set(), "say in CASES how it is brought about"
    assert shown_here - known == set()


# Before the router, and deliveries


def spoken(server: RunningServer, data: bytes) -> tuple[int, Json, bytes]:
    """Send bytes and return status, headers and body of the response."""
    with Line(server) as line:
        line.send(data)
        reply = line.reply()
        return reply.status, {key.lower(): value for key, value in reply.headers.items()}, reply.text.encode()


@pytest.mark.parametrize(
    ("code", "status", "more"),
    [
        ("query-too-long", 414, (b"GET /v3/cars?x=" + b"x" * 9_000 + b" HTTP/1.1\r\nHost: x\r\n", b"\r\n")),
        ("invalid-http", 400, (b"GET / HTTP/1.1\r\nHost: x\r\n", b"X: 1\r\nno header\r\n\r\n")),
        ("host-header", 400, (b"GET / HTTP/1.1\r\nHost: x\r\n", b"Host: y\r\n\r\n")),
        ("invalid-host", 400, (b"GET / HTTP/1.1\r\nHost: x y\r\n", b"\r\n")),
        ("transfer-coding", 501, (b"PUT / HTTP/1.1\r\nHost: x\r\n", b"Transfer-Encoding: gzip, chunked\r\n\r\n")),
    ],
)
def test_errors_before_the_router_have_both_forms(
    server: RunningServer, code: str, status: int, more: tuple[bytes, bytes]
) -> None:
    plain = spoken(server, b"".join(more))
    assert (plain[0], plain[1]["content-type"]) == (status, "text/plain; charset=utf-8")
    named = b"Accept: application/problem+json\r\nX-Request-Id: mine-1\r\n"
    found, headers, body = spoken(server, more[0] + named + more[1])
    problem = json.loads(body)
    assert (found, headers["content-type"], headers["x-request-id"]) == (status, PROBLEM, "mine-1")
    assert (problem["code"], problem["detail"], problem["traceId"]) == (code, plain[2].decode(), "mine-1")
    assert "Accept" in headers["vary"]


def test_a_large_head_gets_the_requested_form(server: RunningServer) -> None:
    """The headers received so far decide on the form."""
    with Line(server) as line:
        line.send(b"GET / HTTP/1.1\r\nAccept: application/problem+json\r\nX-Request-Id: mine-2\r\nX: 1\r\n")
        for _ in range(40):
            if line.answered(0.01):
                break
            line.send(b"X-More: " + b"x" * 1_000 + b"\r\n")
        reply = line.reply()
    assert (reply.status, json.loads(reply.text)["code"]) == (431, "head-too-large")
    assert json.loads(reply.text)["traceId"] == "mine-2"


def test_slow_requests_get_the_requested_form(dsn: str, settings: Settings, alice: Person) -> None:
    with RunningServer(settings.model_copy(update={"request_read_timeout_seconds": 0.5}), dsn, worker=False) as hasty:
        with Line(hasty) as line:
            line.send(b"GET / HTTP/1.1\r\nAccept: application/problem+json\r\nX: ")
            assert json.loads(line.reply().text)["code"] == "head-too-slow"
        with Line(hasty) as line:
            more = ("Content-Type: application/json", "Content-Length: 10", f"Accept: {PROBLEM}")
            line.send(head(alice, "PUT", "/v3/cars", *more))
            assert json.loads(line.reply().text)["code"] == "body-too-slow"


def test_exceeded_limits(dsn: str, settings: Settings, carol: Person) -> None:
    narrow = {"assignment_burst": 1, "assignment_rate": SELDOM, "ingest_max_lines": 2, "odata_expanded": 1}
    body = {"carId": carol.car(), "userId": carol.user(), "start": "2026-01-01T00:00:00Z"}
    unit, group = unit_of(carol), carol.group()
    for _ in range(2):
        assert carol.put(f"/groups/{group}/cars", {"carId": carol.car()}).status_code == 204
    with (
        RunningServer(settings.model_copy(update=narrow), dsn, worker=False) as node,
        http_client(base_url=node.url + "/v3", headers=carol.headers) as client,
    ):
        assert client.put("/assignments", json=body).status_code == 204
        answer = client.put("/assignments", json=body, headers={"Accept": PROBLEM})
        assert (answer.status_code, answer.json()["code"]) == (429, "rate-limited")
        assert str(answer.json()["retryAfter"]) == answer.headers["retry-after"]
        headers = {"Device-Key": unit.key, "Content-Type": "application/x-ndjson", "Accept": PROBLEM}
        answer = client.post("/ingest/telemetry", content=b"{}\n" * 3, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (413, "too-many-lines")
        answer = client.get("/groups?$expand=cars", headers={"Accept": PROBLEM})
        assert (answer.status_code, answer.json()["code"]) == (400, "expansion-too-large")


def test_errors_of_deliveries(alice: Person, document: Json, page: str, server: RunningServer) -> None:
    unit = unit_of(alice)
    (row,) = [row for row in ALL if row.path == "/ingest/telemetry"]

    def check(code: str, body: bytes, endpoint: Endpoint = row, **headers: str) -> None:
        own = {"Device-Key": unit.key, "Content-Type": "application/x-ndjson", **headers}
        problem = both(alice.call, "POST", endpoint.path, content=body, headers=own)
        assert problem["code"] == code
        told(problem, endpoint, document, page, server)

    check("invalid-lines", b"[{}")
    check("invalid-gzip", b"nonsense", **{"Content-Encoding": "gzip"})
    check("body-too-packed", gzip.compress(b"\n" * 9_000_000), **{"Content-Encoding": "gzip"})
    check("invalid-device-key", b"", **{"Device-Key": "nonsense"})
    check("unsupported-media-type", b"{}", **{"Content-Type": "text/plain"})
    answer = alice.client.post("/ingest/telemetry", content=b"{}", headers={"Accept": PROBLEM, "Device-Key": ""})
    assert answer.json()["code"] == "invalid-device-key"


def test_head_is_get_without_a_body(alice: Person) -> None:
    get = alice.get("/cars/2147483647", headers={"Accept": PROBLEM, "X-Request-Id": "same"})
    answer = alice.call("HEAD", "/cars/2147483647", headers={"Accept": PROBLEM, "X-Request-Id": "same"})
    assert (answer.status_code, answer.content) == (404, b"")
    for header in ("content-type", "content-length", "x-request-id", "vary"):
        assert answer.headers[header] == get.headers[header]


# Accept

SPEC, OWN = "text/plain; charset=utf-8", PROBLEM


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", SPEC), ("*/*", SPEC), ("application/json", OWN), ("application/*", SPEC), ("text/html, */*;q=0.8", SPEC),
        ("application/problem+json", OWN), ("Application/Problem+JSON", OWN), ("application/problem+json, */*", OWN),
        ("application/json, application/problem+json", OWN), ("application/problem+json;charset=utf-8", OWN),
        ("application/problem+json;q=0.1", OWN), ("application/problem+json;q=0", SPEC),
        ("application/problem+json; Q=0.5, text/plain;q=0.4", OWN), ("application/problem+json;q=0.5,text/plain", SPEC),
        ("application/problem+json;q=0.5, text/*;q=0.6", SPEC), ("application/problem+json;q=0.5, */*", SPEC),
        ("application/problem+json;q=0.5, text/plain;q=0.1, */*", OWN), ("application/problem+json;q=2", SPEC),
        ("application/problem+json;q=0.1234", SPEC), ("application/problem+json;q=", SPEC),
        ('text/x;a="b, application/problem+json"', SPEC), ('text/x;a="b,\\"", application/problem+json', OWN),
        (", ,application/problem+json,,", OWN), ("xapplication/problem+json", SPEC),
        ("application/problem+jsonx", SPEC),
        ("application/problem+json;a=\"q=0\"", OWN),
    ],
)  # fmt: skip
def test_accept_decides_on_the_form(alice: Person, accept: str, form: str) -> None:
    answer = alice.get("/cars/2147483647", headers={"Accept": accept})
    assert (answer.status_code, answer.headers["content-type"]) == (404, form)


def test_the_spec_s_json_is_negotiated_as_json(alice: Person) -> None:
    for accept, form in (
        ("application/json", JSON_TYPE),
        ("application/problem+json, application/json;q=0.9", PROBLEM),
    ):
        headers = {"Accept": f"application/problem+json;q=0.5, {accept}", "Authorization": None}
        answer = alice.get("/cars", headers=headers)
        assert (answer.status_code, answer.headers["content-type"]) == (401, form)


JSON_TYPE = "application/json"


@given(
    st.one_of(
        st.text(st.characters(max_codepoint=255)),
        st.lists(
            st.sampled_from(["application/problem+json", ",", ";", "q=", "0.5", '"', "\\", " ", "*/*", "a/b"])
        ).map("".join),
    )
)
def test_hostile_accept_headers_get_a_valid_form(accept: str) -> None:
    body, media_type = problem_body(NotFound(error_codes.NOTHING_HERE), accept, "id", "https://example.org")
    assert media_type in (PROBLEM, "text/plain; charset=utf-8") and body


@pytest.mark.parametrize(
    "accept",
    ["application/problem+json" + "," * 30_000, '"' * 30_000 + "problem+json", "a/b;" * 7_000 + ",problem+json",
     "application/problem+json," * 1_200, '"\\' * 15_000 + "problem+json", ";q" * 15_000 + "application/problem+json"],
)  # fmt: skip
def test_a_hostile_accept_header_is_harmless(alice: Person, accept: str) -> None:
    assert alice.get("/cars/2147483647", headers={"Accept": accept}).status_code == 404


def test_several_accept_headers_are_one_list(alice: Person) -> None:
    headers = [*alice.headers.items(), ("Accept", "application/json"), ("Accept", PROBLEM)]
    assert alice.client.get("/cars/2147483647", headers=headers).headers["content-type"] == PROBLEM


# Error lists


@pytest.mark.parametrize(
    ("path", "body", "faults"),
    [
        ("/cars", {"name": 1}, [("/name", "wrong-type")]),
        ("/cars", {"name": "  "}, [("/name", "blank")]),
        ("/cars", {"name": "x" * 251, "vin": 1}, [("/name", "too-long"), ("/vin", "wrong-type")]),
        ("/cars", {"name": "x", "vin": "\0"}, [("/vin", "wrong-form")]),
        (
            "/users",
            {"emailAddress": "x", "userData": {"firstName": 1}, "type": "Other"},
            [
                ("/emailAddress", "wrong-form"), ("/userData/firstName", "wrong-type"),
                ("/userData/lastName", "missing"), ("/type", "not-one-of"),
            ],
        ),
        (
            "/assignments",
            {"carId": 2**31, "userId": "1", "start": "2026-01-01", "en/d~": 1},
            [
                ("/en~1d~0", "unknown"), ("/carId", "out-of-range"), ("/userId", "wrong-type"),
                ("/start", "wrong-form"),
            ],
        ),
        ("/assignments", {"carId": 1, "userId": 1, "start": "2026-01-02T00:00:00Z", "end": "2026-01-01T00:00:00Z"},
         [("/end", "out-of-range")]),
        ("/installations", {"carId": 0}, [("/carId", "out-of-range")]),
        ("/installations", {"carId": 1}, [("", "one-needed")]),
        ("/events", {"dateTime": "x"}, [
            ("/dateTime", "wrong-form"), ("/utcDateTime", "missing"), ("/userId", "missing"), ("/carId", "missing"),
            ("/userAgent", "missing"),
        ]),
        ("/webhooks", {"url": "ftp://x", "kinds": ["Nothing"]}, [("/url", "wrong-form"), ("/kinds/0", "not-one-of")]),
        ("/webhooks", {"url": "https://x.invalid", "kinds": []}, [("/kinds", "too-short")]),
    ],
)  # fmt: skip
def test_errors_point_to_members(alice: Person, path: str, body: Json, faults: list[tuple[str, str]]) -> None:
    problem = both(alice.call, "PUT", path, body)
    found = [(fault["pointer"], fault["code"]) for fault in problem["errors"]]
    assert found == faults
    details = [fault["detail"] for fault in problem["errors"]]
    assert all(re.match(r"[A-Z`']", detail) and detail.endswith((".", "?")) for detail in details)


def step(path: str, *value: Any) -> Json:
    return {"op": "replace", "path": path} | ({"value": value[0]} if value else {})


@pytest.mark.parametrize(
    ("path", "steps", "faults"),
    [
        ("/cars/{car}", [step("/vin", "x"), step("/name", " ")], [("/1/value", "blank")]),
        ("/cars/{car}", [step("/name", "x"), step("/vin", "x" * 251)], [("/1/value", "too-long")]),
        ("/cars/{car}", [step("/vin")], [("/0/value", "missing")]),
        ("/cars/{car}", [{"op": "remove", "path": "/name"}], [("/0", "missing")]),
        ("/cars/{car}", [step("/vin", 1)], [("/0/value", "wrong-type")]),
        ("/cars/{car}", [{"op": "add", "path": "/vin"}], [("/0/op", "not-one-of")]),
        ("/cars/{car}", [], [("", "too-short")]),
        ("/groups/{group}", [step("/name", "a"), step("/name", "")], [("/1/value", "blank")]),
        ("/assignments/1", [step("/end", None), step("/start", "x")], [("/1/value", "wrong-form")]),
        ("/assignments/1", [step("/carId", "x")], [("/0/value", "wrong-type")]),
        ("/assignments/1", [step("/lifetime", 1)], [("/0/value", "out-of-range")]),
        ("/assignments/1", [{"op": "replace", "path": "/end", "vale": None}], [("/0/vale", "unknown")]),
        ("/webhooks/1", [step("/enabled", True), step("/url", "ftp://x")], [("/1/value", "wrong-form")]),
        ("/webhooks/1", [step("/kinds", ["Nothing"])], [("/0/value", "not-one-of")]),
    ],
)
def test_errors_point_to_steps_of_a_patch(
    alice: Person, path: str, steps: list[Json], faults: list[tuple[str, str]]
) -> None:
    at = path.format(car=alice.car(), group=alice.group()) if "{" in path else path
    problem = both(alice.call, "PATCH", at, steps)
    assert [(fault["pointer"], fault["code"]) for fault in problem["errors"]] == faults


def test_errors_name_valid_values(alice: Person) -> None:
    body = {"op": "replace", "path": "/licence", "value": "x"}
    (fault,) = both(alice.call, "PATCH", f"/cars/{alice.car()}", [body])["errors"]
    assert fault["valid"] == [
        *("/name", "/description", "/vin", "/licensePlate", "/brand", "/model"), "/externalId", "/metadata",
    ]  # fmt: skip
    headers = {"Prefer": "handling=strict"}
    (fault,) = both(alice.call, "PUT", "/cars", {"name": "x", "licencePlate": "x"}, headers=headers)["errors"]
    assert (fault["code"], fault["pointer"]) == ("unknown", "/licencePlate")
    assert fault["detail"] == "There is no property 'licencePlate'. Did you mean 'licensePlate'?"
    names = ["name", "description", "vin", "licensePlate", "brand", "model", "externalId", "metadata"]
    assert fault["valid"] == names


def test_every_pointer_resolves_in_the_body(alice: Person) -> None:
    """Every error points to a value of the body (RFC 6901).

    Only errors about missing members do not.
    """
    draw = random.Random(10)
    values: list[Any] = [None, 1, -1, 1.5, "", " ", "x" * 300, [], {}, True, "2026-01-01T00:00:00Z", {"firstName": 1}]
    names = ["name", "emailAddress", "userData", "type", "carId", "start", "a/b", "~", "\u00e4", ""]
    for _ in range(40):
        body = {draw.choice(names): draw.choice(values) for _ in range(4)}
        for path in ("/users", "/assignments"):
            answer = alice.put(path, body, headers={"Accept": PROBLEM})
            for fault in answer.json().get("errors", ()):
                if fault["code"] not in ("missing", "one-needed"):
                    resolve(body, fault["pointer"])


def resolve(body: Any, pointer: str) -> Any:
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        body = body[int(key)] if isinstance(body, list) else body[key]
    return body


# Replays


def test_a_replay_has_the_requested_form(alice: Person) -> None:
    group = {"name": f"Taken {uuid.uuid4()}"}
    id = alice.put("/groups", group).json()["id"]
    key = {"Idempotency-Key": str(uuid.uuid4())}
    first = alice.put("/groups", group, headers=key)
    assert first.status_code == 409
    alice.delete(f"/groups/{id}")
    problem = both(alice.call, "PUT", "/groups", group, headers=key)
    assert (problem["code"], problem["detail"]) == ("group-name-taken", first.text)


def test_a_replay_of_a_problem_can_have_the_spec_s_form(alice: Person) -> None:
    car, key = alice.car(), {"Idempotency-Key": str(uuid.uuid4())}
    steps = [step("/vin", "x"), step("/name", " ")]
    first = alice.patch(f"/cars/{car}", steps, headers={**key, "Accept": PROBLEM}).json()
    again = alice.patch(f"/cars/{car}", steps, headers=key)
    assert (again.status_code, again.text) == (400, first["detail"])
    assert again.headers["idempotency-replayed"] == "true"
    problem = both(alice.call, "PATCH", f"/cars/{car}", steps, headers=key)
    assert problem["errors"] == first["errors"] == [
        {"pointer": "/1/value", "code": "blank", "detail": "`value` must not be blank."}
    ]  # fmt: skip


# The page


def test_the_page_has_every_code_once(page: str, server: RunningServer) -> None:
    assert re.findall(r'<article id="([^"]+)">', page) == [row.code for row in codes(ALL)]
    for row in codes(ALL):
        assert row.remedy and row.texts and row.title
        assert "{" not in re.sub(r"`[^`]*`", "", row.remedy), "only a message has places"
    assert "<script" not in page
    assert set(re.findall(r"https?://[^\s<\"'/&]+", page)) == {server.url}


def test_the_page_exists_below_both_base_paths(server: RunningServer) -> None:
    answers = [web().get(server.url + base + "/docs/errors") for base in ("", "/v3")]
    assert answers[0].content == answers[1].content
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert answers[0].headers["content-security-policy"] == policy


def test_errors_of_console_requests(carol: Person, document: Json, page: str, server: RunningServer) -> None:
    """Below `/console/api`, a request needs a session and the server's own origin."""
    url = server.url + "/console/api/v3/cars"
    (row,) = (row for row in ALL if (row.method, row.path) == ("PUT", "/cars"))
    for headers, code in (({}, "other-origin"), ({"Sec-Fetch-Site": "same-origin"}, "signed-out")):
        problem = both(carol.call, "PUT", url, {"name": "x"}, headers=headers)
        assert problem["code"] == code
        told(problem, row, document, page, server)
