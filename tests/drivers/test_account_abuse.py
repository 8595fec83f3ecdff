"""Attacks on the accounts of drivers."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from keyrack.core.error_codes import OTHER_ORIGIN, SIGNED_OUT
from keyrack.core.secret_hashes import digest, new_secret
from keyrack.drivers.accounts import ACCOUNT_EXISTS, NEEDS_INVITATION, NO_ACCESS, NO_CREDENTIAL
from keyrack.drivers.links import LINK_EXPIRED
from tests.support.drivers import (
    COOKIE,
    PASSWORD,
    DriverBrowser,
    driver_address,
    driver_browser,
    signed_in_driver,
)
from tests.support.people import Person, Town, done, http_client, refused
from tests.support.servers import RunningServer

START = "the start password"
LINK = """
insert into driver_link (hash, user_id, customer_id, kind, expires_at)
values ($1, $2, $3, $4, now() + $5::text::interval) on conflict (user_id, kind, coalesce(customer_id, 0))
do update set hash = excluded.hash, expires_at = excluded.expires_at
"""


def user_of(person: Person, address: str, **members: Any) -> int:
    """A driver that the person's customer has created with a start password."""
    return person.user(address, **{"type": "Normal", "password": START} | members)


def shared(person: Person, address: str) -> None:
    """Add an existing user to the person's customer."""
    done(person.put("/users/assignments/customers", {"emailAddress": address}))


def left(person: Person, address: str) -> None:
    """Remove the user from the person's customer."""
    done(person.delete("/users/assignments/customers", {"emailAddress": address}))


def link(person: Person, user: int, kind: str = "invitation", until: str = "1 hour") -> str:
    """The secret of a link. An invitation gives access to the person's customer."""
    secret = new_secret()
    customer = None if kind == "mailed" else person.customer
    person.sql.execute(LINK, digest(secret), user, customer, kind, until)
    return secret


def invitation(person: Person, user: int) -> str:
    """The secret of an invitation by the person, which lifts a withdrawal."""
    answer = person.post(f"/users/{user}/app-invitation", {})
    assert answer.status_code == 201, answer.text
    return answer.json()["link"].partition("#link=")[2]


def accept(browser: DriverBrowser, secret: str, **members: Any) -> httpx.Response:
    return browser.post("/links/accept", {"secret": secret, "password": PASSWORD} | members)


def customers(browser: DriverBrowser) -> list[int]:
    """The customers that the session sees."""
    answer = browser.get("/session")
    assert answer.status_code == 200, answer.text
    return [customer["id"] for customer in answer.json()["customers"]]


def is_wrong(answer: httpx.Response) -> bool:
    return answer.status_code == 401 and answer.json()["error"] == "invalid_grant"


def test_a_start_password_opens_nothing_and_works_until_an_account_exists(alice: Person) -> None:
    address = driver_address()
    user_of(alice, address)
    browser = driver_browser(alice)
    first = browser.sign_in(address, START)
    assert (first.status_code, list(first.json())) == (200, ["link"])
    assert "set-cookie" not in first.headers
    second = browser.sign_in(address, START).json()["link"]
    refused(accept(browser, first.json()["link"]), 404, LINK_EXPIRED)  # the newer link replaces it
    assert accept(browser, second).status_code == 201
    assert browser.is_in
    other = driver_browser(alice)
    assert is_wrong(other.sign_in(address, START))
    assert other.sign_in(address).status_code == 201
    refused(accept(other, second), 404, LINK_EXPIRED)
    done(browser.delete("/account"))
    assert is_wrong(other.sign_in(address, START))


def test_a_start_password_never_shows_cars_of_another_customer(alice: Person, bob: Person) -> None:
    address = driver_address()
    user_of(alice, address)
    shared(bob, address)
    browser = driver_browser(alice)
    accept(browser, browser.sign_in(address, START).json()["link"])
    assert customers(browser) == [alice.customer]
    assert browser.post("/token", customer=bob.customer).status_code == 404


