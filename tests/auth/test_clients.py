"""Machine clients: creation, permissions, and how soon a revocation takes effect."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from keyrack.api.endpoint import Endpoint
from keyrack.api.permissions import PROGRAMS, Free, Permission, Role
from keyrack.api.principals import FOR_PEOPLE
from keyrack.core.settings import Settings
from keyrack.http.routes import ALL
from tests.http.test_contract import over, path_of
from tests.support.event_stream import watching
from tests.support.people import Person, Town, fetch, http_client
from tests.support.servers import SELDOM, RunningServer, Sql, eventually

RIGHTS = [endpoint for endpoint in ALL if isinstance(endpoint.auth.permission, Permission)]
Scoped = dict[Permission, dict[str, str]]
INVALID = "There is no machine client with this id and secret, or it may not call any more."


@pytest.fixture(scope="module")
def other(dsn: str, settings: Settings) -> Iterator[RunningServer]:
    """A second server on the same database."""
    with RunningServer(settings, dsn, worker=False) as running:
        yield running


def posted(person: Person, what: str, *, auth: Any = None, header: str | None = None, **form: str) -> httpx.Response:
    """A form, sent with the installation's key."""
    headers = {"vendor-API-Key": person.api_key} | ({"Authorization": header} if header else {})
    return person.client.post(f"/oauth2/{what}", data=form, auth=auth, headers=headers)


class Program:
    """A machine client of a person's customer."""

    def __init__(self, owner: Person, *scopes: str, **more: Any) -> None:
        made = owner.put("/clients", {"name": "Booking", "scopes": list(scopes) or ["cars:read"], **more})
        assert made.status_code == 201, made.text
        self.owner = owner
        self.number: int = made.json()["id"]
        self.id: str = made.json()["clientId"]
        self.secret: str = made.json()["clientSecret"]

    @property
    def path(self) -> str:
        return f"/clients/{self.number}"

    def ask(self, secret: str | None = None, **form: str) -> httpx.Response:
        """The token endpoint's answer."""
        auth = (quote(self.id), quote(secret or self.secret))
        return posted(self.owner, "token", auth=auth, **{"grant_type": "client_credentials", **form})

    def headers(self, secret: str | None = None, **form: str) -> dict[str, str]:
        answer = self.ask(secret, **form)
        assert answer.status_code == 200, answer.text
        return {"Authorization": f"Bearer {answer.json()['access_token']}"}

    def change(self, path: str, value: object) -> httpx.Response:
        return self.owner.patch(self.path, [{"op": "replace", "path": path, "value": value}])


def test_a_new_client_gets_a_token_and_calls(alice: Person) -> None:
    program = Program(alice, "cars:write")
    assert program.secret.startswith("keyrack_client_")
    answer = program.ask()
    body = answer.json()
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
    assert (body.pop("access_token", "") != "") and body == {
        "expires_in": 3600, "token_type": "Bearer", "scope": "cars:read cars:write",
    }  # fmt: skip
    headers = program.headers()
    car = alice.put("/cars", {"name": "By a program"}, headers=headers)
    assert car.status_code == 201
    assert alice.get(f"/cars/{car.json()['id']}", headers=headers).json()["name"] == "By a program"
    listed = alice.get(program.path).json()
    assert listed["scopes"] == ["cars:write"] and listed["lastUsed"] and listed["managedHere"]
    assert program.secret not in json.dumps([listed, alice.get("/clients").json()])
    assert alice.get("/customers", headers=headers).json() == alice.get("/customers").json()


def test_credentials_may_be_in_the_form(alice: Person) -> None:
    program = Program(alice)
    form = {"grant_type": "client_credentials", "client_id": program.id, "client_secret": program.secret}
    assert posted(alice, "token", **form).status_code == 200
    wrong = posted(alice, "token", **form | {"client_secret": "wrong"})
    assert (wrong.status_code, wrong.json()["error"]) == (401, "invalid_client")
    assert wrong.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("scope", ["cars:read", "cars:write", "cars:write keys:read"])
