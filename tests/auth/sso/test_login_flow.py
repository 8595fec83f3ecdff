"""Sign-in by a certified provider, and each possible fault of an answer."""

from __future__ import annotations

import asyncio
import os
import time
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from keyrack.auth import browser_state
from keyrack.auth.sso import login_flow
from keyrack.console.pages.sso import WORDS
from keyrack.core.settings import Settings
from keyrack.db.connection import Database
from keyrack.db.encryption.bootstrap import open_vault
from tests.auth.sso.conftest import DOMAIN, NAME, ON, Visitor
from tests.auth.sso.oidc_provider import CLIENT, Oidc
from tests.auth.test_mfa import Browser, now, unused, with_app
from tests.support.log_lines import captured_events
from tests.support.people import Person, Town, fetch
from tests.support.servers import NUMBERS, SELDOM, RunningServer, Sql


def fresh() -> str:
    """A subject that no manager has."""
    return f"s{os.getpid()}-{next(NUMBERS)}"


@pytest.fixture
def dora(town: Town, sql: Sql, oidc: Oidc) -> tuple[Person, str]:
    """A manager with a connected account, and its subject."""
    person, subject = town.person("dora"), fresh()
    sql.execute(
        "insert into manager_identity (provider_id, subject, manager_id)"
        " select provider_id, $1, manager_id from provider, manager where name = $2 and username = $3",
        subject, NAME, person.username,
    )  # fmt: skip
    return person, subject


REFUSED = "single sign-on failed"  # in the operator's log


def is_refused(visitor: Visitor, why: str, **form: str) -> None:
    """Check that a whole sign-in fails, with these words."""
    answer = visitor.come(**form)
    assert (answer.status_code, WORDS[why] in answer.text) == (403, True), answer.text
    assert visitor.session is None


def test_a_connected_manager_is_signed_in(visitor: Visitor, oidc: Oidc, dora: tuple[Person, str], sql: Sql) -> None:
    person, subject = dora
    oidc.says(subject)
    there = visitor.begin(next=f"/console/{person.customer}/settings", time_zone="Europe/Berlin")
    asked = {name: values[0] for name, values in parse_qs(urlsplit(there).query).items()}
    assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
    assert asked["redirect_uri"] == f"{visitor.url}/console/sign-in/callback"
    assert {"state", "nonce", "code_challenge"} <= asked.keys()
    answer = visitor.go(visitor.answered(there))
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/console/{person.customer}/settings")
    assert visitor.go(f"/console/{person.customer}/settings").status_code == 200
    row = sql.rows(
        "select amr, s.time_zone, provider_id is not null as known from session s join manager using (manager_id)"
        " where username = $1", person.username,
    )[-1]  # fmt: skip
    assert tuple(row) == (["fed"], "Europe/Berlin", True)


def test_a_second_factor_of_the_provider_counts_if_it_is_configured(
    visitor: Visitor, oidc: Oidc, dora: tuple[Person, str], sql: Sql
) -> None:
    person, subject = dora
    oidc.says(subject, token={"claims": {"amr": ["pwd", "mfa"]}})
    assert visitor.come().status_code == 303
    told = "select amr from session join manager using (manager_id) where username = $1 order by session_id"
    assert sql.rows(told, person.username)[-1]["amr"] == ["fed", "mfa"]


def test_a_manager_with_a_second_factor_must_use_it(
    visitor: Visitor, oidc: Oidc, dora: tuple[Person, str], sql: Sql
) -> None:
    person, subject = dora
    own = Browser(person)
    secret = with_app(own)
    unused(sql, person)
    own.http.close()
    oidc.says(subject)
    home = f"/console/{person.customer}/settings"
    answer = visitor.come(next=home)
    assert answer.status_code == 200 and "second factor" in answer.text and visitor.session is None
    found = ON.search(answer.text)
    assert found is not None
    form = visitor.go(unescape(found[1]))
    assert (form.status_code, "code" in form.text, home in form.text) == (200, True, True)
    wrong = visitor.go("/console/sign-in/second", {"code": "000000", "next": home})
    assert (wrong.status_code, visitor.session) == (401, None)
    right = visitor.go("/console/sign-in/second", {"code": now(secret), "next": home})
    assert (right.status_code, right.headers["location"]) == (303, home)
    told = "select amr, provider_id is not null as known from session s join manager using (manager_id)"
    row = sql.rows(told + " where username = $1 order by session_id", person.username)[-1]
    assert tuple(row) == (["fed", "otp", "mfa"], True)
    # A disconnected account gets no further
    unused(sql, person)
    again = Visitor(visitor.url)
    assert again.come().status_code == 200
    sql.execute("delete from manager_identity where subject = $1", subject)
    assert again.go("/console/sign-in/second", {"code": now(secret)}).status_code == 303 and again.session is None


