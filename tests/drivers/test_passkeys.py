"""Passkeys of drivers, which are no passkeys of managers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from keyrack.auth.passkeys import NOT_VERIFIED
from keyrack.core.settings import Settings
from keyrack.drivers.links import LINK_EXPIRED
from keyrack.drivers.sessions import SIGN_IN_AGAIN
from tests.drivers.software_authenticator import SoftwareAuthenticator
from tests.drivers.test_account_abuse import is_wrong, link, user_of
from tests.support.drivers import PASSWORD, DriverBrowser, driver_address, driver_browser, signed_in_driver
from tests.support.people import Person, done, http_client, refused
from tests.support.servers import RunningServer

OF_MANAGER = """
insert into passkey (manager_id, credential_id, public_key, sign_count, transports, aaguid, name, is_backed_up)
select manager_id, $2, $3, 0, '{}', '', 'software', false from manager where username = $1
"""

AGE = "update driver_session set created_at = now() - make_interval(mins => $2) where user_id = $1"


@pytest.fixture(scope="module")
def local(dsn: str, settings: Settings) -> Iterator[RunningServer]:
    """A server whose address has a host name, which passkeys need."""
    with RunningServer(settings, dsn, public_url="http://localhost:{port}") as running:
        yield running


@pytest.fixture
def dana(alice: Person, local: RunningServer) -> Iterator[Person]:
    """Alice, at the server with passkeys."""
    with http_client(base_url=local.url + "/v3") as client:
        yield replace(alice, client=client)


def at(local: RunningServer) -> dict[str, Any]:
    return {"headers": {"Origin": local.settings.public_url}}


def sign_in(browser: DriverBrowser, device: SoftwareAuthenticator) -> Any:
    """Sign in with the passkey. The browser gets the challenge first."""
    options = browser.post("/session/options")
    assert options.status_code == 200, options.text
    return browser.post("/session/passkey", {"credential": device.get(options.json()["publicKey"])})


def test_a_driver_adds_a_passkey_and_signs_in_with_it(dana: Person, local: RunningServer) -> None:
    driver = signed_in_driver(dana)
    driver.http.headers["Origin"] = local.settings.public_url
    device = SoftwareAuthenticator(local.settings.public_url)
    options = driver.post("/passkeys/options").json()["publicKey"]
    assert options["user"]["name"] == f"{driver.address} (driver)"
    credential = device.create(options)
    added = driver.post("/passkeys", {"credential": credential, "name": "My phone"})
    assert added.status_code == 201, added.text
    refused(driver.post("/passkeys", {"credential": credential}), 422, NOT_VERIFIED)  # its challenge is used up
    browser = driver_browser(dana, **at(local))
    challenge = browser.post("/session/options").json()["publicKey"]
    signed = {"credential": device.get(challenge)}
    answer = browser.post("/session/passkey", signed)
    assert answer.status_code == 201, answer.text
    assert browser.is_in
    assert is_wrong(browser.post("/session/passkey", signed))
    (shown,) = driver.get("/passkeys").json()
    assert (shown["name"], shown["lastUsed"] is not None) == ("My phone", True)
    assert driver.get("/session").json()["passkeys"] == 1
    stranger = signed_in_driver(dana)
    stranger.http.headers["Origin"] = local.settings.public_url
    assert stranger.delete(f"/passkeys/{shown['id']}").status_code == 404
    done(driver.delete(f"/passkeys/{shown['id']}"))
    assert is_wrong(sign_in(driver_browser(dana, **at(local)), device))


def test_a_new_passkey_needs_a_recent_sign_in(dana: Person, local: RunningServer) -> None:
    driver = signed_in_driver(dana)
    driver.http.headers["Origin"] = local.settings.public_url
    device = SoftwareAuthenticator(local.settings.public_url)
    credential = device.create(driver.post("/passkeys/options").json()["publicKey"])
    dana.sql.execute(AGE, driver.user, local.settings.reauthentication_minutes)
    too_old = str(SIGN_IN_AGAIN.format(minutes=local.settings.reauthentication_minutes))
    refused(driver.post("/passkeys/options"), 403, too_old)
    refused(driver.post("/passkeys", {"credential": credential}), 403, too_old)
    again = driver.post("/session", {"emailAddress": driver.address, "password": PASSWORD})
    assert again.status_code == 201, again.text
    assert len(driver.get("/sessions").json()) == 1  # in place of the earlier one
    credential = device.create(driver.post("/passkeys/options").json()["publicKey"])
    assert driver.post("/passkeys", {"credential": credential}).status_code == 201


def test_a_challenge_belongs_to_one_browser(dana: Person, local: RunningServer) -> None:
    device = with_passkey(dana, local)
    options = driver_browser(dana, **at(local)).post("/session/options").json()["publicKey"]
    other = driver_browser(dana, **at(local))
    other.post("/session/options")
    assert is_wrong(other.post("/session/passkey", {"credential": device.get(options)}))


def with_passkey(dana: Person, local: RunningServer) -> SoftwareAuthenticator:
    """A driver whose account has only a passkey, from an invitation."""
    secret = link(dana, user_of(dana, driver_address()))
    browser = driver_browser(dana, **at(local))
    device = SoftwareAuthenticator(local.settings.public_url)
    options = browser.post("/links/options", {"secret": secret}).json()["publicKey"]
    accepted = browser.post("/links/accept", {"secret": secret, "credential": device.create(options)})
    assert accepted.status_code == 201, accepted.text
    assert browser.get("/session").json()["hasPassword"] is False
    refused(browser.post("/links/options", {"secret": secret}), 404, LINK_EXPIRED)
    return device


def test_an_account_may_have_a_passkey_alone(dana: Person, local: RunningServer) -> None:
    device = with_passkey(dana, local)
    browser = driver_browser(dana, **at(local))
    assert sign_in(browser, device).status_code == 201
    minutes, user = local.settings.reauthentication_minutes, browser.get("/session").json()["user"]["id"]
    dana.sql.execute(AGE, user, minutes)
    refused(
        browser.put("/password", {"password": "the first password"}), 403, str(SIGN_IN_AGAIN.format(minutes=minutes))
    )
    assert sign_in(browser, device).status_code == 201
    done(browser.put("/password", {"password": "the first password"}))
    assert browser.get("/session").json()["hasPassword"] is True


def test_a_passkey_of_a_manager_is_none_of_a_driver(dana: Person, local: RunningServer) -> None:
    handle = dana.sql.value("select subject from manager where username = $1", dana.username).bytes
    manager = SoftwareAuthenticator(local.settings.public_url, handle=handle)
    dana.sql.execute(OF_MANAGER, dana.username, manager.id, manager.public_key)
    assert is_wrong(sign_in(driver_browser(dana, **at(local)), manager))
    driver = with_passkey(dana, local)
    with http_client(base_url=local.url, **at(local)) as console:
        for device, status in ((driver, 401), (manager, 303)):
            options = console.post("/console/sign-in/challenge").json()["publicKey"]
            form = {"credential": json.dumps(device.get(options))}
            assert console.post("/console/sign-in/passkey", data=form).status_code == status


def test_a_challenge_of_the_console_signs_no_driver_in(dana: Person, local: RunningServer) -> None:
    device = with_passkey(dana, local)
    browser = driver_browser(dana, **at(local))
    options = browser.http.post("/console/sign-in/challenge").json()["publicKey"]
    browser.http.cookies.set("keyrack-drive-challenge", browser.http.cookies["keyrack-challenge"])
    assert is_wrong(browser.post("/session/passkey", {"credential": device.get(options)}))
