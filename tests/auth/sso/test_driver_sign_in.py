"""Single sign-on of drivers in the app at `/drive`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from keyrack.drivers.accounts import NO_ACCESS
from keyrack.drivers.endpoints.sso import FAILED, NO_PROVIDER, UNKNOWN
from keyrack.drivers.sessions import SIGNED_ON
from tests.auth.sso.conftest import DOMAIN, NAME, Visitor
from tests.auth.sso.oidc_provider import Oidc
from tests.auth.sso.test_login_flow import fresh
from tests.drivers.test_data_export import used
from tests.drivers.test_leaving import PASSKEY
from tests.support.drivers import PASSWORD, DriverBrowser, driver_browser, signed_in_driver
from tests.support.people import Person, Town, done
from tests.support.servers import RunningServer, Sql

SWITCH = "update provider set driver_customer_id = $2 where name = $1"


@pytest.fixture(scope="module")
def fleet(sql: Sql, federated: RunningServer) -> Iterator[Person]:
    """The person whose drivers the provider signs in."""
    person = Town(sql, federated).person("fleet")
    yield person
    person.client.close()


@pytest.fixture
def provider(fleet: Person, oidc: Oidc) -> int:
    fleet.sql.execute(SWITCH, NAME, fleet.customer)
    return fleet.sql.value("select provider_id from provider where name = $1", NAME)


def address() -> str:
    return f"{fresh()}@{DOMAIN}".lower()


def begin(browser: DriverBrowser, provider: int) -> str:
    """The query with which the provider sends the browser back."""
    answer = browser.post("/sso/options", {"providerId": provider})
    assert answer.status_code == 200, answer.text
    there = answer.json()["address"]
    assert urlsplit(parse_qs(urlsplit(there).query)["redirect_uri"][0]).path == "/drive/sso"
    return urlsplit(Visitor(str(browser.http.base_url).rstrip("/")).answered(there)).query


def come(browser: DriverBrowser, provider: int) -> httpx.Response:
    return browser.post("/sso/session", {"query": begin(browser, provider)})


def verified(oidc: Oidc, subject: str, email: str) -> None:
    oidc.says(subject, account={"email": email, "email_verified": True})


def customers(browser: DriverBrowser) -> list[int]:
    return [customer["id"] for customer in browser.get("/session").json()["customers"]]


def is_refused(answer: httpx.Response, error: Any, status: int = 403) -> bool:
    return (answer.status_code, answer.text) == (status, error.text)


def user_of_both(fleet: Person, bob: Person) -> tuple[int, str]:
    """A driver of two customers, with the address."""
    email = address()
    user = fleet.user(email, type="Normal")
    done(bob.put("/users/assignments/customers", {"emailAddress": email}))
    return user, email


def test_a_driver_signs_in_by_the_verified_address_and_then_by_the_subject(
    fleet: Person, bob: Person, oidc: Oidc, provider: int
) -> None:
    email, subject, browser = address(), fresh(), driver_browser(fleet)
    user = fleet.user(email, type="Normal")
    done(bob.put("/users/assignments/customers", {"emailAddress": email}))
    shown = browser.get("/settings").json()["providers"]
    assert shown == [{"id": provider, "name": NAME.capitalize(), "customerId": fleet.customer}]
    verified(oidc, subject, email)
    answer = come(browser, provider)
    assert (answer.status_code, answer.json()["user"]["id"]) == (201, user), answer.text
    assert "SameSite=Strict" in answer.headers["set-cookie"]
    assert customers(browser) == [fleet.customer]
    oidc.says(subject)  # without an address
    again = driver_browser(fleet)
    assert come(again, provider).status_code == 201
    assert again.get("/session").json()["user"]["id"] == user


@pytest.mark.parametrize(
    "claims", [{}, {"email_verified": False}, {"email": "x@elsewhere.example", "email_verified": True}]
)
def test_an_address_alone_signs_in_nobody(fleet: Person, oidc: Oidc, provider: int, claims: dict[str, Any]) -> None:
    email = address()
    fleet.user(email, type="Normal")
    if claims.get("email"):
        fleet.user(claims["email"], type="Normal")
    oidc.says(fresh(), account={"email": email, **claims})
    assert is_refused(come(driver_browser(fleet), provider), UNKNOWN)


def test_only_normal_users_of_the_customer_sign_in(fleet: Person, bob: Person, oidc: Oidc, provider: int) -> None:
    elsewhere, anonymous = address(), address()
    bob.user(elsewhere, type="Normal")
    fleet.user(anonymous, type="Anonymous")
    for email in (elsewhere, anonymous, address()):
        verified(oidc, fresh(), email)
        assert is_refused(come(driver_browser(fleet), provider), UNKNOWN)


def test_a_second_account_of_the_provider_is_not_connected(fleet: Person, oidc: Oidc, provider: int) -> None:
    email = address()
    fleet.user(email, type="Normal")
    verified(oidc, fresh(), email)
    assert come(driver_browser(fleet), provider).status_code == 201
    verified(oidc, fresh(), email)  # a colleague who got the address
    assert is_refused(come(driver_browser(fleet), provider), UNKNOWN)


def test_a_driver_is_no_manager_and_a_manager_is_no_driver(
    fleet: Person, town: Town, oidc: Oidc, provider: int, visitor: Visitor
) -> None:
    email, subject = address(), fresh()
    fleet.user(email, type="Normal")
    verified(oidc, subject, email)
    assert come(driver_browser(fleet), provider).status_code == 201
    assert visitor.come().status_code == 403  # the same account at the console
    assert visitor.session is None
    manager, other, mail = town.person("mary"), fresh(), address()
    manager.rename(mail)
    verified(oidc, other, mail)
    assert visitor.come().status_code == 303
    assert is_refused(come(driver_browser(fleet), provider), UNKNOWN)


def test_a_response_for_the_console_signs_in_no_driver(
    fleet: Person, oidc: Oidc, provider: int, visitor: Visitor
) -> None:
    email, subject = address(), fresh()
    fleet.user(email, type="Normal")
    verified(oidc, subject, email)
    browser = driver_browser(fleet)
    query = urlsplit(visitor.answered(visitor.begin())).query
    cookie = next(iter(visitor.cookies.values()))["keyrack-sign-in"]
    browser.http.cookies.set("keyrack-drive-challenge", cookie)
    assert is_refused(browser.post("/sso/session", {"query": query}), FAILED)
    query = begin(browser, provider)
    jar = browser.http.cookies.get("keyrack-drive-challenge", domain=browser.http.base_url.host)
    visitor.cookies[urlsplit(visitor.url).netloc]["keyrack-sign-in"] = str(jar)
    assert visitor.go(f"/console/sign-in/callback?{query}").status_code == 403


def test_a_response_is_valid_once_and_in_its_browser(fleet: Person, oidc: Oidc, provider: int) -> None:
    email = address()
    fleet.user(email, type="Normal")
    verified(oidc, fresh(), email)
    browser, other = driver_browser(fleet), driver_browser(fleet)
    query = begin(browser, provider)
    assert is_refused(other.post("/sso/session", {"query": query}), FAILED)
    assert browser.post("/sso/session", {"query": query}).status_code == 201
    assert is_refused(browser.post("/sso/session", {"query": query}), FAILED)


@pytest.mark.parametrize("query", ["", "state=a", "error=access_denied", "a=1&" * 60, "state=%ff&code=%00"])
def test_a_malformed_response_signs_in_nobody(fleet: Person, provider: int, query: str) -> None:
    assert is_refused(driver_browser(fleet).post("/sso/session", {"query": query}), FAILED)


def test_a_provider_of_managers_alone_signs_in_no_driver(fleet: Person, oidc: Oidc, provider: int) -> None:
    email = address()
    fleet.user(email, type="Normal")
    verified(oidc, fresh(), email)
    browser = driver_browser(fleet)
    query = begin(browser, provider)
    signed_in = driver_browser(fleet)
    assert come(signed_in, provider).status_code == 201
    fleet.sql.execute(SWITCH, NAME, None)
    assert browser.get("/settings").json()["providers"] == []
    assert is_refused(browser.post("/sso/options", {"providerId": provider}), NO_PROVIDER, 404)
    assert is_refused(browser.post("/sso/session", {"query": query}), FAILED)
    assert not signed_in.is_in  # the switch ends its sessions


def test_a_session_of_a_provider_cannot_change_the_account(
    fleet: Person, bob: Person, oidc: Oidc, provider: int
) -> None:
    """Else one customer's provider could open cars of another."""
    user, email = user_of_both(fleet, bob)
    own = signed_in_driver(fleet, user, is_proven=True)
    assert customers(own) == [fleet.customer, bob.customer]
    verified(oidc, fresh(), email)
    browser = driver_browser(fleet)
    assert come(browser, provider).status_code == 201
    assert customers(browser) == [fleet.customer]
    assert browser.post("/token", customer=bob.customer).status_code == 404
    for answer in (
        browser.put("/password", {"current": PASSWORD, "password": "another password"}),
        browser.post("/passkeys/options"),
        browser.post("/passkeys", {"credential": {}}),
        browser.delete("/passkeys/1"),
        browser.post("/links/join", {"secret": "x" * 43}),
        browser.delete("/account"),
    ):
        assert is_refused(answer, SIGNED_ON)
    (row,) = browser.get("/sessions").json()
    assert row["isCurrent"]
    done(browser.delete("/sessions"))
    first = own.get("/session").json()["sessionId"]
    assert browser.delete(f"/sessions/{first}").status_code == 404
    assert own.is_in
    assert len(own.get("/sessions").json()) == 2
    done(own.delete(f"/sessions/{row['id']}"))
    assert not browser.is_in


