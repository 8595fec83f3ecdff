"""Mails to drivers: texts, links, and requests for a mail."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from keyrack.core.settings import Settings
from keyrack.drivers import mails
from tests.auth.mail.test_mail import Inbox, mail_at, smtp
from tests.drivers.test_account_abuse import START, accept, customers, is_wrong, left, shared, user_of
from tests.support.drivers import PASSWORD, DriverBrowser, driver_address, driver_browser, signed_in_driver
from tests.support.people import Person, done, http_client
from tests.support.servers import RunningServer, eventually


@pytest.fixture(scope="module")
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture(scope="module")
def mailing(inbox: Inbox, dsn: str, settings: Settings) -> Iterator[RunningServer]:
    """A server that sends mail."""
    with smtp(inbox) as port, RunningServer(settings.model_copy(update=mail_at(port)), dsn) as running:
        yield running


@pytest.fixture
def page(mailing: RunningServer) -> Iterator[DriverBrowser]:
    """A browser at the server that sends mail."""
    headers = {"Origin": mailing.url, "Accept-Language": "de-AT,en;q=0.5"}
    with http_client(base_url=mailing.url, headers=headers) as http:
        yield DriverBrowser(http)


def link_in(text: str, server: RunningServer) -> str:
    found = re.search(rf"{server.url}/drive/#link=(\S+)", text)
    assert found is not None, text
    return found[1]


def newest(inbox: Inbox, address: str, count: int = 1) -> str:
    """The text of the last mail to the address, when there are `count`."""
    sent = eventually(lambda: len(inbox.to(address)) == count and inbox.to(address), "the mail")
    return inbox.text(sent[-1])


def test_a_requested_link_proves_the_mailbox(
    alice: Person, bob: Person, page: DriverBrowser, mailing: RunningServer, inbox: Inbox
) -> None:
    address, anonymous, unknown, gone = (driver_address() for _ in range(4))
    user_of(alice, address)
    shared(bob, address)
    alice.user(anonymous)
    user_of(alice, gone)
    left(alice, gone)
    for each in (anonymous, unknown, gone, address):
        done(page.post("/forgot", {"emailAddress": each}))
    text = newest(inbox, address)
    assert "Öffnen Sie diesen Link" in text
    assert [inbox.to(each) for each in (anonymous, unknown, gone)] == [[], [], []]
    secret = link_in(text, mailing)
    shown = page.post("/links/preview", {"secret": secret}).json()
    assert (shown["kind"], shown["customer"], shown["resets"]) == ("mailed", None, False)
    assert accept(page, secret).status_code == 201
    assert customers(page) == [alice.customer, bob.customer]
    assert is_wrong(driver_browser(alice).sign_in(address, START))


def test_a_proven_account_keeps_its_passkeys_and_gets_a_new_password(
    alice: Person, page: DriverBrowser, mailing: RunningServer, inbox: Inbox
) -> None:
    driver = signed_in_driver(alice, is_proven=True)
    done(driver.put("/language", {"language": "en"}))
    done(page.post("/forgot", {"emailAddress": driver.address}))
    text = newest(inbox, driver.address)
    assert "Open this link" in text
    assert accept(page, link_in(text, mailing), password=None).status_code == 201  # signs in
    assert driver.is_in
    done(page.post("/forgot", {"emailAddress": driver.address}))
    secret = link_in(newest(inbox, driver.address, 2), mailing)
    assert accept(page, secret, password="a forgotten one").status_code == 201
    assert not driver.is_in
    assert page.is_in
    assert is_wrong(driver.sign_in(driver.address, PASSWORD))


def test_an_invitation_by_mail_gives_access_and_proves_the_mailbox(
    alice: Person, bob: Person, page: DriverBrowser, mailing: RunningServer, inbox: Inbox
) -> None:
    address = driver_address()
    user = user_of(alice, address)
    shared(bob, address)
    done(bob.delete(f"/users/{user}/app-access"))  # an invitation lifts the withdrawal
    alice.sql.execute("update manager set language = 'de' where username = $1", bob.username)
    with http_client(base_url=mailing.url + "/v3", headers=bob.headers) as client:
        assert client.post(f"/users/{user}/app-invitation", json={"mail": True}).status_code == 201
    text = newest(inbox, address)
    assert "bob's fleet lädt Sie" in text
    assert accept(page, link_in(text, mailing)).status_code == 201
    assert customers(page) == [alice.customer, bob.customer]


def test_a_waiting_invitation_is_not_mailed_after_a_withdrawal(
    alice: Person, mailing: RunningServer, inbox: Inbox
) -> None:
    address = driver_address()
    user = user_of(alice, address)
    done(alice.delete(f"/users/{user}/app-access"))
    alice.sql.execute(mails.INVITE, alice.customer, user, "de", 100)
    eventually(lambda: alice.sql.value("select count(*) from mail where user_id = $1", user) == 0, "the worker")
    assert inbox.to(address) == []
    assert alice.get(f"/users/{user}/app-access").json()["isWithdrawn"]


def test_a_server_without_mail_answers_as_one_with_it(alice: Person) -> None:
    browser = driver_browser(alice)
    address = driver_address()
    user_of(alice, address)
    done(browser.post("/forgot", {"emailAddress": address}))
    assert browser.get("/settings").json()["sendsMail"] is False
    assert alice.sql.value("select count(*) from mail where audience = 'driver'") == 0