def test_a_start_password_is_refused_after_its_customer_has_lost_the_user(alice: Person, bob: Person) -> None:
    address = driver_address()
    user = user_of(alice, address)
    shared(bob, address)
    browser = driver_browser(alice)
    early = browser.sign_in(address, START).json()["link"]
    left(alice, address)
    refused(browser.sign_in(address, START), 403, NEEDS_INVITATION)
    refused(accept(browser, early), 404, LINK_EXPIRED)
    assert not browser.is_in
    # A release before drivers' accounts recorded no customer
    alice.sql.execute("update person set password_customer = null where user_id = $1", user)
    shared(alice, address)
    refused(browser.sign_in(address, START), 403, NEEDS_INVITATION)


def test_anonymous_and_unknown_users_get_the_response_of_a_wrong_password(alice: Person) -> None:
    known, anonymous = driver_address(), driver_address()
    user_of(alice, known)
    user = alice.user(anonymous)
    browser = driver_browser(alice)
    answers = [
        browser.sign_in(known, "a wrong password"),
        browser.sign_in(anonymous, START),
        browser.sign_in(driver_address(), START),
    ]
    assert len({(answer.status_code, answer.text) for answer in answers}) == 1
    assert is_wrong(answers[0])
    refused(accept(browser, link(alice, user)), 404, LINK_EXPIRED)


def test_the_cookie_of_a_driver_opens_neither_the_api_nor_the_console(alice: Person) -> None:
    driver = signed_in_driver(alice)
    secret = driver.cookie or ""
    names = dict.fromkeys((COOKIE, "keyrack-session", "__Host-keyrack-session"), secret)
    with http_client(base_url=driver.http.base_url, cookies=names, headers=driver.http.headers) as http:
        headers = {"Customer-ID": str(alice.customer), "vendor-API-Key": alice.api_key}
        assert http.get("/v3/cars", headers=headers).status_code == 401
        assert http.get("/console/api/cars", headers=headers).status_code == 401
        bearer = {"Authorization": f"Bearer {secret}"}
        assert http.get("/v3/cars", headers=headers | bearer).status_code == 401
        assert http.get("/v3/sdk/devices", headers=bearer).status_code == 401
        assert http.get("/console/").status_code == 303


def test_credentials_of_a_manager_open_nothing_of_a_driver(alice: Person) -> None:
    assert alice.get("/drive/api/session").status_code == 401
    assert alice.app().get("/drive/api/session").status_code == 401
    with alice.browser() as console:
        refusal = console.get("/api/drive/api/session")
        assert (refusal.status_code, refusal.json()["message"]) == (401, SIGNED_OUT.text)
        secret = console.cookies["keyrack-session"]
    browser = driver_browser(alice)
    browser.http.cookies.set(COOKIE, secret)
    assert not browser.is_in
    assert is_wrong(browser.sign_in(alice.username, alice.password))


def test_a_session_ends_with_the_last_customer(alice: Person, bob: Person) -> None:
    address = driver_address()
    driver = signed_in_driver(alice, user_of(alice, address), is_proven=True)
    shared(bob, address)
    assert customers(driver) == [alice.customer, bob.customer]
    left(alice, address)
    assert customers(driver) == [bob.customer]
    left(bob, address)
    assert not driver.is_in
    assert is_wrong(driver.sign_in(address))


def test_a_withdrawn_access_ends_the_session_until_an_invitation(alice: Person) -> None:
    driver = signed_in_driver(alice, is_proven=True)
    alice.sql.execute(
        "insert into driver_withdrawn (customer_id, user_id) values ($1, $2)", alice.customer, driver.user
    )
    assert not driver.is_in
    refused(driver.sign_in(driver.address), 403, NO_ACCESS)
    refused(accept(driver, link(alice, driver.user), reset=True), 404, LINK_EXPIRED)  # made before
    assert accept(driver, invitation(alice, driver.user), reset=True).status_code == 201
    assert customers(driver) == [alice.customer]