def test_a_driver_who_leaves_or_is_withdrawn_is_out(fleet: Person, bob: Person, oidc: Oidc, provider: int) -> None:
    subject = fresh()
    user, email = user_of_both(fleet, bob)
    verified(oidc, subject, email)
    browser = driver_browser(fleet)
    assert come(browser, provider).status_code == 201
    done(fleet.delete(f"/users/{user}/app-access"))
    assert not browser.is_in
    assert is_refused(come(driver_browser(fleet), provider), NO_ACCESS)
    done(fleet.delete("/users/assignments/customers", {"emailAddress": email}))
    assert is_refused(come(driver_browser(fleet), provider), UNKNOWN)


def test_the_export_of_a_providers_session_covers_its_customer_alone(
    fleet: Person, bob: Person, oidc: Oidc, provider: int
) -> None:
    user, email = user_of_both(fleet, bob)
    own = signed_in_driver(fleet, user, is_proven=True)
    fleet.sql.execute(PASSKEY, user)
    used(bob, user, "Phone at the other fleet")
    used(fleet, user, "Phone at this fleet")
    verified(oidc, fresh(), email)
    browser = driver_browser(fleet)
    assert come(browser, provider).status_code == 201
    document = browser.get("/export").json()
    assert [row["id"] for row in document["customers"]] == [fleet.customer]
    assert [row["isCurrent"] for row in document["sessions"]] == [True]
    assert document["passkeys"] == browser.get("/passkeys").json() == []
    assert "Phone at this fleet" in str(document)
    for hidden in ("Phone at the other fleet", "Security key", bob.name, "Chromium, Linux"):
        assert hidden not in str(document), hidden
    assert [phone["name"] for phone in browser.get("/phones").json()] == ["Phone at this fleet"]
    assert len(own.get("/export").json()["sessions"]) == 2


def test_a_prepared_account_shows_no_session_of_another_fleets_provider(
    fleet: Person, bob: Person, oidc: Oidc, provider: int
) -> None:
    """A manager of another fleet has accepted the driver's invitation."""
    email = address()
    user = bob.user(email, type="Normal")
    thief = signed_in_driver(bob, user)
    done(fleet.put("/users/assignments/customers", {"emailAddress": email}))
    verified(oidc, fresh(), email)
    browser = driver_browser(fleet)
    assert come(browser, provider).status_code == 201
    assert customers(thief) == [bob.customer]
    assert [row["isCurrent"] for row in thief.get("/sessions").json()] == [True]
    assert [row["isCurrent"] for row in thief.get("/export").json()["sessions"]] == [True]
    assert thief.get("/cars").json() == thief.get("/requests").json() == []
