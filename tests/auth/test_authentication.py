"""Authentication: tokens, signing keys, and how soon a revocation takes effect."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Iterator
from datetime import timedelta
from typing import Any

import argon2
import asyncpg
import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

from keyrack.auth import api_keys, password_hashing, signing_keys
from keyrack.auth.password_hashing import Passwords
from keyrack.core import secret_hashes
from keyrack.core.log_config import RateLimitedLogger
from keyrack.core.settings import Settings
from keyrack.db.connection import Connection
from keyrack.db.encryption.cipher import Encryption
from keyrack.db.encryption.encrypted_columns import PRIVATE_KEY
from keyrack.db.session_settings import prepare
from tests.support.log_lines import captured_events
from tests.support.people import CHEAP, JOIN, PASSWORD, PRODUCTION_COST, Person, Town, done, refused, web
from tests.support.servers import SELDOM, RunningServer, Sql, eventually

KEY_REFUSED = {
    "statusCode": 401,
    "message": "Access denied due to invalid subscription key."
    " Make sure to provide a valid key for an active subscription.",
    "header": "vendor-API-Key",
}
TOKEN_REFUSED = {"statusCode": 401, "message": "Unauthorized. Access token is missing or invalid."}
NO_MANAGER = "Unable to find a manager for the given OAuth ID claim data."
NO_CUSTOMER = "Unable to find a customer for the given Customer-ID."


@pytest.fixture(scope="module")
def other(dsn: str, settings: Settings) -> Iterator[RunningServer]:
    """A second server on the same database."""
    with RunningServer(settings, dsn, worker=False) as running:
        yield running


def keys_of(server: RunningServer) -> KeySet:
    return KeySet.import_key_set(web().get(server.url + "/.well-known/jwks.json").json())


def claims_of(token: str, keys: KeySet) -> dict[str, Any]:
    return jwt.decode(token, keys, algorithms=["RS256"]).claims


def token_of(person: Person, server: RunningServer) -> str:
    answer = web().post(
        server.url + "/v3/oauth2/token",
        data={"grant_type": "password", "username": person.username, "password": PASSWORD},
        headers={"vendor-API-Key": person.api_key},
    )
    assert answer.status_code == 200, answer.text
    return answer.json()["access_token"]


# The token


def test_the_claims_of_a_token(alice: Person, server: RunningServer, sql: Sql) -> None:
    keys = keys_of(server)
    token = jwt.decode(alice.token, keys, algorithms=["RS256"])
    assert token.header["alg"] == "RS256"
    assert token.header["typ"] == "at+jwt"
    assert token.header["kid"] in {key.kid for key in keys.keys}
    claims = token.claims
    subject = sql.value("select subject from manager where username = $1", alice.username)
    assert claims["sub"] == str(subject)
    assert claims["iss"] == server.url
    assert claims["aud"] == "keyrack"
    assert claims["exp"] - claims["iat"] == 3600
    assert alice.username not in json.dumps(claims)
    assert claims_of(token_of(alice, server), keys)["jti"] != claims["jti"]


def test_a_token_of_one_server_is_valid_on_the_other(alice: Person, other: RunningServer) -> None:
    assert web().get(other.url + "/v3/customers", headers=alice.headers).status_code == 200


@pytest.fixture(scope="module")
def forge(sql: Sql, alice: Person, server: RunningServer) -> Callable[..., str]:
    """Create tokens like the server's, signed by its newest key, with changes."""
    row = sql.rows("select kid, private_key from signing_key order by created_at desc limit 1")[0]
    real = sql.run(Encryption(Connection(sql._connection), Settings()).open(row[1], PRIVATE_KEY, 0, row[0]))
    signer = RSAKey.import_key(json.loads(real))
    right = claims_of(alice.token, keys_of(server))

    def make(key: Any = None, header: dict[str, Any] | None = None, **claims: Any) -> str:
        whole = {name: value for name, value in (right | claims).items() if value is not None}
        head = {"alg": "RS256", "kid": signer.kid, "typ": "at+jwt"} | (header or {})
        return jwt.encode(head, whole, key or signer, algorithms=[head["alg"]])

    return make


