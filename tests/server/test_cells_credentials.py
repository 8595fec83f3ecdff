"""Credentials that are known in either cell, unknown, or revoked."""

from __future__ import annotations

import json
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from keyrack.core.secret_hashes import digest
from tests.auth.authenticator import PasskeyBrowser, SoftwarePasskey
from tests.support.cells import TwoCells
from tests.support.drivers import PASSWORD as DRIVER_PASSWORD
from tests.support.drivers import page_headers, signed_in_driver
from tests.support.people import PASSWORD, Person, Town, fetch
from tests.support.servers import RunningServer, eventually

Request = Callable[[], httpx.Response]


@dataclass
class Shown:
    """A credential of a person, with a request and its revocation."""

    request: Request
    revoke: Callable[[], object]


def call(
    person: Person, method: str, path: str, headers: Mapping[str, str] | None = None, cookie: str = "", **options: Any
) -> httpx.Response:
    """A request of a page, with only the given credentials."""
    sent = page_headers(person) | dict(headers or {}) | ({"Cookie": cookie} if cookie else {})
    return fetch(method, str(person.client.base_url.join(path)), headers=sent, **options)


def execute(person: Person, sql: str, *values: object) -> Callable[[], object]:
    return lambda: person.sql.execute(sql, *values)


def api_key(person: Person, secret: str) -> Shown:
    """Only the key leads to the cell. A grant that is not supported is 400 after the check of the key."""
    person.sql.execute("insert into api_key (name, hash) values ('more', $1)", digest(secret))
    return Shown(
        lambda: call(person, "POST", "/oauth2/token", data={"grant_type": "other"}, headers={"vendor-API-Key": secret}),
        execute(person, "update api_key set revoked_at = now() where hash = $1", digest(secret)),
    )


def token(person: Person, secret: str) -> Shown:
    headers = {"vendor-API-Key": person.api_key, "Authorization": f"Bearer {person.token}"}
    form = {"token": person.token}
    return Shown(
        lambda: call(person, "GET", "/customers", headers=headers),
        lambda: call(person, "POST", "/oauth2/revoke", data=form, headers={"vendor-API-Key": person.api_key}),
    )


def user_name(person: Person, secret: str) -> Shown:
    form = {"grant_type": "password", "username": person.username, "password": PASSWORD}
    return Shown(
        lambda: call(person, "POST", "/oauth2/token", data=form, headers={"vendor-API-Key": person.api_key}),
        execute(person, "update manager set is_disabled = true where username = $1", person.username),
    )


def sign_in(person: Person, secret: str) -> Shown:
    form = {"username": person.username, "password": PASSWORD}
    return Shown(
        lambda: call(person, "POST", "/console/sign-in", data=form),
        execute(person, "update manager set is_disabled = true where username = $1", person.username),
    )


def client(person: Person, secret: str) -> Shown:
    made = person.put("/clients", {"name": secret, "scopes": ["cars:read"]}).json()
    form = {
        "grant_type": "client_credentials", "client_id": made["clientId"], "client_secret": made["clientSecret"],
    }  # fmt: skip
    return Shown(
        lambda: call(person, "POST", "/oauth2/token", data=form, headers={"vendor-API-Key": person.api_key}),
        lambda: person.delete(f"/clients/{made['id']}"),
    )


def session(person: Person, secret: str) -> Shown:
    with person.browser() as browser:
        cookie = browser.cookies["keyrack-session"]
    return Shown(
        lambda: call(person, "GET", f"/console/{person.customer}/cars", cookie=f"keyrack-session={cookie}"),
        execute(person, "delete from session where hash = $1", digest(cookie)),
    )


def sign_in_step(person: Person, secret: str) -> Shown:
    person.sql.execute(
        "insert into sign_in_step (hash, kind, manager_id, sign_outs)"
        " select $1, 'password', manager_id, sign_outs from manager where username = $2",
        digest(secret), person.username,
    )  # fmt: skip
    return Shown(
        lambda: call(person, "GET", "/console/sign-in/second", cookie=f"keyrack-step={secret}"),
        execute(person, "delete from sign_in_step where hash = $1", digest(secret)),
    )


