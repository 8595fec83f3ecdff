"""Rules that all endpoints share, checked for each endpoint: caller, customer, body and method."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import httpx
import pytest

from keyrack.api.auth_schemes import AppAuth, ClientSecretAuth, CustomerAuth, DrivePageAuth, DriverAuth, PublicAuth
from keyrack.api.endpoint import Endpoint, FormBody
from keyrack.api.event_stream import EVENTS
from keyrack.auth.access_tokens import API_AUDIENCE
from keyrack.auth.app_tokens import AUDIENCE
from keyrack.core.settings import Settings
from keyrack.http.routes import ALL
from tests.support.cases import for_all
from tests.support.drivers import as_driver, page_headers
from tests.support.people import Person, Town, http_client
from tests.support.servers import RunningServer

KEY_REFUSED = {
    "statusCode": 401,
    "message": "Access denied due to invalid subscription key."
    " Make sure to provide a valid key for an active subscription.",
    "header": "vendor-API-Key",
}
TOKEN_REFUSED = {"statusCode": 401, "message": "Unauthorized. Access token is missing or invalid."}
NO_MANAGER = "Unable to find a manager for the given OAuth ID claim data."
NO_CUSTOMER = "Unable to find a customer for the given Customer-ID."
NOTHING_HERE = "There is nothing at this path."

# The endpoints of the spec, in its order
SPEC = """
POST /oauth2/token
GET /customers
GET /cars
GET /cars/{carId}
PUT /cars
PATCH /cars/{carId}
DELETE /cars/{carId}
GET /cars/{carId}/products
GET /cars/{carId}/telemetry
GET /cars/{carId}/location
GET /cars/{carId}/location/{searchDate}
GET /cars/{carId}/assignments
GET /cars/{carId}/events
GET /users
GET /users/{userId}
PUT /users
PUT /users/assignments/customers
DELETE /users/assignments/customers
GET /users/{userId}/assignments
GET /assignments/{assignmentId}
PUT /assignments
PATCH /assignments/{assignmentId}
DELETE /assignments/{assignmentId}
GET /groups
GET /groups/{groupId}/cars
GET /groups/{groupId}/users
GET /groups/{groupId}/services
GET /groups/{groupId}/products
PUT /groups
PUT /groups/{groupId}/cars
PUT /groups/{groupId}/users
PUT /groups/{groupId}/services
PUT /groups/{groupId}/products
PATCH /groups/{groupId}
DELETE /groups/{groupId}
DELETE /groups/{groupId}/users/{userId}
DELETE /groups/{groupId}/cars/{carId}
DELETE /groups/{groupId}/services/{serviceId}
DELETE /groups/{groupId}/products/{productId}
GET /products
GET /products/{productId}
GET /products/{productId}/services
GET /products/{productId}/cars
GET /services
GET /services/{serviceId}
GET /services/{serviceId}/products
GET /services/{serviceId}/contracts
PUT /installations
DELETE /installations
PUT /pairings
DELETE /pairings
GET /brands
GET /brands/{brand}/keys
POST /sdk/token
GET /events/{eventId}
PUT /events
""".strip().splitlines()

WITHOUT_CUSTOMER = {
    "POST /oauth2/token",
    "GET /customers",
    "GET /brands",
    "GET /brands/{brand}/keys",
    "POST /sdk/token",
}
NEVER_THE_SAME = {"/me/totp", "/me/passkeys/options"}  # a new secret each time, or gone after its removal


def name(endpoint: Endpoint) -> str:
    return f"{endpoint.method} {endpoint.path}"


def over(rows: list[Endpoint]) -> Any:
    """One test for all these endpoints."""
    return for_all("endpoint", rows, label=name)


def each(rows: list[Endpoint]) -> Any:
    """A test for each of these endpoints, with rows of its own."""
    return pytest.mark.parametrize("endpoint", rows, ids=name)


def path_of(endpoint: Endpoint) -> str:
    """The endpoint's path with well-formed parameters that match no row."""
    values = {"searchDate": "2026-01-01T00:00:00Z", "brand": "Nobody"}
    ids = {parameter: values.get(parameter, "2147483647") for parameter in endpoint.parameters}
    return endpoint.path.format(**ids) + query_of(endpoint)