def test_a_token_made_in_the_same_way_is_valid(forge: Callable[..., str], alice: Person) -> None:
    answer = alice.get("/customers", headers={"Authorization": "Bearer " + forge()})
    assert answer.status_code == 200


STRANGER = RSAKey.generate_key(2048, {"use": "sig", "alg": "RS256"}, auto_kid=True)


def encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).decode().rstrip("=")


def refused_token(alice: Person, token: str) -> None:
    answer = alice.get("/customers", headers={"Authorization": "Bearer " + token})
    assert (answer.status_code, answer.json()) == (401, TOKEN_REFUSED)


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": 1},
        {"exp": None},
        {"exp": "tomorrow"},
        {"exp": 10**400},
        {"aud": "keyrack-sdk"},
        {"aud": None},
        {"aud": ["keyrack", "other"]},
        {"sub": None},
        {"sub": "alice"},
        {"sub": 5},
    ],
    ids=lambda claims: str(claims)[:30],
)
def test_a_token_with_other_claims(forge: Callable[..., str], alice: Person, claims: dict[str, Any]) -> None:
    refused_token(alice, forge(**claims))


def test_a_token_that_has_just_expired(forge: Callable[..., str], alice: Person) -> None:
    """It was accepted before. On a busy machine two seconds may pass before the first request."""

    def accepted(token: str) -> bool:
        return alice.get("/customers", headers={"Authorization": "Bearer " + token}).status_code == 200

    tokens = (forge(exp=int(time.time()) + seconds) for seconds in (2, 4, 8, 16, 32))
    token = next(token for token in tokens if accepted(token))
    eventually(lambda: not accepted(token), "its end")
    refused_token(alice, token)


def test_a_token_of_another_type(forge: Callable[..., str], alice: Person) -> None:
    for kind in ("JWT", "at+JWT2", ""):
        refused_token(alice, forge(header={"typ": kind}))


def test_a_token_signed_with_another_key(forge: Callable[..., str], alice: Person) -> None:
    refused_token(alice, forge(STRANGER))
    refused_token(alice, forge(STRANGER, {"kid": STRANGER.kid}))


def test_a_token_without_a_signature(forge: Callable[..., str], alice: Person) -> None:
    head, body, signature = forge().split(".")
    none = encoded(b'{"alg": "none", "typ": "at+jwt"}')
    for token in (f"{none}.{body}.", f"{none}.{body}.{signature}", f"{head}.{body}."):
        refused_token(alice, token)


def test_a_public_key_is_no_secret(forge: Callable[..., str], alice: Person, server: RunningServer) -> None:
    """The algorithm confusion attack: HS256 with the published key as its secret."""
    body = forge().split(".")[1]
    for key in keys_of(server).keys:
        assert isinstance(key, RSAKey)
        head = encoded(json.dumps({"alg": "HS256", "kid": key.kid, "typ": "at+jwt"}).encode())
        for secret in (key.as_pem(private=False), key.as_der(private=False)):
            signature = hmac.digest(secret, f"{head}.{body}".encode(), hashlib.sha256)
            refused_token(alice, f"{head}.{body}.{encoded(signature)}")


def test_an_id_token_is_no_access_token(alice: Person, sql: Sql) -> None:
    key = secret_hashes.new_secret()
    sql.execute("insert into sdk_key (customer_id, hash) values ($1, $2)", alice.customer, secret_hashes.digest(key))
    body = {"customerId": alice.customer, "sdkKey": key, "userId": alice.user()}
    refused_token(alice, alice.post("/sdk/token", body).json()["id_token"])


def test_a_token_of_an_unknown_manager(forge: Callable[..., str], alice: Person) -> None:
    answer = alice.get("/customers", headers={"Authorization": "Bearer " + forge(sub=str(uuid.uuid4()))})
    refused(answer, 404, NO_MANAGER)


# Signing keys


@contextlib.asynccontextmanager
async def with_vault(dsn: str) -> AsyncGenerator[tuple[Connection, Encryption]]:
    raw = await asyncpg.connect(dsn)
    try:
        await prepare(raw)
        connection = Connection(raw)
        async with connection.transaction():
            yield connection, Encryption(connection, Settings())
    finally:
        await raw.close()


async def rotate(dsn: str) -> str:
    async with with_vault(dsn) as (connection, vault):
        return await signing_keys.rotate(connection, vault)