def test_a_token_may_have_fewer_scopes(alice: Person, scope: str) -> None:
    program = Program(alice, "cars:write", "keys:read")
    answer = program.ask(scope=scope)
    assert answer.json()["scope"] == scope
    headers = {"Authorization": f"Bearer {answer.json()['access_token']}"}
    assert alice.get("/cars", headers=headers).status_code == 200
    may_write = alice.put("/cars", {"name": "X"}, headers=headers).status_code == 201
    assert may_write == ("cars:write" in scope)


def test_a_parameter_without_a_value_counts_as_omitted(alice: Person) -> None:
    """RFC 6749, section 3.2. The header authenticates the client."""
    program = Program(alice, "cars:write", "keys:read")
    answer = program.ask(scope="", client_id="", client_secret="")
    assert (answer.status_code, answer.json()["scope"]) == (200, "cars:read cars:write keys:read")
    form = {"grant_type": "client_credentials", "client_id": program.id, "client_secret": ""}
    missing = posted(alice, "token", **form)
    assert (missing.status_code, missing.json()["error"]) == (400, "invalid_request")
    assert "client_secret is missing" in missing.text
    none = posted(alice, "token", grant_type="")
    assert (none.status_code, "grant_type is missing" in none.text) == (400, True)


REFUSED_FORMS: list[tuple[dict[str, str], str, int]] = [
    ({"scope": "cars:raed"}, "invalid_scope", 400),
    ({"scope": "users:read"}, "invalid_scope", 400),  # the client does not have it
    ({"scope": "clients:write"}, "invalid_scope", 400),
    ({"scope": " "}, "invalid_scope", 400),
    ({"grant_type": "refresh_token"}, "unsupported_grant_type", 400),
    ({"client_id": "another"}, "invalid_request", 400),
    ({"client_secret": "x"}, "invalid_request", 400),  # in both ways
]


@pytest.mark.parametrize(("form", "error", "status"), REFUSED_FORMS)
def test_what_is_refused(alice: Person, form: dict[str, str], error: str, status: int) -> None:
    answer = Program(alice).ask(**form)
    assert (answer.status_code, answer.json()["error"]) == (status, error)
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("header", ["Basic", "Basic !", "Basic YQ==", "Basic " + "YWFh" * 2_000, "Basic /////w=="])
def test_malformed_authorization_headers_are_refused(alice: Person, header: str) -> None:
    answer = posted(alice, "token", grant_type="client_credentials", header=header)
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
    assert answer.headers["www-authenticate"].startswith("Basic")


def test_a_wrong_id_and_a_wrong_secret_get_the_same_answer(alice: Person) -> None:
    program = Program(alice)
    unknown = b64encode(b"1b4e28ba-2fa1-41d2-883f-0016d3cca427:x").decode()
    answers = [
        program.ask("wrong"),
        posted(alice, "token", grant_type="client_credentials", header=f"Basic {unknown}"),
    ]
    assert program.change("/enabled", False).status_code == 204
    answers.append(program.ask())
    for answer in answers:
        told = {"statusCode": 401, "message": INVALID, "error": "invalid_client", "error_description": INVALID}
        assert (answer.status_code, answer.json()) == (401, told)


def test_guesses_of_secrets_are_throttled(carol: Person, town: Town) -> None:
    program = Program(carol)
    statuses = [program.ask(f"wrong {number}").status_code for number in range(12)]
    assert statuses[0] == 401 and statuses[-1] == 429
    assert program.ask().status_code == 429, "at this address, for this client"


@pytest.fixture(scope="module")
def scoped(alice: Person) -> Scoped:
    """Clients of one scope each: some that write, some that read."""
    some = [one for number, one in enumerate(PROGRAMS) if number % 4 == 0]
    return {one: Program(alice, one).headers() for one in some}


@over([row for row in ALL if row.auth.permission is Free.PERSON])
def test_endpoints_for_people_refuse_clients(alice: Person, endpoint: Endpoint) -> None:
    answer = alice.call(endpoint.method, path_of(endpoint), {}, headers=Program(alice).headers())
    assert answer.status_code in (400, 403)
    assert answer.status_code == 400 or answer.json()["detail"] == FOR_PEOPLE.text  # a new client gets problems


