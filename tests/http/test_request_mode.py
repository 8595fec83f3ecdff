"""The mode of requests, by caller and by the header `Keyrack-Mode`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import httpx
import pytest

from keyrack.api.endpoint import JsonBody
from keyrack.api.permissions import PROGRAMS
from keyrack.api.principals import ClientCaller
from keyrack.api.request_mode import RequestMode
from keyrack.core.error_codes import INVALID_TOKEN
from keyrack.core.errors import Refusal, TooManyRequests, Unauthorized, UnsupportedMediaType
from keyrack.http.problem_details import problem_body
from keyrack.http.request_mode import has_mode
from keyrack.http.routes import ALL
from tests.auth.test_clients import Program
from tests.http.test_contract import ENDLESS, Endpoint, over, path_of, query_of
from tests.support.people import Person, web
from tests.support.servers import RunningServer

MODE = "Keyrack-Mode"
PLAIN, PROBLEM, JSON = "text/plain; charset=utf-8", "application/problem+json", "application/json"
MISSING = "/cars/2147483647"
SCOPES = [str(scope) for scope in PROGRAMS]
Headers = dict[str, str]


@pytest.fixture
def program(alice: Person) -> Program:
    """A new machine client of alice's customer, with every scope."""
    return Program(alice, *SCOPES)


@pytest.fixture
def strict(program: Program) -> Headers:
    """The headers of a new machine client."""
    return program.headers()


@pytest.fixture
def lenient(alice: Person) -> Headers:
    """The headers of a machine client with the mode `spec`."""
    return Program(alice, *SCOPES, mode="spec").headers()


def form(answer: httpx.Response) -> str:
    return answer.headers["content-type"]


# The mode


def test_a_new_client_is_strict_and_a_person_is_not(alice: Person, strict: Headers, lenient: Headers) -> None:
    assert alice.get("/cars", headers=strict).headers[MODE] == "strict"
    assert alice.get("/cars", headers=lenient).headers[MODE] == "spec"
    assert alice.get("/cars").headers[MODE] == "spec"


def test_the_mode_is_a_property_of_the_client(alice: Person, program: Program) -> None:
    headers = program.headers()
    assert alice.get(program.path).json()["mode"] == "strict"
    assert program.change("/mode", "spec").status_code == 204
    assert alice.get(program.path).json()["mode"] == "spec"
    assert alice.get("/clients?$filter=mode eq 'spec'").json()[-1]["id"] == program.number
    assert form(alice.get(MISSING, headers=headers)) == PLAIN  # also with a token of before


@pytest.mark.parametrize("value", ["lenient", "Strict", "", None, 1])
def test_another_mode_of_a_client_is_rejected(alice: Person, program: Program, value: object) -> None:
    created = alice.put("/clients", {"name": "A", "scopes": ["cars:read"], "mode": value})
    changed = program.change("/mode", value)
    for answer in (created, changed):
        assert (answer.status_code, "No valid mode provided." in answer.text) == (400, True), answer.text


def test_the_mode_cannot_be_removed(alice: Person, program: Program) -> None:
    assert alice.patch(program.path, [{"op": "remove", "path": "/mode"}]).status_code == 400


def test_another_customer_cannot_see_or_change_the_mode(alice: Person, bob: Person) -> None:
    path = Program(alice, "cars:read").path
    assert bob.get(path).status_code == 404
    assert bob.patch(path, [{"op": "replace", "path": "/mode", "value": "spec"}]).status_code == 404
    assert alice.get(path).json()["mode"] == "strict"


def test_the_header_decides_for_one_request(alice: Person, strict: Headers, lenient: Headers) -> None:
    for headers in (strict, lenient, {}):
        for mode, expected in (("spec", PLAIN), ("strict", PROBLEM), ("Strict", PROBLEM)):
            answer = alice.get(MISSING, headers={**headers, MODE: mode})
            assert (form(answer), answer.headers[MODE]) == (expected, mode.lower())


@pytest.mark.parametrize("value", ["lenient", "spec, strict", "1"])
def test_another_value_of_the_header_is_rejected(alice: Person, strict: Headers, value: str) -> None:
    answer = alice.get("/cars", headers={**strict, MODE: value})
    error = answer.json()
    assert (answer.status_code, error["code"], form(answer)) == (400, "invalid-header", PROBLEM)
    assert error["detail"] == f"The header Keyrack-Mode is '{value}'. It must be spec or strict."
    assert (error["errors"][0]["header"], error["errors"][0]["valid"]) == (MODE, ["spec", "strict"])
    assert form(alice.get("/cars", headers={MODE: value})) == PLAIN