def wrong_tokens(now: int) -> dict[str, tuple[str, dict[str, Any] | None]]:
    """The name of each fault -> the first word of the logged reason, and what the provider changes in its token."""
    return {
        "nonce of another": ("nonce", {"claims": {"nonce": "another"}}),
        "no nonce": ("nonce", {"without": ["nonce"]}),
        "audience": ("aud", {"claims": {"aud": "another client"}}),
        "no audience": ("aud", {"without": ["aud"]}),
        "several audiences without azp": ("azp", {"claims": {"aud": [CLIENT, "another client"]}, "without": ["azp"]}),
        "azp of another": ("azp", {"claims": {"azp": "another client"}}),
        "expiry": ("exp", {"claims": {"exp": now - 3_600}}),
        "expiry that is a text": ("exp", {"claims": {"exp": str(now + 3_600)}}),
        "no expiry": ("exp", {"without": ["exp"]}),
        "issued in the future": ("iat", {"claims": {"iat": now + 3_600}}),
        "issued long ago": ("iat", {"claims": {"iat": now - 86_400}}),
        "not issued": ("iat", {"without": ["iat"]}),
        "not yet valid": ("nbf", {"claims": {"nbf": now + 3_600}}),
        "issuer": ("iss", {"claims": {"iss": "https://elsewhere.example"}}),
        "issuer with a slash": ("iss", {"claims": {"iss": "ISSUER/"}}),
        "no issuer": ("iss", {"without": ["iss"]}),
        "no subject": ("sub", {"without": ["sub"]}),
        "a subject that is a number": ("sub", {"claims": {"sub": 7}}),
        "a subject without end": ("sub", {"claims": {"sub": "s" * 256}}),
        "alg none": ("alg", {"header": {"alg": "none"}, "signer": "none"}),
        "alg that is not pinned": ("alg", {"header": {"alg": "RS384"}}),
        "HS256 with the client's secret": ("alg", {"header": {"alg": "HS256"}, "signer": "secret"}),
        "HS256 with the public key": ("alg", {"header": {"alg": "HS256"}, "signer": "public"}),
        "a strange key under a known name": ("signature", {"signer": "strange"}),
        "a key that nobody knows": ("kid", {"signer": "second"}),
        "crit": ("crit", {"header": {"crit": ["exp"]}}),
        "an access token": ("typ", {"header": {"typ": "at+jwt"}}),
        "no identity token": ("id_token", None),
    }


@pytest.mark.parametrize("wrong", wrong_tokens(0))
def test_each_single_fault_is_refused(visitor: Visitor, oidc: Oidc, dora: tuple[Person, str], wrong: str) -> None:
    reason, lie = wrong_tokens(int(time.time()))[wrong]
    if lie and lie.get("claims", {}).get("iss") == "ISSUER/":
        lie = {"claims": {"iss": f"{oidc.issuer}/"}}
    oidc.says(dora[1], token=lie)
    with captured_events(REFUSED) as logs:
        is_refused(visitor, "provider")
    assert [line["reason"].partition(":")[0] for line in logs] == [reason]


def test_the_same_answers_without_a_fault_are_accepted(visitor: Visitor, oidc: Oidc, dora: tuple[Person, str]) -> None:
    """With correct values the answers are accepted, so each case fails only by its fault."""
    oidc.says(
        dora[1],
        token={"claims": {"aud": [CLIENT, "another client"], "azp": CLIENT, "iat": int(time.time())}, "header": {}},
    )
    assert visitor.come().status_code == 303


