"""Connected accounts, the end of a session, and the operator's commands."""

from __future__ import annotations

import asyncio
import threading
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from markupsafe import escape

from keyrack.auth import browser_state
from keyrack.auth.endpoints.identities import LAST_WAY_IN, NO_IDENTITY
from keyrack.auth.sso.discovery import LOOKS, Directory
from keyrack.auth.sso.providers import Provider
from keyrack.console.pages.sso import WORDS
from keyrack.core.secret_hashes import digest
from keyrack.core.settings import Settings
from keyrack.db.connection import Database
from tests.auth.sso.conftest import NAME, Visitor, added
from tests.auth.sso.oidc_provider import Oidc
from tests.auth.sso.test_login_flow import fresh
from tests.cli.test_operator_commands import Operator
from tests.support.people import Person, Town, done, fetch, refused
from tests.support.servers import DEADLINE, SELDOM, RunningServer, Sql, eventually

CONNECT = "/console/{}/settings/accounts/connect"


def signed_in(visitor: Visitor, person: Person) -> Visitor:
    """The same browser after a sign-in with a password."""
    answer = visitor.go("/console/sign-in", {"username": person.username, "password": person.password})
    assert answer.status_code == 303
    return visitor


def session(visitor: Visitor) -> str:
    assert visitor.session is not None
    return visitor.session


def test_an_account_is_connected_and_disconnected(
    visitor: Visitor, oidc: Oidc, town: Town, alice: Person, federated: RunningServer
) -> None:
    person, subject = town.person("fred"), fresh()
    accounts = f"/console/{person.customer}/settings/accounts"
    signed_in(visitor, person)
    assert f"Connect {NAME.capitalize()}" in visitor.go(accounts).text
    oidc.says(subject)
    there = visitor.begin(CONNECT.format(person.customer))
    assert parse_qs(urlsplit(there).query)["prompt"] == ["login"]
    answer = visitor.go(visitor.answered(there))
    assert (answer.status_code, answer.headers["Location"]) == (303, f"{accounts}?saved=connected")
    (row,) = person.get("/me/identities").json()
    assert (row["provider"], row["label"]) == (NAME, NAME.capitalize())
    assert alice.get("/me/identities").json() == []  # the neighbour has none
    by_it = Visitor(federated.url)
    assert by_it.come().status_code == 303
    refused(alice.delete(f"/me/identities/{row['id']}"), 404, NO_IDENTITY)
    answer = visitor.go(f"{accounts}/disconnect", {"account": str(row["id"])})
    assert (answer.status_code, answer.headers["Location"]) == (303, f"{accounts}?saved=disconnected")
    assert by_it.go(accounts).status_code != 200  # the session that it began has ended
    assert visitor.go(accounts).status_code == 200
    assert Visitor(federated.url).come().status_code == 403


def test_a_sign_in_by_an_account_that_is_disconnected_meanwhile_begins_no_session(
    visitor: Visitor, oidc: Oidc, town: Town, sql: Sql, dsn: str
) -> None:
    person, subject = town.person("fritz"), fresh()
    sql.execute(
        "insert into manager_identity (provider_id, subject, manager_id)"
        " select provider_id, $1, manager_id from provider, manager where name = $2 and username = $3",
        subject, NAME, person.username,
    )  # fmt: skip
    oidc.says(subject)
    back = visitor.answered(visitor.begin())
    other, answers = Sql(dsn), list[httpx.Response]()
    other.execute("begin")
    other.execute("delete from manager_identity where subject = $1", subject)
    request = threading.Thread(target=lambda: answers.append(visitor.go(back)))
    request.start()
    waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%into session%'"
    eventually(lambda: sql.value(waiting) > 0, "the wait for the end of the account")
    other.execute("commit")
    request.join(DEADLINE)
    other.close()
    assert [answer.status_code for answer in answers] == [303]
    assert "/sign-in" in visitor.go(f"/console/{person.customer}/settings").headers["location"]
    sessions = "select count(*) from session join manager using (manager_id) where username = $1"
    assert sql.value(sessions, person.username) == 0
    person.client.close()


def test_an_account_is_connected_once(visitor: Visitor, oidc: Oidc, town: Town) -> None:
    one, another, subject = town.person("gina"), town.person("hans"), fresh()
    oidc.says(subject)
    signed_in(visitor, one).go(visitor.answered(visitor.begin(CONNECT.format(one.customer))))
    signed_in(visitor, another)
    answer = visitor.go(visitor.answered(visitor.begin(CONNECT.format(another.customer))))
    assert (answer.status_code, WORDS["connected"] in answer.text) == (403, True)
    signed_in(visitor, one)
    oidc.says(fresh())
    answer = visitor.go(visitor.answered(visitor.begin(CONNECT.format(one.customer))))
    assert (answer.status_code, WORDS["connected"] in answer.text) == (403, True)
    assert len(one.get("/me/identities").json()) == 1