def invitation(person: Person, secret: str) -> Shown:
    made = person.put("/managers", {"emailAddress": f"{secret[:8].lower()}@example.org", "role": "Dispatcher"})
    link = made.json()["link"]
    code = link.partition("#")[2].rpartition("=")[2]
    return Shown(
        lambda: call(person, "POST", "/console/invitation", data={"code": code}),
        execute(person, "delete from invitation where hash = $1", digest(code)),
    )


def password_link(person: Person, secret: str) -> Shown:
    person.sql.execute(
        "insert into password_link (manager_id, hash, expires_at)"
        " select manager_id, $1, now() + interval '1 hour' from manager where username = $2",
        digest(secret), person.username,
    )  # fmt: skip
    return Shown(
        lambda: call(person, "POST", "/console/password", data={"code": secret}),
        execute(person, "delete from password_link where hash = $1", digest(secret)),
    )


def device_key(person: Person, secret: str) -> Shown:
    person.sql.execute(
        "insert into device_key (customer_id, hash, is_gateway, scopes) values ($1, $2, true, '{telemetry}')",
        person.customer, digest(secret),
    )  # fmt: skip
    headers = {"Device-Key": secret, "Content-Type": "application/x-ndjson"}
    return Shown(
        lambda: call(person, "POST", "/ingest/telemetry", headers=headers, content=b""),
        execute(person, "update device_key set revoked_at = now() where hash = $1", digest(secret)),
    )


def app_token(person: Person, secret: str) -> Shown:
    headers = person.app().headers
    return Shown(
        lambda: call(person, "GET", "/sdk/devices", headers=headers),
        execute(person, "update sdk_key set revoked_at = now() where customer_id = $1", person.customer),
    )


def driver_session(person: Person, secret: str) -> Shown:
    cookie = signed_in_driver(person).cookie or ""
    return Shown(
        lambda: call(person, "GET", "/drive/api/session", cookie=f"keyrack-drive={cookie}"),
        execute(person, "delete from driver_session where hash = $1", digest(cookie)),
    )


def driver_password(person: Person, secret: str) -> Shown:
    driver = signed_in_driver(person)
    body = {"emailAddress": driver.address.upper(), "password": DRIVER_PASSWORD}
    return Shown(
        lambda: call(person, "POST", "/drive/api/session", json=body),
        execute(person, "update driver_account set password_hash = null where user_id = $1", driver.user),
    )


def driver_link(person: Person, secret: str) -> Shown:
    person.sql.execute(
        "insert into driver_link (hash, user_id, customer_id, kind, expires_at)"
        " values ($1, $2, $3, 'invitation', now() + interval '1 hour')",
        digest(secret), person.user(f"{secret[:8].lower()}.link@example.org", type="Normal"), person.customer,
    )  # fmt: skip
    return Shown(
        lambda: call(person, "POST", "/drive/api/links/preview", json={"secret": secret}),
        execute(person, "delete from driver_link where hash = $1", digest(secret)),
    )


# Each kind: what makes it, the statuses while it is valid and after it is revoked, and a request that shows an unknown
# one, with its status
KINDS = {
    "API key": (api_key, 400, 401),
    "token": (token, 200, 401),
    "user name": (user_name, 200, 401),
    "user name of a page": (sign_in, 303, 401),
    "client": (client, 200, 401),
    "session": (session, 200, 303),
    "sign-in step": (sign_in_step, 200, 303),
    "invitation": (invitation, 200, 404),
    "password link": (password_link, 200, 404),
    "device key": (device_key, 200, 401),
    "app token": (app_token, 200, 401),
    "driver's session": (driver_session, 200, 401),
    "driver's password": (driver_password, 201, 401),
    "driver's link": (driver_link, 200, 404),
}