def test_other_customers_do_not_see_the_client(alice: Person, bob: Person, town: Town) -> None:
    program = Program(alice)
    assert all(client["id"] != program.number for client in bob.get("/clients").json())
    for answer in (
        bob.get(program.path), bob.get(program.path + "/secrets"), bob.put(program.path + "/secrets"),
        bob.delete(program.path), bob.patch(program.path, [{"op": "replace", "path": "/enabled", "value": False}]),
    ):  # fmt: skip
        assert answer.status_code == 404
    assert bob.get("/cars", headers=program.headers()).status_code == 404, "not in another customer"
    manager = town.person("no owner", Role.MANAGER)
    assert manager.get("/clients").status_code == 403
    manager.client.close()


BAD: list[dict[str, Any]] = [
    {"scopes": ["cars:read"]},
    {"name": "", "scopes": ["cars:read"]},
    {"name": "X"},
    {"name": "X", "scopes": []},
    {"name": "X", "scopes": ["cars:raed"]},
    {"name": "X", "scopes": ["clients:write"]},
    {"name": "X", "scopes": ["managers:write"]},
    {"name": "X", "scopes": "cars:read"},
    {"name": "X", "scopes": ["cars:read"], "expires": "2020-01-01T00:00:00Z"},
    {"name": "X", "scopes": ["cars:read"], "expires": "soon"},
    {"name": "X", "scopes": ["cars:read"], "expirs": "2040-01-01T00:00:00Z"},
]


@pytest.mark.parametrize("body", BAD)
def test_grants_fail_closed(alice: Person, body: dict[str, Any]) -> None:
    before = len(alice.get("/clients").json())
    assert alice.put("/clients", body).status_code == 400
    assert len(alice.get("/clients").json()) == before