def test_an_account_is_connected_only_soon_after_a_sign_in(visitor: Visitor, town: Town, sql: Sql) -> None:
    person = town.person("nora")
    signed_in(visitor, person)
    sql.execute(
        "update session set created_at = created_at - interval '1 hour' where hash = $1", digest(session(visitor))
    )
    answer = visitor.go(CONNECT.format(person.customer), {"name": NAME})
    assert (answer.status_code, "You signed in some time ago." in answer.text) == (409, True)


def test_an_account_is_connected_with_the_manager_who_began(visitor: Visitor, oidc: Oidc, town: Town) -> None:
    """If another manager has signed in since, or none has, nothing is connected."""
    one, another = town.person("ida"), town.person("jan")
    oidc.says(fresh())
    for after in (another, None):
        back = visitor.answered(signed_in(visitor, one).begin(CONNECT.format(one.customer)))
        if after is not None:
            signed_in(visitor, after)
        else:
            visitor.go("/console/sign-out", {})
        answer = visitor.go(back)
        assert (answer.status_code, WORDS["other"] in answer.text) == (403, True)
    assert one.get("/me/identities").json() == another.get("/me/identities").json() == []


def test_the_last_sign_in_method_stays(
    visitor: Visitor, oidc: Oidc, town: Town, sql: Sql, federated: RunningServer
) -> None:
    person = town.person("kim")
    oidc.says(fresh())
    signed_in(visitor, person).go(visitor.answered(visitor.begin(CONNECT.format(person.customer))))
    (row,) = person.get("/me/identities").json()
    sql.execute("update manager set password_hash = null where username = $1", person.username)
    by_it = Visitor(federated.url)
    assert by_it.come().status_code == 303
    answer = by_it.go(f"/console/{person.customer}/settings/accounts/disconnect", {"account": str(row["id"])})
    assert (answer.status_code, str(escape(LAST_WAY_IN.text)) in answer.text) == (409, True)
    sql.execute("update manager set password_hash = $2 where username = $1", person.username, town.password_hash)


def test_a_manager_without_a_password_cannot_sign_in_by_one(town: Town, sql: Sql, visitor: Visitor) -> None:
    person = town.person("lea")
    sql.execute("update manager set password_hash = null where username = $1", person.username)
    for password in ("", person.password, "None"):
        form = {"username": person.username, "password": password, "grant_type": "password"}
        answer = person.client.post("/oauth2/token", data=form, headers={"vendor-API-Key": person.api_key})
        assert answer.status_code in (400, 401)
        assert visitor.go("/console/sign-in", form).status_code == 401


def test_the_change_log_agrees_with_the_tables(
    visitor: Visitor, oidc: Oidc, town: Town, server: RunningServer, dsn: str
) -> None:
    """It records providers, their domains, and connected and disconnected accounts; `server` numbers changes."""
    assert server.url
    for name in ("pia", "quin"):
        person = town.person(name)
        oidc.says(fresh())
        signed_in(visitor, person).go(visitor.answered(visitor.begin(CONNECT.format(person.customer))))
    (row,) = person.get("/me/identities").json()
    done(person.delete(f"/me/identities/{row['id']}"))
    verify = ("audit", "verify", "--installation", "--tables", "--json")
    eventually(lambda: Operator(dsn).quick(*verify)[0] == 0, "the log and the tables to say the same")


def test_signing_out_goes_on_to_the_provider(visitor: Visitor, oidc: Oidc, town: Town, sql: Sql) -> None:
    person = town.person("max")
    oidc.says(fresh())
    signed_in(visitor, person).go(visitor.answered(visitor.begin(CONNECT.format(person.customer))))
    answer = visitor.go("/console/sign-out", {})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/console/sign-in?out")  # by a password
    assert visitor.come().status_code == 303
    before = session(visitor)
    address = visitor.begin("/console/sign-out")
    asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
    assert address.startswith(f"{oidc.issuer}/session/end?")
    assert asked["post_logout_redirect_uri"] == f"{visitor.url}/console/sign-in?out"
    assert visitor.go(address).status_code == 200  # the provider asks
    visitor.cookies[urlsplit(visitor.url).netloc]["keyrack-session"] = before
    assert visitor.go(f"/console/{person.customer}").status_code != 200