def query_of(endpoint: Endpoint) -> str:
    """The required query parameters of the endpoint, with the values of their examples."""
    needed = {option.name: option.schema["examples"] for option in endpoint.query_parameters if option.is_required}
    values = [f"{name}={first}" for name, (first, *_) in cast("dict[str, list[str]]", needed).items()]
    return "?" + "&".join(values) if values else ""


def calling(endpoint: Endpoint, person: Person) -> Person:
    """The endpoint's caller: the person, an app, or a driver."""
    if isinstance(endpoint.auth, DriverAuth):
        return as_driver(person)
    if isinstance(endpoint.auth, DrivePageAuth):
        return replace(person, headers=page_headers(person))
    return person.app() if isinstance(endpoint.auth, AppAuth) else person


def called(endpoint: Endpoint, person: Person, **options: Any) -> httpx.Response:
    """Return the endpoint's response to its caller for ids that match no row."""
    return calling(endpoint, person).call(endpoint.method, path_of(endpoint), **options)


PUBLIC = [endpoint for endpoint in ALL if isinstance(endpoint.auth, PublicAuth)]
OF_APPS = [endpoint for endpoint in ALL if isinstance(endpoint.auth, AppAuth)]
KEYED = [endpoint for endpoint in ALL if endpoint.auth.has_api_key]
TOKENED = [endpoint for endpoint in ALL if endpoint.auth.has_token]
WITH_CUSTOMER = [endpoint for endpoint in ALL if isinstance(endpoint.auth, CustomerAuth)]
WITH_BODY = [endpoint for endpoint in ALL if endpoint.body_adapter is not None]
WITH_JSON = [endpoint for endpoint in WITH_BODY if not isinstance(endpoint.body, FormBody)]
# Streams without an end are tested in tests/changelog/endpoints/test_live.py
ENDLESS = [endpoint for endpoint in ALL if endpoint.responses.media_type == EVENTS]
PATHS = list({endpoint.path: endpoint for endpoint in ALL}.values())


@pytest.fixture(scope="module")
def anyone(server: RunningServer) -> Iterator[httpx.Client]:
    """A client without credentials."""
    with http_client(base_url=server.url) as client:
        yield client


@pytest.fixture(scope="module")
def ghost(town: Town) -> Iterator[Person]:
    """A manager whose token is valid after the manager was deleted."""
    person = town.person("ghost")
    person.sql.execute("delete from manager where username = $1", person.username)
    yield person
    person.client.close()


def test_the_table_is_the_spec() -> None:
    assert len(SPEC) == 56
    assert sorted(name(endpoint) for endpoint in ALL if not endpoint.doc.is_extension) == sorted(SPEC)


def test_endpoints_without_a_customer_are_those_of_the_spec() -> None:
    assert {
        name(endpoint) for endpoint in ALL if not endpoint.auth.has_customer and not endpoint.doc.is_extension
    } == WITHOUT_CUSTOMER


def test_only_the_token_and_public_endpoints_need_no_token() -> None:
    assert {name(endpoint) for endpoint in ALL if not endpoint.auth.has_token and not endpoint.doc.is_extension} == {
        "POST /oauth2/token"
    }
    assert {name(endpoint) for endpoint in ALL if isinstance(endpoint.auth, ClientSecretAuth)} == {
        "POST /oauth2/token",
        "POST /oauth2/revoke",
    }
    assert {name(endpoint) for endpoint in PUBLIC} == {
        "GET /",
        "GET /health",
        "GET /health/live",
        "GET /health/ready",
        "GET /openapi.json",
        "GET /docs",
        "GET /docs/errors",
        "GET /.well-known/jwks.json",
        "GET /.well-known/openid-configuration",
        "GET /.well-known/oauth-authorization-server",
        "GET /key-forms/{keyFormId}.svg",
        "GET /drive/api/settings",
    }