async def plant(dsn: str, kid: str, hours: float) -> None:
    """A signing key that is so many hours old."""
    jwk = RSAKey.generate_key(2048, {"use": "sig", "alg": "RS256", "kid": kid}).as_dict(private=True)
    insert = "insert into signing_key (kid, private_key, created_at) values ($1, $2, now() - $3 * interval '1 hour')"
    async with with_vault(dsn) as (connection, vault):
        await connection.execute(insert, kid, await vault.seal(connection, json.dumps(jwk), PRIVATE_KEY, 0, kid), hours)


def test_a_new_key_signs_and_the_old_one_still_verifies(
    alice: Person, carol: Person, server: RunningServer, other: RunningServer, dsn: str, sql: Sql
) -> None:
    before = {key.kid for key in keys_of(server).keys}
    kid = asyncio.run(rotate(dsn))
    assert kid not in before
    for running in (server, other):
        eventually(lambda running=running: kid in {key.kid for key in keys_of(running).keys}, "the new key")
        assert before <= {key.kid for key in keys_of(running).keys}
        token = token_of(carol, running)
        assert jwt.decode(token, keys_of(running), algorithms=["RS256"]).header["kid"] == kid
        for good in (token, alice.token):
            headers = alice.headers | {"Authorization": "Bearer " + good}
            assert web().get(running.url + "/v3/brands", headers=headers).status_code == 200


def test_a_key_is_dropped_when_its_tokens_have_expired(server: RunningServer, dsn: str, sql: Sql) -> None:
    old = "an-old-key"
    asyncio.run(plant(dsn, old, 5))
    asyncio.run(plant(dsn, "a-newer-key", 3))
    eventually(lambda: old in {key.kid for key in keys_of(server).keys})
    asyncio.run(rotate(dsn))
    eventually(lambda: old not in {key.kid for key in keys_of(server).keys}, "the old key's end")
    assert "a-newer-key" in {key.kid for key in keys_of(server).keys}
    sql.execute("delete from signing_key where kid = 'a-newer-key'")


def test_private_parts_are_not_published(server: RunningServer) -> None:
    for key in web().get(server.url + "/.well-known/jwks.json").json()["keys"]:
        assert not {"d", "p", "q", "dp", "dq", "qi"} & set(key)


# Revocations on every server


def everywhere(person: Person, *servers: RunningServer) -> list[httpx.Response]:
    return [web().get(running.url + "/v3/cars", headers=person.headers) for running in servers]


def all_answer(person: Person, servers: tuple[RunningServer, ...], status: int) -> list[httpx.Response]:
    """The answers of all servers, as soon as they agree on the status."""

    def agree() -> list[httpx.Response]:
        answers = everywhere(person, *servers)
        return answers if {answer.status_code for answer in answers} == {status} else []

    return eventually(agree, f"{status} on every server")


Change = Callable[[Sql, Person], None]


def revoke_key(sql: Sql, person: Person) -> None:
    sql.execute("update api_key set revoked_at = now() where hash = $1", secret_hashes.digest(person.api_key))


def disable(sql: Sql, person: Person) -> None:
    sql.execute("update manager set is_disabled = true where username = $1", person.username)


def take_customer(sql: Sql, person: Person) -> None:
    sql.execute("delete from manager_customer where customer_id = $1", person.customer)


@pytest.mark.parametrize(
    ("change", "status", "text"),
    [
        (revoke_key, 401, json.dumps(KEY_REFUSED)),
        (disable, 404, NO_MANAGER),
        (take_customer, 404, NO_CUSTOMER),
    ],
)
def test_a_revocation_takes_effect_on_every_server(
    change: Change, status: int, text: str, carol: Person, server: RunningServer, other: RunningServer, sql: Sql
) -> None:
    for _ in range(3):  # so that both servers cache it
        assert {answer.status_code for answer in everywhere(carol, server, other)} == {200}
    change(sql, carol)
    assert {answer.text for answer in all_answer(carol, (server, other), status)} == {text}