def test_reloads_of_provider_keys_are_limited() -> None:
    """Tokens of made-up keys do not cause a request to the provider each time."""
    asked: list[str] = []
    issuer = "https://corp.example"
    known = {
        "issuer": issuer, "authorization_endpoint": f"{issuer}/a", "token_endpoint": f"{issuer}/t",
        "jwks_uri": f"{issuer}/k",
    }  # fmt: skip
    key = {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", "kid": "one"}

    async def fetch(address: str) -> dict[str, Any]:
        asked.append(address)
        return {"keys": [key]} if address.endswith("/k") else known

    async def look() -> None:
        directory = Directory(Settings(), fetch)
        provider = Provider(1, "corp", "Corp", issuer, "keyrack", ("EdDSA",), False)
        for number in range(3 * LOOKS):
            assert await directory.keys(provider, f"made up {number}") == []
        assert len(await directory.keys(provider, "one")) == 1

    asyncio.run(look())
    assert len(asked) == 2 + LOOKS


@pytest.mark.parametrize(
    "lie",
    [
        {"issuer": "http://localhost:1"},
        {"token_endpoint": "http://elsewhere.example/token"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"jwks_uri": None},
        {"token_endpoint_auth_methods_supported": ["private_key_jwt"]},
    ],
)
def test_a_discovery_document_is_refused(
    federated: RunningServer, oidc: Oidc, dsn: str, sql: Sql, lie: dict[str, Any]
) -> None:
    name = f"liar-{fresh().lower()}"
    asyncio.run(added(dsn, federated.settings, name, oidc.issuer))
    oidc.says("nobody", metadata=lie)
    answer = Visitor(federated.url).go("/console/sign-in/provider", {"name": name})
    assert (answer.status_code, WORDS["provider"] in answer.text) == (403, True)
    sql.execute("delete from provider where name = $1", name)


def test_used_states_are_deleted_once_they_have_expired(
    oidc: Oidc, visitor: Visitor, sql: Sql, dsn: str, settings: Settings
) -> None:
    """A pending sign-in leaves nothing. A finished one leaves a digest for twice its ten minutes."""
    count = "select count(*) from used_login_state"
    sql.execute("delete from used_login_state")
    visitor.begin()
    assert sql.value(count) == 0
    visitor.come()
    assert sql.value(count) == 1

    async def forget() -> None:
        db = await Database.connect(dsn, settings, size=1)
        await browser_state.forget(db, settings)
        await db.close()

    asyncio.run(forget())
    assert sql.value(count) == 1
    sql.execute("update used_login_state set expires_at = expires_at - interval '20 minutes'")
    asyncio.run(forget())
    assert sql.value(count) == 0


def test_under_https_the_cookie_is_bound_to_the_host(oidc: Oidc, settings: Settings, dsn: str) -> None:
    own, public = settings.model_copy(update={"provider_loopback": True}), "https://keys.example.org"
    with RunningServer(own, dsn, worker=False, public_url=public) as server:
        answer = fetch(
            "POST", f"{server.url}/console/sign-in/provider", data={"name": NAME}, headers={"Origin": public}
        )
        cookie, *attributes = answer.headers["set-cookie"].split("; ")
        assert cookie.startswith("__Host-keyrack-sign-in=")
        assert attributes == ["Path=/", "Max-Age=600", "HttpOnly", "SameSite=Lax", "Secure"]
        assert "https%3A%2F%2Fkeys.example.org%2Fconsole%2Fsign-in%2Fcallback" in answer.text


def test_a_flood_of_sign_ins_is_slowed(oidc: Oidc, settings: Settings, dsn: str, sql: Sql) -> None:
    """An unfinished sign-in counts against the address's limit of failures."""
    slow = settings.model_copy(
        update={"provider_loopback": True, "login_rate_per_address": SELDOM, "login_burst_per_address": 2}
    )
    sql.execute("delete from rate_limit")
    with RunningServer(slow, dsn, worker=False) as server:
        begun = [Visitor(server.url).go("/console/sign-in/provider", {"name": NAME}) for _ in range(3)]
        assert [answer.status_code for answer in begun] == [200, 200, 429]
    sql.execute("delete from rate_limit")


def test_an_internal_address_is_not_contacted(server: RunningServer, oidc: Oidc) -> None:
    """The server of most tests has no setting that allows it."""
    answer = Visitor(server.url).go("/console/sign-in/provider", {"name": NAME})
    assert (answer.status_code, WORDS["provider"] in answer.text) == (403, True)