def test_rotated_keys_are_accepted(visitor: Visitor, oidc: Oidc, dora: tuple[Person, str]) -> None:
    oidc.says(dora[1])
    assert visitor.come().status_code == 303
    oidc.says(dora[1], keys="second")
    assert visitor.come().status_code == 303
    oidc.says(dora[1])
    assert visitor.come().status_code == 303


def test_a_code_is_valid_once(visitor: Visitor, oidc: Oidc, dora: tuple[Person, str]) -> None:
    """The provider refuses it the second time, whatever the state is."""
    oidc.says(dora[1])
    first = visitor.answered(visitor.begin())
    assert visitor.go(first).status_code == 303
    again = Visitor(visitor.url)
    state = parse_qs(urlsplit(again.begin()).query)["state"][0]
    answer = again.go(changed(first, state=state))
    assert (answer.status_code, WORDS["provider"] in answer.text, again.session) == (403, True, None)


def changed(address: str, **members: str | None) -> str:
    """The address with other parameters; None takes one away."""
    parts = urlsplit(address)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()} | members
    return parts._replace(query=urlencode({name: value for name, value in query.items() if value is not None})).geturl()


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"state": "x" * 43}, "lapsed"),
        ({"state": None}, "lapsed"),
        ({"iss": "https://elsewhere.example"}, "provider"),
        ({"iss": None}, "provider"),
        ({"code": None}, "provider"),
        ({"code": "another"}, "provider"),
        ({"error": "access_denied"}, "declined"),
        ({"error": "<script>"}, "provider"),
    ],
)
def test_a_changed_answer_of_the_provider_is_refused(
    visitor: Visitor, oidc: Oidc, dora: tuple[Person, str], members: dict[str, str | None], why: str
) -> None:
    oidc.says(dora[1])
    answer = visitor.go(changed(visitor.answered(visitor.begin()), **members))
    assert (answer.status_code, WORDS[why] in answer.text, visitor.session) == (403, True, None)
    assert "<script>" not in answer.text


def test_a_state_is_valid_once_in_one_browser(visitor: Visitor, oidc: Oidc, dora: tuple[Person, str]) -> None:
    oidc.says(dora[1])
    back = visitor.answered(visitor.begin())
    other = Visitor(visitor.url)
    other.begin()  # it has a cookie of its own
    for stranger in (other, Visitor(visitor.url)):
        answer = stranger.go(back)
        assert (answer.status_code, WORDS["lapsed"] in answer.text, stranger.session) == (403, True, None)
    assert visitor.go(back).status_code == 303
    visitor.cookies[urlsplit(visitor.url).netloc].pop("keyrack-session")
    answer = visitor.go(back)
    assert (answer.status_code, WORDS["lapsed"] in answer.text, visitor.session) == (403, True, None)


def resealed(visitor: Visitor, dsn: str, settings: Settings, **changed: object) -> None:
    """Change the sealed contents of the visitor's cookie, with the key of the installation."""
    jar = visitor.cookies[urlsplit(visitor.url).netloc]

    async def run() -> str:
        db = await Database.connect(dsn, settings, size=1)
        try:
            vault = await open_vault(db, settings)
            (state,) = await browser_state.valid(vault, login_flow.MANAGERS.purpose, jar["keyrack-sign-in"])
            return await browser_state.add(vault, login_flow.MANAGERS.purpose, None, {**state, **changed})
        finally:
            await db.close()

    jar["keyrack-sign-in"] = asyncio.run(run())


def test_a_sign_in_ends_after_ten_minutes(
    visitor: Visitor, oidc: Oidc, dora: tuple[Person, str], dsn: str, settings: Settings
) -> None:
    oidc.says(dora[1])
    back = visitor.answered(visitor.begin())
    resealed(visitor, dsn, settings, expires=int(time.time()) - 1)
    answer = visitor.go(back)
    assert (answer.status_code, WORDS["lapsed"] in answer.text, visitor.session) == (403, True, None)
    assert visitor.come().status_code == 303