def refused_401(answer: httpx.Response, body: dict[str, Any]) -> None:
    assert answer.status_code == 401
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["www-authenticate"] == 'Bearer realm="keyrack"'
    assert answer.json() == body


def refused_text(answer: httpx.Response, status: int, text: str) -> None:
    assert (answer.status_code, answer.text) == (status, text)
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


# Authentication


@over(KEYED)
@pytest.mark.parametrize("base", ["/v3", ""], ids=["v3", "root"])
def test_a_missing_api_key_gets_401(endpoint: Endpoint, base: str, alice: Person) -> None:
    options = {"headers": alice.headers | {"vendor-API-Key": None}}
    url = alice.client.base_url.join(base + path_of(endpoint))
    refused_401(alice.call(endpoint.method, str(url), **options), KEY_REFUSED)


@over(KEYED)
def test_an_invalid_api_key_gets_401(endpoint: Endpoint, alice: Person) -> None:
    for key in ("nonsense", "", "\xe4\xf6\xfc"):
        headers = {"vendor-API-Key": key.encode("latin-1")}
        refused_401(alice.call(endpoint.method, path_of(endpoint), headers=headers), KEY_REFUSED)


@over(TOKENED)
@pytest.mark.parametrize("base", ["/v3", ""], ids=["v3", "root"])
def test_a_missing_token_gets_401(endpoint: Endpoint, base: str, alice: Person) -> None:
    url = alice.client.base_url.join(base + path_of(endpoint))
    answer = alice.call(endpoint.method, str(url), headers={"Authorization": None})
    refused_401(answer, TOKEN_REFUSED)


@over(TOKENED)
def test_an_invalid_token_gets_401(endpoint: Endpoint, alice: Person) -> None:
    for value in ("Bearer nonsense", "Bearer", f"Basic {alice.token}", alice.token, f"Bearer {alice.token}x"):
        answer = alice.call(endpoint.method, path_of(endpoint), headers={"Authorization": value})
        refused_401(answer, TOKEN_REFUSED)


@over(TOKENED)
def test_the_key_is_checked_before_the_token(endpoint: Endpoint, alice: Person) -> None:
    headers = {"vendor-API-Key": "nonsense", "Authorization": "Bearer nonsense"}
    refused_401(alice.call(endpoint.method, path_of(endpoint), headers=headers), KEY_REFUSED)


@over(TOKENED)
def test_a_deleted_manager_gets_404(endpoint: Endpoint, ghost: Person) -> None:
    refused_text(ghost.call(endpoint.method, path_of(endpoint)), 404, NO_MANAGER)


@over(OF_APPS)
@pytest.mark.parametrize("base", ["/v3", ""], ids=["v3", "root"])
def test_app_endpoints_require_an_id_token(endpoint: Endpoint, base: str, alice: Person) -> None:
    """A manager with an API key may not call for a user, either."""
    url = str(alice.client.base_url.join(base + path_of(endpoint)))
    token = alice.app().token
    for value in (None, "Bearer", "Bearer nonsense", f"Basic {token}", token, f"Bearer {token}x", f"Bearer {token} x"):
        answer = alice.call(endpoint.method, url, headers={"Authorization": value})
        refused_401(answer, TOKEN_REFUSED)
    refused_401(alice.call(endpoint.method, url), TOKEN_REFUSED)