def test_the_header_is_checked_after_the_token(alice: Person) -> None:
    assert alice.get("/cars", headers={MODE: "x", "Authorization": "Bearer x"}).status_code == 401


def test_public_endpoints_have_no_mode(alice: Person) -> None:
    for path in ("/health/live", "/.well-known/jwks.json"):
        answer = alice.get(path, headers={MODE: "x"})
        assert answer.status_code == 200 and MODE not in answer.headers


# Errors


@pytest.mark.parametrize(
    ("accept", "by_spec", "in_strict"),
    [
        (None, PLAIN, PROBLEM),
        ("*/*", PLAIN, PROBLEM),
        ("application/json, text/plain, */*", PLAIN, PROBLEM),
        ("application/json", PROBLEM, PROBLEM),
        ("application/json;q=0", PLAIN, PROBLEM),
        ("application/json, text/html", PROBLEM, PROBLEM),
        ("application/json, text/*", PLAIN, PROBLEM),
        ("application/json, text/plain;q=0", PROBLEM, PROBLEM),
        ("application/*", PLAIN, PROBLEM),
        ("text/plain", PLAIN, PLAIN),
        ("text/*", PLAIN, PLAIN),
        ("text/html", PLAIN, PROBLEM),
        ("text/event-stream", PLAIN, PROBLEM),
        ("application/xml", PLAIN, PROBLEM),
        ("application/problem+json", PROBLEM, PROBLEM),
        ("application/problem+json;q=0, */*", PLAIN, PLAIN),
    ],
)
def test_mode_and_accept_decide_on_the_form_of_an_error(
    alice: Person, strict: Headers, lenient: Headers, accept: str | None, by_spec: str, in_strict: str
) -> None:
    for headers, expected in ((strict, in_strict), (lenient, by_spec), ({}, by_spec)):
        answer = alice.get(MISSING, headers=cast("Headers", {**headers, "Accept": accept}))
        assert (answer.status_code, form(answer)) == (404, expected)
        assert "Accept" in answer.headers["vary"]


def test_every_rejection_is_a_problem(alice: Person, strict: Headers) -> None:
    calls: list[tuple[int, httpx.Response]] = [
        (400, alice.get("/cars?$filter=x", headers=strict)),
        (400, alice.put("/cars", {"name": 1}, headers=strict)),
        (401, alice.get("/cars", headers={**strict, "vendor-API-Key": "wrong"})),
        (403, alice.get("/me", headers=strict)),
        (404, alice.get(MISSING, headers=strict)),
        (404, alice.get("/nothing", headers=strict)),
        (404, alice.get("/cars", headers={**strict, "Customer-ID": "2147483647"})),
        (405, alice.delete("/cars", headers=strict)),
        (412, alice.patch(MISSING, [], headers={**strict, "If-None-Match": "*"})),
        (414, alice.get("/cars?" + "x" * 9_000, headers={**strict, MODE: "strict"})),
        (415, alice.put("/cars", headers={**strict, "Content-Type": "text/xml"}, content=b"<a/>")),
    ]
    for status, answer in calls:
        assert (answer.status_code, form(answer)) == (status, PROBLEM), answer.text
        assert answer.json()["status"] == status


@pytest.mark.parametrize(
    "refusal", [Unauthorized(INVALID_TOKEN), UnsupportedMediaType("Content-Type", "x/y", ("a/b",)), TooManyRequests(6)]
)
def test_the_spec_s_own_json_is_a_problem_in_strict_mode(refusal: Refusal) -> None:
    for mode, accept, expected in (
        (RequestMode.STRICT, None, PROBLEM),
        (RequestMode.STRICT, JSON, PROBLEM),
        (RequestMode.STRICT, "text/plain", JSON),
        (RequestMode.SPEC, None, JSON),
        (RequestMode.SPEC, JSON, JSON),
    ):
        assert problem_body(refusal, accept, "id", "https://example.org", mode)[1] == expected


def test_an_unknown_token_is_answered_in_the_mode_of_the_header(alice: Person) -> None:
    wrong = {"Authorization": "Bearer x"}
    assert form(alice.get("/cars", headers=wrong)) == JSON
    answer = alice.get("/cars", headers={**wrong, MODE: "strict"})
    assert (answer.status_code, form(answer), answer.json()["code"]) == (401, PROBLEM, "invalid-token")
    assert MODE not in answer.headers


def test_a_batch_that_is_undone_is_a_problem_with_its_results(alice: Person, strict: Headers) -> None:
    batch = {"kind": "cars", "atomic": True, "items": [{"op": "create", "body": {"name": 1}}]}
    answer = alice.post("/batch", batch, headers=strict)
    assert (answer.status_code, form(answer)) == (422, PROBLEM)
    assert answer.json()["results"][0]["code"] == "invalid-members"


