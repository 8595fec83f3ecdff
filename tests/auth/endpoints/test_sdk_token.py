"""App SDK: an id token for a user of a customer."""

from __future__ import annotations

import base64
import json
import time
import uuid
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import KeySet

from keyrack.auth.authenticator import Authenticator
from keyrack.core import secret_hashes
from keyrack.core.error_codes import INVALID_TOKEN
from keyrack.core.settings import Settings
from tests.support.people import Person, refused, web
from tests.support.servers import RunningServer, Sql, eventually

INVALID = "Invalid combination of customerId, sdkKey and userId."


def sdk_key(person: Person, sql: Sql) -> str:
    secret = secret_hashes.new_secret()
    sql.execute(
        "insert into sdk_key (customer_id, hash) values ($1, $2)", person.customer, secret_hashes.digest(secret)
    )
    return secret


def test_a_token(alice: Person, server: RunningServer, sql: Sql) -> None:
    user, key = alice.user(), sdk_key(alice, sql)
    body = {"customerId": alice.customer, "sdkKey": key, "userId": user}
    answer = alice.post("/sdk/token", body, headers={"Customer-ID": None})
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    assert list(answer.json()) == ["id_token"]
    keys = KeySet.import_key_set(web().get(server.url + "/.well-known/jwks.json").json())
    token = jwt.decode(answer.json()["id_token"], keys, algorithms=["RS256"])
    assert token.header["alg"] == "RS256"
    assert token.header["kid"] in {key.kid for key in keys.keys}
    claims = token.claims
    assert claims["iss"] == server.url
    assert claims["email"] == claims["sub"] == str(uuid.UUID(claims["sub"]))
    assert claims["aud"] == f"keyrack-sdk/{alice.customer}"
    assert claims["customer_id"] == alice.customer
    members = {"iss", "sub", "aud", "iat", "exp", "jti", "customer_id", "email", "sdk_key_id"}
    assert set(claims) == members
    assert claims["exp"] - claims["iat"] == 3600
    assert abs(claims["iat"] - time.time()) < 60
    again = jwt.decode(alice.post("/sdk/token", body).json()["id_token"], keys, algorithms=["RS256"])
    assert again.claims["sub"] == claims["sub"]
    other = jwt.decode(alice.post("/sdk/token", body | {"userId": alice.user()}).json()["id_token"], keys)
    assert other.claims["sub"] != claims["sub"]


def claims_of(person: Person, server: RunningServer, sql: Sql, user: int) -> dict[str, Any]:
    """The claims of a user's id token."""
    body = {"customerId": person.customer, "sdkKey": sdk_key(person, sql), "userId": user}
    answer = web().post(server.url + "/v3/sdk/token", json=body, headers=person.headers)
    assert answer.status_code == 200, answer.text
    keys = KeySet.import_key_set(web().get(server.url + "/.well-known/jwks.json").json())
    return jwt.decode(answer.json()["id_token"], keys, algorithms=["RS256"]).claims


def test_two_customers_cannot_tell_that_they_have_the_same_user(
    alice: Person, bob: Person, server: RunningServer, sql: Sql
) -> None:
    """A7: the subject is pairwise and the audience the customer's, so the tokens cannot be linked."""
    email = f"shared.{uuid.uuid4()}@example.org"
    user = alice.user(email)
    assert bob.put("/users/assignments/customers", {"emailAddress": email}).status_code == 204
    hers, his = (claims_of(person, server, sql, user) for person in (alice, bob))
    for claim in ("sub", "email", "aud", "customer_id"):
        assert hers[claim] != his[claim]
    assert (hers["customer_id"], his["customer_id"]) == (alice.customer, bob.customer)
    seed = sql.value("select seed::text from person where user_id = $1", user)
    for told in (email, seed):
        assert told not in json.dumps([hers, his])


def test_the_subject_of_a_user_stays(
    alice: Person, server: RunningServer, dsn: str, settings: Settings, sql: Sql
) -> None:
    """A7: the same on every server, and when the person comes back."""
    email = f"stays.{uuid.uuid4()}@example.org"
    user = alice.user(email)
    first = claims_of(alice, server, sql, user)["sub"]
    assert alice.delete("/users/assignments/customers", {"userId": user}).status_code == 204
    assert alice.put("/users/assignments/customers", {"emailAddress": email}).status_code == 204
    with RunningServer(settings, dsn, worker=False) as other:
        assert claims_of(alice, other, sql, user)["sub"] == claims_of(alice, server, sql, user)["sub"] == first