def test_a_sign_in_is_finished_once_over_all_processes(
    visitor: Visitor, oidc: Oidc, dora: tuple[Person, str], federated: RunningServer, dsn: str
) -> None:
    oidc.says(dora[1])
    back = visitor.answered(visitor.begin())
    cookie = visitor.cookies[urlsplit(visitor.url).netloc]["keyrack-sign-in"]
    with RunningServer(federated.settings, dsn, worker=False, public_url=federated.url) as second:
        places = [server.url + back.removeprefix(federated.url) for server in (federated, second) * 3]

        def come(place: str) -> tuple[int, bool]:
            answer = fetch("GET", place, headers={"Cookie": f"keyrack-sign-in={cookie}"})
            return answer.status_code, WORDS["lapsed"] in answer.text

        with ThreadPoolExecutor(6) as threads:  # the provider, which accepts a code once, is asked once
            assert sorted(threads.map(come, places)) == [(303, False)] + [(403, True)] * 5


def test_each_tab_of_a_browser_finishes_its_sign_in(visitor: Visitor, oidc: Oidc, dora: tuple[Person, str]) -> None:
    oidc.says(dora[1])
    first = visitor.answered(visitor.begin(next="/console/help"))
    second = visitor.answered(visitor.begin())
    for back, location in ((second, "/console"), (first, "/console/help")):
        answer = visitor.go(back)
        assert (answer.status_code, answer.headers["Location"]) == (303, location)


@pytest.mark.parametrize("next", ["/console/" + "x" * 1_900, "/console/" + "\u00e4" * 1_900])
def test_a_cookie_stays_within_what_a_browser_keeps(
    visitor: Visitor, oidc: Oidc, dora: tuple[Person, str], next: str
) -> None:
    """RFC 6265, section 6.1: 4,096 bytes. A page with a longer address is not opened afterwards."""
    oidc.says(dora[1])
    backs = [visitor.answered(visitor.begin(next=next)) for _ in range(3)]
    assert len(visitor.cookies[urlsplit(visitor.url).netloc]["keyrack-sign-in"]) < 3_900
    answer = visitor.go(backs[-1])
    assert (answer.status_code, answer.headers["Location"]) == (303, next if next.isascii() else "/console")


def test_a_flood_from_many_networks_shuts_out_no_other_network(
    oidc: Oidc, dora: tuple[Person, str], federated: RunningServer, dsn: str, sql: Sql
) -> None:
    """100 /64 of one /56, as a trusted proxy names them."""
    oidc.says(dora[1])
    few = federated.settings.model_copy(update={"login_rate_per_address": SELDOM, "login_burst_per_address": 3})
    kept = sql.value("select (select count(*) from login_state) + (select count(*) from used_login_state)")
    with RunningServer(few, dsn, worker=False) as server:
        statuses = [
            fetch(
                "POST", f"{server.url}/console/sign-in/provider", data={"name": NAME},
                headers={"Origin": server.url, "X-Forwarded-For": f"2001:db8:56:{n:x}::1"},
            ).status_code
            for n in range(100)
        ]  # fmt: skip
        assert statuses[:12] == [200] * 12 and statuses.count(429) >= 50
        assert sql.value("select (select count(*) from login_state) + (select count(*) from used_login_state)") == kept
        honest = Visitor(server.url)
        assert honest.begin()


def address(name: str = "dora", domain: str = DOMAIN) -> str:
    return f"{name}.{fresh()}@{domain}"


def named(town: Town, email: str, *, is_proven: bool = True) -> Person:
    """A manager whose user name is an address."""
    person = town.person("erik")
    person.rename(email, is_proven=is_proven)
    return person


def identities(sql: Sql, person: Person) -> int:
    told = "select count(*) from manager_identity join manager using (manager_id) where username = $1"
    return sql.value(told, person.username)


def test_a_verified_address_of_a_listed_domain_finds_its_manager_once(
    visitor: Visitor, oidc: Oidc, town: Town, sql: Sql
) -> None:
    email, subject = address("Erik"), fresh()
    person = named(town, email)
    oidc.says(subject, account={"email": email.upper(), "email_verified": True})
    assert visitor.come().status_code == 303
    assert identities(sql, person) == 1
    of = "select who, resource, "
    log = f"{of} after from change_inbox union all {of} coalesce(person->'after', after) from change"
    told = f"select who->>'name' from ({log}) c where resource = 'identity' and after->>'subject' = $1"
    assert sql.value(told, subject) == NAME  # whether a worker has numbered the change or not
    oidc.says(subject)  # by the subject alone from now on
    assert Visitor(visitor.url).come().status_code == 303
    oidc.says(fresh(), account={"email": email, "email_verified": True})  # a person who has got the address since
    is_refused(Visitor(visitor.url), "unknown")
    assert identities(sql, person) == 1