def test_a_grant_takes_effect_on_every_server(
    carol: Person, server: RunningServer, other: RunningServer, sql: Sql
) -> None:
    take_customer(sql, carol)
    all_answer(carol, (server, other), 404)
    sql.execute(JOIN, carol.username, carol.customer, "Owner")
    all_answer(carol, (server, other), 200)
    disable(sql, carol)
    all_answer(carol, (server, other), 404)
    sql.execute("update manager set is_disabled = false where username = $1", carol.username)
    all_answer(carol, (server, other), 401)  # earlier tokens have ended
    carol.headers["Authorization"] = f"Bearer {token_of(carol, server)}"
    all_answer(carol, (server, other), 200)


def test_a_revocation_takes_effect_without_a_notification(
    carol: Person, server: RunningServer, other: RunningServer, sql: Sql
) -> None:
    assert {answer.status_code for answer in everywhere(carol, server, other)} == {200}
    deaf = sql.value(
        "with gone as (select pg_terminate_backend(pid) from pg_stat_activity"
        " where application_name = 'keyrack listener' and datname = current_database()) select count(*) from gone"
    )
    assert deaf >= 2
    revoke_key(sql, carol)
    all_answer(carol, (server, other), 401)


def test_an_api_key_that_expires(carol: Person, server: RunningServer, other: RunningServer, sql: Sql) -> None:
    update = "update api_key set expires_at = now() + $2::interval where hash = $1"
    sql.execute(update, secret_hashes.digest(carol.api_key), timedelta(hours=1))
    all_answer(carol, (server, other), 200)
    sql.execute(update, secret_hashes.digest(carol.api_key), timedelta(seconds=1))
    all_answer(carol, (server, other), 401)
    assert everywhere(carol, server)[0].json() == KEY_REFUSED