@pytest.mark.parametrize("members", [{"type": "Anonymous"}, {"type": "Normal", "password": "of my own"}])
def test_users_of_both_types_get_tokens(
    alice: Person, server: RunningServer, sql: Sql, members: dict[str, Any]
) -> None:
    """A7: a customer's own app is what `Anonymous` users are for."""
    claims = claims_of(alice, server, sql, alice.user(**members))
    assert claims["sub"] == claims["email"] == str(uuid.UUID(claims["sub"]))


def test_customer_key_and_user_must_belong_together(alice: Person, bob: Person, sql: Sql) -> None:
    right = {"customerId": alice.customer, "sdkKey": sdk_key(alice, sql), "userId": alice.user()}
    his = {"customerId": bob.customer, "sdkKey": sdk_key(bob, sql), "userId": bob.user()}
    assert alice.post("/sdk/token", right).status_code == 200
    for member in right:
        refused(alice.post("/sdk/token", right | {member: his[member]}), 400, INVALID)
    for member, value in {"customerId": 2147483647, "sdkKey": "nonsense", "userId": 2147483647}.items():
        refused(alice.post("/sdk/token", right | {member: value}), 400, INVALID)
    refused(bob.post("/sdk/token", right), 400, INVALID)


def test_a_revoked_key(alice: Person, sql: Sql) -> None:
    key = sdk_key(alice, sql)
    body = {"customerId": alice.customer, "sdkKey": key, "userId": alice.user()}
    assert alice.post("/sdk/token", body).status_code == 200
    sql.execute("update sdk_key set revoked_at = now() where hash = $1", secret_hashes.digest(key))
    refused(alice.post("/sdk/token", body), 400, INVALID)


def test_a_user_who_left(alice: Person, sql: Sql) -> None:
    user = alice.user()
    body = {"customerId": alice.customer, "sdkKey": sdk_key(alice, sql), "userId": user}
    assert alice.post("/sdk/token", body).status_code == 200
    assert alice.delete("/users/assignments/customers", {"userId": user}).status_code == 204
    refused(alice.post("/sdk/token", body), 400, INVALID)


@pytest.mark.parametrize("member", ["customerId", "sdkKey", "userId"])
@pytest.mark.parametrize("value", ["absent", None, True, [], {}])
def test_a_member_that_is_missing_or_of_another_type(alice: Person, member: str, value: Any) -> None:
    body: dict[str, Any] = {"customerId": 1, "sdkKey": "x", "userId": 1} | {member: value}
    if value == "absent":
        del body[member]
    refused(alice.post("/sdk/token", body), 400, f"Couldn't get token. No valid {member} provided.")


def test_a_revoked_key_ends_its_tokens_in_every_process(
    alice: Person, server: RunningServer, sql: Sql, dsn: str, settings: Settings
) -> None:
    user = alice.user()
    ends, stays = alice.app_of(user), alice.app_of(user)
    with RunningServer(settings, dsn, worker=False, public_url=server.url) as other:

        def statuses(app: Person) -> list[int]:
            urls = (server.url, other.url)
            return [web().get(url + "/v3/sdk/devices", headers=app.headers).status_code for url in urls]

        assert statuses(ends) == statuses(stays) == [200, 200]  # both processes have cached the tokens
        key = claims_in(ends)["sdk_key_id"]
        revoke = "update sdk_key set revoked_at = now() where customer_id = $1 and sdk_key_id = $2"
        sql.execute(revoke, alice.customer, key)
        eventually(lambda: statuses(ends) == [401, 401], "the revocation")
        assert statuses(stays) == [200, 200]
        assert ends.get("/sdk/keys?device=" + "A" * 43).json()["message"] == INVALID_TOKEN.text


def test_a_token_of_a_release_without_the_key_lasts_until_it_expires(
    alice: Person, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign = Authenticator.sign

    async def older(self: Authenticator, *args: Any, sdk_key_id: int, **more: Any) -> str:
        return await sign(self, *args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(Authenticator, "sign", older)
        app = alice.app_of(alice.user())
    assert set(claims_in(app)) == {"iss", "sub", "aud", "iat", "exp", "jti", "customer_id", "email"}
    sql.execute("update sdk_key set revoked_at = now() where customer_id = $1", alice.customer)
    assert app.get("/sdk/devices").status_code == 200


def claims_in(app: Person) -> dict[str, Any]:
    """The claims of an app's id token."""
    return json.loads(base64.urlsafe_b64decode(app.token.split(".")[1] + "=="))