def test_a_link_works_once_and_until_it_expires_or_is_replaced(alice: Person) -> None:
    user = user_of(alice, driver_address())
    browser = driver_browser(alice)
    late = link(alice, user, until="-1 second")
    for path in ("/links/preview", "/links/options"):
        refused(browser.post(path, {"secret": late}), 404, LINK_EXPIRED)
    refused(accept(browser, late), 404, LINK_EXPIRED)
    replaced, newest = link(alice, user), link(alice, user)
    refused(accept(browser, replaced), 404, LINK_EXPIRED)
    refused(accept(browser, newest, password=None), 400, NO_CREDENTIAL)  # which does not use it up
    assert browser.post("/links/preview", {"secret": newest}).json()["kind"] == "invitation"
    assert accept(browser, newest).status_code == 201
    refused(accept(browser, newest), 404, LINK_EXPIRED)
    refused(accept(browser, "x" * 43), 404, LINK_EXPIRED)


def test_an_invitation_to_one_customer_never_shows_another_one(alice: Person, bob: Person) -> None:
    address = driver_address()
    driver = signed_in_driver(alice, user_of(alice, address), is_proven=True)
    shared(bob, address)
    secret = link(bob, driver.user)
    thief = driver_browser(bob)  # a manager of bob's customer has seen the link
    shown = thief.post("/links/preview", {"secret": secret}).json()
    assert (shown["customer"]["id"], shown["hasAccount"], shown["resets"]) == (bob.customer, True, True)
    assert address not in str(shown)
    done(driver.post("/links/join", {"secret": secret}))
    secret = link(bob, driver.user)  # the driver has accepted one of bob's customer
    refused(accept(thief, secret), 409, ACCOUNT_EXISTS)
    assert customers(driver) == [alice.customer, bob.customer]
    assert accept(thief, secret, reset=True).status_code == 201
    assert customers(thief) == [bob.customer]
    assert not driver.is_in
    # The driver's mailbox takes the account back
    assert accept(driver, link(alice, driver.user, "mailed")).status_code == 201
    assert customers(driver) == [alice.customer, bob.customer]
    assert not thief.is_in


def test_an_invitation_joins_only_the_account_of_its_driver(alice: Person, bob: Person) -> None:
    address = driver_address()
    driver = signed_in_driver(alice, user_of(alice, address))
    shared(bob, address)
    stranger = signed_in_driver(bob)
    secret = link(bob, driver.user)
    refused(stranger.post("/links/join", {"secret": secret}), 404, LINK_EXPIRED)
    assert customers(driver) == [alice.customer]
    done(driver.post("/links/join", {"secret": secret}))
    assert customers(driver) == [alice.customer, bob.customer]
    refused(driver.post("/links/join", {"secret": secret}), 404, LINK_EXPIRED)


def test_a_mailed_link_proves_no_later_address(alice: Person) -> None:
    driver = signed_in_driver(alice, is_proven=True)
    secret = link(alice, driver.user, "mailed")
    alice.sql.execute("update person set email_address = $2, address_form = $2 where user_id = $1", driver.user,
                      driver_address())  # fmt: skip
    refused(accept(driver, secret), 404, LINK_EXPIRED)
    assert not alice.sql.value("select is_proven from driver_account where user_id = $1", driver.user)


def test_a_new_password_ends_the_other_sessions(alice: Person) -> None:
    driver = signed_in_driver(alice)
    other = driver_browser(alice)
    assert other.sign_in(driver.address).status_code == 201
    for current in (None, "a wrong password"):
        answer = driver.put("/password", {"current": current, "password": "another password"})
        assert answer.status_code == 403
    assert other.is_in
    assert driver.put("/password", {"current": PASSWORD, "password": "short"}).status_code == 400
    done(driver.put("/password", {"current": PASSWORD, "password": "another password"}))
    assert driver.is_in
    assert not other.is_in
    assert is_wrong(other.sign_in(driver.address))
    assert other.sign_in(driver.address, "another password").status_code == 201