@pytest.mark.parametrize("place", [0, 1], ids=["main", "north"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_credential_works_in_its_cell_until_it_is_revoked(kind: str, place: int, two: TwoCells) -> None:
    make, valid, revoked = KINDS[kind]
    person = two.towns[place].person("owner")
    shown = make(person, secrets.token_urlsafe(32))
    for _ in range(2):  # the second answer is that of the memory
        answer = shown.request()
        assert answer.status_code == valid, answer.text
    shown.revoke()
    eventually(lambda: shown.request().status_code == revoked, "the revocation")


OTHERS_TOKEN = urlsafe_b64encode(json.dumps({"kid": "none"}).encode()).decode() + ".e.e"
UNKNOWN: dict[str, tuple[int, str, str, dict[str, Any]]] = {
    "API key": (401, "POST", "/oauth2/token", {"data": {"grant_type": "x"}, "headers": {"vendor-API-Key": "none"}}),
    "token": (
        401, "GET", "/customers",
        {"headers": {"Authorization": f"Bearer {OTHERS_TOKEN}", "vendor-API-Key": "none"}},
    ),
    "malformed token": (401, "GET", "/customers", {"headers": {"Authorization": "Bearer a.b.c"}}),
    "user name of a page": (
        401, "POST", "/console/sign-in", {"data": {"username": "nobody", "password": PASSWORD}},
    ),
    "session": (303, "GET", "/console/2147483647/cars", {"cookie": "keyrack-session=none"}),
    "sign-in step": (303, "GET", "/console/sign-in/second", {"cookie": "keyrack-step=none"}),
    "invitation": (404, "POST", "/console/invitation", {"data": {"code": "none"}}),
    "password link": (404, "POST", "/console/password", {"data": {"code": "none"}}),
    "device key": (
        401, "POST", "/ingest/telemetry", {"headers": {"Device-Key": "none", "Content-Type": "application/x-ndjson"}},
    ),
    "driver's session": (401, "GET", "/drive/api/session", {"cookie": "keyrack-drive=none"}),
    "driver's password": (
        401, "POST", "/drive/api/session", {"json": {"emailAddress": "nobody@example.org", "password": "no password"}},
    ),
    "driver's link": (404, "POST", "/drive/api/links/preview", {"json": {"secret": "none" * 11}}),
}  # fmt: skip


@pytest.mark.parametrize("kind", UNKNOWN)
def test_a_credential_that_no_cell_has_gets_the_answer_of_one_cell(
    kind: str, two: TwoCells, people: tuple[Person, Person]
) -> None:
    assert sent(people[0], kind) == UNKNOWN[kind][0]


def sent(person: Person, kind: str) -> int:
    """The status for an unknown credential of this kind."""
    _, method, path, options = UNKNOWN[kind]
    return call(person, method, path, **options).status_code


def test_a_credential_is_503_while_a_cell_is_away_that_may_have_it(
    two: TwoCells, people: tuple[Person, Person]
) -> None:
    """Otherwise an app would drop its session, and a driver the keys."""
    away = [kind for kind in UNKNOWN if kind != "malformed token"]
    two.proxies[1].cut()
    try:
        eventually(lambda: two.states()["north"] == "unavailable", "the cell is away")
        for kind in away:
            # A miss from before the cut counts for a moment
            eventually(lambda kind=kind: sent(people[0], kind) == 503, kind)
        with people[0].browser() as browser:
            assert browser.get(f"/{people[0].customer}/cars").status_code == 200
        for path in ("/console/sign-in", "/drive/", "/docs", "/health/live", "/v3"):
            assert call(people[0], "GET", path, cookie="keyrack-session=none").status_code == 200, path
    finally:
        two.proxies[1].restore()
    eventually(lambda: two.states()["north"] == "ok", "the cell")


def test_unknown_credentials_of_one_address_are_limited(two: TwoCells) -> None:
    """Credentials that the router remembers are not."""
    settings = two.server.settings.model_copy(update={"cell_miss_rate_per_address": 1})
    with RunningServer(settings, two.proxies[0].dsn, worker=False) as server:
        person = Town(two.towns[1].sql, server).person("owner")
        assert person.get("/customers").status_code == 200

        def guess(key: str) -> httpx.Response:
            return call(person, "GET", "/customers", headers={"vendor-API-Key": key})

        answers = [guess(secrets.token_urlsafe()) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [401, 429, 429]
        assert int(answers[-1].headers["retry-after"]) >= 1
        assert person.get("/customers").status_code == 200


@pytest.mark.parametrize("place", [0, 1], ids=["main", "north"])
def test_a_passkey_signs_in_although_another_cell_gave_the_challenge(place: int, two: TwoCells) -> None:
    person = two.towns[place].person("owner")
    settings, dsn = two.server.settings, two.proxies[0].dsn
    with RunningServer(settings, dsn, worker=False, public_url="http://localhost:{port}") as server:
        passkey, browser = SoftwarePasskey(person.sql, person, server), PasskeyBrowser(server)
        credential = passkey.sign(browser.challenge().json()["publicKey"]["challenge"])
        assert browser.show(credential).status_code == 303
        assert browser.show(credential).status_code == 401  # a challenge works once