@over(OF_APPS)
def test_expired_and_foreign_id_tokens_get_401(
    endpoint: Endpoint, alice: Person, bob: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = alice.user()
    for changed, value in (
        ("keyrack.auth.authenticator.TOKEN_SECONDS", -1),
        ("keyrack.auth.app_tokens.audience", lambda customer: f"{AUDIENCE}/{bob.customer}"),
        ("keyrack.auth.app_tokens.audience", lambda customer: API_AUDIENCE),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(changed, value)
            app = alice.app_of(user)
        refused_401(app.call(endpoint.method, path_of(endpoint)), TOKEN_REFUSED)


@over([endpoint for endpoint in TOKENED if endpoint.auth.has_api_key])
def test_an_id_token_is_no_access_token(endpoint: Endpoint, alice: Person) -> None:
    headers = {"Authorization": f"Bearer {alice.app().token}"}
    refused_401(alice.call(endpoint.method, path_of(endpoint), headers=headers), TOKEN_REFUSED)


@over(OF_APPS)
def test_the_customer_of_an_app_comes_from_its_id_token(endpoint: Endpoint, alice: Person, bob: Person) -> None:
    plain = called(endpoint, alice)
    other = called(endpoint, alice, headers={"Customer-ID": str(bob.customer), "vendor-API-Key": "nonsense"})
    if endpoint.path.endswith("/nonce"):  # each response has a different nonce
        assert plain.status_code == other.status_code == 200
    else:
        assert (plain.status_code, plain.content) == (other.status_code, other.content)


def test_the_bearer_scheme_ignores_case(alice: Person) -> None:
    assert alice.get("/cars", headers={"Authorization": f"bearer {alice.token}"}).status_code == 200


def test_header_names_ignore_case(alice: Person) -> None:
    headers = {name.upper(): value for name, value in alice.headers.items()}
    assert alice.client.get("/cars", headers=headers).status_code == 200


# The customer


@over(WITH_CUSTOMER)
def test_a_missing_customer_gets_400(endpoint: Endpoint, alice: Person) -> None:
    path = path_of(endpoint)
    answer = alice.call(endpoint.method, path, headers={"Customer-ID": None})
    refused_text(answer, 400, "The header Customer-ID is missing.")
    answer = alice.call(endpoint.method, path, headers={"Customer-ID": ""})
    refused_text(answer, 400, "The header Customer-ID is missing.")


@over(WITH_CUSTOMER)
def test_a_customer_that_is_not_an_integer_gets_400(endpoint: Endpoint, alice: Person) -> None:
    for value in ("Alice", "1.5", "0x10", "+", "1 2", f"{alice.customer},{alice.customer}", "1_0", "\xb2"):
        headers = {"Customer-ID": value.encode("latin-1")}
        answer = alice.call(endpoint.method, path_of(endpoint), headers=headers)
        refused_text(answer, 400, "The header Customer-ID must be an integer.")


@over(WITH_CUSTOMER)
def test_another_manager_s_customer_gets_the_same_404_as_an_unknown_one(
    endpoint: Endpoint, alice: Person, bob: Person
) -> None:
    for value in (str(alice.customer), "2147483647", "0", "-1", str(2**31), "9" * 40):
        answer = bob.call(endpoint.method, path_of(endpoint), headers={"Customer-ID": value})
        refused_text(answer, 404, NO_CUSTOMER)


def test_two_customer_headers_get_400(alice: Person) -> None:
    headers = [*alice.headers.items(), ("Customer-ID", "1")]
    refused_text(alice.client.get("/cars", headers=headers), 400, "The header Customer-ID must be an integer.")


@over([endpoint for endpoint in TOKENED if not endpoint.auth.has_customer and endpoint.path not in NEVER_THE_SAME])
def test_endpoints_without_a_customer_ignore_the_header(endpoint: Endpoint, alice: Person) -> None:
    options: dict[str, Any] = {"json": {}} if endpoint.body_adapter else {}
    answers = [
        alice.call(endpoint.method, path_of(endpoint), headers={"Customer-ID": value}, **options)
        for value in (None, "nonsense", str(alice.customer))
    ]
    assert len({(answer.status_code, answer.content) for answer in answers}) == 1
    assert "Customer-ID" not in answers[0].text


# The method


def unknown_method(path: str) -> str:
    known = {endpoint.method for endpoint in ALL if endpoint.path == path}
    return next(method for method in ("POST", "PATCH", "PUT", "DELETE") if method not in known)


@over(PATHS)
def test_an_unknown_method_gets_405(endpoint: Endpoint, alice: Person) -> None:
    known = sorted(row.method for row in ALL if row.path == endpoint.path)
    for method in (unknown_method(endpoint.path), "OPTIONS", "TRACE", "PROPFIND", "PURGE"):
        answer = alice.call(method, path_of(endpoint))
        refused_text(answer, 405, f"The method is not allowed here. This path allows {', '.join(known)}.")
        assert answer.headers["allow"] == ", ".join(known)


@over([endpoint for endpoint in PATHS if endpoint.auth.has_api_key])
def test_unauthenticated_callers_do_not_see_the_methods_of_a_path(
    endpoint: Endpoint, alice: Person, ghost: Person
) -> None:
    for method in (unknown_method(endpoint.path), "OPTIONS", "TRACE", "PROPFIND", "PURGE"):
        path = path_of(endpoint)
        refused_401(alice.call(method, path, headers={"vendor-API-Key": "nonsense"}), KEY_REFUSED)
        if endpoint.auth.has_token:
            refused_401(alice.call(method, path, headers={"Authorization": None}), TOKEN_REFUSED)
            refused_text(ghost.call(method, path), 404, NO_MANAGER)


@over([endpoint for endpoint in PATHS if endpoint.auth.has_customer])
def test_the_method_is_checked_before_the_customer(endpoint: Endpoint, alice: Person) -> None:
    answer = alice.call(unknown_method(endpoint.path), path_of(endpoint), headers={"Customer-ID": "nonsense"})
    assert answer.status_code == 405


@over([endpoint for endpoint in ALL if endpoint.method == "GET" and endpoint not in ENDLESS])
def test_head_is_get_without_a_body(endpoint: Endpoint, alice: Person) -> None:
    path = path_of(endpoint)
    caller = calling(endpoint, alice)
    head, get = caller.call("HEAD", path), caller.get(path)
    assert head.content == b""
    assert head.status_code == get.status_code
    for header in ("content-type", "content-length"):
        assert head.headers.get(header) == get.headers.get(header)  # a stream has no length


# The body


def content(endpoint: Endpoint) -> dict[str, str]:
    return {
        "Content-Type": "application/x-www-form-urlencoded"
        if isinstance(endpoint.body, FormBody)
        else "application/json"
    }


@over(WITH_BODY)
@pytest.mark.parametrize("base", ["/v3", ""], ids=["v3", "root"])
def test_a_wrong_content_type_gets_415(endpoint: Endpoint, base: str, alice: Person) -> None:
    wrong = ["text/plain", "application/xml", "", "nonsense", "application/jsonx", "multipart/form-data; boundary=x"]
    wrong += (
        ["application/json"]
        if isinstance(endpoint.body, FormBody)
        else ["application/x-www-form-urlencoded", "application/json; charset=utf-16"]
    )
    url = str(alice.client.base_url.join(base + path_of(endpoint)))
    for media_type in wrong:
        answer = calling(endpoint, alice).call(
            endpoint.method, url, content=b"{}", headers={"Content-Type": media_type}
        )
        assert answer.status_code == 415, media_type
        assert answer.headers["content-type"] == "application/json"
        body = answer.json()
        trace, detail = body.pop("traceId"), body.pop("detail")
        came = f"is {media_type!r}" if media_type else "is missing"
        assert detail == f"The header Content-Type {came}. It must be {answer.headers['accept'].replace(', ', ' or ')}."
        assert answer.headers["accept"].startswith(content(endpoint)["Content-Type"])
        assert body == {
            "type": "https://tools.ietf.org/html/rfc7231#section-6.5.13",
            "title": "Unsupported Media Type",
            "status": "415",
        }
        assert isinstance(trace, str)
        assert len(trace) > 20


@over(WITH_BODY)
def test_a_missing_content_type_gets_415(endpoint: Endpoint, alice: Person) -> None:
    assert called(endpoint, alice, content=b"{}").status_code == 415


@over(WITH_BODY)
def test_an_encoded_body_gets_415(endpoint: Endpoint, alice: Person) -> None:
    headers = content(endpoint) | {"Content-Encoding": "gzip"}
    assert called(endpoint, alice, content=b"{}", headers=headers).status_code == 415


@over(WITH_JSON)
@pytest.mark.parametrize("media_type", ["application/json; charset=utf-8", "Application/JSON;charset=UTF-8"])
def test_json_with_a_charset_is_json(endpoint: Endpoint, media_type: str, alice: Person) -> None:
    answer = called(endpoint, alice, content=b"0", headers={"Content-Type": media_type})
    assert (answer.status_code, answer.text.startswith("Couldn't ")) == (400, True)


@over(WITH_JSON)
def test_malformed_json_gets_400(endpoint: Endpoint, alice: Person) -> None:
    for body in (b"", b"{", b"{]", b'{"a":}', b"nonsense", b"{}{}", b"\xff\xfe", b'{"name": "\xff"}'):
        answer = called(endpoint, alice, content=body, headers=content(endpoint))
        assert answer.status_code == 400, body
        assert answer.text.startswith(f"Couldn't {endpoint.body.action}. The body is not valid JSON: "), answer.text
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"


@over(WITH_JSON)
def test_a_missing_body_gets_400(endpoint: Endpoint, alice: Person) -> None:
    answer = called(endpoint, alice)
    assert answer.status_code == 400
    assert answer.text.startswith(f"Couldn't {endpoint.body.action}. The body is not valid JSON: ")


@over(WITH_JSON)
def test_a_body_of_the_wrong_json_type_gets_400(endpoint: Endpoint, alice: Person) -> None:
    assert endpoint.body_adapter is not None
    form = endpoint.body_adapter.json_schema()["type"]
    for value in (None, 0, True, "text", {} if form == "array" else []):
        answer = called(endpoint, alice, content=json.dumps(value).encode(), headers=content(endpoint))
        refused_text(answer, 400, f"Couldn't {endpoint.body.action}. The body must be a JSON {form}.")


@over(WITH_BODY)
def test_a_body_above_the_size_limit_gets_413(endpoint: Endpoint, alice: Person, settings: Settings) -> None:
    most = endpoint.body.max_bytes(settings)
    assert most == (141_000 if endpoint.path == "/sdk/boxlog" else 1_000_000)
    answer = called(endpoint, alice, content=b" " * most, headers=content(endpoint))
    refused_text(answer, 413, f"The body must be smaller than {most} bytes.")


@over(WITH_JSON)
def test_a_body_below_the_size_limit_is_read(endpoint: Endpoint, alice: Person, settings: Settings) -> None:
    body = b" " * (endpoint.body.max_bytes(settings) - 2) + b"0"
    answer = called(endpoint, alice, content=body, headers=content(endpoint))
    assert (answer.status_code, answer.text.startswith("Couldn't ")) == (400, True)


@over(
    [
        endpoint
        for endpoint in ALL
        if endpoint.body_adapter is None
        and endpoint.auth.has_token
        and endpoint not in ENDLESS
        and endpoint.path not in NEVER_THE_SAME
    ]
)
def test_an_unexpected_body_is_ignored(endpoint: Endpoint, alice: Person) -> None:
    plain = called(endpoint, alice)
    headers = {"Content-Type": "text/plain"}
    strange = called(endpoint, alice, content=b"\xff{", headers=headers)
    assert (plain.status_code, plain.content) == (strange.status_code, strange.content)


# The order of checks

WITH_CUSTOMER_AND_BODY = [endpoint for endpoint in WITH_BODY if endpoint.auth.has_customer]


@over(WITH_CUSTOMER_AND_BODY)
def test_the_customer_is_checked_before_the_content_type(endpoint: Endpoint, alice: Person) -> None:
    for value, status in (("nonsense", 400), ("2147483647", 404)):
        headers = {"Customer-ID": value, "Content-Type": "text/plain"}
        answer = called(endpoint, alice, content=b"{}", headers=headers)
        assert (answer.status_code, "Customer-ID" in answer.text) == (status, True)


@over([endpoint for endpoint in WITH_BODY if endpoint.auth.has_token or isinstance(endpoint.auth, AppAuth)])
def test_the_token_is_checked_before_the_body(endpoint: Endpoint, alice: Person) -> None:
    headers = {"Authorization": "Bearer x", "Content-Type": "text/plain"}
    answer = called(endpoint, alice, content=b" " * 1_000_000, headers=headers)
    refused_401(answer, TOKEN_REFUSED)


@over(WITH_BODY)
def test_the_content_type_is_checked_before_the_body(endpoint: Endpoint, alice: Person) -> None:
    answer = called(endpoint, alice, content=b"{", headers={"Content-Type": "text/plain"})
    assert answer.status_code == 415


@over([endpoint for endpoint in WITH_JSON if endpoint.parameters])
def test_the_body_is_checked_before_the_resource(endpoint: Endpoint, alice: Person) -> None:
    answer = called(endpoint, alice, content=b"{", headers=content(endpoint))
    assert (answer.status_code, answer.text.startswith("Couldn't ")) == (400, True)


# Unknown paths


@pytest.mark.parametrize("path", ["/nothing", "/cars/1/nothing", "/v3/cars", "/car", "/Cars", "/v2/cars", "/cars%2F1"])
@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "POST", "OPTIONS", "PROPFIND", "PURGE"])
def test_an_unknown_path_gets_404(method: str, path: str, alice: Person, ghost: Person) -> None:
    refused_401(alice.call(method, path, headers={"vendor-API-Key": "nonsense"}), KEY_REFUSED)
    refused_401(alice.call(method, path, headers={"Authorization": None}), TOKEN_REFUSED)
    refused_text(ghost.call(method, path), 404, NO_MANAGER)
    refused_text(alice.call(method, path), 404, NOTHING_HERE)