def test_a_driver_ends_only_own_sessions(alice: Person) -> None:
    driver, stranger = signed_in_driver(alice), signed_in_driver(alice)
    foreign = stranger.get("/session").json()["sessionId"]
    assert driver.delete(f"/sessions/{foreign}").status_code == 404
    assert stranger.is_in
    other = driver_browser(alice)
    assert other.sign_in(driver.address).status_code == 201
    assert [row["isCurrent"] for row in driver.get("/sessions").json()].count(True) == 1
    done(driver.delete("/sessions"))
    assert driver.is_in
    assert not other.is_in
    assert stranger.is_in


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": None},
    ],
)
def test_no_other_page_writes_for_a_driver(alice: Person, headers: dict[str, str | None]) -> None:
    driver = signed_in_driver(alice)
    with http_client(base_url=driver.http.base_url, cookies=driver.http.cookies) as http:
        page = DriverBrowser(http)
        known = {"Origin": driver.http.headers["Origin"]} | headers
        sent = {name: value for name, value in known.items() if value is not None}
        for method, path, body in (
            ("POST", "/session", {"emailAddress": driver.address, "password": PASSWORD}),
            ("DELETE", "/session", None),
            ("POST", "/forgot", {"emailAddress": driver.address}),
            ("DELETE", "/account", None),
        ):
            refused(page.call(method, path, body, headers=sent), 403, OTHER_ORIGIN)
    assert driver.is_in


def test_an_account_has_at_most_twenty_sessions(alice: Person) -> None:
    driver = signed_in_driver(alice)
    alice.sql.execute("update driver_session set seen_at = now() - interval '1 hour' where user_id = $1", driver.user)
    browsers = [driver_browser(alice) for _ in range(20)]
    for browser in browsers:
        assert browser.sign_in(driver.address).status_code == 201
    assert not driver.is_in
    assert all(browser.is_in for browser in browsers)


@pytest.mark.parametrize(("column", "days"), [("seen_at", 90), ("created_at", 400)])
def test_a_session_expires(alice: Person, column: str, days: int) -> None:
    driver = signed_in_driver(alice)
    aged = f"update driver_session set {column} = now() - make_interval(days => $2, mins => $3) where user_id = $1"
    alice.sql.execute(aged, driver.user, days, -5)
    assert driver.is_in
    alice.sql.execute(aged, driver.user, days, 5)
    assert not driver.is_in


def test_wrong_passwords_of_a_driver_do_not_lock_the_manager_of_the_address(
    dsn: str, town: Town, server: RunningServer, sql: Any
) -> None:
    person = town.person("both")
    address = driver_address()
    person.rename(address)
    user = user_of(person, address)
    driver = signed_in_driver(person, user)
    settings = server.settings.model_copy(
        update={
            "login_rate_per_username_and_address": 1, "login_burst_per_username_and_address": 3,
            "login_rate_per_address": 1_000, "login_burst_per_address": 1_000,
        }
    )  # fmt: skip
    with RunningServer(settings, dsn) as strict:
        origin = {"Origin": strict.url}
        with http_client(base_url=strict.url, headers=origin) as http:
            browser = DriverBrowser(http)
            statuses = [browser.sign_in(address, "a wrong password").status_code for _ in range(4)]
            assert statuses == [401, 401, 401, 429]
            assert browser.sign_in(address).status_code == 429
            form = {"username": address, "password": person.password, "grant_type": "password"}
            token = http.post("/v3/oauth2/token", data=form, headers={"vendor-API-Key": person.api_key})
            assert token.status_code == 200, token.text
    assert driver.is_in
