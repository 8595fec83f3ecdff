"""B9: revocation of tokens by signing key and by manager.

Two servers share the database.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from typer.testing import CliRunner

from keyrack.cli.main import application
from keyrack.core import secret_hashes
from keyrack.core.settings import Settings
from tests.support.people import PASSWORD, Person, Town, web
from tests.support.servers import RunningServer, Sql, eventually, migrated_database

TOKEN_REFUSED = {"statusCode": 401, "message": "Unauthorized. Access token is missing or invalid."}


# A separate database, because a revoked key ends all tokens


@pytest.fixture(scope="module")
def dsn(database_server: str) -> Iterator[str]:
    with migrated_database(database_server) as address:
        yield address


@pytest.fixture(scope="module")
def sql(dsn: str) -> Iterator[Sql]:
    statements = Sql(dsn)
    yield statements
    statements.close()


@pytest.fixture(scope="module")
def server(dsn: str, settings: Settings) -> Iterator[RunningServer]:
    with RunningServer(settings, dsn, worker=False) as running:
        yield running


@pytest.fixture(scope="module")
def other(dsn: str, settings: Settings) -> Iterator[RunningServer]:
    with RunningServer(settings, dsn, worker=False) as running:
        yield running


@pytest.fixture(scope="module")
def town(sql: Sql, server: RunningServer) -> Town:
    return Town(sql, server)


@pytest.fixture
def keyrack(dsn: str) -> Callable[..., Any]:
    """Run a command. Returns its JSON or text, or its standard error if it fails."""

    def run(*arguments: object, says: bool = False, fails: bool = False, stdin: str = "") -> Any:
        words = [*map(str, arguments), *(() if says or fails else ("--json",))]
        runner = CliRunner(env={"KEYRACK_DATABASE_URL": dsn})
        result = runner.invoke(application(words[0]), words, input=stdin)
        assert bool(result.exit_code) is fails, result.output
        return result.stderr if fails else result.stdout if says else json.loads(result.stdout)

    return run


def kids(server: RunningServer) -> set[str]:
    return {key["kid"] for key in web().get(server.url + "/.well-known/jwks.json").json()["keys"]}


def token(person: Person, server: RunningServer, password: str = PASSWORD) -> httpx.Response:
    form = {"grant_type": "password", "username": person.username, "password": password}
    return web().post(server.url + "/v3/oauth2/token", data=form, headers={"vendor-API-Key": person.api_key})


def signed_in(person: Person, server: RunningServer, password: str = PASSWORD) -> dict[str, str]:
    answer = token(person, server, password)
    assert answer.status_code == 200, answer.text
    return person.headers | {"Authorization": f"Bearer {answer.json()['access_token']}"}


def statuses(headers: dict[str, str], *servers: RunningServer) -> list[int]:
    return [web().get(running.url + "/v3/cars", headers=headers).status_code for running in servers]


def everywhere(headers: dict[str, str], status: int, *servers: RunningServer) -> None:
    eventually(lambda: set(statuses(headers, *servers)) == {status}, f"{status} on every server")


def test_a_signing_key_is_revoked_at_once_everywhere(
    alice: Person, server: RunningServer, other: RunningServer, keyrack: Any, sql: Sql
) -> None:
    """B9: `signing-key revoke`: every server rejects its tokens, and the JWKS has another key."""
    everywhere(signed_in(alice, server), 200, server, other)
    before = signed_in(alice, other)
    (kid,) = [row["kid"] for row in keyrack("signing-key", "list") if row["signs"]]
    sdk_key = secret_hashes.new_secret()
    sql.execute(
        "insert into sdk_key (customer_id, hash) values ($1, $2)", alice.customer, secret_hashes.digest(sdk_key)
    )
    body = {"customerId": alice.customer, "sdkKey": sdk_key, "userId": alice.user()}
    id_token = web().post(server.url + "/v3/sdk/token", json=body, headers=before).json()["id_token"]
    assert statuses(before, server, other) == [200, 200]  # both have cached it now

    revoked = keyrack("signing-key", "revoke", kid, "--yes")
    assert (revoked["kid"], revoked["signs"] != kid, bool(revoked["revokedAt"])) == (kid, True, True)
    everywhere(before, 401, server, other)
    assert web().get(other.url + "/v3/cars", headers=before).json() == TOKEN_REFUSED
    for running in (server, other):
        eventually(lambda running=running: kids(running) == {revoked["signs"]}, "the new key alone")
        everywhere(signed_in(alice, running), 200, server, other)
    keys = KeySet.import_key_set(web().get(server.url + "/.well-known/jwks.json").json())
    with pytest.raises((JoseError, ValueError)):  # what a relying party does
        jwt.decode(id_token, keys, algorithms=["RS256"])
    assert sql.value("select private_key from signing_key where kid = $1", kid) is None


def test_a_second_revocation_changes_nothing(keyrack: Any) -> None:
    """B9: idempotent, with a clear message. A key that does not sign needs no successor."""
    first = keyrack("signing-key", "rotate")["kid"]
    second = keyrack("signing-key", "rotate")["kid"]
    said = keyrack("signing-key", "revoke", first, "--yes", says=True)
    assert said == f"Signing key {first} is revoked: tokens that it signed are rejected. {second} now signs.\n"
    again = keyrack("signing-key", "revoke", first)
    assert again == keyrack("signing-key", "revoke", first) and again["signs"] == second
    assert f"Signing key {first} was already revoked at 20" in keyrack("signing-key", "revoke", first, says=True)
    rows = {row["kid"]: row for row in keyrack("signing-key", "list")}
    assert (rows[first]["signs"], rows[second]["signs"], rows[second]["revokedAt"]) == (False, True, None)
    assert rows[first]["revokedAt"] == again["revokedAt"]
    assert "REVOKED" in keyrack("signing-key", "list", says=True)
    assert keyrack("signing-key", "revoke", "nothing", fails=True) == "keyrack: There is no signing key nothing.\n"


SIGNING_OUT: list[tuple[str, Callable[[Person, int], tuple[object, ...]]]] = [
    ("sign-out", lambda person, id: ("manager", "sign-out", person.username.upper())),
    ("a new password", lambda person, id: ("manager", "change", id, "--password", "-")),
    ("disabled and enabled", lambda person, id: ("manager", "change", id, "--disable", "--leave-without-owner")),
]


@pytest.mark.parametrize(("what", "arguments"), SIGNING_OUT, ids=[what for what, _ in SIGNING_OUT])
def test_a_manager_is_signed_out_everywhere(
    what: str, arguments: Any, town: Town, alice: Person, server: RunningServer, other: RunningServer,
    keyrack: Any, sql: Sql,
) -> None:  # fmt: skip
    """B9: `manager sign-out`, a new password and disabling end all earlier tokens of that manager alone."""
    carl = town.person("carl")
    id = sql.value("select manager_id from manager where username = $1", carl.username)
    bystander = signed_in(alice, server)
    tokens = [signed_in(carl, server), signed_in(carl, other)]
    for headers in tokens:
        assert statuses(headers, server, other) == [200, 200]
    keyrack(*arguments(carl, id), stdin=f"{PASSWORD}\n")
    if "disabled" in what:
        everywhere(tokens[0], 404, server, other)
        keyrack("manager", "change", id, "--enable")
    for headers in tokens:
        everywhere(headers, 401, server, other)
        assert web().get(server.url + "/v3/cars", headers=headers).json() == TOKEN_REFUSED
    fresh = signed_in(carl, server)  # in the same second as the sign-out: no clock decides
    assert statuses(fresh, server, other) == [200, 200]
    assert statuses(bystander, server, other) == [200, 200]
    assert statuses(tokens[0], server, other) == [401, 401]


def test_a_token_from_after_an_unnoticed_sign_out_is_valid(
    town: Town, server: RunningServer, other: RunningServer, keyrack: Any
) -> None:
    """B9: a log-in after a sign-out works also on a server that has not noticed the sign-out."""
    carl = town.person("carl")
    for _ in range(5):
        assert statuses(signed_in(carl, server), server, other) == [200, 200]
        keyrack("manager", "sign-out", carl.username)


def test_tokens_of_a_removed_manager_are_invalid(town: Town, server: RunningServer, keyrack: Any, sql: Sql) -> None:
    """B9: also if another manager gets the same user name."""
    carl = town.person("carl")
    headers = signed_in(carl, server)
    id = sql.value("select manager_id from manager where username = $1", carl.username)
    keyrack("manager", "remove", id, "--leave-without-owner")
    keyrack("manager", "add", carl.username, "--role", "owner", "--customer", carl.customer)
    everywhere(headers, 404, server)


def test_a_wrong_name_signs_no_manager_out(keyrack: Any) -> None:
    assert keyrack("manager", "sign-out", "no.body", fails=True) == "keyrack: There is no manager called no.body.\n"


def test_a_password_that_was_given_is_never_printed(town: Town, alice: Person, keyrack: Any, sql: Sql) -> None:
    """B9: not for people, not for programs, not in an error."""
    secret = "a pass phrase of mine"
    add = ("manager", "add", "--role", "owner", "--customer", alice.customer)
    assert "password" not in keyrack(*add, "given.json", "--password", secret)
    assert "password" not in keyrack(*add, "given.stdin", "--password", "-", stdin=f"{secret}\n")
    assert secret not in keyrack(*add, "given.text", "--password", secret, says=True)
    id = sql.value("select manager_id from manager where username = 'given.text'")
    assert "password" not in keyrack("manager", "change", id, "--password", secret)
    assert secret not in keyrack("manager", "change", id, "--password", secret, says=True)
    assert secret not in keyrack(*add, "given.text", "--password", secret, fails=True)
    assert secret not in keyrack(
        "manager", "add", "x", "--role", "owner", "--customer", 2**31 - 1, "--password", secret, fails=True
    )
    assert "s3cret" not in keyrack(*add, "short", "--password", "s3cret", fails=True)
    assert len(keyrack("manager", "change", id, "--new-password")["password"]) > 30  # a generated one is, once


@pytest.mark.parametrize("password", ["s3cret/x", "s3cret#x", "s3cret?x", "5:s3cret/x"])
def test_a_password_of_the_database_is_not_printed(password: str) -> None:
    """B9: an address that is misread, because its password is not encoded, is refused without quoting it."""
    env = {"KEYRACK_DATABASE_URL": f"postgresql://user:{password}@127.0.0.1:1/name"}
    result = CliRunner(env=env).invoke(application("customer"), ["customer", "list"])
    assert result.exit_code == 1
    assert "s3cret" not in result.output and result.stderr.count("\n") == 1
    assert (
        "KEYRACK_DATABASE_URL: the value is not an address of the form postgresql://user:password@host:port/name. "
        in result.stderr
    )
