"""The token endpoint, and the documents that verify tokens."""

from __future__ import annotations

import random
from collections.abc import Iterator

import httpx
import pytest

from tests.support.people import PASSWORD, Person, Town, http_client, web
from tests.support.servers import RunningServer, Sql

WRONG = {
    "statusCode": 401,
    "message": "The user name or the password is wrong.",
    "error": "invalid_grant",
    "error_description": "The user name or the password is wrong.",
}


@pytest.fixture(scope="module")
def client(server: RunningServer, town: Town) -> Iterator[httpx.Client]:
    """A client with an API key and nothing else."""
    with http_client(base_url=server.url + "/v3", headers={"vendor-API-Key": town.key()}) as client:
        yield client


def ask(client: httpx.Client, **form: str) -> httpx.Response:
    return client.post("/oauth2/token", data={"grant_type": "password", **form})


def test_a_token(client: httpx.Client, alice: Person) -> None:
    answer = ask(client, username=alice.username, password=PASSWORD)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    body = answer.json()
    token = body.pop("access_token")
    assert body == {"expires_in": "3600", "token_type": "Bearer"}
    assert alice.get("/customers", headers={"Authorization": f"Bearer {token}"}).status_code == 200


def test_the_case_of_a_user_name_does_not_matter(client: httpx.Client, alice: Person) -> None:
    assert ask(client, username=alice.username.upper(), password=PASSWORD).status_code == 200


def test_the_form_may_name_its_charset(client: httpx.Client, alice: Person) -> None:
    answer = client.post(
        "/oauth2/token",
        content=f"grant_type=password&username={alice.username}&password={PASSWORD.replace(' ', '+')}",
        headers={"Content-Type": "application/x-www-form-urlencoded; charset=UTF-8"},
    )
    assert answer.status_code == 200


def test_unknown_parameters_are_ignored(client: httpx.Client, alice: Person) -> None:
    assert ask(client, username=alice.username, password=PASSWORD, scope="all").status_code == 200


def test_a_wrong_password_and_an_unknown_user_are_answered_alike(client: httpx.Client, alice: Person) -> None:
    wrong = ask(client, username=alice.username, password="wrong")
    unknown = ask(client, username="nobody-" + alice.username, password="wrong")
    for answer in (wrong, unknown):
        assert answer.status_code == 401
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["www-authenticate"] == 'Bearer realm="keyrack"'
        assert answer.json() == WRONG
    assert wrong.content == unknown.content


def test_a_disabled_manager_is_answered_like_an_unknown_one(client: httpx.Client, carol: Person, sql: Sql) -> None:
    sql.execute("update manager set is_disabled = true where username = $1", carol.username)
    answer = ask(client, username=carol.username, password=PASSWORD)
    assert (answer.status_code, answer.json()) == (401, WRONG)


def test_a_user_cannot_get_a_manager_token(client: httpx.Client, alice: Person) -> None:
    alice.user("uma.login@example.org", password="something", type="Normal")
    assert ask(client, username="uma.login@example.org", password="something").status_code == 401


@pytest.mark.parametrize(
    ("form", "error", "description"),
    [
        ("", "invalid_request", "The parameter grant_type is missing."),
        ("username=a&password=b", "invalid_request", "The parameter grant_type is missing."),
        ("grant_type=&username=a&password=b", "invalid_request", "The parameter grant_type is missing."),
        (
            "grant_type=refresh_token&username=a&password=b",
            "unsupported_grant_type",
            "The only grant_type here is password or client_credentials.",
        ),
        ("grant_type=password&password=b", "invalid_request", "The parameter username is missing."),
        ("grant_type=password&username=a", "invalid_request", "The parameter password is missing."),
        ("grant_type=password&username=&password=b", "invalid_request", "The parameter username is missing."),
        (
            "grant_type=password&username=a&username=b&password=c",
            "invalid_request",
            "A parameter is given more than once.",
        ),
        ("grant_type=password&username=%FF&password=b", "invalid_request", "The body is not a form in UTF-8."),
        ("nonsense", "invalid_request", "The body is not a form in UTF-8."),
        ("a=b&" * 10_000, "invalid_request", "The form is longer than 32768 bytes."),
        ("grant_type=password&username=a%00&password=b", "invalid_request", "The parameter username is not valid."),
        ("grant_type=password&username=a&password=%00", "invalid_request", "The parameter password is not valid."),
        (
            "grant_type=password&username=a&password=" + "b" * 1001,
            "invalid_request",
            "The parameter password is not valid.",
        ),
    ],
)
def test_a_bad_request_of_the_grant(client: httpx.Client, form: str, error: str, description: str) -> None:
    answer = client.post("/oauth2/token", content=form, headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.json() == {"error": error, "error_description": description}


def test_a_user_name_as_long_as_it_may_be(client: httpx.Client) -> None:
    strange = random.Random(1)  # characters that no compression makes small enough for an index
    name = "".join(chr(strange.randrange(0x10000, 0x1F000)) for _ in range(1000))
    answer = ask(client, username=name, password="wrong")
    assert (answer.status_code, answer.json()) == (401, WRONG)


def test_a_json_body_is_refused(client: httpx.Client, alice: Person) -> None:
    form = {"grant_type": "password", "username": alice.username, "password": PASSWORD}
    assert client.post("/oauth2/token", json=form).status_code == 415


def test_the_keys(server: RunningServer) -> None:
    answer = web().get(server.url + "/.well-known/jwks.json")
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "public, max-age=300"
    keys = answer.json()["keys"]
    assert keys
    for key in keys:
        assert (key["kty"], key["alg"], key["use"]) == ("RSA", "RS256", "sig")
        assert set(key) == {"kty", "alg", "use", "kid", "n", "e"}


def test_the_discovery_document(server: RunningServer) -> None:
    answer = web().get(server.url + "/.well-known/openid-configuration")
    assert answer.status_code == 200
    body = answer.json()
    assert body["issuer"] == server.url
    assert body["token_endpoint"] == server.url + "/v3/oauth2/token"
    assert body["jwks_uri"] == server.url + "/.well-known/jwks.json"
    assert body["id_token_signing_alg_values_supported"] == ["RS256"]
    assert body["subject_types_supported"] == ["pairwise"]
    assert {"sub", "customer_id", "email"} <= set(body["claims_supported"])
    assert web().get(body["jwks_uri"]).status_code == 200