@pytest.mark.parametrize("because", ["missing", "unknown", "revoked", "expired"])
def test_the_log_has_the_reason_of_a_refused_key(
    server: RunningServer, sql: Sql, because: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller learns the header, and whether it is missing. One line in the log covers many equal failures."""
    monkeypatch.setattr(api_keys, "_seldom", RateLimitedLogger("keyrack.api_keys"))
    key, number = secret_hashes.new_secret(), None
    if ended := {"revoked": "revoked_at", "expired": "expires_at"}.get(because):
        insert = f"insert into api_key (name, hash, {ended}) values ('t', $1, now() - interval '1 hour')"
        number = sql.value(insert + " returning api_key_id", secret_hashes.digest(key))
    headers = {} if because == "missing" else {"vendor-API-Key": key}
    with captured_events("api key rejected") as logs:
        assert web().get(server.url + "/v3/cars", headers=headers).json() == KEY_REFUSED
        answer = web().get(server.url + "/v3/cars", headers=headers | {"Accept": "application/problem+json"})
    fault = {"header": "vendor-API-Key", "code": "missing", "detail": "The header vendor-API-Key is missing."}
    assert (answer.status_code, answer.json().get("errors")) == (401, [fault] if because == "missing" else None)
    (line,) = logs
    assert (line["reason"], line["key"]) == (because, number)
    assert (line["header"], line["address"]) == ("vendor-API-Key", "127.0.0.1")
    assert key not in str(logs)


# Log-ins


def test_keys_and_passwords_are_stored_hashed(carol: Person, sql: Sql) -> None:
    assert sql.value("select count(*) from api_key where hash = $1", carol.api_key.encode()) == 0
    assert sql.value("select octet_length(hash) from api_key where name = $1", carol.username) == 32
    done(carol.put("/me/password", {"currentPassword": PASSWORD, "newPassword": "another one"}))
    hashed = sql.value("select password_hash from manager where username = $1", carol.username)
    assert CHEAP.verify(hashed, "another one")


def test_passwords_are_hashed_with_the_profile_of_owasp(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other tests hash cheaply."""
    monkeypatch.setattr(password_hashing, "COST", PRODUCTION_COST)
    assert asyncio.run(Passwords().hash("x")).startswith("$argon2id$v=19$m=19456,t=2,p=1$")


class Spy:
    """A wrapper of a hasher that records its calls."""

    def __init__(self, hasher: argon2.PasswordHasher) -> None:
        self._hasher = hasher
        self.asked: list[str] = []

    def verify(self, hash: str, password: str) -> bool:
        self.asked.append(hash)
        return self._hasher.verify(hash, password)


def test_an_unknown_user_costs_as_much_as_a_wrong_password() -> None:
    """Timing is no assertion. The same work is done: a hash with the same parameters is checked once."""

    async def ask() -> list[str]:
        passwords = Passwords()
        spy = Spy(passwords._hasher)
        known = await passwords.hash("right")
        passwords._hasher = spy
        assert await passwords.verify("wrong", known) is False
        assert await passwords.verify("wrong", None) is False
        assert await passwords.verify("right", known) is True
        return spy.asked

    wrong, unknown, right = asyncio.run(ask())
    assert wrong == right != unknown
    assert argon2.extract_parameters(unknown) == argon2.extract_parameters(wrong)


@pytest.fixture(scope="module")
def strict(dsn: str, settings: Settings) -> Iterator[tuple[RunningServer, RunningServer]]:
    """Two servers that allow three failures, and then one in a minute."""
    few = {
        "login_rate_per_username_and_address": SELDOM,
        "login_burst_per_username_and_address": 3,
        "login_rate_per_address": SELDOM,
        "login_burst_per_address": 6,
    }
    strict = settings.model_copy(update=few)
    with RunningServer(strict, dsn, worker=False) as one, RunningServer(strict, dsn, worker=False) as two:
        yield one, two


def log_in(running: RunningServer, key: str, username: str, password: str, address: str) -> httpx.Response:
    return web().post(
        running.url + "/v3/oauth2/token",
        data={"grant_type": "password", "username": username, "password": password},
        headers={"vendor-API-Key": key, "X-Forwarded-For": address},
    )


def too_many(answer: httpx.Response) -> None:
    assert answer.status_code == 429
    assert answer.headers["content-type"] == "application/json"
    seconds = answer.headers["retry-after"]
    assert int(seconds) > 0
    assert answer.json() == {"status": "429", "message": f"Rate limit exceeded. Retry in {seconds} seconds."}


def test_failures_for_one_name_are_counted_over_all_servers(
    carol: Person, alice: Person, strict: tuple[RunningServer, RunningServer]
) -> None:
    one, two = strict
    address = "198.51.100.1"
    names = [carol.username, carol.username.upper(), carol.username]
    for running, username in zip((one, two, one), names, strict=True):
        assert log_in(running, carol.api_key, username, "wrong", address).status_code == 401
    for running in strict:
        too_many(log_in(running, carol.api_key, carol.username, "wrong", address))
        too_many(log_in(running, carol.api_key, carol.username, PASSWORD, address))
    assert log_in(one, carol.api_key, alice.username, PASSWORD, address).status_code == 200


def test_failures_for_an_unknown_name_are_counted_too(town: Town, strict: tuple[RunningServer, RunningServer]) -> None:
    key, name = town.key(), f"nobody-{uuid.uuid4()}"
    statuses = [log_in(strict[0], key, name, "x", "198.51.100.3").status_code for _ in range(4)]
    assert statuses == [401, 401, 401, 429]


def test_failures_from_one_address_are_counted(
    carol: Person, town: Town, strict: tuple[RunningServer, RunningServer]
) -> None:
    key, address = town.key(), "2001:db8::1"
    for number in range(6):
        name = f"nobody-{uuid.uuid4()}"
        assert log_in(strict[number % 2], key, name, "wrong", address).status_code == 401
    for running in strict:
        too_many(log_in(running, key, f"nobody-{uuid.uuid4()}", "wrong", address))
    assert log_in(strict[0], carol.api_key, carol.username, PASSWORD, "198.51.100.4").status_code == 200


def test_successful_log_ins_are_not_limited(carol: Person, strict: tuple[RunningServer, RunningServer]) -> None:
    statuses = [
        log_in(running, carol.api_key, carol.username, PASSWORD, "198.51.100.5").status_code for running in strict * 4
    ]
    assert statuses == [200] * 8


def test_the_manager_of_a_token_needs_no_password_again(
    carol: Person, strict: tuple[RunningServer, RunningServer]
) -> None:
    """A lockout at the token endpoint ends no session."""
    for _ in range(4):
        log_in(strict[0], carol.api_key, carol.username, "wrong", "198.51.100.6")
    assert {answer.status_code for answer in everywhere(carol, *strict)} == {200}