@pytest.mark.parametrize("mode", ["strict", "spec", "x"])
def test_the_token_endpoint_keeps_the_form_of_rfc_6749(alice: Person, program: Program, mode: str) -> None:
    for grant in ({"grant_type": "client_credentials"}, {"grant_type": "x"}, {}):
        headers = {"vendor-API-Key": alice.api_key, MODE: mode}
        answer = alice.client.post("/oauth2/token", data=grant, auth=(program.id, "wrong"), headers=headers)
        assert (form(answer), MODE in answer.headers) == (JSON, False)
        assert "error" in answer.json()


# Bodies

WRITES = [
    row for row in ALL if isinstance(row.body, JsonBody) and row.auth.has_token and ClientCaller in row.principals
]


def with_unknown(body: Any) -> Any:
    """The body with an unknown property in its first object."""
    if isinstance(body, list):
        first, *others = cast("list[Any]", body)
        return [with_unknown(first), *others]
    return {**body, "nonsense": 1}


@over([row for row in WRITES if row.path != "/batch"])
def test_no_write_ignores_an_unknown_property(
    endpoint: Endpoint, server: RunningServer, alice: Person, strict: Headers
) -> None:
    document = web().get(server.url + "/openapi.json").json()
    operation = document["paths"][endpoint.path][endpoint.method.lower()]
    example = operation["requestBody"]["content"][JSON]["example"]
    answer = alice.call(endpoint.method, path_of(endpoint), with_unknown(example), headers=strict)
    assert (answer.status_code, answer.json()["code"]) == (400, "unknown-members"), answer.text
    assert answer.json()["errors"][0]["pointer"].endswith("nonsense")


def test_a_misspelt_property_is_rejected_with_a_suggestion(alice: Person, strict: Headers, lenient: Headers) -> None:
    body = {"name": "A", "license_plate": "B"}
    error = alice.put("/cars", body, headers=strict)
    assert error.status_code == 400
    assert error.json()["errors"][0]["pointer"] == "/license_plate"
    assert "Did you mean 'licensePlate'?" in error.json()["detail"]
    for headers in (lenient, {}):
        answer = alice.put("/cars", body, headers=headers)
        assert (answer.status_code, answer.headers["Keyrack-Ignored"]) == (201, "license_plate")
    assert alice.put("/cars", body, headers={MODE: "strict"}).status_code == 400


def test_a_resource_can_be_read_changed_and_sent_back(alice: Person, strict: Headers) -> None:
    path = f"/cars/{alice.car()}"
    read = alice.get(f"{path}?$expand=products", headers=strict).json()
    answer = alice.put("/cars", {**read, "name": "Changed"}, headers=strict)
    assert answer.status_code == 201, answer.text
    assert set(answer.headers["Keyrack-Ignored"].split(", ")) >= {"id", "products"}
    error = alice.put("/cars", {**read, "nonsense": 1}, headers=strict).json()
    assert [fault["pointer"] for fault in error["errors"]] == ["/nonsense"]
    preferred = alice.put("/cars", read, headers={**strict, "Prefer": "handling=strict"})
    assert preferred.status_code == 400


def test_a_nested_property_is_not_let_through(alice: Person, strict: Headers) -> None:
    data = {"firstName": "N", "lastName": "N", "id": 1}
    body = {"emailAddress": "nested-mode@example.org", "userData": data}
    assert alice.put("/users", body, headers=strict).json()["errors"][0]["pointer"] == "/userData/id"


def test_a_batch_rejects_the_item(alice: Person, strict: Headers, lenient: Headers) -> None:
    items = [
        {"op": "create", "body": {"name": "A", "license_plate": "B"}},
        {"op": "create", "body": {"name": "B", "id": 5}},
    ]
    answer = alice.post("/batch", {"kind": "cars", "items": items}, headers=strict)
    refused, made = answer.json()["results"]
    assert (answer.status_code, made["status"]) == (200, 201)
    assert (refused["status"], refused["code"]) == (400, "unknown-members")
    assert refused["errors"][0]["pointer"] == "/license_plate"
    assert "Keyrack-Ignored" not in answer.headers
    answer = alice.post("/batch", {"kind": "cars", "items": items}, headers=lenient)
    assert [result["status"] for result in answer.json()["results"]] == [201, 201]


# Queries

READS = [row for row in ALL if row.method == "GET" and has_mode(row) and ClientCaller in row.principals]