@pytest.mark.parametrize(
    ("domain", "verified"),
    [(DOMAIN, False), (DOMAIN, "True"), (DOMAIN, None), ("elsewhere.example", True), (f"sub.{DOMAIN}", True)],
)
def test_no_other_address_finds_a_manager(
    visitor: Visitor, oidc: Oidc, town: Town, sql: Sql, domain: str, verified: object
) -> None:
    email = address(domain=domain)
    person = named(town, email)
    oidc.says(fresh(), account={"email": email, "email_verified": verified})
    is_refused(visitor, "unknown")
    assert identities(sql, person) == 0


@pytest.mark.parametrize(
    ("letter", "image"), [("\u0130", "i"), ("\u212a", "k"), ("\u017f", "s"), ("ｖ", "v"), ("\u1fef", "`")]
)
def test_a_verified_address_that_folds_into_a_stored_one_finds_no_manager(
    visitor: Visitor, oidc: Oidc, town: Town, sql: Sql, letter: str, image: str
) -> None:
    email = address(f"vict{image}")
    person = named(town, email)
    oidc.says(fresh(), account={"email": email.replace(f"vict{image}", f"vict{letter}"), "email_verified": True})
    is_refused(visitor, "unknown")
    assert identities(sql, person) == 0


def test_a_domain_that_folds_into_a_listed_one_is_not_listed(
    visitor: Visitor, oidc: Oidc, town: Town, sql: Sql
) -> None:
    domain = f"mail{next(NUMBERS)}.example"
    of_provider = "select $1, provider_id from provider_domain where domain = $2"
    sql.execute(f"insert into provider_domain (domain, provider_id) {of_provider}", domain, DOMAIN)
    email = address(domain=domain)
    person = named(town, email)
    oidc.says(fresh(), account={"email": email.replace("mail", "ma\u0130l"), "email_verified": True})
    is_refused(visitor, "unknown")
    assert identities(sql, person) == 0
    oidc.says(fresh(), account={"email": email.replace("mail", "ｍａｉｌ"), "email_verified": True})
    assert Visitor(visitor.url).come().status_code == 303, "the same domain (UTS 46)"
    assert identities(sql, person) == 1


def test_a_disabled_and_an_unknown_manager_get_the_same_answer(
    visitor: Visitor, oidc: Oidc, town: Town, sql: Sql
) -> None:
    email = address()
    person = named(town, email)
    sql.execute("update manager set is_disabled = true where username = $1", email)
    for account in ({"email": email, "email_verified": True}, {"email": address(), "email_verified": True}, {}):
        oidc.says(fresh(), account=account)
        is_refused(visitor, "unknown")
    assert identities(sql, person) == 0


def test_a_connected_manager_who_is_disabled_stays_out(
    visitor: Visitor, oidc: Oidc, dora: tuple[Person, str], sql: Sql
) -> None:
    oidc.says(dora[1])
    sql.execute("update manager set is_disabled = true where username = $1", dora[0].username)
    is_refused(visitor, "unknown")


def test_a_sign_in_redirects_only_to_own_pages(visitor: Visitor, oidc: Oidc, dora: tuple[Person, str]) -> None:
    oidc.says(dora[1])
    answer = visitor.come(next="https://elsewhere.example/console")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/console")


def test_a_form_of_another_site_begins_no_sign_in(visitor: Visitor) -> None:
    foreign = Visitor(visitor.url)
    foreign.url = "https://elsewhere.example"
    answer = foreign.go(f"{visitor.url}/console/sign-in/provider", {"name": NAME})
    assert answer.status_code == 403 and "set-cookie" not in answer.headers


def test_an_unknown_provider_is_refused(visitor: Visitor) -> None:
    answer = visitor.go("/console/sign-in/provider", {"name": "nobodys"})
    assert (answer.status_code, WORDS["provider"] in answer.text) == (403, True)