@pytest.mark.parametrize("base", ["/v3", ""], ids=["v3", "root"])
def test_both_base_paths_give_the_same_responses(base: str, alice: Person) -> None:
    car = alice.car("Both")
    for path in (f"/cars/{car}", f"/cars/{car}/", "/customers", "/groups"):
        answer = alice.get(str(alice.client.base_url.join(base + path)))
        assert (answer.status_code, answer.content) == (200, alice.get(path).content)


def test_public_endpoints_need_no_credentials(anyone: httpx.Client) -> None:
    for endpoint in PUBLIC:
        for base in ("/v3", ""):
            answer = anyone.get(base + path_of(endpoint))
            assert answer.status_code == (404 if endpoint.parameters else 200)
            assert answer.headers["content-type"] == (
                "text/plain; charset=utf-8" if endpoint.parameters else endpoint.responses.media_type
            )


CHANGE_THE_GROUND = {
    ("DELETE", "/cars/{carId}"),
    ("PUT", "/installations"),
    ("DELETE", "/installations"),
    ("PUT", "/pairings"),
    ("DELETE", "/pairings"),
    ("PUT", "/users/assignments/customers"),
    ("DELETE", "/users/assignments/customers"),
    ("POST", "/users/{userId}/erase"),
    ("POST", "/batch"),
    ("PUT", "/booking-settings"),
    ("PUT", "/cars/{carId}/booking-settings"),
}


def test_writes_that_assignments_depend_on_are_serialized_with_them() -> None:
    assert {(row.method, row.path) for row in ALL if row.concurrency.serialized == "always"} == CHANGE_THE_GROUND