def test_a_client_is_changed(alice: Person) -> None:
    program = Program(alice)
    until = (datetime.now(UTC) + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    for path, value in (("/name", "Other"), ("/scopes", ["users:read", "cars:read"]), ("/expires", until)):
        assert program.change(path, value).status_code == 204
    found = alice.get(program.path).json()
    assert (found["name"], found["scopes"], found["expires"]) == ("Other", ["cars:read", "users:read"], until)
    for step in ({"op": "replace", "path": "/expires"}, {"op": "replace", "path": "/expires", "value": None}):
        assert alice.patch(program.path, [step]).status_code == 400  # no expiry must be explicit
    assert alice.patch(program.path, [{"op": "remove", "path": "/expires"}]).status_code == 204
    assert alice.get(program.path).json()["expires"] is None
    for step in ({"op": "remove", "path": "/scopes"}, {"op": "remove", "path": "/name"}):
        assert alice.patch(program.path, [step]).status_code == 400
    assert program.change("/scopes", ["cars:raed"]).status_code == 400
    tag = alice.get(program.path).headers["etag"]
    assert program.change("/name", "Again").status_code == 204
    stale = alice.patch(program.path, [{"op": "replace", "path": "/name", "value": "Late"}], headers={"If-Match": tag})
    assert stale.status_code == 412
    assert alice.delete(program.path).status_code == 204
    assert alice.get(program.path).status_code == 404
    assert program.ask().status_code == 401


def test_a_secret_is_replaced_without_interruption(alice: Person) -> None:
    program = Program(alice)
    old = program.headers()
    second = alice.put(program.path + "/secrets")
    assert second.status_code == 201
    assert alice.put(program.path + "/secrets").status_code == 409, "two at a time"
    new = program.headers(second.json()["clientSecret"])
    assert alice.get("/cars", headers=old).status_code == 200
    first = next(one for one in alice.get(program.path + "/secrets").json() if one["id"] != second.json()["id"])
    assert first["lastUsed"]
    assert alice.delete(f"{program.path}/secrets/{first['id']}").status_code == 204
    eventually(lambda: alice.get("/cars", headers=old).status_code == 401, "the end of the old one's token")
    assert alice.get("/cars", headers=new).status_code == 200
    assert program.ask().status_code == 401
    assert alice.delete(f"{program.path}/secrets/{first['id']}").status_code == 404


TAKEN = ["/enabled", "/scopes", "client", "expires", "secret", "token"]


@pytest.mark.parametrize("what", TAKEN)
def test_a_revocation_holds_in_every_process_and_open_stream(
    alice: Person, other: RunningServer, sql: Sql, what: str
) -> None:
    program = Program(alice, "cars:read", "live:read")
    headers = {**alice.headers, **program.headers()}
    with (
        http_client(base_url=other.url + "/v3", headers=headers) as elsewhere,
        watching(alice, "?topics=cars", url=other.url, Authorization=headers["Authorization"]) as stream,
    ):
        assert elsewhere.get("/cars").status_code == alice.get("/cars", headers=headers).status_code == 200
        if what == "client":
            alice.delete(program.path)
        elif what == "secret":
            (secret,) = alice.get(program.path + "/secrets").json()
            assert alice.delete(f"{program.path}/secrets/{secret['id']}").status_code == 204
        elif what == "token":
            token = headers["Authorization"].removeprefix("Bearer ")
            shown = {"client_id": program.id, "client_secret": program.secret}
            assert posted(alice, "revoke", token=token, **shown).status_code == 200
        elif what == "expires":
            sql.execute("update client set expires_at = now() where client_id = $1", program.number)
        else:
            assert program.change(what, False if what == "/enabled" else ["keys:read"]).status_code == 204
        expected = 403 if what == "/scopes" else 401
        eventually(lambda: elsewhere.get("/cars").status_code == expected, "the refusal of the other process")
        eventually(lambda: alice.get("/cars", headers=headers).status_code == expected, "the refusal here")
        stream.ends()


def test_revocations_are_limited(dsn: str, settings: Settings, sql: Sql) -> None:
    """Each revocation is stored until the token expires, and a client may get any number of tokens."""
    few = settings.model_copy(update={"revocation_burst": 2, "revocation_rate": SELDOM})
    with RunningServer(few, dsn, worker=False) as running:
        town = Town(sql, running)
        for person in (town.person("dora"), town.person("emil")):  # each manager separately
            program = Program(person)
            shown = {"client_id": program.id, "client_secret": program.secret}
            statuses = [
                posted(person, "revoke", token=program.headers()["Authorization"][7:], **shown).status_code
                for _ in range(3)
            ]
            assert statuses == [200, 200, 429]
            person.client.close()


def test_a_token_is_revoked(alice: Person, other: RunningServer) -> None:
    program = Program(alice)
    headers, stays = program.headers(), program.headers()
    token = headers["Authorization"].removeprefix("Bearer ")

    def revoke(**form: str) -> httpx.Response:
        return posted(alice, "revoke", token=token, **form)

    assert revoke().json()["error"] == "invalid_client", "a client shows itself"
    stranger = Program(alice)
    refused = revoke(client_id=stranger.id, client_secret=stranger.secret)
    assert (refused.status_code, refused.json()["error"]) == (400, "unauthorized_client")
    assert alice.get("/cars", headers=headers).status_code == 200
    for _ in range(2):  # an ended token counts as revoked
        done = revoke(client_id=program.id, client_secret=program.secret, token_type_hint="refresh_token")
        assert (done.status_code, done.content) == (200, b"")
    with http_client(base_url=other.url + "/v3", headers={**alice.headers, **headers}) as elsewhere:
        eventually(lambda: elsewhere.get("/cars").status_code == 401, "the refusal of the other process")
    assert alice.get("/cars", headers=headers).status_code == 401
    assert alice.get("/cars", headers=stays).status_code == 200
    assert posted(alice, "revoke", token="nonsense").status_code == 200
    assert posted(alice, "revoke").json()["error"] == "invalid_request"


def test_a_manager_revokes_an_own_token(carol: Person) -> None:
    token = carol.headers["Authorization"].removeprefix("Bearer ")
    assert posted(carol, "revoke", token=token).status_code == 200
    assert carol.get("/cars").status_code == 401


def test_the_api_key_may_be_omitted_if_a_setting_allows_it(alice: Person, dsn: str, settings: Settings) -> None:
    program = Program(alice)
    headers = {"Customer-ID": str(alice.customer), **program.headers()}
    form = {"grant_type": "client_credentials", "client_id": program.id, "client_secret": program.secret}
    password = {"grant_type": "password", "username": alice.username, "password": alice.password}
    without = settings.model_copy(update={"clients_without_key": True})
    with (
        RunningServer(without, dsn, worker=False) as running,
        http_client(base_url=running.url + "/v3") as bare,
    ):
        assert bare.post("/oauth2/token", data=form).status_code == 200
        assert bare.get("/cars", headers=headers).status_code == 200
        assert bare.post("/oauth2/token", data=password).status_code == 401
        people = {name: value for name, value in alice.headers.items() if name != "vendor-API-Key"}
        assert bare.get("/cars", headers=people).status_code == 401
        assert bare.get("/cars", headers=headers | {"vendor-API-Key": "wrong"}).status_code == 401
        token = headers["Authorization"].removeprefix("Bearer ")
        assert bare.post("/oauth2/revoke", data={"token": token}).status_code == 401
        assert bare.post("/oauth2/revoke", data={**form, "token": token}).status_code == 200
        assert bare.get("/cars", headers=headers).status_code == 401
    with http_client(base_url=str(alice.client.base_url)) as bare:
        assert bare.post("/oauth2/token", data=form).status_code == 401
        assert bare.get("/cars", headers=headers).status_code == 401


def test_the_change_log_names_the_client(alice: Person) -> None:
    program = Program(alice, "cars:write")
    car = alice.put("/cars", {"name": "X"}, headers=program.headers()).json()["id"]
    alice.delete(program.path)

    def told() -> list[tuple[str, Any]]:
        mine = f"resourceId eq '{program.number}' and (resource eq 'client' or resource eq 'scopes')"
        rows = alice.get(f"/changes?$filter={mine} or resource eq 'clientSecret'&$top=1000").json()
        found = [(row["kind"], row["after"] or row["before"]) for row in rows]
        return [(kind, one) for kind, one in found if one.get("clientId", program.number) == program.number]

    eventually(lambda: "client.deleted" in {kind for kind, _ in told()}, "the log")
    kinds = [kind for kind, _ in told()]
    for kind in (
        "client.created",
        "scopes.granted",
        "clientSecret.created",
        "clientSecret.deleted",
        "scopes.withdrawn",
    ):
        assert kind in kinds
    assert program.secret not in json.dumps(told())
    made = alice.get(f"/changes?$filter=kind eq 'car.created' and resourceId eq '{car}'").json()
    assert made[0]["actor"] == {"type": "client", "id": str(program.number), "name": "Booking"}


def test_the_number_of_clients_is_limited(carol: Person, dsn: str, settings: Settings) -> None:
    few = settings.model_copy(update={"client_limit": 1})
    with (
        RunningServer(few, dsn, worker=False) as running,
        http_client(base_url=running.url + "/v3", headers=carol.headers) as client,
    ):
        body = {"name": "X", "scopes": ["cars:read"]}
        assert client.put("/clients", json=body).status_code == 201
        assert client.put("/clients", json=body).status_code == 409


def test_the_discovery_documents(alice: Person) -> None:
    root = str(alice.client.base_url).removesuffix("/v3/").rstrip("/")
    told = fetch("GET", root + "/.well-known/oauth-authorization-server").json()
    assert told["grant_types_supported"] == ["password", "client_credentials"]
    assert told["token_endpoint"].endswith("/v3/oauth2/token")
    assert told["revocation_endpoint"].endswith("/v3/oauth2/revoke")
    assert set(told["scopes_supported"]) == set(map(str, PROGRAMS)) < set(map(str, Permission))
    assert fetch("GET", root + "/.well-known/openid-configuration").json()["issuer"] == told["issuer"]