@over([row for row in READS if row.auth.has_token and row not in ENDLESS])
def test_no_read_ignores_an_unknown_query_option(endpoint: Endpoint, alice: Person, strict: Headers) -> None:
    path = path_of(endpoint) + ("&" if query_of(endpoint) else "?") + "nonsense=1"
    for headers in (strict, {MODE: "strict"}, {"Prefer": "handling=strict"}):
        answer = alice.get(path, headers=headers)
        assert (answer.status_code, "nonsense" in answer.text) == (400, True), (path, answer.text)


def test_the_error_lists_the_valid_options(alice: Person, strict: Headers) -> None:
    error = alice.get("/cars?limit=1", headers=strict)
    assert error.status_code == 400
    assert {"$filter", "$top"} <= set(error.json()["errors"][0]["valid"])
    assert alice.get("/cars?limit=1").status_code == 200
    for more in ({MODE: "strict"}, {"Prefer": "handling=strict"}):
        assert alice.get("/cars?limit=1", headers=more).status_code == 400


def test_a_strict_write_rejects_unknown_query_options(alice: Person, strict: Headers) -> None:
    path = "/cars?conflicts=refuse"
    assert alice.put(path, {"name": "A"}).status_code == 201
    for headers in (strict, {MODE: "strict"}, {"Prefer": "handling=strict"}):
        assert alice.put(path, {"name": "A"}, headers=headers).status_code == 400


# Answers


def test_strict_answers_have_properties_beyond_the_spec(alice: Person, strict: Headers) -> None:
    path = f"/users/{alice.user()}"
    by_spec = set(alice.get(path).json())
    in_strict = set(alice.get(path, headers={MODE: "strict"}).json())
    assert by_spec <= in_strict == set(alice.get(path, headers=strict).json())


# Times


def shifted(**delta: int) -> str:
    return (datetime.now(UTC) + timedelta(**delta)).isoformat(timespec="seconds").replace("+00:00", "Z")


def test_a_booking_that_has_ended_is_rejected(alice: Person, strict: Headers) -> None:
    body = {"carId": alice.car_with_box(), "userId": alice.user(), "start": shifted(days=-2), "end": shifted(days=-1)}
    assert alice.put("/assignments", body).status_code == 204
    error = alice.put("/assignments", body, headers=strict)
    assert (error.status_code, error.json()["errors"][0]["pointer"]) == (400, "/end")
    assert error.json()["detail"].endswith("`end` must not be in the past.")
    assert alice.put("/assignments", {**body, "end": shifted(minutes=-2)}, headers=strict).status_code == 204
    batch = {"kind": "assignments", "items": [{"op": "create", "body": body}]}
    (result,) = alice.post("/batch", batch, headers=strict).json()["results"]
    assert (result["status"], result["code"]) == (400, "invalid-members")


def test_a_change_to_an_end_in_the_past_is_rejected(alice: Person, strict: Headers) -> None:
    steps = [{"op": "replace", "path": "/end", "value": shifted(days=-1)}]
    error = alice.patch("/assignments/2147483647", steps, headers=strict)
    assert (error.status_code, error.json()["errors"][0]["pointer"]) == (400, "/0/value")
    assert alice.patch("/assignments/2147483647", steps).status_code == 404


def test_an_event_of_next_week_is_rejected(alice: Person, strict: Headers) -> None:
    body = {
        "carId": alice.car(), "userId": alice.user(), "type": "CarOpened", "userAgent": "test",
        "dateTime": shifted(days=7), "utcDateTime": shifted(days=7),
    }  # fmt: skip
    assert alice.put("/events", body).status_code == 201
    error = alice.put("/events", body, headers=strict)
    assert (error.status_code, error.json()["errors"][0]["pointer"]) == (400, "/utcDateTime")
    assert alice.put("/events", {**body, "utcDateTime": shifted(minutes=2)}, headers=strict).status_code == 201


# Documents


def test_openapi_documents_the_mode_once(server: RunningServer) -> None:
    document = web().get(server.url + "/openapi.json").json()
    reference = {"$ref": f"#/components/parameters/{MODE}"}
    for row in ALL:
        operation = document["paths"][row.path][row.method.lower()]
        assert (reference in operation["parameters"]) == has_mode(row), row.path
    assert document["components"]["parameters"][MODE]["schema"]["enum"] == ["spec", "strict"]
    assert [name for name in document["components"]["parameters"] if name.startswith(MODE)] == [MODE]
    contents = [content["content"] for content in document["components"]["responses"].values() if "content" in content]
    assert all(next(iter(content)) == PROBLEM for content in contents)
